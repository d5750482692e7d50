//! A device cut off before, within and after every flash operation of a run, and again within the
//! attach that follows, with each kind of memory: all calls before the cut are done, the call under
//! way is done in part, and work goes on.

use crate::common::{memories, spec, tried};
use crate::lives::{Model, Op, device};
use nandlab_nand::{Chip, CrashStates, LoggedOp, Reliability};
use nandlab_sim::{Nanos, rng};
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_ubi::{Commit, LogOptions, Memory, Options, SeededBug, Ubi};
use rand::Rng as _;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call: the flash operations that it issued, and when it returned.
struct Call {
    op: Op,
    logged: std::ops::Range<usize>,
    end: Nanos,
}

/// A device with contents, attached and logged from then on; then calls.
fn run(
    seed: u64,
    size: Size,
    options: Options,
    calls: usize,
) -> (Chip, Model, Vec<Call>, Vec<LoggedOp>) {
    let mut random = rng(seed, "ubi cuts");
    let (mut ubi, mut model) = device(
        Chip::new(spec(seed, size.blocks, Reliability::default())).unwrap(),
        options,
        size.others,
    );
    for _ in 0..80 {
        let op = model.draw(&mut random);
        model.begin(&op);
        model.perform(&mut ubi, &op).unwrap();
        model.done(&op);
    }
    ubi.flush_erases().unwrap();
    ubi.sync().unwrap();
    let mut chip = if seed.is_multiple_of(2) {
        ubi.detach().unwrap()
    } else {
        ubi.into_medium()
    };
    let base = chip.fork().unwrap();
    assert!(model.check_all(
        &mut Ubi::attach(base.fork().unwrap(), options).unwrap(),
        "the beginning"
    ));
    // The check has made some blocks anew, on its fork: begin with what the medium holds.
    let mut checked = Ubi::attach(chip, options).unwrap();
    model.rewrite(&mut checked);
    checked.flush_erases().unwrap();
    chip = checked.detach().unwrap();
    let base = chip.fork().unwrap();
    chip.start_log();
    let mut ubi = Ubi::attach(chip, options).unwrap();
    let start = model.clone();
    let mut done = Vec::new();
    for _ in 0..calls {
        let op = model.draw(&mut random);
        let first = ubi.medium().logged().len();
        model.begin(&op);
        model.perform(&mut ubi, &op).unwrap();
        model.done(&op);
        done.push(Call {
            op,
            logged: first..ubi.medium().logged().len(),
            end: ubi.medium().clock().now(),
        });
    }
    let log = if seed.is_multiple_of(3) {
        ubi.detach().unwrap().logged().to_vec()
    } else {
        ubi.medium().logged().to_vec()
    };
    (base, start, done, log)
}

/// A device with few free blocks among those that can be anchors, on which maps follow each other
/// with changes in between and no time for erases; cut off at every end of an operation, and again
/// at each within the attach that follows.
fn pile_of_maps(options: Options, count: &Cell<u32>) {
    let (mut ubi, mut model) = device(
        Chip::new(spec(1, SMALL.blocks, Reliability::default())).unwrap(),
        options,
        38,
    );
    model.rewrite(&mut ubi);
    let base = ubi.detach().unwrap();
    let mut chip = base.fork().unwrap();
    chip.start_log();
    let mut ubi = Ubi::attach(chip, options).unwrap();
    let start = model.clone();
    let mut calls = Vec::new();
    for round in 0..5 {
        let ops: Vec<Op> = (0..4)
            .map(|i| model.change((round * 4 + i) % 6, 1))
            .chain([Op::Rename])
            .collect();
        for op in ops {
            let first = ubi.medium().logged().len();
            model.begin(&op);
            model.perform(&mut ubi, &op).unwrap();
            model.done(&op);
            calls.push(Call {
                op,
                logged: first..ubi.medium().logged().len(),
                end: ubi.medium().clock().now(),
            });
        }
    }
    let log = ubi.medium().logged().to_vec();
    let mut states = CrashStates::new(base, &log);
    for (i, op) in log.iter().enumerate() {
        let cut = states.at(op.end, i as u64).unwrap();
        let again = cut.fork().unwrap();
        let mut chip = cut;
        chip.start_log();
        let second = Ubi::attach(chip, options)
            .unwrap()
            .medium()
            .logged()
            .to_vec();
        let mut inner = CrashStates::new(again, &second);
        for later in &second {
            count.set(count.get() + 1);
            let mut ubi = Ubi::attach(inner.at(later.end, i as u64).unwrap(), options).unwrap();
            assert!(
                model_at(&start, &calls, &log, op.end)
                    .check_all(&mut ubi, &format!("cut at {} and {}", op.end, later.end))
            );
        }
    }
}

#[test]
fn an_old_map_never_becomes_the_newest() {
    let (_, options) = memories()[1];
    let count = Cell::new(0);
    pile_of_maps(options, &count);
    assert!(count.get() > 300, "{count:?}");
    let broken = Options {
        seeded_bug: Some(SeededBug::KeepOldMaps),
        ..options
    };
    let states = Cell::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| pile_of_maps(broken, &states)));
    assert!(outcome.is_err(), "KeepOldMaps was not caught");
    let states = states.get().into();
    assert_row("UBI", SeededBug::KeepOldMaps, states, NOT_SHRUNK);
}

/// What may be there after a cut at `t`.
fn model_at(start: &Model, calls: &[Call], log: &[LoggedOp], t: Nanos) -> Model {
    let mut model = start.clone();
    for call in calls {
        let ops = &log[call.logged.clone()];
        let whole = ops.last().map_or(call.end <= t, |last| last.end <= t);
        let begun = ops.first().map_or(whole, |first| first.start < t);
        if !begun {
            break;
        }
        model.begin(&call.op);
        if !whole {
            break;
        }
        model.done(&call.op);
        model.finish_work();
    }
    model
}

