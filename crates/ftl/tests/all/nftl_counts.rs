//! Flash operations of the replacement-block layer against cases worked by hand, and against a
//! model that only counts.
//!
//! The cases are those of Linux: an access reads the OOB of its sector in each unit of the chain; a
//! new unit costs a look at its OOB and the program of its name, a link the same of the unit
//! before; an erase costs a look at the erase count, the erase mark, and with `verify_free` a read
//! of data and OOB of every page.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::nftl::{ChainVictim, Nftl, NftlOptions, Ordering};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, Contents, preset};

const PAGES: u64 = 32;
const BLOCKS: u32 = 128;

/// What a stretch of work cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    reads: u64,
    programs: u64,
    oob_reads: u64,
    oob_programs: u64,
    erases: u64,
    in_place: u64,
    elsewhere: u64,
}

struct Bench(Nftl<Chip>);

impl Bench {
    fn fresh(options: NftlOptions) -> Self {
        let mut spec = preset::find("small-block-64MiB").unwrap().spec();
        spec.geometry = Geometry {
            blocks: BLOCKS,
            ..spec.geometry
        };
        spec.contents = Contents::Dropped;
        spec.rules.partial_programs = if options.ordering == Ordering::Linux {
            4
        } else {
            3
        };
        Self(Nftl::format(Chip::new(spec).unwrap(), options).unwrap())
    }

    /// A device whose every sector has been written once, in order.
    fn aged(options: NftlOptions) -> Self {
        let mut bench = Self::fresh(options);
        (0..bench.0.geometry().sectors).for_each(|lba| bench.0.write(Lba(lba), &[0; 512]).unwrap());
        bench
    }

    fn write(&mut self, unit: u64, offset: u64) {
        self.0.write(Lba(unit * PAGES + offset), &[0; 512]).unwrap();
    }

    fn total(&self) -> Cost {
        let counts = self.0.medium().counts();
        let merges = self.0.tally().merges;
        let cost = Cost {
            reads: counts.reads,
            programs: counts.programs,
            oob_reads: counts.oob_reads,
            oob_programs: counts.oob_programs,
            erases: counts.erases,
            in_place: merges.folds_in_place,
            elsewhere: merges.folds_elsewhere,
        };
        // Nothing is done that is not accounted for, but formatting: an erase, a look and a mark
        // for each block, and two sectors in each media unit.
        let sums = self.0.tally().rows().fold([0; 5], |s, (_, n)| {
            [
                s[0] + n.reads - n.oob_reads,
                s[1] + n.programs - n.oob_programs,
                s[2] + n.oob_reads,
                s[3] + n.oob_programs,
                s[4] + n.erases,
            ]
        });
        let formatting = u64::from(BLOCKS);
        let done = [
            cost.reads,
            cost.programs - 4,
            cost.oob_reads - formatting,
            cost.oob_programs - formatting,
            cost.erases - formatting,
        ];
        assert_eq!(sums, done);
        cost
    }

    fn cost(&mut self, work: impl FnOnce(&mut Self)) -> Cost {
        let before = self.total();
        work(self);
        let after = self.total();
        Cost {
            reads: after.reads - before.reads,
            programs: after.programs - before.programs,
            oob_reads: after.oob_reads - before.oob_reads,
            oob_programs: after.oob_programs - before.oob_programs,
            erases: after.erases - before.erases,
            in_place: after.in_place - before.in_place,
            elsewhere: after.elsewhere - before.elsewhere,
        }
    }
}

fn options(ordering: Ordering, spare_units: u32) -> NftlOptions {
    NftlOptions {
        ordering,
        spare_units,
        ..NftlOptions::default()
    }
}

#[test]
fn writing_a_fresh_device_in_order_costs_a_unit_a_chain() {
    for (ordering, names) in [(Ordering::Linux, 1), (Ordering::Guarded, 0)] {
        let mut bench = Bench::fresh(options(ordering, 4));
        let chains = u64::from(BLOCKS) - 2 - 4 - 2;
        let cost =
            bench.cost(|b| (0..chains * PAGES).for_each(|lba| b.write(lba / PAGES, lba % PAGES)));
        // The first sector of a unit is looked for nowhere, the others in one unit; guarded, its
        // name comes with it.
        let expected = Cost {
            programs: chains * PAGES,
            oob_reads: chains * (1 + 31),
            oob_programs: chains * names,
            ..Cost::default()
        };
        assert_eq!(
            (cost, bench.0.virtual_units()),
            (expected, chains as u32),
            "{ordering:?}"
        );
    }
}

