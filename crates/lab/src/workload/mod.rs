//! The `[workload]` section, and the stream of requests that it becomes on a device of known size.

mod ageing;
mod bonnie;
mod bonnie_files;
mod camera;
mod files;
mod fsmark;
mod install;
mod iozone;
mod rewrites;
mod rollback;
mod tiobench;
mod wal;

pub use files::FilesDescription;

use crate::trace_file::{TraceFeed, TraceFileError};
use nandlab_stack::value::{Size, Time};
use nandlab_stack::{DescriptionError, Document, Section, Setting, units};
use nandlab_workload::pattern::{Amount, Arrival, Order, Pattern, SpecError};
use nandlab_workload::trace::{Action, Format, Options, Unit, Units};
use nandlab_workload::{Request, Source, Spec, WorkloadError};
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Requests that are drawn at a time.
pub const BATCH: usize = 64;

/// A stream of requests as the run loop sees it.
pub trait Feed: Source {
    /// Appends up to [`BATCH`] requests: fewer at the end, or before an error. What was appended
    /// before an error is good.
    fn draw(&mut self, into: &mut Vec<Request>) -> Result<(), WorkloadError>;

    /// How far it has come, 0 to 1.
    fn share_done(&self) -> f64;

    /// The file that it comes from, if it comes from one.
    fn file(&self) -> Option<&std::path::Path> {
        None
    }

    /// What became of it that a reader of the results should know.
    fn notes(&self) -> Vec<String>;
}

/// Settings that the device decided: key and value.
pub type Decided = Vec<(String, String)>;

/// A workload as described.
#[derive(Clone, Debug)]
pub enum WorkloadDescription {
    /// Made up.
    Pattern(PatternDescription),
    /// Recorded.
    Trace(TraceDescription),
    /// Calls on files rather than requests to a disk.
    Files(FilesDescription),
    /// Files made, written, renamed, linked, removed and synced, for power cuts: so many
    /// operations.
    Mixed(u32),
}

/// A synthetic workload.
#[derive(Clone, Debug)]
pub struct PatternDescription {
    /// Everything but the size, if that is the device's.
    spec: Spec,
    size: Option<u64>,
    /// To say where a value stands that the device turns out not to allow.
    section: Section,
}

/// A recorded workload.
#[derive(Clone, Debug)]
pub struct TraceDescription {
    /// The trace.
    pub file: PathBuf,
    /// Its format; none: told by its content.
    pub format: Option<Format>,
    /// How it is read.
    pub options: Options,
    /// How it is laid onto the device.
    pub fit: FitRule,
    /// Arrival times are multiplied by this.
    pub time_scale: f64,
}

/// What to do with requests beyond the device's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitRule {
    /// Stop.
    Refuse,
    /// Offsets modulo the device.
    Wrap,
    /// Offsets scaled down from the trace's span in bytes; none: found by reading the trace first.
    Scale(Option<u64>),
}

/// A workload that does not fit its device, or a trace that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A key of the description.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// The workload is one on files.
    #[error(
        "workload.type: found \"{0}\", which writes files, expected a workload of block requests"
    )]
    Files(&'static str),
    /// The workload is measured by nobody.
    #[error(
        "workload.type: found \"mixed\", which is for power cuts (nandlab crash), expected a workload to be measured"
    )]
    Mixed,
}

