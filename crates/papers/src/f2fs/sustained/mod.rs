//! Sustained random write: ext4 and F2FS on one volume, with one fill, one request size and one
//! window, until windows agree.
//!
//! *Promises.* A figure is steady if the last three windows differ by at most 5 % of their mean and
//! the translation layer moved pages in each of them; otherwise it says that it is not. Nothing but
//! the device takes time, for either system.
//!
//! | module | its one idea |
//! |---|---|
//! | [`live`] | F2FS, and our ext4 |
//! | [`recorded`] | ext4's recorded requests, continued at the addresses of its files |

mod live;
mod recorded;

use super::disk::{Disk, Pages};
use super::volume::{preconditioned, since};
use super::work::{self, Work};
use crate::runs::Settings;
use crate::{PaperError, Size};
pub use live::Way;
use nandlab_f2fs::Counts;
use nandlab_sim::{Clock, Nanos};
use std::error::Error;

/// Windows that have to agree.
const AGREE: usize = 3;
/// By this share of their mean.
const SPREAD: f64 = 0.05;
/// Points of a curve in a window.
const POINTS: u64 = 4;

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amounts {
    /// The work whose requests ext4 sent when they were recorded; it has the partition and the
    /// files.
    pub work: Work,
    /// The preset of the chip.
    pub chip: &'static str,
    /// Bytes of a window.
    pub window: u64,
    /// The most bytes that are written at random.
    pub most: u64,
}

/// A quarter of the published sizes.
const QUARTER: Amounts = Amounts {
    work: work::SUSTAINED,
    chip: "chip.size=4 GiB",
    window: 1 << 30,
    most: 12 << 30,
};

/// The amounts of the paper's partition.
const PUBLISHED: Amounts = Amounts {
    work: work::SUSTAINED_PUBLISHED,
    chip: "chip.size=16 GiB",
    window: 1 << 30,
    most: 16 << 30,
};

impl Amounts {
    /// Those of a reproduction of this size on the page map.
    pub fn of(size: Size) -> Self {
        match size {
            Size::Small => Self {
                window: 64 << 20,
                most: 512 << 20,
                ..QUARTER
            },
            Size::Usual => QUARTER,
            Size::Published => PUBLISHED,
        }
    }

    /// Those on the hybrid mapping, whose merges take long to compute.
    pub fn of_hybrid(size: Size) -> Self {
        Self {
            window: 64 << 20,
            most: if size == Size::Small {
                64 << 20
            } else {
                768 << 20
            },
            ..QUARTER
        }
    }

    /// In words: what all that write share.
    pub fn reported(&self) -> String {
        let spec = self.work.rewrites();
        format!(
            "{} MiB of {} files on a volume of {} MiB ({:.0} % full), 4 KiB at random, an fsync of \
             each file every {} MiB",
            (spec.files * spec.bytes) >> 20,
            spec.files,
            self.work.partition() >> 20,
            (spec.files * spec.bytes) as f64 / self.work.partition() as f64 * 100.0,
            spec.round >> 20
        )
    }
}

/// The file system that writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum System {
    /// ext4, whose recorded requests are replayed.
    Ext4,
    /// Our ext4, which takes the calls.
    Ext4Live,
    /// F2FS, mounted with these options.
    F2fs(Way),
}

/// A file system on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The file system that writes.
    pub system: System,
    /// Whether the device takes the trim of the whole partition with which a volume is made.
    pub trims: bool,
}

/// What one round of writes took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Bytes that the program wrote.
    pub bytes: u64,
    /// Virtual nanoseconds of the round.
    pub ns: Nanos,
    /// What the device did.
    pub pages: Pages,
}

impl Round {
    fn sum(rounds: &[Self]) -> Self {
        rounds.iter().fold(Self::default(), |sum, round| Self {
            bytes: sum.bytes + round.bytes,
            ns: sum.ns + round.ns,
            pages: sum.pages.with(&round.pages),
        })
    }

