//! What handles, transactions and checkpoints promise their caller.

use crate::common::{BLOCK, Limited, contents, disk, journal_block, load, read, write};
use nandlab_block::{BlockDevice, BlockError, Fault, FaultInjector, Op, Ram, Record, WriteLog};
use nandlab_jbd::{Checkpoint, Journal, JournalError, State, Tid};
use nandlab_sim::Schedule;

fn journal(checkpoint: Checkpoint) -> Journal<WriteLog<Ram>> {
    load(WriteLog::new(disk(1)), checkpoint)
}

fn plain(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK as usize]
}

/// One block in a handle of its own.
fn put<D: BlockDevice>(journal: &mut Journal<D>, block: u64, byte: u8) -> Tid {
    let mut handle = journal.start(1, 0).unwrap();
    journal.replace(&mut handle, block, &plain(byte)).unwrap();
    journal.stop(handle).unwrap()
}

/// What a crash now would leave in a block.
fn after_crash(journal: &mut Journal<WriteLog<Ram>>, block: u64) -> u8 {
    let mut base = disk(1);
    let log = journal.device_mut().clone();
    log.replay(usize::MAX, &mut base, |_, _| false).unwrap();
    read(&mut load(base, Checkpoint::Copy).into_device(), block)[0]
}

#[test]
fn one_commit_serves_all_handles_that_wait_for_it() {
    let mut journal = journal(Checkpoint::Copy);
    let tids = [3, 4, 5].map(|block| put(&mut journal, block, 9));
    assert_eq!(tids, [Tid(2); 3]);
    tids.iter().for_each(|tid| journal.sync(*tid).unwrap());
    assert_eq!(journal.tally().commits, 1);
    let written = journal.device_mut().records().len();
    journal.sync(tids[0]).unwrap();
    journal.commit().unwrap();
    assert_eq!(
        journal.device_mut().records().len(),
        written,
        "nothing to commit, and yet written"
    );
}

#[test]
fn a_handle_keeps_its_transaction_from_committing() {
    let mut journal = journal(Checkpoint::Copy);
    let mut handle = journal.start(2, 0).unwrap();
    journal.replace(&mut handle, 3, &plain(1)).unwrap();
    assert_eq!(journal.commit(), Err(JournalError::Busy { handles: 1 }));
    assert_eq!(
        (journal.state(), journal.step()),
        (Some(State::Locked), Ok(Some(State::Locked)))
    );
    // Locked: nobody joins any more, the open handle goes on.
    assert_eq!(
        journal.start(1, 0).unwrap_err(),
        JournalError::Busy { handles: 1 }
    );
    journal.replace(&mut handle, 4, &plain(1)).unwrap();
    let tid = journal.stop(handle).unwrap();
    assert_eq!(put(&mut journal, 5, 1), tid.next());
    assert_eq!(
        [3, 4, 5].map(|block| after_crash(&mut journal, block)),
        [1, 1, contents(u64::MAX - 5)[0]]
    );
}

#[test]
fn a_committing_transaction_keeps_its_version_of_what_is_changed_again() {
    let mut journal = journal(Checkpoint::Copy);
    put(&mut journal, 3, 1);
    assert_eq!(journal.start_commit(), Ok(Some(State::Flush)));
    assert_eq!(put(&mut journal, 3, 2), Tid(3));
    assert_eq!(
        (journal.get(3).unwrap()[0], journal.committed(3).unwrap()[0]),
        (2, contents(u64::MAX - 3)[0])
    );
    let states: Vec<State> = std::iter::from_fn(|| {
        journal
            .step()
            .unwrap()
            .filter(|state| *state != State::Running)
    })
    .collect();
    assert_eq!(states, [State::Commit, State::Commit, State::Finished]);
    assert_eq!(
        (
            journal.get(3).unwrap()[0],
            journal.committed(3).unwrap()[0],
            after_crash(&mut journal, 3)
        ),
        (2, 1, 1)
    );
    // Brought home while the running transaction has another version.
    journal.checkpoint().unwrap();
    assert_eq!(
        (
            read(journal.device_mut(), 3)[0],
            journal.get(3).unwrap()[0],
            after_crash(&mut journal, 3)
        ),
        (1, 2, 1)
    );
    journal.commit().unwrap();
    assert_eq!(
        (
            journal.committed(3).unwrap()[0],
            after_crash(&mut journal, 3)
        ),
        (2, 2)
    );
}