#[test]
fn an_overwrite_adds_a_unit_and_the_next_sector_finds_it() {
    let mut bench = Bench::aged(options(Ordering::Linux, 8));
    // A look into the chain, at the new unit, at the last; its name and the link; the sector.
    let new = Cost {
        programs: 1,
        oob_reads: 1 + 2,
        oob_programs: 2,
        ..Cost::default()
    };
    assert_eq!(bench.cost(|b| b.write(3, 5)), new);
    assert_eq!(
        bench.cost(|b| b.write(3, 6)),
        Cost {
            programs: 1,
            oob_reads: 2,
            ..Cost::default()
        }
    );
    assert_eq!(
        bench.cost(|b| b.write(3, 5)),
        Cost {
            oob_reads: 2 + 2,
            ..new
        }
    );
    let mut buf = [0; 512];
    assert_eq!(
        bench.cost(|b| b.0.read(Lba(3 * 32 + 6), &mut buf).unwrap()),
        Cost {
            reads: 1,
            oob_reads: 3,
            ..Cost::default()
        }
    );

    let mut bench = Bench::aged(options(Ordering::Guarded, 8));
    // The unit before is read whole, and what its first sector holds comes with the name.
    let new = Cost {
        reads: 1,
        programs: 2,
        oob_reads: 1 + 1,
        oob_programs: 1,
        ..Cost::default()
    };
    assert_eq!(bench.cost(|b| b.write(3, 5)), new);
    assert_eq!(
        bench.cost(|b| b.write(3, 6)),
        Cost {
            programs: 1,
            oob_reads: 2,
            ..Cost::default()
        }
    );
    // The first sector itself always takes a unit; it needs no copy.
    assert_eq!(
        bench.cost(|b| b.write(3, 0)),
        Cost {
            programs: 1,
            oob_reads: 2 + 2,
            oob_programs: 1,
            ..Cost::default()
        }
    );
}

#[test]
fn a_hot_sector_costs_a_fold_a_write_once_units_run_out() {
    // Linux: fold mark, name of the folded unit, erase mark, name and link of the new unit. 31
    // copies and the sector. Looks: two units before the fold and one after it, 64 sectors, the
    // erase count, the new unit and the one before it.
    let linux = Cost {
        reads: 31,
        programs: 31 + 1,
        oob_reads: 2 + 64 + 1 + 1 + 2,
        oob_programs: 5,
        erases: 1,
        in_place: 1,
        elsewhere: 0,
    };
    for (ordering, verify_free) in [
        (Ordering::Linux, true),
        (Ordering::Linux, false),
        (Ordering::Guarded, true),
        (Ordering::Guarded, false),
    ] {
        let mut bench = Bench::aged(NftlOptions {
            verify_free,
            ..options(ordering, 2)
        });
        bench.write(3, 5);
        let mut expected = linux;
        if verify_free {
            (expected.reads, expected.oob_reads) = (linux.reads + 32, linux.oob_reads + 32);
        }
        if ordering == Ordering::Guarded {
            // One of the copies is made before the link rather than in the fold; it needs no look
            // and no program for the name.
            (expected.oob_reads, expected.oob_programs) =
                (expected.oob_reads - 1, expected.oob_programs - 1);
        }
        for _ in 0..3 {
            assert_eq!(bench.cost(|b| b.write(3, 5)), expected, "{ordering:?}");
        }
    }
}

#[test]
fn the_longest_chain_gives_way_whatever_it_costs() {
    for (victim, copies) in [(ChainVictim::Longest, 31), (ChainVictim::MinCopy, 1)] {
        let mut bench = Bench::aged(NftlOptions {
            victim,
            verify_free: false,
            ..options(Ordering::Linux, 3)
        });
        bench.write(3, 5);
        (0..31).for_each(|offset| bench.write(7, offset));
        // Both chains have two units: the rule of ties takes the first, 31 copies; the other needs
        // one.
        let cost = bench.cost(|b| b.write(9, 0));
        assert_eq!(
            (cost.reads, cost.programs, cost.in_place),
            (copies, copies + 1, 1),
            "{victim:?}"
        );
    }
}

#[test]
fn a_discard_is_a_program_of_oob_and_only_once() {
    let mut bench = Bench::aged(options(Ordering::Linux, 8));
    let mut discard = |offset| bench.cost(|b| b.0.discard(Lba(3 * PAGES + offset), 1).unwrap());
    assert_eq!(
        discard(5),
        Cost {
            oob_reads: 3,
            oob_programs: 3,
            ..Cost::default()
        }
    );
    assert_eq!(
        discard(6),
        Cost {
            oob_reads: 2,
            oob_programs: 1,
            ..Cost::default()
        }
    );
    assert_eq!(
        discard(5),
        Cost {
            oob_reads: 2,
            ..Cost::default()
        }
    );
    let mut fresh = Bench::fresh(options(Ordering::Linux, 8));
    assert_eq!(
        fresh.cost(|b| b.0.discard(Lba(0), 64).unwrap()),
        Cost::default()
    );
}

/// The scheme by its definition, on a device whose every sector is written: nothing but counts.
struct Model {
    /// The sectors written in each unit of each chain, and whether its first sector came with its
    /// name as a copy.
    chains: Vec<Vec<(u64, bool)>>,
    free: u32,
    guarded: bool,
    victim: ChainVictim,
    /// The chain for which the last fold has left a unit.
    prepared: Option<usize>,
    cost: Cost,
}

