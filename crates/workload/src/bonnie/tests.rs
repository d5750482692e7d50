//! Calls and bytes of each phase, worked out by hand.

use super::*;
use crate::files::{Expected, FileCalls, sound};
use alloc::{collections::BTreeMap, vec::Vec};
use proptest::prelude::*;

/// What a phase amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    reads: u64,
    bytes_read: u64,
    writes: u64,
    bytes_written: u64,
    fsyncs: u64,
    instructions: u64,
    /// Opening, closing, creating, removing.
    others: u64,
}

fn calls(spec: BonnieSpec) -> Vec<(&'static str, FileCall)> {
    let mut bonnie = Bonnie::new(spec).unwrap();
    let mut calls = Vec::new();
    while let Some(call) = bonnie.next() {
        calls.push((bonnie.phase(), call));
    }
    assert_eq!(bonnie.share_done(), 1.0);
    calls
}

fn sums(calls: &[(&'static str, FileCall)]) -> BTreeMap<&'static str, Sum> {
    let mut sums = BTreeMap::<_, Sum>::new();
    for (phase, call) in calls {
        let sum = sums.entry(*phase).or_default();
        match call {
            FileCall::Read { length, .. } => {
                (sum.reads, sum.bytes_read) = (sum.reads + 1, sum.bytes_read + length)
            }
            FileCall::Write { length, .. } => {
                (sum.writes, sum.bytes_written) = (sum.writes + 1, sum.bytes_written + length)
            }
            FileCall::Fsync { .. } => sum.fsyncs += 1,
            FileCall::Compute { instructions } => sum.instructions += instructions,
            _ => sum.others += 1,
        }
    }
    sums
}

/// A mebibyte, and one seek for every ten of the default.
fn small() -> BonnieSpec {
    BonnieSpec {
        bytes: 1 << 20,
        chunk: 16_384,
        seeks: 400,
        ..BonnieSpec::default()
    }
}

#[test]
fn each_phase_reads_writes_and_computes_what_the_program_does() {
    let sums = sums(&calls(small()));
    let close = Sum {
        others: 1,
        ..Sum::default()
    };
    let fsynced = Sum {
        others: 1,
        fsyncs: 1,
        ..Sum::default()
    };
    assert_eq!(
        sums["putc"],
        Sum {
            writes: 256,
            bytes_written: 1 << 20,
            instructions: 30 << 20,
            ..fsynced
        }
    );
    assert_eq!(
        sums["rewrite"],
        Sum {
            reads: 64,
            bytes_read: 1 << 20,
            writes: 64,
            bytes_written: 1 << 20,
            ..fsynced
        }
    );
    assert_eq!(
        sums["write"],
        Sum {
            writes: 64,
            bytes_written: 1 << 20,
            ..fsynced
        }
    );
    assert_eq!(
        sums["getc"],
        Sum {
            reads: 256,
            bytes_read: 1 << 20,
            instructions: 26 << 20,
            ..close
        }
    );
    assert_eq!(
        sums["read"],
        Sum {
            reads: 64,
            bytes_read: 1 << 20,
            ..close
        }
    );
    // 134 turns of three processes, the last of one: turns 0, 10, ... 130 update.
    assert_eq!(
        sums["seeks"],
        Sum {
            reads: 400,
            bytes_read: 400 << 14,
            writes: 14 * 3,
            bytes_written: (14 * 3) << 14,
            ..close
        }
    );
    // Made twice, removed once, opened four times.
    assert_eq!(
        sums["set-up"],
        Sum {
            others: 7,
            ..Sum::default()
        }
    );
    assert_eq!(sums.len(), 7);
}

#[test]
fn phases_come_in_the_programs_order_and_the_block_write_makes_a_new_file() {
    let calls = calls(small());
    let mut order: Vec<&str> = calls
        .iter()
        .map(|(phase, _)| *phase)
        .filter(|phase| *phase != SET_UP)
        .collect();
    order.dedup();
    assert_eq!(order, BonniePhase::ALL.map(BonniePhase::name));
    let set_up: Vec<FileCall> = calls
        .iter()
        .filter(|(phase, _)| *phase == SET_UP)
        .map(|(_, call)| *call)
        .collect();
    let [create, open, remove] = [
        FileCall::Create { file: FILE },
        FileCall::Open { file: FILE },
        FileCall::Remove { file: FILE },
    ];
    assert_eq!(set_up, [create, open, remove, create, open, open, open]);
}

#[test]
fn the_file_is_rounded_down_to_blocks_and_its_last_buffer_is_shorter() {
    let phases = [BonniePhase::Putc, BonniePhase::Getc].into();
    let sums = sums(&calls(BonnieSpec {
        bytes: 10_999,
        chunk: 1000,
        phases,
        ..BonnieSpec::default()
    }));
    assert_eq!(
        (
            sums["putc"].writes,
            sums["putc"].bytes_written,
            sums["putc"].instructions
        ),
        (3, 10_000, 300_000)
    );
    assert_eq!(
        (
            sums["getc"].reads,
            sums["getc"].bytes_read,
            sums["getc"].instructions
        ),
        (3, 10_000, 260_000)
    );
}

#[test]
fn the_default_seeks_as_often_as_the_program_and_updates_every_tenth_of_each_process() {
    let spec = BonnieSpec {
        bytes: 1 << 20,
        phases: [BonniePhase::Write, BonniePhase::Seeks].into(),
        ..BonnieSpec::default()
    };
    let sums = sums(&calls(spec));
    // 1333 turns of three and one more: 134 of the turns update.
    assert_eq!((sums["seeks"].reads, sums["seeks"].writes), (4000, 402));
}

#[test]
fn seeks_go_everywhere_and_another_seed_goes_elsewhere() {
    let places = |seed| {
        let of = |(phase, call): (&str, FileCall)| match call {
            FileCall::Read { offset, .. } if phase == "seeks" => Some(offset / 16_384),
            _ => None,
        };
        calls(BonnieSpec { seed, ..small() })
            .into_iter()
            .filter_map(of)
            .collect::<Vec<u64>>()
    };
    let once = places(1);
    assert_eq!(once, places(1));
    assert_ne!(once, places(2));
    assert!(once.iter().all(|place| *place < 64));
    assert!(
        once.iter().collect::<BTreeSet<_>>().len() > 60,
        "of 64 blocks, 400 draws leave out one in 600"
    );
}

#[test]
fn without_fsync_there_is_none_and_without_keeping_no_file() {
    let calls = calls(BonnieSpec {
        fsync: false,
        keep: false,
        ..small()
    });
    assert!(
        calls
            .iter()
            .all(|(_, call)| !matches!(call, FileCall::Fsync { .. }))
    );
    assert_eq!(
        calls.last(),
        Some(&(SET_UP, FileCall::Remove { file: FILE }))
    );
}

#[test]
fn a_sync_of_everything_ends_each_phase_that_writes_in_sequence() {
    let calls = calls(BonnieSpec {
        sync_all: true,
        ..small()
    });
    let synced: Vec<&str> = calls
        .iter()
        .filter(|(_, call)| *call == FileCall::Sync)
        .map(|(phase, _)| *phase)
        .collect();
    assert_eq!(synced, ["putc", "rewrite", "write"]);
    for (n, (phase, _)) in calls
        .iter()
        .enumerate()
        .filter(|(_, (_, call))| *call == FileCall::Sync)
    {
        assert_eq!(
            calls[n - 1..][..3],
            [
                (*phase, FileCall::Fsync { file: FILE }),
                calls[n],
                (*phase, FileCall::Close { file: FILE })
            ]
        );
    }
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut BonnieSpec)| sound::refused(BonnieSpec::check, change);
    let pair = |key, found: &str| (key, String::from(found));
    assert_eq!(refused(&|_| ()), pair("accepted", ""));
    assert_eq!(refused(&|s| s.chunk = 0), pair("chunk", "0"));
    assert_eq!(refused(&|s| s.bytes = 4095), pair("bytes", "4095"));
    assert_eq!(
        refused(&|s| s.bytes = u64::MAX),
        pair("bytes", "18446744073709551615")
    );
    assert_eq!(refused(&|s| s.stdio_buffer = 0), pair("stdio buffer", "0"));
    assert_eq!(refused(&|s| s.seeks = 0), pair("seeks", "0"));
    assert_eq!(refused(&|s| s.seekers = 0), pair("seekers", "0"));
    assert_eq!(refused(&|s| s.update_every = 0), pair("update every", "0"));
    assert_eq!(
        refused(&|s| s.putc_instructions = 1 << 40),
        pair("putc instructions", "1099511627776")
    );
    assert_eq!(
        refused(&|s| s.getc_instructions = 1 << 40),
        pair("getc instructions", "1099511627776")
    );
    assert_eq!(refused(&|s| s.phases.clear()), pair("phases", "none"));
    assert_eq!(
        refused(&|s| s.phases = [BonniePhase::Rewrite, BonniePhase::Write].into()),
        pair("phases", "rewrite")
    );
    assert_eq!(
        refused(&|s| s.phases = [BonniePhase::Getc].into()),
        pair("phases", "getc")
    );
}

proptest! {
    /// Whatever the run, no call does what no program can, every read finds what was written, and
    /// every rewriting has contents of its own.
    #[test]
    fn every_run_is_sound(
        seed: u64, chunk in 1u64..3000, chunks in 1u64..20, rest in 0u64..3000, stdio_buffer in 1u64..5000, seeks in 1u64..60, seekers in 1u64..5,
        update_every in 1u64..12, fsync: bool, keep: bool, chosen in 0u8..64,
    ) {
        let phases: BTreeSet<_> = BonniePhase::ALL.into_iter().enumerate().filter(|(n, _)| chosen & 1 << n != 0).map(|(_, phase)| phase).collect();
        let bytes = chunk * chunks + rest % chunk;
        let spec = BonnieSpec { seed, bytes, chunk, stdio_buffer, seeks, seekers, update_every, fsync, keep, phases, ..BonnieSpec::default() };
        let Ok(bonnie) = Bonnie::new(spec) else { return Ok(()) };
        let mut expected = Expected::new(bonnie.contents());
        let mut open = false;
        let mut last = BTreeMap::new();
        for call in bonnie {
            expected.apply(&call).unwrap();
            match call {
                FileCall::Create { .. } | FileCall::Open { .. } => prop_assert!(!core::mem::replace(&mut open, true)),
                FileCall::Close { .. } => prop_assert!(core::mem::replace(&mut open, false)),
                FileCall::Remove { .. } => prop_assert!(!open),
                FileCall::Read { offset, length, .. } => {
                    prop_assert!(open && length > 0 && offset + length <= chunk * chunks);
                    prop_assert_eq!(expected.files().next(), Some((FILE, chunk * chunks)));
                }
                FileCall::Write { offset, length, version, .. } => {
                    prop_assert!(open && length > 0 && offset + length <= chunk * chunks);
                    prop_assert_ne!(last.insert(offset, version), Some(version));
                }
                FileCall::Fsync { .. } => prop_assert!(open && fsync),
                _ => {}
            }
        }
        prop_assert!(!open);
        prop_assert_eq!(expected.files().next(), keep.then_some((FILE, chunk * chunks)));
    }
}