#[test]
fn a_transaction_larger_than_a_quarter_of_the_journal_is_refused() {
    let mut journal = journal(Checkpoint::Copy);
    assert_eq!(
        journal.start(11, 0).unwrap_err(),
        JournalError::TooLarge {
            credits: 11,
            most: 10
        }
    );
    let mut handle = journal.start(6, 0).unwrap();
    assert_eq!(
        (
            journal.extend(&mut handle, 5),
            journal.extend(&mut handle, 4)
        ),
        (Ok(false), Ok(true))
    );
    assert_eq!(handle.credits(), 10);
    (2..12).for_each(|block| journal.replace(&mut handle, block, &plain(1)).unwrap());
    // A full transaction goes its way when the next handle comes, and the restarted handle is in a
    // new one.
    let handle = journal.restart(handle, 3, 0).unwrap();
    assert_eq!((handle.tid(), journal.tally().commits), (Tid(3), 1));
    journal.stop(handle).unwrap();
}

#[test]
fn unused_credits_go_back_and_used_ones_count() {
    let mut journal = journal(Checkpoint::Copy);
    let handle = journal.start(10, 0).unwrap();
    journal.stop(handle).unwrap();
    let mut handle = journal.start(10, 0).unwrap();
    assert_eq!(handle.tid(), Tid(2));
    journal.change(&mut handle, 3).unwrap()[0] = 1;
    journal.change(&mut handle, 3).unwrap()[0] = 2;
    assert_eq!(handle.credits(), 9);
    // A revoke takes over the credit, a later change gets it back; forgetting returns it.
    journal.revoke(&mut handle, 3).unwrap();
    assert_eq!(handle.credits(), 9);
    journal.change(&mut handle, 3).unwrap()[0] = 3;
    assert_eq!(handle.credits(), 9);
    journal.forget(&mut handle, 3).unwrap();
    assert_eq!(handle.credits(), 10);
    journal.stop(handle).unwrap();
    assert_eq!(journal.due(), None);
}

#[test]
fn a_full_log_waits_for_a_checkpoint() {
    let mut journal = journal(Checkpoint::Copy);
    for round in 0..100u8 {
        for block in 0..4 {
            put(&mut journal, u64::from(round % 16) * 4 + block, round);
        }
        journal.commit().unwrap();
    }
    let tally = journal.tally();
    assert_eq!((tally.commits, tally.logged), (100, 400));
    assert!(
        tally.checkpointed > 300 && tally.superblocks > 10,
        "{tally:?}"
    );
    for round in 84..100u8 {
        assert_eq!(journal.get(u64::from(round % 16) * 4).unwrap()[0], round);
        assert_eq!(after_crash(&mut journal, u64::from(round % 16) * 4), round);
    }
}

#[test]
fn a_revoked_block_is_neither_checkpointed_nor_recovered() {
    let mut journal = journal(Checkpoint::Copy);
    put(&mut journal, 3, 1);
    put(&mut journal, 4, 1);
    journal.commit().unwrap();
    let mut handle = journal.start(1, 0).unwrap();
    journal.revoke(&mut handle, 3).unwrap();
    assert_eq!(
        journal.ordered(&mut handle, 3, &plain(7)),
        Err(JournalError::Journaled { block: 3 })
    );
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    // From now on it is anybody's.
    let mut handle = journal.start(1, 0).unwrap();
    journal.ordered(&mut handle, 3, &plain(7)).unwrap();
    assert_eq!(
        (
            journal.get(3).unwrap()[0],
            read(journal.device_mut(), 3)[0] == 7
        ),
        (7, false)
    );
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    assert_eq!(
        (after_crash(&mut journal, 3), after_crash(&mut journal, 4)),
        (7, 1)
    );
    journal.checkpoint().unwrap();
    assert_eq!(
        (
            read(journal.device_mut(), 3)[0],
            journal.tally().checkpointed
        ),
        (7, 1)
    );
}

