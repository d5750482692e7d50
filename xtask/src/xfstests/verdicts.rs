//! The outcome of an xfstests test, and the list of expected outcomes.
//!
//! A line of the list is `TEST STACKS VERDICT` or `TEST STACKS VERDICT: REASON`, STACKS being names
//! with commas between them, or `*` for all.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It says what it should.
    Passed,
    /// xfstests has found that what it needs is not there.
    NotRun,
    /// It says something else; in the list: it cannot pass, for a reason.
    Failed,
    /// It did not end in time.
    Hung,
    /// In the list only: nobody asks it.
    LeftOut,
}

const WORDS: [(Verdict, &str); 5] = [
    (Verdict::Passed, "passed"),
    (Verdict::NotRun, "not-run"),
    (Verdict::Failed, "cannot"),
    (Verdict::Hung, "hung"),
    (Verdict::LeftOut, "left-out"),
];

/// A verdict, with xfstests' reason where it gives one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub verdict: Verdict,
    pub reason: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            WORDS
                .iter()
                .find(|(verdict, _)| verdict == self)
                .map_or("", |(_, word)| word),
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => write!(f, "{}", self.verdict),
            reason => write!(f, "{}: {reason}", self.verdict),
        }
    }
}

/// The test that a line of xfstests begins with.
pub fn test_of(line: &str) -> Option<&str> {
    line.split_whitespace()
        .next()
        .filter(|word| word.starts_with("generic/"))
}

