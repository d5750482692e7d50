//! Choices of Bonnie, as `[workload]` has them.

use super::files::{size, subset};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::bonnie::{BonniePhase, BonnieSpec};

pub(super) const KEYS: [&str; 12] = [
    "size",
    "chunk",
    "stdio-buffer",
    "seeks",
    "seekers",
    "update-every",
    "putc-instructions",
    "getc-instructions",
    "fsync",
    "sync-all",
    "keep",
    "phases",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<BonnieSpec, DescriptionError> {
    let default = BonnieSpec::default();
    let spec = BonnieSpec {
        bytes: size(section, "size", default.bytes)?,
        chunk: size(section, "chunk", default.chunk)?,
        stdio_buffer: size(section, "stdio-buffer", default.stdio_buffer)?,
        seeks: section.or("seeks", default.seeks)?,
        seekers: section.or("seekers", default.seekers)?,
        update_every: section.or("update-every", default.update_every)?,
        putc_instructions: section.or("putc-instructions", default.putc_instructions)?,
        getc_instructions: section.or("getc-instructions", default.getc_instructions)?,
        fsync: section.or("fsync", default.fsync)?,
        sync_all: section.or("sync-all", default.sync_all)?,
        keep: section.or("keep", default.keep)?,
        phases: subset(
            section,
            "phases",
            &BonniePhase::ALL.map(|phase| (phase.name(), phase)),
            default.phases,
        )?,
        seed: 0,
    };
    spec.check()
        .map_err(|error| section.refuse(key_of(error.key), &error.found, &error.expected))?;
    Ok(spec)
}

/// The key that a verdict of the spec speaks of.
fn key_of(field: &'static str) -> &'static str {
    match field {
        "bytes" => "size",
        "stdio buffer" => "stdio-buffer",
        "update every" => "update-every",
        "putc instructions" => "putc-instructions",
        "getc instructions" => "getc-instructions",
        key => key,
    }
}
