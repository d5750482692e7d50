//! Commands that a signal ends.

use crate::common::noise;
use crate::edits::{lab, names, start};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

#[test]
fn a_signal_leaves_the_original_or_the_result_and_nothing_else() {
    let lab = lab("ext3", 8 << 20);
    lab.write("new", &noise(4 << 20));
    let old = fs::read(lab.path("i")).unwrap();
    lab.exits(0, &["image", "create", "-f", "ext2", "created", "tree"]);
    let created = fs::read(lab.path("created")).unwrap();
    fs::remove_file(lab.path("created")).unwrap();
    let (put, create) = (
        &["put", "i", "new", "/new"][..],
        &["create", "-f", "ext2", "i", "tree"][..],
    );
    let mut ended = (0, 0);
    for words in [put, create] {
        let begun = Instant::now();
        fs::write(lab.path("i"), &old).unwrap();
        start(&lab, words).wait().unwrap();
        let whole = begun.elapsed();
        for (number, signal) in
            (0..36).zip([Signal::INT, Signal::TERM, Signal::HUP].into_iter().cycle())
        {
            fs::write(lab.path("i"), &old).unwrap();
            let child = start(&lab, words);
            thread::sleep(whole * (number * 7 % 36) / 36);
            _ = kill_process(Pid::from_child(&child), signal);
            let output = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let killed = output.status.signal() == Some(signal.as_raw());
            assert!(killed || output.status.success(), "{words:?}: {told}");
            assert_eq!(names(&lab), ["i", "new", "tree"], "{words:?} {signal:?}");
            let found = fs::read(lab.path("i")).unwrap();
            let is_old = found == old;
            if !is_old && words == create {
                assert!(found == created, "{signal:?}");
            } else if !is_old {
                assert_eq!(lab.exits(0, &["image", "check", "i"]).0, "sound\n");
                let held = lab.nandlab(&["image", "cat", "i", "/new"]).stdout;
                assert!(held == fs::read(lab.path("new")).unwrap(), "{signal:?}");
            }
            assert!(killed || !is_old, "{words:?} {signal:?}");
            if killed { ended.0 += 1 } else { ended.1 += 1 }
        }
    }
    assert!(ended.0 > 10, "{ended:?}");
}

#[test]
fn an_ignored_hangup_ends_nothing() {
    let lab = lab("ext3", 8 << 20);
    let mut child = Command::new("nohup")
        .args([
            env!("CARGO_BIN_EXE_nandlab"),
            "image",
            "put",
            "i",
            "tree/file",
            "/new",
        ])
        .current_dir(lab.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("coreutils is essential in Debian");
    // Until nohup has become the command, which makes its file beside the image.
    while names(&lab).len() == 2 && child.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
    if child.try_wait().unwrap().is_none() {
        _ = kill_process(Pid::from_child(&child), Signal::HUP);
    }
    assert!(child.wait_with_output().unwrap().status.success());
    lab.exits(0, &["image", "stat", "i", "/new"]);
}
