//! The heads of the journal: groups of nodes go into their buffers, and from there to the medium.
//!
//! *Promises.* The nodes of a group lie behind one another in one block. A block is announced in
//! the log before a node is written to it. A node is durable when its head was flushed.
//! *Power loss.* The last write of a head may be torn; its group is then dropped whole.

use crate::error::Result;
use crate::format::draft::{append, pad};
use crate::format::{Branch, Draft, Group, Ref, align8};
use crate::lebs::Lebs;
use crate::log;
use crate::mount::Ubifs;
use crate::node::Buffer;
use alloc::vec::Vec;
use nandlab_vfs::{Errno, Time};

/// A head of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Nodes that collection moves.
    Moved,
    /// The head for inodes and entries.
    Base,
    /// The head for contents of files.
    Data,
}

/// Attempts to make room before a call fails: Linux's limit of blocks that a collection empties.
const ROUNDS: u32 = 32;

/// Where the next reference goes, and what the log refers to.
#[derive(Debug, Default)]
pub(crate) struct LogHead {
    /// The first block of the last commit.
    pub tail: u32,
    pub lnum: u32,
    pub offs: u32,
    /// Parts of the journal since the last commit.
    pub buds: Vec<Ref>,
}

impl<L: Lebs> Ubifs<L> {
    pub(crate) fn next_sqnum(&mut self) -> u64 {
        self.writer.sqnum += 1;
        self.writer.sqnum
    }

    /// Writes nodes that belong together.
    pub(crate) fn write_group(&mut self, head: Head, nodes: Vec<Draft>) -> Result<Vec<Branch>> {
        let bytes = nodes.iter().map(|node| align8(node.len())).sum();
        self.reserve(head, bytes)?;
        let last = nodes.len() - 1;
        let mut places = Vec::new();
        for (index, node) in nodes.into_iter().enumerate() {
            let group = match head {
                Head::Data => Group::None,
                _ if index == last => Group::Last,
                _ => Group::Inside,
            };
            let sqnum = self.next_sqnum();
            places.extend(self.push(head, &node.seal(sqnum, group)));
        }
        self.write_whole(head)?;
        Ok(places)
    }

    /// Puts a node into the buffer of an open head.
    pub(crate) fn push(&mut self, head: Head, node: &[u8]) -> Option<Branch> {
        if !self.is_waiting() {
            self.writer.waiting_since = self.writer.now;
        }
        let buffer = self.media.heads[head as usize].as_mut()?;
        let place = Branch {
            lnum: buffer.lnum,
            offs: buffer.end(),
            len: node.len() as u32,
        };
        append(&mut buffer.bytes, node);
        let end = buffer.end();
        self.writer.blocks.written(place.lnum, end, 0);
        Some(place)
    }

    /// True if a head has nodes that are only in memory.
    fn is_waiting(&self) -> bool {
        let mut heads = self.media.heads.iter().flatten();
        heads.any(|head| !head.bytes.is_empty())
    }

    /// The time since when nodes have been in memory only, if any are.
    pub(crate) fn waits_since(&self) -> Option<Time> {
        self.is_waiting().then_some(self.writer.waiting_since)
    }

    /// Writes what fills whole writes.
    pub(crate) fn write_whole(&mut self, head: Head) -> Result<()> {
        let min_io = self.media.geometry().min_io;
        let Some(buffer) = self.media.heads[head as usize].as_mut() else {
            return Ok(());
        };
        let len = buffer.bytes.len() as u32 / min_io * min_io;
        if len == 0 {
            return Ok(());
        }
        let rest = buffer.bytes.split_off(len as usize);
        let bytes = core::mem::replace(&mut buffer.bytes, rest);
        let lnum = buffer.lnum;
        let offs = buffer.offs;
        buffer.offs += len;
        self.media.write(lnum, offs, &bytes)
    }

    /// Writes everything that a head has, and padding.
    pub(crate) fn flush(&mut self, head: Head) -> Result<()> {
        let min_io = self.media.geometry().min_io;
        let Some(buffer) = self.media.heads[head as usize].as_mut() else {
            return Ok(());
        };
        let end = buffer.end();
        pad(&mut buffer.bytes, min_io);
        let padded = buffer.end();
        let lnum = buffer.lnum;
        self.writer.blocks.written(lnum, padded, padded - end);
        self.write_whole(head)
    }

