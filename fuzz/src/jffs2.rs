//! JFFS2: edits of nodes, after which a node's checksums are right again.
//!
//! *A run*, as the input says, mounts the medium without writing, checks it, walks the tree and
//! reads; or mounts it to write, walks and changes, collects garbage, unmounts and mounts once
//! more. *Bound:* 1 MiB of heap (the compressors' tables) and 12 bytes for each byte of the medium,
//! which is there itself.

use crate::{
    files::{self, Budget},
    heap,
};
use nandlab_damage::edit::Script;
use nandlab_damage::jffs2::{BYTES, seeds};
use nandlab_damage::plant::NOW;
use nandlab_jffs2::{Choice, Compression, Jffs2, Medium, Options};
use nandlab_mtd::Mtd;
use nandlab_vfs::FileSystem;

const HEAP_PER_BYTE: usize = 12;
const HEAP_FIXED: usize = 1 << 20;

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded(HEAP_FIXED + HEAP_PER_BYTE * BYTES, || {
        survive(
            seed.edited(script),
            options(seed.options, script.options),
            script.write,
        );
    });
}

/// The seed's own way to mount, with some of the choices turned over.
fn options(own: Options, bits: u8) -> Options {
    let bit = |number: u8| bits >> number & 1 != 0;
    let choice = [
        Choice::Priority,
        Choice::Size,
        Choice::FavourLzo,
        Choice::None,
    ][usize::from(bits >> 6)];
    Options {
        endian: if bit(0) { own.endian } else { None },
        summary: own.summary != bit(1),
        sync: bit(2),
        sync_collects: !bit(3),
        resume: bit(4),
        medium: if bit(5) {
            Some(Medium::Unmarked)
        } else {
            own.medium
        },
        compression: Compression {
            choice,
            ..own.compression
        },
        inodes_kept: 4,
        ..own
    }
}

fn survive<M: Mtd>(mtd: M, options: Options, write: bool) {
    if write {
        use_it(mtd, options)
    } else {
        look(
            mtd,
            Options {
                read_only: true,
                ..options
            },
        )
    }
}

fn look<M: Mtd>(mtd: M, options: Options) {
    let Ok(mut fs) = Jffs2::mount(mtd, options) else {
        return;
    };
    _ = fs.check();
    files::walk(
        &mut fs,
        Budget {
            names: 60,
            reads: 40,
            write: false,
        },
    );
}

fn use_it<M: Mtd>(mut mtd: M, options: Options) {
    let Ok(mut fs) = Jffs2::mount(&mut mtd, options) else {
        return;
    };
    files::walk(
        &mut fs,
        Budget {
            names: 25,
            reads: 0,
            write: true,
        },
    );
    for _ in 0..10 {
        _ = FileSystem::work(&mut fs, NOW);
    }
    _ = fs.sync();
    _ = fs.unmount();
    _ = Jffs2::mount(mtd, options);
}
