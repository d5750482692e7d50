//! Choices of tiobench, as `[workload]` has them.

use super::files::{size, subset};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::files::Look;
use nandlab_workload::tiobench::{TiobenchPhase, TiobenchSpec};

pub(super) const KEYS: [&str; 8] = [
    "size",
    "block",
    "threads",
    "random",
    "fsync",
    "truncate-first",
    "contents",
    "phases",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<TiobenchSpec, DescriptionError> {
    let default = TiobenchSpec::default();
    let looks = [
        ("zero", Look::Zero),
        ("text", Look::Text),
        ("random", Look::Random),
    ];
    let spec = TiobenchSpec {
        bytes: size(section, "size", default.bytes)?,
        block: size(section, "block", default.block)?,
        threads: section.or("threads", default.threads)?,
        random: section.or("random", default.random)?,
        fsync: section.or("fsync", default.fsync)?,
        truncate_first: section.or("truncate-first", default.truncate_first)?,
        contents: section.choice("contents", &looks, default.contents)?,
        phases: subset(
            section,
            "phases",
            &TiobenchPhase::ALL.map(|phase| (phase.name(), phase)),
            default.phases,
        )?,
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
