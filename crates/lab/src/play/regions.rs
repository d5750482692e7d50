//! Where on a volume writes go: how many to which part, on how many sectors, and a picture of it.
//!
//! *Promises.* Every sector written counts once, under one region. Memory grows with the number of
//! different sectors, not with the number of writes. The picture has at most [`POINTS_MAX`] points
//! of each region, so that a region of few sectors shows beside one of many.

pub use nandlab_stack::fs::Region;

use nandlab_stack::fs::Parts;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The most points that a region has in a picture.
pub const POINTS_MAX: usize = 500;

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
    /// The share of all writes, from 0 to 1.
    pub writes: f64,
    /// Of all sectors of the volume.
    pub sectors: f64,
}

/// A dot of the picture: the number of the write, from 0, and its sector.
pub type Point = (u64, u64);

/// What was written so far.
#[derive(Clone, Debug)]
pub struct Writes {
    parts: Arc<dyn Parts>,
    total: u64,
    regions: BTreeMap<Region, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Counts of writes by sector.
    sectors: BTreeMap<u64, u64>,
    picture: Picture,
}

impl Writes {
    /// Nothing yet, on a volume of these parts. Sectors are the volume's own.
    pub fn new(parts: Arc<dyn Parts>) -> Self {
        Self {
            parts,
            total: 0,
            regions: BTreeMap::new(),
        }
    }

    /// So many sectors were written from `first` on; those that hold contents of files are
    /// distinguished as `contents`, such as "photos" or "index".
    pub fn write(&mut self, first: u64, count: u64, contents: &'static str) {
        for sector in first..first.saturating_add(count) {
            let region = self.parts.region(sector, &[], contents);
            self.add(region, sector..sector + 1);
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

    /// Returns the sectors written in all regions.
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
        let writes = metadata().map(|(_, t)| t.writes).sum();
        let sectors = metadata().map(|(_, t)| t.sectors).sum();
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
    fn writes_count_once_for_each_sector_and_time() {
        let mut writes = Writes::new(Arc::new(layout()));
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
        let mut writes = Writes::new(Arc::new(layout()));
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
        let mut writes = Writes::new(Arc::new(layout()));
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
