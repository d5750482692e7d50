//! Choices of installing applications, as `[workload]` has them.

use super::files::size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::install::InstallSpec;

pub(super) const KEYS: [&str; 9] = [
    "apps",
    "package-min",
    "package-max",
    "write-size",
    "code-percent",
    "files",
    "file-min",
    "file-max",
    "fsync-every",
];

/// Takes them; the seed is the run's.
pub(super) fn take(section: &mut Section) -> Result<InstallSpec, DescriptionError> {
    let default = InstallSpec::default();
    let spec = InstallSpec {
        apps: section.or("apps", default.apps)?,
        package: (
            size(section, "package-min", default.package.0)?,
            size(section, "package-max", default.package.1)?,
        ),
        piece: size(section, "write-size", default.piece)?,
        code_percent: section.or("code-percent", default.code_percent)?,
        files: section.or("files", default.files)?,
        file: (
            size(section, "file-min", default.file.0)?,
            size(section, "file-max", default.file.1)?,
        ),
        fsync_every: section.or("fsync-every", default.fsync_every)?,
        seed: 0,
    };
    spec.check()
        .map_err(|error| section.refuse(key_of(error.key), &error.found, &error.expected))?;
    Ok(spec)
}

/// The key that a verdict of the spec speaks of.
fn key_of(field: &'static str) -> &'static str {
    match field {
        "package min" => "package-min",
        "package max" => "package-max",
        "piece" => "write-size",
        "code percent" => "code-percent",
        "file min" => "file-min",
        "file max" => "file-max",
        key => key,
    }
}
