//! Edits of one image by several programs, and what they keep of the image's file.

use crate::command::Lab;
use crate::common::noise;
use rustix::fs::{FlockOperation, XattrFlags, flock, getxattr, setxattr};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A directory with a file of so many bytes in a tree, and an image of the tree.
pub fn lab(format: &str, bytes: usize) -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    lab.write("tree/file", &noise(bytes));
    lab.exits(0, &["image", "create", "-f", format, "i", "tree"]);
    lab
}

pub fn start(lab: &Lab, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nandlab"))
        .arg("image")
        .args(words)
        .current_dir(lab.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub fn names(lab: &Lab) -> Vec<String> {
    let entries = fs::read_dir(lab.path(".")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn concurrent_edits_of_one_image_are_all_kept_or_refused_with_a_message() {
    for format in ["ext2", "jffs2"] {
        let lab = lab(format, 100_000);
        let puts: Vec<(String, Child)> = (0..24)
            .map(|number| {
                let path = format!("/{number}");
                let child = start(&lab, &["put", "--grow", "i", "tree/file", &path]);
                (path, child)
            })
            .collect();
        let mut kept = 0;
        for (path, child) in puts {
            let ended = child.wait_with_output().unwrap();
            let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
            let listed = lab.nandlab(&["image", "stat", "i", &path]).status.success();
            assert_eq!(
                listed,
                ended.status.success(),
                "{format} {path}: {reported}"
            );
            assert!(
                listed || reported.contains("i: another program is writing this image"),
                "{reported}"
            );
            kept += usize::from(listed);
        }
        assert!(kept > 1, "{format}: {kept}");
        assert_eq!(lab.exits(0, &["image", "check", "i"]).0, "sound\n");
        assert_eq!(names(&lab), ["i", "tree"]);
    }
}

#[test]
fn an_edit_waits_for_a_short_lock_and_refuses_a_long_one() {
    let lab = lab("fat", 10);
    let image = fs::File::open(lab.path("i")).unwrap();
    flock(&image, FlockOperation::LockExclusive).unwrap();
    let child = start(&lab, &["mkdir", "i", "/waited"]);
    thread::sleep(Duration::from_millis(300));
    flock(&image, FlockOperation::Unlock).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    lab.exits(0, &["image", "stat", "i", "/waited"]);
    let image = fs::File::open(lab.path("i")).unwrap();
    flock(&image, FlockOperation::LockShared).unwrap();
    let before = fs::read(lab.path("i")).unwrap();
    let begun = Instant::now();
    let refused = [
        &["rm", "i", "/file"][..],
        &["check", "--repair", "i"],
        &["create", "-f", "fat", "i", "tree"],
    ]
    .map(|words| start(&lab, words));
    for child in refused {
        let ended = child.wait_with_output().unwrap();
        let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{reported}");
        assert!(
            reported.contains("i: another program is writing this image"),
            "{reported}"
        );
    }
    assert!(begun.elapsed() >= Duration::from_secs(9));
    assert!(fs::read(lab.path("i")).unwrap() == before);
    // Who only looks needs no lock.
    lab.exits(0, &["image", "ls", "i"]);
}

#[test]
fn an_edit_keeps_owner_mode_and_extended_attributes_of_the_image_file() {
    let lab = lab("ext2", 1000);
    let image = lab.path("i");
    if geteuid().is_root() {
        chown(&image, Some(1234), Some(5678)).unwrap();
    }
    fs::set_permissions(&image, fs::Permissions::from_mode(0o640)).unwrap();
    let labelled = setxattr(&image, "user.label", b"a value", XattrFlags::empty()).is_ok();
    let state = || {
        let metadata = fs::metadata(&image).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode())
    };
    let before = state();
    lab.exits(0, &["image", "put", "i", "tree/file", "/new"]);
    lab.exits(0, &["image", "rm", "i", "/file"]);
    assert_eq!(state(), before);
    if labelled {
        let mut value = [0; 20];
        let length = getxattr(&image, "user.label", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"a value");
    }
}

#[test]
fn an_image_with_several_names_is_not_edited_under_one_of_them() {
    let lab = lab("ext2", 1000);
    fs::hard_link(lab.path("i"), lab.path("other")).unwrap();
    let before = fs::read(lab.path("i")).unwrap();
    let words = ["image", "put", "other", "tree/file", "/new"];
    lab.refuses(&words, "with 2 hard links, expected a file with one name");
    assert!(fs::read(lab.path("i")).unwrap() == before);
    assert_eq!(names(&lab), ["i", "other", "tree"]);
}
