//! Replays fast commits (Linux `fs/ext4/fast_commit.c`).
//!
//! *Promises.* The changes of all fast commits become one transaction. It has their number, so they
//! are void when it is durable. A cut before leaves them for the next mount. A tag that would
//! damage the volume is an error with its place, and the volume stays as it is. *Knows nothing of*
//! how tags lie in the journal.
//!
//! Fast commits name what changed since the log's last transaction, names first. An inode without
//! names stays until the last tag, because a later one may give it a name. Then it joins
//! the list of orphans. New nodes and blocks of names never take blocks that a tag adds.

use crate::{
    Ext, ExtError, Mode, Options, SeededBug,
    disk::Disk,
    extent_nodes::Extent,
    fast::{FastLog, Spot},
    fast_format::{Change, Tag},
    format::{Layout, ROOT, flags, le32, sb},
    inode::Inode,
};
use alloc::{boxed::Box, collections::BTreeSet};
use nandlab_block::BlockDevice;
use nandlab_jbd::{Journal, JournalError};
use nandlab_vfs::{FileType, check_name};

/// Byte of an inode at which its generation lies.
const GENERATION: usize = 100;
/// How an inode maps its blocks.
const MAPPING: u32 = flags::EXTENTS | flags::INLINE;

/// Replays the fast commits that wait in a journal.
pub(crate) fn replay<D: BlockDevice>(
    journal: Journal<D>,
    layout: &Layout,
    options: Options,
) -> Result<Journal<D>, ExtError> {
    let Some((area, tid)) = journal.fast_commits() else {
        return Ok(journal);
    };
    if layout.is_read_only() {
        let log = area.start;
        return Err(JournalError::FastCommit { log, tid }.into());
    }
    let whole = Options {
        mode: Mode::Ordered,
        use_reserved: true,
        ..options
    };
    let mut ext = Ext::open(Disk::Journaled(Box::new(journal)), whole)?;
    ext.replay_fast()?;
    match ext.store.disk {
        Disk::Journaled(journal) => Ok(*journal),
        Disk::Plain(_) => Err(JournalError::Internal("a replay lost its journal").into()),
    }
}

impl<D: BlockDevice> Ext<D> {
    fn replay_fast(&mut self) -> Result<(), ExtError> {
        let Some(log) = self.fast_log()? else {
            return Ok(());
        };
        let first = le32(self.store.superblock()?, sb::LAST_ORPHAN);
        self.orphans = self.read_orphans(first)?;
        self.keep_added(&log)?;
        let mut touched = BTreeSet::new();
        self.each_tag(&log, |ext, spot, tag| {
            touched.extend(ext.replay_tag(spot, tag)?);
            ext.check_credits()?;
            match tag {
                Tag::Tail { .. } if ext.has_bug(SeededBug::ReplayDivided) => {
                    ext.commit()?;
                    ext.keep_added(&log)
                }
                _ => Ok(()),
            }
        })?;
        for number in touched {
            self.end_nameless(number)?;
        }
        self.check_credits()?;
        self.commit()
    }

    /// Keeps the blocks free that tags add.
    fn keep_added(&mut self, log: &FastLog) -> Result<(), ExtError> {
        if self.has_bug(SeededBug::FastBlocksReused) {
            return Ok(());
        }
        self.each_tag(log, |ext, _, tag| match tag {
            Tag::AddRange { extent, .. } => ext.keep_free(extent.start, extent.count),
            _ => Ok(()),
        })
    }

