//! Synthetic requests: the keys of `type = "pattern"`, and the stream that they become.

use super::{BATCH, Decided, Feed, Kind, OpenError, Requests, WorkloadDescription};
use nandlab_stack::value::{Size, Take, Time};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::pattern::{Amount, Arrival, Order, Pattern, SpecError};
use nandlab_workload::{Request, Source, Spec, WorkloadError};

pub(super) const KIND: Kind = Kind {
    name: "pattern",
    keys: &[
        "pattern",
        "block",
        "align",
        "offset",
        "size",
        "reads",
        "discards",
        "requests",
        "bytes",
        "overwrites",
        "flush-every",
        "theta",
        "hot-requests",
        "hot-space",
        "arrival",
        "interval",
    ],
    take: |section| {
        Ok(WorkloadDescription::requests(PatternDescription::take(
            section,
        )?))
    },
};

/// A synthetic workload, as a description names it.
#[derive(Clone, Debug)]
pub struct PatternDescription {
    /// Everything but the size, if that is the device's.
    spec: Spec,
    size: Option<u64>,
    /// To say where a value stands that the device turns out not to allow.
    section: Section,
}

impl Requests for PatternDescription {
    fn has_times(&self) -> bool {
        self.spec.arrival != Arrival::Closed
    }

    fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError> {
        let (pattern, decided) = self.pattern(bytes, sector, seed)?;
        let feed = PatternFeed {
            total: pattern.remaining(),
            pattern,
        };
        Ok((Box::new(feed), decided))
    }
}

impl PatternDescription {
    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let default = Spec::new(1 << 40);
        let Size(block) = section.or("block", Size(default.block))?;
        let Size(align) = section.or("align", Size(block))?;
        let Size(offset) = section.or("offset", Size(0))?;
        let size = section.given::<Size>("size")?.map(|size| size.0);
        let spec = Spec {
            order: order(section)?,
            reads: section.or("reads", 0.0)?,
            discards: section.or("discards", 0.0)?,
            amount: amount(section)?,
            flush_every: section.or("flush-every", 0)?,
            arrival: arrival(section)?,
            block,
            align,
            offset,
            // Until the device is known, one that is large enough for every other check.
            size: size.unwrap_or_else(|| {
                default
                    .size
                    .max(block.saturating_mul(2).next_multiple_of(512))
            }),
            seed: 0,
        };
        let description = Self {
            spec,
            size,
            section: section.clone(),
        };
        description
            .spec
            .check()
            .map_err(|error| description.refuse(&error))?;
        Ok(description)
    }

    /// The verdict on a spec, at the key it speaks of.
    fn refuse(&self, error: &SpecError) -> DescriptionError {
        let amounts = ["requests", "bytes", "overwrites"];
        let key = match error.key {
            "hot requests" => "hot-requests",
            "hot space" => "hot-space",
            "arrival" => "interval",
            "amount" => amounts
                .into_iter()
                .find(|key| self.section.has(key))
                .unwrap_or("overwrites"),
            "offset" if !self.section.has("offset") => "size",
            key => key,
        };
        // Amounts and arrivals are shown as the choice they are, "Requests(0)": the number is what
        // was written.
        let found = error
            .found
            .split_once('(')
            .map_or(error.found.as_str(), |(_, number)| {
                number.trim_end_matches(')')
            });
        self.section.refuse(key, found, &error.expected)
    }

    fn pattern(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Pattern, Decided), DescriptionError> {
        let available = bytes.saturating_sub(self.spec.offset);
        let size = self.size.unwrap_or(available - available % 512);
        if size > available {
            let found = Size(size).write();
            let key = if self.size.is_some() {
                "size"
            } else {
                "offset"
            };
            return Err(self.section.refuse(
                key,
                &found,
                &format!(
                    "at most {available} bytes, which the device of {bytes} has from the offset on"
                ),
            ));
        }
        let spec = Spec {
            size,
            seed,
            ..self.spec.clone()
        };
        for (key, value) in [
            ("block", spec.block),
            ("align", spec.align),
            ("offset", spec.offset),
        ] {
            if !value.is_multiple_of(sector) {
                return Err(self.section.refuse(
                    key,
                    &value.to_string(),
                    &format!("a multiple of the device's {sector}-byte sector"),
                ));
            }
        }
        let pattern = Pattern::new(&spec).map_err(|error| self.refuse(&error))?;
        let decided = if self.size.is_none() {
            vec![("workload.size".into(), Size(size).write())]
        } else {
            Vec::new()
        };
        Ok((pattern, decided))
    }
}

