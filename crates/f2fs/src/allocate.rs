//! The six logs: where the next block goes.
//!
//! *Promises.* Blocks that live equally long share a log (paper, table 1; `__get_segment_type_6` of
//! `fs/f2fs/segment.c`). A log writes clean segments one after the other; when few are clean it
//! fills holes instead (threaded logging). *Knows nothing of* what is written.

use crate::{
    F2fs, F2fsError,
    format::{SEGMENT, is_direct, log},
    pack::{LogState, flag},
    summary::{self, Owner, Owners},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// A log in memory.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub state: LogState,
    pub owners: Owners,
}

impl<D: BlockDevice> F2fs<D> {
    /// Segments that logs write.
    pub(crate) fn log_segments(&self) -> [u32; log::COUNT] {
        core::array::from_fn(|number| self.logs[number].state.segment)
    }

    /// The log for a node at a place in its file's tree; `cold` for all but directories.
    pub(crate) fn node_log(&self, offset: u32, cold: bool) -> usize {
        let direct = is_direct(offset);
        match self.options.logs {
            2 => log::HOT_NODE,
            4 if direct && cold => log::WARM_NODE,
            4 => log::COLD_NODE,
            _ if direct && cold => log::WARM_NODE,
            _ if direct => log::HOT_NODE,
            _ => log::COLD_NODE,
        }
    }

    /// The log for contents.
    pub(crate) fn data_log(&self, directory: bool, cold: bool, hot: bool) -> usize {
        match self.options.logs {
            2 => log::HOT_DATA,
            4 => {
                if directory {
                    log::HOT_DATA
                } else {
                    log::COLD_DATA
                }
            }
            _ if directory => log::HOT_DATA,
            _ if cold => log::COLD_DATA,
            _ if hot => log::HOT_DATA,
            _ => log::WARM_DATA,
        }
    }

    /// Where a log writes next; none when it has run out.
    pub(crate) fn next_addr(&self, number: usize) -> Option<u32> {
        let state = self.logs[number].state;
        (u32::from(state.next) < SEGMENT)
            .then(|| self.layout.start(state.segment) + u32::from(state.next))
    }

    /// Takes the next block of a log for `owner`.
    pub(crate) fn allocate(&mut self, number: usize, owner: Owner) -> Result<u32, F2fsError> {
        if u32::from(self.logs[number].state.next) >= SEGMENT {
            self.switch_log(number)?;
        }
        let LogState {
            segment,
            next,
            threaded,
        } = self.logs[number].state;
        let mtime = self.mtime();
        self.segments.mark((segment, next.into()), number, mtime)?;
        self.logs[number].owners[usize::from(next)] = owner;
        let after = if threaded {
            self.segments.get(segment).hole(usize::from(next) + 1)
        } else {
            Some(usize::from(next) + 1)
        };
        self.logs[number].state.next = after.map_or(SEGMENT as u16, |at| at as u16);
        self.since_checkpoint += 1;
        self.given_out += 1;
        self.counts.written[number] += 1;
        self.counts.threaded += u64::from(threaded);
        if u32::from(self.logs[number].state.next) >= SEGMENT {
            match self.switch_log(number) {
                // The block itself has its place; the next one has not.
                Err(F2fsError::Call(Errno::NoSpace)) => self.chain_broken = true,
                outcome => outcome?,
            }
        }
        Ok(self.layout.start(segment) + u32::from(next))
    }

