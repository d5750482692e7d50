//! The list of expectations: a line for each image.
//!
//! `NAME E2FSCK OURS REPAIR`, and a reason behind `|` where the verdicts differ or the repaired
//! copy is not clean. A remark `# REASON: ...` explains each reason. `NAME without` is a test whose
//! image a script makes.

use super::judges::{Ours, Repaired, Theirs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Both verdicts on an image, and the outcome of the repair.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub theirs: Theirs,
    pub ours: Ours,
    pub repaired: Repaired,
    /// The first findings, in words.
    pub found: String,
}

/// The list, read.
pub struct Expected {
    /// Words of each line by the image's name, and the reason.
    pub rows: BTreeMap<String, (String, String)>,
    pub without: Vec<String>,
}

impl fmt::Display for Theirs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "sound",
            Self::Noted => "noted",
            Self::Damaged => "damaged",
            Self::GaveUp => "gave-up",
            Self::Endless => "endless",
        })
    }
}

impl fmt::Display for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => write!(f, "sound"),
            Self::Noted => write!(f, "noted"),
            Self::Waste => write!(f, "waste"),
            Self::Damaged => write!(f, "damaged"),
            Self::Unseen(features) => write!(f, "unseen:{features}"),
            Self::Refused(feature) => write!(f, "refused:{feature}"),
        }
    }
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "-",
            Self::Not => "no-mount",
            Self::Clean => "clean",
            Self::Left => "left",
        })
    }
}

impl Row {
    /// The words of its line, without a reason.
    fn words(&self) -> String {
        format!("{} {} {}", self.theirs, self.ours, self.repaired)
    }

    /// Both say that the volume is sound, or neither does. Notes agree with any finding.
    fn agrees(&self) -> bool {
        match (self.theirs, &self.ours) {
            (_, Ours::Unseen(_) | Ours::Refused(_)) => false,
            (Theirs::Sound, ours) => matches!(ours, Ours::Sound | Ours::Noted),
            (Theirs::Noted, ours) => *ours != Ours::Sound,
            (_, ours) => matches!(ours, Ours::Waste | Ours::Damaged),
        }
    }

    fn needs_reason(&self) -> bool {
        !self.agrees() || self.repaired == Repaired::Left
    }
}

/// Reads the list. A line that begins with `#` is a remark.
pub fn parse(text: &str) -> Expected {
    let mut expected = Expected {
        rows: BTreeMap::new(),
        without: Vec::new(),
    };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts = line.split_once('|').unwrap_or((line, ""));
        let words: Vec<&str> = parts.0.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [name, "without"] => expected.without.push((*name).into()),
            [name, rest @ ..] => {
                let reason = parts.1.trim();
                let is_explained = text.contains(&format!("# {reason}: "));
                assert!(reason.is_empty() || is_explained, "{reason}: why?");
                let row = (rest.join(" "), reason.to_owned());
                let before = expected.rows.insert((*name).into(), row);
                assert!(before.is_none(), "{name} is listed twice");
            }
        }
    }
    expected
}

/// Lists the images whose verdicts differ from the list, a line each.
pub fn differences(expected: &BTreeMap<String, (String, String)>, seen: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in seen {
        let name = &row.name;
        let words = row.words();
        let found = &row.found;
        match expected.get(name) {
            None => wrong.push(format!("{name} {words} | not listed; found: {found}")),
            Some((listed, _)) if *listed != words => {
                wrong.push(format!("{name} {words} | listed: {listed}; found: {found}"));
            }
            Some((_, reason)) if reason.is_empty() == row.needs_reason() => {
                wrong.push(format!("{name} {words} | a reason is missing or idle"));
            }
            Some(_) => {}
        }
    }
    let names: BTreeSet<&String> = seen.iter().map(|row| &row.name).collect();
    let gone = expected.keys().filter(|name| !names.contains(name));
    wrong.extend(gone.map(|name| format!("{name} is listed and not there")));
    wrong
}

/// Names that only one of two lists has.
pub fn differences_of_names(expected: &[String], seen: &[String]) -> Vec<String> {
    let listed: BTreeSet<&String> = expected.iter().collect();
    let found: BTreeSet<&String> = seen.iter().collect();
    let differ = listed.symmetric_difference(&found);
    differ
        .map(|name| format!("{name} without | listed or seen, not both"))
        .collect()
}

/// The figures of a run.
pub fn summary(rows: &[Row]) -> String {
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let agree = count(&|row| row.agrees());
    let damaged = count(&|row| row.repaired != Repaired::Nothing);
    let clean = count(&|row| row.repaired == Repaired::Clean);
    format!(
        "{} images; agree {agree}; not sound to one of both {damaged}; clean after repair {clean}",
        rows.len()
    )
}
