//! Choices of fs_mark, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::fsmark::{FsMarkSpec, FsMarkSync};

pub(super) const KEYS: [&str; 7] = [
    "files",
    "size",
    "write-size",
    "threads",
    "sync-method",
    "loops",
    "keep",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<FsMarkSpec, DescriptionError> {
    let default = FsMarkSpec::default();
    let spec = FsMarkSpec {
        files: section.or("files", default.files)?,
        bytes: size(section, "size", default.bytes)?,
        piece: size(section, "write-size", default.piece)?,
        threads: section.or("threads", default.threads)?,
        sync: section.choice(
            "sync-method",
            &FsMarkSync::ALL.map(|sync| (sync.name(), sync)),
            default.sync,
        )?,
        loops: section.or("loops", default.loops)?,
        keep: section.or("keep", default.keep)?,
        seed: 0,
    };
    spec.check().map_err(|error| {
        let key = match error.key {
            "bytes" => "size",
            "piece" => "write-size",
            key => key,
        };
        section.refuse(key, &error.found, &error.expected)
    })?;
    Ok(spec)
}
