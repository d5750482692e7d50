//! Taking checkpoints, and the fsyncs that do without (paper, sections 2.2 and 2.7;
//! `fs/f2fs/checkpoint.c`, `file.c`).
//!
//! *Promises.* A checkpoint is there as a whole or not at all: it overwrites nothing that the one
//! before it needs, and its last block is written when all else is durable. Until then that one and
//! the nodes that fsyncs wrote behind it stay whole. *Knows nothing of* what the nodes say.

use crate::{
    F2fs, F2fsError, SeededBug,
    disk::zeros,
    format::{
        BLOCK, SEGMENT, SIT_ENTRIES, bit, footer, inode, is_direct, le32, log, node_offset, put16,
        put32, set_bit,
    },
    node::kind,
    pack::flag,
    summary::{self, Journals, SIT_JOURNAL, SitEntry},
};
use alloc::{collections::BTreeMap, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{FileType, Sync, Time};

/// Inodes of a block of orphans.
pub(crate) const ORPHANS: usize = 1020;

impl<D: BlockDevice> F2fs<D> {
    /// Whether memory knows more than the last checkpoint.
    fn is_changed(&self) -> bool {
        self.changed_since.is_some()
            || self.nodes.count() > 0
            || !self.nat.changed.is_empty()
            || !self.segments.changed.is_empty()
    }

    /// Makes everything durable but dirty contents; `last` if the volume is left.
    pub(crate) fn take_checkpoint(&mut self, last: bool) -> Result<(), F2fsError> {
        if !self.is_changed() && (!last || self.checkpoint.flags & flag::UMOUNT != 0) {
            return self.disk.flush();
        }
        self.write_checkpoint(last)?;
        // A log that has run out may go on with what has become clean; Linux refuses a volume that
        // says otherwise.
        if self
            .logs
            .iter()
            .any(|log| u32::from(log.state.next) >= SEGMENT)
        {
            for number in 0..log::COUNT {
                if u32::from(self.logs[number].state.next) >= SEGMENT {
                    self.switch_log(number)?;
                }
            }
            self.write_checkpoint(last)?;
        }
        Ok(())
    }

    /// Before the first change after a mount: nodes from now on are distinguished from those that
    /// an earlier mount left behind.
    pub(crate) fn begin(&mut self) -> Result<(), F2fsError> {
        if self.checkpoint.flags & flag::UMOUNT == 0 {
            Ok(())
        } else {
            self.write_checkpoint(false)
        }
    }

    fn write_checkpoint(&mut self, last: bool) -> Result<(), F2fsError> {
        self.write_all_pages(false)?;
        for nid in self.nodes.all_dirty() {
            self.write_node(nid, 0)?;
        }
        self.checkpoint.version = self.checkpoint.version.wrapping_add(1);
        self.flush_nat()?;
        self.flush_sit()?;
        self.write_pack(last)?;
        let discarded = self.segments.checkpointed(&self.log_segments());
        if self.options.discard {
            for segment in discarded {
                self.disk.discard(self.layout.start(segment), SEGMENT)?;
            }
        }
        self.note_checkpoint();
        self.counts.checkpoints += 1;
        Ok(())
    }

    /// Starts to count for the next checkpoint.
    fn note_checkpoint(&mut self) {
        self.since_checkpoint = 0;
        self.checkpoint_valid = self.checkpoint.valid_blocks;
        self.first_time = self.first_time.map(|_| self.now);
        self.needs_checkpoint.clear();
        self.chain_broken = u32::from(self.logs[log::WARM_NODE].state.next) >= SEGMENT;
        self.changed_since = (self.pages.count() > 0).then_some(self.now);
    }

    /// Writes what changed of the segment information table: into the journal what fits, the rest
    /// into the other copies of its blocks.
    fn flush_sit(&mut self) -> Result<(), F2fsError> {
        let mut changed = core::mem::take(&mut self.segments.changed);
        changed.extend(
            self.sit_journal
                .drain(..)
                .map(|(segment, _)| segment)
                .filter(|segment| *segment < self.layout.segments_main),
        );
        let mut blocks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        changed.iter().for_each(|segment| {
            blocks
                .entry(segment / SIT_ENTRIES)
                .or_default()
                .push(*segment)
        });
        let mut blocks: Vec<_> = blocks.into_iter().collect();
        blocks.sort_by_key(|(block, segments)| (segments.len(), *block));
        for (block, segments) in blocks {
            if self.sit_journal.len() + segments.len() <= SIT_JOURNAL {
                self.sit_journal.extend(
                    segments
                        .iter()
                        .map(|segment| (*segment, self.segments.get(*segment).entry.clone())),
                );
            } else {
                self.write_sit_block(block)?;
            }
        }
        Ok(())
    }

    fn write_sit_block(&mut self, block: u32) -> Result<(), F2fsError> {
        let mut bytes = zeros();
        for at in 0..SIT_ENTRIES.min(self.layout.segments_main - block * SIT_ENTRIES) {
            self.segments
                .get(block * SIT_ENTRIES + at)
                .entry
                .put(&mut bytes, at as usize * SitEntry::BYTES);
        }
        let second = !bit(&self.checkpoint.sit_map, block as usize);
        let addr = self.layout.sit + block + if second { self.layout.sit_blocks() } else { 0 };
        set_bit(&mut self.checkpoint.sit_map, block as usize, second);
        self.disk.write(addr, &bytes)
    }

    /// The pack: head, bitmaps, orphans, summaries, and the head again.
    fn write_pack(&mut self, last: bool) -> Result<(), F2fsError> {
        let logs = self.log_segments();
        let journals = Journals {
            nat: self
                .nat
                .journal
                .iter()
                .map(|(nid, entry)| (*nid, *entry))
                .collect(),
            sit: self.sit_journal.clone(),
        };
        let orphans = self.orphan_blocks();
        let used: Vec<&[summary::Owner]> = self.logs[..log::DATA]
            .iter()
            .map(|log| {
                &log.owners[..if log.state.threaded {
                    SEGMENT as usize
                } else {
                    usize::from(log.state.next).min(SEGMENT as usize)
                }]
            })
            .collect();
        let compact = summary::compact_blocks(used.iter().map(|owners| owners.len()).sum()) < 3;
        let mut summaries = if compact {
            summary::compact(&journals, &used)
        } else {
            Vec::new()
        };
        if !compact {
            for (number, log) in self.logs[..log::DATA].iter().enumerate() {
                let nat = (number == log::HOT_DATA).then_some(&journals);
                let sit = (number == log::COLD_DATA).then_some(&journals);
                summaries.push(summary::block(&log.owners, false, nat, sit));
            }
        }
        if last {
            summaries.extend(
                self.logs[log::DATA..]
                    .iter()
                    .map(|log| summary::block(&log.owners, true, None, None)),
            );
        }
        let free = (0..self.segments.len())
            .filter(|segment| {
                self.segments.get(*segment).entry.valid == 0 && !logs.contains(segment)
            })
            .count();
        let states = core::array::from_fn(|number| self.logs[number].state);
        let elapsed = self.mtime();
        let pack = &mut self.checkpoint;
        let cleared = flag::UMOUNT
            | flag::ORPHANS
            | flag::COMPACT
            | flag::FASTBOOT
            | flag::NAT_BITS
            | flag::NO_CRC_RECOVERY
            | flag::TRIMMED;
        pack.flags = pack.flags & !cleared | flag::CRC_RECOVERY;
        for (on, bit) in [
            (last, flag::UMOUNT),
            (compact, flag::COMPACT),
            (!orphans.is_empty(), flag::ORPHANS),
        ] {
            pack.flags |= if on { bit } else { 0 };
        }
        (pack.logs, pack.free, pack.elapsed, pack.second) =
            (states, free as u32, elapsed, !pack.second);
        pack.start_sum = 1 + self.layout.payload + orphans.len() as u32;
        pack.blocks = pack.start_sum + summaries.len() as u32 + 1;
        let head = pack.encode(&self.layout);
        let mut addr = pack.start(&self.layout);
        let payload = pack.payload(&self.layout);
        for block in core::iter::once(&head)
            .chain(&payload)
            .chain(&orphans)
            .chain(&summaries)
        {
            self.disk.write(addr, block)?;
            addr += 1;
        }
        if !self.has_bug(SeededBug::PackUnfenced) {
            self.disk.flush()?;
        }
        self.disk.write(addr, &head)?;
        self.disk.flush()
    }

    fn orphan_blocks(&self) -> Vec<crate::disk::Block> {
        if self.has_bug(SeededBug::OrphansForgotten) {
            return Vec::new();
        }
        let orphans: Vec<u32> = self.orphans.iter().copied().collect();
        let count = orphans.len().div_ceil(ORPHANS) as u16;
        let block = |(number, part): (usize, &[u32])| {
            let mut block = zeros();
            part.iter()
                .enumerate()
                .for_each(|(at, ino)| put32(&mut block, 4 * at, *ino));
            put16(&mut block, BLOCK - 12, number as u16 + 1);
            put16(&mut block, BLOCK - 10, count);
            put32(&mut block, BLOCK - 8, part.len() as u32);
            block
        };
        orphans.chunks(ORPHANS).enumerate().map(block).collect()
    }

    /// Makes an inode durable: by nodes behind the checkpoint if those will lead to it, otherwise
    /// by a checkpoint.
    pub(crate) fn sync_inode(&mut self, ino: u32, what: Sync) -> Result<(), F2fsError> {
        let lean = what == Sync::Data;
        self.write_pages_of(ino, lean)?;
        let nodes = self.dirty_nodes(ino, lean);
        if self.needs_whole(ino)? {
            return self.take_checkpoint(false);
        }
        // Contents that went before this call may wait in the device, too.
        let waits = self.options.ordered && !self.has_bug(SeededBug::ContentsUnfenced);
        if waits && !nodes.is_empty() {
            self.disk.flush()?;
        }
        for nid in &nodes {
            let is_new = self.nat.fresh.contains(&ino) && !self.has_bug(SeededBug::NameUnmarked);
            let dentry = if *nid == ino && is_new {
                footer::DENTRY
            } else {
                0
            };
            self.write_node(*nid, footer::FSYNC | dentry)?;
        }
        self.counts.roll_forwards += u64::from(!nodes.is_empty());
        if self.has_bug(SeededBug::FsyncUnflushed) {
            return Ok(());
        }
        self.disk.flush()
    }

    /// Nodes of a file that wait and that a roll-forward takes up; if `lean` without those that
    /// contents do not need.
    fn dirty_nodes(&self, ino: u32, lean: bool) -> Vec<u32> {
        let of = |bytes: &[u8]| le32(bytes, footer::INO) == ino && is_direct(node_offset(bytes));
        let dirty = self
            .nodes
            .dirty_blocks()
            .filter(|(_, bytes)| of(bytes))
            .map(|(nid, _)| nid);
        dirty
            .filter(|nid| !lean || !self.nodes.is_light(*nid))
            .collect()
    }

    /// Whether nodes behind the checkpoint would not lead to all of an inode
    /// (`need_do_checkpoint`).
    fn needs_whole(&mut self, ino: u32) -> Result<bool, F2fsError> {
        if self.options.logs == 2
            || !self.options.roll_forward
            || self.chain_broken
            || self.needs_checkpoint.contains(&ino)
        {
            return Ok(true);
        }
        // A roll-forward has all that the checkpoint has, what was given out since, and for new
        // files perhaps blocks of names and nodes above.
        let more =
            self.since_checkpoint + self.since_checkpoint / 512 + self.nat.fresh.len() as u64 + 16;
        if self.checkpoint_valid + more > self.checkpoint.user_blocks {
            return Ok(true);
        }
        let bytes = self.inode(ino)?;
        let kind = kind(bytes);
        let links = le32(bytes, inode::LINKS);
        let parent = le32(bytes, inode::PARENT);
        let lost = self.nat.fresh.contains(&parent) && !self.has_bug(SeededBug::ParentForgotten);
        Ok(kind != Some(FileType::File) || links != 1 || lost)
    }

    /// When changes have waited long enough.
    pub(crate) fn checkpoint_due(&self) -> Option<Time> {
        self.changed_since
            .map(|since| later(since, self.options.checkpoint_interval))
    }
}

/// So many nanoseconds later.
pub(crate) fn later(time: Time, nanos: u64) -> Time {
    let sum = u64::from(time.nanos) + nanos % 1_000_000_000;
    let secs = time
        .secs
        .saturating_add((nanos / 1_000_000_000 + sum / 1_000_000_000) as i64);
    Time {
        secs,
        nanos: (sum % 1_000_000_000) as u32,
    }
}

#[cfg(test)]
mod tests {
    use crate::{F2fs, Format, Options, format};
    use nandlab_block::Ram;

    #[test]
    fn an_entry_of_the_journal_for_a_segment_that_is_not_there_is_dropped() {
        let mut disk = Ram::new(512, 60 << 11);
        format(&mut disk, &Format::default()).unwrap();
        let mut fs = F2fs::mount(disk, Options::default()).unwrap();
        let beyond = fs.layout.segments_main;
        // Nothing else has changed, so there would be space for them.
        fs.segments.changed.clear();
        fs.sit_journal.clear();
        for segment in [beyond, u32::MAX] {
            let entry = fs.segments.get(0).entry.clone();
            fs.sit_journal.push((segment, entry));
        }
        fs.flush_sit().unwrap();
        assert!(fs.sit_journal.is_empty(), "{:?}", fs.sit_journal);
    }
}
