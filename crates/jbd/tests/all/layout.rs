//! What a commit writes, byte for byte, in which order, and what recovery makes of bytes written by
//! hand.

use crate::common;
use crate::common::{BLOCK, contents, disk, journal_block, load, map, read, write};
use nandlab_block::{BlockDevice, Lba, Ram, Record, WriteLog};
use nandlab_jbd::{
    BLOCKS_MIN, Checkpoint, Journal, JournalError, Map, Options, Recovery, Tid, create,
};

/// A control block: magic, kind, sequence, then these words.
fn control(kind: u32, sequence: u32, words: &[u32]) -> Vec<u8> {
    let words = [&[0xC03B_3998, kind, sequence], words].concat();
    let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    block.resize(BLOCK as usize, 0);
    block
}

/// A superblock with the log's start and its first transaction.
fn superblock(start: u32, sequence: u32, incompatible: u32) -> Vec<u8> {
    control(
        4,
        0,
        &[
            BLOCK,
            40,
            1,
            sequence,
            start,
            0,
            0,
            incompatible,
            0,
            0,
            0,
            0,
            0,
            1,
        ],
    )
}

fn descriptor(sequence: u32, tags: &[(u32, u32)]) -> Vec<u8> {
    let mut words = vec![tags[0].0, tags[0].1, 0, 0, 0, 0];
    words.extend(tags[1..].iter().flat_map(|tag| [tag.0, tag.1]));
    control(1, sequence, &words)
}

fn commit(sequence: u32) -> Vec<u8> {
    control(2, sequence, &[])
}

fn revoke(sequence: u32, blocks: &[u32]) -> Vec<u8> {
    control(
        5,
        sequence,
        &[&[16 + 4 * blocks.len() as u32], blocks].concat(),
    )
}

/// A block that is no control block.
fn plain(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK as usize]
}

/// A block in one line: its beginning, and its bytes added up so that none may differ.
fn brief(block: &[u8]) -> String {
    let hex: String = block[..28]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "{hex}.. {:016x}",
        block
            .iter()
            .fold(0, |sum, byte| nandlab_sim::mix(sum, u64::from(*byte)))
    )
}

/// Requests in order: where, and what in each block.
fn requests(log: &[Record]) -> Vec<(u64, Vec<String>)> {
    let request = |record: &Record| match record {
        Record::Write { lba, data } => write_of(lba.0 / 2, &[data]),
        Record::Flush => flush(),
        other => panic!("{other:?}"),
    };
    log.iter().map(request).collect()
}

fn flush() -> (u64, Vec<String>) {
    (u64::MAX, vec!["flush".into()])
}

fn write_of(place: u64, blocks: &[&[u8]]) -> (u64, Vec<String>) {
    (
        place,
        blocks.concat().chunks(BLOCK as usize).map(brief).collect(),
    )
}

