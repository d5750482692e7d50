//! Calls and bytes of each phase, worked out by hand.

use super::*;
use crate::files::{Expected, FileCalls, sound};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use proptest::prelude::*;

fn calls(spec: IozoneSpec) -> Vec<(&'static str, FileCall)> {
    let mut iozone = Iozone::new(spec).unwrap();
    let mut calls = Vec::new();
    while let Some(call) = iozone.next() {
        calls.push((iozone.phase(), call));
    }
    assert_eq!(iozone.share_done(), 1.0);
    calls
}

fn all() -> IozoneSpec {
    IozoneSpec {
        bytes: 1 << 20,
        tests: IozoneTest::ALL.into(),
        ..IozoneSpec::default()
    }
}

/// The records that a phase reads and writes, in order, as numbers.
fn records(calls: &[(&str, FileCall)], phase: &str, record: u64) -> (Vec<u64>, Vec<u64>) {
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for (_, call) in calls.iter().filter(|(one, _)| *one == phase) {
        match *call {
            FileCall::Read { offset, length, .. } if length == record => {
                reads.push(offset / record)
            }
            FileCall::Write { offset, length, .. } if length == record => {
                writes.push(offset / record)
            }
            FileCall::Read { .. } | FileCall::Write { .. } => panic!("{call} is no record"),
            _ => {}
        }
    }
    (reads, writes)
}

const PHASES: [&str; 10] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random-read",
    "random-write",
    "backward-read",
    "backward-reread",
    "record-rewrite",
    "stride-read",
];

#[test]
fn each_phase_has_every_record_in_its_order() {
    let calls = calls(all());
    let mut order: Vec<&str> = calls
        .iter()
        .map(|(phase, _)| *phase)
        .filter(|phase| *phase != SET_UP)
        .collect();
    order.dedup();
    assert_eq!(order, PHASES);
    let of = |phase| records(&calls, phase, 4096);
    let forward: Vec<u64> = (0..256).collect();
    let none: Vec<u64> = vec![];
    for phase in ["write", "rewrite"] {
        assert_eq!(of(phase), (none.clone(), forward.clone()), "{phase}");
    }
    for phase in ["read", "reread"] {
        assert_eq!(of(phase), (forward.clone(), none.clone()), "{phase}");
    }
    for phase in ["backward-read", "backward-reread"] {
        assert_eq!(
            of(phase),
            ((0..256).rev().collect(), none.clone()),
            "{phase}"
        );
    }
    assert_eq!(of("record-rewrite"), (none.clone(), vec![0; 256]));
    let (random, _) = of("random-read");
    assert_eq!(
        of("random-write"),
        (none, random.clone()),
        "the same order twice"
    );
    assert_ne!(random, forward);
    let mut sorted = random;
    sorted.sort_unstable();
    assert_eq!(sorted, forward, "each record once");
}

