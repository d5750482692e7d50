//! Power cuts and the SLC cache: the explorer cuts a run before, within and after every operation,
//! in folds, in their erases, and again within recoveries.

use crate::common::{hot_and_cold, least_spare, serve};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_crash::{Disk, DiskOp, Plan, SecondLevel, assert_found, explore};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug, SlcOverflow};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::{Geometry, Layer, LayerError};
use nandlab_nand::{Chip, ChipSpec, Reliability, SlcMode};
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::chip;
use nandlab_testkit::share::whole_or;

/// The layer, whose host rests for some steps before each flush.
#[derive(Clone, Debug)]
struct Resting {
    layer: PageOptions,
    steps: u32,
}

struct Rested {
    device: PageFtl<Chip>,
    steps: u32,
}

impl Layer<Chip> for Resting {
    type Device = Rested;

    fn format(&self, chip: Chip) -> Result<Rested, LayerError> {
        let device = self.layer.format(chip)?;
        let steps = self.steps;
        Ok(Rested { device, steps })
    }

    fn attach(&self, chip: Chip) -> Result<Rested, LayerError> {
        let device = self.layer.attach(chip)?;
        let steps = self.steps;
        Ok(Rested { device, steps })
    }

    fn power_off(&self, device: Rested) -> Chip {
        device.device.into_medium()
    }
}

impl BlockDevice for Rested {
    fn geometry(&self) -> &BlockGeometry {
        self.device.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.device.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.device.write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        for _ in 0..self.steps {
            if !self.device.idle()? {
                break;
            }
        }
        self.device.flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.device.discard(lba, sectors)
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.device.remap(pairs)
    }
}

/// A TLC chip of one die, two dies of two planes, or four dies.
fn chip_of(dies: u32) -> ChipSpec {
    let spec = chip::spec(0, if dies == 1 { 28 } else { 48 }, Reliability::default());
    let mut timing = chip::timing(0);
    timing.program_ns = 900_000;
    timing.multi_plane = true;
    ChipSpec {
        geometry: Geometry {
            dies,
            planes: if dies == 2 { 2 } else { 1 },
            pages_per_block: 9,
            ..spec.geometry
        },
        timing,
        slc: Some(SlcMode {
            cell_bits: 3,
            read_ns: 20_000,
            program_ns: 150_000,
            erase_ns: 1_000_000,
            rated_erases: 50_000,
        }),
        ..spec
    }
}

fn layer(dies: u32, bug: Option<SeededBug>) -> Disk<Resting> {
    let chip = chip_of(dies);
    let options = PageOptions {
        map_interval: 8,
        slc_cache_blocks: if dies == 1 { 3 } else { 5 },
        slc_overflow: SlcOverflow::Fold,
        seeded_bug: bug,
        ..PageOptions::default()
    };
    let layer = least_spare(&chip, &options);
    Disk {
        chip,
        layer: Resting { layer, steps: 0 },
    }
}

/// Folds, erases into SLC mode, collection and discards all occur, so that a cut falls into each.
fn assert_run_has_everything(subject: &Disk<Resting>, ops: &[DiskOp]) {
    let mut device = subject.format().unwrap();
    serve(&mut device, ops);
    let tally = device.device.tally();
    let of = |cause| tally.rows().find(|row| row.0 == cause).unwrap().1;
    let fold = of(Cause::Fold);
    let collection = of(Cause::Collection);
    assert!(fold.copies > 40 && fold.erases > 30, "{tally:?}");
    assert!(
        collection.erases > 10 && of(Cause::Mapping).programs > 20,
        "{tally:?}"
    );
}

fn survives_every_cut(subject: &Disk<Resting>) {
    let ops = hot_and_cold(&subject.geometry().unwrap(), 300, 12, 0.15);
    assert_run_has_everything(subject, &ops);
    let plan = Plan {
        words: 3,
        second: SecondLevel::Every(whole_or(40, 160)),
        ..Plan::default()
    };
    let report = explore(subject, &ops, &plan).unwrap();
    assert_eq!(report.violations_total, 0, "{report}");
    assert_eq!(report.cut_points, 3 * report.chip_ops);
    assert!(report.second_level_states > whole_or(500, 80), "{report}");
}

#[test]
fn an_slc_cache_that_folds_survives_every_cut_on_one_die() {
    survives_every_cut(&layer(1, None));
}

#[test]
fn an_slc_cache_that_folds_survives_every_cut_on_four_dies() {
    survives_every_cut(&layer(4, None));
}

#[test]
fn an_slc_cache_with_paired_copies_survives_every_cut_on_two_dies_of_two_planes() {
    let mut subject = layer(2, None);
    subject.layer.layer.multi_plane_copies = true;
    survives_every_cut(&subject);
}

#[test]
fn an_slc_cache_that_folds_in_steps_survives_every_cut() {
    let mut subject = layer(4, None);
    subject.layer.layer.collection = Collection::Steps;
    survives_every_cut(&subject);
}

#[test]
fn an_slc_cache_that_folds_in_idle_time_survives_every_cut() {
    let mut subject = layer(4, None);
    subject.layer.layer.slc_overflow = SlcOverflow::Direct;
    subject.layer.steps = 6;
    survives_every_cut(&subject);
}

#[test]
fn an_slc_cache_before_a_map_cache_survives_every_cut() {
    let mut subject = layer(1, None);
    subject.layer.layer.map_cache = Some(2048);
    subject.layer.layer = least_spare(&subject.chip, &subject.layer.layer);
    survives_every_cut(&subject);
}

fn bites(subject: &Disk<Resting>, bug: SeededBug) {
    let ops = hot_and_cold(&subject.geometry().unwrap(), 400, 40, 0.15);
    let plan = Plan {
        second: SecondLevel::Off,
        shrink_states: 4_000,
        listed: 3,
        ..Plan::default()
    };
    let report = assert_found(subject, &ops, &plan);
    let states = report.states_to_first.unwrap_or(0);
    assert_row("FTL, SLC cache", bug, states, &report.shrunk());
}

#[test]
fn an_erase_that_does_not_wait_for_the_folded_pages_is_found() {
    let bug = SeededBug::FoldUnfenced;
    bites(&layer(4, Some(bug)), bug);
}

#[test]
fn a_discard_that_a_fold_forgets_is_found() {
    let bug = SeededBug::FoldForgets;
    let mut subject = layer(1, Some(bug));
    // Else a map page in its turn says in time what was discarded.
    subject.layer.layer.map_interval = 256;
    bites(&subject, bug);
}