#[test]
fn a_transaction_is_laid_out_as_linux_does() {
    let mut journal = load(WriteLog::new(disk(6)), Checkpoint::Copy);
    let mut handle = journal.start(5, 0).unwrap();
    journal.ordered(&mut handle, 30, &plain(0x30)).unwrap();
    journal.revoke(&mut handle, 9).unwrap();
    journal.revoke(&mut handle, 8).unwrap();
    journal.replace(&mut handle, 12, &plain(0x12)).unwrap();
    let mut escaped = plain(0x11);
    escaped[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
    journal.replace(&mut handle, 11, &escaped).unwrap();
    let tid = journal.stop(handle).unwrap();
    assert_eq!(tid, Tid(7));
    journal.sync(tid).unwrap();

    escaped[..4].fill(0);
    let at = journal_block(1);
    let expected = [
        write_of(30, &[&plain(0x30)]),
        flush(),
        write_of(journal_block(0), &[&superblock(1, 7, 1)]),
        flush(),
        write_of(at, &[&revoke(7, &[8, 9])]),
        write_of(
            at + 1,
            &[
                &descriptor(7, &[(11, 1), (12, 2 + 8)]),
                &escaped,
                &plain(0x12),
            ],
        ),
        flush(),
        write_of(at + 4, &[&commit(7)]),
        flush(),
    ];
    assert_eq!(requests(journal.device_mut().records()), expected);
    let tally = journal.tally();
    assert_eq!(
        (
            tally.commits,
            tally.ordered,
            tally.logged,
            tally.control,
            tally.superblocks
        ),
        (1, 1, 2, 3, 1)
    );

    // The second one needs no superblock, and stays in the log behind the first.
    journal.device_mut().clear();
    let mut handle = journal.start(1, 0).unwrap();
    journal.change(&mut handle, 12).unwrap()[0] = 0xEE;
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    let mut block = plain(0x12);
    block[0] = 0xEE;
    let copy = write_of(at + 5, &[&descriptor(8, &[(12, 8)]), &block]);
    let expected = [copy, flush(), write_of(at + 7, &[&commit(8)]), flush()];
    assert_eq!(requests(journal.device_mut().records()), expected);

    // A checkpoint writes each block's newest version once, and then the superblock.
    journal.device_mut().clear();
    journal.checkpoint().unwrap();
    escaped[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
    let expected = [
        write_of(11, &[&escaped, &block]),
        flush(),
        write_of(journal_block(0), &[&superblock(9, 9, 1)]),
        flush(),
    ];
    assert_eq!(requests(journal.device_mut().records()), expected);

    journal.device_mut().clear();
    let log = journal.close().unwrap();
    let expected = [
        flush(),
        write_of(journal_block(0), &[&superblock(0, 10, 1)]),
        flush(),
        flush(),
    ];
    assert_eq!(requests(log.records()), expected);
}

#[test]
fn without_barriers_the_order_is_the_same_and_nothing_waits() {
    let base = disk(1);
    let options = Options {
        barriers: false,
        ..Options::default()
    };
    let mut journal = Journal::load(WriteLog::new(base), map(), BLOCK, options).unwrap();
    let mut handle = journal.start(1, 0).unwrap();
    journal.replace(&mut handle, 5, &plain(5)).unwrap();
    journal.ordered(&mut handle, 4, &plain(4)).unwrap();
    let tid = journal.stop(handle).unwrap();
    journal.sync(tid).unwrap();
    let places: Vec<u64> = requests(journal.device_mut().records())
        .iter()
        .map(|request| request.0)
        .collect();
    assert_eq!(
        places,
        [4, journal_block(0), journal_block(1), journal_block(3)]
    );
}

#[test]
fn many_blocks_take_several_descriptors_and_revoke_blocks() {
    // 2000 blocks of journal behind 1100 of home.
    let map: Map = (1100..3100).collect();
    let mut disk = Ram::new(1024, 3100);
    create(&mut disk, map.clone(), 1024).unwrap();
    let mut journal = Journal::load(disk, map.clone(), 1024, Options::default()).unwrap();
    assert_eq!(journal.credits_max(), 500);
    let mut handle = journal.start(500, 0).unwrap();
    (0..245).for_each(|block| {
        journal
            .replace(&mut handle, block, &contents(block))
            .unwrap()
    });
    (700..955).for_each(|block| journal.revoke(&mut handle, block).unwrap());
    assert_eq!(handle.credits(), 0);
    assert_eq!(
        journal.replace(&mut handle, 600, &plain(1)).unwrap_err(),
        JournalError::NoCredit { block: 600 }
    );
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    // 252 records and 122 tags a block: 2 revoke blocks, 3 descriptors, 1 commit block.
    assert_eq!((journal.tally().control, journal.tally().logged), (6, 245));
    let mut disk = journal.into_device();
    let kinds: Vec<u8> = [1, 2, 3, 3 + 123, 3 + 246, 3 + 248]
        .iter()
        .map(|log| read_one(&mut disk, 1100 + log)[7])
        .collect();
    assert_eq!(kinds, [5, 5, 1, 1, 1, 2]);
    let journal = Journal::load(disk, map, 1024, Options::default()).unwrap();
    assert_eq!(
        journal.recovery(),
        Recovery {
            transactions: 1,
            copied: 245,
            ..Recovery::default()
        }
    );
    let mut disk = journal.into_device();
    (0..245).for_each(|block| {
        assert!(
            read_one(&mut disk, block) == contents(block),
            "block {block}"
        )
    });
}

fn read_one(disk: &mut Ram, block: u64) -> Vec<u8> {
    let mut data = vec![0; 1024];
    disk.read(Lba(block), &mut data).unwrap();
    data
}

/// A disk whose log holds these blocks from `start` on.
fn written(start: u32, sequence: u32, log: &[Vec<u8>]) -> Ram {
    let mut disk = disk(1);
    write(&mut disk, journal_block(0), &superblock(start, sequence, 1));
    for (index, block) in (0..).zip(log) {
        // Blocks 1 to 39 are a ring.
        write(
            &mut disk,
            journal_block((u64::from(start) - 1 + index) % 39 + 1),
            block,
        );
    }
    disk
}

/// Recovers by copying and by remapping, which must come to the same; gives the disk and what was
/// found by copying.
fn recovered(disk: &Ram) -> (Ram, Recovery) {
    let by = |mode| {
        let journal = load(disk.clone(), mode);
        let recovery = journal.recovery();
        (journal.into_device(), recovery)
    };
    let (mut copied, found) = by(Checkpoint::Copy);
    let (mut remapped, also) = by(Checkpoint::Remap);
    assert_eq!(
        (found.transactions, found.copied),
        (also.transactions, also.copied + also.remapped)
    );
    assert_eq!(
        read(&mut copied, journal_block(0)),
        read(&mut remapped, journal_block(0))
    );
    for block in 0..common::HOMES {
        assert_eq!(
            read(&mut copied, block),
            read(&mut remapped, block),
            "block {block}"
        );
    }
    (copied, found)
}

#[test]
fn committed_transactions_come_home_and_the_rest_does_not() {
    let log = [
        descriptor(9, &[(3, 0), (4, 2 + 8)]),
        plain(3),
        plain(4),
        commit(9),
        descriptor(10, &[(5, 8)]),
        plain(5),
    ];
    let (mut disk, found) = recovered(&written(7, 9, &log));
    assert_eq!(
        found,
        Recovery {
            transactions: 1,
            copied: 2,
            ..Recovery::default()
        }
    );
    assert_eq!(
        (read(&mut disk, 3), read(&mut disk, 4)),
        (plain(3), plain(4))
    );
    assert_eq!(read(&mut disk, 5), contents(u64::MAX - 5));
    // As Linux leaves it, but empty: one number is skipped.
    assert_eq!(read(&mut disk, journal_block(0)), superblock(0, 11, 1));
}

#[test]
fn recovery_goes_round_the_end_of_the_log_and_of_the_numbers() {
    let log = [
        descriptor(u32::MAX, &[(3, 0), (4, 2), (6, 1 + 2 + 8)]),
        plain(3),
        plain(4),
        [&[0; 4], &plain(6)[4..]].concat(),
        commit(u32::MAX),
        descriptor(0, &[(3, 8)]),
        plain(0x33),
        commit(0),
    ];
    for start in 30..40 {
        let (mut disk, found) = recovered(&written(start, u32::MAX, &log));
        assert_eq!(
            found,
            Recovery {
                transactions: 2,
                copied: 3,
                superseded: 1,
                ..Recovery::default()
            },
            "from {start}"
        );
        assert_eq!(
            (read(&mut disk, 3), read(&mut disk, 4)),
            (plain(0x33), plain(4))
        );
        let restored = [&[0xC0, 0x3B, 0x39, 0x98], &plain(6)[4..]].concat();
        assert_eq!(read(&mut disk, 6), restored);
    }
}

#[test]
fn a_revoke_holds_for_its_own_transaction_and_older_ones() {
    let log = [
        descriptor(2, &[(3, 0), (4, 2), (5, 2 + 8)]),
        plain(0x23),
        plain(0x24),
        plain(0x25),
        commit(2),
        revoke(3, &[3, 4]),
        descriptor(3, &[(4, 8)]),
        plain(0x34),
        commit(3),
        descriptor(4, &[(3, 8)]),
        plain(0x43),
        commit(4),
        // Not committed, so it does not count.
        revoke(5, &[5]),
    ];
    let (mut disk, found) = recovered(&written(1, 2, &log));
    assert_eq!(
        found,
        Recovery {
            transactions: 3,
            copied: 2,
            revoked: 3,
            ..Recovery::default()
        }
    );
    assert_eq!(
        (read(&mut disk, 3), read(&mut disk, 5)),
        (plain(0x43), plain(0x25))
    );
    assert_eq!(read(&mut disk, 4), contents(u64::MAX - 4));
}

#[test]
fn an_empty_log_and_a_log_that_only_commits_bring_nothing_home() {
    let (mut disk, found) = recovered(&written(1, 2, &[]));
    assert_eq!(
        (found, read(&mut disk, journal_block(0))),
        (Recovery::default(), superblock(0, 3, 1))
    );
    let (mut disk, found) = recovered(&written(
        1,
        2,
        &[commit(2), commit(3), commit(3), commit(4)],
    ));
    assert_eq!(
        (found.transactions, read(&mut disk, journal_block(0))),
        (2, superblock(0, 5, 1))
    );
}

#[test]
fn a_log_full_to_the_last_block_is_recovered_without_a_spare_one() {
    let tags: Vec<(u32, u32)> = (3..40)
        .map(|home| {
            (
                home,
                if home == 3 { 0 } else { 2 } + if home == 39 { 8 } else { 0 },
            )
        })
        .collect();
    let mut log = vec![descriptor(2, &tags)];
    log.extend((3..40).map(plain));
    log.push(commit(2));
    assert_eq!(log.len(), 39);
    let (mut disk, found) = recovered(&written(20, 2, &log));
    assert_eq!((found.transactions, found.copied), (1, 37));
    (3..40).for_each(|home| assert_eq!(read(&mut disk, home), plain(home as u8)));
}

#[test]
fn a_descriptor_that_points_round_the_log_ends_it() {
    // A torn one: tags without a last one.
    let endless = control(1, 2, &[0x0000_0002; 200]);
    let (_, found) = recovered(&written(1, 2, &[endless]));
    assert_eq!(found, Recovery::default());
    let (_, found) = recovered(&written(1, 2, &[commit(2), control(1, 3, &[2; 200])]));
    assert_eq!(found.transactions, 1);
}

fn refusal(disk: &Ram) -> JournalError {
    let before: Vec<Vec<u8>> = (0..common::BLOCKS)
        .map(|block| read(&mut disk.clone(), block))
        .collect();
    let mut fork = disk.clone();
    let error = Journal::load(&mut fork, map(), BLOCK, Options::default()).unwrap_err();
    let after: Vec<Vec<u8>> = (0..common::BLOCKS)
        .map(|block| read(&mut fork, block))
        .collect();
    assert!(before == after, "refused, and yet written to");
    error
}

#[test]
fn a_log_that_cannot_be_right_is_refused_before_anything_is_written() {
    let good = [descriptor(2, &[(3, 8)]), plain(3), commit(2)];
    for home in [common::BLOCKS as u32, u32::MAX, 130, 89] {
        let log = [
            &good[..],
            &[
                descriptor(3, &[(4, 0), (home, 2 + 8)]),
                plain(4),
                plain(5),
                commit(3),
            ],
        ]
        .concat();
        let expected = JournalError::Tag {
            log: 4,
            home: u64::from(home),
            blocks: common::BLOCKS,
        };
        assert_eq!(refusal(&written(1, 2, &log)), expected);
    }
    let log = [&good[..], &[control(5, 3, &[2000]), commit(3)]].concat();
    assert_eq!(
        refusal(&written(1, 2, &log)),
        JournalError::RevokeCount {
            log: 4,
            found: 2000,
            most: 1024
        }
    );
}

#[test]
fn a_journal_that_cannot_be_right_is_refused_with_place_and_value() {
    let mut disk = disk(1);
    write(&mut disk, journal_block(0), &superblock(0, 1, 0x40));
    assert_eq!(
        refusal(&disk),
        JournalError::Features {
            offset: 40,
            found: 0x40,
            known: 0x3F
        }
    );
    let few: Map = (0..10).collect();
    assert_eq!(
        create(&mut disk, few.clone(), BLOCK),
        Err(JournalError::Short {
            found: 10,
            least: BLOCKS_MIN
        })
    );
    let short = Journal::load(&mut disk, few, BLOCK, Options::default()).err();
    assert_eq!(
        short,
        Some(JournalError::Short {
            found: 10,
            least: BLOCKS_MIN
        })
    );
    let first = control(4, 0, &[BLOCK, 40, 30, 1, 0]);
    write(&mut disk, journal_block(0), &first);
    assert_eq!(
        refusal(&disk),
        JournalError::Short {
            found: 11,
            least: BLOCKS_MIN
        }
    );
}

/// Any bytes at all, in the log and in the superblock: an error or a journal, no panic and no
/// endless loop.
#[test]
fn no_bytes_make_recovery_panic() {
    let mut outcomes = [0; 2];
    for seed in 0..6_000u64 {
        let word = |i| nandlab_sim::mix(seed, i);
        let mut log = Vec::new();
        let mut tid = 2;
        for i in 0..12 {
            let tags: Vec<(u32, u32)> = (0..1 + word(i) % 4)
                .map(|n| (word(i * 9 + n) as u32 % 170, word(i * 7 + n) as u32 % 16))
                .collect();
            log.push(match word(100 + i) % 6 {
                0 | 1 => descriptor(tid, &tags),
                2 => {
                    tid += 1;
                    commit(tid - 1)
                }
                3 => control(5, tid, &[word(200 + i) as u32 % 1100, 3, 4, 5]),
                _ => contents(word(i)),
            });
        }
        let mut disk = written(1 + word(50) as u32 % 39, 2, &log);
        if word(51) % 4 == 0 {
            let mut sb = read(&mut disk, journal_block(0));
            sb[word(52) as usize % 64] ^= 1 << (word(53) % 8);
            write(&mut disk, journal_block(0), &sb);
        }
        let mode = if word(54) % 2 == 0 {
            Checkpoint::Copy
        } else {
            Checkpoint::Remap
        };
        let loaded = Journal::load(
            disk,
            map(),
            BLOCK,
            Options {
                checkpoint: mode,
                ..Options::default()
            },
        );
        outcomes[usize::from(loaded.is_ok())] += 1;
    }
    assert!(
        outcomes[0] > 600 && outcomes[1] > 600,
        "{outcomes:?} refused and loaded"
    );
}
