//! The kinds of workload that `workload.type` may name. The list is a value: another crate adds its
//! kind with [`Workloads::with`].

use super::{CutWorkload, DescribedFiles, WorkloadDescription, pattern, standard, trace};
use nandlab_stack::{DescriptionError, Document, Section, Setting};
use std::sync::Arc;

/// Takes a workload out of its section.
type Taker = fn(&mut Section) -> Result<WorkloadDescription, DescriptionError>;

/// A kind of workload that `workload.type` can name.
pub trait WorkloadKind: Send + Sync {
    /// The value of `workload.type`.
    fn name(&self) -> &'static str;

    /// Its keys in `[workload]`.
    fn keys(&self) -> Vec<&'static str>;

    /// Reads the keys of this kind from the section.
    fn take(&self, section: &mut Section) -> Result<WorkloadDescription, DescriptionError>;
}

/// A [`WorkloadKind`] that is known when the program is built.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The value of `workload.type`.
    pub name: &'static str,
    /// Its keys in `[workload]`.
    pub keys: &'static [&'static str],
    /// Reads the keys of this kind from the section.
    pub take: Taker,
}

impl Kind {
    /// A kind of workload on files.
    pub const fn files<T: DescribedFiles>() -> Self {
        Self {
            name: T::NAME,
            keys: T::KEYS,
            take: |section| Ok(WorkloadDescription::on(T::take_checked(section)?)),
        }
    }
}

impl WorkloadKind for Kind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn keys(&self) -> Vec<&'static str> {
        self.keys.to_vec()
    }

    fn take(&self, section: &mut Section) -> Result<WorkloadDescription, DescriptionError> {
        (self.take)(section)
    }
}

/// Files made, written, renamed, linked, removed and synced, for power cuts.
const MIXED: Kind = Kind {
    name: "mixed",
    keys: &["operations"],
    take: |section| {
        let count = section.checked("operations", 80, |n| *n > 0, "at least 1")?;
        Ok(WorkloadDescription::Cuts(CutWorkload::Mixed(count)))
    },
};

/// Every short sequence of calls on files, for power cuts.
const SEQUENCES: Kind = Kind {
    name: "sequences",
    keys: &["length", "sample"],
    take: |section| {
        let length = section.checked("length", 1, |n| (1..=3).contains(n), "from 1 to 3")?;
        let sample = section.or("sample", 0)?;
        let sample = Some(sample).filter(|&n| n > 0);
        let sequences = CutWorkload::Sequences { length, sample };
        Ok(WorkloadDescription::Cuts(sequences))
    },
};

/// The kinds that a description may name; the first is the default.
#[derive(Clone)]
pub struct Workloads(Vec<Arc<dyn WorkloadKind>>);

impl Workloads {
    /// The kinds that are here.
    pub fn standard() -> Self {
        let kinds = [pattern::KIND, trace::KIND].into_iter();
        let kinds = kinds.chain(standard::KINDS.iter().copied());
        let kinds = kinds.chain([MIXED, SEQUENCES]);
        Self(kinds.map(|kind| Arc::new(kind) as _).collect())
    }

    /// Adds a kind, or replaces the one of its name.
    #[must_use]
    pub fn with(mut self, kind: impl WorkloadKind + 'static) -> Self {
        let name = kind.name();
        match self.0.iter_mut().find(|known| known.name() == name) {
            Some(known) => *known = Arc::new(kind),
            None => self.0.push(Arc::new(kind)),
        }
        self
    }

    /// Takes `[workload]` out of a document.
    pub fn take(
        &self,
        document: &mut Document,
    ) -> Result<(WorkloadDescription, Vec<Setting>), DescriptionError> {
        let mut section = document.section("workload");
        let names: Vec<(&str, usize)> = (0..)
            .zip(&self.0)
            .map(|(at, kind)| (kind.name(), at))
            .collect();
        let chosen = section.choice("type", &names, 0)?;
        let kind = &*self.0[chosen];
        self.refuse_others(kind, &mut section)?;
        let workload = kind.take(&mut section)?;
        Ok((workload, section.finish()?))
    }

    /// Refuses keys that only other kinds have.
    fn refuse_others(
        &self,
        kind: &dyn WorkloadKind,
        section: &mut Section,
    ) -> Result<(), DescriptionError> {
        let own = kind.keys();
        for other in self.0.iter().filter(|other| other.name() != kind.name()) {
            let foreign = |key: &&'static str| !own.contains(key);
            let keys: Vec<&'static str> = other.keys().into_iter().filter(foreign).collect();
            section.inapplicable(&keys, &format!("type = \"{}\"", other.name()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_workload::SpecError;
    use nandlab_workload::bonnie::{Bonnie, BonnieSpec};
    use nandlab_workload::files::FileCalls;
    use std::path::Path;

    /// A workload that this crate does not know.
    #[derive(Debug)]
    struct Seeks(BonnieSpec);

    impl DescribedFiles for Seeks {
        const NAME: &'static str = "seeks";
        const KEYS: &'static [&'static str] = &["count"];

        fn take(section: &mut Section) -> Result<Self, DescriptionError> {
            let seeks = section.or("count", 5)?;
            Ok(Self(BonnieSpec {
                seeks,
                ..BonnieSpec::default()
            }))
        }

        fn check(&self) -> Result<(), SpecError> {
            self.0.check()
        }

        fn start(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError> {
            let spec = BonnieSpec {
                seed,
                ..self.0.clone()
            };
            Ok(Box::new(Bonnie::new(spec)?))
        }
    }

    #[test]
    fn a_kind_of_ones_own_is_taken_like_ours() {
        let take = |text: &str| {
            let text = format!("[workload]\n{text}");
            let mut document = Document::parse("e.toml", Path::new(""), &text, &[]).unwrap();
            let kinds = Workloads::standard().with(Kind::files::<Seeks>());
            let (workload, _) = kinds
                .take(&mut document)
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(workload.on_files())
        };
        assert_eq!(take("type = \"seeks\"\ncount = 7"), Ok(Some("seeks")));
        assert_eq!(take("type = \"bonnie\""), Ok(Some("bonnie")));
        let error = take("type = \"bonnie\"\ncount = 7").unwrap_err();
        assert!(error.contains("it needs type = \"seeks\""), "{error}");
    }
}
