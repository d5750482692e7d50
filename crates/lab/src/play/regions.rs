//! Where on a volume writes go: how many to which part, on how many sectors, and a picture of it.
//!
//! *Promises.* Every sector written counts once, under one region. Memory grows with the number of
//! different sectors, not with the number of writes; the picture has at most [`POINTS_MAX`] points
//! of each region, so that a region of few sectors shows beside one of many. *Works on* what stays
//! where it is on a volume: which file contents belong to, and that a subdirectory of FAT is no
//! file, must be said by the caller; on ext, names and block numbers among the contents are told
//! from [their bytes](super::structure).

use super::structure::is_structure;
use nandlab_stack::Parts;
use nandlab_stack::fs::{ExtParts, ExtRegion};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The most points that a region has in a picture.
pub const POINTS_MAX: usize = 500;

/// A part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// The boot sector, with the mark "in use".
    Boot,
    /// The other reserved sectors: file system information, copies.
    Reserved,
    /// A copy of the table, from 1.
    Table(u32),
    /// The root directory of FAT12 and FAT16.
    Root,
    /// ext: superblocks and group descriptors.
    Super,
    /// ext: bitmaps of blocks and inodes.
    Bitmaps,
    /// ext: inodes.
    Inodes,
    /// ext: the journal.
    Journal,
    /// ext: directories, block numbers, attributes.
    Structure,
    /// Clusters of FAT, of what the caller says; contents of files on ext.
    Clusters(&'static str),
    /// Behind the last cluster.
    Outside,
}

impl Region {
    /// The part that a sector of the volume lies in; contents of files go by the name `contents`.
    pub fn of(parts: &Parts, sector: u64, contents: &'static str) -> Self {
        match parts {
            Parts::Fat(layout) => Self::of_fat(layout, sector, contents),
            Parts::Ext(parts) => Self::of_ext(parts, sector, contents),
            Parts::Untold { .. } => Self::Clusters(contents),
        }
    }

    fn of_fat(layout: &nandlab_stack::fs::FatLayout, sector: u64, clusters: &'static str) -> Self {
        let end = u64::from(layout.data_start)
            + u64::from(layout.clusters) * u64::from(layout.cluster_sectors);
        match sector {
            0 => Self::Boot,
            s if s < u64::from(layout.fat_start) => Self::Reserved,
            s if s < u64::from(layout.root_start) => Self::Table(
                1 + ((s - u64::from(layout.fat_start)) / u64::from(layout.fat_sectors)) as u32,
            ),
            s if s < u64::from(layout.data_start) => Self::Root,
            s if s < end => Self::Clusters(clusters),
            _ => Self::Outside,
        }
    }

    fn of_ext(parts: &ExtParts, sector: u64, contents: &'static str) -> Self {
        match parts.of(sector) {
            Some(ExtRegion::Super) => Self::Super,
            Some(ExtRegion::Bitmaps) => Self::Bitmaps,
            Some(ExtRegion::Inodes) => Self::Inodes,
            Some(ExtRegion::Journal) => Self::Journal,
            None if sector < parts.sectors => Self::Clusters(contents),
            None => Self::Outside,
        }
    }

    /// Divides what is read or written from sector `first` on, in sectors of so many bytes, by
    /// parts: `each` is told of every run of sectors.
    pub fn split(
        parts: &Parts,
        (first, sector, data): (u64, u64, &[u8]),
        contents: &'static str,
        each: &mut dyn FnMut(Self, Range<u64>),
    ) {
        let unit = if let Parts::Ext(parts) = parts {
            parts.block_sectors
        } else {
            1
        };
        let mut run: Option<(Self, Range<u64>)> = None;
        for (at, block) in (first..)
            .step_by(unit as usize)
            .zip(data.chunks((unit * sector) as usize))
        {
            let mut region = Self::of(parts, at, contents);
            if let (Self::Clusters(_), Parts::Ext(parts)) = (region, parts)
                && is_structure(block, parts.blocks)
            {
                region = Self::Structure;
            }
            let end = at + block.len() as u64 / sector;
            match &mut run {
                Some((same, range)) if *same == region => range.end = end,
                _ => {
                    if let Some((region, range)) = run.replace((region, at..end)) {
                        each(region, range);
                    }
                }
            }
        }
        if let Some((region, range)) = run {
            each(region, range);
        }
    }

