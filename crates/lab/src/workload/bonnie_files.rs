//! Choices of bonnie++'s tests of names, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::bonnie_files::BonnieFilesSpec;

pub(super) const KEYS: [&str; 4] = ["files", "size-min", "size-max", "sync-all"];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<BonnieFilesSpec, DescriptionError> {
    let default = BonnieFilesSpec::default();
    let least = size(section, "size-min", default.bytes.0)?;
    let spec = BonnieFilesSpec {
        files: section.or("files", default.files)?,
        bytes: (
            least,
            size(section, "size-max", default.bytes.1.max(least))?,
        ),
        sync_all: section.or("sync-all", default.sync_all)?,
        seed: 0,
    };
    spec.check().map_err(|error| {
        let key = match error.key {
            "size min" => "size-min",
            "size max" => "size-max",
            key => key,
        };
        section.refuse(key, &error.found, &error.expected)
    })?;
    Ok(spec)
}
