//! A run on an edited disk.
//!
//! *Knows nothing of* formats: a format gives its target and mounts.

use crate::files::{self, Budget};
use crate::heap;
use nandlab_block::Ram;
use nandlab_damage::disk::Target;
use nandlab_damage::edit::Script;
use nandlab_vfs::FileSystem;

/// A mounted volume that can be checked.
pub trait Volume: FileSystem {
    /// Checks the volume; the findings do not matter.
    fn check(&mut self);
}

/// Mounts a disk, read-only or not.
pub type Mount<'m> = &'m dyn for<'a> Fn(&'a mut Ram, bool) -> Option<Box<dyn Volume + 'a>>;

/// One run with at most `heap` bytes.
pub fn run(target: &Target, input: &[u8], heap: usize, survive: fn(&mut Ram, Script<'_>)) {
    let script = Script::new(input);
    // Made before the count of the heap begins.
    (target.seeds)();
    heap::bounded(heap, || survive(&mut target.edited(script), script));
}

/// Mounts the volume without writing, checks it, walks and reads; or mounts it to write, walks and
/// changes, unmounts and mounts once more.
pub fn survive(ram: &mut Ram, script: Script<'_>, mount: Mount<'_>) {
    let Some(mut fs) = mount(ram, !script.write) else {
        return;
    };
    if !script.write {
        fs.check();
        let reading = Budget {
            names: 60,
            reads: 40,
            write: false,
        };
        return files::walk(&mut fs, reading);
    }
    let writing = Budget {
        names: 30,
        reads: 0,
        write: true,
    };
    files::walk(&mut fs, writing);
    _ = fs.sync();
    _ = fs.unmount();
    drop(fs);
    _ = mount(ram, false);
}
