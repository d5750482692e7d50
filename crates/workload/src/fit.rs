//! A stream laid onto a device: whole sectors, inside its bounds, at another pace. Every request
//! that comes out differently from how it went in is counted.

use crate::{Op, Request, Source, WorkloadError};
use alloc::string::ToString;

/// Alignment that scaling keeps, where the request had it: the page size of hosts, which most
/// requests are multiples of.
const KEPT_ALIGNMENT_LOG2: u32 = 12;

/// What to do with requests beyond the device's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Stop with [`WorkloadError::OutOfRange`] at the first request that does not fit.
    Refuse,
    /// Offsets modulo the device: neighbours stay neighbours, distant extents may come to share a
    /// place.
    Wrap,
    /// Offsets times device over `span`, lengths unchanged: distances shrink, sequential runs come
    /// to overlap. A span that fits as it is stays as it is. Offsets keep the alignment they had,
    /// up to 4 KiB.
    Scale {
        /// The stream's address range in bytes ([`Survey::end`](crate::Survey::end)); a request
        /// beyond it is refused.
        span: u64,
    },
}

/// The device, and how to come to terms with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Bytes of a sector; above 0. Requests are rounded out to whole sectors.
    pub sector: u64,
    /// Bytes of the device; at least a sector. A part of a sector at the end is not used.
    pub bytes: u64,
    /// How requests beyond the end are treated.
    pub fit: Fit,
    /// Arrival times are multiplied by this: 0.5 is twice as fast, 0 all at once. 1 is exact,
    /// others to 53 bits.
    pub time_scale: f64,
}

/// Counts of requests that were changed to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adjusted {
    /// Requests that passed, flushes included.
    pub requests: u64,
    /// Rounded out to whole sectors.
    pub rounded: u64,
    /// Bytes that rounding added.
    pub rounded_bytes: u64,
    /// Moved by wrapping or scaling.
    pub moved: u64,
    /// Longer than the device, and cut to it.
    pub cut: u64,
    /// Bytes lost by cutting.
    pub cut_bytes: u64,
}

/// `source`, as a device of a given size and sector can serve it.
#[derive(Clone, Debug)]
pub struct Fitted<S> {
    source: S,
    target: Target,
    adjusted: Adjusted,
}

impl<S: Source> Fitted<S> {
    /// Fits `source` to `target`; fails with [`WorkloadError::BadFit`] if there can be no such
    /// device or scale.
    pub fn new(source: S, mut target: Target) -> Result<Self, WorkloadError> {
        let require = |good: bool, key, found: &dyn core::fmt::Display, expected| {
            if good {
                Ok(())
            } else {
                Err(WorkloadError::BadFit {
                    key,
                    found: found.to_string(),
                    expected,
                })
            }
        };
        let Target {
            sector,
            bytes,
            fit,
            time_scale,
        } = target;
        require(sector > 0, "sector", &sector, "a sector of at least 1 byte")?;
        require(
            bytes >= sector,
            "bytes",
            &bytes,
            "a device of at least one sector",
        )?;
        require(
            fit != Fit::Scale { span: 0 },
            "span",
            &0,
            "the stream's address range, at least 1 byte",
        )?;
        require(
            time_scale >= 0.0 && time_scale.is_finite(),
            "time_scale",
            &time_scale,
            "a finite factor, not negative",
        )?;
        target.bytes -= target.bytes % target.sector;
        Ok(Self {
            source,
            target,
            adjusted: Adjusted::default(),
        })
    }

    /// What has been changed so far.
    pub fn adjusted(&self) -> &Adjusted {
        &self.adjusted
    }

    /// Returns the stream that is fitted.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Sectors from the one that holds the first byte to the one that holds the last.
    fn round_out(&mut self, request: &mut Request) -> Result<(), WorkloadError> {
        let sector = self.target.sector;
        let start = request.offset - request.offset % sector;
        let end = request
            .offset
            .checked_add(request.length)
            .and_then(|end| end.checked_next_multiple_of(sector));
        let length =
            end.ok_or_else(|| self.out_of_range(request, "address range", u64::MAX))? - start;
        if length != request.length {
            self.adjusted.rounded += 1;
            self.adjusted.rounded_bytes += length - request.length;
        }
        (request.offset, request.length) = (start, length);
        Ok(())
    }

