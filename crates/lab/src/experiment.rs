//! An experiment: a stack, a workload, and how it is run and measured.

use crate::result::Setting;
use crate::workload::{WorkloadDescription, Workloads};
use nandlab_stack::value::{Take, Time, Value, quote};
use nandlab_stack::{Description, DescriptionError, Document, Registry, Section};
use std::num::NonZeroU32;
use std::path::Path;

/// The most requests in flight that are kept account of.
const MAX_DEPTH: u32 = 1 << 16;

/// A whole experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name in reports.
    pub name: String,
    /// The stack it runs on.
    pub stack: Description,
    /// What it asks of the stack.
    pub workload: WorkloadDescription,
    /// How the run loop issues the workload.
    pub run: RunOptions,
    /// Every setting in effect, defaults included.
    pub settings: Vec<Setting>,
    /// Numbers that a paper gives for it, by name (`[published]`): to be shown beside what is
    /// measured, never used.
    pub published: Vec<(String, f64)>,
}

/// How a workload is run and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Requests arrive at their own times rather than whenever one before has completed.
    pub open_loop: bool,
    /// Requests in flight at most.
    pub depth: Depth,
    /// What is written before.
    pub precondition: Precondition,
    /// How often the address space is overwritten before the run.
    pub precondition_overwrites: u64,
    /// With zeros, which take no memory, rather than with bytes that differ from page to page.
    pub precondition_zero: bool,
    /// The moment from which figures count.
    pub measure_from: MeasureFrom,
    /// Virtual time between two points of the series to begin with, ns; doubled when there are too
    /// many.
    pub series_interval: u64,
    /// Of the workload and of what is written before it.
    pub seed: u64,
}

/// Requests in flight at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// At most so many requests at once.
    Limited(NonZeroU32),
    /// Any number; open loop only.
    Unlimited,
}

/// What is written before the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The device is measured as formatted.
    None,
    /// The whole device in ascending order, so many times.
    Sequential,
    /// The whole device once in ascending order, then so many times its size in random pages.
    Random,
}

/// The moment from which figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureFrom {
    /// With the first request of the workload.
    Start,
    /// When write amplification is steady; see [`Steady`](crate::run::Steady).
    Steady,
}

impl Take for Depth {
    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) if text == "unlimited" => Some(Self::Unlimited),
            number => u32::take(number)
                .filter(|n| *n <= MAX_DEPTH)
                .and_then(NonZeroU32::new)
                .map(Self::Limited),
        }
    }
    fn expected() -> String {
        format!("a whole number from 1 to {MAX_DEPTH}, or \"unlimited\"")
    }
    fn write(&self) -> String {
        match self {
            Self::Limited(n) => n.to_string(),
            Self::Unlimited => quote("unlimited"),
        }
    }
}

impl Experiment {
    /// Takes everything out of `document` and refuses what is left.
    pub fn take(document: Document) -> Result<Self, DescriptionError> {
        Self::take_with(document, &Registry::standard(), &Workloads::standard())
    }

    /// The same with layers, file systems and workloads of your own.
    pub fn take_with(
        mut document: Document,
        registry: &Registry,
        workloads: &Workloads,
    ) -> Result<Self, DescriptionError> {
        let (name, mut settings) = take_name(&mut document)?;
        let stack = Description::take_with(&mut document, registry)?;
        settings.extend(stack.settings.iter().cloned());
        let (workload, more) = workloads.take(&mut document)?;
        settings.extend(more);
        check_files(&document, &stack, &workload)?;
        let (run, more) = RunOptions::take(document.section("run"), workload.has_times())?;
        settings.extend(more);
        let published = document.numbers("published")?;
        document.finish()?;
        let settings = settings
            .into_iter()
            .map(|s| Setting {
                key: s.key,
                value: s.value,
                origin: s.origin.to_string(),
            })
            .collect();
        Ok(Self {
            name,
            stack,
            workload,
            run,
            settings,
            published,
        })
    }

