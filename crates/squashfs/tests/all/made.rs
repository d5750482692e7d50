//! A tree on the host, and volumes that mksquashfs makes of it.

use nandlab_block::Ram;
use nandlab_testkit::disk::load;
use nandlab_testkit::tools::{command, printed, text};
use std::fs;
use std::path::Path;

/// What mksquashfs calls its compressors.
pub const COMPRESSORS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// Nodes that need no privileges this way, and owners that differ.
const PSEUDO: &str = "dev d 755 0 0\n\
    dev/null c 666 0 0 1 3\n\
    dev/many b 660 7 3000000000 300 70000\n\
    dev/fifo i 600 0 0 f\n\
    dev/socket i 755 1 2 s\n";

/// A volume of the tree.
pub fn made(root: &Path, options: &[&str]) -> Ram {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let pseudo = dir.path().join("pseudo");
    fs::write(&pseudo, PSEUDO).unwrap();
    let output = command("squashfs-tools", "mksquashfs")
        .args([
            text(root),
            text(&image),
            "-quiet",
            "-no-progress",
            "-pf",
            text(&pseudo),
        ])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    // Without the maker's padding, a disk ends behind the last sector that has any of it.
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len.next_multiple_of(512)).unwrap();
    load(&image)
}
