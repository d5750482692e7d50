//! Synthetic streams: where requests go, what they ask, when they arrive.
//!
//! The four choices draw from generators of their own, so that changing the mix of reads and writes
//! moves no request.

mod order;
mod scatter;
mod spec;
mod zipf;

pub(crate) use order::below;
pub(crate) use scatter::Scatter;
pub use spec::{Amount, Arrival, Order, Spec, SpecError};
pub(crate) use spec::{require, within};

use crate::{Op, Request, Source, WorkloadError};
use nandlab_sim::{Nanos, Rng, rng};
use order::{Positions, fraction};
use rand::Rng as _;

/// Shares are compared as integers of this many bits, all that an `f64` below 1 can tell apart.
const SHARE_BITS: u32 = 53;

/// A stream made from a [`Spec`].
#[derive(Clone, Debug)]
pub struct Pattern {
    positions: Positions,
    mix: Mix,
    arrival: Arrival,
    arrivals: Rng,
    /// Arrival of the next data request.
    clock: Nanos,
    /// Arrival of the last one, which is also that of the flush behind it.
    last: Nanos,
    offset: u64,
    align: u64,
    block: u64,
    /// Data requests to come, or writes where only they count.
    remaining: u64,
    count_all: bool,
    flush_every: u64,
    until_flush: u64,
}

impl Pattern {
    /// A stream as `spec` describes it, if that passes its [`check`](Spec::check).
    pub fn new(spec: &Spec) -> Result<Self, SpecError> {
        spec.check()?;
        let flush_every = if spec.flush_every == 0 {
            u64::MAX
        } else {
            spec.flush_every
        };
        Ok(Self {
            positions: Positions::new(spec),
            mix: Mix::new(spec),
            arrival: spec.arrival,
            arrivals: rng(spec.seed, "workload arrivals"),
            clock: 0,
            last: 0,
            offset: spec.offset,
            align: spec.align,
            block: spec.block,
            remaining: spec.requests(),
            count_all: !matches!(spec.amount, Amount::Overwrites(_)),
            flush_every,
            until_flush: flush_every,
        })
    }

    /// Data requests still to come; where the amount is given in overwrites, writes still to come.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The next request, or none at the end.
    #[inline]
    pub fn draw(&mut self) -> Option<Request> {
        if self.until_flush == 0 {
            self.until_flush = self.flush_every;
            return Some(Request::flush(self.last));
        }
        if self.remaining == 0 {
            return None;
        }
        let op = self.mix.draw();
        self.remaining -= u64::from(self.count_all | (op == Op::Write));
        self.until_flush -= 1;
        let offset = self.offset + self.positions.draw() * self.align;
        Some(Request {
            op,
            at: self.arrive(),
            offset,
            length: self.block,
        })
    }

    #[inline]
    fn arrive(&mut self) -> Nanos {
        self.last = self.clock;
        self.clock = match self.arrival {
            Arrival::Closed => 0,
            Arrival::Every(gap) => self.clock.saturating_add(gap),
            Arrival::Poisson { mean } => {
                let gap = -libm::log1p(-fraction(&mut self.arrivals)) * mean as f64;
                self.clock.saturating_add((gap + 0.5) as u64)
            }
        };
        self.last
    }
}

impl Source for Pattern {
    #[inline]
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        Ok(self.draw())
    }
}

/// Which operation comes next.
#[derive(Clone, Debug)]
enum Mix {
    /// Always the same: nothing is drawn.
    Only(Op),
    /// A draw below `discard` discards, one below `read` reads, any other writes.
    Of { rng: Rng, discard: u64, read: u64 },
}

impl Mix {
    fn new(spec: &Spec) -> Self {
        let threshold = |share: f64| (share * (1u64 << SHARE_BITS) as f64) as u64;
        let discard = threshold(spec.discards);
        let read = threshold(spec.discards + (1.0 - spec.discards) * spec.reads);
        match (discard, read) {
            (0, 0) => Self::Only(Op::Write),
            (0, read) if read >> SHARE_BITS != 0 => Self::Only(Op::Read),
            (discard, _) if discard >> SHARE_BITS != 0 => Self::Only(Op::Discard),
            (discard, read) => Self::Of {
                rng: rng(spec.seed, "workload operations"),
                discard,
                read,
            },
        }
    }

