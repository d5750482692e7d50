//! The states that a power cut may leave, made from a log of changes.
//!
//! A cut after the first `k` changes of a log finds everything up to the last flush among them on
//! the medium. Of the changes after that flush each sector of each write, on its own, has arrived
//! or not; where two arrived at one sector the later wins. These are exactly the states that
//! [`BlockDevice`] allows, whatever order the device wrote in: a sector's value is that of the last
//! change that arrived. A flush that was under way when the power went is the cut before it. A
//! remap is whole and durable in every cut behind it, whatever became of the writes before it.
//!
//! *Knows nothing of* file systems: what recovery must find is the caller's to judge.

use crate::{BlockDevice, BlockError, Lba, Record};
use nandlab_sim::mix;

/// Pieces in which a discard arrives. A discard may span the disk, so that sector by sector would
/// take too long.
const DISCARD_PIECES: u64 = 64;

/// Brings `disk`, which holds what it held when the log began, to the state after a cut behind the
/// last of `records`.
///
/// For each change after the last flush, by its index, and each of its sectors, `keep` says whether
/// it arrived. A discard is asked about in up to 64 pieces, by their first sectors. The state is
/// durable in `disk` on return.
pub fn replay<D: BlockDevice>(
    records: &[Record],
    disk: &mut D,
    mut keep: impl FnMut(usize, Lba) -> bool,
) -> Result<(), BlockError> {
    let applied = records
        .iter()
        .rposition(|record| *record == Record::Flush)
        .map_or(0, |last| last + 1);
    for (index, record) in records.iter().enumerate() {
        if index < applied {
            record.apply(disk)?;
        } else {
            record.apply_torn(disk, |lba| keep(index, lba))?;
        }
    }
    disk.flush()
}

impl Record {
    /// Makes the whole change.
    pub fn apply(&self, disk: &mut impl BlockDevice) -> Result<(), BlockError> {
        match self {
            Self::Write { lba, data } => disk.write(*lba, data),
            Self::Discard { lba, sectors } => disk.discard(*lba, *sectors),
            Self::Remap { pairs, data } => {
                let sector = disk.geometry().sector.max(1) as usize;
                // By what the sectors held then: what the writes before would have left of them
                // must not matter.
                pairs
                    .iter()
                    .try_for_each(|pair| disk.discard(pair.from, 1))?;
                pairs
                    .iter()
                    .zip(data.chunks(sector))
                    .try_for_each(|(pair, data)| disk.write(pair.to, data))
            }
            Self::Flush => Ok(()),
        }
    }

    /// Makes those parts of the change that `keep` accepts.
    fn apply_torn(
        &self,
        disk: &mut impl BlockDevice,
        mut keep: impl FnMut(Lba) -> bool,
    ) -> Result<(), BlockError> {
        match self {
            Self::Write { lba, data } => {
                let sector = disk.geometry().sector.max(1) as usize;
                let sectors = (lba.0..).map(Lba).zip(data.chunks(sector));
                sectors
                    .filter(|(lba, _)| keep(*lba))
                    .try_for_each(|(lba, part)| disk.write(lba, part))
            }
            Self::Discard { lba, sectors } => discard_torn(disk, *lba, *sectors, keep),
            Self::Remap { .. } => self.apply(disk),
            Self::Flush => Ok(()),
        }
    }
}

fn discard_torn(
    disk: &mut impl BlockDevice,
    lba: Lba,
    sectors: u64,
    mut keep: impl FnMut(Lba) -> bool,
) -> Result<(), BlockError> {
    let end = lba.0.saturating_add(sectors);
    let piece = sectors.div_ceil(DISCARD_PIECES).max(1);
    let starts = (0..DISCARD_PIECES)
        .map(|i| lba.0.saturating_add(i * piece))
        .take_while(|start| *start < end);
    starts
        .filter(|start| keep(Lba(*start)))
        .try_for_each(|start| disk.discard(Lba(start), piece.min(end - start)))
}

/// The name of one state: with the log and the seed it makes that state again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CutId {
    /// How many changes of the log had been asked for.
    pub cut: usize,
    /// 0: nothing since the last flush arrived; 1: all of it; beyond: a seeded choice.
    pub variant: u32,
}

