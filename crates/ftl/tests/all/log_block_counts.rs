//! Flash operations of the log-block layers against cases worked by hand, and against a model that
//! only counts.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::logblock::{
    LogBlockFtl, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme,
};
use nandlab_ftl::{Ftl, Merges};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, Contents, preset};

const PAGES: u64 = 32;
const PAGE: usize = 512;

/// What a stretch of work cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    programs: u64,
    copies: u64,
    erases: u64,
    merges: Merges,
}

struct Bench(LogBlockFtl<Chip>);

impl Bench {
    /// A device of small blocks whose every page has been written once, in order.
    fn aged(options: LogBlockOptions) -> Self {
        let mut spec = preset::find("small-block-64MiB").unwrap().spec();
        spec.geometry = Geometry {
            blocks: 128,
            ..spec.geometry
        };
        spec.contents = Contents::Dropped;
        let options = LogBlockOptions {
            page_order: PageOrder::Any,
            spare_blocks: 4,
            ..options
        };
        let mut bench = Self(LogBlockFtl::format(Chip::new(spec).unwrap(), options).unwrap());
        let all = bench.pages();
        let blocks = u64::from(bench.0.logical_blocks());
        let cost = bench.cost(|b| (0..all).for_each(|page| b.write(page / PAGES, page % PAGES)));
        assert_eq!(
            cost,
            Cost {
                programs: blocks * PAGES,
                ..Cost::default()
            },
            "first writes go in place"
        );
        bench
    }

    fn pages(&self) -> u64 {
        self.0.geometry().sectors
    }

    fn write(&mut self, lbn: u64, off: u64) {
        self.0.write(Lba(lbn * PAGES + off), &[0; PAGE]).unwrap();
    }

    fn run(&mut self, lbn: u64, offs: std::ops::Range<u64>) {
        offs.for_each(|off| self.write(lbn, off));
    }

    fn total(&self) -> Cost {
        let counts = self.0.medium().counts();
        let cost = Cost {
            programs: counts.programs + counts.oob_programs,
            copies: counts.copies,
            erases: counts.erases,
            merges: self.0.tally().merges,
        };
        // Nothing is done that is not accounted for, but formatting's erases.
        let rows = self.0.tally().rows();
        let sums = rows.fold([0; 3], |s, (_, n)| {
            [s[0] + n.programs, s[1] + n.copies, s[2] + n.erases]
        });
        assert_eq!(sums, [cost.programs, cost.copies, cost.erases - 128]);
        cost
    }

    fn cost(&mut self, work: impl FnOnce(&mut Self)) -> Cost {
        let before = self.total();
        work(self);
        let after = self.total();
        let merges = |a: Merges, b: Merges| Merges {
            switch: a.switch - b.switch,
            partial: a.partial - b.partial,
            full: a.full - b.full,
            ..Merges::default()
        };
        Cost {
            programs: after.programs - before.programs,
            copies: after.copies - before.copies,
            erases: after.erases - before.erases,
            merges: merges(after.merges, before.merges),
        }
    }
}

fn cost(programs: u64, copies: u64, erases: u64, [switch, partial, full]: [u64; 3]) -> Cost {
    Cost {
        programs,
        copies,
        erases,
        merges: Merges {
            switch,
            partial,
            full,
            ..Merges::default()
        },
    }
}

fn with_logs(log_blocks: u32, options: LogBlockOptions) -> LogBlockOptions {
    LogBlockOptions {
        log_blocks,
        ..options
    }
}

#[test]
fn bast_switches_a_log_written_in_order() {
    let mut bench = Bench::aged(with_logs(1, LogBlockOptions::bast()));
    assert_eq!(bench.cost(|b| b.run(3, 0..32)), cost(32, 0, 0, [0; 3]));
    assert_eq!(bench.cost(|b| b.write(3, 9)), cost(1, 0, 1, [1, 0, 0]));
}

#[test]
fn an_eager_switch_does_not_wait_for_the_next_write() {
    let mut bench = Bench::aged(LogBlockOptions {
        eager: true,
        ..with_logs(1, LogBlockOptions::bast())
    });
    assert_eq!(bench.cost(|b| b.run(3, 0..32)), cost(32, 0, 1, [1, 0, 0]));
}

