//! Workloads that gave no cost to any platform: each on the kernel and on ours.
//!
//! A workload is a file on a file system, a kind of calls, and what the file holds. The kernel's
//! script and our calls come from the same description.

use super::costs::Measured;
use nandlab_lab::Experiment;
use nandlab_lab::run::{Latency, run_calls};
use nandlab_stack::Document;
use nandlab_workload::files::{Contents, FileCall, FileCalls, FileId, Look};
use std::collections::VecDeque;
use std::path::Path;

/// Draws the contents of files, here and for the guest.
const SEED: u64 = 5;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages of another file that push all others out of our page cache.
const PUSHING: u64 = 320;
const FILE: FileId = FileId(0);
const OTHER: FileId = FileId(1);

/// Our stack: an instruction takes 1 ns, the flash and its driver nothing.
const OURS: &str = "
[chip]
preset = \"slc-2k\"
blocks = 160
read = \"0 ns\"
program = \"0 ns\"
erase = \"0 ns\"
oob-read = \"0 ns\"
oob-program = \"0 ns\"
bus-ns-per-byte = 0
[host]
platform = \"omap2420\"
instruction-ns = 1
flash = 0
ecc = 0
pio-ns-per-byte = 0
tick = 0
[workload]
type = \"tiobench\"
size = \"64 KiB\"
";

/// The file system of a workload.
#[derive(Clone, Copy)]
pub enum On {
    /// JFFS2 on NAND with this `fs.compression`.
    Jffs2(&'static str),
    /// ext3 on mtdblock with blocks of so many bytes, and a journal of so many MiB.
    Ext3(u64, u64),
}

/// The calls of a workload.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Writes at the end of a file.
    Append,
    /// Writes over others.
    Overwrite,
    /// Reads outside the page cache, after writes of so many bytes.
    Read(u64),
    /// A write at the end of a file and an fsync; measured is the call of this number.
    Synced(usize),
    /// The same over others.
    OverwriteSynced(usize),
}

/// A workload: `count` calls of `bytes` each.
pub struct Workload {
    pub key: &'static str,
    pub on: On,
    pub kind: Kind,
    pub count: u64,
    pub bytes: u64,
    pub look: Look,
}

impl Workload {
    /// Lines of the guest's script.
    pub fn script(&self) -> String {
        let Self {
            key, count, bytes, ..
        } = self;
        let source = match self.look {
            Look::Random => "/noise",
            Look::Text => "/words",
            Look::Zero => "/dev/zero",
        };
        let fresh = match self.on {
            On::Jffs2("linux") => "empty 1 rw".to_owned(),
            On::Jffs2(compression) => format!("empty 1 compr={compression}"),
            On::Ext3(block, journal) => format!("ext3 {block} {journal}"),
        };
        let written = |bytes: u64, count: u64| {
            format!("/timed pour {count} /mnt/file {bytes} <{source} >/dev/null || exit 1")
        };
        let measured = match self.kind {
            Kind::Append => format!("user {key} pour {count} /mnt/file {bytes} <{source}"),
            Kind::Overwrite => format!(
                "{}\nuser {key} pour {count} /mnt/file {bytes} <{source}",
                written(*bytes, *count)
            ),
            Kind::Read(by) => format!(
                "{}\necho 1 >/proc/sys/vm/drop_caches\nuser {key} reread {count} /mnt/file {bytes}",
                written(by, count * bytes / by)
            ),
            // One run of the guest measures both calls.
            Kind::Synced(1) | Kind::OverwriteSynced(1) => return String::new(),
            Kind::Synced(_) => format!("user {key} append {count} /mnt/file {bytes}"),
            Kind::OverwriteSynced(_) => format!(
                "{}\nsync\nuser {key} overwrite {count} /mnt/file {bytes}",
                written(*bytes, *count)
            ),
        };
        format!("{fresh}\n{measured}\n")
    }

    /// Instructions of a call on the kernel, outside the flash.
    pub fn kernel(&self, measured: &Measured) -> f64 {
        let call = match self.kind {
            Kind::Synced(call) | Kind::OverwriteSynced(call) => call,
            _ => 0,
        };
        let period = self.period();
        let at = |place| measured.outside_flash_in(self.key, call, |n| n % period == place);
        (0..period).map(at).sum::<f64>() / period as f64
    }