impl CutId {
    /// Whether that sector of that change arrived.
    pub fn keeps(self, seed: u64, record: usize, lba: Lba) -> bool {
        match self.variant {
            0 => false,
            1 => true,
            variant => {
                let state = mix(mix(seed, self.cut as u64), u64::from(variant));
                // Each state has its own odds, from one in eight to seven in eight, so that states
                // which miss almost nothing and states which have almost nothing both occur.
                let odds = 1 + state % 7;
                mix(mix(state, record as u64), lba.0) % 8 < odds
            }
        }
    }
}

/// Every cut of a log from before the first change to after the last, in order, in one or more
/// variants each.
pub struct Cuts<'a, D> {
    records: &'a [Record],
    /// The medium with the first `applied` changes on it.
    disk: D,
    applied: usize,
    next: CutId,
    seed: u64,
    variants: u32,
}

impl<'a, D: BlockDevice + Clone> Cuts<'a, D> {
    /// From `base`, the medium when the log began. At most `variants` states a cut (at least one);
    /// a cut with nothing pending has but one.
    pub fn new(records: &'a [Record], base: D, seed: u64, variants: u32) -> Self {
        Self {
            records,
            disk: base,
            applied: 0,
            next: CutId { cut: 0, variant: 0 },
            seed,
            variants,
        }
    }

    fn make(&mut self, id: CutId) -> Result<D, BlockError> {
        let pending = &self.records[self.applied..id.cut];
        if pending.last() == Some(&Record::Flush) {
            pending
                .iter()
                .try_for_each(|record| record.apply(&mut self.disk))?;
            self.applied = id.cut;
            return Ok(self.disk.clone());
        }
        let mut disk = self.disk.clone();
        for (index, record) in (self.applied..).zip(pending) {
            record.apply_torn(&mut disk, |lba| id.keeps(self.seed, index, lba))?;
        }
        Ok(disk)
    }
}

