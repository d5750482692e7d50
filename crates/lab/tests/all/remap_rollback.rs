//! A database's small transactions on the page-mapped layer: with a rollback journal in files, with
//! one on the bare disk, and by remapping. What each takes, and that each is all or nothing
//! wherever the power is cut.

use crate::ledger::{Ledger, Ledgers, Protocol, Shape, Transaction};
use nandlab_crash::{CrashReport, Plan, SecondLevel, explore};
use nandlab_ext::{Ext, Mode, Options};
use nandlab_ftl::page::{PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{Cause, Ftl, Tally};
use nandlab_lab::play::{Player, verify};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_sim::{Clock, mix};
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::files::{Expected, FileCall, FileCalls};
use nandlab_workload::rollback::{DATABASE, JournalMode, Rollback, RollbackSpec};

/// What one transaction takes, in the mean.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Page programs, collection and map included.
    programs: f64,
    /// Of these, those of the layer's own map and records.
    mapping: f64,
    micros: f64,
}

/// Counts from one moment to another.
struct Meter {
    clock: Clock,
    from: (u64, Tally),
}

impl Meter {
    fn start(clock: &Clock, tally: &Tally) -> Self {
        Self {
            clock: clock.clone(),
            from: (clock.now(), *tally),
        }
    }

    fn taken(&self, tally: &Tally, transactions: u64) -> Taken {
        let programs = |tally: &Tally, which: fn(Cause) -> bool| -> u64 {
            tally
                .rows()
                .filter(|(cause, _)| which(*cause))
                .map(|(_, counts)| counts.programs + counts.copies)
                .sum()
        };
        let each = |amount: u64| amount as f64 / transactions as f64;
        let diff = |which| each(programs(tally, which) - programs(&self.from.1, which));
        let micros = each(self.clock.now() - self.from.0) / 1000.0;
        Taken {
            programs: diff(|_| true),
            mapping: diff(|cause| cause == Cause::Mapping),
            micros,
        }
    }
}

/// 16 MiB of a preset's flash under the page-mapped layer.
fn disk(name: &str) -> (PageFtl<Chip>, Clock) {
    let mut spec = preset::find(name).unwrap().spec();
    let block_bytes = u64::from(spec.geometry.page) * u64::from(spec.geometry.pages_per_block);
    spec.geometry.blocks = ((16 << 20) / block_bytes) as u32;
    let chip = Chip::new(spec).unwrap();
    let clock = chip.clock().clone();
    (
        PageFtl::format(
            chip,
            PageOptions {
                over_provisioning: 0.25,
                ..PageOptions::default()
            },
        )
        .unwrap(),
        clock,
    )
}

/// SQLite's calls on ext3, ordered.
fn in_files(name: &str, spec: &RollbackSpec) -> Taken {
    let (mut disk, clock) = disk(name);
    nandlab_ext::format(
        &mut disk,
        &nandlab_ext::Format {
            journal: true,
            ..nandlab_ext::Format::default()
        },
    )
    .unwrap();
    let mut ext = Ext::mount(
        disk,
        Options {
            mode: Mode::Ordered,
            ..Options::default()
        },
    )
    .unwrap();
    let mut calls = Rollback::new(spec.clone()).unwrap();
    let mut player = Player::new(Ino::ROOT);
    let mut expected = Expected::new(calls.contents());
    let mut meter = None;
    let now = || Time {
        secs: 1_000_000_000 + (clock.now() / 1_000_000_000) as i64,
        nanos: (clock.now() % 1_000_000_000) as u32,
    };
    let mut taken = None;
    while let Some(call) = calls.next() {
        match (calls.phase(), &meter) {
            ("transactions", None) => meter = Some(Meter::start(&clock, ext.device_mut().tally())),
            ("set-up", Some(meter)) if taken.is_none() => {
                taken = Some(meter.taken(ext.device_mut().tally(), spec.transactions))
            }
            _ => {}
        }
        player
            .step(&mut ext, &calls, &call, now())
            .unwrap_or_else(|error| panic!("{error}"));
        expected.apply(&call).unwrap();
    }
    ext.unmount().unwrap();
    let mut again = Ext::mount(ext.into_device(), Options::default()).unwrap();
    verify(&mut again, Ino::ROOT, &expected, &calls).unwrap_or_else(|error| panic!("{error}"));
    taken.unwrap()
}

/// The same transactions as the stream has them.
fn transactions(spec: &RollbackSpec) -> Vec<Transaction> {
    let page = |call| match call {
        FileCall::Read { file, offset, .. } if file == DATABASE => Some(offset / spec.page),
        _ => None,
    };
    let pages: Vec<u64> = Rollback::new(spec.clone())
        .unwrap()
        .filter_map(page)
        .collect();
    let transaction = |(version, pages): (u32, &[u64])| Transaction {
        version,
        pages: pages.into(),
    };
    (1..)
        .zip(pages.chunks(spec.changed as usize + 1))
        .map(transaction)
        .collect()
}

