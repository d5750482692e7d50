//! A power cut finds each rule that ext2, ext3 and their journal may leave out, on a disk
//! that writes in an order of its own. `docs/mutants.md` lists the states that it took.

use crate::crash_stack::volumes::{chip, delayed, ext3, fast, large_chip, layer};
use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, FileOp, Files, Plan, SecondLevel, assert_each_found};
use nandlab_ext::{Checkpoint, ExtVolume, Mode, SeededBug, SeededJournalBug as InJournal};
use nandlab_ftl::page::PageOptions;
use nandlab_nand::ChipSpec;
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::open::KeptOpen;
use nandlab_testkit::scrambled::{Manner, Scrambled};

/// A run that shows some of the bugs.
struct Run<'a> {
    layer: &'a str,
    volume: ExtVolume,
    ops: Vec<FileOp>,
    cuts: u64,
    second: SecondLevel,
    chip: ChipSpec,
    manner: Manner,
    bugs: &'a [SeededBug],
}

impl Run<'_> {
    fn plan(&self) -> Plan {
        Plan {
            cuts: Cuts::Sample(self.cuts),
            words: 1,
            second: self.second,
            shrink_states: 300,
            listed: 1,
            ..Plan::default()
        }
    }

    /// The run without a bug survives; the explorer finds each bug. `wrap` makes the volume.
    fn is_shown<V>(&self, wrap: impl Fn(ExtVolume) -> V)
    where
        Files<Scrambled<PageOptions>, V>: nandlab_crash::Subject<Op = FileOp>,
    {
        let stack = |seeded_bug| {
            let mut volume = self.volume.clone();
            volume.options.seeded_bug = seeded_bug;
            Files {
                chip: self.chip.clone(),
                layer: Scrambled(layer(None), self.manner),
                volume: wrap(volume),
            }
        };
        let run = (&*self.ops, &self.plan());
        assert_each_found(stack, self.bugs, run, |bug, report| {
            let states = report.states_to_first.unwrap_or(0);
            match bug {
                SeededBug::Journal(bug) => assert_row("jbd", bug, states, &report.shrunk()),
                bug => assert_row(self.layer, bug, states, &report.shrunk()),
            }
        });
    }
}

/// Bytes of this seed begin with the magic number of the journal.
const MAGIC_SEED: u64 = 0x1cd7_82c0_ca57_8bae;

/// A file whose first block the log has to escape, then a mixed run.
fn escaped() -> Vec<FileOp> {
    let path: nandlab_crash::files::Path = "escaped".into();
    let own = [
        FileOp::Create { path: path.clone() },
        FileOp::Append {
            path: path.clone(),
            length: 3000,
            seed: MAGIC_SEED,
        },
        FileOp::Fsync { path },
    ];
    own.into_iter().chain(mixed(1, 20)).collect()
}

fn ext3_run<'a>(mode: Mode, seed: u64, bugs: &'a [SeededBug]) -> Run<'a> {
    Run {
        layer: "ext3",
        volume: ext3((mode, Checkpoint::Copy)),
        ops: mixed(seed, 80),
        cuts: 200,
        second: SecondLevel::Off,
        chip: chip(),
        manner: Manner::Honest,
        bugs,
    }
}

#[test]
fn every_rule_that_the_journal_leaves_out_is_found() {
    use InJournal::*;
    let bugs = [
        CommitUnfenced,
        CommitUnflushed,
        TailUnfenced,
        UnfinishedCounts,
        StaleCounts,
        OldestWins,
    ];
    ext3_run(Mode::Journal, 8, &bugs.map(SeededBug::Journal)).is_shown(|volume| volume);
    ext3_run(Mode::Ordered, 3, &[SeededBug::Journal(RevokesIgnored)]).is_shown(|volume| volume);
    let run = Run {
        ops: escaped(),
        cuts: 60,
        ..ext3_run(Mode::Journal, 1, &[SeededBug::Journal(EscapeForgotten)])
    };
    run.is_shown(|volume| volume);
    let run = Run {
        cuts: 12,
        second: SecondLevel::Every(4),
        ..ext3_run(Mode::Journal, 1, &[SeededBug::Journal(RecoveryUnfenced)])
    };
    run.is_shown(|volume| volume);
}

#[test]
fn every_rule_that_ext3_leaves_out_is_found() {
    let bugs = [SeededBug::ContentsLate, SeededBug::ReuseEarly];
    ext3_run(Mode::Ordered, 1, &bugs).is_shown(|volume| volume);
    ext3_run(Mode::Ordered, 1, &[SeededBug::OrphansForgotten]).is_shown(KeptOpen);
}

/// Files cut short, each followed by an fsync, then a mixed run.
fn cut_short() -> Vec<FileOp> {
    let paths = ["one", "two", "three", "four"];
    let own = paths.into_iter().flat_map(|path| {
        let (path, length, seed): (nandlab_crash::files::Path, _, _) = (path.into(), 3000, 7);
        [
            FileOp::Create { path: path.clone() },
            FileOp::Append {
                path: path.clone(),
                length,
                seed,
            },
            FileOp::Fsync { path: path.clone() },
            FileOp::Truncate {
                path: path.clone(),
                length: 500,
            },
            FileOp::Fsync { path },
        ]
    });
    own.chain(mixed(1, 20)).collect()
}

fn fast_run<'a>(seed: u64, bugs: &'a [SeededBug]) -> Run<'a> {
    let volume = fast(Checkpoint::Copy);
    Run {
        layer: "ext4, fast commits",
        volume,
        chip: large_chip(),
        // A torn superblock has a wrong checksum.
        manner: Manner::WholeRequests,
        ..ext3_run(Mode::Ordered, seed, bugs)
    }
}

#[test]
fn every_rule_that_a_fast_commit_leaves_out_is_found() {
    let journal = [InJournal::FastUnfenced, InJournal::FastUnflushed];
    fast_run(1, &journal.map(SeededBug::Journal)).is_shown(|volume| volume);
    fast_run(1, &[SeededBug::ContentsLate]).is_shown(|volume| volume);
    let run = Run {
        ops: cut_short(),
        cuts: 60,
        ..fast_run(1, &[SeededBug::ForbiddenFast])
    };
    run.is_shown(|volume| volume);
}

#[test]
fn every_rule_that_delayed_allocation_leaves_out_is_found() {
    let bugs = [SeededBug::DelayedSizeEarly, SeededBug::DelayedForgotten];
    let run = Run {
        layer: "ext4, delayed allocation",
        volume: delayed((Mode::Ordered, Checkpoint::Copy)),
        ..fast_run(1, &bugs)
    };
    run.is_shown(|volume| volume);
}

fn ext2_run<'a>(seed: u64, bugs: &'a [SeededBug]) -> Run<'a> {
    Run {
        layer: "ext2",
        volume: ExtVolume::default(),
        ops: mixed(seed, 100),
        cuts: 250,
        second: SecondLevel::Off,
        chip: chip(),
        manner: Manner::Honest,
        bugs,
    }
}

#[test]
fn every_rule_that_ext2_leaves_out_is_found() {
    use SeededBug::*;
    let bugs = [ContentsLate, ReuseEarly, BitmapsLate, FsyncContents];
    ext2_run(1, &bugs).is_shown(|volume| volume);
    ext2_run(7, &[NamesUnordered]).is_shown(|volume| volume);
}
