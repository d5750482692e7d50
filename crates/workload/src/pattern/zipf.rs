//! Zipf ranks in constant memory, exactly distributed for any number of them.
//!
//! Rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996): invert the integral of the density x^-theta, round to
//! the nearest rank, and accept at once when the rounding went far enough up; only few draws need
//! the full test, fewer fail it.

use super::order::fraction;
use nandlab_sim::Rng;

/// Ranks `0..n` with probability proportional to (rank + 1)^-theta.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    n: u64,
    theta: f64,
    /// The integral of the density where rank 1's piece begins and where rank n's ends.
    from: f64,
    to: f64,
    /// Accept at once when rounding to the rank went at most this far up.
    shortcut: f64,
}

impl Zipf {
    /// `n` ranks, 1 to 2^53, with a skew above 0.
    pub(super) fn new(n: u64, theta: f64) -> Self {
        let mut zipf = Self {
            n,
            theta,
            from: 0.0,
            to: 0.0,
            shortcut: 0.0,
        };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(n as f64 + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.to + fraction(rng) * (self.from - self.to);
            let x = self.inverse(u);
            // A cast saturates, so any x ends up at a rank.
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let nearest = rank as f64;
            if nearest - x <= self.shortcut
                || u >= self.integral(nearest + 0.5) - self.density(nearest)
            {
                return rank - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// (x^(1 - theta) - 1) / (1 - theta), and its limit log x for a skew of 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    /// The x whose integral is `y`.
    fn inverse(&self, y: f64) -> f64 {
        // Rounding may carry the argument just below -1, where the logarithm ends.
        libm::exp(log1p_over((y * (1.0 - self.theta)).max(-1.0)) * y)
    }
}

/// (e^x - 1) / x, also near 0.
fn expm1_over(x: f64) -> f64 {
    if libm::fabs(x) > 1e-8 {
        libm::expm1(x) / x
    } else {
        1.0 + x / 2.0 * (1.0 + x / 3.0)
    }
}

/// log(1 + x) / x, also near 0.
fn log1p_over(x: f64) -> f64 {
    if libm::fabs(x) > 1e-8 {
        libm::log1p(x) / x
    } else {
        1.0 - x * (0.5 - x / 3.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use nandlab_sim::rng;

    /// Chi-square of a million draws against theory, ranks binned by powers of two.
    fn chi_square(n: u64, theta: f64) -> (f64, usize) {
        let zipf = Zipf::new(n, theta);
        let mut rng = rng(11, "test");
        let bin = |rank: u64| (rank + 1).ilog2() as usize;
        let mut seen = vec![0u32; bin(n - 1) + 1];
        let mut expected = vec![0.0; seen.len()];
        (0..1_000_000).for_each(|_| seen[bin(zipf.draw(&mut rng))] += 1);
        (0..n).for_each(|rank| expected[bin(rank)] += ((rank + 1) as f64).powf(-theta));
        let total: f64 = expected.iter().sum();
        let terms: Vec<f64> = seen
            .iter()
            .zip(&expected)
            .map(|(&s, e)| (s, e * 1e6 / total))
            .filter(|(_, e)| *e >= 5.0)
            .map(|(s, e)| (f64::from(s) - e).powi(2) / e)
            .collect();
        (terms.iter().sum(), terms.len())
    }

    #[test]
    fn frequencies_follow_theory() {
        for theta in [0.2, 0.5, 0.8, 0.99, 1.0, 1.2, 2.0, 5.0] {
            for n in [1, 2, 3, 100, 1 << 17] {
                let (chi, bins) = chi_square(n, theta);
                // Mean bins - 1, variance twice that; six sigma leave no chance over these forty
                // cases.
                let freedom = (bins - 1) as f64;
                assert!(
                    chi <= freedom + 6.0 * (2.0 * freedom).sqrt() + 1e-9,
                    "theta {theta} n {n}: {chi} over {bins} bins"
                );
            }
        }
    }

    #[test]
    fn each_hot_rank_has_its_own_frequency() {
        let n = 1000;
        let theta = 0.99;
        let zipf = Zipf::new(n, theta);
        let mut rng = rng(3, "test");
        let mut seen = [0u32; 1000];
        (0..1_000_000).for_each(|_| seen[zipf.draw(&mut rng) as usize] += 1);
        let total: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
        for (rank, &count) in seen.iter().enumerate() {
            let expected = 1e6 * ((rank + 1) as f64).powf(-theta) / total;
            assert!(
                (f64::from(count) - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {count}, expected {expected}"
            );
        }
    }

    #[test]
    fn huge_spaces_stay_in_range() {
        let mut rng = rng(9, "test");
        for theta in [0.01, 0.99, 1.0, 10.0] {
            let zipf = Zipf::new(1 << 53, theta);
            assert!((0..10_000).all(|_| zipf.draw(&mut rng) < 1 << 53));
        }
    }
}
