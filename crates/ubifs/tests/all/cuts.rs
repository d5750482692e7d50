//! UBIFS on UBI on a chip, the power cut at every flash operation of a mixed run, commits and
//! collection included: what was fsynced is there, a check finds nothing, and work goes on.

use nandlab_crash::files::mixed;
use nandlab_crash::{CrashReport, Cuts, Files, Plan, SecondLevel, assert_survives};
use nandlab_mtd::Bare;
use nandlab_nand::preset;
use nandlab_ubi::{LogOptions, Memory, Options};
use nandlab_ubifs::{Format, UbifsVolume};

type Flash = Files<Bare, UbifsVolume>;

/// Few small blocks, so that the journal is full, the index is written often, and collection has to
/// make room.
fn flash(blocks: u32, format: Format) -> Flash {
    let mut chip = preset::find("slc-2k").unwrap().spec();
    chip.geometry.blocks = blocks;
    chip.geometry.pages_per_block = 16;
    Files {
        chip,
        layer: Bare,
        volume: UbifsVolume {
            format,
            ..UbifsVolume::default()
        },
    }
}

fn everywhere(second: u64) -> Plan {
    Plan {
        words: 2,
        second: SecondLevel::Every(second),
        shrink_states: 200,
        listed: 3,
        ..Plan::default()
    }
}

fn survives(subject: &Flash, seed: u64, count: usize, plan: &Plan) -> CrashReport {
    let report = assert_survives(subject, &mixed(seed, count), plan);
    assert!(report.chip_ops > 250, "{report}");
    report
}

#[test]
fn what_was_fsynced_survives_every_cut() {
    let report = survives(&flash(28, Format::default()), 1, 200, &everywhere(3000));
    assert!(report.states > 1000, "{report}");
}

#[test]
fn other_runs_and_forms_keep_their_promises() {
    for seed in 2..6 {
        let format = Format {
            version: 4 + (seed % 2) as u32,
            compressor: (seed % 4) as u16,
            big_lpt: Some(seed % 2 == 0),
            ..Format::default()
        };
        let sample = Plan {
            cuts: Cuts::Sample(50),
            ..everywhere(300)
        };
        survives(&flash(28, format), seed, 200, &sample);
    }
}

/// Cuts of each run with UBI's thread; a number in the environment raises it.
const CUTS: &str = "NANDLAB_UBIFS_CUTS";

/// UBI erases and moves between the calls, so that every erase and every copy is cut, too.
#[test]
fn erases_and_moves_of_ubi_lose_nothing() {
    let cuts = std::env::var(CUTS).map_or(24, |text| text.parse().unwrap());
    let without_headers = Options {
        headers: nandlab_ubi::Headers::None,
        ..Options::default()
    };
    let memories = [
        (Memory::Scan, Options::default()),
        (Memory::Fastmap, Options::default()),
        (Memory::Log(LogOptions::default()), Options::default()),
        (Memory::Log(LogOptions::default()), without_headers),
    ];
    for (seed, (memory, options)) in (20..).zip(memories) {
        let mut subject = flash(40, Format::default());
        subject.volume.works = true;
        subject.volume.ubi = Options {
            memory,
            wear_threshold: 4,
            ..options
        };
        let plan = Plan {
            cuts: Cuts::Sample(cuts),
            ..everywhere(8)
        };
        let report = survives(&subject, seed, 150, &plan);
        assert!(report.second_level_states > 0, "{report}");
    }
}
