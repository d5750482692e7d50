//! Volumes on which the nodes behind the last checkpoint come in the eight orders that Linux's
//! `fs/f2fs/recovery.c` lists.

use super::{bytes, mount, put};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{Format, format};
use nandlab_vfs::{FileSystem, Ino, Sync};

const BLOCK: usize = 4096;
/// Byte offsets in a node: number, inode, marks.
const NID: usize = 4072;
const INO: usize = 4076;
const FLAG: usize = 4080;
const NEXT: usize = 4092;
/// Marks of an fsync, and of one whose inode brings its name along.
const F: u32 = 2;
const D: u32 = 4;

/// A node of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Inode(u32),
    Direct(u32),
}

/// Which version a recovered file has in the block that its inode lists, and in the one that its
/// direct node lists.
pub type Found = Option<(u64, u64)>;

/// An order of a file's two nodes, and what must be found.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The checkpoint has the file, in version 1.
    pub old: bool,
    pub nodes: [Node; 2],
    pub found: Found,
}

/// The eight, in Linux's order.
pub const CASES: [Case; 8] = [
    Case {
        old: true,
        nodes: [Node::Inode(0), Node::Direct(F)],
        found: Some((2, 2)),
    },
    Case {
        old: true,
        nodes: [Node::Inode(F), Node::Direct(F)],
        found: Some((2, 2)),
    },
    Case {
        old: true,
        nodes: [Node::Direct(F), Node::Inode(0)],
        found: Some((1, 2)),
    },
    Case {
        old: true,
        nodes: [Node::Direct(F), Node::Inode(F)],
        found: Some((2, 2)),
    },
    Case {
        old: false,
        nodes: [Node::Inode(0), Node::Direct(F)],
        found: None,
    },
    Case {
        old: false,
        nodes: [Node::Inode(D | F), Node::Direct(F)],
        found: Some((2, 2)),
    },
    Case {
        old: false,
        nodes: [Node::Direct(F), Node::Inode(D | F)],
        found: Some((2, 2)),
    },
    Case {
        old: false,
        nodes: [Node::Direct(F), Node::Inode(0)],
        found: None,
    },
];

/// A block that the inode lists, and one that the first direct node lists.
pub const PLACES: [u64; 2] = [5 * BLOCK as u64, 930 * BLOCK as u64];

pub fn name(number: usize) -> String {
    format!("case {}", number + 1)
}

pub fn contents(number: usize, version: u64, place: u64) -> Vec<u8> {
    bytes(1000 * number as u64 + 10 * version + place % 7, BLOCK)
}

/// A volume after a power cut, with these cases in its chain.
pub fn volume(cases: &[(usize, Case)]) -> Ram {
    let mut disk = super::ram(64 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut f2fs = mount(&mut disk);
    let write = |f2fs: &mut nandlab_f2fs::F2fs<&mut Ram>, file, number, version| {
        for place in PLACES {
            f2fs.write(file, place, &contents(number, version, place), super::NOW)
                .unwrap();
        }
    };
    for (number, _) in cases.iter().filter(|(_, case)| case.old) {
        let file = put(&mut f2fs, Ino::ROOT, &name(*number), b"");
        write(&mut f2fs, file, *number, 1);
        f2fs.forget(file, 1);
    }
    f2fs.sync().unwrap();
    let mut inodes = Vec::new();
    for (number, case) in cases {
        let name = name(*number);
        let file = if case.old {
            f2fs.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino
        } else {
            put(&mut f2fs, Ino::ROOT, &name, b"")
        };
        write(&mut f2fs, file, *number, 2);
        f2fs.fsync(file, Sync::All).unwrap();
        inodes.push(file.0 as u32);
    }
    assert_eq!(f2fs.counts().roll_forwards, cases.len() as u64);
    drop(f2fs);
    cases
        .iter()
        .zip(inodes)
        .for_each(|((_, case), ino)| arrange(&mut disk, ino, case.nodes));
    disk
}

fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().unwrap())
}

/// Brings the two nodes that an fsync of a file has written into another order, with other marks.
/// Each goes on naming the place behind its own.
fn arrange(disk: &mut Ram, ino: u32, nodes: [Node; 2]) {
    let mut found: Vec<(Lba, Vec<u8>)> = Vec::new();
    for at in 0..disk.geometry().bytes() / BLOCK as u64 {
        let lba = Lba(at * 8);
        let mut block = vec![0; BLOCK];
        disk.read(lba, &mut block).unwrap();
        let owner = word(&block, INO);
        let flags = word(&block, FLAG);
        // No inode of this volume is as large as a block of contents happens to say.
        if owner == ino && flags & F != 0 && flags >> 3 < 2 {
            found.push((lba, block));
        }
    }
    assert_eq!(found.len(), 2, "the nodes of inode {ino}");
    let is_inode = |block: &[u8]| word(block, NID) == ino;
    let next = [0, 1].map(|at| word(&found[at].1, NEXT));
    for (place, node) in nodes.into_iter().enumerate() {
        let (inode, marks) = match node {
            Node::Inode(marks) => (true, marks),
            Node::Direct(marks) => (false, marks),
        };
        let mut block = found
            .iter()
            .find(|(_, block)| is_inode(block) == inode)
            .unwrap()
            .1
            .clone();
        let flags = word(&block, FLAG) & !(F | D) | marks;
        block[FLAG..FLAG + 4].copy_from_slice(&flags.to_le_bytes());
        block[NEXT..NEXT + 4].copy_from_slice(&next[place].to_le_bytes());
        disk.write(found[place].0, &block).unwrap();
    }
}
