//! Judges of POSIX in mounted stacks: pjdfstest, call by call, fsx, many calls on one file, and
//! integck, whose files must be there after each mount. Needs root, `/dev/fuse`, cargo's registry,
//! gcc, a mirror of Debian's sources, and Debian's libacl1-dev.
//!
//! `posix/passes.txt` names what passes; `posix/failures.txt` what cannot, with the reason. The
//! kernel's own JFFS2 is asked for the same, so that a failure is the format's, and not ours.

mod integck;
mod judges;
mod mount;

use judges::{Verdict, Verdicts, fsx, pjdfstest};
use mount::{Mount, STACKS};
use nandlab_testkit::share::whole_or;
use std::collections::BTreeSet;

const PASSES: &str = include_str!("posix/passes.txt");
const FAILURES: &str = include_str!("posix/failures.txt");
/// Operations of fsx on each stack, unless `NANDLAB_FSX_OPERATIONS` says otherwise.
/// `NANDLAB_FSX_STACK` names a file system instead of all.
fn fsx_operations() -> u64 {
    let asked = std::env::var("NANDLAB_FSX_OPERATIONS");
    let count = |text: String| text.parse().expect("a number of operations");
    asked.map_or(whole_or(8_000, 2_000), count)
}

/// Operations of one run of fsx 0.3.2; more are further runs. It keeps some of its mappings: it
/// becomes slower, and ends after 400,000 or so.
const FSX_MOST: u64 = 4_000;

/// What a stack is known to fail.
struct Failures(Vec<&'static str>);

impl Failures {
    fn of(stack: &str) -> Self {
        let lines = FAILURES
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let split = lines.map(|line| {
            line.split_once(": ")
                .and_then(|(test, _)| test.split_once(' '))
                .expect("`stack test: reason`")
        });
        Self(
            split
                .filter(|(of, _)| *of == stack)
                .map(|(_, test)| test)
                .collect(),
        )
    }

    fn covers(&self, test: &str) -> bool {
        self.0.iter().any(|listed| {
            listed
                .strip_suffix('*')
                .map_or(*listed == test, |stem| test.starts_with(stem))
        })
    }
}

fn of_verdict(verdicts: &Verdicts, wanted: Verdict) -> BTreeSet<&str> {
    verdicts
        .iter()
        .filter(|(_, verdict)| **verdict == wanted)
        .map(|(test, _)| test.as_str())
        .collect()
}

fn assert_as_listed(stack: &str, verdicts: &Verdicts) {
    let listed: BTreeSet<&str> = PASSES.lines().collect();
    let failures = Failures::of(stack);
    let passed = of_verdict(verdicts, Verdict::Passed);
    let failed = of_verdict(verdicts, Verdict::Failed);
    let missing: Vec<_> = listed
        .difference(&passed)
        .filter(|test| !failures.covers(test))
        .collect();
    assert!(
        missing.is_empty(),
        "{stack}: listed and not passed: {missing:?}"
    );
    let better: Vec<_> = passed.iter().filter(|test| failures.covers(test)).collect();
    assert!(
        better.is_empty(),
        "{stack}: listed as impossible, and passed: {better:?}"
    );
    let unknown: Vec<_> = failed
        .iter()
        .filter(|test| !failures.covers(test))
        .collect();
    assert!(
        unknown.is_empty(),
        "{stack}: failed and not listed: {unknown:?}"
    );
    println!(
        "{stack}: {} passed, {} cannot, {} skipped",
        passed.len(),
        failed.len(),
        verdicts.len() - passed.len() - failed.len()
    );
}

#[test]
fn calls_answer_as_posix_has_them_but_for_what_a_format_cannot_hold() {
    // A sample takes one file system of disks and one of flash: ext4 and UBIFS.
    for stack in STACKS
        .into_iter()
        .skip(whole_or(0, 2))
        .step_by(whole_or(1, 3))
    {
        let mount = Mount::new(stack);
        assert_as_listed(stack.name, &pjdfstest(mount.dir(), stack.nap));
        mount.end();
    }
}

#[test]
fn a_file_under_random_calls_is_what_fsx_expects() {
    let operations = fsx_operations();
    let only = std::env::var("NANDLAB_FSX_STACK").ok();
    let is_asked = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let asked: Vec<_> = STACKS
        .into_iter()
        .filter(|stack| is_asked(stack.name))
        .collect();
    assert!(!asked.is_empty(), "NANDLAB_FSX_STACK: no stack {only:?}");
    for stack in asked {
        let mount = Mount::new(stack);
        for (seed, done) in (1..).zip((0..operations).step_by(FSX_MOST as usize)) {
            fsx(
                &mount.dir().join("file"),
                FSX_MOST.min(operations - done),
                seed,
            );
        }
        mount.end();
        println!("{}: {operations} operations", stack.name);
    }
}

#[test]
fn integck_finds_what_it_wrote_to_ubifs_after_each_mount() {
    let repeats = std::env::var("NANDLAB_INTEGCK_REPEATS")
        .map_or(5, |text| text.parse().expect("a number of repeats"));
    let mounts = integck::run(
        "[chip]\npreset = \"slc-2k\"\nsize = \"24 MiB\"\n[ubi]\nattach = \"scan\"\n[fs]\ntype = \"ubifs\"\n",
        repeats,
    );
    println!("{mounts} mounts");
    // One at the beginning at least; by chance others are changes of a mount to read-only and back.
    assert!(mounts >= 2, "{mounts} mounts");
}

#[test]
#[ignore = "asks the kernel's JFFS2, not ours: `cargo xtask test whole` runs it"]
fn what_our_jffs2_cannot_the_kernels_cannot_either() {
    let theirs = judges::pjdfstest_in_the_kernels_jffs2();
    let ours = Failures::of("jffs2");
    let failed = of_verdict(&theirs, Verdict::Failed);
    let only_ours: Vec<_> = theirs
        .keys()
        .filter(|test| ours.covers(test) && !failed.contains(test.as_str()))
        .collect();
    assert!(only_ours.is_empty(), "only ours: {only_ours:?}");
    println!(
        "only the kernel's: {:?}",
        failed
            .iter()
            .filter(|test| !ours.covers(test))
            .collect::<Vec<_>>()
    );
}
