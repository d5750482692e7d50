//! Progress over virtual time, in bounded memory: when there are too many points, each two
//! neighbours become one.

use crate::result::Point;
use nandlab_sim::Nanos;
use nandlab_workload::Op;

/// The most points of a series.
const MAX_POINTS: usize = 2048;

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    written: u64,
    read: u64,
    programs: u64,
}

impl Cell {
    fn add(&mut self, other: Self) {
        self.written += other.written;
        self.read += other.read;
        self.programs += other.programs;
    }
}

/// A series under way. A request belongs to the interval in which it is issued; these times must
/// not run backwards.
#[derive(Clone, Debug)]
pub struct Series {
    interval: Nanos,
    start: Nanos,
    /// When the current interval ends; 0 before the first request.
    boundary: Nanos,
    index: usize,
    current: Cell,
    cells: Vec<Cell>,
    programs: u64,
}

impl Series {
    /// Points `interval` apart to begin with.
    pub fn new(interval: Nanos) -> Self {
        Self {
            interval: interval.max(1),
            start: 0,
            boundary: 0,
            index: 0,
            current: Cell::default(),
            cells: Vec::new(),
            programs: 0,
        }
    }

    /// Whether [`roll`](Self::roll) must be called before a request issued at `at` is added.
    #[inline]
    pub fn is_due(&self, at: Nanos) -> bool {
        at >= self.boundary
    }

    /// The request about to be issued at `at` begins a new interval; `programs` is what the flash
    /// has done so far.
    #[cold]
    pub fn roll(&mut self, at: Nanos, programs: u64) {
        if self.cells.is_empty() {
            (self.start, self.programs) = (at, programs);
        }
        self.close(programs);
        while (at - self.start) / self.interval >= MAX_POINTS as u64 {
            self.halve();
        }
        self.index = ((at - self.start) / self.interval) as usize;
        self.cells
            .resize(self.cells.len().max(self.index + 1), Cell::default());
        self.boundary = self
            .start
            .saturating_add(self.interval.saturating_mul(self.index as u64 + 1));
    }

    fn close(&mut self, programs: u64) {
        self.current.programs = programs - self.programs;
        self.programs = programs;
        let current = std::mem::take(&mut self.current);
        if let Some(cell) = self.cells.get_mut(self.index) {
            cell.add(current);
        }
    }

    fn halve(&mut self) {
        self.interval = self.interval.saturating_mul(2);
        self.cells = self
            .cells
            .chunks(2)
            .map(|pair| {
                pair.iter().fold(Cell::default(), |mut sum, cell| {
                    sum.add(*cell);
                    sum
                })
            })
            .collect();
    }

    /// A request of the current interval was served.
    #[inline]
    pub fn add(&mut self, op: Op, bytes: u64) {
        match op {
            Op::Write => self.current.written += bytes,
            Op::Read => self.current.read += bytes,
            Op::Flush | Op::Discard => {}
        }
    }

    /// The points, for a run that ended at `end` with so many `programs` of pages of `page` bytes.
    pub fn finish(mut self, end: Nanos, programs: u64, page: u32) -> Vec<Point> {
        self.close(programs);
        let span = end.saturating_sub(self.start);
        let mut begin = 0;
        let point = |(i, cell): (usize, &Cell)| {
            let at_ns = self
                .interval
                .saturating_mul(i as u64 + 1)
                .min(span)
                .max(begin);
            let seconds = (at_ns - begin) as f64 / 1e9;
            begin = at_ns;
            let rate = |bytes: u64| {
                if seconds > 0.0 {
                    bytes as f64 / seconds
                } else {
                    0.0
                }
            };
            let amplification = (cell.written > 0)
                .then(|| cell.programs as f64 * f64::from(page) / cell.written as f64);
            Point {
                at_ns,
                written_per_s: rate(cell.written),
                read_per_s: rate(cell.read),
                write_amplification: amplification,
            }
        };
        self.cells.iter().enumerate().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(interval: Nanos, gap: Nanos, requests: u64) -> Vec<Point> {
        let mut series = Series::new(interval);
        for i in 0..requests {
            if series.is_due(500 + i * gap) {
                series.roll(500 + i * gap, 7 + 2 * i);
            }
            series.add(Op::Write, 512);
        }
        series.finish(500 + requests * gap, 7 + 2 * requests, 512)
    }

    #[test]
    fn however_long_the_run_points_stay_few_and_lose_nothing() {
        for (interval, gap, requests) in [
            (10, 1, 10),
            (10, 3, 100),
            (1, 1, 1_000_000),
            (1, 1_000_000_007, 50_000),
            (1 << 40, 5, 1000),
        ] {
            let points = run(interval, gap, requests);
            assert!(points.len() <= MAX_POINTS && !points.is_empty());
            assert_eq!(points.last().unwrap().at_ns, requests * gap);
            let mut begin = 0;
            let written: f64 = points
                .iter()
                .map(|p| {
                    let bytes = p.written_per_s * (p.at_ns - begin) as f64 / 1e9;
                    begin = p.at_ns;
                    bytes
                })
                .sum();
            assert!(
                (written / (requests as f64 * 512.0) - 1.0).abs() < 1e-9,
                "{interval} {gap} {requests}: {written}"
            );
            assert!(
                points
                    .iter()
                    .filter_map(|p| p.write_amplification)
                    .all(|wa| (wa - 2.0).abs() < 1e-9)
            );
        }
    }

    #[test]
    fn an_idle_stretch_is_a_row_of_points_at_zero() {
        let points = run(10, 100, 3);
        assert_eq!(points.len(), 21);
        assert!(
            points[1].written_per_s == 0.0
                && points[1].write_amplification.is_none()
                && points[10].written_per_s > 0.0
        );
    }

    #[test]
    fn a_run_without_time_or_requests_has_no_rates() {
        assert!(run(10, 1, 0).is_empty());
        assert_eq!(run(10, 0, 5)[0].written_per_s, 0.0);
    }
}
