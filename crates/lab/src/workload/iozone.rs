//! Choices of IOzone, as `[workload]` has them.

use super::files::{size, subset};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::iozone::{IozoneSpec, IozoneTest};

pub(super) const KEYS: [&str; 7] = [
    "size",
    "record",
    "tests",
    "include-fsync",
    "include-close",
    "sync",
    "sync-all",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<IozoneSpec, DescriptionError> {
    let default = IozoneSpec::default();
    let spec = IozoneSpec {
        bytes: size(section, "size", default.bytes)?,
        record: size(section, "record", default.record)?,
        tests: subset(
            section,
            "tests",
            &IozoneTest::ALL.map(|test| (test.name(), test)),
            default.tests,
        )?,
        flush: section.or("include-fsync", default.flush)?,
        close: section.or("include-close", default.close)?,
        sync: section.or("sync", default.sync)?,
        sync_all: section.or("sync-all", default.sync_all)?,
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
