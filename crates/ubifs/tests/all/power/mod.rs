//! The power cut at every change of a volume, and again in each recovery: random calls with
//! attributes, links and files that are open without a name; commits; collection.
//!
//! Cheaper than the cuts of a chip (`cuts.rs`), so that there can be more of them. The volume may
//! bring back what was unmapped, in part; the chip of `cuts.rs` shows that UBI does no worse.

mod calls;
mod mechanisms;
mod medium;
mod trees;

use crate::made::made;
use calls::{Calls, Counted};
use medium::{Log, Medium, Op};
use nandlab_sim::mix;
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;
use nandlab_ubifs::{Counts, Format, SeededBug, Switches, Ubifs, format};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::tree::{self, Tree};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};

type Volume = Ubifs<medium::Power>;

/// A run to be cut.
#[derive(Clone, Copy)]
struct Case {
    seed: u64,
    lebs: u32,
    format: Format,
    rounds: u64,
    /// One round in so many ends with a commit, the others with an fsync.
    sync_every: u64,
    switches: Switches,
    rules: fn() -> Rules,
    /// Timers end every third round, and no fsync.
    timers: bool,
    /// One change in so many is cut.
    every: usize,
    /// Cuts within recoveries, one in the other.
    levels: u32,
    /// The volume comes from a programmer, which programmed all of its pages.
    is_programmed: bool,
}

/// A call has returned.
struct Step {
    /// Changes of the medium before.
    ops: usize,
    tree: Tree,
    is_durable: bool,
}

/// States, and a digest of the finds and works of their mounts.
#[derive(Default)]
struct Seen {
    states: u64,
    media: Media,
    recovered: Recovered,
}

/// Works of recoveries.
#[derive(Clone, Copy, Debug, Default)]
struct Recovered {
    counts: Counts,
    /// Removed inodes without a name.
    orphans: u64,
    /// Files that got the size of their data.
    raised: u64,
}

impl Recovered {
    fn add(&mut self, other: Self) {
        self.counts = sum(self.counts, other.counts);
        self.orphans += other.orphans;
        self.raised += other.raised;
    }
}

/// A run, and what it did.
struct Run {
    base: Medium,
    ops: Vec<Op>,
    steps: Vec<Step>,
    counts: Counts,
    calls: Calls,
    states: u64,
    /// The finds and works of each mount.
    seen: Media,
    recovered: Recovered,
}

