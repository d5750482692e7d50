//! F2FS: edits of any structure; the checksums of both checkpoints are right again afterwards,
//! unless the input says not to.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 4 MiB of heap,
//! with what was written.

use crate::disk::{self, Volume};
use nandlab_block::{BlockDevice, Ram};
use nandlab_damage::edit::Script;
use nandlab_damage::f2fs::TARGET;
use nandlab_f2fs::{F2fs, Options};

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    disk::run(&TARGET, input, 4 << 20, survive);
}

fn survive(ram: &mut Ram, script: Script<'_>) {
    let bit = |number: u8| script.options >> number & 1 != 0;
    let own = Options::default();
    let options = Options {
        cache_bytes: 64 * 1024,
        discard: bit(1),
        roll_forward: !bit(2),
        inline_data: !bit(3),
        inline_names: !bit(4),
        ..own
    };
    disk::survive(ram, script, &|ram, read_only| {
        let volume = F2fs::mount(
            ram,
            Options {
                read_only,
                ..options
            },
        );
        Some(Box::new(volume.ok()?))
    });
}

impl<D: BlockDevice> Volume for F2fs<D> {
    fn check(&mut self) {
        _ = F2fs::check(self);
    }
}
