//! F2FS on a disk in memory: calls beside the kernel's, images beside `sload.f2fs` and `dump.f2fs`,
//! random writes on a simulated device.
//!
//! The tree is that of JFFS2's benchmark. Seconds on the wall are the best of some rounds, and
//! count as far as nothing else runs. Needs f2fs-tools, root and loop devices.

#[path = "../../../ext/benches/kernel/beside.rs"]
mod beside;
#[path = "../../../jffs2/benches/image/compare.rs"]
mod compare;
#[path = "../../../jffs2/benches/image/cost.rs"]
mod cost;
mod device;
mod image;
mod ops;
#[path = "../../../jffs2/benches/image/tree.rs"]
mod tree;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("ops") {
        ops::table();
    }
    if wanted("device") {
        device::table();
    }
    if wanted("image") {
        image::tables();
    }
    ExitCode::SUCCESS
}
