//! Table 2 of the paper: how many writes of 4 KiB took how long.

/// Lengths of the file, in bytes.
pub const SIZES: [u64; 6] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20];
/// Classes of each file system.
pub const CLASSES: usize = 7;

/// A file system's part of the table.
pub struct Part {
    /// Lower bounds of the classes, ns. The first class holds what is faster, too.
    pub bounds: [u64; CLASSES],
    /// The table's names of the classes.
    pub names: [&'static str; CLASSES],
    /// Writes by size and class.
    pub counts: [[u32; CLASSES]; SIZES.len()],
    /// Where slow writes begin, as the paper speaks of the system: a class.
    pub slow: usize,
}

const fn us(micros: [u64; CLASSES]) -> [u64; CLASSES] {
    let mut bounds = micros;
    let mut at = 0;
    while at < CLASSES {
        bounds[at] *= 1000;
        at += 1;
    }
    bounds
}

/// EXT2 over mtdblock, JFFS2, JFFS2 with the routine.
pub const TABLE: [Part; 3] = [
    Part {
        bounds: us([0, 400, 500, 1_000, 10_000, 100_000, 10_000_000]),
        names: ["<0.4", "0.4<", "0.5<", "1<", "10<", "100<", "10000<"],
        counts: [
            [28, 211, 15, 0, 0, 0, 0],
            [27, 443, 41, 0, 0, 0, 0],
            [30, 899, 94, 0, 0, 0, 0],
            [27, 1811, 197, 12, 0, 0, 0],
            [81, 3584, 405, 9, 2, 14, 1],
            [89, 7315, 673, 74, 7, 31, 2],
        ],
        slow: 3,
    },
    Part {
        bounds: us([1_900, 2_000, 3_000, 4_000, 5_000, 10_000, 100_000]),
        names: ["1.9<", "2<", "3<", "4<", "5<", "10<", "100<"],
        counts: [
            [185, 56, 0, 13, 1, 0, 0],
            [372, 110, 0, 28, 1, 0, 0],
            [726, 235, 1, 56, 4, 2, 0],
            [1435, 403, 12, 113, 44, 5, 35],
            [2791, 828, 37, 261, 92, 7, 79],
            [5505, 1697, 90, 488, 249, 15, 147],
        ],
        slow: 2,
    },
    Part {
        bounds: us([200, 300, 500, 1_000, 10_000, 100_000, 10_000_000]),
        names: ["0.2<", "0.3<", "0.5<", "1<", "10<", "100<", "10000<"],
        counts: [
            [243, 12, 0, 0, 0, 0, 0],
            [495, 15, 0, 0, 0, 1, 0],
            [988, 32, 0, 0, 0, 3, 0],
            [1971, 70, 0, 0, 0, 6, 0],
            [3926, 154, 2, 3, 0, 9, 1],
            [7786, 315, 13, 55, 2, 18, 2],
        ],
        slow: 2,
    },
];

impl Part {
    pub fn classify(&self, latencies: impl Iterator<Item = u64>) -> [u32; CLASSES] {
        let mut counts = [0; CLASSES];
        for ns in latencies {
            let at = self
                .bounds
                .iter()
                .rposition(|bound| *bound <= ns)
                .unwrap_or(0);
            counts[at] += 1;
        }
        counts
    }

    /// How far two distributions of latencies are apart: the largest distance between the shares
    /// below a bound of a class (Kolmogorov-Smirnov, at the bounds).
    pub fn distance(&self, a: &[u32; CLASSES], b: &[u32; CLASSES]) -> f64 {
        let share = |counts: &[u32; CLASSES], class: usize| {
            let all: u32 = counts.iter().sum();
            f64::from(counts[..class].iter().sum::<u32>()) / f64::from(all.max(1))
        };
        let apart = |class| (share(a, class) - share(b, class)).abs();
        (1..CLASSES).map(apart).fold(0.0, f64::max)
    }

    /// The share of writes that are not slow.
    pub fn quick(&self, counts: &[u32; CLASSES]) -> f64 {
        let all: u32 = counts.iter().sum();
        f64::from(counts[..self.slow].iter().sum::<u32>()) / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_but_for_a_write_or_two() {
        for part in &TABLE {
            for (counts, size) in part.counts.iter().zip(SIZES) {
                let missing = size / 4096 - u64::from(counts.iter().sum::<u32>());
                assert!(
                    missing <= 2,
                    "{missing} of {size} are missing in {:?}",
                    part.names
                );
            }
        }
    }

    #[test]
    fn a_latency_is_in_the_class_that_begins_at_or_below_it() {
        let counts =
            TABLE[2].classify([1, 299_999, 300_000, 99_999_999, 100_000_000, u64::MAX].into_iter());
        assert_eq!(counts, [2, 1, 0, 0, 1, 1, 1]);
        assert_eq!(TABLE[2].quick(&counts), 0.5);
    }

    #[test]
    fn distributions_are_as_far_apart_as_they_are_at_their_worst_bound() {
        let [a, b] = [[6, 2, 2, 0, 0, 0, 0], [1, 2, 7, 0, 0, 0, 0]];
        assert_eq!(TABLE[0].distance(&a, &a), 0.0);
        assert!((TABLE[0].distance(&a, &b) - 0.5).abs() < 1e-12);
        assert_eq!(TABLE[0].distance(&a, &[0, 0, 0, 0, 0, 0, 9]), 1.0);
    }
}
