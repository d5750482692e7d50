//! The oracle of disks, "flushed or newer": after a cut each sector holds what it held at the last
//! flush that returned, or what some operation called since then gave it; never a mixture within a
//! sector, never anything else, and it can be read.

use super::op::{DiskOp, Stamp, Version, ZEROS};
use super::stamp::{stamp_of, word};
use crate::subject::{Failure, Kind, Oracle};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_sim::Chain;

/// Bytes read at once: few enough to stay in the nearest cache.
const PIECE: usize = 16 << 10;

/// What each sector may hold.
#[derive(Clone, Debug)]
pub struct FlushedOrNewer {
    sector: usize,
    /// At the last flush that returned.
    flushed: Vec<Stamp>,
    /// The newest, and what a read gives as long as there is no cut.
    current: Vec<Stamp>,
    /// Everything given since the last flush that returned, in order.
    since: Vec<(u32, Stamp)>,
    /// There was a cut: `current` is only one of the possibilities.
    cut: bool,
}

impl FlushedOrNewer {
    /// For a disk that holds only zeros.
    pub(super) fn new(geometry: &BlockGeometry) -> Self {
        let sectors = geometry.sectors as usize;
        Self {
            sector: geometry.sector as usize,
            flushed: vec![ZEROS; sectors],
            current: vec![ZEROS; sectors],
            since: Vec::new(),
            cut: false,
        }
    }

    fn give(&mut self, lba: Lba, sectors: u64, stamp: Stamp) {
        for lba in lba.0..lba.0 + sectors {
            self.current[lba as usize] = stamp;
            self.since.push((lba as u32, stamp));
        }
    }

    fn allows(&self, lba: usize, stamp: Stamp) -> bool {
        self.current[lba] == stamp
            || self.cut && (self.flushed[lba] == stamp || self.since.contains(&(lba as u32, stamp)))
    }

    /// What a sector may hold, in words.
    fn allowed(&self, lba: usize) -> String {
        if !self.cut {
            return format!("{} (newest)", Version(self.current[lba]));
        }
        let since = self
            .since
            .iter()
            .filter(|(at, _)| *at as usize == lba)
            .map(|&(_, stamp)| format!(", {}", Version(stamp)));
        format!(
            "{} (flushed){}",
            Version(self.flushed[lba]),
            since.collect::<String>()
        )
    }

    /// What is wrong with one sector, in words.
    fn complain(&self, lba: usize, bytes: &[u8]) -> String {
        let found = match stamp_of(bytes, lba as u64) {
            Some(stamp) => Version(stamp).to_string(),
            None if word(bytes, 1) != lba as u64 && stamp_of(bytes, word(bytes, 1)).is_some() => {
                format!("{} of sector {}", Version(word(bytes, 0)), word(bytes, 1))
            }
            None => format!(
                "bytes that no operation gave it, from {:02x?} on",
                &bytes[..bytes.len().min(16)]
            ),
        };
        format!("sector {lba} holds {found}; allowed: {}", self.allowed(lba))
    }

    /// A sector that was read in vain.
    fn unreadable(&self, lba: Lba, sectors: usize, error: BlockError) -> Failure {
        let allowed = match error {
            BlockError::Lost { lba: lost, .. } if (lost.0 as usize) < self.current.len() => {
                self.allowed(lost.0 as usize)
            }
            _ => "success".into(),
        };
        Failure::new(
            Kind::Contents,
            format_args!(
                "reading {sectors} sectors from {lba} on: {}; allowed: {allowed}",
                Chain(&error)
            ),
        )
    }

    /// Compares what was read from `lba` on; gives the stamps found to `note`.
    pub(super) fn compare(
        &self,
        lba: Lba,
        read: &[u8],
        mut note: impl FnMut(usize, Stamp),
    ) -> Result<(), Failure> {
        let mut first = None;
        let mut wrong = 0;
        for (lba, bytes) in (lba.0 as usize..).zip(read.chunks_exact(self.sector)) {
            match stamp_of(bytes, lba as u64) {
                Some(stamp) if self.allows(lba, stamp) => note(lba, stamp),
                _ => {
                    wrong += 1;
                    first.get_or_insert_with(|| self.complain(lba, bytes));
                }
            }
        }
        match first {
            None => Ok(()),
            Some(text) if wrong == 1 => Err(Failure::new(Kind::Contents, text)),
            Some(text) => Err(Failure::new(
                Kind::Contents,
                format_args!("{text}; sectors wrong nearby: {}", wrong - 1),
            )),
        }
    }
}

impl<D: BlockDevice> Oracle<D, DiskOp> for FlushedOrNewer {
    fn began(&mut self, op: &DiskOp) {
        match *op {
            DiskOp::Write {
                lba,
                sectors,
                stamp,
            } => self.give(lba, sectors, stamp),
            DiskOp::Discard { lba, sectors } => self.give(lba, sectors, ZEROS),
            DiskOp::Read { .. } | DiskOp::Flush => {}
        }
    }

    fn returned(&mut self, op: &DiskOp) {
        if *op == DiskOp::Flush {
            self.since
                .drain(..)
                .for_each(|(lba, _)| self.flushed[lba as usize] = self.current[lba as usize]);
        }
    }

    fn cut(&mut self) {
        self.cut = true;
    }