    /// Writes everything that the heads have. Contents come first: an inode may tell of them.
    pub(crate) fn flush_all(&mut self) -> Result<()> {
        self.flush(Head::Moved)?;
        self.flush(Head::Data)?;
        self.flush(Head::Base)
    }

    /// Bytes that a head still has in its block.
    pub(crate) fn left(&self, head: Head) -> u32 {
        let leb = self.media.geometry().leb;
        let open = self.media.heads[head as usize].as_ref();
        open.map_or(0, |buffer| leb - buffer.end())
    }

    /// Makes sure that `bytes` fit behind a head.
    fn reserve(&mut self, head: Head, bytes: u32) -> Result<()> {
        if self.left(head) >= bytes {
            return Ok(());
        }
        self.close_head(head)?;
        for _ in 0..ROUNDS {
            if self.must_commit() {
                self.commit()?;
            }
            if let Some((lnum, offs)) = self.find_room(head, bytes) {
                return self.open_head(head, lnum, offs);
            }
            if !self.make_room()? {
                break;
            }
            if self.left(head) >= bytes {
                return Ok(());
            }
        }
        Err(Errno::NoSpace.into())
    }

    /// The block of a head is full.
    pub(crate) fn close_head(&mut self, head: Head) -> Result<()> {
        self.flush(head)?;
        self.media.heads[head as usize] = None;
        Ok(())
    }

    /// A block for a head, and the byte in it where it is free.
    fn find_room(&self, head: Head, bytes: u32) -> Option<(u32, u32)> {
        let leb = self.media.geometry().leb;
        let blocks = &self.writer.blocks;
        let spare = self.spare_blocks();
        let empty = || {
            let found = blocks.empty().filter(|_| blocks.empties() > spare);
            found.map(|lnum| (lnum, 0))
        };
        let partial = || {
            let found = blocks.partial(bytes);
            found.map(|(lnum, props)| (lnum, leb - props.free))
        };
        match head {
            Head::Data => empty().or_else(partial),
            _ => partial().or_else(empty),
        }
    }

    /// Lets a head go on in a block, from a byte on.
    pub(crate) fn open_head(&mut self, head: Head, lnum: u32, offs: u32) -> Result<()> {
        let min_io = self.media.geometry().min_io;
        if offs == 0 {
            self.media.renew(lnum)?;
        }
        let node = Ref {
            lnum,
            offs,
            head: head as u32,
        };
        let sqnum = self.next_sqnum();
        let mut bytes = node.draft().seal(sqnum, Group::None);
        pad(&mut bytes, min_io);
        self.turn_log(bytes.len() as u32)?;
        let log = &mut self.writer.log;
        self.media.write(log.lnum, log.offs, &bytes)?;
        log.offs += bytes.len() as u32;
        log.buds.push(node);
        self.writer.blocks.take(lnum);
        let bytes = Vec::new();
        self.media.heads[head as usize] = Some(Buffer { lnum, offs, bytes });
        Ok(())
    }

    /// Goes to the next block of the log if this one is full.
    fn turn_log(&mut self, bytes: u32) -> Result<()> {
        let here = self.media.geometry();
        let log = &mut self.writer.log;
        if log.offs + bytes > here.leb {
            log.lnum = log::next(log.lnum, &here);
            log.offs = 0;
            self.media.unmap(log.lnum)?;
        }
        Ok(())
    }

    /// Blocks of the log that hold nothing.
    pub(crate) fn empty_log_lebs(&self) -> u32 {
        let here = self.media.geometry();
        let log = &self.writer.log;
        let used = (log.lnum + here.log_lebs - log.tail) % here.log_lebs + 1;
        here.log_lebs - used
    }

    /// Whether the log or the journal has no space for another block.
    pub(crate) fn must_commit(&self) -> bool {
        let here = self.media.geometry();
        let log = &self.writer.log;
        let unit = 64u32.next_multiple_of(here.min_io);
        // One block is kept for the commit itself.
        let is_log_full = log.offs + unit > here.leb && self.empty_log_lebs() < 2;
        let buds = log.buds.iter().map(|bud| u64::from(here.leb - bud.offs));
        let most = self.media.head.bud_bytes.max(5 * u64::from(here.leb));
        is_log_full || buds.sum::<u64>() + u64::from(here.leb) > most
    }
}