#[test]
fn bast_completes_a_log_that_is_in_order_so_far() {
    let mut bench = Bench::aged(with_logs(1, LogBlockOptions::bast()));
    bench.run(3, 0..10);
    assert_eq!(bench.cost(|b| b.write(4, 9)), cost(1, 22, 1, [0, 1, 0]));
}

#[test]
fn bast_merges_any_other_log_in_full() {
    let mut bench = Bench::aged(with_logs(1, LogBlockOptions::bast()));
    bench.write(3, 7);
    bench.write(3, 7);
    assert_eq!(bench.cost(|b| b.write(4, 9)), cost(1, 32, 2, [0, 0, 1]));
    // A log full of one page is merged for the next one.
    assert_eq!(
        bench.cost(|b| (0..32).for_each(|_| b.write(4, 9))),
        cost(32, 32, 2, [0, 0, 1])
    );
}

#[test]
fn the_least_recently_written_log_gives_way_and_fifo_differs() {
    for (victim, expected) in [
        (LogVictim::LeastRecent, cost(1, 32, 2, [0, 0, 1])),
        (LogVictim::Fifo, cost(1, 30, 1, [0, 1, 0])),
    ] {
        let mut bench = Bench::aged(with_logs(
            2,
            LogBlockOptions {
                scheme: Scheme::Bast { victim },
                ..LogBlockOptions::bast()
            },
        ));
        bench.write(3, 0);
        bench.write(4, 5);
        bench.write(3, 1);
        assert_eq!(bench.cost(|b| b.write(5, 5)), expected, "{victim:?}");
    }
}

#[test]
fn sast_merges_every_block_of_the_group_that_the_log_names() {
    let mut bench = Bench::aged(with_logs(4, LogBlockOptions::sast(2, 1)));
    (0..16).for_each(|_| bench.write(6, 5));
    (0..16).for_each(|_| bench.write(7, 5));
    assert_eq!(bench.cost(|b| b.write(6, 5)), cost(1, 64, 3, [0, 0, 2]));
}

#[test]
fn sast_takes_a_second_log_before_it_merges() {
    let mut bench = Bench::aged(with_logs(4, LogBlockOptions::sast(2, 2)));
    assert_eq!(
        bench.cost(|b| (0..64).for_each(|i| b.write(6 + i % 2, 5))),
        cost(64, 0, 0, [0; 3])
    );
    // The first log names nothing newest any more: it is erased without a merge.
    assert_eq!(bench.cost(|b| b.write(6, 5)), cost(1, 0, 1, [0; 3]));
}

#[test]
fn fast_switches_and_completes_its_sequential_log() {
    let mut bench = Bench::aged(with_logs(4, LogBlockOptions::fast()));
    bench.run(3, 0..32);
    assert_eq!(bench.cost(|b| b.write(4, 0)), cost(1, 0, 1, [1, 0, 0]));
    bench.run(4, 1..10);
    assert_eq!(bench.cost(|b| b.write(5, 0)), cost(1, 22, 1, [0, 1, 0]));
}

#[test]
fn fast_merges_the_sequential_log_at_a_page_out_of_order() {
    let fast = |pending| LogBlockOptions {
        scheme: Scheme::Fast {
            mismatch: Mismatch::Merge,
            pending,
            owner: OwnerMerge::Partial,
        },
        ..with_logs(4, LogBlockOptions::fast())
    };
    let cases = [
        // Ahead: completed around the page. Behind: a full merge with it.
        (Pending::Merged, 12, cost(1, 21, 1, [0, 1, 0])),
        (Pending::Merged, 4, cost(1, 31, 2, [0, 0, 1])),
        (Pending::Logged, 12, cost(1, 22, 1, [0, 1, 0])),
        (Pending::Logged, 4, cost(1, 22, 1, [0, 1, 0])),
    ];
    for (pending, off, expected) in cases {
        let mut bench = Bench::aged(fast(pending));
        bench.run(3, 0..10);
        assert_eq!(
            bench.cost(|b| b.write(3, off)),
            expected,
            "{pending:?} {off}"
        );
    }
}

