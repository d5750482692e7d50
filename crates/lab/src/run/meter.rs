//! What the host saw: requests, bytes, latencies, refusals.

use super::error::words;
use super::series::Series;
use super::snapshot::{Snapshot, programs};
use crate::result::{Host, HostRow, Latency, Point};
use hdrhistogram::Histogram;
use nandlab_block::BlockError;
use nandlab_ftl::Tally;
use nandlab_sim::{Chain, Nanos};
use nandlab_workload::{Op, Request};

/// Names in reports, in the order of rows.
const NAMES: [&str; 4] = ["read", "write", "flush", "discard"];
/// The longest latency that has a bucket of its own: about 146 years.
const MAX_LATENCY: u64 = 1 << 62;
/// Significant digits of percentiles, and of the histogram that is handed out.
const DIGITS: u8 = 3;
const BUCKET_DIGITS: u8 = 2;

/// Measures while requests are served.
pub struct Meter {
    rows: [Row; 4],
    failed: u64,
    first_failure: Option<String>,
    series: Series,
    first: Option<Nanos>,
    last: Nanos,
}

/// Requests of one kind.
struct Row {
    count: u64,
    bytes: u64,
    /// The last latency, and how many requests in a row had it: these are not in what follows.
    latency: u64,
    in_a_row: u64,
    total_ns: u128,
    max_ns: u64,
    histogram: Histogram<u64>,
}

impl Meter {
    pub fn new(series_interval: Nanos) -> Self {
        Self {
            rows: std::array::from_fn(|_| Row {
                count: 0,
                bytes: 0,
                latency: 0,
                in_a_row: 0,
                total_ns: 0,
                max_ns: 0,
                histogram: histogram(DIGITS),
            }),
            failed: 0,
            first_failure: None,
            series: Series::new(series_interval),
            first: None,
            last: 0,
        }
    }

    /// Whether [`roll`](Self::roll) must be called before a request whose latency counts from
    /// `from`.
    #[inline]
    pub fn is_due(&self, from: Nanos) -> bool {
        self.series.is_due(from)
    }

    /// A new interval of the series begins; `tally` is what the flash has done so far.
    pub fn roll(&mut self, from: Nanos, tally: &Tally) {
        self.first.get_or_insert(from);
        self.series.roll(from, programs(tally));
    }

    /// A request was served.
    #[inline]
    pub fn served(&mut self, request: &Request, from: Nanos, end: Nanos) {
        let row = &mut self.rows[row_of(request.op)];
        let latency = end.saturating_sub(from);
        row.count += 1;
        row.bytes = row.bytes.saturating_add(request.length);
        if latency != row.latency {
            row.settle();
            row.latency = latency;
        }
        row.in_a_row += 1;
        self.last = self.last.max(end);
        self.series.add(request.op, request.length);
    }

    /// Something that is no request went on until `end`.
    pub fn until(&mut self, end: Nanos) {
        self.last = self.last.max(end);
    }

    /// A request was refused.
    #[cold]
    pub fn failed(&mut self, request: &Request, error: BlockError, end: Nanos) {
        self.failed += 1;
        self.last = self.last.max(end);
        self.first_failure
            .get_or_insert_with(|| format!("{}: {}", words(request), Chain(&error)));
    }

    #[inline]
    pub fn written(&self) -> u64 {
        self.rows[row_of(Op::Write)].bytes
    }

    /// When the first request was issued, or arrived.
    pub fn first(&self) -> Nanos {
        self.first.unwrap_or(0)
    }

    /// Virtual time from there to the last completion.
    pub fn span(&self) -> Nanos {
        self.last.saturating_sub(self.first())
    }

    /// The host's side of the result, and the series.
    pub fn finish(mut self, after: &Snapshot, page: u32) -> (Host, Vec<Point>) {
        let series = self.series.finish(self.last, after.programs(), page);
        let rows = self.rows.iter_mut().zip(NAMES);
        let rows = rows.filter(|(row, _)| row.count > 0);
        let operations = rows.map(|(row, name)| row.result(name)).collect();
        (
            Host {
                operations,
                failed: self.failed,
                first_failure: self.first_failure,
            },
            series,
        )
    }
}

impl Row {
    /// Records the requests in a row that had one latency.
    fn settle(&mut self) {
        let count = std::mem::take(&mut self.in_a_row);
        self.total_ns += u128::from(self.latency) * u128::from(count);
        self.max_ns = self.max_ns.max(self.latency);
        self.histogram.saturating_record_n(self.latency, count);
    }

    fn result(&mut self, name: &str) -> HostRow {
        self.settle();
        // A percentile is the upper end of its bucket, which may lie beyond the largest value seen.
        let at = |quantile: f64| self.histogram.value_at_quantile(quantile).min(self.max_ns);
        let latency = Latency {
            mean_ns: self.total_ns as f64 / self.count as f64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.max_ns,
            buckets: self.buckets(),
        };
        HostRow {
            operation: name.into(),
            count: self.count,
            bytes: self.bytes,
            latency,
        }
    }

    fn buckets(&self) -> Vec<(u64, u64)> {
        let coarse = histogram(BUCKET_DIGITS);
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let bound = coarse.highest_equivalent(step.value_iterated_to());
            match buckets.last_mut().filter(|(last, _)| *last == bound) {
                Some((_, count)) => *count += step.count_since_last_iteration(),
                None => buckets.push((bound, step.count_since_last_iteration())),
            }
        }
        buckets
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY, digits)
        .expect("bounds and digits that the histogram allows")
}

#[inline]
fn row_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_reported_to_three_digits_and_the_largest_exactly() {
        let mut meter = Meter::new(1000);
        let write = Request {
            op: Op::Write,
            at: 0,
            offset: 0,
            length: 512,
        };
        meter.roll(0, &Tally::default());
        (1..=1000u64).for_each(|i| meter.served(&write, 0, i * 1_000_003));
        let row = meter.rows[1].result("write");
        let latency = &row.latency;
        assert_eq!(
            (row.count, row.bytes, latency.max_ns, latency.mean_ns),
            (1000, 512_000, 1_000_003_000, 500_501_501.5)
        );
        for (found, exact) in [
            (latency.p50_ns, 500e6),
            (latency.p90_ns, 900e6),
            (latency.p99_ns, 990e6),
            (latency.p999_ns, 999e6),
        ] {
            assert!((found as f64 / exact - 1.0).abs() < 1e-3, "{found} {exact}");
        }
        assert_eq!(latency.buckets.iter().map(|b| b.1).sum::<u64>(), 1000);
        assert!(latency.buckets.len() < 700 && latency.buckets.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn extreme_latencies_are_kept() {
        let mut meter = Meter::new(1000);
        meter.served(&Request::flush(0), 0, 0);
        meter.served(&Request::flush(0), 0, u64::MAX);
        let latency = meter.rows[2].result("flush").latency;
        assert_eq!(
            (latency.p50_ns, latency.max_ns, latency.buckets.len()),
            (0, u64::MAX, 2)
        );
    }

    #[test]
    fn refusals_are_counted_and_the_first_is_kept() {
        let mut meter = Meter::new(1000);
        let read = Request {
            op: Op::Read,
            at: 0,
            offset: 4096,
            length: 512,
        };
        meter.failed(&read, BlockError::WornOut(None), 5);
        meter.failed(&read, BlockError::ReadOnly(None), 6);
        assert_eq!((meter.failed, meter.span()), (2, 6));
        assert_eq!(
            meter.first_failure.unwrap(),
            "read of 512 bytes at offset 4096: worn out: no erase block left to write to"
        );
    }
}
