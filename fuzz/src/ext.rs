//! ext2 and ext3: neither has checksums. One seed has transactions in its journal that a mount must
//! recover.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 2 MiB of heap,
//! with what was written.

use crate::{
    disk::{self, Disk, Target, Volume},
    edit::Script,
    files::{self, NOW},
};
use nandlab_block::{BlockDevice, Ram};
use nandlab_ext::{Ext, Format, Mode, Options, format};
use nandlab_vfs::{Caller, FileSystem, Ino};
use std::sync::OnceLock;

const TARGET: Target = Target {
    seeds,
    mend: |_, _| {},
    survive,
};

/// One run.
pub fn run(input: &[u8]) {
    TARGET.run(input, 2 << 20);
}

/// The same medium, as edited, for others than this target.
#[cfg(feature = "image")]
pub(crate) fn edited(script: Script<'_>) -> Ram {
    TARGET.edited(script)
}

fn seeds() -> &'static [Disk] {
    static SEEDS: OnceLock<Vec<Disk>> = OnceLock::new();
    SEEDS.get_or_init(|| vec![seed(false, true), seed(true, true), seed(true, false)])
}

fn seed(journal: bool, unmount: bool) -> Disk {
    let mut ram = Ram::new(512, if journal { 5200 } else { 2400 });
    let choices = Format {
        journal,
        journal_blocks: journal.then_some(1024),
        inode_ratio: Some(8192),
        ..Format::default()
    };
    format(&mut ram, &choices).expect("a volume of this size");
    let mut ext = Ext::mount(&mut ram, Options::default()).expect("a new volume");
    files::plant(&mut ext, 12, 20_000).expect("room for the tree");
    let many = ext
        .mkdir(Ino::ROOT, b"many", 0o755, Caller::root(NOW))
        .expect("room for a directory")
        .ino;
    for number in 0..60 {
        // More than a block of names: the directory gets an index.
        let name = format!("a name that is long so that an index is needed {number}");
        ext.symlink(many, name.as_bytes(), b"target", Caller::root(NOW))
            .expect("room for a link");
    }
    if unmount { ext.unmount() } else { ext.sync() }.expect("a disk without faults");
    drop(ext);
    Disk::new(ram)
}

fn survive(ram: &mut Ram, script: Script<'_>) {
    let bit = |number: u8| script.options >> number & 1 != 0;
    let mode =
        [Mode::Ordered, Mode::Journal, Mode::Writeback][usize::from(script.options >> 6) % 3];
    let options = Options {
        mode,
        cache_bytes: if bit(0) { 64 * 1024 } else { 16 * 1024 },
        discard: bit(1),
        sync: bit(2),
        ..Options::default()
    };
    disk::survive(ram, script, &|ram, read_only| {
        let volume = Ext::mount(
            ram,
            Options {
                read_only,
                ..options
            },
        );
        Some(Box::new(volume.ok()?))
    });
}

impl<D: BlockDevice> Volume for Ext<D> {
    fn check(&mut self) {
        _ = Ext::check(self);
    }
}
