//! What to clean next (paper, "Victim Selection Policies"; `fs/f2fs/gc.c`).
//!
//! *Promises.* A section that a log writes, or of which nothing or everything is valid, is never
//! chosen. *Knows nothing of* how blocks are moved.

use crate::{format::SEGMENT, segments::Segments};
use alloc::vec::Vec;
use nandlab_vfs::with_defaults;

/// How a section to clean is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The least to move: what Linux does in the foreground.
    Greedy,
    /// Little to move that has not changed for long: what Linux does in the background.
    CostBenefit,
    /// Of the oldest sections only, by a weighted sum of age and of what is not valid (`atgc` of
    /// Linux).
    AgeThreshold(AgeThreshold),
}

with_defaults! {
    /// Numbers of [`Policy::AgeThreshold`]. The defaults are Linux's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AgeThreshold {
        /// A candidate is so many seconds of mounted time older than the youngest section: 604800,
        /// a week. A volume that was never mounted for that long has no threshold.
        pub seconds: u64 = 604_800,
        /// So many percent of the candidates, the oldest, are looked at: 20.
        pub percent: u8 = 20,
        /// At least so many: 10.
        pub least: u32 = 10,
        /// Weight of age, in percent; what is left is the weight of blocks that are not valid: 60.
        pub weight: u8 = 60,
    }
}

/// A section that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub section: u32,
    pub valid: u32,
    /// When its blocks were written, on average.
    pub mtime: u64,
}

impl Segments {
    fn candidate(&self, section: u32) -> Candidate {
        let segments =
            &self.all[(section * self.per_sec) as usize..((section + 1) * self.per_sec) as usize];
        let valid = segments
            .iter()
            .map(|segment| u32::from(segment.entry.valid))
            .sum();
        let mtime = segments
            .iter()
            .map(|segment| segment.entry.mtime / u64::from(self.per_sec))
            .sum();
        Candidate {
            section,
            valid,
            mtime,
        }
    }

    /// Sections with something valid and something not, and without a log.
    fn candidates<'a>(&'a self, logs: &'a [u32]) -> impl Iterator<Item = Candidate> + 'a {
        let full = self.section_blocks();
        (0..self.used.len() as u32)
            .filter(|section| {
                self.used[*section as usize] > 0
                    && !logs.iter().any(|log| log / self.per_sec == *section)
            })
            .map(|section| self.candidate(section))
            .filter(move |candidate| (1..full).contains(&candidate.valid))
    }

    pub fn section_blocks(&self) -> u32 {
        self.per_sec * SEGMENT
    }

    /// The section to clean next where space is short. One that the background has begun with comes
    /// first, unless nearly all of it is still there.
    pub fn victim(&self, policy: Policy, logs: &[u32], elapsed: u64) -> Option<Candidate> {
        let worth = self.section_blocks() - self.section_blocks() / 8;
        let begun = |candidate: &Candidate| {
            self.chosen.contains(&candidate.section) && candidate.valid <= worth
        };
        let begun = self.candidates(logs).find(begun);
        begun
            .or_else(|| {
                choose(
                    policy,
                    self.candidates(logs).collect(),
                    self.section_blocks(),
                    elapsed,
                )
            })
            .or_else(|| {
                // However young: space is short.
                self.candidates(logs)
                    .min_by_key(|candidate| candidate.valid)
            })
    }

    /// The section to clean next in the background: each once, until it is clean.
    pub fn victim_background(
        &self,
        policy: Policy,
        logs: &[u32],
        elapsed: u64,
    ) -> Option<Candidate> {
        let fresh = self
            .candidates(logs)
            .filter(|candidate| !self.chosen.contains(&candidate.section));
        choose(policy, fresh.collect(), self.section_blocks(), elapsed)
    }

    /// Whether the background has something to choose from.
    pub fn has_victims(&self, logs: &[u32]) -> bool {
        self.candidates(logs)
            .any(|candidate| !self.chosen.contains(&candidate.section))
    }
}

/// One of several candidates of `full` blocks each, on a volume that has been mounted for so many
/// seconds.
fn choose(
    policy: Policy,
    candidates: Vec<Candidate>,
    full: u32,
    elapsed: u64,
) -> Option<Candidate> {
    match policy {
        Policy::Greedy => candidates
            .into_iter()
            .min_by_key(|candidate| candidate.valid),
        Policy::CostBenefit => {
            let (min, max) = span(&candidates);
            let cost = |candidate: &Candidate| {
                let used = u64::from(candidate.valid) * 100 / u64::from(full);
                let age = if max > min {
                    100 - 100 * (candidate.mtime - min) / (max - min)
                } else {
                    0
                };
                u64::from(u32::MAX) - 100 * (100 - used) * age / (100 + used)
            };
            candidates.into_iter().min_by_key(cost)
        }
        Policy::AgeThreshold(numbers) => oldest(numbers, candidates, full, elapsed),
    }
}

fn span(candidates: &[Candidate]) -> (u64, u64) {
    candidates
        .iter()
        .fold((u64::MAX, 0), |(min, max), candidate| {
            (min.min(candidate.mtime), max.max(candidate.mtime))
        })
}

