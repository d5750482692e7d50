//! The runs behind a paper: experiments with some settings changed, many at a time.

use crate::PaperError;
use nandlab_lab::Experiment;
use nandlab_lab::run::{FilesOutcome, Progress, run_files};
use nandlab_stack::Document;
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Receives the progress of a paper.
pub type Watch<'a> = &'a (dyn Fn(Progress) + Sync);

/// Settings of an experiment, `key=value` each.
pub type Settings = &'static [&'static str];

/// A described experiment of a paper, to be varied.
#[derive(Clone, Copy)]
pub struct Described {
    /// The name of its file.
    pub file: &'static str,
    /// The text of the description.
    pub text: &'static str,
}

/// The [`Described`] in a file below `papers/`.
macro_rules! described {
    ($path:literal) => {
        $crate::runs::Described {
            file: concat!("papers/", $path),
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/", $path)),
        }
    };
}
pub(crate) use described;

impl Described {
    /// The experiment with some settings changed.
    pub fn with<S: ToString>(
        &self,
        settings: impl IntoIterator<Item = S>,
    ) -> Result<Experiment, PaperError> {
        let settings: Vec<String> = settings.into_iter().map(|set| set.to_string()).collect();
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        let document = Document::parse(self.file, folder, self.text, &settings)?;
        Ok(Experiment::take(document)?)
    }

    /// Runs its workload on files with some settings changed. `keep` keeps requests and latencies.
    pub fn run<S: ToString>(
        &self,
        name: &str,
        settings: impl IntoIterator<Item = S>,
        keep: bool,
    ) -> Result<FilesOutcome, PaperError> {
        let experiment = self.with(settings)?;
        let files = experiment
            .workload
            .files()
            .ok_or_else(|| PaperError::Wrong(name.into(), "no workload on files".into()))?;
        run_files(&experiment, files, keep, &mut |_| ())
            .map_err(|error| PaperError::Run(name.into(), error.into()))
    }
}

/// A variant of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The settings that set the variant apart.
    pub settings: Settings,
}

pub const fn variant(key: &'static str, name: &'static str, settings: Settings) -> Variant {
    Variant {
        key,
        name,
        settings,
    }
}

/// Counts jobs that are done.
pub struct Jobs<'a> {
    watch: Watch<'a>,
    phase: &'static str,
    done: AtomicUsize,
    all: usize,
}

impl<'a> Jobs<'a> {
    /// `all` jobs, none of them done.
    pub fn new(watch: Watch<'a>, phase: &'static str, all: usize) -> Self {
        Self {
            watch,
            phase,
            done: AtomicUsize::new(0),
            all,
        }
    }

    pub fn one<R>(&self, job: impl FnOnce() -> Result<R, PaperError>) -> Result<R, PaperError> {
        let result = job()?;
        (self.watch)(Progress {
            phase: self.phase,
            share: (self.done.fetch_add(1, Relaxed) + 1) as f64 / self.all as f64,
        });
        Ok(result)
    }

    /// Does jobs side by side.
    pub fn each<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        job: impl Fn(&J) -> Result<R, PaperError> + Sync,
    ) -> Result<Vec<R>, PaperError> {
        jobs.par_iter().map(|one| self.one(|| job(one))).collect()
    }
}

/// Results by what was run.
pub struct Runs<K, R>(Vec<(K, R)>);

impl<K: PartialEq + Sync, R: Send> Runs<K, R> {
    /// Runs everything. Put the longest first, so that none is left alone at the end.
    pub fn all(
        wanted: Vec<K>,
        (watch, phase): (Watch<'_>, &'static str),
        run: impl Fn(&K) -> Result<R, PaperError> + Sync,
    ) -> Result<Self, PaperError> {
        let results = Jobs::new(watch, phase, wanted.len()).each(&wanted, run)?;
        Ok(Self(wanted.into_iter().zip(results).collect()))
    }

    /// A run, if it was wanted.
    pub fn get(&self, key: &K) -> Option<&R> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, result)| result)
    }

    /// A run that was wanted.
    pub fn of(&self, key: &K) -> &R {
        self.get(key).expect("everything wanted was run")
    }
}

#[cfg(test)]
mod slow {
    use super::*;
    use nandlab_lab::run::PhaseOutcome;

    /// What a run shows, in numbers.
    fn numbers(file: &Described, seed: u32) -> Vec<(&'static str, [u64; 5])> {
        let seeds = ["run", "chip"].map(|of| format!("{of}.seed={seed}"));
        let run = file.run(file.file, seeds, false).unwrap();
        let of_phase = |phase: &PhaseOutcome| {
            let bytes = [phase.bytes_read, phase.bytes_written];
            let times = [phase.first, phase.last];
            (
                phase.name,
                [times[0], times[1], bytes[0], bytes[1], phase.calls],
            )
        };
        run.phases.iter().map(of_phase).collect()
    }

    /// Its claims are judged by one run each. Those of the others are judged by seeds.
    #[test]
    fn chance_has_no_part_in_the_runs_of_the_write_back_routine() {
        let file = described!("jffs2-wb/tiobench.toml");
        assert_eq!(numbers(&file, 1), numbers(&file, 2), "{}", file.file);
        let others = [
            described!("jftl/bonnie.toml"),
            described!("jftl/iozone.toml"),
            described!("ubil/iozone.toml"),
        ];
        for other in others {
            assert_ne!(numbers(&other, 1), numbers(&other, 2), "{}", other.file);
        }
    }
}
