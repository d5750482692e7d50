//! A transaction's calls, worked out by hand.

use super::*;
use crate::files::{Expected, FileCalls, sound};
use proptest::prelude::*;

fn calls(spec: RollbackSpec) -> Vec<(&'static str, FileCall)> {
    let mut rollback = Rollback::new(spec).unwrap();
    let mut calls = Vec::new();
    while let Some(call) = rollback.next() {
        calls.push((rollback.phase(), call));
    }
    assert_eq!(rollback.share_done(), 1.0);
    calls
}

/// The calls of one transaction.
fn transaction(mode: JournalMode, full: bool) -> Vec<FileCall> {
    let calls = calls(RollbackSpec {
        pages: 2,
        transactions: 1,
        mode,
        full,
        ..RollbackSpec::default()
    });
    calls
        .into_iter()
        .filter(|(phase, _)| *phase == TRANSACTIONS)
        .map(|(_, call)| call)
        .collect()
}

fn write(file: FileId, offset: u64, length: u64, version: u32) -> FileCall {
    FileCall::Write {
        file,
        offset,
        length,
        version,
    }
}

fn read(offset: u64) -> FileCall {
    FileCall::Read {
        file: DATABASE,
        offset,
        length: 4096,
    }
}

/// Of two pages, up to the journal's first sync.
fn beginning() -> Vec<FileCall> {
    let record = |at| {
        [
            write(JOURNAL, at, 4, 1),
            write(JOURNAL, at + 4, 4096, 1),
            write(JOURNAL, at + 4100, 4, 1),
        ]
    };
    [
        &[read(0), read(4096)][..],
        &[write(JOURNAL, 0, 512, 1)],
        &record(512),
        &record(512 + 4104),
    ]
    .concat()
}

const SYNC_JOURNAL: FileCall = FileCall::Fdatasync { file: JOURNAL };
const SYNC_DATABASE: FileCall = FileCall::Fdatasync { file: DATABASE };

#[test]
fn a_removed_journal_is_made_synced_counted_synced_and_removed() {
    let mut expected = beginning();
    expected.insert(2, FileCall::Create { file: JOURNAL });
    expected.extend([SYNC_JOURNAL, write(JOURNAL, 0, 12, 2), SYNC_JOURNAL]);
    expected.extend([
        write(DATABASE, 0, 4096, 1),
        write(DATABASE, 4096, 4096, 1),
        SYNC_DATABASE,
    ]);
    expected.extend([
        FileCall::Close { file: JOURNAL },
        FileCall::Remove { file: JOURNAL },
    ]);
    assert_eq!(transaction(JournalMode::Delete, true), expected);
}

#[test]
fn other_journals_stay_and_end_in_their_ways() {
    let with = |synced: bool, end: &[FileCall]| {
        let first = if synced { &[SYNC_JOURNAL][..] } else { &[] };
        let commit = [
            write(JOURNAL, 0, 12, 2),
            SYNC_JOURNAL,
            write(DATABASE, 0, 4096, 1),
            write(DATABASE, 4096, 4096, 1),
            SYNC_DATABASE,
        ];
        [&beginning()[..], first, &commit, end].concat()
    };
    let cut = FileCall::Truncate {
        file: JOURNAL,
        length: 0,
    };
    assert_eq!(
        transaction(JournalMode::Truncate, true),
        with(true, &[cut, SYNC_JOURNAL])
    );
    assert_eq!(
        transaction(JournalMode::Truncate, false),
        with(false, &[cut])
    );
    assert_eq!(
        transaction(JournalMode::Persist, true),
        with(true, &[write(JOURNAL, 0, 28, 1), SYNC_JOURNAL])
    );
}