impl WorkloadDescription {
    /// Takes `[workload]` out of a document.
    pub fn take(document: &mut Document) -> Result<(Self, Vec<Setting>), DescriptionError> {
        let mut section = document.section("workload");
        const TRACE_KEYS: [&str; 10] = [
            "file",
            "format",
            "action",
            "unit",
            "units",
            "stack",
            "passes",
            "fit",
            "span",
            "time-scale",
        ];
        const PATTERN_KEYS: [&str; 16] = [
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
        ];
        let of_requests: [(&str, &[&'static str]); 2] =
            [("pattern", &PATTERN_KEYS), ("trace", &TRACE_KEYS)];
        let for_cuts: [(&str, &[&'static str]); 1] = [("mixed", &["operations"])];
        let all = [&of_requests[..], &files::TYPES, &for_cuts].concat();
        let types: Vec<(&str, usize)> = all
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (*name, at))
            .collect();
        let chosen = section.choice("type", &types, 0)?;
        for (name, at) in types.iter().filter(|(_, at)| *at != chosen) {
            let others: Vec<&'static str> = all[*at]
                .1
                .iter()
                .filter(|key| !all[chosen].1.contains(key))
                .copied()
                .collect();
            section.inapplicable(&others, &format!("type = \"{name}\""))?;
        }
        let workload = match chosen {
            0 => Self::Pattern(PatternDescription::take(&mut section)?),
            1 => Self::Trace(TraceDescription::take(&mut section)?),
            _ if all[chosen].0 == "mixed" => {
                Self::Mixed(section.checked("operations", 80, |n| *n > 0, "at least 1")?)
            }
            _ => Self::Files(FilesDescription::take(all[chosen].0, &mut section)?),
        };
        Ok((workload, section.finish()?))
    }

    /// What it does to files, if it works on files.
    pub fn files(&self) -> Option<&FilesDescription> {
        if let Self::Files(files) = self {
            Some(files)
        } else {
            None
        }
    }

    /// The value of `workload.type`, if it works on files.
    pub fn on_files(&self) -> Option<&'static str> {
        match self {
            Self::Files(files) => Some(files.name()),
            Self::Mixed(_) => Some("mixed"),
            Self::Pattern(_) | Self::Trace(_) => None,
        }
    }

    /// Whether requests have times of arrival of their own.
    pub fn has_times(&self) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.spec.arrival != Arrival::Closed,
            Self::Trace(_) => true,
            Self::Files(_) | Self::Mixed(_) => false,
        }
    }

    /// The stream, for a device of so many bytes in sectors of so many.
    pub fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError> {
        match self {
            Self::Pattern(description) => {
                let (pattern, decided) = description.open(bytes, sector, seed)?;
                let feed = PatternFeed {
                    total: pattern.remaining(),
                    pattern,
                };
                Ok((Box::new(feed), decided))
            }
            Self::Trace(description) => Ok((
                Box::new(TraceFeed::open(description, bytes, sector)?),
                Vec::new(),
            )),
            Self::Files(files) => Err(OpenError::Files(files.name())),
            Self::Mixed(_) => Err(OpenError::Mixed),
        }
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

    fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Pattern, Decided), DescriptionError> {
        let room = bytes.saturating_sub(self.spec.offset);
        let size = self.size.unwrap_or(room - room % 512);
        if size > room {
            let found = crate::experiment::size(size);
            let key = if self.size.is_some() {
                "size"
            } else {
                "offset"
            };
            return Err(self.section.refuse(
                key,
                &found,
                &format!(
                    "at most {room} bytes, which the device of {bytes} has from the offset on"
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
            vec![("workload.size".into(), crate::experiment::size(size))]
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

impl TraceDescription {
    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let file = section
            .path("file")?
            .ok_or_else(|| section.missing("file", "the path of a trace"))?;
        let formats = [
            ("auto", None),
            ("msr", Some(Format::Msr)),
            ("blkparse", Some(Format::Blkparse)),
            ("fio", Some(Format::Fio)),
            ("spc", Some(Format::Spc)),
        ];
        let format = section.choice("format", &formats, None)?;
        let actions = [
            ("queue", Action::Queue),
            ("issue", Action::Issue),
            ("complete", Action::Complete),
        ];
        let action = section.choice("action", &actions, Action::Queue)?;
        let units = trace_units(section)?;
        let passes = section.checked("passes", 1, |n| *n > 0, "at least 1")?;
        let options = Options {
            action,
            units,
            passes: NonZeroU64::new(passes).unwrap_or(NonZeroU64::MIN),
        };
        let rules = [
            ("refuse", FitRule::Refuse),
            ("wrap", FitRule::Wrap),
            ("scale", FitRule::Scale(None)),
        ];
        let mut fit = section.choice("fit", &rules, FitRule::Refuse)?;
        if fit == FitRule::Scale(None) {
            fit = FitRule::Scale(section.given::<Size>("span")?.map(|span| span.0));
            if fit == FitRule::Scale(Some(0)) {
                return Err(section.refuse(
                    "span",
                    "0",
                    "the trace's address range, at least 1 byte",
                ));
            }
        } else {
            section.inapplicable(&["span"], "fit = \"scale\"")?;
        }
        let time_scale = section.checked(
            "time-scale",
            1.0,
            |scale| *scale >= 0.0,
            "a factor, not negative",
        )?;
        Ok(Self {
            file,
            format,
            options,
            fit,
            time_scale,
        })
    }
}

/// Which disks of a trace, and where they go.
fn trace_units(section: &mut Section) -> Result<Units, DescriptionError> {
    if let Some(unit) = section.given::<String>("unit")? {
        section.inapplicable(
            &["units", "stack"],
            "that workload.unit is not given as well",
        )?;
        return Ok(Units::Only(unit));
    }
    if let Some(list) = section.given::<Vec<String>>("stack")? {
        section.inapplicable(&["units"], "that workload.stack is not given as well")?;
        let unit = |text: &String| {
            let (name, size) = text.rsplit_once('=')?;
            Some(Unit {
                name: name.trim().into(),
                bytes: units::parse_size(size)?,
            })
        };
        let stacked: Option<Vec<Unit>> = list.iter().map(unit).collect();
        let expected = "units with their sizes, such as [\"usr,0 = 10 GiB\", \"usr,1 = 5 GiB\"]";
        return stacked
            .filter(|list| !list.is_empty())
            .map(Units::Stacked)
            .ok_or_else(|| section.refuse("stack", &format!("{list:?}"), expected));
    }
    let overlaid = section.choice("units", &[("single", false), ("overlaid", true)], false)?;
    Ok(if overlaid {
        Units::Overlaid
    } else {
        Units::Single
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
    use super::*;
    use std::path::Path;

    fn take(text: &str) -> Result<WorkloadDescription, String> {
        let mut document = Document::parse(
            "e.toml",
            Path::new("dir"),
            &format!("[workload]\n{text}"),
            &[],
        )
        .map_err(|e| e.to_string())?;
        WorkloadDescription::take(&mut document)
            .map(|(workload, _)| workload)
            .map_err(|e| e.to_string())
    }

    fn open(text: &str, bytes: u64) -> Result<Vec<Request>, String> {
        let (mut feed, _) = take(text)?.open(bytes, 512, 1).map_err(|e| e.to_string())?;
        Ok(std::iter::from_fn(|| feed.next().unwrap()).collect())
    }

    #[test]
    fn a_pattern_covers_the_device_unless_told_otherwise() {
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

    #[test]
    fn each_bad_trace_description_is_refused_at_its_key() {
        let cases = [
            (
                "",
                "e.toml:1:2: workload.file: missing, expected the path of a trace",
            ),
            (
                "file = \"t\"\nformat = \"csv\"",
                "workload.format: found \"csv\", expected one of \"auto\", \"msr\"",
            ),
            (
                "file = \"t\"\naction = \"Q\"",
                "workload.action: found \"Q\"",
            ),
            (
                "file = \"t\"\npasses = 0",
                "workload.passes: found 0, expected at least 1",
            ),
            (
                "file = \"t\"\nfit = \"shrink\"",
                "workload.fit: found \"shrink\", expected one of \"refuse\", \"wrap\", \"scale\"",
            ),
            (
                "file = \"t\"\nspan = 1",
                "workload.span: has no effect, it needs fit = \"scale\"",
            ),
            (
                "file = \"t\"\nfit = \"scale\"\nspan = 0",
                "workload.span: found 0, expected the trace's address range",
            ),
            (
                "file = \"t\"\ntime-scale = -1",
                "workload.time-scale: found -1.0, expected a factor",
            ),
            (
                "file = \"t\"\nunit = \"a\"\nunits = \"single\"",
                "workload.units: has no effect",
            ),
            (
                "file = \"t\"\nunits = \"all\"",
                "workload.units: found \"all\", expected one of \"single\", \"overlaid\"",
            ),
            (
                "file = \"t\"\nstack = [\"a\"]",
                "workload.stack: found [\"a\"], expected units with their sizes",
            ),
            (
                "file = \"t\"\nstack = []",
                "workload.stack: found [], expected units with their sizes",
            ),
            (
                "file = \"t\"\nblock = 512",
                "workload.block: has no effect, it needs type = \"pattern\"",
            ),
        ];
        for (text, expected) in cases {
            let error = take(&format!("type = \"trace\"\n{text}"))
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_trace_may_stack_its_units() {
        let Ok(WorkloadDescription::Trace(trace)) =
            take("type = \"trace\"\nfile = \"t\"\nstack = [\"usr,0 = 1 GiB\", \"usr,1=2 GiB\"]")
        else {
            panic!("not a trace")
        };
        let unit = |name: &str, bytes| Unit {
            name: name.into(),
            bytes,
        };
        assert_eq!(
            trace.options.units,
            Units::Stacked(vec![unit("usr,0", 1 << 30), unit("usr,1", 2 << 30)])
        );
        assert_eq!(trace.file, Path::new("dir/t"));
    }
}
