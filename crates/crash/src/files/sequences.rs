//! All short sequences of calls on a small tree, each made durable at its end: bounded exhaustive
//! tests in the manner of ACE (Mohan et al., OSDI 2018).
//!
//! Every sequence begins with the same tree. Behind its last call comes an fsync of the file that
//! the call touches, or a sync. An fsync may come between two calls as well.

use super::op::{FileOp, Path};
use crate::workload::{Workload, spread};

/// The calls of one step, and the file that each touches.
const CALLS: usize = 15;
/// Places of a step: a call, an fsync and an fdatasync for each, and a sync.
const STEP: usize = 3 * CALLS + 1;
/// A sample replaces more sequences than this.
const MOST: u64 = 1 << 20;

/// The call that makes another one durable.
#[derive(Clone, Copy)]
enum Persist {
    Nothing,
    Fsync,
    Fdatasync,
    Sync,
}

/// Behind the last call, if it is the only one; behind the last of several; between two calls.
const ALONE: [Persist; 3] = [Persist::Fsync, Persist::Fdatasync, Persist::Sync];
const LAST: [Persist; 2] = [Persist::Fsync, Persist::Sync];
const BETWEEN: [Persist; 2] = [Persist::Nothing, Persist::Fsync];

/// The sequences of `length` calls (at least 1): all of them, or if there are more than `sample`,
/// so many that `seed` chooses.
pub fn sequences(length: u32, sample: Option<u64>, seed: u64) -> Workload<FileOp> {
    let tree = tree();
    let shared = tree.len();
    let steps = (0..length).flat_map(step);
    let all = count(length);
    let wanted = sample.unwrap_or(MOST).min(all);
    let chosen = spread(wanted, all, seed);
    Workload {
        runs: chosen
            .map(|number| places(number, length, shared))
            .collect(),
        ops: tree.into_iter().chain(steps).collect(),
        shared,
    }
}

/// The number of sequences of `length` calls.
fn count(length: u32) -> u64 {
    let ends = if length == 1 { ALONE.len() } else { LAST.len() };
    let before = (CALLS * BETWEEN.len()) as u64;
    before
        .saturating_pow(length - 1)
        .saturating_mul((CALLS * ends) as u64)
}

/// The places of the operations of one sequence.
fn places(mut number: u64, length: u32, shared: usize) -> Vec<usize> {
    let mut digit = |base: usize| {
        let digit = number % base as u64;
        number /= base as u64;
        digit as usize
    };
    let mut places: Vec<usize> = (0..shared).collect();
    for step in 0..length {
        let base = shared + step as usize * STEP;
        let ends = match (step + 1 == length, length) {
            (false, _) => &BETWEEN[..],
            (true, 1) => &ALONE,
            (true, _) => &LAST,
        };
        let call = base + 3 * digit(CALLS);
        places.push(call);
        match ends[digit(ends.len())] {
            Persist::Nothing => {}
            Persist::Fsync => places.push(call + 1),
            Persist::Fdatasync => places.push(call + 2),
            Persist::Sync => places.push(base + STEP - 1),
        }
    }
    places
}

fn path(name: &str) -> Path {
    name.into()
}

/// The tree that every sequence begins with: two files, two more in a directory, an empty
/// directory.
fn tree() -> Vec<FileOp> {
    let files = [
        ("foo", 6000),
        ("bar", 3000),
        ("A/foo", 2500),
        ("A/bar", 700),
    ];
    let directory = |name| FileOp::Mkdir { path: path(name) };
    let file = |(seed, (name, length))| {
        let create = FileOp::Create { path: path(name) };
        let path = path(name);
        [create, FileOp::Append { path, length, seed }]
    };
    [directory("A"), directory("B")]
        .into_iter()
        .chain((1..).zip(files).flat_map(file))
        .chain([FileOp::Sync])
        .collect()
}

/// The operations of a step: each call with an fsync and an fdatasync of its file, and a sync.
fn step(step: u32) -> impl Iterator<Item = FileOp> {
    calls(u64::from(step) + 1)
        .into_iter()
        .flat_map(|(call, touched)| {
            let path = path(touched);
            let fsync = FileOp::Fsync { path: path.clone() };
            [call, fsync, FileOp::Fdatasync { path }]
        })
        .chain([FileOp::Sync])
}

/// Each call with the file that it touches. The bytes are the step's own.
fn calls(step: u64) -> [(FileOp, &'static str); CALLS] {
    let create = |name| FileOp::Create { path: path(name) };
    let truncate = |length| FileOp::Truncate {
        path: path("foo"),
        length,
    };
    let write = |offset, length| FileOp::Overwrite {
        path: path("foo"),
        offset,
        length,
        seed: step << 8 | u64::from(offset) << 16,
    };
    let append = |name, length| FileOp::Append {
        path: path(name),
        length,
        seed: step << 8 | 1,
    };
    let rename = |from, to| FileOp::Rename {
        from: path(from),
        to: path(to),
    };
    let link = |from, to| FileOp::Link {
        from: path(from),
        to: path(to),
    };
    let unlink = |name| FileOp::Unlink { path: path(name) };
    [
        (create("A/new"), "A/new"),
        (FileOp::Mkdir { path: path("C") }, "foo"),
        (FileOp::Rmdir { path: path("B") }, "foo"),
        (append("foo", 2500), "foo"),
        (append("A/bar", 900), "A/bar"),
        (write(1000, 1500), "foo"),
        (write(9000, 800), "foo"),
        (truncate(1000), "foo"),
        (truncate(7500), "foo"),
        (rename("foo", "A/new"), "A/new"),
        (rename("foo", "bar"), "bar"),
        (rename("A/foo", "foo"), "foo"),
        (link("foo", "A/link"), "A/link"),
        (unlink("bar"), "foo"),
        (unlink("A/foo"), "A/bar"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn words(workload: &Workload<FileOp>, run: usize) -> Vec<String> {
        workload.run(run).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_sequences_of_one_and_two_calls_differ_and_begin_with_the_tree() {
        for (length, expected) in [(1, 45), (2, 900)] {
            let all = sequences(length, None, 1);
            let different: BTreeSet<_> = (0..all.runs.len()).map(|run| words(&all, run)).collect();
            assert_eq!((all.runs.len(), different.len()), (expected, expected));
            let tree = &words(&all, 0)[..all.shared];
            assert!(different.iter().all(|run| run.starts_with(tree)));
            assert_eq!(tree.last().map(String::as_str), Some("sync"));
            let ends = |run: &Vec<String>| run.last().is_some_and(|op| op.contains("sync"));
            assert!(different.iter().all(ends), "a sequence ends durable");
        }
    }

    #[test]
    fn each_call_changes_the_tree() {
        use crate::files::model::Model;
        let mut model = Model::default();
        for op in tree() {
            model.apply(&op, true);
        }
        for (call, _) in calls(1) {
            let mut changed = model.clone();
            changed.apply(&call, true);
            assert_ne!(changed, model, "{call}");
        }
    }

    #[test]
    fn a_sample_has_its_size_and_is_the_seeds() {
        let sample = sequences(3, Some(200), 1);
        assert_eq!(sample.runs.len(), 200);
        assert_eq!(sample, sequences(3, Some(200), 1));
        assert_ne!(sample.runs, sequences(3, Some(200), 2).runs);
    }
}