fn on_disk(name: &str, spec: &RollbackSpec, protocol: Protocol) -> Taken {
    let (disk, clock) = disk(name);
    let shape = Shape {
        page: spec.page as usize,
        pages: spec.pages,
    };
    let mut ledger = Ledger::create(disk, shape, protocol).unwrap();
    let meter = Meter::start(&clock, ledger.disk.tally());
    let mut versions = vec![0; spec.pages as usize];
    for transaction in transactions(spec) {
        ledger.commit(&transaction).unwrap();
        transaction
            .pages
            .iter()
            .for_each(|page| versions[*page as usize] = transaction.version);
    }
    let taken = meter.taken(ledger.disk.tally(), spec.transactions);
    let disk = PageFtl::attach(ledger.disk.into_medium(), PageOptions::default()).unwrap();
    assert_eq!(
        Ledger::open(disk, shape, protocol)
            .unwrap()
            .wrong(&versions),
        Ok(None)
    );
    taken
}

#[test]
fn a_remap_takes_half_the_programs_and_half_the_time_of_a_journal() {
    println!(
        "{:<14} {:>8} {:<28} {:>9} {:>8} {:>10}",
        "chip", "pages", "", "programs", "of map", "us"
    );
    for name in ["nandsim-jftl", "slc-2k"] {
        for changed in [1, 7, 31] {
            // Enough to go round the file system's journal, and to keep collection busy.
            let spec = RollbackSpec {
                changed,
                transactions: 400,
                ..RollbackSpec::default()
            };
            let print = |what: &str, taken: Taken| {
                println!(
                    "{name:<14} {:>8} {what:<28} {:>9.2} {:>8.2} {:>10.0}",
                    changed + 1,
                    taken.programs,
                    taken.mapping,
                    taken.micros
                );
                taken
            };
            let mode = |mode| {
                in_files(
                    name,
                    &RollbackSpec {
                        mode,
                        ..spec.clone()
                    },
                )
            };
            let files = print("ext3, journal removed", mode(JournalMode::Delete));
            print("ext3, journal cut", mode(JournalMode::Truncate));
            print("ext3, journal persists", mode(JournalMode::Persist));
            let journal = print(
                "bare disk, journal",
                on_disk(name, &spec, Protocol::Rollback),
            );
            let remap = print("bare disk, remap", on_disk(name, &spec, Protocol::Remap));
            assert!(
                files.programs > journal.programs && journal.programs > 1.9 * remap.programs,
                "{files:?} {journal:?} {remap:?}"
            );
            assert!(journal.micros > 1.9 * remap.micros, "{journal:?} {remap:?}");
        }
    }
}

/// A small database on small pages: each takes two of flash.
fn small(protocol: Protocol, bug: Option<SeededBug>) -> Ledgers {
    let chip = ChipSpec {
        geometry: Geometry::single_die(512, 16, 8, 32),
        ..preset::find("nandsim-jftl").unwrap().spec()
    };
    let options = PageOptions {
        over_provisioning: 1.0,
        map_interval: 16,
        seeded_bug: bug,
        ..PageOptions::default()
    };
    Ledgers {
        chip,
        options,
        shape: Shape {
            page: 1024,
            pages: 24,
        },
        protocol,
    }
}

/// Of one page to five, and every eighth of all pages: a record of its remap takes more than a
/// page.
fn few(count: u32) -> Vec<Transaction> {
    let transaction = |version: u32| {
        let word = mix(3, version.into());
        if version.is_multiple_of(8) {
            return Transaction {
                version,
                pages: (0..24).collect(),
            };
        }
        let pages = 1 + word % 5;
        let step = 1 + (word >> 8) % 4;
        Transaction {
            version,
            pages: (0..pages).map(|n| ((word >> 16) + n * step) % 24).collect(),
        }
    };
    (1..=count).map(transaction).collect()
}

fn explored(ledgers: &Ledgers, count: u32) -> CrashReport {
    explore(
        ledgers,
        &few(count),
        &Plan {
            words: 3,
            second: SecondLevel::Every(60),
            ..Plan::default()
        },
    )
    .unwrap()
}

#[test]
fn wherever_the_power_is_cut_a_remapped_transaction_is_whole_or_not_there() {
    let report = explored(&small(Protocol::Remap, None), 40);
    assert_eq!(report.violations_total, 0, "{report}");
    assert!(
        report.chip_ops > 500
            && report.states >= 5 * report.chip_ops
            && report.second_level_states > 500,
        "{report}"
    );
    println!("{report}");
}

#[test]
fn so_is_one_with_a_rollback_journal() {
    let report = explored(&small(Protocol::Rollback, None), 24);
    assert_eq!(report.violations_total, 0, "{report}");
    assert!(
        report.chip_ops > 500 && report.second_level_states > 500,
        "{report}"
    );
    println!("{report}");
}

#[test]
fn without_either_and_with_a_remap_in_pieces_it_is_torn() {
    assert!(
        explored(&small(Protocol::InPlace, None), 10).violations_total > 0,
        "pages in place"
    );
    for bug in [SeededBug::RemapInPieces, SeededBug::RemapWithoutSync] {
        let report = explored(&small(Protocol::Remap, Some(bug)), 40);
        assert!(
            report.violations_total > 0,
            "{bug:?} was not caught: {report}"
        );
    }
}
