//! The power cut everywhere in a run of a layer, with the crash explorer alone: no stack, no TOML.
//!
//! Run it with `cargo run --example cut_power`. The page-mapped layer survives every cut. With one
//! rule left out, the explorer finds a lost sector and shrinks the run that shows it.

use nandlab_block::BlockGeometry;
use nandlab_crash::{Disk, DiskOp, Plan, explore, operations};
use nandlab_ftl::page::{PageOptions, SeededBug};
use nandlab_mtd::LayerError;
use nandlab_nand::{ChipSpec, preset};
use nandlab_workload::pattern::{Amount, Pattern};
use nandlab_workload::{Source, Spec};

/// A small chip, so that the layer collects garbage within a few hundred writes.
fn chip() -> Result<ChipSpec, LayerError> {
    let preset = preset::find("slc-2k").ok_or("the preset slc-2k is gone")?;
    let mut chip = preset.spec();
    chip.geometry.blocks = 32;
    chip.geometry.pages_per_block = 8;
    Ok(chip)
}

/// Random writes of whole pages with a flush after every eighth.
fn requests(disk: &BlockGeometry) -> Result<Vec<DiskOp>, LayerError> {
    let spec = Spec {
        block: 2048,
        align: 2048,
        amount: Amount::Requests(400),
        flush_every: 8,
        ..Spec::new(disk.bytes())
    };
    let mut pattern = Pattern::new(&spec)?;
    let source: &mut dyn Source = &mut pattern;
    Ok(operations(source, disk, 400)?)
}

fn main() -> Result<(), LayerError> {
    for seeded_bug in [None, Some(SeededBug::FlushWithoutSync)] {
        let layer = PageOptions {
            over_provisioning: 0.3,
            seeded_bug,
            ..PageOptions::default()
        };
        let subject = Disk {
            chip: chip()?,
            layer,
        };
        let ops = requests(&subject.geometry()?)?;
        println!(
            "{seeded_bug:?}\n{}",
            explore(&subject, &ops, &Plan::default())?
        );
    }
    Ok(())
}