    /// A segment's summary is written, and the log goes on elsewhere.
    pub(crate) fn switch_log(&mut self, number: usize) -> Result<(), F2fsError> {
        let logs = self.log_segments();
        let near = logs[number];
        // Linux looks from the beginning for what is rewritten often, and from where the log is for
        // the rest.
        let hint = if number >= log::DATA || number == log::HOT_DATA {
            0
        } else {
            near
        };
        let clean = || {
            self.segments
                .find_clean(near, hint, self.layout.secs_per_zone, &logs)
        };
        let holes = || {
            if self.options.threaded {
                self.find_holes(number, &logs)
            } else {
                None
            }
        };
        // Without a checksum in their marks, nodes of an earlier chain could be taken for this
        // one's.
        let chain = number == log::WARM_NODE && self.checkpoint.flags & flag::CRC_RECOVERY == 0;
        // A section that a log has begun is written to its end.
        let goes_on = !self.logs[number].state.threaded && self.segments.next_clean(near).is_some();
        let found = match self.wants_holes() && !chain && !goes_on {
            true => holes()
                .map(|at| (at, true))
                .or_else(|| clean().map(|at| (at, false))),
            false => clean()
                .map(|at| (at, false))
                .or_else(|| holes().map(|at| (at, true))),
        };
        let (segment, threaded) = found.ok_or(Errno::NoSpace)?;
        self.close_log(number)?;
        let (next, owners) = match threaded {
            true => {
                let owners = summary::owners(&self.disk.read(self.layout.ssa + segment)?);
                (
                    self.segments
                        .get(segment)
                        .hole(0)
                        .unwrap_or(SEGMENT as usize),
                    owners,
                )
            }
            false => (0, summary::nobody()),
        };
        self.segments.take_for(segment, number);
        self.logs[number] = Log {
            state: LogState {
                segment,
                next: next as u16,
                threaded,
            },
            owners,
        };
        Ok(())
    }

    /// Writes a log's summary to the summary area.
    pub(crate) fn close_log(&mut self, number: usize) -> Result<(), F2fsError> {
        let block = summary::block(&self.logs[number].owners, number >= log::DATA, None, None);
        self.disk
            .write(self.layout.ssa + self.logs[number].state.segment, &block)
    }

    /// Whether clean sections are so few that holes are to be filled (`f2fs_need_SSR`).
    fn wants_holes(&self) -> bool {
        u64::from(self.segments.free_sections)
            <= self.sections_owed() + 2 * u64::from(self.reserved_sections())
    }

    fn find_holes(&self, number: usize, logs: &[u32]) -> Option<u32> {
        let (from, to) = if number < log::DATA {
            (0, log::DATA)
        } else {
            (log::DATA, log::COUNT)
        };
        let mut kinds: Vec<usize> = (from..to).filter(|kind| *kind != number).collect();
        kinds.insert(0, number);
        kinds
            .into_iter()
            .find_map(|kind| self.segments.find_holes(kind, logs))
    }

    /// Sections that the dirty data in memory will take.
    pub(crate) fn sections_owed(&self) -> u64 {
        let section = u64::from(self.layout.segs_per_sec * SEGMENT);
        // A directory's block brings its node along.
        (self.nodes.count() as u64).div_ceil(section)
            + 2 * (self.pages.count() as u64).div_ceil(section)
    }

    pub(crate) fn reserved_sections(&self) -> u32 {
        self.checkpoint.reserved / self.layout.segs_per_sec
    }

    /// The owner of a valid block, from its log or the summary area.
    pub(crate) fn owners_of(&mut self, segment: u32) -> Result<Owners, F2fsError> {
        match self.logs.iter().find(|log| log.state.segment == segment) {
            Some(log) => Ok(log.owners.clone()),
            None if self.recovered.contains_key(&segment) => Ok(self.recovered[&segment].clone()),
            None => Ok(summary::owners(&self.disk.read(self.layout.ssa + segment)?)),
        }
    }

    /// A block with a place is not needed any more.
    pub(crate) fn release(&mut self, addr: u32) -> Result<(), F2fsError> {
        match self.layout.place(addr) {
            Some(place) => self.segments.unmark(place),
            None => Err(F2fsError::Block {
                block: addr,
                offset: 0,
                field: "address",
                found: addr.into(),
                expected: "a block of the main area",
            }),
        }
    }

    /// Seconds that the volume has been mounted, all mounts together: the age of segments.
    pub(crate) fn mtime(&self) -> u64 {
        let mounted = self
            .first_time
            .map_or(0, |first| self.now.secs.saturating_sub(first.secs).max(0));
        self.checkpoint.elapsed.saturating_add(mounted as u64)
    }
}
