//! The verdicts of e2fsck and of our check, and the judgement of our repair.

use crate::common;
use nandlab_block::{BlockDevice, Patch, Ram};
use nandlab_ext::{Ext, ExtError, Options, Severity};
use nandlab_testkit::files::NOW;
use nandlab_testkit::{disk, tools};
use nandlab_vfs::FileSystem;
use nandlab_vfs::report::Finding as _;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The most that e2fsck prints of an image, in bytes. On two images it never ends.
const PRINTED_MAX: u64 = 4 << 20;

/// Rounds of a repair: one may show the next.
const PASSES: usize = 12;

/// The findings in the words of a row that differs from the list.
const FINDINGS_SHOWN: usize = 4;

/// The verdict of e2fsck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theirs {
    Sound,
    /// It asks for a change, or takes a copy of the superblock, and calls the volume sound.
    Noted,
    Damaged,
    /// It did not get as far as to check.
    GaveUp,
    /// It prints for ever.
    Endless,
}

/// The verdict of our check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ours {
    Sound,
    /// Nothing but notes.
    Noted,
    /// Space is lost or a count is wrong.
    Waste,
    Damaged,
    /// Sound as far as it was looked at: features whose structures no check looks at.
    Unseen(String),
    /// A feature that we do not know.
    Refused(String),
}

/// Our verdict and the first finding, in words.
pub struct Judged {
    pub verdict: Ours,
    pub words: String,
}

/// The outcome of our repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// There is nothing to repair.
    Nothing,
    /// The volume does not mount.
    Not,
    /// e2fsck is content with the repaired copy.
    Clean,
    /// e2fsck is not.
    Left,
}

/// The verdict of e2fsck, which first recovers a journal that needs it.
pub fn theirs(disk: &mut Ram) -> Theirs {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    disk::save(disk, &path);
    if common::needs_recovery(disk) {
        let options = ["-y", "-E", "journal_only"];
        let recovered = Verdict::of(&path, &options);
        if recovered.printed.contains("? yes") {
            return Theirs::Damaged;
        }
    }
    Verdict::of(&path, &["-fn"]).theirs()
}

/// The output of e2fsck with its exit code, or no code where it printed for ever.
struct Verdict {
    printed: String,
    code: Option<i32>,
}

impl Verdict {
    fn of(image: &Path, options: &[&str]) -> Self {
        let mut command = tools::command("e2fsprogs", "e2fsck");
        command.args(options).arg(image);
        Self::taken(&mut command)
    }

    fn taken(command: &mut Command) -> Self {
        let pipe = std::io::pipe().unwrap();
        let both = command.stdout(pipe.1.try_clone().unwrap()).stderr(pipe.1);
        let mut child = both.stdin(Stdio::null()).spawn().unwrap();
        // The command holds the writing end, too: without this the reading end never ends.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut bytes = Vec::new();
        pipe.0.take(PRINTED_MAX).read_to_end(&mut bytes).unwrap();
        let printed = String::from_utf8_lossy(&bytes).into_owned();
        let is_whole = (bytes.len() as u64) < PRINTED_MAX;
        let code = match is_whole {
            true => Some(ended(&mut child)),
            false => {
                child.kill().unwrap();
                child.wait().unwrap();
                None
            }
        };
        Self { printed, code }
    }

    fn theirs(&self) -> Theirs {
        match self.code {
            None => Theirs::Endless,
            Some(0) if self.printed.lines().all(is_idle) => Theirs::Sound,
            Some(0) => Theirs::Noted,
            Some(code) if code & 4 != 0 => Theirs::Damaged,
            Some(_) => Theirs::GaveUp,
        }
    }
}

/// True for a line that e2fsck prints of a volume in which it finds nothing.
fn is_idle(line: &str) -> bool {
    let begins = ["e2fsck ", "Pass ", "Warning: skipping journal recovery"];
    let summary = line.contains("% non-contiguous), ");
    line.is_empty() || summary || begins.iter().any(|words| line.starts_with(words))
}

