//! Choices of the database with a write-ahead log, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::wal::WalSpec;

pub(super) const KEYS: [&str; 6] = [
    "pages",
    "page",
    "transactions",
    "changed",
    "checkpoint",
    "full",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<WalSpec, DescriptionError> {
    let default = WalSpec::default();
    let spec = WalSpec {
        pages: section.or("pages", default.pages)?,
        page: size(section, "page", default.page)?,
        transactions: section.or("transactions", default.transactions)?,
        changed: section.or("changed", default.changed)?,
        checkpoint: section.or("checkpoint", default.checkpoint)?,
        full: section.or("full", default.full)?,
        seed: 0,
    };
    spec.check()
        .map_err(|error| section.refuse(error.key, &error.found, &error.expected))?;
    Ok(spec)
}
