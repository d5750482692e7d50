//! ext2 and ext3: neither has checksums. One seed has transactions in its journal that a mount must
//! recover.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 2 MiB of heap,
//! with what was written.

use crate::disk::{self, Volume};
use nandlab_block::{BlockDevice, Ram};
use nandlab_damage::edit::Script;
use nandlab_damage::ext::TARGET;
use nandlab_ext::{Ext, Mode, Options};

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    disk::run(&TARGET, input, 2 << 20, survive);
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
