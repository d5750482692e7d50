//! Writes fast commits: an fsync puts tags into the last blocks of the journal, where a whole
//! commit would write all metadata (Linux `fs/ext4/fast_commit.c`).
//!
//! *Promises.* A fast commit holds all changes since the last commit of either kind; otherwise an
//! fsync writes a transaction. Contents are durable before it. *Knows nothing of* the journal's
//! blocks.

use crate::{
    Ext, ExtError, Mode, SeededBug,
    fast_format::{Change, Writer},
    format::{INODE_OLD, compat},
    inode::Inode,
    pending::Pending,
};
use nandlab_block::BlockDevice;

impl<D: BlockDevice> Ext<D> {
    /// Makes all changes durable with a fast commit; false where only a whole commit will do.
    pub(crate) fn fast_commit(&mut self) -> Result<bool, ExtError> {
        let wanted = self.options.fast_commit && self.options.mode == Mode::Ordered;
        if !wanted
            || !self.store.layout.has(compat::FAST_COMMIT)
            || self.pending.is_forbidden() && !self.has_bug(SeededBug::ForbiddenFast)
        {
            return Ok(false);
        }
        if self.pending.is_empty() {
            self.store.barrier()?;
            return Ok(true);
        }
        let place = self.store.disk.journal().and_then(|j| j.fast_place());
        let Some(place) = place.filter(|place| place.left > 0) else {
            return Ok(false);
        };
        let most = place.left as usize * self.store.layout.size();
        let mut writer = Writer::new(self.store.layout.size(), place.tid.0);
        if place.used == 0 {
            writer.head();
        }
        let pending = core::mem::take(&mut self.pending);
        let fits = self.write_tags(&mut writer, &pending, most);
        self.pending = pending;
        if !fits? {
            return Ok(false);
        }
        let bytes = writer.end();
        if bytes.len() > most {
            return Ok(false);
        }
        if !self.has_bug(SeededBug::ContentsLate) {
            self.write_ordered_contents()?;
        }
        if let Some(journal) = self.store.disk.journal_mut() {
            journal.fast_commit(&bytes)?;
        }
        self.pending.clear();
        Ok(true)
    }

    /// The tags of all changes, names first; false if they are more than `most` bytes.
    fn write_tags(
        &mut self,
        writer: &mut Writer,
        pending: &Pending,
        most: usize,
    ) -> Result<bool, ExtError> {
        for renamed in &pending.names {
            let inode = renamed.inode;
            if renamed.change == Change::Create {
                let Some(new) = self.named_file(inode)? else {
                    // The file is gone again.
                    continue;
                };
                self.write_inode_tag(writer, inode, &new)?;
            }
            writer.name(renamed.change, renamed.parent, inode, &renamed.name);
            if writer.len() > most {
                return Ok(false);
            }
        }
        for (&number, &range) in &pending.files {
            let Some(inode) = self.named_file(number)? else {
                continue;
            };
            if let Some((first, last)) = range {
                self.write_ranges(writer, (number, &inode), first, last, most)?;
            }
            self.write_inode_tag(writer, number, &inode)?;
            if writer.len() > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A file that has a name. A cut takes those without.
    fn named_file(&mut self, number: u32) -> Result<Option<Inode>, ExtError> {
        if !self.is_inode_taken(number)? {
            return Ok(None);
        }
        Ok(Some(self.inode(number)?).filter(|inode| inode.links > 0))
    }

    fn write_inode_tag(
        &mut self,
        writer: &mut Writer,
        number: u32,
        inode: &Inode,
    ) -> Result<(), ExtError> {
        let (block, at) = self.inode_place(number);
        let size = self.store.layout.inode_size as usize;
        // Inline contents lie behind the fields.
        let length = match inode.is_inline() {
            true => size,
            false => (INODE_OLD as usize + usize::from(inode.extra)).min(size),
        };
        let bytes = &self.store.block(block)?[at..at + length];
        writer.inode(number, bytes);
        Ok(())
    }

    /// The extents of a file from one block to another; stops when they are more than `most` bytes.
    fn write_ranges(
        &mut self,
        writer: &mut Writer,
        (number, inode): (u32, &Inode),
        first: u32,
        last: u32,
        most: usize,
    ) -> Result<(), ExtError> {
        let end = u64::from(last) + 1;
        let mut at = u64::from(first);
        while at < end && writer.len() <= most {
            let index = at as u32;
            let (extent, next) = self.extent_at(number, inode, index)?;
            let Some(extent) = extent else {
                at = next;
                continue;
            };
            let part = extent.behind(index - extent.logical);
            let part = part.with_count(u64::from(part.count).min(end - at) as u32);
            writer.add_range(number, part);
            at = part.end();
        }
        Ok(())
    }
}
