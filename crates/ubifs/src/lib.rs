//! UBIFS over the logical blocks of a UBI volume.
//!
//! *Promises.* [`Ubifs`] is a [`FileSystem`](nandlab_vfs::FileSystem) on volumes as Linux and
//! mkfs.ubifs write them, formats 4 and 5, with each of their compressors. It shows the tree that
//! Linux shows after a mount: the committed index with the journal replayed, and, after a power
//! cut, with the recovery of each torn place. [`Ubifs::mount`] does all of that in memory and never
//! writes; [`Ubifs::mount_writable`] writes it, and takes all calls. [`format`](format()) makes an
//! empty volume. The checksum of every node is compared before the node is used, those of file
//! contents too. [`check`](Ubifs::check) reads all that is reachable, and the properties of all
//! blocks. [`salvage`](Ubifs::salvage) mounts the rest of a damaged volume. No volume, whatever
//! its bytes, makes any of them panic, loop for ever, or take more memory than some 150 bytes for
//! each node (a salvage: 250) and a few logical blocks.
//!
//! *Works on* [`Lebs`]: a volume of UBI, or the bytes of one. *Knows nothing of* erase blocks,
//! files or clocks.
//!
//! *Map.* `format` has the bytes of the nodes; `lebs` is the medium; `scan` finds the nodes of a
//! logical block; `master` and `log` lead to the last commit and to the journal; `index` holds
//! where each node lies; `replay`, `sizes` and `orphans` bring it up to date; `mount` does all
//! this in order; `node`, `inode`, `dir`, `file` and `xattr` read what the index points to, for
//! `calls`; `lpt` holds the properties of blocks; `check` and `space` go through everything.
//! To write: `make` begins a volume, and `shorten` ends an image; `ready` begins a mount, with
//! `fixup` for volumes from a programmer; `names`, `contents`, `xattr` and `batch` turn calls into
//! groups of nodes, for the heads of `journal`; `commit` writes the index of `tree` through
//! `index_out`, the properties of `blocks` and `lpt_tree`, and the orphans; `collect` makes room,
//! and `room` tells how much there is. Of a damaged volume, `survey` finds every node: `salvage`
//! makes an index of them, `guess` a superblock, and `reconnect` names for inodes without a path.
//! `past` tells of former nodes.
//!
//! *Power loss.* A call is one group of nodes, which is there or not; contents are written block by
//! block. What was fsynced or synced is there. Linux's rules of recovery hold, and a torn write may
//! read as erased.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod batch;
mod blocks;
mod bug;
mod calls;
mod check;
mod collect;
mod commit;
mod compress;
mod contents;
mod dir;
mod error;
mod file;
mod finding;
mod fixup;
pub mod format;
mod guess;
mod index;
mod index_out;
mod inode;
mod journal;
mod lebs;
mod log;
mod lpt;
mod lpt_tree;
mod make;
mod master;
mod mount;
mod names;
mod node;
mod orphans;
mod past;
mod ready;
mod reconnect;
mod replay;
mod room;
mod salvage;
mod scan;
mod shorten;
mod sizes;
mod space;
mod survey;
mod tree;
mod volume;
mod writer;
mod xattr;

#[doc(hidden)]
pub use bug::{SeededBug, Switches};
pub use check::Totals;
pub use compress::{Packed, Packer};
pub use error::UbifsError;
pub use finding::Finding;
pub use lebs::{Bare, LebError, LebShape, Lebs, UbiLebs};
pub use make::{Format, format};
pub use mount::{Journal, Ubifs};
pub use past::Past;
pub use volume::UbifsVolume;
pub use writer::Counts;

/// The length of a logical block of a volume without a superblock, by the places that its nodes
/// name. `None` if there are too few nodes.
pub fn leb_bytes(mut bytes: &mut dyn nandlab_sim::Backing) -> Option<u32> {
    guess::leb_bytes(&mut bytes)
}

/// Bytes of the volume that begins with `head`, if a sound superblock does.
pub fn declared_bytes(head: &[u8]) -> Option<u64> {
    let (leb, lebs) = format::Super::declared(head)?;
    Some(u64::from(leb) * u64::from(lebs))
}