/// Blocks of a device, and how many of them another volume has.
#[derive(Clone, Copy)]
struct Size {
    blocks: u32,
    others: u32,
}

const SMALL: Size = Size {
    blocks: 80,
    others: 0,
};
/// So large that the tables of an incremental commit have many leaves.
const LARGE: Size = Size {
    blocks: 420,
    others: 270,
};

fn explore(seed: u64, size: Size, options: Options, name: &str) -> (u32, Media) {
    let count = Cell::new(0);
    let seen = explore_counted(seed, size, options, name, &count);
    (count.get(), seen)
}

/// The same, where a count outlives a panic. Returns a digest of what each attach found, and of the
/// operations that it took.
fn explore_counted(
    seed: u64,
    size: Size,
    options: Options,
    name: &str,
    count: &Cell<u32>,
) -> Media {
    let mut seen = Media::default();
    let (base, start, calls, log) = run(seed, size, options, 50);
    let mut times: Vec<Nanos> = log
        .iter()
        .flat_map(|op| [op.start, op.start + (op.end - op.start) / 2, op.end])
        .collect();
    times.sort_unstable();
    times.dedup();
    let mut states = CrashStates::new(base, &log);
    let mut random = rng(seed, "ubi cut words");
    for (t, word) in times
        .into_iter()
        .flat_map(|t| [(t, random.next_u64()), (t, random.next_u64())])
        .collect::<Vec<_>>()
    {
        count.set(count.get() + 1);
        let mut chip = states.at(t, word).unwrap();
        let id = format!("{name}, seed {seed}, cut at {t}, word {word}");
        if word % 4 == 0 {
            chip = cut_attach(chip, options, word);
        }
        let mut ubi = Ubi::attach(chip, options).unwrap_or_else(|error| panic!("{id}: {error}"));
        seen.note(&(
            ubi.info(),
            ubi.medium().counts(),
            ubi.medium().clock().now(),
        ));
        let mut model = model_at(&start, &calls, &log, t);
        assert!(model.check_all(&mut ubi, &id));
        if word % 16 < 2 {
            for _ in 0..40 {
                let op = model.draw(&mut random);
                model.begin(&op);
                model
                    .perform(&mut ubi, &op)
                    .unwrap_or_else(|error| panic!("{id}: {op:?} afterwards: {error}"));
                model.done(&op);
            }
        }
    }
    seen
}

/// The chip after a cut somewhere in an attach and the detach that follows, which finishes what was
/// left and brings the memory up to date.
fn cut_attach(mut chip: Chip, options: Options, word: u64) -> Chip {
    let base = chip.fork().unwrap();
    chip.start_log();
    let log = Ubi::attach(chip, options)
        .unwrap()
        .detach()
        .unwrap()
        .logged()
        .to_vec();
    let ends = log.iter().map(|op| op.end).max().unwrap_or(0);
    let starts = log.iter().map(|op| op.start).min().unwrap_or(0);
    let t = starts + nandlab_sim::mix(word, 3) % (ends - starts + 1);
    CrashStates::new(base, &log)
        .at(t, nandlab_sim::mix(word, 5))
        .unwrap()
}

/// Looks at every state of the runs of so many seeds; returns how many there were.
fn explore_seeds(seeds: u64, size: Size, options: Options, name: &str) -> u32 {
    let mut states = 0;
    let mut all = Media::default();
    for seed in 0..seeds {
        let (count, seen) = explore(seed, size, options, name);
        states += count;
        all.add(seen);
    }
    all.assert(&format!("cuts, ubi of {} blocks, {name}", size.blocks));
    states
}

#[test]
fn every_cut_is_survived() {
    let mut states = 0;
    for (name, options) in tried() {
        let here = explore_seeds(6, SMALL, options, name);
        eprintln!("{name}: {here} states");
        states += here;
    }
    assert!(states > whole_or(35_000, 9_000), "{states}");
}

#[test]
fn every_cut_is_survived_where_most_of_the_tables_sleep() {
    let mut states = 0;
    for (name, options) in tried()
        .into_iter()
        .filter(|(_, options)| incremental(options))
    {
        states += explore_seeds(3, LARGE, options, name);
    }
    assert!(states > whole_or(5_000, 1_200), "{states}");
}

fn incremental(options: &Options) -> bool {
    matches!(
        options.memory,
        Memory::Log(LogOptions {
            commit: Commit::Incremental,
            ..
        })
    )
}

#[test]
fn every_seeded_bug_is_caught() {
    use SeededBug::*;
    for (bug, kinds) in [
        (Unfenced, 0..5),
        (TrustCopies, 0..1),
        (EntryLast, 2..11),
        (NoFuture, 2..11),
        (StaleLeaves, 7..11),
    ] {
        let mut tries = memories()[kinds]
            .iter()
            .flat_map(|kind| (0..6).map(move |seed| (*kind, seed)))
            .collect::<Vec<_>>()
            .into_iter();
        let states = Cell::new(0);
        let caught = tries.find(|((name, options), seed)| {
            let broken = Options {
                seeded_bug: Some(bug),
                ..*options
            };
            catch_unwind(AssertUnwindSafe(|| {
                explore_counted(*seed, SMALL, broken, name, &states);
            }))
            .is_err()
        });
        assert!(caught.is_some(), "{bug:?} was not caught");
        assert_row("UBI", bug, states.get().into(), NOT_SHRUNK);
    }
}
