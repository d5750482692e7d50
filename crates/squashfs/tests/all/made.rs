//! A tree on the host, and volumes that mksquashfs makes of it.

use nandlab_block::Ram;
use nandlab_testkit::disk::load;
use nandlab_testkit::files::bytes;
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

/// Files of all lengths around a block's, text, holes, links, many names.
pub fn tree(root: &Path) {
    for name in ["etc", "many", "deep/down/there", "empty"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for size in [0, 1, 4095, 4096, 4097, 60_000, 131_072, 131_073, 400_001] {
        fs::write(
            root.join(format!("etc/of {size}")),
            bytes(size as u64, size),
        )
        .unwrap();
        let words = "a line of text, as long as it is\n".repeat(size / 33 + 1);
        fs::write(root.join(format!("etc/text {size}")), &words[..size]).unwrap();
    }
    for number in 0..700 {
        let name = format!("many/a file with a name {number:03}");
        fs::write(root.join(name), bytes(number, number as usize)).unwrap();
    }
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(3_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &bytes(5, 5000), 1_200_000).unwrap();
    fs::File::create(root.join("hole"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    std::os::unix::fs::symlink("etc/of 1", root.join("link")).unwrap();
    fs::hard_link(root.join("etc/of 4097"), root.join("deep/a second name")).unwrap();
    fs::write(root.join("deep/down/there/gr\u{f6}\u{df}er"), "12345").unwrap();
}

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
