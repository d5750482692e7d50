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
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{words:?}: {told}");
        assert!(
            told.contains("\\u{1b}[2J\\u{202e}b") || ["dump", "info"].contains(&words[1]),
            "{words:?}: {told}"
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
            let told = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(
                (ended.status.code(), told.as_str()),
                (Some(0), ""),
                "{words:?}"
            );
        }
    }
}
