//! Calls of each phase, worked out by hand.

use super::*;
use crate::files::{Expected, FileCalls, sound};
use alloc::vec::Vec;
use proptest::prelude::*;

fn calls(spec: TiobenchSpec) -> Vec<(&'static str, FileCall)> {
    let mut tiobench = Tiobench::new(spec).unwrap();
    let mut calls = Vec::new();
    while let Some(call) = tiobench.next() {
        calls.push((tiobench.phase(), call));
    }
    assert_eq!(tiobench.share_done(), 1.0);
    calls
}

fn small() -> TiobenchSpec {
    TiobenchSpec {
        bytes: 4 * 4096 + 100,
        random: 50,
        ..TiobenchSpec::default()
    }
}

#[test]
fn one_thread_makes_its_file_and_writes_it_in_order() {
    let file = FileId(0);
    let calls = calls(small());
    let write = |n: u64| {
        (
            "write",
            FileCall::Write {
                file,
                offset: n * 4096,
                length: 4096,
                version: 1,
            },
        )
    };
    let expected = [
        (SET_UP, FileCall::Create { file }),
        (
            "write",
            FileCall::Truncate {
                file,
                length: 16_384,
            },
        ),
        write(0),
        write(1),
        write(2),
        write(3),
        ("write", FileCall::Fsync { file }),
        (SET_UP, FileCall::Close { file }),
    ];
    assert_eq!(calls[..8], expected);
    let count = |phase| calls.iter().filter(|(found, _)| *found == phase).count();
    assert_eq!(
        ["random-write", "read", "random-read"].map(count),
        [51, 4, 50]
    );
}

#[test]
fn threads_take_turns_each_with_its_own_file_and_places() {
    let calls = calls(TiobenchSpec {
        threads: 3,
        ..small()
    });
    let files = |phase| -> Vec<u32> {
        let of = |(found, call): &(&str, FileCall)| {
            (*found == phase && !matches!(call, FileCall::Fsync { .. } | FileCall::Truncate { .. }))
                .then(|| call.file().unwrap().0)
        };
        calls.iter().filter_map(of).collect()
    };
    assert_eq!(files("write")[..6], [0, 1, 2, 0, 1, 2]);
    assert_eq!(files("random-read").len(), 150);
    let places = |thread| -> Vec<u64> {
        let of = |(phase, call): &(&str, FileCall)| match *call {
            FileCall::Read { file, offset, .. }
                if *phase == "random-read" && file == FileId(thread) =>
            {
                Some(offset)
            }
            _ => None,
        };
        calls.iter().filter_map(of).collect()
    };
    assert_ne!(places(0), places(1));
    assert!(
        places(2)
            .iter()
            .all(|offset| offset.is_multiple_of(4096) && *offset < 16_384)
    );
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut TiobenchSpec)| sound::refused(TiobenchSpec::check, change);
    let pair = |key, found: &str| (key, String::from(found));
    assert_eq!(refused(&|_| ()), pair("accepted", ""));
    assert_eq!(refused(&|s| s.block = 0), pair("block", "0"));
    assert_eq!(refused(&|s| s.bytes = 4095), pair("bytes", "4095"));
    assert_eq!(refused(&|s| s.threads = 0), pair("threads", "0"));
    assert_eq!(
        refused(&|s| s.random = 1 << 32),
        pair("random", "4294967296")
    );
    assert_eq!(
        refused(&|s| s.phases = [TiobenchPhase::Read].into()),
        pair("phases", "read")
    );
}

proptest! {
    #[test]
    fn every_stream_is_sound(
        seed: u64, bytes in 4096u64..100_000, block in 1u64..4096, threads in 1u64..5, random in 0u64..40, fsync: bool, truncate_first: bool,
        phases in prop::collection::btree_set(prop::sample::select(TiobenchPhase::ALL.to_vec()), 0..4),
    ) {
        let phases = phases.into_iter().chain([TiobenchPhase::Write]).collect();
        let contents = Look::Random;
        let spec = TiobenchSpec { seed, bytes, block, threads, random, fsync, truncate_first, contents, phases };
        let tiobench = Tiobench::new(spec).unwrap();
        let mut expected = Expected::new(tiobench.contents());
        for call in tiobench {
            expected.apply(&call).unwrap();
        }
        prop_assert_eq!(expected.files().map(|(_, length)| length).collect::<Vec<_>>(), alloc::vec![bytes / block * block; threads as usize]);
    }
}