fn order(section: &mut Section) -> Result<Order, DescriptionError> {
    let names = [
        ("sequential", 0),
        ("random", 1),
        ("zipf", 2),
        ("hot-cold", 3),
    ];
    let chosen = section.choice("pattern", &names, 1)?;
    if chosen != 2 {
        section.inapplicable(&["theta"], "pattern = \"zipf\"")?;
    }
    if chosen != 3 {
        section.inapplicable(&["hot-requests", "hot-space"], "pattern = \"hot-cold\"")?;
    }
    Ok(match chosen {
        0 => Order::Sequential,
        1 => Order::Uniform,
        2 => Order::Zipf {
            theta: section.or("theta", 0.99)?,
        },
        _ => Order::HotCold {
            requests: section.or("hot-requests", 0.8)?,
            space: section.or("hot-space", 0.2)?,
        },
    })
}

fn amount(section: &mut Section) -> Result<Amount, DescriptionError> {
    let one = "that the amount is not given another way as well";
    if let Some(requests) = section.given("requests")? {
        section.inapplicable(&["bytes", "overwrites"], one)?;
        return Ok(Amount::Requests(requests));
    }
    if let Some(Size(bytes)) = section.given("bytes")? {
        section.inapplicable(&["overwrites"], one)?;
        return Ok(Amount::Bytes(bytes));
    }
    Ok(Amount::Overwrites(section.or("overwrites", 1)?))
}

fn arrival(section: &mut Section) -> Result<Arrival, DescriptionError> {
    let chosen = section.choice("arrival", &[("closed", 0), ("fixed", 1), ("poisson", 2)], 0)?;
    if chosen == 0 {
        section.inapplicable(&["interval"], "arrival = \"fixed\" or \"poisson\"")?;
        return Ok(Arrival::Closed);
    }
    let Time(interval) = section.needed("interval", None)?;
    Ok(if chosen == 1 {
        Arrival::Every(interval)
    } else {
        Arrival::Poisson { mean: interval }
    })
}

/// A pattern under way.
struct PatternFeed {
    pattern: Pattern,
    total: u64,
}

impl Source for PatternFeed {
    #[inline]
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        Ok(self.pattern.draw())
    }
}

impl Feed for PatternFeed {
    fn draw(&mut self, into: &mut Vec<Request>) -> Result<(), WorkloadError> {
        for _ in 0..BATCH {
            // Field by field: a request copied whole, padding and all, stalls on the stores that
            // have just made it.
            let Some(Request {
                op,
                at,
                offset,
                length,
            }) = self.pattern.draw()
            else {
                break;
            };
            into.push(Request {
                op,
                at,
                offset,
                length,
            });
        }
        Ok(())
    }

