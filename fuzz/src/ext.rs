//! ext2 and ext3: neither has checksums. One seed has transactions in its journal that a mount must
//! recover.
//!
//! *A run*, as the input says, mounts the volume without writing, checks it, walks and reads; or
//! mounts it to write, walks and changes, unmounts and mounts once more. *Bound:* 2 MiB of heap,
//! with what was written.

use crate::{
    disk::Disk,
    edit::Script,
    files::{self, Budget, NOW},
    heap,
};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, Mode, Options, format};
use nandlab_vfs::{Caller, FileSystem, Ino};
use std::sync::OnceLock;

/// One run.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded(2 << 20, || {
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
    if !script.write {
        let Ok(mut ext) = Ext::mount(
            ram,
            Options {
                read_only: true,
                ..options
            },
        ) else {
            return;
        };
        _ = ext.check();
        return files::walk(
            &mut ext,
            Budget {
                names: 60,
                reads: 40,
                write: false,
            },
        );
    }
    let Ok(mut ext) = Ext::mount(&mut *ram, options) else {
        return;
    };
    files::walk(
        &mut ext,
        Budget {
            names: 30,
            reads: 0,
            write: true,
        },
    );
    _ = ext.sync();
    _ = ext.unmount();
    drop(ext);
    _ = Ext::mount(ram, options);
}
