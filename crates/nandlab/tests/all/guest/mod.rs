//! Guests in which the kernel's flash layers have a flash: our modules, the programs of mtd-utils,
//! and the shell functions of `nftl.sh`.

pub mod costs;
pub mod held_back;
pub mod jffs2_costs;
pub mod media;
pub mod model_costs;
pub mod published;

use nandlab_oracle::{Guest, Oracle};
use std::{path::Path, time::Duration};

pub use nandlab_testkit::kernel::boot;
pub use nandlab_testkit::tools::compiled;

/// What the modules are built from.
const MODULES: [(&str, &str); 6] = [
    ("docram.h", include_str!("docram.h")),
    ("docram.c", include_str!("docram.c")),
    ("docname.c", include_str!("docname.c")),
    ("work.h", include_str!("work.h")),
    ("costs.c", include_str!("costs.c")),
    ("mtdspy.c", include_str!("mtdspy.c")),
];

/// Programs that the scripts call by their full path.
const PROGRAMS: [&str; 7] = [
    "flash_erase",
    "nftl_format",
    "nftldump",
    "nanddump",
    "mkfs.vfat",
    "fsck.vfat",
    "mkfs.ext2",
];

pub const FUNCTIONS: &str = include_str!("nftl.sh");

pub fn oracle() -> Oracle {
    Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"))
}

/// A guest that has the modules as `/NAME.ko`, the programs, and runs `script` after the functions
/// of `nftl.sh`.
pub fn guest(oracle: &Oracle, script: &str) -> Guest {
    let modules = oracle
        .modules(&MODULES)
        .unwrap_or_else(|error| panic!("{error}"));
    let guest = modules
        .into_iter()
        .fold(oracle.guest(), |guest, (name, bytes)| {
            guest.file(format!("/{name}.ko"), bytes)
        });
    let guest = PROGRAMS.iter().fold(guest, |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    // Seconds on an idle machine.
    guest
        .timeout(Duration::from_secs(600))
        .script([FUNCTIONS, script].concat())
}

/// Bytes without a pattern, the same each time.
pub fn noise(bytes: usize) -> Vec<u8> {
    nandlab_testkit::files::bytes(1, bytes)
}
