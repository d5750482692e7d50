//! ext2 and ext3: neither has checksums. One good volume has transactions in its journal that a
//! mount must recover.

use crate::{
    disk::{Disk, Target},
    plant::{self, NOW},
};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, Options, format};
use nandlab_vfs::{Caller, FileSystem, Ino};
use std::sync::OnceLock;

/// Its good volumes and checksums.
pub const TARGET: Target = Target {
    seeds,
    repair: |_, _| {},
};

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
    plant::plant(&mut ext, 12, 20_000).expect("space for the tree");
    fill(&mut ext);
    if unmount { ext.unmount() } else { ext.sync() }.expect("a disk without faults");
    drop(ext);
    Disk::new(ram)
}

/// Makes a directory with an index, which takes more than a block of names.
fn fill<D: nandlab_block::BlockDevice>(ext: &mut Ext<D>) {
    let many = ext
        .mkdir(Ino::ROOT, b"many", 0o755, Caller::root(NOW))
        .expect("space for a directory")
        .ino;
    for number in 0..60 {
        let name = format!("a name that is long so that an index is needed {number}");
        ext.symlink(many, name.as_bytes(), b"target", Caller::root(NOW))
            .expect("space for a link");
    }
}
