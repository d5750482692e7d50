//! The page-mapped layer cut off before, within and after every flash operation of a run with
//! remaps, and again within the attach and the work that follow: every remap is there as a whole or
//! not at all, for good once it has returned, and nothing else is lost by it.

use crate::common::{Model, Op, small_chip};
use nandlab_block::BlockDevice;
use nandlab_ftl::page::{PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::{Fault, FaultInjector, Geometry};
use nandlab_nand::{Chip, ChipSpec, CrashStates, LoggedOp, Reliability};
use nandlab_sim::{Nanos, Rng, Schedule, mix, rng};
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::share::whole_or;
use rand::{Rng as _, RngExt as _};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations of a run that is cut.
const OPS: usize = 150;

type Device = PageFtl<Chip>;

/// Chips of one, two and four dies; every other one with pages of a sector, so that a record of
/// more than 40 pages has several pages.
fn spec(seed: u64) -> ChipSpec {
    let mut spec = small_chip(seed, Reliability::default());
    let blocks = if spec.geometry.dies == 1 { 32 } else { 48 };
    let page = [1024, 512][seed as usize % 2];
    spec.geometry = Geometry {
        blocks,
        page,
        write_unit: page,
        ..spec.geometry
    };
    spec
}

/// Some disks are kept full, so that every remap makes collection work.
fn is_full(seed: u64) -> bool {
    seed % 6 > 2
}

fn options(seed: u64, seeded_bug: Option<SeededBug>) -> PageOptions {
    let over_provisioning = match (is_full(seed), spec(seed).geometry.dies) {
        (false, 1) => 0.8,
        (false, _) => 0.65,
        (true, 1) => 0.45,
        (true, _) => 0.6,
    };
    let map_interval = [8, 64, 512][seed as usize / 2 % 3];
    PageOptions {
        over_provisioning,
        map_interval,
        seeded_bug,
        ..PageOptions::default()
    }
}

/// A disk in use; then a run that is logged: the model at its beginning, and each operation with
/// the time of its return and the programs until then.
struct Run {
    base: Chip,
    log: Vec<LoggedOp>,
    model: Model,
    done: Vec<(Nanos, Op)>,
    programs: Vec<u64>,
}

/// What is done next: on full disks nothing is discarded, and what a remap gave away is written
/// again.
fn draw(model: &mut Model, random: &mut Rng, per_page: usize, full: bool) -> Vec<Op> {
    let op = if random.random_bool(0.2) {
        model.draw_remap(random, per_page, 90)
    } else {
        model.draw(random)
    };
    match &op {
        Op::Discard(_) if full => vec![],
        Op::Remap(pairs) if full => {
            let again: Vec<Range<usize>> = pairs
                .iter()
                .step_by(per_page)
                .map(|pair| pair.0..pair.0 + per_page)
                .collect();
            std::iter::once(op)
                .chain(again.into_iter().map(|page| model.write(page)))
                .collect()
        }
        _ => vec![op],
    }
}

fn do_op(device: &mut impl BlockDevice, model: &mut Model, op: &Op) {
    model.begin(op);
    model.perform(device, op).unwrap();
    model.done(op);
}

/// `fault` strikes in the logged part.
fn run(seed: u64, options: &PageOptions, ops: usize, fault: Option<Fault>) -> Run {
    let mut random = rng(seed, "remap cuts");
    let mut device = PageFtl::format(Chip::new(spec(seed)).unwrap(), options.clone()).unwrap();
    let per_page = device.geometry().page as usize / 512;
    let mut model = Model::new(device.geometry().sectors);
    if is_full(seed) {
        let all = model.write(0..device.geometry().sectors as usize);
        do_op(&mut device, &mut model, &all);
    }
    for _ in 0..200 {
        let ops = draw(&mut model, &mut random, per_page, is_full(seed));
        ops.iter().for_each(|op| do_op(&mut device, &mut model, op));
    }
    do_op(&mut device, &mut model, &Op::Flush);
    let mut chip = device.into_medium();
    let base = chip.fork().unwrap();
    chip.start_log();
    let clock = chip.clock().clone();
    let mut medium = FaultInjector::new(chip);
    let sound = fault.is_none() && options.seeded_bug.is_none();
    fault.into_iter().for_each(|fault| medium.add(fault));
    let mut device = PageFtl::attach(medium, options.clone()).unwrap();
    let before = model.clone();
    let mut done = Vec::new();
    let mut programs = Vec::new();
    let mut next = VecDeque::new();
    while done.len() < ops {
        let Some(op) = next.pop_front() else {
            next.extend(draw(&mut model, &mut random, per_page, is_full(seed)));
            continue;
        };
        do_op(&mut device, &mut model, &op);
        done.push((clock.now(), op));
        programs.push(
            device
                .tally()
                .rows()
                .map(|(_, counts)| counts.programs + counts.copies)
                .sum(),
        );
    }
    assert!(
        done.iter()
            .any(|(_, op)| matches!(op, Op::Remap(pairs) if pairs.len() > 40))
    );
    let collection = device
        .tally()
        .rows()
        .find(|row| row.0 == Cause::Collection)
        .unwrap()
        .1;
    // What collection programs rather than copies are pages that were given away.
    assert!(
        !sound
            || collection.programs > 0
                && collection.copies + collection.programs > 5
                && collection.erases > 20,
        "{collection:?}"
    );
    let log = device.into_medium().into_inner().logged().to_vec();
    Run {
        base,
        log,
        model: before,
        done,
        programs,
    }
}

/// Looks at every state that a cut of one run at certain times can leave, twice for each moment;
/// gives their number.
fn explore(seed: u64, options: &PageOptions, run: Run, within: Range<Nanos>) -> u32 {
    let count = Cell::new(0);
    explore_counted(seed, options, run, within, &count);
    count.get()
}

/// The same, where a count outlives a panic.
fn explore_counted(
    seed: u64,
    options: &PageOptions,
    run: Run,
    within: Range<Nanos>,
    count: &Cell<u32>,
) {
    let Run {
        base,
        log,
        mut model,
        done,
        ..
    } = run;
    let mut times: Vec<Nanos> = log
        .iter()
        .flat_map(|op| [op.start, op.start + (op.end - op.start) / 2, op.end])
        .collect();
    times.retain(|t| within.contains(t));
    times.sort_unstable();
    times.dedup();
    let mut states = CrashStates::new(base, &log);
    let mut random = rng(seed, "remap cut words");
    let mut ended = 0;
    for t in times {
        while let Some((_, op)) = done.get(ended).filter(|(end, _)| *end <= t) {
            model.begin(op);
            model.done(op);
            ended += 1;
        }
        let mut model = model.clone();
        if let Some((_, op)) = done.get(ended) {
            model.begin(op);
        }
        for word in [random.next_u64(), random.next_u64()] {
            count.set(count.get() + 1);
            let mut model = model.clone();
            let mut chip = states.at(t, word).unwrap();
            if word % 8 == 0 {
                chip = cut_again(chip, options, &mut model.clone(), word);
            }
            let mut device = PageFtl::attach(chip, options.clone()).unwrap();
            model.check_all(
                &mut device,
                &format!("a cut of seed {seed} at {t}, word {word}"),
            );
            if word % 16 < 3 {
                work_goes_on(device, options, &mut model, word);
            }
        }
    }
}

/// The chip after a cut, an attach, and another cut in the remaps that follow, which only move what
/// cannot be distinguished from before: pages onto themselves and back.
fn cut_again(mut chip: Chip, options: &PageOptions, model: &mut Model, word: u64) -> Chip {
    let base = chip.fork().unwrap();
    chip.start_log();
    let began = chip.clock().now();
    let mut device = PageFtl::attach(chip, options.clone()).unwrap();
    model.check_all(&mut device, "a first cut");
    let blank = blank_pages(&mut device);
    for pair in blank.chunks_exact(2).take(6) {
        let per_page = device.geometry().page as usize / 512;
        let sectors = (0..per_page)
            .map(|i| (pair[0] * per_page + i, pair[1] * per_page + i))
            .collect();
        do_op(&mut device, model, &Op::Remap(sectors));
    }
    let ended = device.medium().clock().now();
    let log = device.medium().logged().to_vec();
    let t = began + mix(word, 3) % (ended - began).max(1);
    CrashStates::new(base, &log).at(t, mix(word, 5)).unwrap()
}

/// Logical pages that read as zeros.
fn blank_pages(device: &mut Device) -> Vec<usize> {
    let mut disk = vec![0; device.geometry().bytes() as usize];
    device.read(nandlab_block::Lba(0), &mut disk).unwrap();
    let page = device.geometry().page as usize;
    disk.chunks_exact(page)
        .enumerate()
        .filter(|(_, bytes)| bytes.iter().all(|&b| b == 0))
        .map(|(i, _)| i)
        .collect()
}

fn work_goes_on(mut device: Device, options: &PageOptions, model: &mut Model, word: u64) {
    let mut random = rng(word, "work after a cut");
    let per_page = device.geometry().page as usize / 512;
    for _ in 0..60 {
        draw(model, &mut random, per_page, false)
            .iter()
            .for_each(|op| do_op(&mut device, model, op));
    }
    do_op(&mut device, model, &Op::Flush);
    let mut device = PageFtl::attach(device.into_medium(), options.clone()).unwrap();
    model.check_all(&mut device, "the work after a cut");
}

#[test]
fn every_cut_is_survived() {
    // The first and the last differ in their pages, their dies, and how full they are.
    let states: u32 = (0..6)
        .step_by(whole_or(1, 5))
        .map(|seed| {
            let options = options(seed, None);
            explore(
                seed,
                &options,
                run(seed, &options, OPS, None),
                0..Nanos::MAX,
            )
        })
        .sum();
    eprintln!("{states} states");
    assert!(states > whole_or(10_000, 3_000), "{states}");
}

#[test]
fn a_record_whose_last_page_failed_and_is_there_all_the_same_does_no_harm() {
    let mut states = 0;
    for seed in 0..6 {
        let options = options(seed, None);
        let sound = run(seed, &options, 1_000, None);
        let remaps = (1..1_000 - 2).filter(|&i| matches!(sound.done[i].1, Op::Remap(_)));
        for i in remaps.step_by(whole_or(1, 11)) {
            // Of all that a remap does the last page of its record is programmed last; the page
            // before it may be of the record, too.
            for before_last in 0..2 {
                let fault = Fault::program(..)
                    .when(Schedule::nth(sound.programs[i] - 1 - before_last))
                    .done();
                let run = run(seed, &options, 1_000, Some(fault));
                let within = run.done[i - 1].0..run.done[i + 2].0;
                states += explore(seed, &options, run, within);
            }
        }
    }
    eprintln!("{states} states");
    assert!(states > whole_or(10_000, 800), "{states}");
}

#[test]
fn every_seeded_bug_is_caught() {
    use SeededBug::*;
    for bug in [
        RemapUnfenced,
        RemapInPieces,
        RecordDropped,
        RemapNameKept,
        RecordsLast,
        RemapWithoutSync,
    ] {
        let states = Cell::new(0);
        let caught = (0..12).find(|&seed| {
            let options = options(seed, Some(bug));
            // Without a cut no bug shows.
            let run = run(seed, &options, OPS, None);
            catch_unwind(AssertUnwindSafe(|| {
                explore_counted(seed, &options, run, 0..Nanos::MAX, &states);
            }))
            .is_err()
        });
        eprintln!("{bug:?}: {caught:?}");
        assert!(caught.is_some(), "{bug:?} was not caught");
        assert_row("FTL, remap", bug, states.get().into(), NOT_SHRUNK);
    }
}
