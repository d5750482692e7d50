//! What the check of a file system found.
//!
//! *Promises.* A report keeps the first [`FINDINGS_MAX`] findings and counts the rest, so that a
//! damaged medium cannot fill the memory. *Knows nothing of* formats: each has findings and totals
//! of its own.

use alloc::vec::Vec;
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// The most findings that a report keeps.
pub const FINDINGS_MAX: usize = 1000;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A hint is stale; nothing is lost.
    Note,
    /// Space is lost or counted wrongly, contents are not; a power cut may leave it.
    Waste,
    /// Contents are lost or in danger.
    Damage,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Waste => "waste",
            Self::Damage => "damage",
        })
    }
}

/// A path in the words of a finding, from the root.
pub fn shown(path: &[u8]) -> impl fmt::Display {
    Shown(path)
}

struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.escape_ascii())
    }
}

/// Something wrong in a file system, in the words of its format.
pub trait Finding {
    /// How much it matters.
    fn severity(&self) -> Severity;

    /// Whether contents may be missing because of it. A salvage lists it then.
    fn may_lose(&self) -> bool {
        self.severity() == Severity::Damage
    }
}

/// The findings of a check, with the totals `T` of its format.
///
/// The totals are reached as fields of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<F, T = ()> {
    /// The first [`FINDINGS_MAX`] findings.
    pub findings: Vec<F>,
    /// The number of findings beyond those.
    pub more: u64,
    /// What the check counted.
    pub totals: T,
}

impl<F, T: Default> Default for Report<F, T> {
    fn default() -> Self {
        Self {
            findings: Vec::new(),
            more: 0,
            totals: T::default(),
        }
    }
}

impl<F: Finding, T> Report<F, T> {
    /// Adds a finding, or counts it if the report is full.
    pub fn add(&mut self, finding: F) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// The highest severity; `None` if nothing was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }
}

impl<F, T> Deref for Report<F, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.totals
    }
}

impl<F, T> DerefMut for Report<F, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Finding for Severity {
        fn severity(&self) -> Severity {
            *self
        }
    }

    #[test]
    fn a_full_report_counts_what_it_cannot_keep() {
        let mut report = Report::<_, u8>::default();
        assert_eq!(report.worst(), None);
        (0..FINDINGS_MAX).for_each(|_| report.add(Severity::Note));
        report.add(Severity::Damage);
        assert_eq!((report.findings.len(), report.more), (FINDINGS_MAX, 1));
        assert_eq!(report.worst(), Some(Severity::Note));
        assert!(Severity::Note < Severity::Waste && Severity::Waste < Severity::Damage);
    }
}
