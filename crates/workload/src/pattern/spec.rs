//! What a synthetic stream is to be: plain values, checked before use.

use alloc::{format, string::String};
use core::fmt::Debug;
use core::ops::RangeBounds;
use nandlab_sim::Nanos;

/// The unit of offsets and lengths: no disk has smaller sectors.
const SECTOR: u64 = 512;
/// Regions end below this, so that sums of offsets and lengths cannot overflow.
const MAX_END: u64 = 1 << 62;

/// In which order the region's positions are visited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Upwards, and again from the start.
    Sequential,
    /// Each position is as likely as any other.
    Uniform,
    /// The position of popularity rank k is drawn with probability proportional to k^-theta. Ranks
    /// are scattered over the region.
    Zipf {
        /// Skew; 0.99 is YCSB's.
        theta: f64,
    },
    /// A share of the requests goes to a share of the positions, uniformly, the other requests to
    /// the others. The hot ones lie at the start of the region.
    HotCold {
        /// Share of the requests, 0 to 1.
        requests: f64,
        /// Share of the positions, above 0 and below 1.
        space: f64,
    },
}

/// How long the stream is. Flushes are never counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The stream ends after so many requests.
    Requests(u64),
    /// So many bytes read, written and discarded, rounded up to whole requests.
    Bytes(u64),
    /// So many times the region's size in bytes written, rounded up to whole requests; reads and
    /// discards come on top.
    Overwrites(u64),
}

/// When requests arrive. The first arrives at 0, a flush with the request before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Whenever the device is ready: all times are 0.
    Closed,
    /// At a fixed interval in nanoseconds.
    Every(Nanos),
    /// At exponentially distributed intervals.
    Poisson {
        /// Their mean in nanoseconds.
        mean: Nanos,
    },
}

/// The parameters of a synthetic stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The order of the addresses.
    pub order: Order,
    /// Share of reads among reads and writes, 0 to 1.
    pub reads: f64,
    /// Share of discards among all requests, 0 to 1.
    pub discards: f64,
    /// Bytes of a request; a multiple of 512.
    pub block: u64,
    /// Offsets are multiples of this many bytes, counted from the region's start; a multiple
    /// of 512. May be smaller than the block.
    pub align: u64,
    /// Start of the region in bytes; a multiple of 512. One that is not a multiple of the block
    /// misaligns everything.
    pub offset: u64,
    /// Size of the region in bytes; a multiple of 512, at least a block.
    pub size: u64,
    /// The length of the stream.
    pub amount: Amount,
    /// A flush after every so many requests; 0 for none.
    pub flush_every: u64,
    /// The times at which requests arrive.
    pub arrival: Arrival,
    /// The same seed gives the same stream for ever.
    pub seed: u64,
}

/// A setting that makes no stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {found}: expected {expected}")]
pub struct SpecError {
    /// The field of [`Spec`].
    pub key: &'static str,
    /// The value of the parameter.
    pub found: String,
    /// The values that it takes.
    pub expected: String,
}

/// `Ok` if `good`, else the error that names `key`.
pub(crate) fn require(
    good: bool,
    key: &'static str,
    found: impl Debug,
    expected: impl Into<String>,
) -> Result<(), SpecError> {
    if good {
        Ok(())
    } else {
        Err(SpecError {
            key,
            found: format!("{found:?}"),
            expected: expected.into(),
        })
    }
}

/// `Ok` if `found` is within `range`, else the error that names `key`.
pub(crate) fn within(
    key: &'static str,
    found: u64,
    range: impl RangeBounds<u64>,
    expected: &str,
) -> Result<(), SpecError> {
    require(range.contains(&found), key, found, expected)
}

impl Spec {
    /// One overwrite of `size` bytes by uniformly random, aligned 4 KiB writes without flushes,
    /// closed loop, seed 1.
    pub fn new(size: u64) -> Self {
        Self {
            order: Order::Uniform,
            reads: 0.0,
            discards: 0.0,
            block: 4096,
            align: 4096,
            offset: 0,
            size,
            amount: Amount::Overwrites(1),
            flush_every: 0,
            arrival: Arrival::Closed,
            seed: 1,
        }
    }