#[test]
fn fast_may_send_a_page_out_of_order_to_the_random_logs() {
    let scheme = Scheme::Fast {
        mismatch: Mismatch::Random,
        pending: Pending::Merged,
        owner: OwnerMerge::Partial,
    };
    let mut bench = Bench::aged(LogBlockOptions {
        scheme,
        ..with_logs(4, LogBlockOptions::fast())
    });
    bench.run(3, 0..10);
    assert_eq!(bench.cost(|b| b.write(3, 4)), cost(1, 0, 0, [0; 3]));
    assert_eq!(bench.cost(|b| b.run(3, 10..32)), cost(22, 0, 0, [0; 3]));
    assert_eq!(bench.cost(|b| b.write(4, 0)), cost(1, 0, 1, [1, 0, 0]));
}

#[test]
fn fast_reclaims_a_random_log_with_a_merge_for_each_block_it_names() {
    let mut bench = Bench::aged(with_logs(2, LogBlockOptions::fast()));
    assert_eq!(
        bench.cost(|b| (0..32).for_each(|i| b.write(3 + i % 3, 1 + i / 3))),
        cost(32, 0, 0, [0; 3])
    );
    assert_eq!(bench.cost(|b| b.write(9, 9)), cost(1, 96, 4, [0, 0, 3]));
}

#[test]
fn fast_merges_stale_pages_only_when_asked_to() {
    for (skip_stale, expected) in [
        (true, cost(1, 0, 1, [0; 3])),
        (false, cost(1, 32, 2, [0, 0, 1])),
    ] {
        let mut bench = Bench::aged(LogBlockOptions {
            skip_stale,
            ..with_logs(3, LogBlockOptions::fast())
        });
        (0..64).for_each(|_| bench.write(3, 1));
        assert_eq!(bench.cost(|b| b.write(9, 9)), expected);
    }
}

#[test]
fn fast_reclaiming_the_owner_of_the_sequential_log_uses_it_up() {
    for (owner, expected) in [
        (OwnerMerge::Partial, cost(1, 22, 2, [0, 1, 0])),
        (OwnerMerge::Full, cost(1, 32, 3, [0, 0, 1])),
    ] {
        let scheme = Scheme::Fast {
            mismatch: Mismatch::Random,
            pending: Pending::Merged,
            owner,
        };
        let mut bench = Bench::aged(LogBlockOptions {
            scheme,
            ..with_logs(2, LogBlockOptions::fast())
        });
        bench.run(3, 0..10);
        (0..32).for_each(|i| bench.write(3, 12 + i % 4));
        assert_eq!(bench.cost(|b| b.write(9, 9)), expected, "{owner:?}");
    }
}

#[test]
fn a_discard_is_a_program_without_data_and_only_once() {
    let mut bench = Bench::aged(with_logs(1, LogBlockOptions::bast()));
    let data = bench.0.medium().counts().programs;
    let before = bench.0.medium().counts().oob_programs;
    assert_eq!(
        bench.cost(|b| b.0.discard(Lba(3 * PAGES), 4).unwrap()),
        cost(4, 0, 0, [0; 3])
    );
    assert_eq!(
        (
            bench.0.medium().counts().programs,
            bench.0.medium().counts().oob_programs
        ),
        (data, before + 4)
    );
    assert_eq!(
        bench.cost(|b| b.0.discard(Lba(3 * PAGES), 4).unwrap()),
        Cost::default()
    );
    // It is in the log like any write, and copied like one.
    assert_eq!(bench.cost(|b| b.write(4, 9)), cost(1, 28, 1, [0, 1, 0]));
    assert_eq!(
        bench.cost(|b| b.0.discard(Lba(3 * PAGES), 4).unwrap()),
        Cost::default()
    );
}

/// BAST by its definition, on a device whose every page is written: nothing but counts.
struct Bast {
    /// The offsets in the log of each logical block.
    logs: Vec<Option<Vec<u64>>>,
    /// Logical blocks with a log, the next victim first.
    order: Vec<u64>,
    most: usize,
    recent: bool,
    eager: bool,
    cost: Cost,
}

