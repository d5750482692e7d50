//! Rules for one source file, and ratchets over all of them.

use super::Findings;
use super::blank::{LITERAL, blank};
use super::rooms::Room;

/// What makes a run depend on more than its inputs.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "HashMap",
    "HashSet",
    "thread_rng",
    "std::fs",
    "std::thread",
];

/// A microcontroller of 32 bits has no such instructions.
const WIDE_ATOMICS: &[&str] = &["AtomicU64", "AtomicI64"];
/// In front of an item that only processors with 64-bit atomics compile.
const WIDE_ATOMICS_GUARD: &str = "#[cfg(target_has_atomic = \"64\")]";

/// The files with `unsafe`: a prefetch instruction, and the pointers of C. Each states its reasons.
const UNSAFE: &[&str] = &[
    "crates/sim/src/prefetch.rs",
    "crates/capi/src/chip.rs",
    "crates/capi/src/log.rs",
    "crates/capi/src/raw.rs",
];

/// Columns of a line.
const COLUMNS_MAX: usize = 100;
/// Lines of a file, at that width.
const LINES_MAX: usize = 700;
/// Lines without a literal that are wider, in all files. A ratchet: lower it when they become
/// fewer.
const WIDE_LINES_MAX: usize = 110;

/// Reports broken rules in all files, each given as its path and its text.
pub fn check(files: &[(String, String)], rooms: &[Room], findings: &mut Findings) {
    let mut wide = Vec::new();
    for (name, text) in files {
        let source = Source::new(name, text, rooms);
        source.header(findings);
        source.size(findings);
        source.lines(findings);
        source.wide_atomics(findings);
        wide.extend(source.wide_lines());
    }
    if wide.len() > WIDE_LINES_MAX {
        findings.push(format!(
            "{} lines are wider than {COLUMNS_MAX} columns, at most {WIDE_LINES_MAX} may be: {}",
            wide.len(),
            wide.join(" ")
        ));
    }
}

struct Source<'a> {
    name: &'a str,
    text: &'a str,
    code: String,
    /// It belongs to a crate that needs no operating system.
    no_std: bool,
}

impl<'a> Source<'a> {
    fn new(name: &'a str, text: &'a str, rooms: &[Room]) -> Self {
        let no_std = rooms
            .iter()
            .filter(|room| room.no_std)
            .any(|room| name.starts_with(&format!("crates/{}/src/", room.name)));
        Self {
            name,
            text,
            code: blank(text),
            no_std,
        }
    }

    /// Each module says what it is for.
    fn header(&self, findings: &mut Findings) {
        let Self { name, text, .. } = self;
        if !text.starts_with("//!") {
            findings.push(format!(
                "{name}:1: no module header; say what the module is for"
            ));
        }
        let is_root = name.ends_with("/src/lib.rs");
        if self.no_std && is_root && !self.code.lines().any(|line| line == "#![no_std]") {
            findings.push(format!(
                "{name}: expected #![no_std] in a crate below stack"
            ));
        }
    }

    /// A large file holds a second idea.
    fn size(&self, findings: &mut Findings) {
        let name = self.name;
        let lines = lines(self.text);
        if lines > LINES_MAX {
            findings.push(format!(
                "{name}: {lines} lines, at most {LINES_MAX}; split it by idea"
            ));
        }
    }

    /// Rules for code outside tests, line by line.
    fn lines(&self, findings: &mut Findings) {
        let name = self.name;
        let code = self.code.split("\n#[cfg(test)]").next().unwrap_or_default();
        for (line, at) in code.lines().zip(1..) {
            if self.no_std
                && let Some(word) = IMPURE.iter().find(|word| line.contains(**word))
            {
                findings.push(format!(
                    "{name}:{at}: {word} below stack; a run must be a function of its inputs"
                ));
            }
            if line.contains("unsafe ") && !UNSAFE.contains(&name) {
                findings.push(format!(
                    "{name}:{at}: unsafe outside the files that have a reason"
                ));
            }
            if line.contains("todo!(") || line.contains("unimplemented!(") {
                findings.push(format!("{name}:{at}: a stub"));
            }
        }
    }

    /// Crates below `stack` run on processors without 64-bit atomics.
    fn wide_atomics(&self, findings: &mut Findings) {
        let name = self.name;
        // `portable-atomic` brings its own where the processor has none.
        if !self.no_std || self.code.contains("use portable_atomic::") {
            return;
        }
        for (at, line) in unguarded(self.text, &self.code) {
            if let Some(word) = WIDE_ATOMICS.iter().find(|word| line.contains(**word)) {
                findings.push(format!(
                    "{name}:{at}: {word} below stack; guard it by {WIDE_ATOMICS_GUARD}"
                ));
            }
        }
    }

    fn wide_lines(&self) -> impl Iterator<Item = String> {
        let pairs = self.text.lines().zip(self.code.lines()).zip(1..);
        pairs
            .filter(|((text, code), _)| width(text) > COLUMNS_MAX && !code.contains(LITERAL))
            .map(|(_, at)| format!("{}:{at}", self.name))
    }
}