    /// Replays one tag. Returns the inode that it may have left without a name.
    fn replay_tag(&mut self, spot: Spot, tag: Tag<'_>) -> Result<Option<u32>, ExtError> {
        match tag {
            Tag::AddRange { inode, extent } => {
                let number = self.fast_number(spot, inode)?;
                self.replay_add(spot, number, extent)?;
                Ok(None)
            }
            Tag::DelRange {
                inode,
                first,
                count,
            } => {
                let number = self.fast_number(spot, inode)?;
                self.replay_del(spot, number, first, count)?;
                Ok(None)
            }
            Tag::Name {
                change,
                parent,
                inode,
                name,
            } => {
                let parent = self.fast_parent(spot, parent)?;
                let number = self.fast_number(spot, inode)?;
                check_name(name).map_err(|_| {
                    let expected = "1 to 255 bytes without / and NUL, neither . nor ..";
                    spot.wrong("name", name.len() as u64, expected)
                })?;
                match change {
                    Change::Create => self.replay_create(spot, parent, number, name)?,
                    Change::Link => self.replay_link(spot, parent, number, name)?,
                    Change::Unlink => self.replay_unlink(spot, parent, number, name)?,
                }
                Ok(Some(number))
            }
            Tag::Inode { inode, bytes } => {
                let number = self.fast_number(spot, inode)?;
                self.replay_inode(spot, number, bytes)?;
                Ok(Some(number))
            }
            Tag::Head { features, .. } if features != 0 => {
                Err(spot.wrong("features of fast commits", features.into(), "none"))
            }
            Tag::Pad | Tag::Tail { .. } | Tag::Head { .. } => Ok(None),
        }
    }

    /// An inode that a tag may change.
    fn fast_number(&self, spot: Spot, number: u32) -> Result<u32, ExtError> {
        let layout = &self.store.layout;
        match (layout.first_inode..=layout.inodes).contains(&number) {
            true => Ok(number),
            false => {
                let expected = "an inode of the volume that is not reserved";
                Err(spot.wrong("inode", number.into(), expected))
            }
        }
    }

    /// A directory that a tag may change: another inode, or the root.
    fn fast_parent(&self, spot: Spot, number: u32) -> Result<u32, ExtError> {
        match number {
            ROOT => Ok(number),
            _ => self.fast_number(spot, number),
        }
    }

    /// An inode in use; none where the bitmap says that it is free.
    fn fast_inode(&mut self, number: u32) -> Result<Option<Inode>, ExtError> {
        let taken = number == ROOT || self.is_inode_taken(number)?;
        taken.then(|| self.inode(number)).transpose()
    }

    /// A transaction holds all changes, or the volume stays as it is.
    fn check_credits(&self) -> Result<(), ExtError> {
        let most = self.store.disk.journal().map_or(0, Journal::credits_max);
        match self.credits() {
            credits if credits > most => Err(JournalError::TooLarge { credits, most }.into()),
            _ => Ok(()),
        }
    }

    /// An inode that has no name now is an orphan.
    fn end_nameless(&mut self, number: u32) -> Result<(), ExtError> {
        match self.fast_inode(number)? {
            Some(mut inode) if inode.links == 0 => {
                self.add_orphan(number, &mut inode)?;
                self.put_inode(number, &inode)
            }
            _ => Ok(()),
        }
    }

    fn replay_inode(&mut self, spot: Spot, number: u32, bytes: &[u8]) -> Result<(), ExtError> {
        let layout = self.store.layout;
        if bytes.len() > layout.inode_size as usize {
            let expected = "no more bytes than an inode of the volume has";
            return Err(spot.wrong("length of an inode", bytes.len() as u64, expected));
        }
        let old = self.inode_before(spot, number, le32(bytes, GENERATION))?;
        let mut image = match old {
            Some(_) => {
                let (block, at) = self.inode_place(number);
                self.store.block(block)?[at..at + layout.inode_size as usize].to_vec()
            }
            None => alloc::vec![0; layout.inode_size as usize],
        };
        // The bytes behind the tag's stay.
        image[..bytes.len()].copy_from_slice(bytes);
        let mut new = Inode::parse(&image, &layout);
        self.check_fast_inode(spot, &new)?;
        self.store.now = self.store.now.max(new.ctime);
        match old {
            Some(old) => {
                self.check_same(spot, &old, &new)?;
                (new.block, new.units, new.dtime) = (old.block, old.units, old.dtime);
                if new.is_dir() {
                    // The tags of its names change these.
                    (new.size, new.links) = (old.size, old.links);
                }
            }
            None => self.begin_inode(spot, number, &mut new)?,
        }
        self.note_large(new.size)?;
        self.inode_bytes_mut(number)?.copy_from_slice(&image);
        self.put_inode(number, &new)
    }

