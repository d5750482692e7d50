//! UBIFS on UBI on a chip, the power cut at every flash operation of a mixed run, commits and
//! collection included: what was fsynced is there, a check finds nothing, and work goes on.

use nandlab_crash::files::{FileOp, mixed};
use nandlab_crash::{CrashReport, Cuts, Files, Plan, SecondLevel, assert_survives};
use nandlab_mtd::{Bare, Mtd};
use nandlab_nand::preset;
use nandlab_ubi::{LogOptions, Memory, Options};
use nandlab_ubifs::{Format, Switches, UbiLebs, Ubifs, UbifsVolume};
use nandlab_vfs::{Errno, FileSystem, Mounted, Nature, Promise, Volume, VolumeError, delegate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A volume whose commits write in the gaps. It counts the blocks that they fill, and the timers.
#[derive(Clone)]
struct InGaps {
    volume: UbifsVolume,
    filled: Arc<AtomicU64>,
    timers: Arc<AtomicU64>,
}

/// A mounted file system of such a volume.
struct Watched<M> {
    fs: Ubifs<UbiLebs<M>>,
    of: InGaps,
}

impl<M: Mtd + 'static> Volume<M> for InGaps {
    fn nature(&self, _: &M) -> Nature {
        UbifsVolume::NATURE
    }

    fn format(&self, mtd: &mut M) -> Result<(), VolumeError> {
        self.volume.format(mtd)
    }

    fn mount(&self, mtd: M) -> Result<Box<dyn Mounted<M>>, VolumeError> {
        let fs = self.volume.mounted(mtd)?;
        let of = self.clone();
        Ok(Box::new(Watched { fs, of }))
    }
}

impl<M: Mtd> FileSystem for Watched<M> {
    delegate! { [self.fs]
        lookup forget getattr setattr create link unlink rmdir rename readlink read write readdir
        fsync sync unmount statfs getxattr setxattr listxattr removexattr next_data dirty
        write_back due cause
    }

    fn work(&mut self, now: nandlab_vfs::Time) -> Result<(), Errno> {
        if self.fs.due().is_some_and(|due| due <= now) {
            self.of.timers.fetch_add(1, Ordering::Relaxed);
        }
        self.fs.work(now)
    }
}

impl<M: Mtd> Mounted<M> for Watched<M> {
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, VolumeError> {
        self.fs.damage(promise)
    }

    fn into_medium(self: Box<Self>) -> M {
        let filled = self.fs.counts().gaps_filled;
        self.of.filled.fetch_add(filled, Ordering::Relaxed);
        self.fs.into_lebs().into_ubi().into_medium()
    }
}

/// A mixed run with many commits, so that the index takes more blocks than its head.
fn committed(seed: u64, count: usize) -> Vec<FileOp> {
    let mixed = mixed(seed, count);
    let parts = mixed.chunks(3).map(<[FileOp]>::to_vec);
    parts
        .flat_map(|mut part| {
            part.push(FileOp::Sync);
            part
        })
        .collect()
}

#[test]
fn commits_in_the_gaps_and_timers_survive_every_cut() {
    let mut usual = flash(28, Format::default());
    usual.volume.switches = Switches {
        prefers_gaps: true,
        ..Switches::default()
    };
    let volume = InGaps {
        volume: usual.volume,
        filled: Arc::default(),
        timers: Arc::default(),
    };
    let subject = Files {
        chip: usual.chip,
        layer: Bare,
        volume: volume.clone(),
    };
    let plan = Plan {
        cuts: Cuts::Sample(200),
        ..everywhere(100)
    };
    let report = assert_survives(&subject, &committed(31, 150), &plan);
    assert!(report.second_level_states > 0, "{report}");
    let filled = volume.filled.load(Ordering::Relaxed);
    let timers = volume.timers.load(Ordering::Relaxed);
    println!("{report}: {filled} blocks filled, {timers} timers");
    assert!(filled > 20 && timers > 10, "{filled} {timers}");
}