fn width(line: &str) -> usize {
    line.chars().count()
}

/// The lines of a text if each were cut at the last column.
fn lines(text: &str) -> usize {
    text.lines()
        .map(|line| width(line).div_ceil(COLUMNS_MAX).max(1))
        .sum()
}

/// The numbered lines of code outside items behind [`WIDE_ATOMICS_GUARD`].
fn unguarded<'a>(text: &str, code: &'a str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut guarded = false;
    let mut depth = 0;
    for ((text, code), at) in text.lines().zip(code.lines()).zip(1..) {
        let text = text.trim();
        if !guarded && text.starts_with(WIDE_ATOMICS_GUARD) {
            guarded = true;
            depth = 0;
        }
        if !guarded {
            found.push((at, code));
            continue;
        }
        depth += code.matches('{').count();
        depth = depth.saturating_sub(code.matches('}').count());
        let ends = code.trim_end().ends_with(['}', ';', ',']);
        guarded = depth > 0 || !ends;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rooms;

    const TABLE: &str = "\
| crate | what it is | stands on |
|---|---|---|
| `sim` | time | nothing |
| `stack` | stacks | sim |
";

    fn findings(name: &str, text: &str) -> Findings {
        let files = [(name.to_owned(), text.to_owned())];
        let mut findings = Findings::new();
        check(&files, &rooms::parse(TABLE).unwrap(), &mut findings);
        findings
    }

    #[test]
    fn a_crate_below_stack_is_no_std_and_pure() {
        let root = "crates/sim/src/lib.rs";
        let pure = "//! Time.\n#![no_std]\n// HashMap\nconst A: &str = \"unsafe todo!(\";\n";
        assert_eq!(findings(root, pure), Findings::new());
        assert_eq!(
            findings(root, "use std::fs;\n#[cfg(test)]\nuse std::thread;\n"),
            [
                "crates/sim/src/lib.rs:1: no module header; say what the module is for",
                "crates/sim/src/lib.rs: expected #![no_std] in a crate below stack",
                "crates/sim/src/lib.rs:1: std::fs below stack; a run must be a function of its inputs",
            ]
        );
        assert_eq!(
            findings("crates/stack/src/lib.rs", "//! A.\nuse std::fs;\n"),
            Findings::new()
        );
    }

    #[test]
    fn a_64_bit_atomic_below_stack_needs_a_guard() {
        let text = "//! A.\nuse core::sync::atomic::AtomicU64;\n";
        assert_eq!(
            findings("crates/sim/src/clock.rs", text),
            [
                "crates/sim/src/clock.rs:2: AtomicU64 below stack; guard it by #[cfg(target_has_atomic = \"64\")]"
            ]
        );
        assert_eq!(findings("crates/stack/src/clock.rs", text), Findings::new());
        let guarded = "//! A.\n\
            #[cfg(target_has_atomic = \"64\")]\n\
            use core::sync::atomic::AtomicU64;\n\
            #[cfg(target_has_atomic = \"64\")]\n\
            mod wide {\n    struct A(AtomicU64);\n\n    struct B(AtomicI64);\n}\n";
        assert_eq!(
            findings("crates/sim/src/clock.rs", guarded),
            Findings::new()
        );
        let after = format!("{guarded}struct C(AtomicI64);\n");
        assert_eq!(findings("crates/sim/src/clock.rs", &after).len(), 1);
        let not = guarded.replace(
            "(target_has_atomic = \"64\")",
            "(not(target_has_atomic = \"64\"))",
        );
        assert_eq!(findings("crates/sim/src/clock.rs", &not).len(), 3);
    }

    #[test]
    fn unsafe_and_stubs_are_found_outside_tests() {
        let text =
            "//! A.\nfn a() {\n    unsafe {}\n    todo!()\n}\n#[cfg(test)]\nfn b() { todo!() }\n";
        assert_eq!(
            findings("crates/stack/src/a.rs", text),
            [
                "crates/stack/src/a.rs:3: unsafe outside the files that have a reason",
                "crates/stack/src/a.rs:4: a stub",
            ]
        );
    }

    #[test]
    fn files_are_counted_at_100_columns() {
        let wide = format!(
            "//! A.\n{}",
            format!("const A: &str = \"{}\";\n", "x".repeat(200)).repeat(233)
        );
        assert_eq!(findings("crates/stack/src/a.rs", &wide), Findings::new());
        assert_eq!(
            findings("crates/stack/src/a.rs", &format!("{wide}\n")),
            ["crates/stack/src/a.rs: 701 lines, at most 700; split it by idea"]
        );
    }

    #[test]
    fn wide_lines_without_a_literal_are_counted() {
        let line = format!("// {}\n", "x".repeat(98));
        let found = findings(
            "crates/stack/src/a.rs",
            &format!("//! A.\n{}", line.repeat(WIDE_LINES_MAX + 1)),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("wider than 100 columns"), "{found:?}");
    }
}
