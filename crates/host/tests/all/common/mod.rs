//! What the tests of this crate share.

pub mod client;
pub mod ram;

use nandlab_host::SharedDisk;
use ram::{Probe, watched_ram};
use std::sync::Arc;

pub use nandlab_testkit::files::bytes as pattern;
pub use nandlab_testkit::tools::{run, succeed as expect_success, text};

pub const MIB: u64 = 1 << 20;

/// A shared RAM disk of so many bytes, and its probe.
pub fn ram_disk(sector: u32, bytes: u64) -> (SharedDisk, Arc<Probe>) {
    let (ram, probe) = watched_ram(sector, bytes / u64::from(sector));
    (SharedDisk::new(Box::new(ram)), probe)
}
