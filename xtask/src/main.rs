//! The project's chores, one verb each: `cargo xtask VERB`.

mod bench;
mod book;
mod fuzz;
mod lint;
mod metadata;
mod mutants;
mod packages;
mod portable;
mod programs;
mod prose;
mod python;
mod record;
mod test;
mod tidy;
mod tools;
mod xfstests;

use std::process::{Command, ExitCode};

/// The error message of a verb that failed.
type Outcome = Result<(), String>;

/// A verb's name, its help and its function.
type Verb = (&'static str, &'static str, fn(&[String]) -> Outcome);

const VERBS: &[Verb] = &[
    (
        "test",
        "run tidy, lint, prose, book, portable, python and the tests, and install the Debian \
         packages that they need; `test whole` lets long tests do all of their work, not a sample, \
         and adds the ignored tests and a few mutants; `test quick` takes samples too, and skips \
         lint, prose, book, portable, python, doctests and the slow tests (real kernel, mounts, \
         browser)",
        test::run,
    ),
    (
        "tidy",
        "check the rules that no compiler checks: dependencies between crates, licences, file \
         sizes, plain code",
        tidy::run,
    ),
    (
        "lint",
        "run rustfmt, clippy and rustdoc; any warning is an error",
        lint::run,
    ),
    (
        "prose",
        "run textlint over the documents and all comments, with the rules of xtask/prose; `prose \
         list` prints all findings",
        prose::run,
    ),
    (
        "python",
        "build the Python package, check its types and run its tests; words go to pytest",
        python::run_tests,
    ),
    (
        "portable",
        "build the no_std crates for a 32-bit microcontroller and for WebAssembly",
        portable::run,
    ),
    (
        "bench",
        "run the benchmarks one after the other, built with the profile `dist`",
        bench::run,
    ),
    (
        "book",
        "check the links of all documents and build the book of docs/ into target/book",
        book::run,
    ),
    (
        "reference",
        "write docs/reference.md, the page of all TOML keys, from the program",
        book::reference,
    ),
    (
        "picture",
        "write docs/images/wear.svg, the picture of the README, from a run",
        book::picture,
    ),
    (
        "front",
        "write docs/images/readme.png: the first screen of the README as Chromium shows it",
        book::front,
    ),
    (
        "tools",
        "write docs/tools.md: losses of today's image tools, judged by the real kernel",
        tools::run,
    ),
    (
        "fuzz",
        "fuzz a reader of media: `fuzz TARGET EXECUTIONS [SEED]`, see docs/fuzzing.md",
        fuzz::run,
    ),
    (
        "mutants",
        "measure how many bugs the tests find in the code of formats and recovery: `mutants K/N` \
         tries each N-th of several thousand",
        mutants::run,
    ),
    (
        "xfstests",
        "run the generic group of xfstests on mounted stacks: `xfstests CHECKOUT [STACK] [TEST...]`, see docs/posix.md",
        xfstests::run,
    ),
    (
        "record",
        "record the block traces of traces/ from the real kernel; `record rival [WORK...]` records those of ext4 for `paper f2fs`",
        record::run,
    ),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let verb = words.next().unwrap_or_default();
    let rest = words.collect::<Vec<_>>();
    let Some((_, _, run)) = VERBS.iter().find(|v| v.0 == verb) else {
        eprintln!("usage: cargo xtask VERB");
        VERBS
            .iter()
            .for_each(|(name, what, _)| eprintln!("  {name:9} {what}"));
        return ExitCode::from(2);
    };
    match run(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {verb}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command to its end, showing what it prints.
fn run(command: &mut Command) -> Outcome {
    let shown = format!(
        "{} {}",
        command.get_program().display(),
        command
            .get_args()
            .map(|a| a.display().to_string())
            .collect::<Vec<_>>()
            .join(" ")
    );
    eprintln!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(why) => Err(format!("{shown}: {why}")),
    }
}

/// Cargo, as it called us.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The root of the checkout.
fn root() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the checkout")
}