    /// Refuses what makes no stream, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_region()?;
        self.check_order()?;
        self.check_mix()?;
        self.check_amount()
    }

    /// How many offsets a request can have.
    pub(super) fn positions(&self) -> u64 {
        (self.size - self.block) / self.align + 1
    }

    /// Data requests in all; where the amount is given in overwrites, writes in all.
    pub(super) fn requests(&self) -> u64 {
        match self.amount {
            Amount::Requests(requests) => requests,
            Amount::Bytes(bytes) => bytes.div_ceil(self.block),
            Amount::Overwrites(times) => times.saturating_mul(self.size).div_ceil(self.block),
        }
    }

    fn check_region(&self) -> Result<(), SpecError> {
        let sectors = |bytes: u64| bytes.is_multiple_of(SECTOR);
        require(
            self.block > 0 && sectors(self.block),
            "block",
            self.block,
            "a multiple of 512 bytes",
        )?;
        require(
            self.align > 0 && sectors(self.align),
            "align",
            self.align,
            "a multiple of 512 bytes",
        )?;
        require(
            sectors(self.offset),
            "offset",
            self.offset,
            "a multiple of 512 bytes",
        )?;
        let least = self.block;
        require(
            sectors(self.size) && self.size >= least,
            "size",
            self.size,
            format!("a multiple of 512 bytes, at least the block of {least}"),
        )?;
        let fits =
            self.size <= MAX_END && self.offset <= MAX_END - self.size && self.align <= MAX_END;
        require(
            fits,
            "offset",
            self.offset,
            format!(
                "a region (offset and size {}) and alignment within 2^62 bytes",
                self.size
            ),
        )
    }

    fn check_order(&self) -> Result<(), SpecError> {
        match self.order {
            Order::Sequential | Order::Uniform => Ok(()),
            Order::Zipf { theta } => require(
                theta > 0.0 && theta <= 10.0,
                "theta",
                theta,
                "a skew above 0, at most 10",
            ),
            Order::HotCold { requests, space } => {
                require(
                    (0.0..=1.0).contains(&requests),
                    "hot requests",
                    requests,
                    "a share from 0 to 1",
                )?;
                require(
                    space > 0.0 && space < 1.0,
                    "hot space",
                    space,
                    "a share above 0 and below 1",
                )?;
                require(
                    self.positions() >= 2,
                    "size",
                    self.size,
                    "space for at least two blocks, one hot and one cold",
                )
            }
        }
    }

    fn check_mix(&self) -> Result<(), SpecError> {
        require(
            (0.0..=1.0).contains(&self.reads),
            "reads",
            self.reads,
            "a share from 0 to 1",
        )?;
        require(
            (0.0..=1.0).contains(&self.discards),
            "discards",
            self.discards,
            "a share from 0 to 1",
        )
    }

    fn check_amount(&self) -> Result<(), SpecError> {
        let (Amount::Requests(n) | Amount::Bytes(n) | Amount::Overwrites(n)) = self.amount;
        require(n > 0, "amount", self.amount, "at least 1")?;
        if let Amount::Overwrites(times) = self.amount {
            require(
                times.checked_mul(self.size).is_some(),
                "amount",
                self.amount,
                "fewer than 2^64 bytes to write",
            )?;
            require(
                self.reads < 1.0,
                "reads",
                self.reads,
                "a share below 1, since the amount counts writes",
            )?;
            require(
                self.discards < 1.0,
                "discards",
                self.discards,
                "a share below 1, since the amount counts writes",
            )?;
        }
        match self.arrival {
            Arrival::Every(0) | Arrival::Poisson { mean: 0 } => require(
                false,
                "arrival",
                self.arrival,
                "an interval of at least 1 ns",
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn errors_name_key_found_and_expected() {
        let spec = Spec {
            block: 1000,
            ..Spec::new(1 << 20)
        };
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "block = 1000: expected a multiple of 512 bytes"
        );
    }

    #[test]
    fn each_bad_setting_is_named() {
        let key = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Spec::new(1 << 20);
            change(&mut spec);
            spec.check().map_or_else(|error| error.key, |()| "accepted")
        };
        assert_eq!(key(&|_| ()), "accepted");
        assert_eq!(key(&|s| s.block = 0), "block");
        assert_eq!(key(&|s| s.align = 100), "align");
        assert_eq!(key(&|s| s.offset = 1), "offset");
        assert_eq!(key(&|s| s.offset = u64::MAX - 511), "offset");
        assert_eq!(key(&|s| s.size = 2048), "size");
        assert_eq!(key(&|s| s.reads = 1.5), "reads");
        assert_eq!(key(&|s| s.reads = f64::NAN), "reads");
        assert_eq!(key(&|s| s.reads = 1.0), "reads");
        assert_eq!(key(&|s| s.discards = -0.1), "discards");
        assert_eq!(key(&|s| s.order = Order::Zipf { theta: 0.0 }), "theta");
        assert_eq!(
            key(&|s| s.order = Order::HotCold {
                requests: 2.0,
                space: 0.5
            }),
            "hot requests"
        );
        assert_eq!(
            key(&|s| s.order = Order::HotCold {
                requests: 0.8,
                space: 1.0
            }),
            "hot space"
        );
        assert_eq!(key(&|s| s.amount = Amount::Bytes(0)), "amount");
        assert_eq!(key(&|s| s.amount = Amount::Overwrites(u64::MAX)), "amount");
        assert_eq!(key(&|s| s.arrival = Arrival::Every(0)), "arrival");
    }
}
