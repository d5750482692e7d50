//! What measured figures decide.
//!
//! *Promises.* A figure from several seeds has a mean and an interval of 95 % (Student's t). A
//! claim on it holds or fails only if the whole interval lies on one side of the claim's bound; a
//! distance to the bound below [`SMALL`] needs [`SEEDS`] seeds besides, and one more seed like the
//! lowest or the highest seen must leave the interval on its side. All else is undecided, and so is
//! a claim whose mechanism did not run: no verdict is one that another such seed would flip.
//! *Knows nothing of* experiments.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;

/// Seeds that a small distance needs.
pub const SEEDS: usize = 10;
/// The share of the bound below which a distance is small.
pub const SMALL: f64 = 0.15;
/// The share of intervals that hold the true mean.
const CONFIDENCE: f64 = 0.95;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The claim is true here.
    Holds,
    /// The claim is false here.
    Fails,
    /// The runs do not tell.
    Undecided,
}

impl Verdict {
    /// The verdict of a fact in which there is no chance.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }

    /// The verdict of a claim with several parts: it fails with one of them, and holds with all.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::Holds, Self::and)
    }

    /// The verdict of two parts.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
            (Self::Holds, Self::Holds) => Self::Holds,
        }
    }

    /// The verdict if what the claim is about happened: collection, merges, streams.
    pub fn if_happened(self, times: u64) -> Self {
        if times > 0 { self } else { Self::Undecided }
    }

    /// Returns the word that reports print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A figure, measured once or with several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The arithmetic mean of the values.
    pub mean: f64,
    /// From the mean to either end of the interval; nothing for a single seed.
    pub half: Option<f64>,
    /// How many seeds; nothing if no chance is in it.
    pub seeds: Option<usize>,
    /// The ends of the interval, or where one more seed like an extreme one moves them.
    #[serde(skip)]
    reach: [f64; 2],
}

impl Sample {
    /// A figure in which there is no chance: all seeds give the same.
    pub fn exact(value: f64) -> Self {
        Self {
            mean: value,
            half: Some(0.0),
            seeds: None,
            reach: [value; 2],
        }
    }

    /// The values of several seeds.
    ///
    /// # Panics
    /// If `values` is empty.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "a figure has a value");
        let [low, high] = [f64::min, f64::max].map(|pick| {
            let extreme = values.iter().copied().fold(values[0], pick);
            interval(&[values, &[extreme]].concat())
        });
        let (mean, half) = interval(values);
        Self {
            mean,
            half: (values.len() > 1).then_some(half),
            seeds: Some(values.len()),
            reach: [
                (mean - half).min(low.0 - low.1),
                (mean + half).max(high.0 + high.1),
            ],
        }
    }

    /// Whether it is above a bound. Compare two systems by their ratio, with a bound about 1: of a
    /// bound of 0 no distance is small.
    pub fn above(&self, bound: f64) -> Verdict {
        let distance = self.mean - bound;
        let is_small = distance.abs() < SMALL * bound.abs();
        let is_thin = self.seeds.is_some_and(|seeds| seeds < SEEDS);
        let [low, high] = self.reach;
        if is_small && is_thin || (low < bound && bound < high) {
            Verdict::Undecided
        } else {
            Verdict::of(distance > 0.0)
        }
    }

    /// Whether it is below a bound.
    pub fn below(&self, bound: f64) -> Verdict {
        match self.above(bound) {
            Verdict::Holds => Verdict::Fails,
            Verdict::Fails => Verdict::Holds,
            Verdict::Undecided => Verdict::Undecided,
        }
    }

    /// Whether it is between two bounds.
    pub fn within(&self, least: f64, most: f64) -> Verdict {
        self.above(least).and(self.below(most))
    }

    /// In words, with each number as `number` writes it.
    pub fn reported(&self, number: impl Fn(f64) -> String) -> String {
        let mean = number(self.mean);
        match (self.half, self.seeds) {
            (_, None) => mean,
            (None, _) => format!("{mean} (one seed)"),
            (Some(half), Some(seeds)) => {
                let [low, high] = [self.mean - half, self.mean + half].map(number);
                format!("{mean} ({low} to {high}, {seeds} seeds)")
            }
        }
    }
}