    /// Whether it says where files are rather than what they hold; a journal does not, since it may
    /// hold both.
    pub fn is_metadata(&self) -> bool {
        !matches!(self, Self::Clusters(_) | Self::Journal)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot => f.write_str("boot sector"),
            Self::Reserved => f.write_str("reserved sectors"),
            Self::Table(copy) => write!(f, "FAT {copy}"),
            Self::Root => f.write_str("root directory"),
            Self::Super => f.write_str("superblocks and descriptors"),
            Self::Bitmaps => f.write_str("bitmaps"),
            Self::Inodes => f.write_str("inodes"),
            Self::Journal => f.write_str("journal"),
            Self::Structure => f.write_str("directories and block numbers"),
            Self::Clusters(what) => f.write_str(what),
            Self::Outside => f.write_str("behind the clusters"),
        }
    }
}

/// What went to a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sectors written, each time anew.
    pub writes: u64,
    /// Different sectors among them.
    pub sectors: u64,
}

/// A share of the writes and the share of the volume's sectors that it went to, 0 to 1 each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of all writes.
    pub writes: f64,
    /// Of all sectors of the volume.
    pub sectors: f64,
}

/// A dot of the picture: the number of the write, from 0, and its sector.
pub type Point = (u64, u64);

/// What was written so far.
#[derive(Clone, Debug)]
pub struct Writes {
    parts: Parts,
    total: u64,
    regions: BTreeMap<Region, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Writes by sector.
    sectors: BTreeMap<u64, u64>,
    picture: Picture,
}

impl Writes {
    /// Nothing yet, on a volume of these parts. Sectors are the volume's own.
    pub fn new(parts: impl Into<Parts>) -> Self {
        Self {
            parts: parts.into(),
            total: 0,
            regions: BTreeMap::new(),
        }
    }

    /// So many sectors were written from `first` on; those that hold contents of files are told
    /// apart as `contents`, such as "photos" or "index".
    pub fn write(&mut self, first: u64, count: u64, contents: &'static str) {
        for sector in first..first.saturating_add(count) {
            self.add(
                Region::of(&self.parts, sector, contents),
                sector..sector + 1,
            );
        }
    }

    /// These sectors of a region were written.
    pub fn add(&mut self, region: Region, sectors: Range<u64>) {
        let seen = self.regions.entry(region).or_default();
        for sector in sectors {
            *seen.sectors.entry(sector).or_default() += 1;
            seen.picture.add((self.total, sector));
            self.total += 1;
        }
    }

    /// Sectors written.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What went to each region that was written to, in the order in which they lie on the volume.
    pub fn regions(&self) -> impl Iterator<Item = (Region, Tally)> {
        let tally = |seen: &Seen| Tally {
            writes: seen.sectors.values().sum(),
            sectors: seen.sectors.len() as u64,
        };
        self.regions
            .iter()
            .map(move |(region, seen)| (*region, tally(seen)))
    }

    /// What went to one region.
    pub fn region(&self, region: Region) -> Tally {
        self.regions()
            .find(|(one, _)| *one == region)
            .map_or(Tally::default(), |(_, tally)| tally)
    }

    /// The share that went to metadata.
    pub fn metadata(&self) -> Share {
        let metadata = || self.regions().filter(|(region, _)| region.is_metadata());
        let (writes, sectors) = (
            metadata().map(|(_, t)| t.writes).sum(),
            metadata().map(|(_, t)| t.sectors).sum(),
        );
        self.share(writes, sectors)
    }

    /// The share that went to the hottest sectors, which make up the share `space` of the volume,
    /// whatever they hold.
    pub fn hottest(&self, space: f64) -> Share {
        let mut sectors = BTreeMap::<u64, u64>::new();
        for (sector, writes) in self.regions.values().flat_map(|seen| &seen.sectors) {
            *sectors.entry(*sector).or_default() += writes;
        }
        let mut counts: Vec<u64> = sectors.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let count = (space * self.parts.sectors() as f64).round() as usize;
        self.share(counts.iter().take(count).sum(), count as u64)
    }

    fn share(&self, writes: u64, sectors: u64) -> Share {
        Share {
            writes: writes as f64 / self.total.max(1) as f64,
            sectors: sectors as f64 / self.parts.sectors() as f64,
        }
    }

    /// For each region the dots of a picture of sector over number of write, at most
    /// [`POINTS_MAX`], by number. A region's dots are the first writes to it in each of many
    /// intervals of equal length.
    pub fn points(&self) -> impl Iterator<Item = (Region, &[Point])> {
        self.regions
            .iter()
            .map(|(region, seen)| (*region, &seen.picture.points[..]))
    }
}

/// Dots that stay few: intervals double when there are too many.
#[derive(Clone, Debug, Default)]
struct Picture {
    /// Writes of an interval as a power of two.
    interval_log2: u32,
    points: Vec<Point>,
}

