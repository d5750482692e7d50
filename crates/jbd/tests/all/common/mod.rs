//! Shared by the tests: small disks with a journal, and contents that tell where they come from.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Ram};
use nandlab_jbd::{Checkpoint, Journal, MAGIC, Map, Options, create};
use nandlab_sim::mix;

pub const BLOCK: u32 = 1024;
/// Blocks that are not the journal's.
pub const HOMES: u64 = 64;
/// Blocks of the device.
pub const BLOCKS: u64 = 160;

/// 40 blocks in two runs, the later one first.
pub fn map() -> Map {
    (130..150).chain(70..90).collect()
}

/// Where a block of that journal lies.
pub fn journal_block(log: u64) -> u64 {
    if log < 20 { 130 + log } else { 50 + log }
}

/// A disk with an empty journal, whose first transaction will bear the number `sequence` + 1.
pub fn disk(sequence: u32) -> Ram {
    let mut disk = Ram::new(512, BLOCKS * 2);
    for block in 0..BLOCKS {
        write(&mut disk, block, &contents(u64::MAX - block));
    }
    create(&mut disk, map(), BLOCK).unwrap();
    let mut sb = read(&mut disk, journal_block(0));
    sb[24..28].copy_from_slice(&sequence.to_be_bytes());
    write(&mut disk, journal_block(0), &sb);
    disk
}

pub fn load<D: BlockDevice>(disk: D, checkpoint: Checkpoint) -> Journal<D> {
    let options = Options {
        checkpoint,
        clean_blocks: 8,
        ..Options::default()
    };
    Journal::load(disk, map(), BLOCK, options).unwrap()
}

pub fn read(disk: &mut impl BlockDevice, block: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK as usize];
    disk.read(Lba(block * 2), &mut data).unwrap();
    data
}

pub fn write(disk: &mut impl BlockDevice, block: u64, data: &[u8]) {
    disk.write(Lba(block * 2), data).unwrap();
}

/// A block's worth of bytes. One in eight begins as the journal's own blocks do, one in sixteen is
/// zeros.
pub fn contents(stamp: u64) -> Vec<u8> {
    let mut data: Vec<u8> = (0..u64::from(BLOCK) / 8)
        .flat_map(|i| mix(stamp, i).to_be_bytes())
        .collect();
    match mix(stamp, 77) % 16 {
        0 | 1 => {
            // As a commit block of a transaction that may well come.
            data[..4].copy_from_slice(&MAGIC.to_be_bytes());
            data[4..8].copy_from_slice(&2u32.to_be_bytes());
            data[8..12].copy_from_slice(&((stamp % 40) as u32).to_be_bytes());
        }
        2 => data.fill(0),
        _ => {}
    }
    data
}

/// A device that keeps its remap to itself, or offers it for so many sectors at once.
#[derive(Clone, Debug)]
pub struct Limited<D>(pub D, pub usize);

impl<D: BlockDevice> BlockDevice for Limited<D> {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }
    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.0.read(lba, buf)
    }
    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.0.write(lba, data)
    }
    fn flush(&mut self) -> Result<(), BlockError> {
        self.0.flush()
    }
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.0.discard(lba, sectors)
    }
    fn remap(&mut self, pairs: &[nandlab_block::Remap]) -> Result<(), BlockError> {
        if pairs.len() > self.1 {
            Err(BlockError::Unsupported)
        } else {
            self.0.remap(pairs)
        }
    }
}