/// Mean and half of the interval of some values; of a single one the half is 0.
fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if count < 2.0 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    (mean, quantile(count - 1.0) * deviation / count.sqrt())
}

/// Student's t for an interval on both sides.
fn quantile(freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom).expect("a sound distribution");
    student.inverse_cdf((1.0 + CONFIDENCE) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fails, Holds, Undecided};

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Ten values of mean 5.5 and deviation 3.0277; t of nine degrees is 2.2622.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let figure = Sample::of(&values);
        assert_eq!(figure.mean, 5.5);
        assert!((figure.half.unwrap() - 2.2622 * 3.0277 / 10f64.sqrt()).abs() < 1e-3);
        assert_eq!(
            figure.reported(|v| format!("{v:.1}")),
            "5.5 (3.3 to 7.7, 10 seeds)"
        );
    }

    #[test]
    fn a_bound_inside_the_interval_decides_nothing() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let figure = Sample::of(&values);
        let bounds = [2.9, 3.4, 5.5, 7.6, 8.1];
        let verdicts = bounds.map(|bound| figure.above(bound));
        assert_eq!(verdicts, [Holds, Undecided, Undecided, Undecided, Fails]);
        assert_eq!(figure.within(2.9, 8.1), Holds);
        assert_eq!(figure.below(2.9), Fails);
    }

    #[test]
    fn a_small_difference_of_few_seeds_decides_nothing() {
        assert_eq!(Sample::of(&[1.1]).above(1.0), Undecided);
        assert_eq!(Sample::of(&[1.2]).above(1.0), Holds);
        assert_eq!(Sample::of(&[1.05, 1.051, 1.052]).above(1.0), Undecided);
        let ten = [
            1.05, 1.051, 1.052, 1.05, 1.051, 1.052, 1.05, 1.051, 1.052, 1.05,
        ];
        assert_eq!(Sample::of(&ten).above(1.0), Holds);
        assert_eq!(Sample::exact(1.001).above(1.0), Holds);
        assert_eq!(Sample::exact(0.999).above(1.0), Fails);
    }

    /// The published rates of six seeds that once gave a verdict with the first of them.
    #[test]
    fn seeds_that_flip_a_verdict_leave_it_undecided() {
        let six = [1.06, 1.009, 0.97, 1.054, 0.945, 0.985];
        for count in 1..=six.len() {
            assert_eq!(Sample::of(&six[..count]).above(1.0), Undecided, "{count}");
        }
    }

    /// Nineteen runs that agree and one that is 5 % faster: a second such run moves the interval.
    #[test]
    fn a_verdict_that_one_more_extreme_seed_would_flip_is_undecided() {
        let mut twenty = [1.001; 20];
        twenty[13] = 1.05;
        let figure = Sample::of(&twenty);
        assert!(figure.mean + figure.half.unwrap() < 1.01);
        assert_eq!(figure.below(1.01), Undecided);
        assert_eq!(figure.below(1.03), Holds);
        assert_eq!(figure.above(0.95), Holds);
        assert_eq!(Sample::of(&[1.001; 20]).below(1.01), Holds);
    }

    #[test]
    fn a_claim_fails_with_a_part_and_needs_its_mechanism() {
        assert_eq!(Verdict::all([Holds, Undecided, Fails]), Fails);
        assert_eq!(Verdict::all([Holds, Undecided]), Undecided);
        assert_eq!(Verdict::all([Holds, Holds]), Holds);
        assert_eq!(Fails.if_happened(0), Undecided);
        assert_eq!(Holds.if_happened(3), Holds);
    }
}