#[test]
fn a_change_cancels_the_revoke_of_its_own_transaction() {
    let mut journal = journal(Checkpoint::Copy);
    put(&mut journal, 3, 1);
    journal.commit().unwrap();
    let mut handle = journal.start(2, 0).unwrap();
    journal.revoke(&mut handle, 3).unwrap();
    journal.change(&mut handle, 3).unwrap()[0] = 2;
    journal.revoke(&mut handle, 4).unwrap();
    journal.replace(&mut handle, 4, &plain(2)).unwrap();
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    assert_eq!([3, 4].map(|block| after_crash(&mut journal, block)), [2, 2]);
}

#[test]
fn write_back_takes_from_the_oldest_and_a_newer_version_spares_the_older() {
    let mut journal = journal(Checkpoint::Copy);
    for (block, byte) in [(9, 1), (8, 1), (9, 2), (7, 2), (6, 3)] {
        put(&mut journal, block, byte);
        if block != 9 {
            journal.commit().unwrap();
        }
    }
    assert_eq!(journal.dirty_blocks(), 4);
    journal.device_mut().clear();
    assert_eq!(
        (
            journal.write_back(1),
            journal.write_back(9),
            journal.write_back(9)
        ),
        (Ok(1), Ok(3), Ok(0))
    );
    let written: Vec<u64> = journal
        .device_mut()
        .records()
        .iter()
        .map(|record| match record {
            Record::Write { lba, .. } => lba.0 / 2,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(written, [8, 7, 9, 6]);
}

#[test]
fn a_transaction_is_due_by_its_callers_clock() {
    let mut journal = journal(Checkpoint::Copy);
    let mut handle = journal.start(1, 1_000).unwrap();
    assert_eq!(journal.due(), None, "nothing to commit yet");
    journal.replace(&mut handle, 3, &plain(1)).unwrap();
    journal.stop(handle).unwrap();
    put(&mut journal, 4, 1);
    assert_eq!(journal.due(), Some(5_000_001_000));
    journal.commit().unwrap();
    assert_eq!(journal.due(), None);
}

#[test]
fn nothing_is_written_behind_a_failure() {
    let mut base = FaultInjector::new(disk(1));
    base.add(Fault::new(Op::Write, BlockError::WornOut(None)).when(Schedule::nth(1)));
    let mut journal = load(base, Checkpoint::Copy);
    put(&mut journal, 3, 1);
    assert_eq!(
        journal.commit(),
        Err(JournalError::Device(BlockError::WornOut(None)))
    );
    let outcomes = [
        journal.commit(),
        journal.checkpoint(),
        journal.start(1, 0).map(drop),
        journal.flush(),
    ];
    assert_eq!(outcomes, [Err(JournalError::Aborted); 4]);
}

#[test]
fn an_error_is_left_for_the_next_mount() {
    let mut journal = journal(Checkpoint::Copy);
    put(&mut journal, 3, 1);
    journal.commit().unwrap();
    put(&mut journal, 3, 2);
    journal.abort(5).unwrap();
    let mut journal = load(journal.into_device(), Checkpoint::Copy);
    assert_eq!((journal.error(), journal.get(3).unwrap()[0]), (5, 1));
    journal.clear_error().unwrap();
    assert_eq!(load(journal.into_device(), Checkpoint::Copy).error(), 0);
}

#[test]
fn blocks_and_lengths_that_cannot_be_are_refused() {
    let mut journal = journal(Checkpoint::Copy);
    let outside = JournalError::Block {
        block: 160,
        blocks: 160,
    };
    let mut handle = journal.start(1, 0).unwrap();
    assert_eq!(journal.get(160).map(drop), Err(outside));
    assert_eq!(journal.change(&mut handle, 160).map(drop), Err(outside));
    assert_eq!(
        journal.replace(&mut handle, 3, &[0; 5]),
        Err(JournalError::Length {
            found: 5,
            expected: BLOCK
        })
    );
    let mut other = load(disk(40), Checkpoint::Copy);
    let stale = JournalError::Stale {
        handle: Tid(2),
        running: None,
    };
    assert_eq!(other.change(&mut handle, 3).map(drop), Err(stale));
    journal.stop(handle).unwrap();
}

#[test]
fn a_remapped_transaction_is_an_empty_one_in_the_log() {
    let mut journal = journal(Checkpoint::Remap);
    put(&mut journal, 3, 1);
    put(&mut journal, 4, 2);
    journal.commit().unwrap();
    let records = journal.device_mut().records();
    let Some(Record::Remap { pairs, .. }) = records.last() else {
        panic!("{:?}", records.last())
    };
    let blocks: Vec<(u64, u64)> = pairs
        .iter()
        .step_by(2)
        .map(|pair| (pair.from.0 / 2, pair.to.0 / 2))
        .collect();
    let log = |n| journal_block(n);
    assert_eq!(blocks, [(log(2), 3), (log(3), 4), (log(4), log(1))]);
    assert_eq!(
        (
            journal.dirty_blocks(),
            journal.tally().remapped,
            journal.tally().checkpointed
        ),
        (0, 2, 0)
    );
    let device = journal.device_mut();
    assert_eq!(
        read(device, log(1))[..12],
        [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2, 0, 0, 0, 2]
    );
    (2..5).for_each(|n| {
        assert_eq!(
            read(device, log(n)),
            plain(0),
            "block {n} of the log still owns a page"
        )
    });
    assert_eq!((read(device, 3)[0], read(device, 4)[0]), (1, 2));
    // The next one begins right behind it, and both are there for any reader of the format.
    put(&mut journal, 3, 7);
    journal.commit().unwrap();
    assert_eq!(
        read(journal.device_mut(), log(2))[..12],
        [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2, 0, 0, 0, 3]
    );
    let again = load(journal.into_device(), Checkpoint::Copy);
    assert_eq!(
        (again.recovery().transactions, again.recovery().copied),
        (2, 0)
    );
}

#[test]
fn a_remapped_log_is_never_written_home_and_rarely_moves_its_tail() {
    let mut journal = journal(Checkpoint::Remap);
    for round in 0..200u8 {
        for block in 0..4 {
            put(&mut journal, block, round);
        }
        journal.commit().unwrap();
    }
    let tally = journal.tally();
    assert_eq!((tally.remapped, tally.checkpointed), (800, 0));
    // Each transaction leaves one block in a log of 39: a superblock for about 32 of them.
    assert!(tally.superblocks < 12, "{tally:?}");
}

#[test]
fn escaped_blocks_are_copied_home_before_the_others_are_remapped() {
    let mut journal = journal(Checkpoint::Remap);
    let mut handle = journal.start(2, 0).unwrap();
    let mut escaped = plain(0xC0);
    escaped[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
    journal.replace(&mut handle, 3, &escaped).unwrap();
    journal.replace(&mut handle, 4, &plain(4)).unwrap();
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    assert_eq!(
        (journal.tally().remapped, journal.tally().checkpointed),
        (1, 1)
    );
    let last: Vec<bool> = journal
        .device_mut()
        .records()
        .iter()
        .rev()
        .take(3)
        .map(|r| matches!(r, Record::Write { lba, .. } if lba.0 == 6))
        .collect();
    assert_eq!(last, [false, false, true], "home, flush, remap");
    assert_eq!(
        (read(journal.device_mut(), 3), read(journal.device_mut(), 4)),
        (escaped, plain(4))
    );
}

#[test]
fn a_device_that_refuses_one_remap_is_asked_again_and_one_that_refuses_all_is_not() {
    let mut never = load(Limited(WriteLog::new(disk(1)), 0), Checkpoint::Remap);
    put(&mut never, 3, 1);
    never.commit().unwrap();
    assert_eq!(
        (never.checkpoint_mode(), never.dirty_blocks()),
        (Checkpoint::Copy, 1)
    );
    // Two blocks at once, the commit block included.
    let mut few = load(Limited(WriteLog::new(disk(1)), 4), Checkpoint::Remap);
    put(&mut few, 3, 1);
    put(&mut few, 4, 1);
    few.commit().unwrap();
    assert_eq!(
        (few.checkpoint_mode(), few.dirty_blocks()),
        (Checkpoint::Remap, 2)
    );
    // What is still in the log goes home by copying before the next one is remapped.
    put(&mut few, 3, 2);
    few.commit().unwrap();
    assert_eq!(
        (
            few.dirty_blocks(),
            few.tally().checkpointed,
            few.tally().remapped
        ),
        (0, 1, 1)
    );
    let mut disk = load(few.into_device().0, Checkpoint::Copy).into_device();
    assert_eq!((read(&mut disk, 3)[0], read(&mut disk, 4)[0]), (2, 1));
}

#[test]
fn what_is_kept_in_memory_never_hides_what_was_written() {
    let mut journal = journal(Checkpoint::Copy);
    put(&mut journal, 4, 1);
    journal.commit().unwrap();
    let mut handle = journal.start(2, 0).unwrap();
    journal.ordered(&mut handle, 3, &plain(7)).unwrap();
    journal.revoke(&mut handle, 4).unwrap();
    // Looked at too early: the one is not written yet, the other not free yet.
    assert_ne!(journal.committed(3).unwrap()[0], 7);
    journal.write_back(1).unwrap();
    journal.get(4).unwrap();
    journal.stop(handle).unwrap();
    journal.commit().unwrap();
    write(journal.device_mut(), 4, &plain(8));
    // Given out and freed in one transaction, so it is free at once.
    let mut handle = journal.start(1, 0).unwrap();
    journal.replace(&mut handle, 5, &plain(1)).unwrap();
    journal.committed(5).unwrap();
    journal.revoke(&mut handle, 5).unwrap();
    write(journal.device_mut(), 5, &plain(9));
    assert_eq!(journal.get(5).unwrap()[0], 9);
    journal.stop(handle).unwrap();
    assert_eq!(
        (journal.get(3).unwrap()[0], journal.get(4).unwrap()[0]),
        (7, 8)
    );
}

#[test]
fn clean_blocks_are_read_once_while_there_is_room() {
    let mut base = nandlab_block::Counter::new(disk(1));
    write(&mut base, 3, &plain(3));
    let mut journal = load(base, Checkpoint::Copy);
    journal.device_mut().reset();
    (0..10).for_each(|_| assert_eq!(journal.get(3).unwrap()[0], 3));
    let mut handle = journal.start(1, 0).unwrap();
    journal.change(&mut handle, 3).unwrap()[0] = 4;
    journal.stop(handle).unwrap();
    journal.flush().unwrap();
    assert_eq!(
        (
            journal.get(3).unwrap()[0],
            journal.device_mut().counts().reads.requests
        ),
        (4, 1)
    );
}

#[test]
fn what_a_device_takes_few_pairs_of_comes_home_late_in_several_remaps() {
    // Two blocks and the superblock at once.
    for (limit, remapped) in [(usize::MAX, 5), (6, 5), (4, 5), (2, 0)] {
        let mut journal = load(Limited(disk(1), limit), Checkpoint::RemapLate);
        for (block, byte) in (3..8).zip(1..) {
            let tid = put(&mut journal, block, byte);
            journal.sync(tid).unwrap();
        }
        journal.checkpoint().unwrap();
        let tally = journal.tally();
        assert_eq!(
            (journal.dirty_blocks(), tally.remapped, tally.checkpointed),
            (0, remapped, 5 - remapped),
            "{limit}"
        );
        let mut disk = journal.close().unwrap();
        assert_eq!(
            [3, 4, 5, 6, 7].map(|block| read(&mut disk, block)[0]),
            [1, 2, 3, 4, 5],
            "{limit}"
        );
    }
}