#[test]
fn the_database_is_there_before_the_first_transaction() {
    let calls = calls(RollbackSpec::default());
    let until = calls
        .iter()
        .position(|(phase, _)| *phase == TRANSACTIONS)
        .unwrap();
    let set_up: Vec<FileCall> = calls[..until].iter().map(|(_, call)| *call).collect();
    assert_eq!(
        set_up,
        [
            FileCall::Create { file: DATABASE },
            write(DATABASE, 0, 1 << 20, 0),
            FileCall::Sync
        ]
    );
}

#[test]
fn transactions_change_pages_everywhere_and_the_first_each_time() {
    let pages = |seed| {
        let of = |(_, call): (&str, FileCall)| match call {
            FileCall::Read { offset, .. } => Some(offset / 4096),
            _ => None,
        };
        calls(RollbackSpec {
            seed,
            changed: 3,
            ..RollbackSpec::default()
        })
        .into_iter()
        .filter_map(of)
        .collect::<Vec<u64>>()
    };
    let drawn = pages(1);
    assert_eq!(drawn.len(), 400);
    for transaction in drawn.chunks(4) {
        assert!(
            transaction[0] == 0 && transaction.is_sorted_by(|a, b| a < b),
            "{transaction:?}"
        );
    }
    assert!(drawn.iter().max() > Some(&240) && drawn != pages(2));
}

#[test]
fn what_is_no_database_is_refused_by_name() {
    let key = |change: &dyn Fn(&mut RollbackSpec)| sound::refused(RollbackSpec::check, change).0;
    assert_eq!(key(&|_| ()), "accepted");
    assert_eq!(key(&|s| s.page = 1000), "page");
    assert_eq!(key(&|s| s.page = 256), "page");
    assert_eq!(key(&|s| s.pages = 1), "pages");
    assert_eq!(key(&|s| s.pages = u64::MAX), "pages");
    assert_eq!(key(&|s| s.transactions = 0), "transactions");
    assert_eq!(key(&|s| s.changed = 256), "changed");
}

proptest! {
    /// Whatever the database, no call does what no program can, and what is written differs from
    /// what was there.
    #[test]
    fn every_stream_is_sound(
        seed: u64, pages in 2u64..40, page in 9u32..13, transactions in 1u64..20, changed in 0u64..6, mode in 0usize..3, full: bool,
    ) {
        let mode = [JournalMode::Delete, JournalMode::Truncate, JournalMode::Persist][mode];
        let spec = RollbackSpec { seed, pages, page: 1 << page, transactions, changed: changed.min(pages - 1), mode, full };
        let rollback = Rollback::new(spec).unwrap();
        let mut expected = Expected::new(rollback.contents());
        let mut open = [false; 2];
        let mut syncs = 0;
        for call in rollback {
            if let FileCall::Write { file, offset, length, .. } = call {
                let mut before = [0; 4];
                let mut after = [0; 4];
                expected.fill(file, offset, &mut before);
                expected.apply(&call).unwrap();
                expected.fill(file, offset, &mut after);
                prop_assert!(open[file.0 as usize] && length > 0 && before != after);
                continue;
            }
            expected.apply(&call).unwrap();
            match call {
                FileCall::Create { file } => prop_assert!(!core::mem::replace(&mut open[file.0 as usize], true)),
                FileCall::Close { file } => prop_assert!(core::mem::replace(&mut open[file.0 as usize], false)),
                FileCall::Remove { file } => prop_assert!(!open[file.0 as usize]),
                FileCall::Fdatasync { file } => {
                    prop_assert!(open[file.0 as usize]);
                    syncs += 1;
                }
                FileCall::Read { offset, length, .. } => prop_assert!(open[0] && offset + length <= pages << page),
                _ => {}
            }
        }
        prop_assert_eq!(open, [false; 2]);
        let ends = u64::from(mode == JournalMode::Persist || mode == JournalMode::Truncate && full);
        prop_assert_eq!(syncs, transactions * (2 + u64::from(full) + ends));
        let left = if mode == JournalMode::Delete { 1 } else { 2 };
        prop_assert_eq!(expected.files().count(), left);
    }
}
