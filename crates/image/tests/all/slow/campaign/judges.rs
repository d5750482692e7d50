//! Runs the tools that check a format, and sorts their words.

use super::known::{FOLLOWING, KNOWN, Why};
use nandlab_testkit::tools;
use std::path::Path;

/// A format on disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ext,
    Fat,
    F2fs,
}

/// The verdict of a tool with its words.
#[derive(Debug)]
pub struct Said {
    /// The tool found nothing.
    pub silent: bool,
    /// A signal ended the tool, or it tried to write to an image that it may only read: it judges
    /// nothing.
    pub crashed: bool,
    /// Complaints that [`KNOWN`] does not explain.
    pub unknown: Vec<String>,
    #[expect(dead_code, reason = "shown with a single case")]
    pub printed: String,
}

/// Runs the format's tool on an image; `ours` are the findings of our check.
pub fn complaints(format: Format, image: &Path, ours: &[String]) -> Said {
    let (status, printed) = match format {
        Format::Ext => e2fsck(image),
        Format::Fat => checked("dosfstools", "fsck.fat", &["-n"], image),
        Format::F2fs => checked("f2fs-tools", "fsck.f2fs", &["--dry-run", "-f"], image),
    };
    let lines = printed.lines().map(str::trim);
    let complaints: Vec<&str> = lines.filter(|line| is_complaint(format, line)).collect();
    let unknown = complaints
        .iter()
        .filter(|line| !is_known(format, line, ours));
    let mut unknown: Vec<String> = unknown.map(ToString::to_string).collect();
    let succeeded = status == Some(0);
    let silent = succeeded && complaints.is_empty();
    // The tool fails for a reason that it does not print.
    if complaints.is_empty() && !succeeded {
        let last = printed.lines().last().unwrap_or_default().trim();
        if !is_known(format, last, ours) {
            unknown.push(last.to_owned());
        }
    }
    Said {
        silent,
        crashed: status.is_none() || printed.contains("(Bad file descriptor)"),
        unknown,
        printed,
    }
}

/// We report it, too, or do not claim to.
fn is_known(format: Format, line: &str, ours: &[String]) -> bool {
    KNOWN
        .iter()
        .filter(|one| one.format == format && line.contains(one.words))
        .any(|one| match one.why {
            Why::Reported(finding) => ours.iter().any(|our| our.contains(finding)),
            Why::NotClaimed(_) => true,
        })
}

/// e2fsck first recovers a log that needs it, as our check does. Its recovery repairs nothing but
/// the log.
fn e2fsck(image: &Path) -> (Option<i32>, String) {
    let bytes = std::fs::read(image).unwrap();
    let recover = bytes[1024 + 96] & 4 != 0;
    let mut before = String::new();
    if recover {
        let options = ["-y", "-E", "journal_only"];
        before = checked("e2fsprogs", "e2fsck", &options, image).1;
    }
    let (status, after) = checked("e2fsprogs", "e2fsck", &["-fn"], image);
    let repaired = before.contains("? yes");
    let status = status.map(|status| if repaired { status.max(1) } else { status });
    (status, before + &after)
}

fn checked(
    package: &str,
    program: &str,
    arguments: &[&str],
    image: &Path,
) -> (Option<i32>, String) {
    let arguments = [arguments, &[tools::text(image)]].concat();
    let output = tools::run(package, program, &arguments);
    (output.status.code(), tools::printed(&output))
}

/// Bytes that differ, as fsck.fat lists them: `71:5b/53`.
fn is_list_of_bytes(line: &str) -> bool {
    let byte = |word: &str| word.contains(':') && word.contains('/');
    let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let line = line.trim_start_matches([',', ' ']);
    line.split(", ").all(|word| number(word) && byte(word))
}

/// Tells complaints from what every run prints.
fn is_complaint(format: Format, line: &str) -> bool {
    let follows = |words: &&(Format, &str)| words.0 == format && line.starts_with(words.1);
    match format {
        Format::Fat if is_list_of_bytes(line) => false,
        // The summary begins with the volume's label.
        Format::Ext if line.contains("% non-contiguous), ") => false,
        Format::Ext | Format::Fat => !line.is_empty() && !FOLLOWING.iter().any(|one| follows(&one)),
        Format::F2fs => ["[ASSERT]", "[Fail]", "[FIX]", "NID["]
            .iter()
            .any(|mark| line.contains(mark) && !line.contains("other corrupted bugs")),
    }
}
