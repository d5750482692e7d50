//! FAT12, FAT16 and FAT32: the format has no checksums that stand in the way.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 1 MiB of heap,
//! with what was written.

use crate::disk::{self, Volume};
use nandlab_block::{BlockDevice, Ram};
use nandlab_damage::edit::Script;
use nandlab_damage::fat::TARGET;
use nandlab_fat::{Fat, Options};

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    disk::run(&TARGET, input, 1 << 20, survive);
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