    fn share_done(&self) -> f64 {
        1.0 - self.pattern.remaining() as f64 / self.total.max(1) as f64
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::tests::open;

    #[test]
    fn a_pattern_covers_the_device_unless_set_otherwise() {
        let requests = open("pattern = \"sequential\"\nblock = \"8 KiB\"\n", 1 << 20).unwrap();
        assert_eq!(
            (requests.len(), requests[127].offset),
            (128, (1 << 20) - 8192)
        );
        let requests = open(
            "pattern = \"sequential\"\noffset = 512\nsize = \"64 KiB\"\noverwrites = 2\n",
            1 << 20,
        )
        .unwrap();
        assert_eq!(
            (requests.len(), requests[16].offset, requests[0].length),
            (32, 512, 4096)
        );
    }

    #[test]
    fn each_bad_pattern_is_refused_at_its_key() {
        let cases = [
            (
                "type = \"replay\"",
                "e.toml:2:8: workload.type: found \"replay\", expected one of \"pattern\", \"trace\", \"camera-ms500\"",
            ),
            (
                "pattern = \"linear\"",
                "workload.pattern: found \"linear\", expected one of \"sequential\"",
            ),
            (
                "block = 1000",
                "workload.block: found 1000, expected a multiple of 512 bytes",
            ),
            (
                "block = 0",
                "workload.block: found 0, expected a multiple of 512 bytes",
            ),
            (
                "align = 100",
                "workload.align: found 100, expected a multiple of 512 bytes",
            ),
            (
                "offset = 7",
                "workload.offset: found 7, expected a multiple of 512 bytes",
            ),
            (
                "size = 512",
                "workload.size: found 512, expected a multiple of 512 bytes, at least the block",
            ),
            (
                "size = \"2 MiB\"",
                "workload.size: found \"2 MiB\", expected at most 1048576 bytes",
            ),
            (
                "offset = \"2 MiB\"",
                "workload.size: found 0, expected a multiple of 512 bytes, at least the block",
            ),
            (
                "block = \"2 MiB\"",
                "workload.size: found 1048576, expected a multiple of 512 bytes, at least the block of 2097152",
            ),
            (
                "reads = 1.5",
                "workload.reads: found 1.5, expected a share from 0 to 1",
            ),
            (
                "reads = 1",
                "workload.reads: found 1.0, expected a share below 1",
            ),
            (
                "discards = -1",
                "workload.discards: found -1.0, expected a share",
            ),
            (
                "requests = 0",
                "workload.requests: found 0, expected at least 1",
            ),
            ("requests = 1\nbytes = 512", "workload.bytes: has no effect"),
            (
                "bytes = 1\noverwrites = 1",
                "workload.overwrites: has no effect",
            ),
            (
                "overwrites = 0",
                "workload.overwrites: found 0, expected at least 1",
            ),
            (
                "overwrites = 9223372036854775807",
                "workload.overwrites: found 9223372036854775807, expected fewer",
            ),
            ("flush-every = -1", "workload.flush-every: found -1"),
            (
                "theta = 1",
                "workload.theta: has no effect, it needs pattern = \"zipf\"",
            ),
            (
                "pattern = \"zipf\"\ntheta = 0",
                "workload.theta: found 0.0, expected a skew above 0",
            ),
            (
                "hot-space = 0.1",
                "workload.hot-space: has no effect, it needs pattern = \"hot-cold\"",
            ),
            (
                "pattern = \"hot-cold\"\nhot-space = 1",
                "workload.hot-space: found 1.0, expected a share above 0 and below 1",
            ),
            (
                "pattern = \"hot-cold\"\nhot-requests = 2",
                "workload.hot-requests: found 2.0, expected a share",
            ),
            (
                "arrival = \"bursty\"",
                "workload.arrival: found \"bursty\", expected one of",
            ),
            (
                "arrival = \"fixed\"",
                "workload.interval: missing, expected a time",
            ),
            (
                "arrival = \"fixed\"\ninterval = \"0 s\"",
                "workload.interval: found 0, expected an interval of at least 1 ns",
            ),
            (
                "interval = \"1 s\"",
                "workload.interval: has no effect, it needs arrival =",
            ),
            (
                "file = \"x\"",
                "workload.file: has no effect, it needs type = \"trace\"",
            ),
            (
                "blcok = 512",
                "workload.blcok: unknown key, did you mean \"block\"?",
            ),
        ];
        for (text, expected) in cases {
            let error = open(text, 1 << 20)
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
