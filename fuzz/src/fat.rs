//! FAT12, FAT16 and FAT32: the format has no checksums that stand in the way.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 1 MiB of heap,
//! with what was written.

use crate::{
    disk::{self, Disk, Target, Volume},
    edit::Script,
    files,
};
use nandlab_block::{BlockDevice, Ram};
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_vfs::FileSystem;
use std::sync::OnceLock;

const SECTORS: u64 = 5000;

const TARGET: Target = Target {
    seeds,
    mend: |_, _| {},
    survive,
};

/// One run.
pub fn run(input: &[u8]) {
    TARGET.run(input, 1 << 20);
}

/// The same medium, as edited, for others than this target.
#[cfg(feature = "image")]
pub(crate) fn edited(script: Script<'_>) -> Ram {
    TARGET.edited(script)
}

fn seeds() -> &'static [Disk] {
    static SEEDS: OnceLock<Vec<Disk>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        [(Bits::Fat16, 1), (Bits::Fat12, 2), (Bits::Fat32, 2)]
            .map(|(bits, cluster)| seed(bits, cluster))
            .into()
    })
}

fn seed(bits: Bits, cluster: u32) -> Disk {
    let mut ram = Ram::new(512, SECTORS);
    let choices = Format {
        bits: Some(bits),
        cluster_sectors: Some(cluster),
        label: Some(b"SEED".to_vec()),
        ..Format::default()
    };
    format(&mut ram, &choices).expect("a volume of this size");
    let mut fat = Fat::mount(&mut ram, Options::default()).expect("a new volume");
    files::plant(&mut fat, 12, 6000).expect("room for the tree");
    fat.unmount().expect("a disk without faults");
    drop(fat);
    Disk::new(ram)
}

fn survive(ram: &mut Ram, script: Script<'_>) {
    let bit = |number: u8| script.options >> number & 1 != 0;
    let options = Options {
        cache_bytes: if bit(0) { 16 * 1024 } else { 4096 },
        discard: bit(1),
        sync: bit(2),
        ..Options::default()
    };
    disk::survive(ram, script, &|ram, read_only| {
        let volume = Fat::mount(
            ram,
            Options {
                read_only,
                ..options
            },
        );
        Some(Box::new(volume.ok()?))
    });
}

impl<D: BlockDevice> Volume for Fat<D> {
    fn check(&mut self) {
        _ = Fat::check(self);
    }
}