impl Bast {
    fn merge(&mut self, lbn: u64) {
        let log = self.logs[lbn as usize].take().unwrap();
        self.order.retain(|&l| l != lbn);
        let in_order = log.iter().enumerate().all(|(i, &off)| off == i as u64);
        let (copies, erases, kind) = match (in_order, log.len() as u64) {
            (true, PAGES) => (0, 1, [1, 0, 0]),
            (true, n) => (PAGES - n, 1, [0, 1, 0]),
            (false, _) => (PAGES, 2, [0, 0, 1]),
        };
        self.cost.copies += copies;
        self.cost.erases += erases;
        self.cost.merges.switch += kind[0];
        self.cost.merges.partial += kind[1];
        self.cost.merges.full += kind[2];
    }

    fn write(&mut self, lbn: u64, off: u64) {
        if self.logs[lbn as usize]
            .as_ref()
            .is_some_and(|log| log.len() as u64 == PAGES)
        {
            self.merge(lbn);
        }
        if self.logs[lbn as usize].is_none() {
            if self.order.len() == self.most {
                self.merge(self.order[0]);
            }
            self.logs[lbn as usize] = Some(Vec::new());
            self.order.push(lbn);
        }
        self.cost.programs += 1;
        let log = self.logs[lbn as usize].as_mut().unwrap();
        log.push(off);
        let full = log.len() as u64 == PAGES;
        if self.recent {
            self.order.retain(|&l| l != lbn);
            self.order.push(lbn);
        }
        if full && self.eager {
            self.merge(lbn);
        }
    }
}

/// Hot pages, runs from the start of a block, and pages anywhere.
fn workload(blocks: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..4_000u64).flat_map(move |i| {
        let word = nandlab_sim::mix(11, i);
        let lbn = word >> 8 & 0xffff;
        match word % 8 {
            0 => (0..PAGES).map(|off| (lbn % blocks, off)).collect(),
            1 => (0..1 + (word >> 32) % PAGES)
                .map(|off| (lbn % blocks, off))
                .collect(),
            2..6 => vec![(lbn % 4, (word >> 32) % 3)],
            _ => vec![(lbn % blocks, (word >> 32) % PAGES)],
        }
    })
}

#[test]
fn bast_and_sast_of_one_block_and_one_log_do_what_the_definition_of_bast_counts() {
    for (victim, eager) in [
        (LogVictim::LeastRecent, false),
        (LogVictim::LeastRecent, true),
        (LogVictim::Fifo, false),
        (LogVictim::Fifo, true),
    ] {
        let most = 7;
        let bast = LogBlockOptions {
            scheme: Scheme::Bast { victim },
            eager,
            ..with_logs(most, LogBlockOptions::bast())
        };
        let sast = LogBlockOptions {
            scheme: Scheme::Sast {
                blocks: 1,
                logs: 1,
                victim,
            },
            eager,
            ..with_logs(most, LogBlockOptions::sast(1, 1))
        };
        let mut costs = Vec::new();
        for options in [bast, sast] {
            let mut bench = Bench::aged(options);
            let blocks = u64::from(bench.0.logical_blocks());
            costs.push(bench.cost(|b| workload(blocks).for_each(|(lbn, off)| b.write(lbn, off))));
        }
        let blocks = (128 - most - 4 - 4) as u64;
        let mut counts = Bast {
            logs: vec![None; blocks as usize],
            order: Vec::new(),
            most: most as usize,
            recent: victim == LogVictim::LeastRecent,
            eager,
            cost: Cost::default(),
        };
        workload(blocks).for_each(|(lbn, off)| counts.write(lbn, off));
        assert_eq!(
            costs,
            [counts.cost, counts.cost],
            "{victim:?}, eager {eager}"
        );
        let Merges {
            switch,
            partial,
            full,
            ..
        } = counts.cost.merges;
        assert!(
            switch > 100 && partial > 100 && full > 100,
            "{:?}",
            counts.cost
        );
    }
}
