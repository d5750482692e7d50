//! Detects when write amplification is steady.

use std::collections::VecDeque;

/// The number of rounds that are compared.
const WINDOW: usize = 5;
/// The largest spread of the window's values, as a share of their mean.
const MAX_SPREAD: f64 = 0.20;
/// The largest rise or fall of the line through the window, as a share of the mean.
const MAX_DRIFT: f64 = 0.10;

/// Tells steady state as SNIA's performance test specification does: over five rounds the values
/// spread by at most 20 % of their mean, and the line fitted through them rises or falls by at most
/// 10 %. A round is one device size of data written; its value is the flash pages programmed per
/// byte written. Begin with a full device: an empty one looks steady while it fills.
#[derive(Clone, Debug)]
pub struct Steady {
    round_bytes: u64,
    round_at: u64,
    written: u64,
    programs: Option<u64>,
    window: VecDeque<f64>,
}

impl Steady {
    /// For a device of so many bytes.
    pub fn new(device_bytes: u64) -> Self {
        Self {
            round_bytes: device_bytes,
            round_at: 0,
            written: 0,
            programs: None,
            window: VecDeque::with_capacity(WINDOW + 1),
        }
    }

    /// Bytes written at which the current round ends.
    pub fn round_at(&self) -> u64 {
        self.round_at
    }

    /// A round has ended, with so many pages programmed and bytes written in all: whether steady
    /// state is reached.
    pub fn is_over(&mut self, programs: u64, written: u64) -> bool {
        if let Some(before) = self.programs {
            self.window
                .push_back((programs - before) as f64 / (written - self.written).max(1) as f64);
            if self.window.len() > WINDOW {
                self.window.pop_front();
            }
        }
        (self.programs, self.written) = (Some(programs), written);
        self.round_at = written.saturating_add(self.round_bytes);
        self.window.len() == WINDOW && self.is_steady()
    }

    fn is_steady(&self) -> bool {
        let mean = self.window.iter().sum::<f64>() / WINDOW as f64;
        let (low, high) = self
            .window
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), &v| {
                (low.min(v), high.max(v))
            });
        let drift = self.drift(mean);
        high - low <= MAX_SPREAD * mean && drift <= MAX_DRIFT * mean
    }

    /// The change over the window, on the line of least squares.
    fn drift(&self, mean: f64) -> f64 {
        let middle = (WINDOW - 1) as f64 / 2.0;
        let (top, bottom) =
            self.window
                .iter()
                .enumerate()
                .fold((0.0, 0.0), |(top, bottom), (i, v)| {
                    let x = i as f64 - middle;
                    (top + x * (v - mean), bottom + x * x)
                });
        (top / bottom).abs() * (WINDOW - 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The round after which values of so many programs per byte are steady.
    fn steady_round(values: &[f64]) -> Option<usize> {
        let mut steady = Steady::new(1000);
        let mut programs = 0.0;
        let mut written = 0;
        assert!(!steady.is_over(0, 0));
        values.iter().position(|value| {
            programs += value * 1000.0;
            written += 1000;
            assert_eq!(steady.round_at(), written);
            steady.is_over(programs as u64, written)
        })
    }

    #[test]
    fn five_level_rounds_are_steady_and_a_rise_is_not() {
        assert_eq!(
            steady_round(&[1.0, 2.0, 2.7, 3.0, 3.1, 3.05, 3.12, 3.08, 3.1]),
            Some(7)
        );
        assert_eq!(steady_round(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]), None);
        assert_eq!(steady_round(&[1.0, 1.3, 1.0, 1.3, 1.0, 1.3]), None);
        assert_eq!(steady_round(&[2.0; 4]), None);
    }
}