fn ended(child: &mut Child) -> i32 {
    let status = child.wait().unwrap();
    status.code().unwrap_or(-1)
}

fn read_only() -> Options {
    Options {
        read_only: true,
        ..Options::default()
    }
}

/// The verdict of our check, as `nandlab image check` comes to it: a journal that needs recovery is
/// recovered in a copy.
pub fn ours(disk: &Ram) -> Judged {
    let mut copy = disk.clone();
    if let Err(error) = Ext::mount(&mut copy, read_only()) {
        return refused(&error);
    }
    if common::needs_recovery(&mut copy)
        && let Err(words) = recovered(&mut copy)
    {
        let words = format!("no recovery: {words}");
        return judged(Ours::Damaged, words);
    }
    match Ext::mount(&mut copy, read_only()) {
        Err(error) => refused(&error),
        Ok(mut ext) => found(&mut ext),
    }
}

fn judged(verdict: Ours, words: String) -> Judged {
    Judged { verdict, words }
}

fn refused(error: &ExtError) -> Judged {
    let words = error.to_string();
    let verdict = match error {
        ExtError::Feature { name, .. } => Ours::Refused((*name).into()),
        ExtError::Unsupported { offset, .. } => Ours::Refused(format!("byte-{offset}")),
        _ => Ours::Damaged,
    };
    judged(verdict, words)
}

fn recovered(disk: &mut Ram) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let mut ext = Ext::mount(disk, Options::default()).map_err(|error| words(&error))?;
    ext.unmount().map_err(|error| words(&error))
}

fn found<D: BlockDevice>(ext: &mut Ext<D>) -> Judged {
    let report = match ext.check() {
        Ok(report) => report,
        Err(error) => return judged(Ours::Damaged, format!("check: {error}")),
    };
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    let words: Vec<String> = findings
        .iter()
        .take(FINDINGS_SHOWN)
        .map(ToString::to_string)
        .collect();
    let unseen = ext.layout().unchecked_features();
    let verdict = match report.worst() {
        Some(Severity::Damage) => Ours::Damaged,
        Some(Severity::Waste) => Ours::Waste,
        _ if !unseen.is_empty() => Ours::Unseen(unseen.join(",")),
        Some(Severity::Note) => Ours::Noted,
        None => Ours::Sound,
    };
    judged(verdict, words.join("; "))
}

/// Repairs a copy, as `nandlab image check --repair` does it, and lets e2fsck judge the copy.
pub fn repaired(disk: &Ram) -> (Repaired, String) {
    let mut copy = disk.clone();
    if Ext::mount(&mut copy, read_only()).is_err() {
        return (Repaired::Not, String::new());
    }
    repair(&mut copy);
    let left = ours(&copy);
    match theirs(&mut copy) {
        Theirs::Sound | Theirs::Noted => (Repaired::Clean, String::new()),
        _ => {
            let words = format!("afterwards {:?}: {}", left.verdict, left.words);
            (Repaired::Left, words)
        }
    }
}

fn repair(disk: &mut Ram) {
    _ = recovered(disk);
    for _ in 0..PASSES {
        let patches = patches(disk);
        if patches.is_empty() && !reconnected(disk) {
            break;
        }
        for Patch { at, bytes } in patches {
            disk::poke(disk, at, &bytes);
        }
    }
    _ = recovered(disk);
}

fn patches(disk: &mut Ram) -> Vec<Patch> {
    let mounted = Ext::mount(disk, read_only());
    mounted.and_then(|mut ext| ext.repair()).unwrap_or_default()
}

/// Gives names to files that lost theirs; false if there was none.
fn reconnected(disk: &mut Ram) -> bool {
    Ext::mount(disk, Options::default()).is_ok_and(|mut ext| {
        let named = ext.reconnect(NOW);
        ext.unmount().is_ok() && named.is_ok_and(|count| count > 0)
    })
}
