//! The purpose of blocks that reached a volume of ext3, derived from where they lie and what they
//! hold.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Ram, Record, WriteLog};
use nandlab_ext::{Ext, Options, Region};
use nandlab_workload::files::{Contents, FileId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The first word of the journal's control blocks.
const MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];
/// Bytes by which a block of a file is known.
const KNOWN: usize = 16;

/// A disk in memory that keeps every write, shared between the writer and the test.
#[derive(Clone)]
pub struct Reel {
    geometry: BlockGeometry,
    log: Arc<Mutex<WriteLog<Ram>>>,
}

impl Reel {
    /// Begins to keep what is written to `disk`.
    pub fn new(disk: Ram) -> Self {
        Self {
            geometry: *disk.geometry(),
            log: Arc::new(Mutex::new(WriteLog::new(disk))),
        }
    }

    /// Everything that was written, and when it had to be durable.
    pub fn records(&self) -> Vec<Record> {
        self.log.lock().unwrap().records().to_vec()
    }
}

impl BlockDevice for Reel {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.log.lock().unwrap().read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.log.lock().unwrap().write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.log.lock().unwrap().flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.log.lock().unwrap().discard(lba, sectors)
    }
}

/// What a block was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    JournalSuper,
    Descriptor,
    Revoke,
    Commit,
    LoggedContents,
    LoggedStructure,
    /// Of the file, at home.
    Contents,
    Super,
    Bitmaps,
    Inodes,
    /// Directories, and blocks of block numbers.
    Numbers,
}

impl Part {
    pub const ALL: [Self; 11] = [
        Self::JournalSuper,
        Self::Descriptor,
        Self::Revoke,
        Self::Commit,
        Self::LoggedContents,
        Self::LoggedStructure,
        Self::Contents,
        Self::Super,
        Self::Bitmaps,
        Self::Inodes,
        Self::Numbers,
    ];

    pub fn is_journal(self) -> bool {
        self < Self::Contents
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::JournalSuper => "journal: superblock",
            Self::Descriptor => "journal: descriptors",
            Self::Revoke => "journal: revokes",
            Self::Commit => "journal: commits",
            Self::LoggedContents => "journal: contents",
            Self::LoggedStructure => "journal: metadata",
            Self::Contents => "contents",
            Self::Super => "superblock, descriptors",
            Self::Bitmaps => "bitmaps",
            Self::Inodes => "inode tables",
            Self::Numbers => "directories, indirect",
        })
    }
}

/// A volume's regions, and the contents of the one file that is written to it.
pub struct Volume {
    block: usize,
    regions: Vec<(Range<u32>, Region)>,
    known: BTreeSet<[u8; KNOWN]>,
}

impl Volume {
    /// A freshly made volume, to which one file of `bytes` is written in versions up to `versions`.
    pub fn new(disk: &mut Ram, contents: Contents, bytes: u64, versions: u32) -> Self {
        let mut ext = Ext::mount(
            disk,
            Options {
                read_only: true,
                ..Options::default()
            },
        )
        .unwrap();
        let block = ext.layout().block;
        let regions = ext.regions().unwrap();
        let first_bytes = |version, at| {
            let mut known = [0; KNOWN];
            contents.fill(FileId(0), version, at, &mut known);
            known
        };
        let blocks = |version| {
            (0..bytes)
                .step_by(block as usize)
                .map(move |at| first_bytes(version, at))
        };
        Self {
            block: block as usize,
            regions,
            known: (0..=versions).flat_map(blocks).collect(),
        }
    }

    /// What a block was written for.
    fn part(&self, number: u32, data: &[u8]) -> Part {
        let is_contents = data
            .first_chunk()
            .is_some_and(|first| self.known.contains(first));
        match self
            .regions
            .iter()
            .find(|(range, _)| range.contains(&number))
            .map(|(_, region)| region)
        {
            Some(Region::Journal) if data.starts_with(&MAGIC) => match data[7] {
                1 => Part::Descriptor,
                2 => Part::Commit,
                5 => Part::Revoke,
                _ => Part::JournalSuper,
            },
            Some(Region::Journal) if is_contents => Part::LoggedContents,
            Some(Region::Journal) => Part::LoggedStructure,
            Some(Region::Super) => Part::Super,
            Some(Region::Bitmaps) => Part::Bitmaps,
            Some(Region::Inodes) => Part::Inodes,
            None if is_contents => Part::Contents,
            None => Part::Numbers,
        }
    }

    /// How often blocks of each part were written, and how often the disk was flushed.
    pub fn count(&self, records: &[Record]) -> Counts {
        let mut counts = Counts::default();
        for record in records {
            match record {
                Record::Flush => counts.flushes += 1,
                Record::Write { lba, data } => {
                    let first = lba.0 as usize * 512 / self.block;
                    let left = lba.0 as usize * 512 % self.block + data.len() % self.block;
                    assert_eq!(left, 0, "whole blocks: {lba}, {} bytes", data.len());
                    for (number, block) in (first as u32..).zip(data.chunks(self.block)) {
                        *counts.blocks.entry(self.part(number, block)).or_default() += 1;
                    }
                }
                Record::Discard { .. } | Record::Remap { .. } => panic!("neither is asked for"),
            }
        }
        counts
    }
}

/// Counts of writes by part of the volume.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    blocks: BTreeMap<Part, u64>,
    pub flushes: u64,
}

impl Counts {
    pub fn of(&self, part: Part) -> u64 {
        self.blocks.get(&part).copied().unwrap_or(0)
    }

    pub fn sum(&self, which: impl Fn(Part) -> bool) -> u64 {
        self.blocks
            .iter()
            .filter(|(part, _)| which(**part))
            .map(|(_, count)| count)
            .sum()
    }
}
