//! Other tools take out of our archives what went into them. Needs root, for owners, devices and
//! attributes.

use crate::common::{archive, differences, held, tree};
use nandlab_image::tar_in;
use nandlab_image::tree::{Entry, Node};
use nandlab_vfs::Time;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Tools with their packages and words, and whether they know attributes.
const TOOLS: [(&str, &str, &[&str], bool); 3] = [
    (
        "/usr/bin/tar",
        "tar",
        &[
            "--acls",
            "--xattrs",
            "--xattrs-include=*",
            "--numeric-owner",
            "-xpf",
            "../a.tar",
        ],
        true,
    ),
    (
        "/usr/bin/bsdtar",
        "libarchive-tools",
        &["--acls", "--xattrs", "--numeric-owner", "-xpf", "../a.tar"],
        true,
    ),
    (
        "/usr/bin/python3",
        "python3",
        &[
            "-c",
            "import tarfile; tarfile.open('../a.tar').extractall(numeric_owner=True)",
        ],
        false,
    ),
];

fn run(program: &str, package: &str, words: &[&str], dir: &Path) {
    let mut command = Command::new(program);
    let output = command.args(words).current_dir(dir).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: apt-get install {package}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
}

/// The entries of a directory as an archive holds them.
fn found(dir: &Path, scratch: &Path) -> Vec<(Entry, Vec<u8>)> {
    held(
        &archive(&nandlab_image::dir_in::read(dir).unwrap()),
        scratch,
    )
}

#[test]
fn other_tools_take_everything_out_of_our_archives() {
    assert!(rustix::process::geteuid().is_root(), "needs root");
    let scratch = tempfile::tempdir().unwrap();
    let tree = tree(scratch.path(), true);
    let archive = archive(&tree);
    let mut expected = held(&archive, scratch.path());
    fs::write(scratch.path().join("a.tar"), &archive).unwrap();
    // Sockets are listed as losses.
    expected.retain(|(entry, _)| entry.node != Node::Socket);
    for (program, package, words, attributes) in TOOLS {
        let dir = scratch.path().join("out");
        fs::create_dir(&dir).unwrap();
        run(program, package, words, &dir);
        let mut found = found(&dir, scratch.path());
        found.retain(|(entry, _)| entry.path != b"dev/socket");
        let mut expected = expected.clone();
        if !attributes {
            // It follows links when it sets modes and times, and has times in floating point.
            let plain = |entry: &Entry| matches!(entry.node, Node::File { .. } | Node::Directory);
            for list in [&mut found, &mut expected] {
                list.retain(|(entry, _)| plain(entry));
                list.iter_mut().for_each(|(entry, _)| {
                    entry.xattrs.clear();
                    (entry.mode, entry.mtime) = (0, Time::new(0));
                });
            }
        }
        if program.ends_with("bsdtar") {
            // It leaves the root as it is, and takes the fraction of a time before 1970 forwards.
            let other = |path: &[u8]| path.is_empty() || path == b"before 1970";
            found.retain(|(entry, _)| !other(&entry.path));
            expected.retain(|(entry, _)| !other(&entry.path));
        }
        assert_eq!(differences(&expected, &found), "", "{program}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn access_lists_of_other_tools_archives_are_read() {
    assert!(rustix::process::geteuid().is_root(), "needs root");
    let scratch = tempfile::tempdir().unwrap();
    let first = archive(&tree(scratch.path(), true));
    let mut expected = held(&first, scratch.path());
    expected.retain(|(entry, _)| entry.path == b"acl");
    let dir = scratch.path().join("out");
    fs::create_dir(&dir).unwrap();
    fs::write(scratch.path().join("a.tar"), &first).unwrap();
    let (program, package, words, _) = TOOLS[0];
    run(program, package, words, &dir);
    for (program, package) in [
        ("/usr/bin/tar", "tar"),
        ("/usr/bin/bsdtar", "libarchive-tools"),
    ] {
        let words = [
            "--acls",
            "--numeric-owner",
            "--format=pax",
            "-cf",
            "../b.tar",
            "acl",
        ];
        run(program, package, &words, &dir);
        let mut found = held(
            &fs::read(scratch.path().join("b.tar")).unwrap(),
            scratch.path(),
        );
        found.retain(|(entry, _)| entry.path == b"acl");
        assert_eq!(differences(&expected, &found), "", "{program}");
    }
}

#[test]
fn a_hole_at_the_end_stays_in_an_archive_of_ours() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    fs::create_dir(&source).unwrap();
    let sizes = [("tail", 3 << 20), ("only", 64 << 20), ("short", 4097)];
    for (name, size) in sizes {
        let mut file = fs::File::create(source.join(name)).unwrap();
        if name != "only" {
            file.write_all(&[7; 4096]).unwrap();
        }
        file.set_len(size).unwrap();
    }
    let tree = nandlab_image::dir_in::read(&source).unwrap();
    let path = scratch.path().join("a.tar");
    fs::write(&path, archive(&tree)).unwrap();
    let again = tar_in::read(&path).unwrap();
    for (entry, data) in &again.entries {
        let held: u64 = data.extents.iter().map(|extent| extent.len).sum();
        let few = entry.path.is_empty() || held <= 4096 + 512;
        assert!(few, "{entry:?} holds {held} bytes");
    }
    for (program, package, words, _) in TOOLS {
        let dir = scratch.path().join("out");
        fs::create_dir(&dir).unwrap();
        run(program, package, words, &dir);
        for (name, size) in sizes {
            let bytes = fs::read(dir.join(name)).unwrap();
            assert_eq!(bytes.len() as u64, size, "{program}: {name}");
            assert!(
                bytes == fs::read(source.join(name)).unwrap(),
                "{program}: {name}"
            );
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    // A pipe cannot be sought in.
    let mut list = Command::new("/usr/bin/tar")
        .args(["-tvf", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    list.stdin.take().unwrap().write_all(&bytes).unwrap();
    let text = String::from_utf8(list.wait_with_output().unwrap().stdout).unwrap();
    assert!(
        text.contains(" 67108864 ") && text.contains(" 3145728 "),
        "{text}"
    );
}
