//! The cleaning experiment: three files of 1 GB on 3.7 GB, 256 MB at random to all of them, then
//! thirty times 256 MB to one; which blocks of which segments are valid at the end, and how many
//! blocks cleaning has moved.
//!
//! It is about blocks, not about time: the volume lies on a disk in memory, and a block takes a
//! fixed time, which decides how old segments are.

use super::streams::Blank;
use crate::PaperError;
use nandlab_block::Ram;
use nandlab_f2fs::{AgeThreshold, Counts, F2fs, Format, Options, Policy};
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::files::FileCalls;
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use std::error::Error;

use nandlab_lab::play::Player;

/// The partition in bytes, as published.
pub const BYTES: u64 = 3_700_000_000;
/// Time that a call takes, ns: a block at 8 MB/s, about what an SSD of the time takes at random.
pub const CALL_NS: u64 = 500_000;

/// How much smaller all of it is.
pub const SCALE: u64 = 8;
/// What is left of the files' lengths besides the scale: F2FS keeps back as many sections on a
/// small volume as on a large one, and the small one is to be as full, 96 %.
const SCALED_PERCENT: u64 = 76;

/// A policy by name.
pub const POLICIES: [(&str, Policy); 3] = [
    ("greedy", Policy::Greedy),
    ("cost-benefit", Policy::CostBenefit),
    // The threshold of a week would be longer than the run.
    (
        "age-threshold",
        Policy::AgeThreshold(AgeThreshold {
            seconds: 0,
            percent: 20,
            least: 10,
            weight: 60,
        }),
    ),
];

/// What came of one policy.
pub struct Cleaned {
    /// The name of the cleaning policy.
    pub policy: &'static str,
    /// Whether logs filled holes as well.
    pub threaded: bool,
    /// Work since the files were written.
    pub counts: Counts,
    /// Segments by valid blocks, in classes of 32: nothing, 1 to 32, ..., 481 to 512.
    pub segments: [u64; CLASSES],
    /// Blocks that the program wrote after the files were there.
    pub asked: u64,
}

/// Classes of segments by their valid blocks.
pub const CLASSES: usize = 17;
/// Blocks of a class.
pub const CLASS: u16 = 32;

impl Cleaned {
    /// Blocks moved for each block that the program wrote.
    pub fn moved(&self) -> f64 {
        (self.counts.moved + self.counts.moved_background) as f64 / self.asked as f64
    }

    /// Share of the segments in use that are at an end of the distribution: at most an eighth
    /// valid, or at least seven.
    pub fn at_ends(&self) -> f64 {
        let used: u64 = self.segments[1..].iter().sum();
        let low: u64 = self.segments[1..=2].iter().sum();
        let high: u64 = self.segments[15..].iter().sum();
        (low + high) as f64 / used as f64
    }
}

/// One run; everything is as published divided by `scale`.
pub fn run(
    policy: (&'static str, Policy),
    threaded: bool,
    (scale, seed): (u64, u64),
) -> Result<Cleaned, PaperError> {
    cleaned(policy, threaded, (scale, seed))
        .map_err(|error| PaperError::wrong(format!("cleaning, {}", policy.0), error))
}

fn cleaned(
    policy: (&'static str, Policy),
    threaded: bool,
    (scale, seed): (u64, u64),
) -> Result<Cleaned, Box<dyn Error>> {
    let mut disk = Ram::new(512, BYTES / scale / 512);
    // Sections are segments, as where nothing is known of the device.
    let format = Format {
        overprovision: Some(5.0),
        ..Format::default()
    };
    nandlab_f2fs::format(&mut disk, &format)?;
    let options = Options {
        foreground: policy.1,
        background: policy.1,
        threaded,
        cleaning_interval: 0,
        discard: false,
        ..Options::default()
    };
    let mut fs = F2fs::mount(disk, options)?;
    let bytes = (1 << 30) / scale * if scale == 1 { 100 } else { SCALED_PERCENT } / 100;
    let spec = RewritesSpec {
        seed,
        bytes,
        spread: (256 << 20) / scale,
        round: (256 << 20) / scale,
        ..RewritesSpec::default()
    };
    let mut calls = Blank(Box::new(Rewrites::new(spec)?));
    let mut player = Player::new(Ino::ROOT);
    let mut now = 0u64;
    let mut before = Counts::default();
    let mut asked = 0;
    while let Some(call) = calls.next() {
        if calls.phase() == "fill" {
            before = fs.counts();
        } else if let nandlab_workload::files::FileCall::Write { .. } = call {
            asked += 1;
        }
        now += CALL_NS;
        let time = Time {
            secs: (now / 1_000_000_000) as i64,
            nanos: (now % 1_000_000_000) as u32,
        };
        player.step(&mut fs, &calls, &call, time)?;
        if fs.due().is_some_and(|due| due <= time) {
            fs.work(time)?;
        }
    }
    let mut segments = [0; CLASSES];
    fs.valid_blocks()
        .for_each(|valid| segments[usize::from(valid.div_ceil(CLASS))] += 1);
    let after = fs.counts();
    let counts = Counts {
        cleaned: after.cleaned - before.cleaned,
        moved: after.moved - before.moved,
        threaded: after.threaded - before.threaded,
        checkpoints: after.checkpoints - before.checkpoints,
        ..after
    };
    Ok(Cleaned {
        policy: policy.0,
        threaded,
        counts,
        segments,
        asked,
    })
}
