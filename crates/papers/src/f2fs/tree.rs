//! The wandering tree: what an update of 4 KiB takes along, in F2FS and in a log whose index names
//! places.
//!
//! F2FS's blocks are counted in runs on a disk in memory. Those of the conventional index (Sprite
//! LFS: inode map, inode, pointer blocks) are counted for the same updates: a block that moves
//! changes the block that names it, up to the inode and the map of inodes.

use crate::PaperError;
use nandlab_block::{Counter, Ram};
use nandlab_f2fs::{F2fs, Options};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, SetAttr, Sync, Time};
use std::collections::BTreeSet;
use std::error::Error;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Pointers of a pointer block, of both.
const FAN: u64 = 1018;
/// Places in an inode.
const DIRECT: u64 = 923;
/// Updates of each row.
pub const UPDATES: u64 = 256;

/// Where in a file updates fall.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    pub name: &'static str,
    /// Pointer blocks between inode and data.
    pub levels: u32,
    /// First block and number of blocks.
    blocks: (u64, u64),
}

/// From the inode to the double-indirect tree.
pub const DEPTHS: [Depth; 4] = [
    Depth {
        name: "in the inode",
        levels: 0,
        blocks: (0, 800),
    },
    Depth {
        name: "below direct nodes",
        levels: 1,
        blocks: (DIRECT, 2 * FAN),
    },
    Depth {
        name: "below indirect nodes",
        levels: 2,
        blocks: (DIRECT + 2 * FAN, 2 * FAN * FAN),
    },
    Depth {
        name: "below the double-indirect node",
        levels: 3,
        blocks: (DIRECT + 2 * FAN + 2 * FAN * FAN, 16 * FAN * FAN),
    },
];

/// Blocks besides data for each update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// F2FS, each update made durable: nodes.
    pub nodes: f64,
    /// F2FS, all updates made durable by one checkpoint: nodes.
    pub nodes_together: f64,
    /// As `nodes_together`: tables, summaries, the checkpoint.
    pub tables_together: f64,
    /// The conventional index, each update made durable.
    pub conventional: f64,
    /// The conventional index, all made durable at once.
    pub conventional_together: f64,
}

/// Counts updates at one depth.
pub fn count(depth: &Depth) -> Result<Taken, PaperError> {
    counted(depth).map_err(|error| PaperError::wrong(format!("updates {}", depth.name), error))
}

fn counted(depth: &Depth) -> Result<Taken, Box<dyn Error>> {
    let mut disk = Counter::new(Ram::new(512, (512 << 20) / 512));
    nandlab_f2fs::format(&mut disk, &nandlab_f2fs::Format::default())?;
    let options = Options {
        inline_data: false,
        cleaning_interval: 0,
        discard: false,
        ..Options::default()
    };
    let mut fs = F2fs::mount(disk, options)?;
    let places = places(depth);
    let now = Time::new(1);
    let ino = fs
        .create(Ino::ROOT, b"file", NewNode::File, 0o644, Caller::root(now))?
        .ino;
    let end = (depth.blocks.0 + depth.blocks.1) * BLOCK;
    let grown = SetAttr {
        size: Some(end),
        ..SetAttr::default()
    };
    fs.setattr(ino, &grown, now)?;
    let update = |fs: &mut F2fs<_>, byte: u8, each: bool| {
        for place in &places {
            fs.write(ino, place * BLOCK, &[byte; BLOCK as usize], now)?;
            if each {
                // What only the inode would add, the time of the change, is left out.
                fs.fsync(ino, Sync::Data)?;
            }
        }
        if each { Ok(()) } else { fs.sync() }
    };
    let nodes = |fs: &F2fs<_>| fs.counts().written[3..].iter().sum::<u64>();
    let all = |fs: &F2fs<_>| fs.counts().written.iter().sum::<u64>();
    update(&mut fs, 1, false)?;
    let before = (nodes(&fs), all(&fs));
    fs.device_mut().reset();
    update(&mut fs, 2, false)?;
    let sectors = fs.device_mut().counts().writes.sectors;
    let together = (nodes(&fs) - before.0, sectors / 8 - (all(&fs) - before.1));
    let before = nodes(&fs);
    update(&mut fs, 3, true)?;
    let each = nodes(&fs) - before;
    let share = |blocks: u64| blocks as f64 / UPDATES as f64;
    Ok(Taken {
        nodes: share(each),
        nodes_together: share(together.0),
        tables_together: share(together.1),
        // Each pointer block on the way, the inode, a block of the map.
        conventional: f64::from(depth.levels) + 2.0,
        conventional_together: share(conventional(depth, &places)),
    })
}

/// Blocks of the file, each once, at random.
fn places(depth: &Depth) -> Vec<u64> {
    let (first, count) = depth.blocks;
    let step = count / UPDATES;
    // A stride that meets every stretch once.
    (0..UPDATES)
        .map(|at| at * 97 % UPDATES)
        .map(|stretch| first + stretch * step + nandlab_sim::mix(1, stretch) % step)
        .collect()
}

/// Pointer blocks, inode and map block that change when all places change.
fn conventional(depth: &Depth, places: &[u64]) -> u64 {
    let mut blocks = BTreeSet::new();
    for place in places {
        let within = place - depth.blocks.0;
        (1..=depth.levels).for_each(|level| {
            blocks.insert((level, within / FAN.pow(level)));
        });
    }
    blocks.len() as u64 + 2
}
