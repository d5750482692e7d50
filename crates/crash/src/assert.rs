//! Assertions for tests of your own layer. Each panics with the whole report.

use crate::again::replay;
use crate::explore::explore;
use crate::id::Id;
use crate::outcome::CrashReport;
use crate::plan::Plan;
use crate::subject::Subject;
use std::fmt::Debug;

/// Explores, and panics if any state breaks a promise.
///
/// # Panics
/// If there is a violation, or no exploration at all.
pub fn assert_survives<S: Subject>(subject: &S, ops: &[S::Op], plan: &Plan) -> CrashReport {
    let report = explore(subject, ops, plan).unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    assert_eq!(report.violations_total, 0, "{report}");
    report
}

/// Explores a layer with a seeded bug, and panics unless a cut shows it. The first violation and
/// the smallest case must come again from their names, and the smallest case must be smaller.
///
/// # Panics
/// If the bug is not found so, or there is no exploration at all.
pub fn assert_found<S: Subject>(subject: &S, ops: &[S::Op], plan: &Plan) -> CrashReport {
    let report = explore(subject, ops, plan).unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    let first = report.violations.first();
    let first = first.unwrap_or_else(|| panic!("nothing was found:\n{report}"));
    let smallest = report.smallest.as_ref();
    let smallest = smallest.unwrap_or_else(|| panic!("nothing was shrunk:\n{report}"));
    assert!(
        !first.id.ends_with("uncut") && smallest.host_ops.len() < ops.len(),
        "{report}"
    );
    for violation in [first, &smallest.violation] {
        let id: Id = violation.id.parse().expect("an id that the report gives");
        let again = replay(subject, ops, plan, &id).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.as_ref(), Some(violation));
    }
    report
}

/// Explores a layer as it is, which must survive, and then with each of its seeded bugs, which a
/// cut must show. `each` gets the report of each bug.
///
/// # Panics
/// As [`assert_survives`] and [`assert_found`] do.
pub fn assert_each_found<S: Subject, B: Copy + Debug>(
    subject: impl Fn(Option<B>) -> S,
    bugs: &[B],
    (ops, plan): (&[S::Op], &Plan),
    each: impl Fn(B, &CrashReport),
) {
    assert_survives(&subject(None), ops, plan);
    for bug in bugs.iter().copied() {
        println!("{bug:?}");
        each(bug, &assert_found(&subject(Some(bug)), ops, plan));
    }
}