impl Model {
    fn erase(&mut self) {
        self.free += 1;
        self.cost.erases += 1;
        self.cost.oob_reads += 1;
        self.cost.oob_programs += 1;
    }

    fn fold(&mut self) {
        if self.prepared.take().is_some() {
            self.erase();
        }
        let copies =
            |chain: &[(u64, bool)]| PAGES - u64::from(chain[chain.len() - 1].0.count_ones());
        let long = || {
            self.chains
                .iter()
                .enumerate()
                .filter(|(_, chain)| chain.len() >= 2)
        };
        let (victim, _) = match self.victim {
            ChainVictim::Longest => long()
                .min_by_key(|(_, chain)| usize::MAX - chain.len())
                .unwrap(),
            ChainVictim::MinCopy => long().min_by_key(|(_, chain)| copies(chain)).unwrap(),
        };
        let chain = core::mem::replace(&mut self.chains[victim], vec![(u64::MAX >> 32, false)]);
        let (written, copied) = chain[chain.len() - 1];
        self.cost.oob_reads += chain.len() as u64 * PAGES;
        self.cost.reads += copies(&chain);
        self.cost.programs += copies(&chain);
        // The name; the fold mark, which guarded is left out where it would be written over a
        // sector.
        self.cost.oob_programs += 1 + u64::from(!self.guarded || written & 4 == 0);
        if self.guarded && !copied {
            self.prepared = Some(victim);
            self.free -= 1;
            self.cost.reads += 1;
            self.cost.programs += 1;
        }
        chain[1..].iter().for_each(|_| self.erase());
        self.cost.in_place += 1;
    }

    fn write(&mut self, chain: usize, offset: u64) {
        loop {
            let units = &mut self.chains[chain];
            match units.iter_mut().position(|unit| unit.0 >> offset & 1 == 0) {
                Some(at) => {
                    self.cost.oob_reads += at as u64 + 1;
                    self.cost.programs += 1;
                    units[at].0 |= 1 << offset;
                    return;
                }
                None => self.cost.oob_reads += units.len() as u64,
            }
            let copied = self.guarded && offset != 0;
            let ready = self.prepared.take().is_some_and(|prepared| {
                let fits = prepared == chain && copied;
                if !fits {
                    self.erase();
                }
                fits
            });
            if !ready && self.free < 2 {
                self.fold();
                continue;
            }
            if !ready {
                // A look at the new unit, which gets its name, with the sector or a copy of the
                // first one unless as in Linux; the first of the unit before is looked at or
                // copied.
                self.free -= 1;
                self.cost.oob_reads += if copied { 0 } else { 1 };
                self.cost.reads += u64::from(copied);
                self.cost.programs += u64::from(copied);
                self.cost.oob_programs += u64::from(!self.guarded);
            }
            // The link, after a look at the new unit or, where that is ready, at the one before;
            // the sector.
            self.cost.oob_reads += 1;
            self.cost.oob_programs += 1;
            self.cost.programs += 1;
            self.chains[chain].push((1 << offset | u64::from(copied), copied));
            return;
        }
    }
}

#[test]
fn the_definition_of_the_scheme_counts_the_same() {
    for ordering in [Ordering::Linux, Ordering::Guarded] {
        for victim in [ChainVictim::Longest, ChainVictim::MinCopy] {
            let spare = 16;
            let chains = u64::from(BLOCKS) - 2 - 16 - 2;
            let mut bench = Bench::aged(NftlOptions {
                victim,
                verify_free: false,
                ..options(ordering, spare)
            });
            let mut model = Model {
                chains: vec![vec![(u64::MAX >> 32, false)]; chains as usize],
                free: spare,
                guarded: ordering == Ordering::Guarded,
                victim,
                prepared: None,
                cost: Cost::default(),
            };
            // Hot sectors of a few units, runs, and sectors anywhere.
            let writes: Vec<(u64, u64)> = (0..2_000u64)
                .flat_map(|i| {
                    let word = nandlab_sim::mix(17, i);
                    let chain = (word >> 8) % chains;
                    let offset = (word >> 32) % PAGES;
                    match word % 8 {
                        0 => (offset..PAGES).map(|offset| (chain, offset)).collect(),
                        1..6 => vec![(chain % 5, offset % 3)],
                        _ => vec![(chain, offset)],
                    }
                })
                .collect();
            writes
                .iter()
                .for_each(|&(chain, offset)| model.write(chain as usize, offset));
            let cost = bench.cost(|b| {
                writes
                    .iter()
                    .for_each(|&(chain, offset)| b.write(chain, offset))
            });
            assert_eq!(cost, model.cost, "{ordering:?} {victim:?}");
            assert!(cost.in_place > 500, "{cost:?}");
        }
    }
}