#[test]
fn strides_start_one_record_further_on_after_each_round() {
    let mut stride = Stride::new(100);
    let found: Vec<u64> = (0..12).map(|_| stride.draw()).collect();
    // A next one only if it, and one record more, lie before the last record.
    assert_eq!(found, [0, 17, 34, 51, 68, 85, 1, 18, 35, 52, 69, 86]);
    let mut short = Stride::new(17);
    assert_eq!((0..3).map(|_| short.draw()).collect::<Vec<_>>(), [0, 0, 0]);
    // Nineteen records: the second lies too near the end.
    let mut short = Stride::new(19);
    assert_eq!(
        (0..4).map(|_| short.draw()).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

#[test]
fn options_say_what_the_stopwatch_includes() {
    let ends = |flush, close| {
        let calls = calls(IozoneSpec {
            bytes: 4096,
            flush,
            close,
            ..IozoneSpec::default()
        });
        let from = calls
            .iter()
            .position(|(phase, _)| *phase == "write")
            .unwrap();
        let until = calls
            .iter()
            .position(|(phase, _)| *phase == "rewrite")
            .unwrap();
        calls[from + 1..until]
            .iter()
            .map(|(phase, call)| (*phase, *call))
            .collect::<Vec<_>>()
    };
    let open = FileCall::Open { file: FILE };
    let fsync = FileCall::Fsync { file: FILE };
    let close = FileCall::Close { file: FILE };
    let before_rewrite = [(SET_UP, open), (SET_UP, fsync)];
    let with = |after: &[(&'static str, FileCall)]| [after, &before_rewrite].concat();
    assert_eq!(
        ends(false, false),
        with(&[(SET_UP, fsync), (SET_UP, close)])
    );
    assert_eq!(
        ends(true, false),
        with(&[("write", fsync), (SET_UP, fsync), (SET_UP, close)])
    );
    assert_eq!(ends(false, true), with(&[("write", close)]));
    assert_eq!(
        ends(true, true),
        with(&[("write", fsync), ("write", close)])
    );
}

#[test]
fn a_sync_of_everything_ends_each_phase_that_writes() {
    let calls = calls(IozoneSpec {
        sync_all: true,
        ..all()
    });
    let synced: Vec<&str> = calls
        .iter()
        .filter(|(_, call)| *call == FileCall::Sync)
        .map(|(phase, _)| *phase)
        .collect();
    assert_eq!(
        synced,
        ["write", "rewrite", "random-write", "record-rewrite"]
    );
}

#[test]
fn the_default_writes_four_mebibytes_twice_and_waits_for_both() {
    let calls = calls(IozoneSpec::default());
    for phase in ["write", "rewrite"] {
        assert_eq!(records(&calls, phase, 4096).1.len(), 1024);
        assert_eq!(
            calls
                .iter()
                .filter(|call| **call == (phase, FileCall::Fsync { file: FILE }))
                .count(),
            1
        );
    }
    let at_once = self::calls(IozoneSpec {
        record: 4 << 20,
        ..IozoneSpec::default()
    });
    assert_eq!(records(&at_once, "write", 4 << 20).1, [0]);
}

#[test]
fn a_synchronous_write_is_followed_by_an_fdatasync() {
    let calls = calls(IozoneSpec {
        sync: true,
        flush: false,
        ..all()
    });
    for (n, (phase, call)) in calls
        .iter()
        .enumerate()
        .filter(|(_, (phase, _))| *phase != SET_UP)
    {
        let is_write = matches!(call, FileCall::Write { .. });
        assert_eq!(
            calls[n + 1] == (*phase, FileCall::Fdatasync { file: FILE }),
            is_write,
            "{phase} {call}"
        );
    }
}

#[test]
fn reading_tests_read_a_record_before_the_watch_starts() {
    let calls = calls(all());
    let primed = calls.iter().filter(|(phase, call)| {
        *phase == SET_UP
            && matches!(
                call,
                FileCall::Read {
                    offset: 0,
                    length: 4096,
                    ..
                }
            )
    });
    assert_eq!(primed.count(), 2, "of reading and reading again");
}

#[test]
fn another_seed_has_another_order_and_other_contents() {
    let spec = |seed| IozoneSpec { seed, ..all() };
    assert_eq!(calls(spec(1)), calls(spec(1)));
    assert_ne!(calls(spec(1)), calls(spec(2)));
    assert_ne!(
        Iozone::new(spec(1)).unwrap().contents(),
        Iozone::new(spec(2)).unwrap().contents()
    );
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut IozoneSpec)| sound::refused(IozoneSpec::check, change);
    let pair = |key, found: &str| (key, String::from(found));
    assert_eq!(refused(&|_| ()), pair("accepted", ""));
    assert_eq!(refused(&|s| s.record = 0), pair("record", "0"));
    assert_eq!(
        refused(&|s| s.record = (16 << 20) + 1),
        pair("record", "16777217")
    );
    assert_eq!(refused(&|s| s.bytes = 4095), pair("bytes", "4095"));
    assert_eq!(
        refused(&|s| (s.bytes, s.record) = (1 << 40, 1)),
        pair("bytes", "1099511627776")
    );
    assert_eq!(refused(&|s| s.tests.clear()), pair("tests", "none"));
    assert_eq!(
        refused(&|s| s.tests = [IozoneTest::Stride, IozoneTest::Read].into()),
        pair("tests", "read")
    );
}

proptest! {
    /// Whatever the run, no call does what no program can, every read finds what was written, and
    /// every rewriting has contents of its own.
    #[test]
    fn every_run_is_sound(
        seed: u64, record in 1u64..3000, count in 1u64..70, rest in 0u64..3000, flush: bool, close: bool, sync: bool, chosen in 0u8..64,
    ) {
        let chosen = |(n, _): &(usize, IozoneTest)| *n == 0 || chosen & 1 << n != 0;
        let tests = IozoneTest::ALL.into_iter().enumerate().filter(chosen).map(|(_, test)| test).collect();
        let iozone = Iozone::new(IozoneSpec { seed, bytes: record * count + rest % record, record, tests, flush, close, sync, sync_all: sync }).unwrap();
        let mut expected = Expected::new(iozone.contents());
        let mut open = false;
        let mut last = BTreeMap::new();
        for call in iozone {
            expected.apply(&call).unwrap();
            match call {
                FileCall::Create { .. } | FileCall::Open { .. } => prop_assert!(!core::mem::replace(&mut open, true)),
                FileCall::Close { .. } => prop_assert!(core::mem::replace(&mut open, false)),
                FileCall::Remove { .. } => prop_assert!(!open),
                FileCall::Read { offset, length, .. } => {
                    prop_assert!(open && length == record && offset + length <= record * count);
                    prop_assert_eq!(expected.files().next(), Some((FILE, record * count)));
                }
                FileCall::Write { offset, length, version, .. } => {
                    prop_assert!(open && length == record && offset + length <= record * count);
                    prop_assert_ne!(last.insert(offset, version), Some(version));
                }
                FileCall::Truncate { .. } | FileCall::Fsync { .. } | FileCall::Fdatasync { .. } => prop_assert!(open),
                _ => {}
            }
        }
        prop_assert!(!open);
        prop_assert_eq!(expected.files().next(), Some((FILE, record * count)));
    }
}