    fn check(&mut self, device: &mut D) -> Result<(), Failure> {
        let found = device.geometry().sectors;
        let expected = self.current.len() as u64;
        if found != expected {
            return Err(Failure::new(
                Kind::Contents,
                format_args!("the disk has {found} sectors; allowed: {expected}"),
            ));
        }
        let per_piece = (PIECE / self.sector).max(1);
        let mut buffer = vec![0; per_piece.min(self.current.len()) * self.sector];
        let mut seen = Vec::new();
        for first in (0..self.current.len()).step_by(per_piece) {
            let count = per_piece.min(self.current.len() - first);
            let piece = &mut buffer[..count * self.sector];
            let lba = Lba(first as u64);
            device
                .read(lba, piece)
                .map_err(|error| self.unreadable(lba, count, error))?;
            self.compare(lba, piece, |lba, stamp| {
                if self.current[lba] != stamp {
                    seen.push((lba, stamp));
                }
            })?;
        }
        seen.into_iter()
            .for_each(|(lba, stamp)| self.current[lba] = stamp);
        self.cut = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::stamp::fill;
    use nandlab_block::Ram;

    const GEOMETRY: BlockGeometry = BlockGeometry {
        sector: 512,
        sectors: 8,
        page: 512,
    };

    fn write(lba: u64, stamp: Stamp) -> DiskOp {
        DiskOp::Write {
            lba: Lba(lba),
            sectors: 1,
            stamp,
        }
    }

    fn judge() -> FlushedOrNewer {
        FlushedOrNewer::new(&GEOMETRY)
    }

    type O = dyn Fn(&mut FlushedOrNewer, &mut Ram) -> Result<(), Failure>;
    const CHECK: &O = &|oracle, ram| oracle.check(ram);

    fn disk_with(lba: u64, stamp: Stamp) -> Ram {
        let mut ram = Ram::new(512, 8);
        let mut bytes = [0; 512];
        fill(&mut bytes, lba, stamp);
        ram.write(Lba(lba), &bytes).unwrap();
        ram
    }

    fn reported(oracle: &mut FlushedOrNewer, op: &DiskOp) {
        Oracle::<Ram, _>::began(oracle, op);
        Oracle::<Ram, _>::returned(oracle, op);
    }

    fn after_a_cut(oracle: &FlushedOrNewer, stamp: Stamp) -> bool {
        let mut oracle = oracle.clone();
        Oracle::<Ram, _>::cut(&mut oracle);
        CHECK(&mut oracle, &mut disk_with(3, stamp)).is_ok()
    }

    #[test]
    fn after_a_cut_the_flushed_and_all_newer_contents_are_allowed_and_nothing_else() {
        let mut oracle = judge();
        reported(&mut oracle, &write(3, 1));
        reported(&mut oracle, &write(3, 2));
        reported(&mut oracle, &DiskOp::Flush);
        reported(&mut oracle, &write(3, 4));
        reported(
            &mut oracle,
            &DiskOp::Discard {
                lba: Lba(3),
                sectors: 1,
            },
        );
        Oracle::<Ram, _>::began(&mut oracle, &write(3, 6));
        let allowed: Vec<Stamp> = (0..8)
            .filter(|&stamp| after_a_cut(&oracle, stamp))
            .collect();
        assert_eq!(allowed, [0, 2, 4, 6]);
    }

    #[test]
    fn without_a_cut_only_the_newest_is_allowed() {
        let mut oracle = judge();
        reported(&mut oracle, &write(3, 1));
        reported(&mut oracle, &write(3, 2));
        assert!(CHECK(&mut oracle, &mut disk_with(3, 2)).is_ok());
        assert!(CHECK(&mut oracle, &mut disk_with(3, 1)).is_err());
    }

    #[test]
    fn a_flush_after_a_recovery_makes_durable_what_the_recovery_had_left() {
        let mut oracle = judge();
        reported(&mut oracle, &write(3, 1));
        reported(&mut oracle, &write(3, 2));
        Oracle::<Ram, _>::cut(&mut oracle);
        CHECK(&mut oracle, &mut disk_with(3, 1)).unwrap();
        reported(&mut oracle, &DiskOp::Flush);
        let allowed: Vec<Stamp> = (0..3)
            .filter(|&stamp| after_a_cut(&oracle, stamp))
            .collect();
        assert_eq!(allowed, [1]);
    }

    #[test]
    fn a_mixture_and_a_strange_sector_are_reported() {
        let mut oracle = judge();
        reported(&mut oracle, &write(3, 1));
        reported(&mut oracle, &write(3, 2));
        Oracle::<Ram, _>::cut(&mut oracle);
        for at in (0..512).step_by(8) {
            let mut ram = disk_with(3, 1);
            let mut old = [0; 512];
            let mut new = [0; 512];
            fill(&mut old, 3, 1);
            fill(&mut new, 3, 2);
            new[..at].copy_from_slice(&old[..at]);
            // The sector's number is the same in both.
            let mixed = at != 0 && at != 512;
            ram.write(Lba(3), &new).unwrap();
            assert_eq!(
                CHECK(&mut oracle.clone(), &mut ram).is_err(),
                mixed,
                "torn at byte {at}"
            );
        }
        let mut ram = disk_with(4, 1);
        let mut bytes = [0; 512];
        fill(&mut bytes, 5, 2);
        ram.write(Lba(3), &bytes).unwrap();
        let failure = CHECK(&mut oracle, &mut ram).unwrap_err();
        assert_eq!(
            failure.what,
            "sector 3 holds #2 of sector 5; allowed: zeros (flushed), #1, #2; sectors wrong nearby: 1"
        );
    }
}