    /// The stack of a document and the seed of its runs, for those who bring their own work: the
    /// document needs no workload, and may have one.
    pub fn take_stack(document: Document) -> Result<(Description, u64), DescriptionError> {
        Self::take_stack_with(document, &Registry::standard(), &Workloads::standard())
    }

    /// The same with layers, file systems and workloads of your own.
    pub fn take_stack_with(
        mut document: Document,
        registry: &Registry,
        workloads: &Workloads,
    ) -> Result<(Description, u64), DescriptionError> {
        if document.has("workload") {
            let Self { stack, run, .. } = Self::take_with(document, registry, workloads)?;
            return Ok((stack, run.seed));
        }
        take_name(&mut document)?;
        let stack = Description::take_with(&mut document, registry)?;
        let (run, _) = RunOptions::take(document.section("run"), false)?;
        document.numbers("published")?;
        document.finish()?;
        Ok((stack, run.seed))
    }
}

/// The experiment's name: the file's own by default.
fn take_name(
    document: &mut Document,
) -> Result<(String, Vec<nandlab_stack::Setting>), DescriptionError> {
    let mut section = document.section("experiment");
    let stem = Path::new(document.file())
        .file_stem()
        .map_or("experiment".into(), |stem| {
            stem.to_string_lossy().into_owned()
        });
    Ok((section.or("name", stem)?, section.finish()?))
}

/// Files need a file system, and a file system needs files.
fn check_files(
    document: &Document,
    stack: &Description,
    workload: &WorkloadDescription,
) -> Result<(), DescriptionError> {
    match (&stack.fs, workload.on_files()) {
        (None, Some(name)) => {
            let expected = format!("a file system, since workload.type = \"{name}\" writes files");
            Err(document.refuse("fs.type", "\"none\"", &expected))
        }
        (Some(_), None) => Err(document.refuse(
            "workload.type",
            "requests to the disk",
            "a workload on files (\"camera-ms500\", \"bonnie\", \"iozone\", \"rollback-journal\") for the file system of [fs]",
        )),
        _ => Ok(()),
    }
}

