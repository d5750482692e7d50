//! Axes: from values to places between 0 and 1, and round numbers to write beside them.

use super::number::Quantity;

/// How far a linear axis reaches beyond its data, so that no curve runs along the edge.
const HEADROOM: f64 = 1.04;

/// One axis that covers its data; values outside are placed at the nearer end.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it measures, in words.
    pub label: String,
    /// How its numbers are written.
    pub quantity: Quantity,
    log: bool,
    low: f64,
    high: f64,
}

impl Axis {
    /// A linear axis from zero (or the least value below it) to a little above the largest value.
    pub fn linear(label: &str, quantity: Quantity, values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = range(values.into_iter().chain([0.0])).unwrap_or((0.0, 0.0));
        let low = low.max(-1e200);
        let high = high.min(1e200);
        let high = if high > low {
            low + (high - low) * HEADROOM
        } else {
            low + quantity.tick_unit(1.0).0
        };
        Axis {
            label: label.into(),
            quantity,
            log: false,
            low,
            high,
        }
    }

    /// A logarithmic axis over the positive values, widened to 1, 2 or 5 times a power of ten.
    pub fn log(label: &str, quantity: Quantity, values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = range(
            values
                .into_iter()
                .filter(|value| (1e-200..1e200).contains(value)),
        )
        .unwrap_or((1.0, 10.0));
        let low = steps(low, high)
            .take_while(|&step| step <= low * 1.0001)
            .last()
            .unwrap_or(low);
        let high = steps(low, high)
            .find(|&step| step >= high * 0.9999 && step > low)
            .unwrap_or(high);
        Axis {
            label: label.into(),
            quantity,
            log: true,
            low,
            high,
        }
    }

    /// A logarithmic axis or a linear one.
    pub fn new(
        log: bool,
        label: &str,
        quantity: Quantity,
        values: impl IntoIterator<Item = f64>,
    ) -> Axis {
        if log {
            Self::log(label, quantity, values)
        } else {
            Self::linear(label, quantity, values)
        }
    }

    /// The same axis, ending exactly at `high`.
    pub fn until(mut self, high: f64) -> Axis {
        if high.is_finite() && high > self.low {
            self.high = high;
        }
        self
    }

    /// Whether it is logarithmic.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Powers of ten between its ends, if those are positive.
    pub fn decades(&self) -> f64 {
        (self.high / self.low).log10()
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// About `wanted` round values with their text, ascending.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = if self.log {
            self.log_ticks(wanted)
        } else {
            self.linear_ticks(wanted)
        };
        values
            .into_iter()
            .map(|value| (value, self.write(value)))
            .collect()
    }

    fn write(&self, value: f64) -> String {
        match self.log && self.quantity == Quantity::Nanoseconds && value >= 1e9 {
            // Decades of seconds stay seconds: 100 s is round, 1.67 min is not.
            true => Quantity::Nanoseconds.tick(value, 1e9),
            false => self
                .quantity
                .tick(value, if self.log { value } else { self.high }),
        }
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let worth = self.quantity.tick_unit(self.high).0;
        let low = self.low / worth;
        let high = self.high / worth;
        let rough = (high - low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|step| step * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        let first = (low / step).ceil();
        (0..=2 * wanted)
            .map(|at| (first + at as f64) * step * worth)
            .take_while(|&value| value <= self.high * 1.000001)
            .collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let decades = self.decades();
        let inside = steps(self.low, self.high)
            .filter(|&step| step >= self.low * 0.9999 && step <= self.high * 1.0001);
        if decades * 3.0 <= wanted as f64 {
            return inside.collect();
        }
        let stride = (decades / (2 * wanted.max(1)) as f64).ceil() as i64;
        inside
            .filter(|step| is_power_of_ten(*step) && step.log10().round() as i64 % stride == 0)
            .collect()
    }
}

/// 1, 2 and 5 times the powers of ten around `low..=high`, ascending.
fn steps(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let first = low.log10().floor() as i32 - 1;
    let last = high.log10().ceil() as i32 + 1;
    (first..=last).flat_map(|power| {
        [1.0, 2.0, 5.0].map(|digit| format!("{digit}e{power}").parse().unwrap_or(f64::NAN))
    })
}

fn is_power_of_ten(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-9
}

/// Least and largest finite value.
pub fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks(5)
            .into_iter()
            .map(|(_, text)| text.replace('\u{202f}', " "))
            .collect()
    }

    #[test]
    fn linear_ticks_are_round_in_the_unit_of_the_axis() {
        let axis = Axis::linear("t", Quantity::Nanoseconds, [600e9]).until(600e9);
        assert_eq!(
            texts(&axis),
            ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]
        );
    }

    #[test]
    fn log_ticks_are_decades_or_finer_where_there_is_room() {
        assert_eq!(
            texts(&Axis::log("t", Quantity::Nanoseconds, [3e3, 2e9])),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(
            texts(&Axis::log("t", Quantity::Nanoseconds, [120e3, 120e3])),
            ["100 µs", "200 µs"]
        );
    }

    #[test]
    fn any_values_give_an_axis_that_places_between_its_ends() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, f64::MAX];
        for values in [&odd[..], &odd[..4], &[]] {
            for axis in [
                Axis::linear("", Quantity::Count, values.iter().copied()),
                Axis::log("", Quantity::Count, values.iter().copied()),
            ] {
                assert!(
                    values
                        .iter()
                        .all(|&value| (0.0..=1.0).contains(&axis.place(value))),
                    "{axis:?}"
                );
                assert!(axis.ticks(6).len() <= 13, "{axis:?}");
            }
        }
    }
}