    pub fn rate(&self) -> f64 {
        self.bytes as f64 / (self.ns as f64 / 1e9)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Sustained {
    /// The writer and its device.
    pub case: Case,
    pub amounts: Amounts,
    /// All rounds, the first one after the files were filled.
    pub rounds: Vec<Round>,
    /// What F2FS did in them; nothing for ext4.
    pub counts: Counts,
}

impl Sustained {
    fn windows(&self) -> Vec<Round> {
        self.parts(self.amounts.window)
    }

    /// Whole parts of so many bytes.
    fn parts(&self, bytes: u64) -> Vec<Round> {
        let Some(first) = self.rounds.first() else {
            return Vec::new();
        };
        let count = (bytes / first.bytes).max(1) as usize;
        self.rounds.chunks_exact(count).map(Round::sum).collect()
    }

    /// The last windows, as one.
    pub fn end(&self) -> Round {
        let windows = self.windows();
        Round::sum(&windows[windows.len().saturating_sub(AGREE)..])
    }

    /// Whether the last windows agree, and the translation layer moved pages in each.
    pub fn is_steady(&self) -> bool {
        let windows = self.windows();
        let Some(last) = windows.len().checked_sub(AGREE).map(|at| &windows[at..]) else {
            return false;
        };
        let rates = last.iter().map(Round::rate);
        let most = rates.clone().fold(f64::MIN, f64::max);
        let least = rates.clone().fold(f64::MAX, f64::min);
        let mean = rates.sum::<f64>() / AGREE as f64;
        most - least <= SPREAD * mean && last.iter().all(|window| window.pages.moved > 0)
    }

    /// Pages that the translation layer moved in all rounds.
    pub fn moved(&self) -> u64 {
        Round::sum(&self.rounds).pages.moved
    }

    /// Bytes written at random.
    pub fn written(&self) -> u64 {
        Round::sum(&self.rounds).bytes
    }

    /// Bytes written so far, and bytes a second since the point before. The last point is at
    /// [`written`](Self::written).
    pub fn points(&self) -> Vec<(f64, f64)> {
        let Some(first) = self.rounds.first() else {
            return Vec::new();
        };
        let count = (self.amounts.window / POINTS / first.bytes).max(1) as usize;
        let mut written = 0;
        let parts = self.rounds.chunks(count).map(|rounds| {
            let part = Round::sum(rounds);
            written += part.bytes;
            (written as f64, part.rate())
        });
        parts.collect()
    }
}

/// A file system that takes rounds of random writes.
trait Rewriter {
    fn fill(&mut self) -> Result<(), Box<dyn Error>>;

    /// One round; gives the bytes that the program wrote.
    fn round(&mut self) -> Result<u64, Box<dyn Error>>;

    /// What the device has done so far.
    fn pages(&mut self) -> Pages;

    /// What F2FS has done so far.
    fn counts(&self) -> Counts;
}

/// One run, on a device with these settings.
pub fn run(case: Case, amounts: Amounts, settings: Settings) -> Result<Sustained, PaperError> {
    let name = format!("sustained random write, {}", case.name);
    ran(case, amounts, settings).map_err(|error| PaperError::wrong(name, error))
}

fn ran(case: Case, amounts: Amounts, settings: Settings) -> Result<Sustained, Box<dyn Error>> {
    let mut stack = preconditioned(settings.iter().chain(&[amounts.chip]))?;
    let clock = stack.clock.clone();
    let device = stack.disk()?;
    let disk = Disk::new(device, amounts.work.partition(), case.trims);
    let mut rewriter: Box<dyn Rewriter + '_> = match case.system {
        System::Ext4 => Box::new(recorded::Recorded::new(disk, &amounts.work)?),
        System::Ext4Live => Box::new(live::Live::ext4(disk, &amounts, &clock)?),
        System::F2fs(way) => Box::new(live::Live::f2fs(disk, &amounts, way, &clock)?),
    };
    rewriter.fill()?;
    let before = rewriter.counts();
    let mut sustained = Sustained {
        case,
        amounts,
        rounds: Vec::new(),
        counts: Counts::default(),
    };
    while !sustained.is_steady() && sustained.written() < amounts.most {
        sustained.rounds.push(measured(&mut *rewriter, &clock)?);
    }
    sustained.counts = since(&before, &rewriter.counts());
    Ok(sustained)
}

fn measured(rewriter: &mut dyn Rewriter, clock: &Clock) -> Result<Round, Box<dyn Error>> {
    let before = rewriter.pages();
    let from = clock.now();
    let bytes = rewriter.round()?;
    Ok(Round {
        bytes,
        ns: clock.now() - from,
        pages: rewriter.pages().since(&before),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 16 MiB at these rates in MB/s, of which pages were moved in those from `from` on.
    fn sustained(rates: &[f64], from: usize) -> Sustained {
        let bytes = 16 << 20;
        let round = |(at, rate): (usize, &f64)| Round {
            bytes,
            ns: (bytes as f64 / rate * 1000.0) as Nanos,
            pages: Pages {
                moved: u64::from(at >= from),
                ..Pages::default()
            },
        };
        Sustained {
            case: Case {
                key: "k",
                name: "n",
                system: System::Ext4,
                trims: true,
            },
            amounts: Amounts {
                window: 2 * bytes,
                ..QUARTER
            },
            rounds: rates.iter().enumerate().map(round).collect(),
            counts: Counts::default(),
        }
    }

    #[test]
    fn a_curve_ends_at_the_bytes_that_were_written() {
        for count in 2..20 {
            let run = sustained(&vec![4.0; count], 0);
            let points = run.points();
            assert_eq!(points[points.len() - 1].0, run.written() as f64, "{count}");
            assert_eq!(run.written(), count as u64 * (16 << 20));
        }
    }

    #[test]
    fn windows_that_agree_are_steady_once_the_translation_layer_moves_pages() {
        let steady = |rates: &[f64], from| sustained(rates, from).is_steady();
        assert!(steady(&[9.0, 9.0, 4.0, 4.1, 4.1, 4.0, 4.0, 4.0], 0));
        assert!(!steady(&[9.0, 9.0, 4.0, 4.1, 4.1, 4.0, 3.7, 3.7], 0));
        assert!(!steady(&[4.0; 4], 0), "two windows");
        assert!(!steady(&[4.0; 6], 2), "nothing moved in the first");
        assert!(!steady(&[], 0));
    }
}