impl Case {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            // So few that collection has to make room.
            lebs: 28,
            format: Format {
                version: 4 + (seed % 2) as u32,
                compressor: (seed % 4) as u16,
                big_lpt: Some(seed.is_multiple_of(3)),
                ..Format::default()
            },
            rounds: 36,
            // Often enough that the block of master nodes is full.
            sync_every: if seed % 2 == 1 { 1 } else { 5 },
            switches: Switches::default(),
            rules: Rules::unix,
            timers: false,
            every: 1,
            levels: 3,
            is_programmed: false,
        }
    }

    fn mount(&self, medium: &Medium) -> Result<(Volume, Log), String> {
        let power = medium.powered();
        let ops = power.ops.clone();
        let fs = Ubifs::mount_switched(power, self.switches);
        let fs = fs.map_err(|error| format!("does not mount: {error}"))?;
        Ok((fs, ops))
    }

    fn run(&self) -> Result<Run, String> {
        let rules = Rules {
            inodes_max: 24,
            file_bytes_max: 14_000,
            ..(self.rules)()
        };
        let base = format(Medium::new(self.lebs).powered(), &self.format)
            .unwrap()
            .medium;
        let base = match self.is_programmed {
            true => programmed(base),
            false => base,
        };
        let mut model = Model::new(self.seed, rules);
        let mut run = Run {
            base: base.clone(),
            ops: Vec::new(),
            steps: Vec::new(),
            counts: Counts::default(),
            calls: Calls::default(),
            states: 0,
            seen: Media::default(),
            recovered: Recovered::default(),
        };
        let mut medium = base;
        run.note(&mut model, 0, true);
        for life in 0..2 {
            let (mut fs, ops) = self.mount(&medium)?;
            for round in 0..self.rounds {
                for _ in 0..14 {
                    let outcome = model.run(&mut run.counted(&mut fs), 1);
                    outcome.unwrap_or_else(|why| panic!("{life} {round}: {why} {:?}", fs.cause()));
                    run.note(&mut model, ops.lock().unwrap().len(), false);
                }
                self.end_round(round, &mut run.counted(&mut fs));
                run.note(&mut model, ops.lock().unwrap().len(), true);
            }
            model.release(&mut fs);
            fs.unmount().unwrap();
            run.counts = sum(run.counts, fs.counts());
            run.ops.append(&mut ops.lock().unwrap());
            run.note(&mut model, 0, true);
            medium = fs.into_lebs().medium;
        }
        Ok(run)
    }

    /// Makes everything durable.
    fn end_round(&self, round: u64, fs: &mut Counted<'_, Volume>) {
        if self.timers && round % 3 == 1 {
            let due = fs.due();
            return due.map_or((), |due| fs.work(due).unwrap());
        }
        match round % self.sync_every {
            0 => fs.sync().unwrap(),
            _ => fs.fsync(Ino::ROOT, Sync::All).unwrap(),
        }
    }

    /// Cuts the run wherever the case says. Returns what is wrong in the first state that is.
    fn explore(&self, run: &mut Run) -> Result<(), String> {
        let mut medium = run.base.clone();
        for (at, op) in run.ops.iter().enumerate() {
            if at % self.every == 0 {
                let word = mix(self.seed, at as u64);
                let mut cut = medium.clone();
                cut.cut(Some(op), word);
                let allowed = run.allowed(at);
                let mut seen = Seen::default();
                let outcome = self.judge(&cut, &allowed, word, self.levels, &mut seen);
                run.states += seen.states;
                run.recovered.add(seen.recovered);
                run.seen.add(seen.media);
                outcome.map_err(|why| format!("seed {} change {at}: {why}", self.seed))?;
            }
            medium.apply(op);
        }
        Ok(())
    }

    /// Cuts the run at one place.
    fn cut_at(&self, run: &Run, at: usize, word: u64) -> Result<(), String> {
        let mut medium = run.base.clone();
        run.ops[..at].iter().for_each(|op| medium.apply(op));
        medium.cut(Some(&run.ops[at]), mix(self.seed, word));
        let allowed = run.allowed(at);
        let mut seen = Seen::default();
        self.judge(&medium, &allowed, word, self.levels, &mut seen)
    }

    /// Mounts what a cut has left, and compares; then cuts the mount itself.
    fn judge(
        &self,
        medium: &Medium,
        allowed: &[&Tree],
        word: u64,
        levels: u32,
        seen: &mut Seen,
    ) -> Result<(), String> {
        seen.states += 1;
        let (mut fs, ops) = self.mount(medium)?;
        seen.recovered.add(Recovered {
            counts: fs.counts(),
            orphans: fs.journal().orphans,
            raised: fs.journal().raised,
        });
        seen.media.note(&(fs.journal(), fs.counts()));
        seen.media.note(&fs.statfs());
        self.look(&mut fs, allowed)?;
        let ops = ops.lock().unwrap().clone();
        if levels > 0 && !ops.is_empty() {
            let word = mix(word, u64::from(levels));
            let at = word as usize % ops.len();
            let mut again = medium.clone();
            ops[..at].iter().for_each(|op| again.apply(op));
            again.cut(Some(&ops[at]), mix(word, 1));
            let outcome = self.judge(&again, allowed, word, levels - 1, seen);
            outcome.map_err(|why| format!("recovery cut at {at}: {why}"))?;
        }
        self.go_on(fs, word)
    }

    fn look(&self, fs: &mut Volume, allowed: &[&Tree]) -> Result<(), String> {
        let damages = fs.damages();
        if !damages.is_empty() {
            return Err(format!("{damages:?}"));
        }
        let found = tree::snapshot(fs);
        let found = found.map_err(|error| format!("{error}: {:?}", fs.cause()))?;
        trees::judge(&found, allowed)
    }

    /// Works on, and mounts once more.
    fn go_on(&self, mut fs: Volume, word: u64) -> Result<(), String> {
        let outcome = works(&mut fs, word);
        let before = outcome.map_err(|error| format!("works no more: {error} {:?}", fs.cause()))?;
        let (mut fs, _) = self.mount(&fs.into_lebs().medium)?;
        self.look(&mut fs, &[&before])
            .map_err(|why| format!("after going on: {why}"))
    }
}

/// The volume as `mkfs.ubifs -F` and a programmer leave it.
fn programmed(base: Medium) -> Medium {
    let mut fs = Ubifs::mount_writable(base.powered()).unwrap();
    fs.unmount().unwrap();
    fs.require_fixup().unwrap();
    fs.into_lebs().medium.programmed()
}