    /// Instructions of a call here.
    pub fn ours(&self) -> f64 {
        let settings = self.settings();
        let document = Document::parse("ours.toml", Path::new(""), OURS, &settings);
        let experiment = document.and_then(Experiment::take);
        let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error}", self.key));
        let (calls, before) = self.calls();
        let mut play = Play {
            calls: calls.into(),
            contents: Contents::looking(self.look, SEED),
        };
        let played = run_calls(&experiment, &mut play, true, &mut |_| ());
        let played = played.unwrap_or_else(|error| panic!("{}: {error}", self.key));
        let (each, call) = match self.kind {
            Kind::Synced(call) | Kind::OverwriteSynced(call) => (2, call),
            _ => (1, 0),
        };
        let latencies: Vec<u64> = played.latencies[before..]
            .iter()
            .skip(call)
            .step_by(each)
            .map(|Latency { ns, .. }| *ns)
            .collect();
        by_place(&latencies, self.period())
    }

    fn settings(&self) -> Vec<String> {
        match self.on {
            On::Jffs2(compression) => vec![
                "fs.type=jffs2".into(),
                format!("fs.compression={compression}"),
            ],
            On::Ext3(block, journal) => vec![
                "fs.type=ext3".into(),
                "fs.inode-size=128".into(),
                format!("fs.block={block}"),
                format!("fs.journal-size={journal} MiB"),
                "ftl.scheme=mtdblock".into(),
            ],
        }
    }

    /// Our calls, and how many of those that have a latency come before the measured ones.
    fn calls(&self) -> (Vec<FileCall>, usize) {
        let Self { count, bytes, .. } = *self;
        let mut calls = vec![FileCall::Create { file: FILE }];
        match self.kind {
            Kind::Append | Kind::Synced(_) => {}
            Kind::Overwrite => calls.extend(writes(FILE, count, bytes)),
            Kind::OverwriteSynced(_) => {
                calls.extend(writes(FILE, count, bytes));
                calls.push(FileCall::Fsync { file: FILE });
            }
            Kind::Read(by) => {
                calls.extend(writes(FILE, count * bytes / by, by));
                calls.push(FileCall::Create { file: OTHER });
                calls.extend(writes(OTHER, PUSHING, PAGE));
            }
        }
        let silent = calls
            .iter()
            .filter(|call| matches!(call, FileCall::Create { .. }));
        let before = calls.len() - silent.count();
        for write in writes(FILE, count, bytes) {
            match (self.kind, write) {
                (Kind::Read(_), FileCall::Write { offset, .. }) => calls.push(FileCall::Read {
                    file: FILE,
                    offset,
                    length: bytes,
                }),
                (Kind::Synced(_) | Kind::OverwriteSynced(_), _) => {
                    calls.extend([write, FileCall::Fsync { file: FILE }]);
                }
                _ => calls.push(write),
            }
        }
        (calls, before)
    }

    /// Calls after which the place within a page is the same again.
    fn period(&self) -> usize {
        (PAGE >> self.bytes.trailing_zeros().min(12)) as usize
    }
}

/// Calls of `bytes` each, one behind the other.
fn writes(file: FileId, count: u64, bytes: u64) -> impl Iterator<Item = FileCall> {
    (0..count).map(move |n| FileCall::Write {
        file,
        offset: n * bytes,
        length: bytes,
        version: 0,
    })
}

/// The mean over the places in a page of the median of each place.
fn by_place(all: &[u64], period: usize) -> f64 {
    let median = |place: usize| {
        let mut numbers: Vec<u64> = all.iter().copied().skip(place).step_by(period).collect();
        numbers.sort_unstable();
        numbers[(numbers.len() - 1) / 2] as f64
    };
    (0..period).map(median).sum::<f64>() / period as f64
}

/// Contents of files of this look, as the guest gets them.
pub fn contents(look: Look, bytes: usize) -> Vec<u8> {
    let mut filled = vec![0; bytes];
    Contents::looking(look, SEED).fill(FILE, 0, 0, &mut filled);
    filled
}

/// Our processor, in which an instruction takes 1 ns.
pub fn host() -> nandlab_stack::HostDescription {
    let document = Document::parse("ours.toml", Path::new(""), OURS, &["fs.type=jffs2".into()]);
    let experiment = document.and_then(Experiment::take).unwrap();
    experiment.stack.host.unwrap()
}

struct Play {
    calls: VecDeque<FileCall>,
    contents: Contents,
}

impl Iterator for Play {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        self.calls.pop_front()
    }
}

impl FileCalls for Play {
    fn name(&self, file: FileId) -> String {
        format!("file-{}", file.0)
    }

    fn contents(&self) -> Contents {
        self.contents
    }

    fn share_done(&self) -> f64 {
        0.0
    }
}
