//! The requests of ext4 beside those of ours: the real one's were recorded, ours serves the same
//! calls on a disk in memory.
//!
//! *Knows nothing of* time and of the device: only what reaches a disk is compared.

use super::cells::phases_of;
use super::rival;
use super::work::Work;
use crate::PaperError;
use nandlab_block::{Hook, Hooked, Op as BlockOp, Ram, Request as BlockRequest};
use nandlab_ext::{Ext, Format, Options, format};
use nandlab_lab::play::Player;
use nandlab_vfs::{FileSystem, Ino, Sync, Time};
use nandlab_workload::Op;
use nandlab_workload::files::FileCall;
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

/// Bytes of a sector of the disk.
const SECTOR: u32 = 512;
/// Bytes of dirty contents that Linux keeps before it writes: more than any of these works has.
const DIRTY_BYTES: u64 = 512 << 20;
/// Bytes of the longest request: the two block layers merge up to other lengths.
const MERGED_BYTES: u64 = 128 << 10;
/// Time from one call to the next, so that each write changes the time of its file.
const CALL_NS: u32 = 4_000_000;
/// The phase that no call of the work belongs to.
const UNMOUNT: &str = "unmount";

/// Requests from the mount to the end of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Requests that write.
    pub writes: u64,
    /// Bytes that they write.
    pub bytes: u64,
    /// Requests that write where the request before them ended.
    pub in_sequence: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
    /// Bytes that requests read.
    pub bytes_read: u64,
}

impl Requests {
    /// The share of the requests that go on where the one before them ended.
    pub fn sequence(&self) -> f64 {
        self.in_sequence as f64 / self.writes.max(1) as f64
    }
}

/// Counts the requests of a disk. Writes that go on where the one before ended are one request, as
/// a block layer merges them, up to [`MERGED_BYTES`] and until a flush.
#[derive(Debug, Default)]
struct Counter {
    requests: Requests,
    /// The end of the last write.
    end: u64,
    /// Bytes that the last request may still take.
    left: u64,
    is_counting: bool,
}

impl Counter {
    fn count(&mut self, op: Op, (offset, length): (u64, u64)) {
        match op {
            Op::Write => self.write(offset, length),
            Op::Flush => {
                self.left = 0;
                self.requests.flushes += u64::from(self.is_counting);
            }
            Op::Read if self.is_counting => self.requests.bytes_read += length,
            Op::Read | Op::Discard => {}
        }
    }

    fn write(&mut self, offset: u64, length: u64) {
        let goes_on = offset == self.end;
        self.end = offset + length;
        if !goes_on {
            self.left = 0;
        }
        let begun = length.saturating_sub(self.left).div_ceil(MERGED_BYTES);
        self.left = self.left + begun * MERGED_BYTES - length;
        if self.is_counting {
            self.requests.writes += begun;
            self.requests.bytes += length;
            self.requests.in_sequence += if goes_on {
                begun
            } else {
                begun.saturating_sub(1)
            };
        }
    }
}

/// The requests of the real ext4.
pub fn recorded(work: &Work) -> Result<Requests, PaperError> {
    let names: Vec<_> = phases_of(work)?.0.iter().map(|phase| phase.name).collect();
    let mut counter = Counter::default();
    for request in rival::requests(work)? {
        match rival::mark(work, &request) {
            Some(mark) => {
                counter.is_counting = names.get(mark).is_some_and(|name| *name != UNMOUNT)
            }
            None => counter.count(request.op, (request.offset, request.length)),
        }
    }
    Ok(counter.requests)
}

/// Sees each request of a disk.
struct Watch(Rc<RefCell<Counter>>);

impl Hook for Watch {
    fn before(&mut self, request: &BlockRequest) -> Result<(), nandlab_block::BlockError> {
        let op = match request.op {
            BlockOp::Read => Op::Read,
            BlockOp::Write => Op::Write,
            BlockOp::Flush => Op::Flush,
            BlockOp::Discard | BlockOp::Remap => Op::Discard,
        };
        let place = (
            request.lba.0 * u64::from(SECTOR),
            request.sectors * u64::from(SECTOR),
        );
        self.0.borrow_mut().count(op, place);
        Ok(())
    }
}

