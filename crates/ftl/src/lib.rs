//! Translation layers: raw flash in, a disk out.
//!
//! *Promises.* Every scheme is a `BlockDevice` over any `Mtd`, keeps its map on the flash itself
//! and comes back from the medium alone after a power cut at any operation: what was flushed is
//! there, nothing that was never written appears. Program and erase failures and bad blocks are
//! survived.
//!
//! *In terms of* `mtd` and `block`. *Knows nothing of* chips' times, file systems, who is asking.
//!
//! | module | its one idea |
//! |---|---|
//! | [`logblock`] | block mapping with a few page-mapped log blocks: BAST, SAST, FAST |
//! | [`mtdblock`] | fixed places behind a cache of one erase block, as Linux has it; its power-cut promise is weaker |
//! | [`nftl`] | chains of replacement units: Linux's NFTL, on its own format |
//! | [`page`] | page mapping: any logical page on any flash page |
//! | [`write_cache`] | a write cache in front of any of them |
//! | `victim` | which block to collect next |
//! | `mapped` | a layer of your own from a map of pages |
//! | [`media`] | what a page says of the layer that wrote it |
//! | `layer` | each scheme as a `Layer` over flash |
//! | `tag` | the tag of page mapping and of the log-block layers |
//! | `tally`, `tallied` | who caused which flash operation |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod extent;
mod fault;
mod layer;
pub mod logblock;
mod mapped;
pub mod media;
pub mod mtdblock;
pub mod nftl;
pub mod page;
mod pool;
mod tag;
mod tallied;
mod tally;
mod victim;
pub mod write_cache;

pub use fault::Health;
pub use mapped::{Mapped, PageMap};
pub use tallied::Tallied;
pub use tally::{Cause, CauseCounts, MapCache, Merges, SlcCacheCounts, Tally};
pub use victim::Victim;

use alloc::boxed::Box;
use nandlab_block::{BlockDevice, BlockError};
use nandlab_mtd::{Block, Mtd, MtdError};
use nandlab_sim::LayerFault;
use write_cache::CacheCounts;

/// A translation layer: a disk whose flash and statistics can be looked at.
///
/// **Detach.** A layer that was detached attaches quickly. A layer that was dropped instead comes
/// back as after a power cut: flushed sectors are there.
///
/// ```
/// use nandlab_block::{BlockDevice, Lba};
/// use nandlab_ftl::mtdblock::MtdBlock;
/// use nandlab_ftl::{AttachError, Ftl};
/// use nandlab_mtd::{Block, Mtd};
/// use nandlab_nand::{Chip, preset};
///
/// /// Writes a sector and counts the page programs that this took.
/// fn programs(ftl: &mut impl Ftl) -> Result<u64, AttachError> {
///     ftl.write(Lba(0), &[7; 512])?;
///     ftl.detach()?;
///     Ok(ftl.tally().rows().map(|(_, counts)| counts.programs).sum())
/// }
///
/// let spec = preset::find("small-block-64MiB").unwrap().spec();
/// let chip = Chip::new(spec).unwrap();
/// let mut ftl = MtdBlock::format(chip)?;
/// // A block is rewritten whole.
/// let pages = ftl.medium().geometry().pages_per_block;
/// assert_eq!(programs(&mut ftl)?, u64::from(pages));
/// assert_eq!(ftl.valid_pages(Block(0)), pages);
/// # Ok::<(), AttachError>(())
/// ```
pub trait Ftl: BlockDevice {
    /// The type of the flash below.
    type Medium: Mtd;

    /// The flash below, to be looked at.
    fn medium(&self) -> &Self::Medium;

    /// Flash operations by cause.
    fn tally(&self) -> &Tally;

    /// The counts of a write cache in front. `None` without one.
    fn write_cache(&self) -> Option<CacheCounts> {
        None
    }

    /// Pages of a block that hold the newest version of something, for maps of the chip.
    fn valid_pages(&self, block: Block) -> u32 {
        let _ = block;
        0
    }

    /// Writes whatever makes the next attach quick, and makes everything durable.
    fn detach(&mut self) -> Result<(), BlockError> {
        self.flush()
    }

    /// Gives the flash back as it is, without another operation.
    fn into_medium(self: Box<Self>) -> Self::Medium;
}

impl<F: Ftl + ?Sized> Ftl for Box<F> {
    type Medium = F::Medium;

    fn medium(&self) -> &F::Medium {
        (**self).medium()
    }

    fn tally(&self) -> &Tally {
        (**self).tally()
    }

    fn write_cache(&self) -> Option<CacheCounts> {
        (**self).write_cache()
    }

    fn valid_pages(&self, block: Block) -> u32 {
        (**self).valid_pages(block)
    }

    fn detach(&mut self) -> Result<(), BlockError> {
        (**self).detach()
    }

    fn into_medium(self: Box<Self>) -> F::Medium {
        (*self).into_medium()
    }
}

/// Why a medium could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// No layer of this kind was ever formatted here, or its header is lost.
    #[error("no header of this translation layer found on the medium")]
    NotFormatted,
    /// No header was found, and a page that may hold it cannot be read.
    #[error("the header of this translation layer cannot be read")]
    Unreadable(#[source] LayerFault),
    /// The chip is too small or the spare space too little.
    #[error(
        "{0} erase blocks cannot hold {1} logical pages with the spare blocks that collection \
         needs ({2}); expected more blocks or more over-provisioning"
    )]
    TooSmall(u32, u32, u32),
    /// The memory for map pages is too small.
    #[error(
        "a map cache of {0} bytes holds fewer than two map pages of {1} bytes; expected the size \
         of at least two"
    )]
    MapCache(u64, u32),
    /// An SLC cache needs multi-level cells that can hold one bit.
    #[error("an SLC cache needs flash with an SLC mode; expected a chip of multi-level cells")]
    NoSlcMode,
    /// The medium was formatted with other parameters, or by a newer version.
    #[error("{what} is {found} on the medium, expected {expected}")]
    Mismatch {
        /// The parameter that differs.
        what: &'static str,
        /// The value on the medium.
        found: u32,
        /// Of this chip and program.
        expected: u32,
    },
    /// The flash below refused a request.
    #[error(transparent)]
    Mtd(#[from] MtdError),
    /// The layer could not write what it needs.
    #[error(transparent)]
    Write(#[from] BlockError),
}