    /// Inside the device, in whole sectors as before.
    fn place(&mut self, request: &mut Request) -> Result<(), WorkloadError> {
        let bytes = self.target.bytes;
        let inside = |r: &Request| r.length <= bytes && r.offset <= bytes - r.length;
        let original = request.offset;
        match self.target.fit {
            Fit::Scale { span } if span > bytes => request.offset = self.scale(request, span)?,
            _ if inside(request) => return Ok(()),
            Fit::Refuse => return Err(self.out_of_range(request, "device", bytes)),
            Fit::Scale { span } => return Err(self.out_of_range(request, "span", span)),
            Fit::Wrap => request.offset %= bytes,
        }
        self.cut(request);
        // A request that would now straddle the end is pushed back to end there, rather than split:
        // its size is kept.
        request.offset = request.offset.min(bytes - request.length);
        self.adjusted.moved += u64::from(request.offset != original);
        Ok(())
    }

    /// Cuts a request that is longer than the device.
    fn cut(&mut self, request: &mut Request) {
        let bytes = self.target.bytes;
        if request.length > bytes {
            self.adjusted.cut += 1;
            self.adjusted.cut_bytes += request.length - bytes;
            request.length = bytes;
        }
    }

    fn scale(&self, request: &Request, span: u64) -> Result<u64, WorkloadError> {
        // Rounding out may have passed the span by less than a sector, which is no fault of the
        // request.
        if request.offset >= span
            || request.length > span.saturating_add(self.target.sector) - request.offset
        {
            return Err(self.out_of_range(request, "span", span));
        }
        // Below `bytes`, since the offset is below the span.
        let scaled =
            (u128::from(request.offset) * u128::from(self.target.bytes) / u128::from(span)) as u64;
        let kept = 1u64 << request.offset.trailing_zeros().min(KEPT_ALIGNMENT_LOG2);
        let sector = self.target.sector;
        let unit = if kept.is_multiple_of(sector) {
            kept
        } else {
            sector
        };
        Ok(scaled - scaled % unit)
    }

    #[cold]
    fn out_of_range(&self, request: &Request, what: &'static str, bytes: u64) -> WorkloadError {
        let end = request.offset.saturating_add(request.length);
        WorkloadError::OutOfRange {
            request: self.adjusted.requests + 1,
            offset: request.offset,
            end,
            what,
            bytes,
        }
    }
}

