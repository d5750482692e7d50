//! Commands that a signal ends.
//!
//! *Promised* is, for every signal: the target is as it was or whole, and nothing else is left
//! behind. `SIGKILL` leaves no time to do anything, so that one exception remains: a whole result
//! gets a hidden name, and another system call puts it in its target's place. A process that is
//! killed in between leaves the hidden name, and never a part of a result.

use crate::command::{Lab, SMALL};
use crate::common::noise;
use crate::edits::{lab, names};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

const SIGNALS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL];
/// The names of results that are whole, for a moment.
const HIDDEN: &str = ".nandlab-";

/// A command that makes or changes the file `i`.
pub struct Case {
    lab: Lab,
    words: Vec<&'static str>,
    /// The file as it is before.
    old: Vec<u8>,
    result: Expected,
}

enum Expected {
    /// The image consists of these bytes.
    Bytes(Vec<u8>),
    /// A sound image that holds the file `new` as `/new`.
    Holding,
}

impl Case {
    fn new(lab: Lab, words: &[&'static str], result: Expected) -> Self {
        fs::create_dir(lab.path("temporary")).unwrap();
        let old = fs::read(lab.path("i")).unwrap();
        let words = words.to_vec();
        Self {
            lab,
            words,
            old,
            result,
        }
    }

    /// The same with the bytes that it makes when nothing ends it.
    fn with_result(mut self) -> Self {
        assert!(self.start().wait().unwrap().success(), "{:?}", self.words);
        let made = fs::read(self.lab.path("i")).unwrap();
        assert!(made != self.old, "{:?}", self.words);
        self.result = Expected::Bytes(made);
        self
    }

    fn start(&self) -> Child {
        let words = self.words.iter().copied();
        Command::new(env!("CARGO_BIN_EXE_nandlab"))
            .arg("image")
            .args(words)
            .current_dir(self.lab.path("."))
            .env("TMPDIR", self.lab.path("temporary"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn assert_whole(&self, name: &str) {
        match &self.result {
            Expected::Bytes(bytes) => {
                assert!(fs::read(self.lab.path(name)).unwrap() == *bytes, "{name}");
            }
            Expected::Holding => {
                assert_eq!(self.lab.exits(0, &["image", "check", name]).0, "sound\n");
                let held = self.lab.nandlab(&["image", "cat", name, "/new"]).stdout;
                assert!(held == fs::read(self.lab.path("new")).unwrap(), "{name}");
            }
        }
    }

    /// Removes the whole result that a kill may have left.
    fn remove_hidden(&self) {
        let names = names(&self.lab);
        let hidden: Vec<&String> = names.iter().filter(|n| n.starts_with(HIDDEN)).collect();
        assert!(hidden.len() <= 1, "{hidden:?}");
        for name in hidden {
            self.assert_whole(name);
            fs::remove_file(self.lab.path(name)).unwrap();
        }
    }

    /// Ends the command by each signal at so many moments between its start and its end.
    pub fn survives_signals(&self, moments: u32) {
        let begun = Instant::now();
        fs::write(self.lab.path("i"), &self.old).unwrap();
        assert!(self.start().wait().unwrap().success(), "{:?}", self.words);
        // How long it takes depends on what else the machine does, and is learnt on the way.
        let mut whole = begun.elapsed();
        let expected = names(&self.lab);
        let mut ended = [0, 0];
        for (moment, signal) in
            (0..moments).flat_map(|moment| SIGNALS.map(|signal| (moment, signal)))
        {
            fs::write(self.lab.path("i"), &self.old).unwrap();
            let child = self.start();
            let part = moment * 37 % moments;
            thread::sleep(whole * part / moments);
            _ = kill_process(Pid::from_child(&child), signal);
            let output = child.wait_with_output().unwrap();
            let reported = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{:?} {signal:?}", self.words);
            let killed = output.status.signal() == Some(signal.as_raw());
            assert!(killed || output.status.success(), "{what}: {reported}");
            if signal == Signal::KILL {
                self.remove_hidden();
            }
            assert_eq!(names(&self.lab), expected, "{what}");
            let temporary = fs::read_dir(self.lab.path("temporary")).unwrap().count();
            assert_eq!(temporary, 0, "{what}");
            let is_old = fs::read(self.lab.path("i")).unwrap() == self.old;
            if !is_old {
                self.assert_whole("i");
            }
            assert!(killed || !is_old, "{what}");
            ended[usize::from(killed)] += 1;
            if !killed {
                whole = whole * 9 / 10;
            } else if part > moments * 3 / 4 {
                whole = whole * 10 / 9;
            }
        }
        assert!(ended[1] > moments / 2, "{:?}: {ended:?}", self.words);
    }
}

pub fn put() -> Case {
    let lab = lab("ext2", 1 << 20);
    lab.write("new", &noise(1 << 20));
    Case::new(lab, &["put", "i", "new", "/new"], Expected::Holding)
}

pub fn create() -> Case {
    let lab = lab("ext3", 2 << 20);
    let words = ["create", "-f", "ext2", "i", "tree"];
    Case::new(lab, &words, Expected::Holding).with_result()
}

/// Of an image whose superblock counts free blocks wrongly.
pub fn repair() -> Case {
    let lab = lab("ext2", 4 << 20);
    let mut image = fs::read(lab.path("i")).unwrap();
    image[1024 + 12..][..2].copy_from_slice(&[1, 0]);
    lab.write("i", &image);
    let words = ["check", "--repair", "i"];
    Case::new(lab, &words, Expected::Holding).with_result()
}

/// Of a dump to one with spare bytes.
pub fn convert() -> Case {
    let lab = lab("ext2", 10);
    lab.write("tree/file", &noise(2 << 20));
    let words = [
        "image", "create", "-f", "jffs2", "--page", "2048", "flash", "tree",
    ];
    lab.exits(0, &words);
    let words = ["convert", "flash", "i", "--to-oob", "64"];
    Case::new(lab, &words, Expected::Holding).with_result()
}

/// Of UBI, by way of temporary files.
pub fn convert_anew() -> Case {
    let lab = lab("ext2", 10);
    lab.write("contents", &noise(2 << 20));
    let volume =
        "[a]\nmode=ubi\nimage=contents\nvol_id=0\nvol_size=3MiB\nvol_type=static\nvol_name=a\n";
    lab.write("volumes", volume.as_bytes());
    let words = [
        "image", "ubinize", "--page", "2048", "--block", "128K", "flash", "volumes",
    ];
    lab.exits(0, &words);
    let words = ["convert", "flash", "i", "--to-block", "256K"];
    Case::new(lab, &words, Expected::Holding).with_result()
}

#[test]
fn a_signal_leaves_the_original_or_the_result_and_nothing_else() {
    for case in [put(), create(), repair(), convert(), convert_anew()] {
        case.survives_signals(9);
    }
}

#[test]
fn a_signal_leaves_no_part_of_a_saved_chip() {
    let lab = Lab::new();
    let text = format!("{SMALL}save = \"saved\"\n[workload]\nsize = \"4 MiB\"\nrequests = 300\n");
    lab.write("run.toml", text.as_bytes());
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_nandlab"))
            .args(["run", "run.toml"])
            .current_dir(lab.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    let output = run().wait_with_output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{reported}");
    let whole = begun.elapsed();
    let saved = fs::read(lab.path("saved")).unwrap();
    for (moment, signal) in (0..10).flat_map(|moment| SIGNALS.map(|signal| (moment, signal))) {
        fs::remove_file(lab.path("saved")).ok();
        let child = run();
        // The chip is saved at the end of the run.
        thread::sleep(whole * (10 + moment) / 20);
        _ = kill_process(Pid::from_child(&child), signal);
        child.wait_with_output().unwrap();
        let found = names(&lab);
        assert!(
            found == ["run.toml"] || found == ["run.toml", "saved"],
            "{signal:?}: {found:?}"
        );
        let is_whole = fs::read(lab.path("saved")).is_ok_and(|found| found == saved);
        assert_eq!(is_whole, found.len() == 2, "{signal:?}");
    }
}

#[test]
fn a_recording_takes_its_place_when_the_export_ends_and_not_before() {
    for (signal, is_recorded) in [
        (Signal::KILL, false),
        (Signal::INT, true),
        (Signal::TERM, true),
        (Signal::HUP, true),
    ] {
        let lab = Lab::new();
        lab.write("stack.toml", SMALL.as_bytes());
        lab.write("trace", b"old");
        let mut child = Command::new(env!("CARGO_BIN_EXE_nandlab"))
            .args([
                "export",
                "stack.toml",
                "--nbd",
                "unix:socket",
                "--record",
                "trace",
            ])
            .current_dir(lab.path("."))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        assert!(said.starts_with("nbd+unix:"), "{said}");
        assert_eq!(fs::read(lab.path("trace")).unwrap(), b"old");
        kill_process(Pid::from_child(&child), signal).unwrap();
        stdout.read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.success(), is_recorded, "{signal:?}: {said}");
        let trace = fs::read_to_string(lab.path("trace")).unwrap();
        let expected = if is_recorded {
            "fio version 3 iolog\n"
        } else {
            "old"
        };
        assert!(trace.starts_with(expected), "{signal:?}: {trace}");
        let mut left = names(&lab);
        // Nobody removes the socket of a process that was killed.
        left.retain(|name| is_recorded || name != "socket");
        assert_eq!(left, ["stack.toml", "trace"], "{signal:?}");
    }
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
