//! F2FS and our ext4 take the rounds.

use super::{Amounts, Rewriter};
use crate::f2fs::disk::{Disk, Pages};
use crate::f2fs::streams::Blank;
use crate::f2fs::volume::{OnDisk, Volume, aligned, ext4, options};
use crate::f2fs::work::FILES_REWRITTEN;
use nandlab_ext::Ext;
use nandlab_f2fs::{Counts, F2fs, InPlace, Options};
use nandlab_sim::Clock;
use nandlab_vfs::FileSystem;
use nandlab_workload::files::FileCall;
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use std::error::Error;

/// How F2FS frees space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Logs fill holes where clean sections are few.
    pub threaded: bool,
    /// When contents are overwritten where they lie.
    pub in_place: InPlace,
}

/// A file system with the files.
pub struct Live<F> {
    volume: Volume<F>,
    calls: Blank,
}

impl<'a> Live<F2fs<Disk<'a>>> {
    pub fn f2fs(
        mut disk: Disk<'a>,
        amounts: &Amounts,
        way: Way,
        clock: &Clock,
    ) -> Result<Self, Box<dyn Error>> {
        let options = Options {
            threaded: way.threaded,
            in_place: way.in_place,
            dirty_bytes_max: dirty(amounts),
            ..options()
        };
        nandlab_f2fs::format(&mut disk, &aligned())?;
        Self::new(F2fs::mount(disk, options)?, amounts, clock)
    }
}

impl<'a> Live<Ext<Disk<'a>>> {
    pub fn ext4(disk: Disk<'a>, amounts: &Amounts, clock: &Clock) -> Result<Self, Box<dyn Error>> {
        let options = nandlab_ext::Options {
            dirty_bytes_max: dirty(amounts),
            ..nandlab_ext::Options::default()
        };
        Self::new(ext4(disk, options)?, amounts, clock)
    }
}

/// All of a round waits for its fsyncs, as in the page cache of the recorded ext4.
fn dirty(amounts: &Amounts) -> u64 {
    2 * amounts.work.rewrites().round
}

impl<F: FileSystem> Live<F> {
    fn new(fs: F, amounts: &Amounts, clock: &Clock) -> Result<Self, Box<dyn Error>> {
        let spec = amounts.work.rewrites();
        let calls = Rewrites::new(RewritesSpec {
            rounds: amounts.most / spec.round + 1,
            ..spec
        })?;
        Ok(Self {
            volume: Volume::of(fs, clock),
            calls: Blank(Box::new(calls)),
        })
    }
}

impl<F: OnDisk> Rewriter for Live<F> {
    fn fill(&mut self) -> Result<(), Box<dyn Error>> {
        // A sync behind the fsyncs ends it.
        while let Some(call) = self.calls.next() {
            self.volume.step(&self.calls, &call)?;
            if call == FileCall::Sync {
                return Ok(());
            }
        }
        Err("the files are never complete".into())
    }

    fn round(&mut self) -> Result<u64, Box<dyn Error>> {
        let mut bytes = 0;
        let mut synced = 0;
        while synced < FILES_REWRITTEN {
            let call = self.calls.next().ok_or("no round is left")?;
            self.volume.step(&self.calls, &call)?;
            match call {
                FileCall::Write { length, .. } => bytes += length,
                // Before the first round come those of an empty phase.
                FileCall::Fsync { .. } if bytes > 0 => synced += 1,
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn pages(&mut self) -> Pages {
        self.volume.fs.pages()
    }

    fn counts(&self) -> Counts {
        self.volume.fs.done()
    }
}