    /// The inode that a tag changes; none if the tag begins it.
    fn inode_before(
        &mut self,
        spot: Spot,
        number: u32,
        generation: u32,
    ) -> Result<Option<Inode>, ExtError> {
        let found = self.fast_inode(number)?;
        let Some(other) = found.filter(|inode| inode.generation != generation) else {
            return Ok(found);
        };
        if other.links > 0 {
            let expected = "that of the inode in use";
            return Err(spot.wrong("generation", generation.into(), expected));
        }
        // Another inode has its number now.
        self.destroy(number)?;
        Ok(None)
    }

    /// A new inode: it has no blocks yet, and a directory has no names.
    fn begin_inode(&mut self, spot: Spot, number: u32, new: &mut Inode) -> Result<(), ExtError> {
        if new.attributes != 0 {
            let found = new.attributes.into();
            return Err(spot.wrong("block of attributes", found, "none in a new inode"));
        }
        if new.is_dir() && new.is_inline() {
            let found = new.flags.into();
            return Err(spot.wrong("flags of a directory", found, "no inline data"));
        }
        self.take_inode(number, new.is_dir())?;
        (new.units, new.dtime) = (0, 0);
        match new.kind() {
            _ if new.has_extents() => new.block = crate::extent_nodes::empty_root(),
            Some(FileType::File | FileType::Directory) if !new.is_inline() => new.block = [0; 15],
            _ => {}
        }
        if new.is_dir() {
            (new.size, new.links) = (0, 2);
        }
        Ok(())
    }

    fn check_fast_inode(&self, spot: Spot, new: &Inode) -> Result<(), ExtError> {
        let foreign = new.flags & self.store.layout.foreign_flags();
        if new.kind().is_none() {
            let expected = "a mode with a known type";
            return Err(spot.wrong("mode", new.mode.into(), expected));
        }
        if foreign != 0 {
            let expected = "no flags of features that the volume lacks";
            return Err(spot.wrong("flags", new.flags.into(), expected));
        }
        let most = match new.has_extents() {
            true => self.store.layout.extent_bytes_max(),
            false => self.store.layout.file_bytes_max(),
        };
        match new.size > most {
            true => Err(spot.wrong("length of a file", new.size, "one that the volume can hold")),
            false => Ok(()),
        }
    }

    /// An inode in use keeps its type, its attributes and the form of its map.
    fn check_same(&self, spot: Spot, old: &Inode, new: &Inode) -> Result<(), ExtError> {
        if old.kind() != new.kind() {
            let expected = "the type of the inode in use";
            return Err(spot.wrong("mode", new.mode.into(), expected));
        }
        if old.attributes != new.attributes {
            let expected = "the block that the inode has";
            return Err(spot.wrong("block of attributes", new.attributes.into(), expected));
        }
        match (old.flags ^ new.flags) & MAPPING {
            0 => Ok(()),
            _ => {
                let expected = "the same kind of map as the inode in use";
                Err(spot.wrong("flags", new.flags.into(), expected))
            }
        }
    }

    /// A file whose extents a tag changes; none if it is free by now.
    fn fast_file(&mut self, spot: Spot, number: u32) -> Result<Option<Inode>, ExtError> {
        match self.fast_inode(number)? {
            Some(inode) if inode.is_dir() || !inode.has_extents() => {
                let found = inode.mode.into();
                Err(spot.wrong("mode of the inode", found, "a file with extents"))
            }
            found => Ok(found),
        }
    }

    fn replay_add(&mut self, spot: Spot, number: u32, new: Extent) -> Result<(), ExtError> {
        let end = u64::from(new.start) + u64::from(new.count);
        let outside = end > self.store.layout.blocks.into() || self.is_metadata(new.start);
        if outside || self.zones.within(new.start, end as u32).next().is_some() {
            let expected = "blocks of the volume that hold no metadata";
            return Err(spot.wrong("blocks of an extent", new.start.into(), expected));
        }
        if new.count == 0 || new.end() > u64::from(u32::MAX) {
            let expected = "1 to 32768 blocks, up to block 2^32 - 1";
            return Err(spot.wrong("length of an extent", new.count.into(), expected));
        }
        let Some(mut inode) = self.fast_file(spot, number)? else {
            return Ok(());
        };
        self.add_range(number, &mut inode, new)?;
        self.put_inode(number, &inode)
    }

