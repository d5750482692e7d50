//! `mtdblock` against a plain array, its operation counts against cases worked by hand, and what a
//! power cut can take.

use crate::common::{Model, flaky, small_chip, step};
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::mtdblock::{MtdBlock, SeededBug};
use nandlab_nand::{Chip, ChipSpec, CrashStates, Reliability};
use nandlab_sim::rng;
use rand::{Rng as _, RngExt as _};

/// Runs `ops` operations; attaches anew every thousand or so, flushed. Gives the number of failures
/// survived.
fn against_an_array(spec: ChipSpec, ops: u32, attach: impl Fn(Chip) -> MtdBlock<Chip>) -> u64 {
    let mut random = rng(spec.seed, "mtdblock");
    let mut device = attach(
        MtdBlock::format(Chip::new(spec).unwrap())
            .unwrap()
            .into_medium(),
    );
    let mut model = Model::new(device.geometry().sectors);
    for done in 0..ops {
        step(&mut device, &mut model, &mut random)
            .unwrap_or_else(|e| panic!("operation {done}: {e}"));
        if random.random_ratio(1, 1000) {
            device.flush().unwrap();
            device = attach(device.into_medium());
            model.check_all(&mut device, "attaching anew");
        }
    }
    device.medium().counts().failures
}

#[test]
fn it_behaves_like_an_array() {
    for seed in 0..4 {
        against_an_array(small_chip(seed, Reliability::default()), 15_000, |c| {
            MtdBlock::attach(c).unwrap()
        });
    }
}

#[test]
fn failed_erases_and_programs_are_survived() {
    let mut failures = 0;
    for seed in 4..8 {
        let reliability = Reliability {
            factory_bad: 0.0,
            program_fail: [1e-4; 2],
            erase_fail: [1e-3; 2],
            ..flaky()
        };
        failures += against_an_array(small_chip(seed, reliability), 15_000, |c| {
            MtdBlock::attach(c).unwrap()
        });
    }
    assert!(failures > 20, "{failures} only");
}

#[test]
fn every_seeded_bug_is_caught() {
    for bug in [SeededBug::ForgetCache, SeededBug::NoErase] {
        let run = || {
            against_an_array(small_chip(0, Reliability::default()), 1_000, |c| {
                MtdBlock::attach(c).unwrap().with_bug(bug)
            })
        };
        assert!(
            std::panic::catch_unwind(run).is_err(),
            "{bug:?} was not caught"
        );
    }
}

/// Reads, programs and erases.
fn counts(device: &MtdBlock<Chip>) -> [u64; 3] {
    let c = device.medium().counts();
    [c.reads, c.programs, c.erases - 64]
}

#[test]
fn a_block_is_rewritten_whole_once_it_is_left() {
    // Eight pages of two sectors a block.
    let mut device =
        MtdBlock::format(Chip::new(small_chip(0, Reliability::default())).unwrap()).unwrap();
    for lba in 0..16 {
        device.write(Lba(lba), &[1; 512]).unwrap();
    }
    assert_eq!(counts(&device), [8, 0, 0], "in the cache");
    device.write(Lba(16), &[1; 512]).unwrap();
    assert_eq!(counts(&device), [16, 8, 1]);
    device.flush().unwrap();
    device.flush().unwrap();
    assert_eq!(counts(&device), [16, 16, 2]);
    // Two blocks in turn: each write rewrites the other block.
    for lba in [0, 16, 0, 16] {
        device.write(Lba(lba), &[2; 512]).unwrap();
    }
    assert_eq!(counts(&device), [48, 40, 5]);
    let host: u64 = device
        .tally()
        .rows()
        .filter(|(c, _)| c.name() == "host data")
        .map(|(_, n)| n.programs)
        .sum();
    assert_eq!((device.tally().host_pages, host), (21, 8 + 1 + 3));
}

#[test]
fn a_block_found_bad_is_lost_and_says_so() {
    let spec = small_chip(
        0,
        Reliability {
            factory_bad: 0.1,
            ..Reliability::default()
        },
    );
    let chip = Chip::new(spec).unwrap();
    let mut device = MtdBlock::format(chip).unwrap();
    let lost: Vec<_> = (0..64)
        .filter(|b| {
            let read = device.read(Lba(b * 16), &mut [0; 512]);
            read.map_err(BlockError::without_cause) == Err(BlockError::lost(Lba(b * 16)))
        })
        .collect();
    assert!(!lost.is_empty() && lost.len() < 20, "{lost:?}");
    let written = device.write(Lba(lost[0] * 16), &[0; 512]);
    assert_eq!(
        written.map_err(BlockError::without_cause),
        Err(BlockError::lost(Lba(lost[0] * 16)))
    );
    let good = (0..64).find(|b| !lost.contains(b)).unwrap();
    device.write(Lba(good * 16), &[7; 512]).unwrap();
    device.flush().unwrap();
}

/// Sectors of 64 blocks; stamps from 1 on.
fn stamps(device: &mut MtdBlock<Chip>) -> Vec<Option<u8>> {
    let mut buf = [0; 512];
    (0..device.geometry().sectors)
        .map(|lba| device.read(Lba(lba), &mut buf).ok().map(|()| buf[0]))
        .collect()
}

#[test]
fn a_power_cut_takes_no_more_than_the_block_being_rewritten() {
    let mut damaged = 0;
    for seed in (0..600).step_by(3) {
        // One die, so that one block at most is under way.
        let mut random = rng(seed, "mtdblock cuts");
        let mut device =
            MtdBlock::format(Chip::new(small_chip(seed, Reliability::default())).unwrap()).unwrap();
        let sectors = device.geometry().sectors;
        device
            .write(Lba(0), &vec![1; 512 * sectors as usize])
            .unwrap();
        device.flush().unwrap();
        let base = device.into_medium();
        let mut chip = base.fork().unwrap();
        chip.start_log();
        chip.rail()
            .cut_at(chip.rail().steps() + random.random_range(1..200));
        let mut device = MtdBlock::attach(chip).unwrap();
        let mut newest = vec![vec![1u8]; sectors as usize];
        let mut stamp = 1;
        let result = loop {
            let lba = random.random_range(0..sectors);
            stamp = stamp % 250 + 1;
            newest[lba as usize].push(stamp);
            if let Err(error) = device.write(Lba(lba), &[stamp; 512]) {
                break error;
            }
        };
        assert_eq!(result, BlockError::PowerCut);
        let now = device.medium().clock().now();
        let log = device.medium().logged().to_vec();
        let chip = CrashStates::new(base, &log)
            .at(now, random.next_u64())
            .unwrap();
        let mut device = MtdBlock::attach(chip).unwrap();
        let wrong = stamps(&mut device).into_iter().zip(&newest).enumerate();
        let mut blocks: Vec<_> = wrong
            .filter(|(_, (s, n))| s.is_none_or(|s| !n.contains(&s)))
            .map(|(lba, _)| lba / 16)
            .collect();
        blocks.dedup();
        assert!(
            blocks.len() <= 1,
            "seed {seed}: blocks {blocks:?} are damaged"
        );
        damaged += blocks.len();
        // What is left can be written over, and lasts.
        device
            .write(Lba(0), &vec![9; 512 * sectors as usize])
            .unwrap();
        device.flush().unwrap();
        let mut device = MtdBlock::attach(device.into_medium()).unwrap();
        assert!(stamps(&mut device).iter().all(|&s| s == Some(9)));
    }
    assert!(
        damaged > 20,
        "only {damaged} cuts did damage: the warning in the documentation would be idle"
    );
}