/// Changes something, and unmounts. Returns the tree.
fn works(fs: &mut Volume, word: u64) -> Result<Tree, nandlab_vfs::Errno> {
    let by = Caller::root(Time::new(2_000_000_000));
    let made = fs.create(Ino::ROOT, b"after the cut", NewNode::File, 0o600, by)?;
    let bytes = nandlab_testkit::files::bytes(word, 9000);
    fs.write(made.ino, 0, &bytes, by.now)?;
    fs.fsync(made.ino, Sync::All)?;
    fs.forget(made.ino, 1);
    fs.rename(
        (Ino::ROOT, b"after the cut"),
        (Ino::ROOT, b"renamed"),
        nandlab_vfs::Rename::Replace,
        by.now,
    )?;
    let tree = tree::snapshot(fs)?;
    fs.unmount()?;
    Ok(tree)
}

impl Run {
    fn counted<'a>(&'a mut self, fs: &'a mut Volume) -> Counted<'a, Volume> {
        let calls = &mut self.calls;
        Counted { fs, calls }
    }

    /// Notes what the tree is after a call, and how much the medium had changed by then.
    fn note(&mut self, model: &mut Model, ops: usize, is_durable: bool) {
        self.steps.push(Step {
            ops: self.ops.len() + ops,
            tree: tree::snapshot(model.judge()).unwrap(),
            is_durable,
        });
    }

    /// The trees that a cut within a change may leave: from the last durable one to that of the
    /// call under way.
    fn allowed(&self, at: usize) -> Vec<&Tree> {
        let done = self.steps.partition_point(|step| step.ops <= at);
        let durable = self.steps[..done].iter().rposition(|step| step.is_durable);
        let last = (done + 1).min(self.steps.len());
        let steps = &self.steps[durable.unwrap_or(0)..last];
        steps.iter().map(|step| &step.tree).collect()
    }
}

fn sum(one: Counts, other: Counts) -> Counts {
    Counts {
        commits: one.commits + other.commits,
        collected: one.collected + other.collected,
        moved: one.moved + other.moved,
        index_blocks_moved: one.index_blocks_moved + other.index_blocks_moved,
        gaps_filled: one.gaps_filled + other.gaps_filled,
        properties_moved: one.properties_moved + other.properties_moved,
        masters_renewed: one.masters_renewed + other.masters_renewed,
        orphan_lists: one.orphan_lists + other.orphan_lists,
        logs_consolidated: one.logs_consolidated + other.logs_consolidated,
    }
}

fn with(bug: SeededBug) -> Switches {
    Switches {
        bug: Some(bug),
        ..Switches::default()
    }
}

/// One change in so many is cut, and so many runs are made; for larger explorations.
const EVERY: &str = "NANDLAB_UBIFS_EVERY";
const RUNS: &str = "NANDLAB_UBIFS_RUNS";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn every_cut_leaves_a_tree_that_was_there_and_a_volume_that_goes_on() {
    let every = number(EVERY, 9) as usize;
    let mut counts = Counts::default();
    let mut calls = Calls::default();
    let mut recovered = Recovered::default();
    let mut states = 0;
    let mut seen = Media::default();
    for seed in 1..=number(RUNS, 5) {
        let case = Case {
            every,
            ..Case::new(seed)
        };
        let mut run = case.run().unwrap();
        case.explore(&mut run).unwrap_or_else(|why| panic!("{why}"));
        println!(
            "{seed}: {} changes, {} states, {:?}",
            run.ops.len(),
            run.states,
            run.counts
        );
        counts = sum(counts, run.counts);
        calls += run.calls;
        recovered.add(run.recovered);
        states += run.states;
        seen.add(run.seen);
    }
    if [EVERY, RUNS]
        .iter()
        .all(|name| std::env::var_os(name).is_none())
    {
        seen.assert("cuts, ubifs");
    }
    println!("{calls:?} {recovered:?}");
    // The mechanisms were at work.
    assert!(states > 500, "{states}");
    calls.assert(3);
    assert!(counts.commits > 50 && counts.collected > 3, "{counts:?}");
    assert!(
        counts.moved > 10 && counts.properties_moved > 1,
        "{counts:?}"
    );
    assert!(counts.masters_renewed > 2, "{counts:?}");
    assert!(counts.orphan_lists > 3, "{counts:?}");
    let works = recovered.counts;
    assert!(
        works.logs_consolidated > 5 && works.properties_moved > 5,
        "{works:?}"
    );
    assert!(
        recovered.orphans > 5 && recovered.raised > 5,
        "{recovered:?}"
    );
}