impl Picture {
    fn add(&mut self, point: Point) {
        if self
            .points
            .last()
            .is_some_and(|last| self.interval(last) == self.interval(&point))
        {
            return;
        }
        while self.points.len() == POINTS_MAX {
            self.interval_log2 += 1;
            let log2 = self.interval_log2;
            self.points.dedup_by_key(|(write, _)| *write >> log2);
        }
        if self
            .points
            .last()
            .is_none_or(|last| self.interval(last) != self.interval(&point))
        {
            self.points.push(point);
        }
    }

    fn interval(&self, point: &Point) -> u64 {
        point.0 >> self.interval_log2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::Ram;
    use nandlab_fat::{Bits, Format, Layout, format};

    /// One reserved sector, two tables of 64, a root directory of 32, and clusters from 161 on.
    fn layout() -> Layout {
        let choices = Format {
            bits: Some(Bits::Fat16),
            cluster_sectors: Some(4),
            align: false,
            ..Format::default()
        };
        format(&mut Ram::new(512, 65_536), &choices).unwrap()
    }

    #[test]
    fn every_sector_lies_in_one_region() {
        let layout = layout();
        let parts = layout.into();
        let of = |sector| Region::of(&parts, sector, "files");
        let edges = [0, 1, 64, 65, 128, 129, 160, 161, 65_532, 65_533, u64::MAX].map(of);
        use Region::*;
        let files = Clusters("files");
        assert_eq!(
            edges,
            [
                Boot,
                Table(1),
                Table(1),
                Table(2),
                Table(2),
                Root,
                Root,
                files,
                files,
                Outside,
                Outside
            ]
        );
        let wide = Layout {
            fat_start: 32,
            root_start: 160,
            ..layout
        };
        assert_eq!(Region::of(&wide.into(), 6, ""), Reserved);
    }

    #[test]
    fn what_is_written_at_once_is_divided_where_parts_meet() {
        let mut runs = Vec::new();
        Region::split(
            &layout().into(),
            (127, 512, &[1; 40 * 512]),
            "files",
            &mut |region, sectors| runs.push((region, sectors)),
        );
        assert_eq!(
            runs,
            [
                (Region::Table(2), 127..129),
                (Region::Root, 129..161),
                (Region::Clusters("files"), 161..167)
            ]
        );
    }

    #[test]
    fn writes_count_once_for_each_sector_and_time() {
        let mut writes = Writes::new(layout());
        writes.write(128, 3, "");
        writes.write(129, 1, "");
        writes.write(161, 4, "photos");
        writes.write(161, 1, "index");
        let found: Vec<(String, u64, u64)> = writes
            .regions()
            .map(|(r, t)| (r.to_string(), t.writes, t.sectors))
            .collect();
        let row = |name: &str, writes, sectors| (name.to_string(), writes, sectors);
        assert_eq!(
            found,
            [
                row("FAT 2", 1, 1),
                row("root directory", 3, 2),
                row("index", 1, 1),
                row("photos", 4, 4)
            ]
        );
        assert_eq!(
            (writes.total(), writes.region(Region::Boot)),
            (9, Tally::default())
        );
        assert_eq!(
            writes.metadata(),
            Share {
                writes: 4.0 / 9.0,
                sectors: 3.0 / 65_536.0
            }
        );
    }

    #[test]
    fn the_hottest_sectors_are_those_written_most_whatever_they_hold() {
        let mut writes = Writes::new(layout());
        (0..10).for_each(|_| writes.write(200, 1, "photos"));
        (0..5).for_each(|_| writes.write(200, 1, "index"));
        (0..3).for_each(|_| writes.write(1, 1, ""));
        writes.write(300, 2, "photos");
        let one = writes.hottest(1.0 / 65_536.0);
        assert_eq!(
            one,
            Share {
                writes: 0.75,
                sectors: 1.0 / 65_536.0
            }
        );
        assert_eq!(writes.hottest(2.0 / 65_536.0).writes, 0.9);
        assert_eq!(writes.hottest(1.0).writes, 1.0);
    }

    #[test]
    fn a_picture_stays_small_and_spans_the_whole_run_with_every_hot_region() {
        let mut writes = Writes::new(layout());
        for write in 0..20_000u64 {
            writes.write(161 + write, 1, "photos");
            writes.write(129, 1, "");
            if write % 4 == 0 {
                writes.write(1, 1, "");
                writes.write(65, 1, "");
            }
        }
        let pictures: Vec<(Region, &[Point])> = writes.points().collect();
        assert_eq!(pictures.len(), 4);
        for (region, points) in pictures {
            assert!(
                (POINTS_MAX / 2..=POINTS_MAX).contains(&points.len()),
                "{region}: {}",
                points.len()
            );
            assert!(
                points[0].0 < 4 && points[points.len() - 1].0 > writes.total() * 99 / 100,
                "{region}"
            );
            assert!(points.is_sorted_by(|a, b| a.0 < b.0), "{region}");
        }
    }
}
