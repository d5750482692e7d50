//! What reaches a terminal, and readers that go away.

use crate::command::{Lab, SMALL};
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn names_and_titles_reach_the_terminal_with_control_and_bidi_characters_escaped() {
    let lab = Lab::new();
    let hidden = "a\u{1b}[2J\u{202e}b";
    fs::create_dir(lab.path("tree")).unwrap();
    lab.write(&format!("tree/{hidden}"), b"1");
    let create = [
        "image", "create", "-f", "f2fs", "--label", hidden, "i", "tree",
    ];
    lab.exits(0, &create);
    let name = "name = \"a\\u001b[2J\\u202eb\"\n";
    let experiment = format!("[experiment]\n{name}{SMALL}[workload]\nrequests = 10\n");
    lab.write("e.toml", experiment.as_bytes());
    for words in [
        &["image", "ls", "i"][..],
        &["image", "ls", "-l", "-R", "i"],
        &["image", "stat", "i", hidden],
        &["image", "info", "i"],
        &["image", "dump", "i"],
        &["image", "rm", "i", "/none\u{1b}[2J\u{202e}b"],
        &["run", "e.toml"],
        &["run", "e.toml", "--explain"],
        &["run", "none\u{1b}[2J\u{202e}b"],
    ] {
        let output = lab.nandlab(words);
        let reported = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            !reported.contains(['\u{1b}', '\u{202e}']),
            "{words:?}: {reported}"
        );
        assert!(
            reported.contains("\\u{1b}[2J\\u{202e}b") || ["dump", "info"].contains(&words[1]),
            "{words:?}: {reported}"
        );
    }
    let (json, _) = lab.exits(0, &["image", "ls", "--json", "i"]);
    assert!(json.contains('\u{202e}'), "{json}");
}

#[test]
fn a_reader_of_an_archive_that_goes_away_is_no_failure() {
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    lab.write("tree/file", &crate::common::noise(8 << 20));
    for format in ["ext2", "jffs2", "fat"] {
        lab.exits(0, &["image", "create", "-f", format, "i", "tree"]);
        for words in [
            &["extract", "i", "-"][..],
            &["cat", "i", "/file"],
            &["extract", "--json", "i", "-"],
        ] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_nandlab"))
                .arg("image")
                .args(words)
                .current_dir(lab.path("."))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = child.stdout.take().unwrap();
            out.read_exact(&mut [0; 512]).unwrap();
            drop(out);
            let ended = child.wait_with_output().unwrap();
            let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(
                (ended.status.code(), reported.as_str()),
                (Some(0), ""),
                "{words:?}"
            );
        }
    }
}

/// Runs the command in an environment with these variables and no other locale.
fn reported(lab: &Lab, words: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    for name in ["LC_ALL", "LC_CTYPE", "LANG", "COLUMNS"] {
        command.env_remove(name);
    }
    let command = command.args(words).envs(variables.iter().copied());
    let output = command.current_dir(lab.path(".")).output().unwrap();
    let reported = [output.stdout, output.stderr].concat();
    String::from_utf8(reported).unwrap()
}

#[test]
fn without_utf_8_everything_but_names_is_ascii() {
    let lab = Lab::new();
    let text = format!("{SMALL}[workload]\nsize = \"4 MiB\"\nrequests = 300\n");
    lab.write("e.toml", text.as_bytes());
    fs::create_dir(lab.path("tree")).unwrap();
    lab.write("tree/größer", b"1");
    lab.exits(0, &["image", "create", "-f", "ext2", "i", "tree"]);
    for words in [
        &["run", "e.toml"][..],
        &["run", "e.toml", "--explain"],
        &["paper"],
        &["chips"],
        &["--help"],
        &["image", "create", "--help"],
        &["image", "info", "i"],
        &["image", "check", "i"],
    ] {
        for variables in [&[("LC_ALL", "C")][..], &[("LANG", "de_DE.ISO-8859-1")], &[]] {
            let reported = reported(&lab, words, variables);
            assert!(
                reported.is_ascii() && !reported.is_empty(),
                "{words:?}: {reported}"
            );
        }
    }
    let utf8 = [("LC_ALL", "C.UTF-8")];
    let table = reported(&lab, &["run", "e.toml"], &utf8);
    assert!(table.contains('µ') && table.contains('─'), "{table}");
    // A name is what it is: scripts run in the locale C.
    let list = reported(&lab, &["image", "ls", "i"], &[("LC_ALL", "C")]);
    assert!(list.contains("größer"), "{list}");
}

#[test]
fn help_is_as_wide_as_the_user_wants_it() {
    let lab = Lab::new();
    for words in [
        &["--help"][..],
        &["image", "create", "--help"],
        &["run", "--help"],
    ] {
        let widest = |columns: &str| {
            let reported = reported(&lab, words, &[("COLUMNS", columns)]);
            // The synopsis is never broken.
            let lines = reported.lines().filter(|line| !line.starts_with("Usage: "));
            lines.map(|line| line.chars().count()).max().unwrap()
        };
        assert!(widest("60") <= 60, "{words:?}: {}", widest("60"));
        assert!(widest("110") > 60 && widest("110") <= 110, "{words:?}");
    }
}
