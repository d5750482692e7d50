//! Requests below the file system, counted by part of the volume.

use super::phases::Below;
use crate::play::regions::Writes;
use crate::run::driven::Seen;
use nandlab_stack::Parts;
use nandlab_workload::{Op, Request};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far a run has come.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Mount,
    Play,
    Unmount,
}

/// The requests of a run.
pub struct Stream {
    stage: Stage,
    keep: bool,
    /// First byte of the partition, and bytes of a sector.
    start: u64,
    sector: u64,
    /// What the call that is under way writes to contents of files.
    pub group: &'static str,
    /// None until the volume is mounted: only then its parts are known.
    volume: Option<(Arc<dyn Parts>, Writes)>,
    /// What passed since the mount, the unmount included.
    pub below: Below,
    requests: Vec<Request>,
    mounting: usize,
}

impl Stream {
    /// On a partition from byte `start` on, in sectors of so many bytes; keeps the requests if
    /// asked to.
    pub fn new(keep: bool, start: u64, sector: u64) -> Self {
        let group = "files";
        let below = Below::default();
        Self {
            stage: Stage::Mount,
            keep,
            start,
            sector,
            group,
            volume: None,
            below,
            requests: Vec::new(),
            mounting: 0,
        }
    }

    /// The volume is mounted, and these are its parts: the workload begins.
    pub fn begin(&mut self, parts: Arc<dyn Parts>) {
        (self.stage, self.mounting) = (Stage::Play, self.requests.len());
        self.volume = Some((parts.clone(), Writes::new(parts)));
    }

    /// The last call has ended.
    pub fn end(&mut self) {
        self.stage = Stage::Unmount;
    }

    /// The requests that were kept, how many of these the mount made, and what was written where.
    pub fn into_parts(self) -> Option<(Vec<Request>, usize, Writes)> {
        Some((self.requests, self.mounting, self.volume?.1))
    }

    /// One request was served.
    pub fn see(&mut self, seen: &Seen<'_>) {
        let place = |lba: u64| (lba * self.sector).saturating_sub(self.start);
        let request = match *seen {
            Seen::Read(lba, data) => Request {
                op: Op::Read,
                at: 0,
                offset: place(lba.0),
                length: data.len() as u64,
            },
            Seen::Write(lba, data) => Request {
                op: Op::Write,
                at: 0,
                offset: place(lba.0),
                length: data.len() as u64,
            },
            Seen::Discard(lba, sectors) => Request {
                op: Op::Discard,
                at: 0,
                offset: place(lba.0),
                length: sectors * self.sector,
            },
            Seen::Flush => Request::flush(0),
            Seen::Remap(pairs) => {
                self.below.remaps += 1;
                self.below.remapped_sectors += pairs.len() as u64;
                return;
            }
        };
        if self.keep && self.stage != Stage::Unmount {
            self.requests.push(request);
        }
        match *seen {
            Seen::Read(_, data) | Seen::Write(_, data) => self.count(&request, data),
            Seen::Flush => self.below.flushes += 1,
            _ => {}
        }
    }

    fn count(&mut self, request: &Request, data: &[u8]) {
        let Some((parts, writes)) = &mut self.volume else {
            return;
        };
        let first = request.offset / self.sector;
        let below = &mut self.below;
        let mut met = BTreeSet::new();
        let is_write = request.op == Op::Write;
        parts.split(
            (first, self.sector, data),
            self.group,
            &mut |region, sectors| {
                let traffic = below.parts.entry(region).or_default();
                let times = u64::from(met.insert(region));
                let bytes = (sectors.end - sectors.start) * self.sector;
                traffic.add(is_write, times, bytes);
                if is_write && self.stage == Stage::Play {
                    writes.add(region, sectors);
                }
            },
        );
    }
}
