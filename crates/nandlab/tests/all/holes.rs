//! Files that are terabytes of nothing: what a hole costs is nothing, too. Reading or writing one
//! byte by byte takes hours, and more space than a machine for tests has.

use crate::command::Lab;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

const TIB: u64 = 1 << 40;
/// Where a byte lies in a file of two TiB.
const PLACES: [u64; 3] = [0, TIB + 5, 2 * TIB - 1];

fn sparse(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(2 * TIB).unwrap();
    for (place, byte) in PLACES.into_iter().zip(*b"abc") {
        file.write_all_at(&[byte], place).unwrap();
    }
}

/// Bytes that a file takes.
fn space(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn assert_sparse(path: &Path) {
    assert_eq!(fs::metadata(path).unwrap().len(), 2 * TIB);
    assert!(space(path) < 1 << 20, "{}", space(path));
    let file = File::open(path).unwrap();
    for (place, expected) in PLACES.into_iter().zip(*b"abc") {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        assert_eq!(byte, [expected], "{place}");
    }
}

#[test]
fn terabytes_of_holes_go_into_an_image_and_out_of_it() {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    sparse(&lab.path("tree/file"));
    lab.exits(0, &["image", "create", "-f", "f2fs", "i", "tree"]);
    assert!(
        space(&lab.path("i")) < 16 << 20,
        "{}",
        space(&lab.path("i"))
    );
    lab.exits(0, &["image", "diff", "i", "tree"]);
    lab.exits(0, &["image", "extract", "i", "out"]);
    assert_sparse(&lab.path("out/file"));
    lab.exits(0, &["image", "extract", "i", "a.tar"]);
    assert!(space(&lab.path("a.tar")) < 1 << 20);
    for source in ["i", "a.tar"] {
        lab.exits(0, &["image", "create", "-f", "f2fs", "again", source]);
        lab.exits(0, &["image", "diff", "again", "tree"]);
    }
    assert_eq!(lab.exits(0, &["image", "check", "i"]).0, "sound\n");
}

#[test]
fn terabytes_of_holes_are_refused_by_formats_with_shorter_files() {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    sparse(&lab.path("tree/file"));
    for format in ["ext2", "ext3", "fat", "jffs2"] {
        let words = ["image", "create", "-f", format, "i", "tree"];
        lab.refuses(&words, "/file: length of the file is 2199023255552 bytes");
    }
}
