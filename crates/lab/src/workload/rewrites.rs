//! Choices of large files that are overwritten at random, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::rewrites::RewritesSpec;

pub(super) const KEYS: [&str; 8] = [
    "files",
    "size",
    "record",
    "spread",
    "rounds",
    "round",
    "everywhere",
    "fsync",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<RewritesSpec, DescriptionError> {
    let default = RewritesSpec::default();
    let spec = RewritesSpec {
        files: section.or("files", default.files)?,
        bytes: size(section, "size", default.bytes)?,
        record: size(section, "record", default.record)?,
        spread: size(section, "spread", default.spread)?,
        rounds: section.or("rounds", default.rounds)?,
        round: size(section, "round", default.round)?,
        everywhere: section.or("everywhere", default.everywhere)?,
        fsync: section.or("fsync", default.fsync)?,
        seed: 0,
    };
    spec.check().map_err(|error| {
        let key = if error.key == "bytes" {
            "size"
        } else {
            error.key
        };
        section.refuse(key, &error.found, &error.expected)
    })?;
    Ok(spec)
}
