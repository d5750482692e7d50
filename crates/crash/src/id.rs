//! The name of a state: compact text that makes exactly that state again.
//!
//! `seed:cut[/cut][@operations]`, where a cut is `operation:phase:word`: the chip operation's place
//! in the log, `before`, `torn` or `after`, and the number of one of several states. The second cut
//! falls into the recovery from the first. `operations` are the host operations kept of the
//! workload, as ranges (`0-4,9`; all if left out). `seed:uncut` is the run itself.

use crate::cut::{Cut, Phase};
use nandlab_sim::mix;
use std::{fmt, str::FromStr};

/// The name of one state of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The seed of the exploration that found it.
    pub seed: u64,
    /// None, one or two cuts.
    pub cuts: Vec<Cut>,
    /// The host operations kept, ascending; all if none.
    pub kept: Option<Vec<usize>>,
}

impl Id {
    /// The state that one more cut leads to.
    pub(crate) fn then(&self, cut: Cut) -> Self {
        let mut id = self.clone();
        id.cuts.push(cut);
        id
    }

    /// The seed of the cuts that follow.
    pub(crate) fn next_seed(&self) -> u64 {
        self.cuts
            .iter()
            .fold(self.seed, |seed, cut| cut.fates(seed))
    }
}

/// Text that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state name `{text}`: found `{found}`, expected {expected}")]
pub struct IdError {
    /// The text that is not an id.
    pub text: String,
    /// The part that is wrong.
    pub found: String,
    /// The form that an id has.
    pub expected: &'static str,
}

/// The most host operations that an id can keep: a bound on what a short text may ask for.
const MAX_KEPT: usize = 1 << 24;

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seed)?;
        if self.cuts.is_empty() {
            f.write_str("uncut")?;
        }
        for (i, cut) in self.cuts.iter().enumerate() {
            let phase = match cut.phase {
                Phase::Before => "before",
                Phase::Torn => "torn",
                Phase::After => "after",
            };
            write!(
                f,
                "{}{}:{phase}:{}",
                if i == 0 { "" } else { "/" },
                cut.op,
                cut.word
            )?;
        }
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        write_kept(kept, f)
    }
}

fn write_kept(kept: &[usize], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("@")?;
    for (i, run) in kept.chunk_by(|a, b| a + 1 == *b).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let first = run[0];
        if run.len() == 1 {
            write!(f, "{comma}{first}")?
        } else {
            write!(f, "{comma}{first}-{}", first + run.len() - 1)?
        }
    }
    Ok(())
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = |(found, expected): (&str, &'static str)| IdError {
            text: text.into(),
            found: found.into(),
            expected,
        };
        let (states, kept) = match text.split_once('@') {
            Some((states, kept)) => (states, Some(parse_kept(kept).map_err(wrong)?)),
            None => (text, None),
        };
        let (seed, cuts) = states
            .split_once(':')
            .ok_or_else(|| wrong((states, "`seed:` and a cut")))?;
        let seed = number(seed).map_err(wrong)?;
        let cuts = parse_cuts(cuts).map_err(wrong)?;
        if cuts.len() > 2 {
            return Err(wrong((states, "at most two cuts")));
        }
        Ok(Self { seed, cuts, kept })
    }
}

/// Reads the cuts of an id.
fn parse_cuts(text: &str) -> Result<Vec<Cut>, (&str, &'static str)> {
    match text {
        "uncut" => Ok(Vec::new()),
        _ => text.split('/').map(parse_cut).collect(),
    }
}

type Wrong<'a> = (&'a str, &'static str);

fn number<T: FromStr>(text: &str) -> Result<T, Wrong<'_>> {
    text.parse().map_err(|_| (text, "a number"))
}

fn parse_cut(text: &str) -> Result<Cut, Wrong<'_>> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let [op, phase, word] = parts[..] else {
        return Err((text, "`operation:phase:word` or `uncut`"));
    };
    let phase = match phase {
        "before" => Phase::Before,
        "torn" => Phase::Torn,
        "after" => Phase::After,
        _ => return Err((phase, "`before`, `torn` or `after`")),
    };
    Ok(Cut {
        op: number(op)?,
        phase,
        word: number(word)?,
    })
}

fn parse_kept(text: &str) -> Result<Vec<usize>, Wrong<'_>> {
    let mut kept = Vec::new();
    if text.is_empty() {
        return Ok(kept);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = number(first)?;
        let last: usize = number(last)?;
        if last < first || kept.last().is_some_and(|&k| k >= first) {
            return Err((part, "ascending ranges"));
        }
        if last - first >= MAX_KEPT - kept.len() {
            return Err((part, "at most 2^24 operations"));
        }
        kept.extend(first..=last);
    }
    Ok(kept)
}

/// The word that chooses what the host does after the last cut.
pub(crate) fn going_on(id: &Id) -> u64 {
    mix(id.next_seed(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_itself() {
        for text in [
            "7:uncut",
            "7:123:torn:2",
            "0:0:before:0/5:after:0",
            "9:4:torn:1@0-4,9,11-12",
            "1:uncut@",
            "1:2:after:0@3",
        ] {
            assert_eq!(text.parse::<Id>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn text_that_names_no_state_is_refused_with_the_wrong_part() {
        let cases = [
            ("", ""),
            ("x:uncut", "x"),
            ("7", "7"),
            ("7:1:torn", "1:torn"),
            ("7:1:half:0", "half"),
            ("7:1:torn:-1", "-1"),
            (
                "7:1:torn:0/1:torn:0/1:torn:0",
                "7:1:torn:0/1:torn:0/1:torn:0",
            ),
            ("7:uncut@4-2", "4-2"),
            ("7:uncut@3,3", "3"),
            ("7:uncut@0-99999999999", "0-99999999999"),
            ("7:uncut@a", "a"),
        ];
        for (text, found) in cases {
            assert_eq!(text.parse::<Id>().unwrap_err().found, found, "{text}");
        }
    }
}