impl RunOptions {
    /// Takes `[run]`; a workload that has times of its own runs open loop unless set otherwise.
    fn take(
        mut section: Section,
        has_times: bool,
    ) -> Result<(Self, Vec<nandlab_stack::Setting>), DescriptionError> {
        let open_loop = section.or("open-loop", has_times)?;
        let usual = if open_loop {
            Depth::Unlimited
        } else {
            Depth::Limited(NonZeroU32::MIN)
        };
        let fine = |depth: &Depth| open_loop || *depth != Depth::Unlimited;
        let depth = section.checked(
            "queue-depth",
            usual,
            fine,
            "a number in a closed loop (run.open-loop = false)",
        )?;
        let kinds = [
            ("none", Precondition::None),
            ("sequential", Precondition::Sequential),
            ("random", Precondition::Random),
        ];
        let precondition = section.choice("precondition", &kinds, Precondition::None)?;
        let (precondition_overwrites, precondition_zero) = if precondition == Precondition::None {
            let keys = ["precondition-overwrites", "precondition-zero"];
            section.inapplicable(&keys, "precondition = \"sequential\" or \"random\"")?;
            (0, false)
        } else {
            let times = section.checked(
                "precondition-overwrites",
                1,
                |n| (1..=1_000_000).contains(n),
                "1 to 1000000",
            )?;
            (times, section.or("precondition-zero", false)?)
        };
        let starts = [
            ("start", MeasureFrom::Start),
            ("steady", MeasureFrom::Steady),
        ];
        let measure_from = section.choice("measure-from", &starts, MeasureFrom::Start)?;
        let Time(series_interval) = section.checked(
            "series-interval",
            Time(1_000_000),
            |t| t.0 > 0,
            "at least 1 ns",
        )?;
        let seed = section.or("seed", 1)?;
        let options = Self {
            open_loop,
            depth,
            precondition,
            precondition_overwrites,
            precondition_zero,
            measure_from,
            series_interval,
            seed,
        };
        Ok((options, section.finish()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn take(text: &str) -> Result<Experiment, String> {
        let text = format!("[chip]\npreset = \"slc-2k\"\n{text}");
        let document = Document::parse("dir/steady.toml", Path::new("dir"), &text, &[])
            .map_err(|e| e.to_string())?;
        Experiment::take(document).map_err(|e| e.to_string())
    }

    #[test]
    fn a_stack_may_have_a_name_a_seed_and_no_workload() {
        let take = |text: &str| {
            let text = format!("[chip]\npreset = \"slc-2k\"\n{text}");
            let document = Document::parse("stack.toml", Path::new(""), &text, &[]).unwrap();
            Experiment::take_stack(document).map_err(|error| error.to_string())
        };
        let (stack, seed) = take("[experiment]\nname = \"a\"\n[run]\nseed = 7").unwrap();
        assert_eq!((stack.fs.is_some(), seed), (false, 7));
        let files = "[fs]\ntype = \"fat\"\n[workload]\ntype = \"bonnie\"\n[run]\nseed = 8";
        assert_eq!(take(files).unwrap().1, 8);
        let error = take("[experiment]\ntitle = \"a\"").unwrap_err();
        assert!(error.contains("experiment.title"), "{error}");
    }

    #[test]
    fn an_experiment_may_say_next_to_nothing() {
        let experiment = take("").unwrap();
        let one = Depth::Limited(NonZeroU32::MIN);
        assert_eq!(
            (
                experiment.name.as_str(),
                experiment.run.depth,
                experiment.run.open_loop
            ),
            ("steady", one, false)
        );
        assert!(
            experiment
                .settings
                .iter()
                .any(|s| s.key == "run.seed" && s.value == "1" && s.origin == "default")
        );
    }

    #[test]
    fn times_of_arrival_make_an_open_loop() {
        let run = |text: &str| take(text).unwrap().run;
        let timed = run("[workload]\narrival = \"poisson\"\ninterval = \"1 ms\"\n");
        assert_eq!((timed.open_loop, timed.depth), (true, Depth::Unlimited));
        assert!(
            !run(
                "[workload]\narrival = \"poisson\"\ninterval = \"1 ms\"\n[run]\nopen-loop = false\n"
            )
            .open_loop
        );
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "[run]\nqueue-depth = 0",
                "dir/steady.toml:4:15: run.queue-depth: found 0, expected a whole number from 1 to 65536",
            ),
            (
                "[run]\nqueue-depth = \"unlimited\"",
                "run.queue-depth: found \"unlimited\", expected a number in a closed loop",
            ),
            (
                "[run]\nopen-loop = 1",
                "run.open-loop: found 1, expected true or false",
            ),
            (
                "[run]\nprecondition = \"full\"",
                "run.precondition: found \"full\", expected one of \"none\", \"sequential\", \"random\"",
            ),
            (
                "[run]\nprecondition-overwrites = 2",
                "run.precondition-overwrites: has no effect, it needs precondition =",
            ),
            (
                "[run]\nprecondition = \"random\"\nprecondition-overwrites = 0",
                "run.precondition-overwrites: found 0, expected 1 to 1000000",
            ),
            (
                "[run]\nmeasure-from = \"end\"",
                "run.measure-from: found \"end\", expected one of \"start\", \"steady\"",
            ),
            (
                "[run]\nseries-interval = \"0 s\"",
                "run.series-interval: found \"0 ns\", expected at least 1 ns",
            ),
            (
                "[run]\nseed = -1",
                "run.seed: found -1, expected a whole number",
            ),
            (
                "[run]\nsead = 1",
                "run.sead: unknown key, did you mean \"seed\"?",
            ),
            (
                "[experiment]\nname = 3",
                "experiment.name: found 3, expected text in quotes",
            ),
            (
                "[experiment]\ntitle = \"x\"",
                "experiment.title: unknown key, expected one of name",
            ),
            (
                "[network]\n",
                "[network]: unknown section, expected [experiment], [chip], [ftl], [fs], [ubi], [nvram], [host], [memory], [write-back], [workload], [run]",
            ),
            (
                "[wrokload]\n",
                "[wrokload]: unknown section, did you mean [workload]?",
            ),
        ];
        for (text, expected) in cases {
            let error = take(text)
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
