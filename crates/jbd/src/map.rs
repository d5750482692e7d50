//! Which block of the device each block of the journal is.
//!
//! *Promises* to take memory by runs of neighbours, of which a journal has few. *Knows nothing of*
//! inodes: the caller has read theirs.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Run {
    /// First block of the journal.
    log: u32,
    /// The block's place in the file system.
    home: u64,
}

/// The journal's blocks in order.
#[derive(Clone, Debug, Default)]
pub struct Map {
    runs: Vec<Run>,
    blocks: u32,
}

impl FromIterator<u64> for Map {
    /// Takes the device blocks of the journal's blocks 0, 1, 2 ...; what lies behind 2^32 - 1 of
    /// them is left out, as no journal can name it.
    fn from_iter<I: IntoIterator<Item = u64>>(homes: I) -> Self {
        let mut map = Self::default();
        for home in homes.into_iter().take(u32::MAX as usize) {
            map.push(home);
        }
        map
    }
}

impl Map {
    fn push(&mut self, home: u64) {
        let log = self.blocks;
        let goes_on = self
            .runs
            .last()
            .is_some_and(|run| run.home.checked_add(u64::from(log - run.log)) == Some(home));
        if !goes_on {
            self.runs.push(Run { log, home });
        }
        self.blocks += 1;
    }

    /// Blocks of the journal.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Where a block of the journal lies. It has to be one.
    pub(crate) fn home(&self, log: u32) -> u64 {
        let index = self.runs.partition_point(|run| run.log <= log) - 1;
        self.runs[index].home + u64::from(log - self.runs[index].log)
    }

    /// Runs of neighbours: first block of the journal, where it lies, how many.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        let ends = self
            .runs
            .iter()
            .skip(1)
            .map(|run| run.log)
            .chain([self.blocks]);
        self.runs
            .iter()
            .zip(ends)
            .map(|(run, end)| (run.log, run.home, end - run.log))
    }

    /// Whether a block of the device is one of the journal.
    pub(crate) fn contains(&self, home: u64) -> bool {
        self.runs()
            .any(|(_, start, count)| (start..start + u64::from(count)).contains(&home))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_lies_where_the_caller_said() {
        let homes = [7, 8, 9, 20, 5, 6, 6, 30, 31];
        let map: Map = homes.into_iter().collect();
        assert_eq!((map.blocks(), map.runs().count()), (9, 5));
        for (log, home) in (0..).zip(homes) {
            assert_eq!(map.home(log), home);
        }
        assert_eq!(map.runs().last(), Some((7, 30, 2)));
        let inside: Vec<u64> = (0..40).filter(|home| map.contains(*home)).collect();
        assert_eq!(inside, [5, 6, 7, 8, 9, 20, 30, 31]);
    }
}
