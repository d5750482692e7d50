//! The flash at one moment.

use nandlab_ftl::Tally;
use nandlab_ftl::write_cache::CacheCounts;
use nandlab_mtd::Mtd as _;
use nandlab_nand::{Chip, Counts};
use nandlab_sim::Nanos;
use nandlab_stack::Device;

/// The flash at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tally: Tally,
    write_cache: Option<CacheCounts>,
    counts: Counts,
    slc_erases: u64,
    die_busy: Vec<Nanos>,
    /// When everything issued will be done.
    horizon: Nanos,
}

impl Snapshot {
    /// Looks at the flash below `device`.
    pub fn of(device: &dyn Device) -> Self {
        Self {
            write_cache: device.write_cache(),
            ..Self::of_chip(device.medium(), *device.tally())
        }
    }

    /// Looks at a chip of which somebody else keeps the tally.
    pub fn of_chip(chip: &Chip, tally: Tally) -> Self {
        Self {
            tally,
            write_cache: None,
            counts: chip.counts(),
            slc_erases: chip.slc_erases(),
            die_busy: chip.die_busy(),
            horizon: chip.issued().0,
        }
    }

    /// Operations by cause so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts of the write cache so far. `None` without one.
    pub fn write_cache(&self) -> Option<CacheCounts> {
        self.write_cache
    }

    /// Operations on the chip so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Erases into SLC mode so far.
    pub fn slc_erases(&self) -> u64 {
        self.slc_erases
    }

    /// How long each die has been busy so far.
    pub fn die_busy(&self) -> &[Nanos] {
        &self.die_busy
    }

    /// When everything that is under way will be done.
    pub fn horizon(&self) -> Nanos {
        self.horizon
    }

    /// Pages programmed so far, copies included.
    pub fn programs(&self) -> u64 {
        programs(&self.tally)
    }
}

/// Pages programmed, copies included.
pub fn programs(tally: &Tally) -> u64 {
    tally
        .rows()
        .map(|(_, counts)| counts.programs + counts.copies)
        .sum()
}
