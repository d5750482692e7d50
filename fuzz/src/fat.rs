//! FAT12, FAT16 and FAT32: the format has no checksums that stand in the way.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 1 MiB of heap,
//! with what was written.

use crate::{
    disk::Disk,
    edit::Script,
    files::{self, Budget},
    heap,
};
use nandlab_block::Ram;
use nandlab_fat::{Bits, Fat, Format, Options, format};
use nandlab_vfs::FileSystem;
use std::sync::OnceLock;

const SECTORS: u64 = 5000;

/// One run.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded(1 << 20, || {
        let mut disk = seed.clone();
        script.edits().for_each(|edit| disk.edit(edit));
        survive(&mut disk.ram, script);
    });
}

/// The same medium, as edited, for others than this target.
#[cfg(feature = "image")]
pub(crate) fn edited(script: Script<'_>) -> Ram {
    let seeds = seeds();
    let mut disk = seeds[script.seed % seeds.len()].clone();
    script.edits().for_each(|edit| disk.edit(edit));
    disk.ram
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
    if !script.write {
        let Ok(mut fat) = Fat::mount(
            ram,
            Options {
                read_only: true,
                ..options
            },
        ) else {
            return;
        };
        _ = fat.check();
        return files::walk(
            &mut fat,
            Budget {
                names: 60,
                reads: 40,
                write: false,
            },
        );
    }
    let Ok(mut fat) = Fat::mount(&mut *ram, options) else {
        return;
    };
    files::walk(
        &mut fat,
        Budget {
            names: 30,
            reads: 0,
            write: true,
        },
    );
    _ = fat.sync();
    _ = fat.unmount();
    drop(fat);
    _ = Fat::mount(ram, options);
}
