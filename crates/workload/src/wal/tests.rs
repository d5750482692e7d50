//! A log's life, worked out by hand.

use super::*;
use crate::files::sound;
use proptest::prelude::*;

fn write(file: FileId, offset: u64, length: u64, version: u32) -> FileCall {
    FileCall::Write {
        file,
        offset,
        length,
        version,
    }
}

fn read(file: FileId, offset: u64) -> FileCall {
    FileCall::Read {
        file,
        offset,
        length: 512,
    }
}

const SYNC_LOG: FileCall = FileCall::Fdatasync { file: LOG };
const SYNC_DATABASE: FileCall = FileCall::Fdatasync { file: DATABASE };

/// Of a database of one page, and a log that is brought home at two.
fn tiny(full: bool) -> WalSpec {
    WalSpec {
        seed: 1,
        pages: 1,
        page: 512,
        transactions: 3,
        changed: 1,
        checkpoint: 2,
        full,
    }
}

#[test]
fn pages_go_to_the_log_and_home_when_that_is_long_enough() {
    let found = sound::run(Wal::new(tiny(true)).unwrap());
    let second = 32 + 24 + 512;
    let expected = [
        // The first transaction begins the log.
        &[
            read(DATABASE, 0),
            write(LOG, 0, 32, 1),
            SYNC_LOG,
            write(LOG, 32, 24, 1),
            write(LOG, 56, 512, 1),
            SYNC_LOG,
        ][..],
        // The second finds its page there, and fills the log.
        &[
            read(LOG, 56),
            write(LOG, second, 24, 2),
            write(LOG, second + 24, 512, 2),
            SYNC_LOG,
        ],
        &[
            SYNC_LOG,
            read(LOG, second + 24),
            write(DATABASE, 0, 512, 2),
            SYNC_DATABASE,
        ],
        // The third begins it anew, over what was there.
        &[
            read(DATABASE, 0),
            write(LOG, 0, 32, 3),
            SYNC_LOG,
            write(LOG, 32, 24, 3),
            write(LOG, 56, 512, 3),
            SYNC_LOG,
        ],
    ];
    assert_eq!(found.of(TRANSACTIONS), expected.concat());
    let end = [
        SYNC_LOG,
        read(LOG, 56),
        write(DATABASE, 0, 512, 4),
        SYNC_DATABASE,
    ];
    let close = [
        FileCall::Close { file: LOG },
        FileCall::Remove { file: LOG },
        FileCall::Close { file: DATABASE },
    ];
    assert_eq!(found.of(CLOSE), [&end[..], &close].concat());
}

#[test]
fn normal_commits_are_not_durable_but_what_is_brought_home_is() {
    let found = sound::run(Wal::new(tiny(false)).unwrap());
    let syncs: Vec<FileCall> = found
        .of(TRANSACTIONS)
        .into_iter()
        .filter(|call| matches!(call, FileCall::Fdatasync { .. }))
        .collect();
    assert_eq!(syncs, [SYNC_LOG, SYNC_LOG, SYNC_DATABASE, SYNC_LOG]);
}

#[test]
fn the_default_brings_home_once() {
    let found = sound::run(Wal::new(WalSpec::default()).unwrap());
    assert_eq!(found.count(|call| *call == SYNC_DATABASE), 1);
    assert_eq!(found.count(|call| *call == SYNC_LOG), 1000 + 2);
    let home = found.count(
        |call| matches!(call, FileCall::Write { file: DATABASE, offset, .. } if *offset > 0),
    );
    assert!((240..256).contains(&home), "{home} of 256 pages, each once");
}

#[test]
fn what_is_no_database_is_refused_by_name() {
    let key = |change: &dyn Fn(&mut WalSpec)| sound::refused(WalSpec::check, change).0;
    assert_eq!(key(&|_| ()), "accepted");
    assert_eq!(key(&|s| s.page = 1000), "page");
    assert_eq!(key(&|s| s.pages = 0), "pages");
    assert_eq!(key(&|s| s.transactions = 0), "transactions");
    assert_eq!(key(&|s| s.changed = 0), "changed");
    assert_eq!(key(&|s| s.changed = 257), "changed");
    assert_eq!(key(&|s| s.checkpoint = 0), "checkpoint");
}

proptest! {
    /// Whatever the database, no call does what no program can.
    #[test]
    fn every_stream_is_sound(seed: u64, pages in 1u64..40, transactions in 1u64..60, changed in 1u64..6, checkpoint in 1u64..40, full: bool) {
        let spec = WalSpec { seed, pages, page: 512, transactions, changed: changed.min(pages), checkpoint, full };
        let found = sound::run(Wal::new(spec.clone()).unwrap());
        prop_assert_eq!(found.expected.files().collect::<Vec<_>>(), [(DATABASE, pages * 512)]);
        let logged = found.count(|call| matches!(call, FileCall::Write { file: LOG, length: 512, .. })) as u64;
        prop_assert_eq!(logged, transactions * spec.changed);
    }
}
