//! Files that results are written to: refused before the work, replaced when they are whole.

use crate::command::{Lab, SMALL};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

const SHORT: &str = "[workload]\nrequests = 100\n";

/// A command that would take hours.
const LONG: &str = "[workload]\noverwrites = 1000000\n";

fn names(lab: &Lab) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(lab.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_target_that_cannot_be_written_is_refused_before_the_work_and_named() {
    let lab = Lab::new();
    lab.write("e.toml", format!("{SMALL}{LONG}").as_bytes());
    lab.write("t", b"0,0,512,W,0\n");
    fs::create_dir(lab.path("dir")).unwrap();
    for command in [
        &["run", "e.toml", "--json"][..],
        &["run", "e.toml", "--report"],
        &["replay", "t", "--stack", "e.toml", "--json"],
        &["crash", "e.toml", "--ops", "1000000", "--json"],
        &["paper", "all", "--json"],
        &["paper", "all", "--report"],
    ] {
        // Reports of several papers are named after the target.
        let path = match command {
            ["paper", .., "--report"] => "none/o-",
            _ => "none/o",
        };
        let given = [command, &["none/o"]].concat();
        lab.refuses(&given, &format!("nandlab: {path}"));
        if path == "none/o" {
            lab.refuses(
                &[command, &["dir"]].concat(),
                "nandlab: dir: Is a directory",
            );
        }
    }
    let save = ["run", "e.toml", "--set", "chip.save=none/o"];
    lab.refuses(&save, "nandlab: none/o: No such file");
    lab.write("stack.toml", SMALL.as_bytes());
    let nbd = ["export", "stack.toml", "--nbd", "unix:/nowhere/socket"];
    lab.refuses(
        &[&nbd[..], &save[2..]].concat(),
        "nandlab: none/o: No such file",
    );
    assert_eq!(names(&lab), ["dir", "e.toml", "stack.toml", "t"]);
}

#[test]
fn a_target_that_is_an_input_is_refused_by_whatever_name() {
    let lab = Lab::new();
    let text = format!("{SMALL}[workload]\ntype = \"trace\"\nfile = \"t\"\n");
    lab.write("e.toml", text.as_bytes());
    lab.write("s.toml", SMALL.as_bytes());
    lab.write("t", b"0,0,512,W,0\n");
    symlink("e.toml", lab.path("symbolic")).unwrap();
    fs::hard_link(lab.path("t"), lab.path("hard")).unwrap();
    for (command, target) in [
        (&["run", "e.toml", "--json"][..], "e.toml"),
        (&["run", "e.toml", "--json"], "symbolic"),
        (&["run", "e.toml", "--report"], "hard"),
        (&["run", "e.toml", "--json", "o", "--report"], "./o"),
        (&["replay", "t", "--stack", "s.toml", "--json"], "hard"),
        (&["replay", "t", "--stack", "s.toml", "--report"], "s.toml"),
        (&["crash", "e.toml", "--json"], "t"),
    ] {
        if target == "./o" {
            lab.write("o", b"old");
        }
        lab.refuses(
            &[command, &[target]].concat(),
            &format!("nandlab: {target}: the same file as "),
        );
    }
    assert_eq!(fs::read(lab.path("o")).unwrap(), b"old");
    assert_eq!(fs::read(lab.path("e.toml")).unwrap(), text.as_bytes());
    assert_eq!(fs::read(lab.path("t")).unwrap(), b"0,0,512,W,0\n");
}

#[test]
fn an_image_is_not_replaced_by_what_is_made_from_it() {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    lab.exits(0, &["image", "create", "-f", "ext2", "i.tar", "tree"]);
    let before = fs::read(lab.path("i.tar")).unwrap();
    for command in [
        &["extract", "i.tar", "i.tar"][..],
        &["extract", "i.tar", "dir", "--manifest", "./i.tar"],
        &["create", "-f", "fat", "i.tar", "i.tar"],
    ] {
        lab.refuses(&[&["image"], command].concat(), "the same file as i.tar");
    }
    assert_eq!(fs::read(lab.path("i.tar")).unwrap(), before);
    assert_eq!(names(&lab), ["i.tar", "tree"]);
}

#[test]
fn a_run_without_a_result_leaves_its_targets_as_they_were() {
    let lab = Lab::new();
    lab.write("e.toml", format!("{SMALL}{SHORT}").as_bytes());
    lab.write("t", b"0,0,512,W,0\n0,99999999,512,W,1\n");
    lab.write("o", b"old");
    lab.refuses(
        &[
            "replay", "t", "--stack", "e.toml", "--json", "o", "--report", "new",
        ],
        "t: request 2",
    );
    assert_eq!(fs::read(lab.path("o")).unwrap(), b"old");
    assert_eq!(names(&lab), ["e.toml", "o", "t"]);
}

#[test]
fn a_result_keeps_the_mode_and_the_names_of_the_file_that_it_replaces() {
    let lab = Lab::new();
    lab.write("e.toml", format!("{SMALL}{SHORT}").as_bytes());
    for name in ["private", "behind", "linked"] {
        lab.write(name, b"old");
    }
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(lab.path("private"), mode).unwrap();
    symlink("behind", lab.path("symbolic")).unwrap();
    fs::hard_link(lab.path("linked"), lab.path("other")).unwrap();
    for name in ["private", "symbolic", "other"] {
        lab.exits(0, &["run", "e.toml", "--json", name]);
    }
    let expected = lab.exits(0, &["run", "e.toml", "--json", "-"]).0;
    for name in ["private", "behind", "linked", "other"] {
        assert_eq!(
            fs::read_to_string(lab.path(name)).unwrap(),
            expected,
            "{name}"
        );
    }
    let metadata = |name| fs::symlink_metadata(lab.path(name)).unwrap();
    assert_eq!(metadata("private").mode() & 0o777, 0o600);
    assert!(metadata("symbolic").is_symlink());
    assert_eq!(metadata("linked").ino(), metadata("other").ino());
    lab.exits(0, &["run", "e.toml", "--json", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