fn oldest(
    numbers: AgeThreshold,
    mut candidates: Vec<Candidate>,
    full: u32,
    elapsed: u64,
) -> Option<Candidate> {
    /// Steps of age and of utilisation.
    const STEPS: u128 = 10_000;
    let (min, max) = span(&candidates);
    retain_old(&mut candidates, max, elapsed, numbers.seconds);
    candidates.sort_by_key(|candidate| (candidate.mtime, candidate.section));
    let share = candidates.len() * usize::from(numbers.percent) / 100;
    candidates.truncate(share.max(numbers.least as usize));
    let weight = u128::from(numbers.weight.min(100));
    let benefit = |candidate: &Candidate| {
        let age = STEPS * u128::from(max - candidate.mtime + 1) / (u128::from(max - min) + 1);
        let unused = STEPS * u128::from(full - candidate.valid) / u128::from(full);
        age * weight + unused * (100 - weight)
    };
    // Of equals the oldest.
    candidates.into_iter().rev().max_by_key(benefit)
}

/// Drops sections that are younger than the threshold, if any is not or time itself is short.
fn retain_old(candidates: &mut Vec<Candidate>, max: u64, elapsed: u64, seconds: u64) {
    let is_old = |candidate: &Candidate| max - candidate.mtime >= seconds;
    if candidates.iter().any(is_old) || elapsed >= seconds {
        candidates.retain(is_old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::tests::segments;

    fn candidate(section: u32, valid: u32, mtime: u64) -> Candidate {
        Candidate {
            section,
            valid,
            mtime,
        }
    }

    fn chosen(policy: Policy, candidates: &[Candidate], elapsed: u64) -> Option<u32> {
        choose(policy, candidates.to_vec(), 512, elapsed).map(|candidate| candidate.section)
    }

    #[test]
    fn age_outweighs_a_little_more_to_move() {
        let candidates = [candidate(2, 200, 10), candidate(4, 190, 10_000)];
        assert_eq!(chosen(Policy::Greedy, &candidates, 0), Some(4));
        assert_eq!(chosen(Policy::CostBenefit, &candidates, 0), Some(2));
    }

    #[test]
    fn what_is_younger_than_the_threshold_is_left_alone() {
        let policy = Policy::AgeThreshold(AgeThreshold {
            seconds: 1000,
            ..AgeThreshold::default()
        });
        let young = [
            candidate(1, 3, 9500),
            candidate(2, 400, 9100),
            candidate(3, 500, 10_000),
        ];
        assert_eq!(chosen(policy, &young, 20_000), None);
        // Mounted for less than the threshold, nothing could ever be old enough.
        assert_eq!(chosen(policy, &young, 500), Some(1));
        let old = [young[0], candidate(5, 510, 9000), candidate(6, 505, 8990)];
        assert_eq!(
            chosen(policy, &[&young[..], &old].concat(), 20_000),
            Some(6)
        );
    }

    #[test]
    fn only_the_oldest_share_is_looked_at() {
        let numbers = AgeThreshold {
            seconds: 0,
            percent: 20,
            least: 2,
            weight: 0,
        };
        let candidates: Vec<Candidate> = (0..20)
            .map(|number| candidate(number, 500 - number, u64::from(number)))
            .collect();
        // With no weight for age, the emptiest of the four oldest.
        assert_eq!(
            chosen(Policy::AgeThreshold(numbers), &candidates, 0),
            Some(3)
        );
        assert_eq!(
            chosen(
                Policy::AgeThreshold(AgeThreshold {
                    percent: 0,
                    ..numbers
                }),
                &candidates,
                0
            ),
            Some(1)
        );
        assert_eq!(
            chosen(
                Policy::AgeThreshold(AgeThreshold {
                    weight: 100,
                    ..numbers
                }),
                &candidates,
                0
            ),
            Some(0)
        );
    }

    #[test]
    fn the_background_chooses_a_section_once_and_the_foreground_goes_on_with_it() {
        let mut segments = segments();
        for (segment, valid) in [(2, 200), (4, 190), (5, 180)] {
            (0..valid).for_each(|at| segments.mark((segment, at), 1, 10).unwrap());
        }
        let victim = |segments: &Segments, logs: &[u32]| {
            segments
                .victim(Policy::Greedy, logs, 0)
                .map(|candidate| candidate.section)
        };
        assert_eq!(
            (victim(&segments, &[0]), victim(&segments, &[0, 5])),
            (Some(5), Some(4))
        );
        segments.chosen.insert(2);
        segments.chosen.insert(4);
        assert_eq!(
            (victim(&segments, &[0]), victim(&segments, &[0, 2])),
            (Some(2), Some(4))
        );
        assert_eq!(
            segments
                .victim_background(Policy::Greedy, &[0], 0)
                .unwrap()
                .section,
            5
        );
        assert!(
            segments
                .victim_background(Policy::Greedy, &[0, 5], 0)
                .is_none()
                && !segments.has_victims(&[0, 5])
        );
        (0..200).for_each(|at| segments.unmark((2, at)).unwrap());
        assert_eq!(segments.checkpointed(&[0]), [2]);
        assert!(!segments.chosen.contains(&2));
    }
}
