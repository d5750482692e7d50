//! Directories: levels of buckets by hash, twice as many on each level as on the one above (paper,
//! section 2.4; `fs/f2fs/dir.c`).
//!
//! *Knows nothing of* what names lead to.

use crate::{
    F2fs, F2fsError,
    dentry::{Entry, SLOTS, View, hash},
    format::{BLOCK, NULL, inode, le32, le64, put32, put64},
    map::Part,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{DirEntry, Errno, FileType, Ino};

/// Levels of a directory at most.
const LEVELS: u32 = 63;

/// An entry and the block that it is in; none in the inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub dir: u32,
    pub index: Option<u32>,
    pub entry: Entry,
}

impl Found {
    /// The error of an entry that leads to no inode in use.
    pub fn leads_astray(&self) -> F2fsError {
        F2fsError::Entry {
            dir: self.dir,
            index: self.index.unwrap_or(0),
            slot: self.entry.slot,
            field: "inode",
            found: self.entry.ino.into(),
            expected: "an inode in use",
        }
    }
}

/// Receives a block (none: the inode), an entry in it and the position behind; says whether to go
/// on.
type Each<'a> = &'a mut dyn FnMut(Option<u32>, &Entry, u64) -> Result<bool, F2fsError>;

fn buckets(level: u32, extra: u32) -> u64 {
    1 << (level + extra).min(30)
}

fn bucket_blocks(level: u32) -> u64 {
    if level < LEVELS / 2 { 2 } else { 4 }
}

/// First block of a hash's bucket on a level.
fn bucket(level: u32, extra: u32, hash: u32) -> u64 {
    let above: u64 = (0..level)
        .map(|level| buckets(level, extra) * bucket_blocks(level))
        .sum();
    above + u64::from(hash) % buckets(level, extra) * bucket_blocks(level)
}

impl<D: BlockDevice> F2fs<D> {
    pub(crate) fn has_inline_names(&mut self, dir: u32) -> Result<bool, F2fsError> {
        Ok(self.inode(dir)?[inode::INLINE] & inode::INLINE_DENTRY != 0)
    }

    fn depth(&mut self, dir: u32) -> Result<(u32, u32), F2fsError> {
        let bytes = self.inode(dir)?;
        Ok((
            le32(bytes, inode::DEPTH).min(LEVELS),
            u32::from(bytes[inode::DIR_LEVEL]).min(30),
        ))
    }

    /// The block, or the inode, in which an entry is.
    pub(crate) fn names(
        &mut self,
        dir: u32,
        index: Option<u32>,
    ) -> Result<Option<(&[u8], View)>, F2fsError> {
        match index {
            Some(index) => Ok(self.page(dir, index)?.map(|bytes| (bytes, View::BLOCK))),
            None => {
                let view = View::inline(&self.shape(dir)?);
                Ok(Some((self.inode(dir)?, view)))
            }
        }
    }

    fn names_mut(&mut self, dir: u32, index: Option<u32>) -> Result<(&mut [u8], View), F2fsError> {
        match index {
            Some(index) => Ok((self.page_mut(dir, index)?, View::BLOCK)),
            None => {
                let view = View::inline(&self.shape(dir)?);
                Ok((self.node_mut(dir)?, view))
            }
        }
    }