    fn replay_del(
        &mut self,
        spot: Spot,
        number: u32,
        first: u32,
        count: u32,
    ) -> Result<(), ExtError> {
        let Some(mut inode) = self.fast_file(spot, number)? else {
            return Ok(());
        };
        let end = u64::from(first) + u64::from(count);
        self.drop_range(number, &mut inode, first, end)?;
        self.put_inode(number, &inode)
    }

    /// A directory in which a tag changes a name; none if it is free by now.
    fn fast_dir(&mut self, spot: Spot, parent: u32) -> Result<Option<Inode>, ExtError> {
        match self.fast_inode(parent)? {
            Some(dir) if !dir.is_dir() || dir.size == 0 => {
                let expected = "a directory that has a name";
                Err(spot.wrong("inode of the directory", parent.into(), expected))
            }
            found => Ok(found.filter(|dir| dir.links > 0)),
        }
    }

    /// True if the directory is in use and lacks the name. One of another inode is an error.
    fn lacks_fast_name(
        &mut self,
        spot: Spot,
        parent: u32,
        number: u32,
        name: &[u8],
    ) -> Result<bool, ExtError> {
        if self.fast_dir(spot, parent)?.is_none() {
            return Ok(false);
        }
        self.spill(parent)?;
        match self.find(parent, name)? {
            None => Ok(true),
            Some(found) if found.record.inode == number => Ok(false),
            Some(_) => {
                let expected = "the inode that the name has already";
                Err(spot.wrong("inode of a name", number.into(), expected))
            }
        }
    }

    fn replay_create(
        &mut self,
        spot: Spot,
        parent: u32,
        number: u32,
        name: &[u8],
    ) -> Result<(), ExtError> {
        let Some(mut inode) = self.fast_inode(number)? else {
            let expected = "an inode in use";
            return Err(spot.wrong("inode of a new name", number.into(), expected));
        };
        let is_new = inode.size == 0 && inode.units == 0;
        if inode.is_dir() && !is_new {
            let expected = "a directory without a name";
            return Err(spot.wrong("inode of a new name", number.into(), expected));
        }
        if !self.lacks_fast_name(spot, parent, number, name)? {
            return Ok(());
        }
        if inode.is_dir() {
            self.fill_dir(number, &mut inode, parent)?;
        } else {
            inode.links = 1;
        }
        self.add_fast_name(parent, number, &inode, name)
    }

    fn replay_link(
        &mut self,
        spot: Spot,
        parent: u32,
        number: u32,
        name: &[u8],
    ) -> Result<(), ExtError> {
        let Some(mut inode) = self.fast_inode(number)? else {
            return Ok(());
        };
        if inode.is_dir() {
            let expected = "no directory";
            return Err(spot.wrong("inode of a second name", number.into(), expected));
        }
        if !self.lacks_fast_name(spot, parent, number, name)? {
            return Ok(());
        }
        inode.links = inode.links.saturating_add(1);
        self.add_fast_name(parent, number, &inode, name)
    }

    /// Puts an inode with one name more, and the name.
    fn add_fast_name(
        &mut self,
        parent: u32,
        number: u32,
        inode: &Inode,
        name: &[u8],
    ) -> Result<(), ExtError> {
        self.put_inode(number, inode)?;
        let kind = inode.kind().map_or(0, FileType::number);
        self.add_entry(parent, name, number, kind)?;
        self.touch_dir(parent, inode.is_dir().into())
    }

    fn replay_unlink(
        &mut self,
        spot: Spot,
        parent: u32,
        number: u32,
        name: &[u8],
    ) -> Result<(), ExtError> {
        let Some(mut inode) = self.fast_inode(number)? else {
            return Ok(());
        };
        if self.fast_dir(spot, parent)?.is_none() {
            return Ok(());
        }
        self.spill(parent)?;
        let found = self.find(parent, name)?;
        // The name may be another inode's by now.
        let Some(found) = found.filter(|found| found.record.inode == number) else {
            return Ok(());
        };
        if inode.is_dir() && !self.is_empty_dir(number)? {
            let expected = "a directory without names";
            return Err(spot.wrong("inode of a removed name", number.into(), expected));
        }
        self.remove_entry(&found)?;
        self.touch_dir(parent, -i32::from(inode.is_dir()))?;
        inode.links = match inode.is_dir() {
            true => 0,
            false => inode.links.saturating_sub(1),
        };
        self.put_inode(number, &inode)
    }
}