/// What a whole line of xfstests says of a test: its name and the seconds it took last time, then
/// the outcome or the seconds of now.
pub fn of_line(line: &str) -> Option<(&str, Found)> {
    let test = test_of(line)?;
    let rest = line.trim_start().strip_prefix(test)?.trim();
    let found = |verdict, reason: &str| {
        Some((
            test,
            Found {
                verdict,
                reason: reason.trim().to_string(),
            },
        ))
    };
    if let Some((_, reason)) = rest.split_once("[not run]") {
        return found(Verdict::NotRun, reason);
    }
    let seconds = |word: &str| {
        word.strip_suffix('s')
            .is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    match rest.split_whitespace().last() {
        Some(word) if seconds(word) && !rest.contains("- ") && !rest.contains("[failed") => {
            found(Verdict::Passed, "")
        }
        _ => found(Verdict::Failed, rest),
    }
}

/// How many there are of each.
pub fn counts(found: &[(String, Found)]) -> String {
    let of = |verdict| {
        found
            .iter()
            .filter(|(_, found)| found.verdict == verdict)
            .count()
    };
    let reported = WORDS
        .iter()
        .map(|(verdict, word)| (of(*verdict), word))
        .filter(|(count, _)| *count > 0);
    reported
        .map(|(count, word)| format!("{count} {word}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Clone, Debug, Default)]
pub struct List {
    /// Its first lines, which say what it is.
    heading: String,
    /// By test and stack.
    found: BTreeMap<(String, String), Found>,
}

impl List {
    pub fn parse(text: &str, stacks: &[&str]) -> Result<Self, String> {
        let mut list = Self::default();
        text.lines()
            .take_while(|line| line.starts_with('#'))
            .for_each(|line| list.heading += &format!("{line}\n"));
        for (at, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            list.take(line, stacks).ok_or_else(|| {
                format!(
                    "verdicts.txt:{}: found {line:?}, expected TEST STACKS VERDICT[: REASON]",
                    at + 1
                )
            })?;
        }
        Ok(list)
    }

    /// None if that is no line of a list, or says a thing twice.
    fn take(&mut self, line: &str, stacks: &[&str]) -> Option<()> {
        let (said, reason) = line.split_once(": ").unwrap_or((line, ""));
        let mut words = said.split(' ');
        let test = words.next()?;
        let of = words.next()?;
        let word = words.next()?;
        let verdict = WORDS.iter().find(|(_, known)| *known == word)?.0;
        let of: Vec<&str> = if of == "*" {
            stacks.to_vec()
        } else {
            of.split(',').collect()
        };
        for stack in of {
            let known = stacks.contains(&stack) && words.next().is_none();
            let found = Found {
                verdict,
                reason: reason.to_string(),
            };
            if !known
                || self
                    .found
                    .insert((test.to_string(), stack.to_string()), found)
                    .is_some()
            {
                return None;
            }
        }
        Some(())
    }

    pub fn names(&self, test: &str) -> bool {
        self.found.keys().any(|(of, _)| of == test)
    }

    pub fn left_out(&self, stack: &str, test: &str) -> bool {
        self.of(stack, test)
            .is_some_and(|listed| listed.verdict == Verdict::LeftOut)
    }

    fn of(&self, stack: &str, test: &str) -> Option<&Found> {
        self.found.get(&(test.to_string(), stack.to_string()))
    }

    /// What was found otherwise than listed.
    pub fn differences(&self, stack: &str, found: &[(String, Found)]) -> Vec<String> {
        let mut reported = Vec::new();
        for (test, found) in found {
            match self.of(stack, test) {
                Some(listed) if listed.verdict == found.verdict => {}
                Some(listed) => {
                    reported.push(format!("{stack} {test}: found {found}; listed {listed}"))
                }
                None => reported.push(format!("{stack} {test}: found {found}; not listed")),
            }
        }
        reported
    }

    /// Takes over what was found, keeping the reasons of what was listed with the same verdict
    /// unless xfstests gives one.
    pub fn update(&mut self, stack: &str, found: &[(String, Found)]) {
        for (test, found) in found {
            let key = (test.clone(), stack.to_string());
            let kept = self.found.get(&key).is_some_and(|listed| {
                listed.verdict == found.verdict && found.verdict != Verdict::NotRun
            });
            if !kept {
                self.found.insert(key, found.clone());
            }
        }
    }

    /// The list as a file, stacks of one verdict and reason in one line.
    pub fn text(&self, stacks: &[&str]) -> String {
        let mut lines: BTreeMap<(&str, &Found), Vec<&str>> = BTreeMap::new();
        for ((test, stack), found) in &self.found {
            lines.entry((test, found)).or_default().push(stack);
        }
        let mut text = self.heading.clone();
        for ((test, found), of) in lines {
            let of = if of.len() == stacks.len() {
                "*".to_string()
            } else {
                of.join(",")
            };
            // Writing to a string cannot fail.
            _ = writeln!(text, "{test} {of} {found}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: [&str; 2] = ["ext3", "jffs2"];

    #[test]
    fn lines_of_xfstests_are_understood() {
        let verdict = |line| of_line(line).map(|(test, found)| (test, found.verdict));
        assert_eq!(
            verdict("generic/001        4s\n"),
            Some(("generic/001", Verdict::Passed))
        );
        assert_eq!(
            verdict("generic/001 5s ...  4s\n"),
            Some(("generic/001", Verdict::Passed))
        );
        let (test, found) = of_line("generic/003       [not run] atime is off\n").unwrap();
        assert_eq!(
            (test, found.to_string().as_str()),
            ("generic/003", "not-run: atime is off")
        );
        assert_eq!(
            verdict("generic/013 3s ... - output mismatch (see /x/013.out.bad)\n"),
            Some(("generic/013", Verdict::Failed))
        );
        assert_eq!(
            verdict("generic/013 3s ... [failed, exit status 1]- output mismatch 2s\n"),
            Some(("generic/013", Verdict::Failed))
        );
        assert_eq!(verdict("Ran: generic/001\n"), None);
        assert_eq!(verdict("    --- tests/generic/013.out\n"), None);
    }

    #[test]
    fn a_list_comes_back_and_tells_what_differs() {
        let text = "# a list\ngeneric/001 * passed\ngeneric/002 ext3 passed\ngeneric/002 jffs2 cannot: no room\n";
        let mut list = List::parse(text, &STACKS).unwrap();
        assert_eq!(list.text(&STACKS), text);
        let found = |verdict| {
            vec![(
                "generic/002".to_string(),
                Found {
                    verdict,
                    reason: String::new(),
                },
            )]
        };
        assert!(
            list.differences("jffs2", &found(Verdict::Failed))
                .is_empty()
        );
        assert_eq!(
            list.differences("jffs2", &found(Verdict::Passed)),
            ["jffs2 generic/002: found passed; listed cannot: no room"]
        );
        list.update("jffs2", &found(Verdict::Passed));
        assert_eq!(
            list.text(&STACKS),
            "# a list\ngeneric/001 * passed\ngeneric/002 * passed\n"
        );
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        for line in [
            "generic/001",
            "generic/001 * wonderful",
            "generic/001 fat passed",
            "generic/001 * passed so far",
        ] {
            let why = List::parse(&format!("# a list\n{line}\n"), &STACKS).unwrap_err();
            assert!(
                why.starts_with("verdicts.txt:2: ") && why.contains(line),
                "{why}"
            );
        }
    }
}