#[test]
fn free_space_that_a_programmer_wrote_is_erased_at_the_first_mount_and_after_every_cut() {
    for seed in 1..=4 {
        let case = Case {
            rounds: 2,
            is_programmed: true,
            ..Case::new(seed)
        };
        let mut run = case.run().unwrap();
        let changed = run.ops.iter().take(40);
        let is_whole = |op: &Op| matches!(op, Op::Change(..) | Op::Renew(_));
        // All blocks but the superblock's, unless they are full.
        assert!(changed.filter(|op| is_whole(op)).count() > 25);
        case.explore(&mut run).unwrap_or_else(|why| panic!("{why}"));
        assert!(run.states > 100, "{}", run.states);
    }
}

#[test]
fn a_volume_of_mkfs_ubifs_for_a_programmer_is_written_after_every_cut() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("directory")).unwrap();
    std::fs::write(dir.path().join("directory/file"), [7; 50_000]).unwrap();
    let shape = (medium::PAGE as u32, medium::LEB as u32);
    let image = made(dir.path(), shape, &["-F", "-c", "40"]);
    let medium = Medium::of(&image).programmed().grown(40);
    let case = Case {
        levels: 6,
        ..Case::new(1)
    };
    let (mut fs, ops) = case.mount(&medium).unwrap();
    assert!(fs.journal().fixup);
    let there = Step {
        ops: 0,
        tree: tree::snapshot(&mut fs).unwrap(),
        is_durable: true,
    };
    let mut run = Run {
        base: medium,
        ops: ops.lock().unwrap().clone(),
        steps: vec![there],
        counts: Counts::default(),
        calls: Calls::default(),
        states: 0,
        seen: Media::default(),
        recovered: Recovered::default(),
    };
    case.explore(&mut run).unwrap_or_else(|why| panic!("{why}"));
    assert!(run.states > 50, "{}", run.states);
}

#[test]
fn a_mark_that_goes_before_the_free_space_is_erased_is_found() {
    let case = Case {
        rounds: 2,
        is_programmed: true,
        switches: with(SeededBug::UnmarkFirst),
        ..Case::new(1)
    };
    let mut run = case.run().unwrap();
    let why = case.explore(&mut run).unwrap_err();
    println!("state {}: {why}", run.states);
    assert_row("UBIFS", SeededBug::UnmarkFirst, run.states, NOT_SHRUNK);
}

/// Linux unmaps a full block of master nodes before it begins it anew.
#[test]
fn a_block_of_master_nodes_that_is_erased_in_part_is_no_loss() {
    let case = Case {
        switches: with(SeededBug::UnmapMaster),
        every: 1,
        levels: 1,
        ..Case::new(1)
    };
    let run = case.run().unwrap();
    assert!(run.counts.masters_renewed > 0, "{:?}", run.counts);
    // The changes around those of the two blocks.
    let is_master = |op: &Op| matches!(op, Op::Unmap(1 | 2));
    let places: Vec<usize> = (0..run.ops.len())
        .filter(|at| is_master(&run.ops[*at]))
        .collect();
    for at in places {
        for word in 0..whole_or(60, 20) {
            for next in 1..4 {
                case.cut_at(&run, at + next, word)
                    .unwrap_or_else(|why| panic!("{at}: {why}"));
            }
        }
    }
}

/// Each with the seed of a run that shows it soon.
const BUGS: [(SeededBug, u64); 15] = [
    (SeededBug::FreeInRecovery, 5),
    (SeededBug::SecondMasterFirst, 1),
    (SeededBug::RefuseTornErase, 5),
    (SeededBug::UnmapOnly, 2),
    (SeededBug::LeaveEarly, 1),
    (SeededBug::CollectUnflushed, 1),
    (SeededBug::ForgetOrphans, 1),
    (SeededBug::ForgetValues, 5),
    (SeededBug::ForgetTruncation, 1),
    (SeededBug::FsyncContents, 2),
    (SeededBug::KeepTornGroups, 1),
    (SeededBug::KeepTornEnds, 1),
    (SeededBug::KeepSizes, 1),
    (SeededBug::ReplayUnsorted, 2),
    (SeededBug::KeepLogAge, 1),
];

#[test]
fn every_rule_left_out_is_found_by_a_cut() {
    let mut unseen = Vec::new();
    for (bug, seed) in BUGS {
        let case = Case {
            switches: with(bug),
            every: 3,
            levels: 5,
            ..Case::new(seed)
        };
        let mut run = case.run().unwrap();
        match case.explore(&mut run) {
            Err(why) => {
                println!("{bug:?}: state {}: {why}", run.states);
                assert_row("UBIFS", bug, run.states, NOT_SHRUNK);
            }
            Ok(()) => unseen.push(bug),
        }
    }
    assert!(unseen.is_empty(), "{unseen:?}");
}