impl<S: Source> Source for Fitted<S> {
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        let Some(mut request) = self.source.next()? else {
            return Ok(None);
        };
        if self.target.time_scale != 1.0 {
            request.at = (request.at as f64 * self.target.time_scale) as u64;
        }
        if request.op != Op::Flush {
            self.round_out(&mut request)?;
            self.place(&mut request)?;
        }
        self.adjusted.requests += 1;
        Ok(Some(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    struct List(Vec<Request>);

    impl Source for List {
        fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
            Ok(if self.0.is_empty() {
                None
            } else {
                Some(self.0.remove(0))
            })
        }
    }

    fn write(offset: u64, length: u64) -> Request {
        Request {
            op: Op::Write,
            at: 1000,
            offset,
            length,
        }
    }

    fn target(fit: Fit) -> Target {
        Target {
            sector: 4096,
            bytes: 1 << 20,
            fit,
            time_scale: 1.0,
        }
    }

    fn one(request: Request, target: Target) -> (Result<Option<Request>, WorkloadError>, Adjusted) {
        let mut fitted = Fitted::new(List(vec![request]), target).unwrap();
        (fitted.next(), *fitted.adjusted())
    }

    #[test]
    fn what_fits_is_left_alone() {
        for fit in [Fit::Refuse, Fit::Wrap, Fit::Scale { span: 1 << 20 }] {
            let (request, adjusted) = one(write(4096, 8192), target(fit));
            assert_eq!(request, Ok(Some(write(4096, 8192))));
            assert_eq!(
                adjusted,
                Adjusted {
                    requests: 1,
                    ..Adjusted::default()
                }
            );
        }
    }

    #[test]
    fn parts_of_sectors_are_rounded_out_and_counted() {
        let (request, adjusted) = one(write(5000, 100), target(Fit::Refuse));
        assert_eq!(request, Ok(Some(write(4096, 4096))));
        assert_eq!((adjusted.rounded, adjusted.rounded_bytes), (1, 3996));
        assert_eq!(
            one(write(4095, 2), target(Fit::Refuse)).0,
            Ok(Some(write(0, 8192)))
        );
    }

    #[test]
    fn refusal_names_the_request() {
        let error = one(write((1 << 20) - 4096, 8192), target(Fit::Refuse))
            .0
            .unwrap_err();
        assert_eq!(
            std::format!("{error}"),
            "request 1: bytes 1044480 to 1052672 leave the device of 1048576 bytes"
        );
    }

    #[test]
    fn wrapping_keeps_the_size_at_the_end() {
        let (request, adjusted) = one(write((3 << 20) + 4096, 4096), target(Fit::Wrap));
        assert_eq!((request, adjusted.moved), (Ok(Some(write(4096, 4096))), 1));
        assert_eq!(
            one(write((2 << 20) - 4096, 8192), target(Fit::Wrap)).0,
            Ok(Some(write((1 << 20) - 8192, 8192)))
        );
    }

    #[test]
    fn scaling_keeps_order_and_alignment() {
        let fit = Fit::Scale { span: 10 << 20 };
        let place = |offset| {
            one(write(offset, 4096), target(fit))
                .0
                .unwrap()
                .unwrap()
                .offset
        };
        let offsets: Vec<u64> = (0..10 << 20).step_by(4096).map(place).collect();
        assert!(offsets.is_sorted() && offsets.iter().all(|o| o % 4096 == 0));
        assert_eq!(
            (offsets[0], *offsets.last().unwrap()),
            (0, (1 << 20) - 4096)
        );
        assert!(matches!(
            one(write(10 << 20, 4096), target(fit)).0,
            Err(WorkloadError::OutOfRange { what: "span", .. })
        ));
    }

    #[test]
    fn longer_than_the_device_is_cut_and_counted() {
        let (request, adjusted) = one(write(1 << 20, 3 << 20), target(Fit::Wrap));
        assert_eq!(request, Ok(Some(write(0, 1 << 20))));
        assert_eq!((adjusted.cut, adjusted.cut_bytes), (1, 2 << 20));
    }

    #[test]
    fn times_scale() {
        let target = Target {
            time_scale: 0.5,
            ..target(Fit::Refuse)
        };
        assert_eq!(
            one(Request::flush(1000), target).0,
            Ok(Some(Request::flush(500)))
        );
    }

    #[test]
    fn impossible_targets_are_refused() {
        let fails = |change: fn(&mut Target)| {
            let mut target = target(Fit::Refuse);
            change(&mut target);
            matches!(
                Fitted::new(List(vec![]), target),
                Err(WorkloadError::BadFit { .. })
            )
        };
        assert!(
            fails(|t| t.sector = 0)
                && fails(|t| t.bytes = 4095)
                && fails(|t| t.fit = Fit::Scale { span: 0 })
        );
        assert!(fails(|t| t.time_scale = -1.0) && fails(|t| t.time_scale = f64::NAN));
    }

    proptest! {
        #[test]
        fn whatever_comes_out_is_whole_sectors_inside(
            offset: u64, length in 1..u64::MAX, sector in 1u64..10_000, sectors in 1u64..100_000, spare: u64, wrap: bool, span in 1..u64::MAX,
        ) {
            let bytes = sector * sectors + spare % sector;
            let fit = if wrap { Fit::Wrap } else { Fit::Scale { span } };
            match one(write(offset, length), Target { sector, bytes, fit, time_scale: 1.0 }).0 {
                Ok(request) => {
                    let r = request.unwrap();
                    prop_assert!(r.offset % sector == 0 && r.length % sector == 0 && r.length > 0);
                    prop_assert!(r.offset + r.length <= bytes);
                }
                Err(error) => prop_assert!(matches!(error, WorkloadError::OutOfRange { .. }), "{error}"),
            }
        }
    }
}