/// The requests of ours for the same calls.
pub fn ours(work: &Work) -> Result<Requests, PaperError> {
    let wrong = |what: &dyn Display| PaperError::wrong(format!("ext4, {}", work.key), what);
    let counter = Rc::new(RefCell::new(Counter::default()));
    let ram = Ram::new(SECTOR, work.partition() / u64::from(SECTOR));
    let mut disk = Hooked::with(ram, Watch(counter.clone()));
    let choices = Format {
        journal: true,
        ext4: true,
        block: Some(4096),
        ..Format::default()
    };
    format(&mut disk, &choices).map_err(|error| wrong(&error))?;
    let options = Options {
        cache_bytes: DIRTY_BYTES,
        dirty_bytes_max: DIRTY_BYTES,
        delayed_allocation: true,
        ..Options::default()
    };
    let mut ext = Ext::mount(disk, options).map_err(|error| wrong(&error))?;
    let mut calls = work.open().map_err(|error| wrong(&error))?;
    let mut player = Player::new(Ino::ROOT);
    let mut now = Time::new(1);
    counter.borrow_mut().is_counting = true;
    while let Some(call) = calls.next().filter(|_| calls.phase() != UNMOUNT) {
        now.nanos = (now.nanos + CALL_NS) % 1_000_000_000;
        // The player in the guest syncs its directory.
        let done = match call {
            FileCall::Sync => ext
                .fsync(Ino::ROOT, Sync::All)
                .map_err(|error| wrong(&error)),
            _ => {
                let step = player.step(&mut ext, &*calls, &call, now);
                step.map_err(|error| wrong(&error))
            }
        };
        done?;
    }
    let counted = counter.borrow().requests;
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/formats/ext4.md");
    /// Two figures are near if neither is above the other by more.
    const NEAR: f64 = 0.1;

    /// Figures that are not near, with words of the page's explanation.
    const EXPLAINED: [(&str, &str, &str); 4] = [
        ("iozone", "flushes", "an fsync of a file without changes"),
        (
            "iozone-sync",
            "bytes",
            "a block of the tree in each transaction",
        ),
        ("bonnie", "requests", "marks the volume at the mount"),
        ("bonnie", "flushes", "marks the volume at the mount"),
    ];

    fn row(work: &Work, theirs: &Requests, ours: &Requests) -> String {
        let pair = |one: u64, other: u64| format!("{one} / {other}");
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        format!(
            "| {} | {} | {} / {} | {:.2} / {:.2} | {} |",
            work.name,
            pair(theirs.writes, ours.writes),
            mb(theirs.bytes),
            mb(ours.bytes),
            theirs.sequence(),
            ours.sequence(),
            pair(theirs.flushes, ours.flushes),
        )
    }

    fn is_near(one: f64, other: f64) -> bool {
        one.max(other) <= one.min(other) * (1.0 + NEAR)
    }

    /// The page tells all requests, and explains each figure that differs by more than a tenth.
    #[test]
    fn requests_are_those_of_linux_or_the_page_explains_why_not() {
        let mut missing = Vec::new();
        for work in Work::compared().filter(|work| !work.aged) {
            let theirs = recorded(&work).unwrap();
            let ours = ours(&work).unwrap();
            let row = row(&work, &theirs, &ours);
            if !PAGE.contains(&row) {
                missing.push(row);
            }
            for (what, one, other) in [
                ("requests", theirs.writes, ours.writes),
                ("bytes", theirs.bytes, ours.bytes),
                ("flushes", theirs.flushes, ours.flushes),
            ] {
                let figure = (work.key, what);
                let found = EXPLAINED
                    .iter()
                    .find(|(key, name, _)| (*key, *name) == figure);
                let is_explained = found.is_some_and(|(.., words)| PAGE.contains(words));
                assert!(
                    is_near(one as f64, other as f64) || is_explained,
                    "{figure:?}: {one}, ours {other}"
                );
            }
        }
        assert!(missing.is_empty(), "the page lacks\n{}", missing.join("\n"));
    }
}