impl<D: BlockDevice + Clone> Iterator for Cuts<'_, D> {
    type Item = Result<(CutId, D), BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        let id = self.next;
        if id.cut > self.records.len() {
            return None;
        }
        let state = self.make(id).map(|disk| (id, disk));
        let more = id.variant + 1 < self.variants && self.applied < id.cut;
        self.next = if more {
            CutId {
                variant: id.variant + 1,
                ..id
            }
        } else {
            CutId {
                cut: id.cut + 1,
                variant: 0,
            }
        };
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ram, Remap, WriteLog};
    use alloc::{collections::BTreeSet, vec, vec::Vec};

    const SECTORS: u64 = 8;

    fn contents(disk: &mut impl BlockDevice) -> Vec<u8> {
        let mut all = vec![0; disk.geometry().bytes() as usize];
        disk.read(Lba(0), &mut all).unwrap();
        all.chunks(16).map(|sector| sector[0]).collect()
    }

    /// A log of 60 changes on 8 sectors; write `n` stores the byte `n`.
    fn random_log(seed: u64) -> WriteLog<Ram> {
        let mut log = WriteLog::new(Ram::new(16, SECTORS));
        for n in 1..=60u8 {
            let word = mix(seed, u64::from(n));
            let lba = word % SECTORS;
            let sectors = 1 + (word >> 8) % (SECTORS - lba);
            match (word >> 16) % 7 {
                0 => log.flush().unwrap(),
                6 => log
                    .remap(&[Remap {
                        from: Lba(lba),
                        to: Lba((word >> 24) % SECTORS),
                    }])
                    .unwrap(),
                1 => log.discard(Lba(lba), sectors).unwrap(),
                _ => log
                    .write(Lba(lba), &vec![n; 16 * sectors as usize])
                    .unwrap(),
            }
        }
        log
    }

    /// For each sector the values that the contract of a disk allows after `records`.
    fn allowed(records: &[Record]) -> Vec<BTreeSet<u8>> {
        let mut sectors = vec![BTreeSet::from([0]); SECTORS as usize];
        let mut current = vec![0; SECTORS as usize];
        for record in records {
            let (lba, values) = match record {
                Record::Write { lba, data } => (*lba, data.chunks(16).map(|s| s[0]).collect()),
                Record::Discard { lba, sectors } => (*lba, vec![0; *sectors as usize]),
                Record::Remap { pairs, data } => {
                    for (lba, value) in pairs
                        .iter()
                        .map(|pair| (pair.from, 0))
                        .chain(pairs.iter().map(|pair| (pair.to, data[0])))
                    {
                        sectors[lba.0 as usize] = BTreeSet::from([value]);
                        current[lba.0 as usize] = value;
                    }
                    continue;
                }
                Record::Flush => {
                    sectors = current
                        .iter()
                        .map(|value| BTreeSet::from([*value]))
                        .collect();
                    continue;
                }
            };
            for (at, value) in (lba.0 as usize..).zip(values) {
                sectors[at].insert(value);
                current[at] = value;
            }
        }
        sectors
    }

    #[test]
    fn no_state_holds_what_the_contract_forbids() {
        for seed in 0..20 {
            let log = random_log(seed);
            for state in log.cuts(Ram::new(16, SECTORS), seed, 6) {
                let (id, mut disk) = state.unwrap();
                let allowed = allowed(&log.records()[..id.cut]);
                for (at, value) in contents(&mut disk).into_iter().enumerate() {
                    assert!(
                        allowed[at].contains(&value),
                        "seed {seed} {id:?}: sector {at} holds {value}, allowed {:?}",
                        allowed[at]
                    );
                }
            }
        }
    }

    #[test]
    fn every_state_that_the_contract_allows_can_be_made() {
        let mut log = WriteLog::new(Ram::new(16, SECTORS));
        log.write(Lba(0), &[1; 16]).unwrap();
        log.flush().unwrap();
        log.write(Lba(0), &[2; 32]).unwrap();
        log.write(Lba(0), &[3; 16]).unwrap();
        log.discard(Lba(1), 1).unwrap();
        let mut states = BTreeSet::new();
        for choice in 0..16u32 {
            let mut disk = Ram::new(16, SECTORS);
            let mut asked = 0;
            log.replay(5, &mut disk, |_, _| {
                asked += 1;
                choice >> (asked - 1) & 1 == 1
            })
            .unwrap();
            states.insert(contents(&mut disk)[..2].to_vec());
        }
        let expected = [[1, 0], [1, 2], [2, 0], [2, 2], [3, 0], [3, 2]].map(Vec::from);
        assert_eq!(states, BTreeSet::from(expected));
    }

    #[test]
    fn every_cut_is_visited_and_both_extremes_with_it() {
        let log = random_log(1);
        let mut device = Ram::new(16, SECTORS);
        let ids: Vec<CutId> = log
            .cuts(Ram::new(16, SECTORS), 1, 2)
            .map(|state| state.unwrap().0)
            .collect();
        assert_eq!(
            ids.iter().map(|id| id.cut).collect::<BTreeSet<_>>(),
            (0..=60).collect()
        );
        for cut in 0..=60 {
            let applied = cut == 0 || log.records()[cut - 1] == Record::Flush;
            let states = ids.iter().filter(|id| id.cut == cut).count();
            assert_eq!(states, if applied { 1 } else { 2 }, "cut {cut}");
            if cut > 0 {
                log.records()[cut - 1].apply(&mut device).unwrap();
            }
            let last = log
                .cuts(Ram::new(16, SECTORS), 1, 2)
                .map(Result::unwrap)
                .filter(|(id, _)| id.cut == cut)
                .last();
            assert_eq!(
                contents(&mut last.unwrap().1),
                contents(&mut device),
                "cut {cut} with everything arrived"
            );
        }
    }

    #[test]
    fn a_state_is_made_again_from_its_name() {
        let log = random_log(3);
        let mut torn = 0;
        for state in log.cuts(Ram::new(16, SECTORS), 9, 5) {
            let (id, mut disk) = state.unwrap();
            let mut again = Ram::new(16, SECTORS);
            log.state(&mut again, 9, id).unwrap();
            assert_eq!(contents(&mut again), contents(&mut disk), "{id:?}");
            let mut whole = Ram::new(16, SECTORS);
            log.state(&mut whole, 9, CutId { variant: 1, ..id })
                .unwrap();
            torn += u32::from(contents(&mut whole) != contents(&mut disk));
        }
        assert!(torn > 50, "only {torn} states differ from an orderly stop");
    }

    #[test]
    fn a_discard_of_a_huge_disk_is_asked_about_in_few_pieces() {
        let mut log = WriteLog::new(Ram::new(512, 1 << 50));
        log.discard(Lba(5), (1 << 50) - 5).unwrap();
        let mut asked = Vec::new();
        let mut keep = |_, lba: Lba| {
            asked.push(lba.0);
            true
        };
        log.replay(1, &mut Ram::new(512, 1 << 50), &mut keep)
            .unwrap();
        assert!(asked.len() <= 64 && asked[0] == 5 && asked.is_sorted());
    }
}
