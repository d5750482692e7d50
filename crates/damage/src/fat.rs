//! FAT12, FAT16 and FAT32: the format has no checksums that stand in the way.

use crate::{
    disk::{Disk, Target},
    plant,
};
use nandlab_block::Ram;
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_vfs::FileSystem;
use std::sync::OnceLock;

const SECTORS: u64 = 5000;

/// Its good volumes and checksums.
pub const TARGET: Target = Target {
    seeds,
    repair: |_, _| {},
};

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
    plant::plant(&mut fat, 12, 6000).expect("space for the tree");
    fat.unmount().expect("a disk without faults");
    drop(fat);
    Disk::new(ram)
}