    #[inline]
    fn draw(&mut self) -> Op {
        match self {
            Self::Only(op) => *op,
            Self::Of { rng, discard, read } => match rng.next_u64() >> (64 - SHARE_BITS) {
                drawn if drawn < *discard => Op::Discard,
                drawn if drawn < *read => Op::Read,
                _ => Op::Write,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::order::below;
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn all(spec: &Spec) -> Vec<Request> {
        let mut pattern = Pattern::new(spec).unwrap();
        core::iter::from_fn(|| pattern.draw()).collect()
    }

    fn count(requests: &[Request], op: Op) -> u64 {
        requests.iter().filter(|r| r.op == op).count() as u64
    }

    #[test]
    fn sequential_writes_are_contiguous_and_wrap() {
        let spec = Spec {
            order: Order::Sequential,
            block: 4096,
            offset: 512,
            amount: Amount::Requests(5),
            ..Spec::new(16384)
        };
        let offsets: Vec<u64> = all(&spec).iter().map(|r| r.offset).collect();
        assert_eq!(offsets, [512, 4608, 8704, 12800, 512]);
    }

    #[test]
    fn sequential_steps_are_whole_alignments() {
        let spec = Spec {
            order: Order::Sequential,
            block: 1536,
            align: 1024,
            amount: Amount::Requests(4),
            ..Spec::new(6144)
        };
        let offsets: Vec<u64> = all(&spec).iter().map(|r| r.offset).collect();
        assert_eq!(offsets, [0, 2048, 4096, 0]);
    }

    #[test]
    fn misaligned_offsets_cross_blocks() {
        let spec = Spec {
            block: 4096,
            align: 512,
            amount: Amount::Requests(1000),
            ..Spec::new(1 << 20)
        };
        let requests = all(&spec);
        assert!(requests.iter().all(|r| r.offset % 512 == 0));
        let aligned = requests.iter().filter(|r| r.offset % 4096 == 0).count();
        assert!(
            (75..175).contains(&aligned),
            "{aligned} of 1000, expected about an eighth"
        );
    }

    #[test]
    fn amounts_are_exact() {
        let spec = Spec {
            reads: 0.3,
            discards: 0.1,
            ..Spec::new(1 << 20)
        };
        let n = |amount| {
            all(&Spec {
                amount,
                ..spec.clone()
            })
        };
        assert_eq!(n(Amount::Requests(1234)).len(), 1234);
        assert_eq!(n(Amount::Bytes(40_961)).len(), 11);
        assert_eq!(count(&n(Amount::Overwrites(3)), Op::Write), 3 * 256);
    }

    #[test]
    fn shares_are_kept() {
        let spec = Spec {
            reads: 0.25,
            discards: 0.2,
            amount: Amount::Requests(100_000),
            ..Spec::new(1 << 30)
        };
        let requests = all(&spec);
        let shares = [Op::Discard, Op::Read, Op::Write].map(|op| count(&requests, op) as f64 / 1e5);
        // Five standard deviations of a share near a fifth are 0.0063.
        for (share, expected) in shares.iter().zip([0.2, 0.2, 0.6]) {
            assert!((share - expected).abs() < 0.007, "{shares:?}");
        }
    }

    #[test]
    fn whole_shares_are_whole() {
        let only = |reads, discards, op| {
            let spec = Spec {
                reads,
                discards,
                amount: Amount::Requests(1000),
                ..Spec::new(1 << 20)
            };
            assert_eq!(count(&all(&spec), op), 1000);
        };
        only(0.0, 0.0, Op::Write);
        only(1.0, 0.0, Op::Read);
        only(0.5, 1.0, Op::Discard);
    }

    #[test]
    fn the_mix_moves_no_request() {
        let spec = Spec {
            amount: Amount::Requests(100),
            ..Spec::new(1 << 30)
        };
        let offsets = |spec: &Spec| all(spec).iter().map(|r| r.offset).collect::<Vec<_>>();
        assert_eq!(
            offsets(&spec),
            offsets(&Spec {
                reads: 0.5,
                arrival: Arrival::Poisson { mean: 100 },
                ..spec.clone()
            })
        );
        assert_ne!(
            offsets(&spec),
            offsets(&Spec {
                seed: 2,
                ..spec.clone()
            })
        );
    }

    #[test]
    fn flushes_follow_every_nth_request_and_are_not_counted() {
        let spec = Spec {
            flush_every: 3,
            amount: Amount::Requests(6),
            arrival: Arrival::Every(10),
            ..Spec::new(1 << 20)
        };
        let requests = all(&spec);
        let flushes: Vec<usize> = (0..requests.len())
            .filter(|&i| requests[i].op == Op::Flush)
            .collect();
        assert_eq!((requests.len(), flushes), (8, [3, 7].into()));
        assert_eq!(
            (requests[3], requests[7]),
            (Request::flush(20), Request::flush(50))
        );
    }

    #[test]
    fn arrivals_keep_their_rate() {
        let times = |arrival| {
            all(&Spec {
                arrival,
                amount: Amount::Requests(100_001),
                ..Spec::new(1 << 20)
            })
        };
        assert_eq!(times(Arrival::Every(7)).last().unwrap().at, 700_000);
        let poisson = times(Arrival::Poisson { mean: 1_000_000 });
        let gaps: Vec<f64> = poisson
            .windows(2)
            .map(|w| (w[1].at - w[0].at) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / 1e5;
        // An exponential distribution has its mean for standard deviation; 5 sigma of both
        // estimates.
        assert!(
            (mean - 1.0).abs() < 0.016 && (variance - 1.0).abs() < 0.045,
            "{mean} {variance}"
        );
    }

    proptest! {
        #[test]
        fn every_request_lies_inside_the_region(
            order in prop_oneof![
                Just(Order::Sequential), Just(Order::Uniform), (0.01..3.0).prop_map(|theta| Order::Zipf { theta }),
                (0.0..=1.0, 0.01..0.99).prop_map(|(requests, space)| Order::HotCold { requests, space }),
            ],
            (block, align) in (1u64..64, 1u64..64), (offset, size) in (0u64..1000, 1u64..100_000), seed: u64,
        ) {
            let amount = Amount::Requests(200);
            let spec = Spec { order, block: block * 512, align: align * 512, offset: offset * 512, amount, seed, ..Spec::new(size * 512) };
            prop_assume!(spec.check().is_ok());
            for r in all(&spec) {
                prop_assert!(r.offset >= spec.offset && r.offset + r.length <= spec.offset + spec.size);
                prop_assert_eq!((r.offset - spec.offset) % spec.align, 0);
            }
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = rng(7, "test");
        let mut bins = [0u32; 100];
        (0..1_000_000).for_each(|_| bins[below(&mut rng, 100) as usize] += 1);
        let chi_square: f64 = bins
            .iter()
            .map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4)
            .sum();
        // 99 degrees of freedom: 0.1 % of uniform samples exceed 148, 0.1 % stay below 59.
        assert!((59.0..148.0).contains(&chi_square), "{chi_square}");
    }
}
