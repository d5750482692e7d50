//! F2FS takes the rounds.

use super::{Amounts, Rewriter};
use crate::f2fs::disk::{Disk, Pages};
use crate::f2fs::streams::Blank;
use crate::f2fs::volume::{Volume, aligned, options};
use crate::f2fs::work::FILES_REWRITTEN;
use nandlab_f2fs::{Counts, InPlace, Options};
use nandlab_sim::Clock;
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

/// F2FS with the files.
pub struct Live<'a> {
    volume: Volume<'a>,
    calls: Blank,
}

impl<'a> Live<'a> {
    pub fn new(
        disk: Disk<'a>,
        amounts: &Amounts,
        way: Way,
        clock: &Clock,
    ) -> Result<Self, Box<dyn Error>> {
        let spec = amounts.work.rewrites();
        let options = Options {
            threaded: way.threaded,
            in_place: way.in_place,
            // All of a round waits for its fsyncs, as in ext4's page cache.
            dirty_bytes_max: 2 * spec.round,
            ..options()
        };
        let calls = Rewrites::new(RewritesSpec {
            rounds: amounts.most / spec.round + 1,
            ..spec
        })?;
        Ok(Self {
            volume: Volume::new(disk, (&aligned(), options), clock)?,
            calls: Blank(Box::new(calls)),
        })
    }
}

impl Rewriter for Live<'_> {
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
        self.volume.fs.device_mut().pages()
    }

    fn counts(&self) -> Counts {
        self.volume.fs.counts()
    }
}
