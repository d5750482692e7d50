//! Choices of a file system that grows old, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::ageing::AgeingSpec;

pub(super) const KEYS: [&str; 9] = [
    "size",
    "file-min",
    "file-max",
    "write-size",
    "growing",
    "rounds",
    "turnover",
    "overwritten",
    "sync-all",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<AgeingSpec, DescriptionError> {
    let default = AgeingSpec::default();
    let spec = AgeingSpec {
        bytes: size(section, "size", default.bytes)?,
        file: (
            size(section, "file-min", default.file.0)?,
            size(section, "file-max", default.file.1)?,
        ),
        piece: size(section, "write-size", default.piece)?,
        growing: section.or("growing", default.growing)?,
        rounds: section.or("rounds", default.rounds)?,
        turnover: section.or("turnover", default.turnover)?,
        overwritten: section.or("overwritten", default.overwritten)?,
        sync: section.or("sync-all", default.sync)?,
        seed: 0,
    };
    spec.check().map_err(|error| {
        let key = match error.key {
            "bytes" => "size",
            "file min" => "file-min",
            "file max" => "file-max",
            "piece" => "write-size",
            key => key,
        };
        section.refuse(key, &error.found, &error.expected)
    })?;
    Ok(spec)
}
