//! Volumes that mkfs.ubifs makes of a tree on the host.

use nandlab_testkit::tools::{command, printed, text};
use nandlab_ubifs::{Bare, Ubifs};
use std::fs;
use std::path::Path;

/// What mkfs.ubifs calls its compressors.
pub const COMPRESSORS: [&str; 4] = ["none", "lzo", "zlib", "zstd"];

/// Bytes of a page and of a logical block.
pub const SHAPES: [(u32, u32); 3] = [(512, 15_872), (2048, 126_976), (4096, 253_952)];

/// Nodes that need no privileges this way, and owners that differ.
const DEVICES: &str = "/dev d 755 0 0 - - - - -\n\
    /dev/null c 666 0 0 1 3 0 0 -\n\
    /dev/many b 660 7 300000 300 70000 0 0 -\n\
    /dev/fifo p 600 0 0 - - - - -\n";

/// The bytes of a volume of the tree.
pub fn made(root: &Path, (page, leb): (u32, u32), options: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let devices = dir.path().join("devices");
    fs::write(&devices, DEVICES).unwrap();
    let page = page.to_string();
    let leb = leb.to_string();
    let output = command("mtd-utils", "mkfs.ubifs")
        .args(["-r", text(root), "-m", &page, "-e", &leb, "-c", "4000"])
        .args(["-D", text(&devices), "-o", text(&image)])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    fs::read(image).unwrap()
}

/// Mounts the bytes of a volume.
pub fn mounted(bytes: Vec<u8>) -> Ubifs<Bare<Vec<u8>>> {
    Ubifs::mount(Bare::new(bytes).unwrap().unwrap()).unwrap()
}
