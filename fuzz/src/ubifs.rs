//! UBIFS: edits of nodes and of the properties tree, after which their checksums are right again.
//!
//! *A run*, as the input says, mounts the volume without writing, or salvages it; it checks, walks
//! the tree and reads, and lists the past. Or it mounts the volume to write, walks and changes,
//! unmounts and mounts once more. *Bound:* 4 MiB of heap, with the volume of 400 kB.

use crate::files::{self, Budget};
use crate::heap;
use nandlab_damage::edit::Script;
use nandlab_damage::ubifs::{LEB, LEBS, seeds};
use nandlab_ubifs::{Bare, Ubifs};
use nandlab_vfs::FileSystem;

const HEAP: usize = 4 << 20;

type Volume = Ubifs<Bare<Vec<u8>>>;

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded(HEAP, || {
        let lebs = Bare::with(seed.edited(script), LEB as u32, LEBS as u32);
        match (script.write, script.options & 3) {
            (true, _) => use_it(lebs),
            (false, 0) => look(Ubifs::salvage(lebs).ok(), script.options),
            (false, _) => look(Ubifs::mount(lebs).ok(), script.options),
        }
    });
}

fn look(fs: Option<Volume>, options: u8) {
    let Some(mut fs) = fs else {
        return;
    };
    _ = fs.check();
    if options & 4 != 0 {
        _ = fs.reconnect();
    }
    if options & 8 != 0 {
        _ = fs.past(&mut |_, _| {});
    }
    let budget = Budget {
        names: 60,
        reads: 40,
        write: false,
    };
    files::walk(&mut fs, budget);
}

fn use_it(lebs: Bare<Vec<u8>>) {
    let Ok(mut fs) = Ubifs::mount_writable(lebs) else {
        return;
    };
    let budget = Budget {
        names: 25,
        reads: 0,
        write: true,
    };
    files::walk(&mut fs, budget);
    _ = fs.sync();
    _ = fs.unmount();
    _ = Ubifs::mount(fs.into_lebs());
}
