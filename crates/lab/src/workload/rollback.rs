//! Choices of the database with a rollback journal, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::rollback::{JournalMode, RollbackSpec};

pub(super) const KEYS: [&str; 6] = [
    "pages",
    "page",
    "transactions",
    "changed",
    "journal-mode",
    "full",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<RollbackSpec, DescriptionError> {
    let default = RollbackSpec::default();
    let modes = [
        ("delete", JournalMode::Delete),
        ("truncate", JournalMode::Truncate),
        ("persist", JournalMode::Persist),
    ];
    let spec = RollbackSpec {
        pages: section.or("pages", default.pages)?,
        page: size(section, "page", default.page)?,
        transactions: section.or("transactions", default.transactions)?,
        changed: section.or("changed", default.changed)?,
        mode: section.choice("journal-mode", &modes, default.mode)?,
        full: section.or("full", default.full)?,
        seed: 0,
    };
    spec.check()
        .map_err(|error| section.refuse(error.key, &error.found, &error.expected))?;
    Ok(spec)
}