    pub(crate) fn find(&mut self, dir: u32, name: &[u8]) -> Result<Option<Found>, F2fsError> {
        if self.is_folded(dir)? {
            return self.find_by_name(dir, name);
        }
        let hash = hash(name);
        if self.has_inline_names(dir)? {
            let Some((bytes, view)) = self.names(dir, None)? else {
                return Ok(None);
            };
            return Ok(view.find(bytes, name, hash, dir, 0)?.map(|entry| Found {
                dir,
                index: None,
                entry,
            }));
        }
        let (depth, extra) = self.depth(dir)?;
        let mut failure = None;
        for level in 0..depth {
            let first = bucket(level, extra, hash);
            for index in first..first + bucket_blocks(level) {
                let Ok(index) = u32::try_from(index) else {
                    return Ok(None);
                };
                let found = match self.names(dir, Some(index)) {
                    Ok(Some((bytes, view))) => view.find(bytes, name, hash, dir, index)?,
                    Ok(None) | Err(F2fsError::Call(Errno::FileTooBig)) => None,
                    // The name may be in another block.
                    Err(error) => {
                        self.end_names();
                        failure.get_or_insert(error);
                        None
                    }
                };
                if let Some(entry) = found {
                    return Ok(Some(Found {
                        dir,
                        index: Some(index),
                        entry,
                    }));
                }
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Finds a name without its hash.
    fn find_by_name(&mut self, dir: u32, name: &[u8]) -> Result<Option<Found>, F2fsError> {
        let mut found = None;
        self.each_entry(dir, 0, &mut |index, entry, _| {
            let entry = (entry.name == name).then(|| entry.clone());
            found = entry.map(|entry| Found { dir, index, entry });
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Adds a name that is not there.
    pub(crate) fn add_entry(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        kind: FileType,
    ) -> Result<(), F2fsError> {
        let mut entry = Entry {
            slot: 0,
            hash: hash(name),
            ino,
            kind: kind.number(),
            name: name.to_vec(),
        };
        if self.has_inline_names(dir)? {
            let (bytes, view) = self.names(dir, None)?.ok_or(F2fsError::Failed)?;
            if let Some(slot) = view.free_slot(bytes, name.len()) {
                entry.slot = slot;
                let (bytes, view) = self.names_mut(dir, None)?;
                view.put(bytes, &entry);
                return Ok(());
            }
            self.move_names_out(dir)?;
        }
        let (mut depth, extra) = self.depth(dir)?;
        for level in 0..LEVELS {
            if level == depth {
                depth += 1;
                put32(self.node_mut(dir)?, inode::DEPTH, depth);
            }
            let first = bucket(level, extra, entry.hash);
            for index in first..first + bucket_blocks(level) {
                let index = u32::try_from(index).map_err(|_| Errno::NoSpace)?;
                let slot = match self.names(dir, Some(index))? {
                    Some((bytes, view)) => view.free_slot(bytes, name.len()),
                    None => Some(0),
                };
                if let Some(slot) = slot {
                    entry.slot = slot;
                    return self.put_entry(dir, index, &entry);
                }
            }
        }
        Err(Errno::NoSpace.into())
    }

    fn put_entry(&mut self, dir: u32, index: u32, entry: &Entry) -> Result<(), F2fsError> {
        let (bytes, view) = self.names_mut(dir, Some(index))?;
        view.put(bytes, entry);
        let end = (u64::from(index) + 1) * BLOCK as u64;
        let bytes = self.node_mut(dir)?;
        put64(bytes, inode::SIZE, le64(bytes, inode::SIZE).max(end));
        Ok(())
    }

    /// Names leave the inode for the first block, slot by slot.
    fn move_names_out(&mut self, dir: u32) -> Result<(), F2fsError> {
        let shape = self.shape(dir)?;
        let view = View::inline(&shape);
        let bytes = self.inode(dir)?.to_vec();
        let mut entries = Vec::new();
        let mut slot = 0;
        while let Some(entry) = view.next(&bytes, slot, dir, 0)? {
            slot = entry.slot + 1;
            entries.push(entry);
        }
        self.reserve(1)?;
        self.unreserve(1);
        empty_inline(self.node_mut(dir)?, &shape);
        let page = self.page_mut(dir, 0)?;
        entries
            .iter()
            .for_each(|entry| View::BLOCK.put(page, entry));
        Ok(())
    }

    pub(crate) fn remove_entry(&mut self, found: &Found) -> Result<(), F2fsError> {
        self.known.forget(found.dir, &found.entry.name);
        let (bytes, view) = self.names_mut(found.dir, found.index)?;
        view.remove(bytes, &found.entry);
        match found.index {
            Some(index) if view.is_empty(bytes) => self.punch(found.dir, index),
            _ => Ok(()),
        }
    }

    /// The entry leads elsewhere from now on.
    pub(crate) fn point_entry(
        &mut self,
        found: &Found,
        ino: u32,
        kind: FileType,
    ) -> Result<(), F2fsError> {
        self.known.forget(found.dir, &found.entry.name);
        let (bytes, view) = self.names_mut(found.dir, found.index)?;
        view.point(bytes, found.entry.slot, ino, kind.number());
        Ok(())
    }

    /// Blocks with names, in order, from `from` on; one without a number where names are in the
    /// inode.
    pub(crate) fn name_blocks(
        &mut self,
        dir: u32,
        from: u32,
    ) -> Result<Vec<Option<u32>>, F2fsError> {
        if self.has_inline_names(dir)? {
            return Ok(alloc::vec![None]);
        }
        let mut blocks = Vec::new();
        self.walk(dir, &mut |part| match part {
            Part::Slot { index, addr, .. } if addr != NULL && index >= from => {
                blocks.push(Some(index))
            }
            _ => {}
        })?;
        Ok(blocks)
    }

    /// Every entry from a position on, `.` and `..` included, until `each` says no; each with the
    /// position behind it. A block that cannot be had is an error when all others have been gone
    /// through.
    pub(crate) fn each_entry(
        &mut self,
        dir: u32,
        from: u64,
        each: Each<'_>,
    ) -> Result<(), F2fsError> {
        let first = u32::try_from(from / u64::from(SLOTS)).map_err(|_| Errno::Invalid)?;
        let mut failure = None;
        for index in self.name_blocks(dir, first)? {
            let number = index.unwrap_or(0);
            let mut slot = if number == first {
                (from % u64::from(SLOTS)) as u32
            } else {
                0
            };
            if index.is_none() && first > 0 {
                break;
            }
            loop {
                let next = match self.names(dir, index) {
                    Ok(Some((bytes, view))) => view.next(bytes, slot, dir, number),
                    Ok(None) => break,
                    Err(error) => Err(error),
                };
                let entry = match next {
                    Ok(Some(entry)) => entry,
                    Ok(None) => break,
                    Err(error) => {
                        self.end_names();
                        failure.get_or_insert(error);
                        break;
                    }
                };
                slot = entry.slot + 1;
                if !each(
                    index,
                    &entry,
                    u64::from(number) * u64::from(SLOTS) + u64::from(slot),
                )? {
                    return Ok(());
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    pub(crate) fn list(
        &mut self,
        dir: u32,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), F2fsError> {
        self.check_dir(dir)?;
        self.check_readable(dir)?;
        let root = self.layout.root;
        self.each_entry(dir, from, &mut |index, entry, next| {
            if entry.name == b"." || entry.name == b".." {
                return Ok(true);
            }
            let wrong = F2fsError::Entry {
                dir,
                index: index.unwrap_or(0),
                slot: entry.slot,
                field: "type",
                found: entry.kind.into(),
                expected: "1 to 7",
            };
            let kind = FileType::from_number(entry.kind).ok_or(wrong)?;
            let ino = if entry.ino == root {
                Ino::ROOT
            } else {
                Ino(entry.ino.into())
            };
            Ok(each(DirEntry {
                ino,
                kind,
                name: &entry.name,
                next,
            }))
        })
    }

    pub(crate) fn is_empty_dir(&mut self, dir: u32) -> Result<bool, F2fsError> {
        let mut empty = true;
        self.each_entry(dir, 0, &mut |_, entry, _| {
            empty = entry.name == b"." || entry.name == b"..";
            Ok(empty)
        })?;
        Ok(empty)
    }
}

/// Clears the names in an inode, which now has a block of them.
fn empty_inline(inode: &mut [u8], shape: &crate::node::Shape) {
    inode[inode::INLINE] &= !inode::INLINE_DENTRY;
    // Linux keeps the space for attributes for good.
    inode[inode::INLINE] |= inode::INLINE_XATTR;
    inode[shape.slots_at()..shape.inline_at() + shape.inline_max()].fill(0);
    put64(inode, inode::SIZE, BLOCK as u64);
    put32(inode, inode::DEPTH, 1);
}
