//! Logs under small damage. A digest of all answers shows when one of them changes.

use crate::common::{BLOCK, HOMES, contents, disk, journal_block, load, map};
use nandlab_block::Ram;
use nandlab_jbd::{Checkpoint, Journal, Options};
use nandlab_testkit::hostile::struck;
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;

/// A log with committed transactions: revoked blocks, escaped ones, and newer versions.
fn written(sequence: u32) -> Ram {
    let mut journal = load(disk(sequence), Checkpoint::Copy);
    for round in 0..6u64 {
        let mut handle = journal.start(8, 0).unwrap();
        for number in 0..3 {
            let stamp = round * 16 + number * 5;
            let data = contents(stamp);
            journal.replace(&mut handle, stamp % 11, &data).unwrap();
        }
        journal.revoke(&mut handle, 20 + round).unwrap();
        if round == 4 {
            journal.revoke(&mut handle, 16).unwrap();
        }
        let tid = journal.stop(handle).unwrap();
        journal.sync(tid).unwrap();
    }
    journal.into_device()
}

/// A digest of the answer to a load, of the disk behind it, and of one more transaction.
fn outcome(disk: &mut Ram, checkpoint: Checkpoint) -> Media {
    let mut seen = Media::default();
    let options = Options {
        checkpoint,
        clean_blocks: 8,
        ..Options::default()
    };
    match Journal::load(&mut *disk, map(), BLOCK, options) {
        Ok(mut journal) => {
            seen.note(&journal.recovery());
            seen.note(&(journal.error(), journal.state(), journal.credits_max()));
            let blocks = (0..HOMES).map(|block| journal.get(block).map(<[u8]>::to_vec));
            seen.note(&blocks.collect::<Vec<_>>());
            if let Ok(mut handle) = journal.start(2, 0) {
                seen.note(&journal.replace(&mut handle, 3, &contents(99)));
                seen.note(&journal.stop(handle));
            }
            seen.note(&journal.close().map(drop));
        }
        Err(error) => seen.note(&error.to_string()),
    }
    seen.disk(disk)
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    let places: Vec<u64> = (0..40)
        .map(|log| journal_block(log) * u64::from(BLOCK))
        .collect();
    let kinds = [
        ("remapped", Checkpoint::Remap),
        ("copied", Checkpoint::Copy),
    ];
    // The recovery of a remapped log makes copies, too.
    for (name, checkpoint) in kinds.into_iter().take(whole_or(2, 1)) {
        let outcome = |disk: &mut Ram| outcome(disk, checkpoint);
        let mut all = Media::default();
        // Numbers of transactions that go round, and those that do not.
        for sequence in [6, u32::MAX - 3] {
            let disk = written(sequence);
            all.add(outcome(&mut disk.clone()));
            all.add(struck(&disk, (&places[..1], 96), 300, outcome));
            all.add(struck(&disk, (&places, 48), 300, outcome));
            all.add(struck(&disk, (&places, BLOCK.into()), 100, outcome));
        }
        all.assert(&format!("damage, log {name}"));
    }
}
