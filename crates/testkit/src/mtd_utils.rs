//! Debian's source package of mtd-utils, for tests that judge by what it holds.

use crate::tools::{self, text};
use nandlab_oracle::source;
use std::path::Path;

/// The release of Debian 13.
const RELEASE: &str = "2.3.0";
/// The checksum of the archive, as Debian's description of the source package has it.
const SHA256: &str = "d1242d44c5772394d159117f3aeaa352f4265a073cb6dc0d91ced13d9b3299df";

/// Unpacks the files of a pattern into a directory, without so many leading directories.
pub fn unpack(into: &Path, leading: usize, pattern: &str) {
    let file = format!("mtd-utils_{RELEASE}.orig.tar.xz");
    let archive = source::archive("mtd-utils", &file, SHA256);
    let archive = archive.unwrap_or_else(|error| panic!("{error}"));
    let arguments = [
        "-xJf",
        text(&archive),
        "-C",
        text(into),
        &format!("--strip-components={leading}"),
        "--wildcards",
        pattern,
    ];
    tools::succeed("tar", "tar", &arguments);
}
