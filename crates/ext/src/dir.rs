//! Directories as blocks of records: finding, adding, removing, listing names one block after the
//! other.
//!
//! *Promises.* A record that leaves its block, or is too short for its name, is an error with its
//! place; a directory with a hole too. Records that stay do not move, except when an index splits a
//! block. *Knows nothing of* what inodes hold.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{compat, flags, incompat, le16, le32, put16, put32},
    inode::Inode,
    sum::{TAIL, TAIL_KIND},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// Bytes of a record before its name.
const HEADER: usize = 8;

/// A record in a block of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub at: usize,
    pub length: usize,
    /// 0 where there is no name.
    pub inode: u32,
    pub name: usize,
    pub kind: u8,
}

impl Record {
    /// Bytes that a record with so long a name needs.
    pub fn needed(name: usize) -> usize {
        (HEADER + name).next_multiple_of(4)
    }

    /// Bytes that it needs for itself.
    pub fn used(&self) -> usize {
        if self.inode == 0 {
            0
        } else {
            Self::needed(self.name)
        }
    }

    pub fn name_in<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at + HEADER..self.at + HEADER + self.name]
    }

    /// The byte behind the name in its block.
    pub fn name_end(&self) -> usize {
        self.at + HEADER + self.name
    }

    fn is_dot(&self, bytes: &[u8]) -> bool {
        matches!(self.name_in(bytes), b"." | b"..")
    }

    /// Whether it is a name to be listed.
    pub fn is_listed(&self, bytes: &[u8]) -> bool {
        self.inode != 0 && !self.is_dot(bytes)
    }
}

/// Reads the record at a byte of a block, which is `block` in messages. The type byte is part of
/// the length where the volume has no types.
pub(crate) fn record(bytes: &[u8], at: usize, block: u32, types: bool) -> Result<Record, ExtError> {
    let wrong = |field, found: usize, expected| ExtError::Block {
        block,
        offset: at as u32,
        field,
        found: found as u64,
        expected,
    };
    if at + HEADER > bytes.len() {
        return Err(wrong("record", at, "space for 8 bytes"));
    }
    let inode = le32(bytes, at);
    let length = usize::from(le16(bytes, at + 4));
    let name = if types {
        usize::from(bytes[at + 6])
    } else {
        usize::from(le16(bytes, at + 6))
    };
    if length < HEADER + usize::from(inode != 0) || length % 4 != 0 || at + length > bytes.len() {
        return Err(wrong(
            "length of a record",
            length,
            "a multiple of 4, up to the end of the block",
        ));
    }
    if HEADER + name > length || name > 255 || (inode != 0 && name == 0) {
        return Err(wrong(
            "length of a name",
            name,
            "1 to 255 bytes within its record",
        ));
    }
    Ok(Record {
        at,
        length,
        inode,
        name,
        kind: if types { bytes[at + 7] } else { 0 },
    })
}

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub dir: u32,
    pub block: u32,
    pub record: Record,
    /// The record before it in the block.
    pub before: Option<usize>,
}

impl Found {
    /// The error of an entry with an inode that is not the expected one.
    pub fn leads_astray(&self, expected: &'static str) -> ExtError {
        ExtError::Block {
            block: self.block,
            offset: self.record.at as u32,
            field: "inode",
            found: self.record.inode.into(),
            expected,
        }
    }
}

/// Makes the record that holds a block's checksum, if there is to be one.
pub(crate) fn put_tail(bytes: &mut [u8], end: usize) {
    if end < bytes.len() {
        put_record(bytes, end, TAIL, 0, b"", TAIL_KIND);
    }
}

/// Finds space for a record of `needed` bytes in a block of names. Gives the record that has the
/// space, and the bytes that this record needs for itself.
pub(crate) fn free_entry(
    bytes: &[u8],
    block: u32,
    (types, end): (bool, usize),
    needed: usize,
) -> Result<Option<Record>, ExtError> {
    let mut at = 0;
    while at < end {
        let record = record(bytes, at, block, types)?;
        if record.length - record.used() >= needed && at + record.length <= end {
            return Ok(Some(record));
        }
        at += record.length;
    }
    Ok(None)
}

/// Writes one directory record into a block.
pub(crate) fn put_record(
    bytes: &mut [u8],
    at: usize,
    length: usize,
    inode: u32,
    name: &[u8],
    kind: u8,
) {
    put32(bytes, at, inode);
    put16(bytes, at + 4, length as u16);
    (bytes[at + 6], bytes[at + 7]) = (name.len() as u8, kind);
    bytes[at + HEADER..at + HEADER + name.len()].copy_from_slice(name);
}

/// Unreadable blocks of a directory: the others are listed before the first of these is reported.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<ExtError>,
    count: u32,
}

impl Failures {
    /// So many end it at once: a length that lies leads nowhere.
    const MAX: u32 = 256;

    pub fn add(&mut self, error: ExtError) -> Result<(), ExtError> {
        let first = self.first.get_or_insert(error);
        self.count += 1;
        if self.count < Self::MAX {
            Ok(())
        } else {
            Err(first.clone())
        }
    }

    pub fn shown<T>(self, value: T) -> Result<T, ExtError> {
        self.first.map_or(Ok(value), Err)
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Whether records tell types.
    pub(crate) fn types(&self) -> bool {
        self.store.layout.incompat & incompat::FILETYPE != 0
    }

    /// The byte of a block behind the last that names may take.
    pub(crate) fn names_end(&self) -> usize {
        let tail = if self.store.layout.has_sums() {
            TAIL
        } else {
            0
        };
        self.store.layout.size() - tail
    }

    /// A block of a directory, for a change.
    pub(crate) fn edit_names(&mut self, dir: u32, block: u32) -> Result<&mut [u8], ExtError> {
        let sum = self.dir_sum(dir)?;
        self.store.edit_of(block, Class::Directory, sum)
    }

    /// A new block of a directory: zeros.
    pub(crate) fn fresh_names(&mut self, dir: u32, block: u32) -> Result<&mut [u8], ExtError> {
        let sum = self.dir_sum(dir)?;
        self.store.fresh_of(block, Class::Directory, sum)
    }

    /// Blocks of a directory.
    pub(crate) fn dir_blocks(&self, dir: &Inode) -> u32 {
        (dir.size / u64::from(self.store.layout.block)).min(u32::MAX.into()) as u32
    }

    /// Where a block of a directory lies.
    pub(crate) fn dir_block(
        &mut self,
        number: u32,
        dir: &Inode,
        index: u32,
    ) -> Result<u32, ExtError> {
        let block = self.mapped(number, dir, index, 1)?.block;
        let sum = self.sum_of_dir(number, dir);
        if sum.is_some() && block != 0 {
            self.store.block_of(block, sum)?;
        }
        match block {
            0 => Err(ExtError::Inode {
                inode: number,
                field: "block of a directory",
                found: 0,
                expected: "no hole",
            }),
            block => Ok(block),
        }
    }

    /// Looks for a name in one block.
    pub(crate) fn find_in(
        &mut self,
        dir: u32,
        block: u32,
        name: &[u8],
    ) -> Result<Option<Found>, ExtError> {
        let types = self.types();
        let inodes = self.store.layout.inodes;
        let bytes = self.store.block(block)?;
        let mut at = 0;
        let mut before = None;
        while at < bytes.len() {
            let record = record(bytes, at, block, types)?;
            if record.inode != 0 && record.name_in(bytes) == name {
                let found = Found {
                    dir,
                    block,
                    record,
                    before,
                };
                return match record.inode > inodes {
                    true => Err(found.leads_astray("an inode of the volume")),
                    false => Ok(Some(found)),
                };
            }
            before = Some(at);
            at += record.length;
        }
        Ok(None)
    }

    /// Where a name is in a directory, also beside blocks that cannot be had.
    pub(crate) fn find(&mut self, number: u32, name: &[u8]) -> Result<Option<Found>, ExtError> {
        let dir = self.inode(number)?;
        if dir.is_inline() {
            return self.find_inline(number, &dir, name);
        }
        let mut failures = Failures::default();
        if self.is_indexed(&dir) {
            match self.find_indexed(number, &dir, name) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => self.fail_find(&mut failures, error)?,
            }
        }
        for index in 0..self.dir_blocks(&dir) {
            match self
                .dir_block(number, &dir, index)
                .and_then(|block| self.find_in(number, block, name))
            {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => self.fail_find(&mut failures, error)?,
            }
        }
        failures.shown(None)
    }

    pub(crate) fn is_indexed(&self, dir: &Inode) -> bool {
        let indexed = dir.flags & flags::INDEX != 0 && !dir.is_inline();
        indexed && self.store.layout.has(compat::DIR_INDEX)
    }

    /// The block that will hold a name when it is added, if that is one of those that there are.
    pub(crate) fn place_for(&mut self, number: u32, name: &[u8]) -> Result<Option<u32>, ExtError> {
        let dir = self.inode(number)?;
        let shape = (self.types(), self.names_end());
        if self.is_indexed(&dir)
            && let Some(leaf) = self.leaf_of(number, &dir, name)?
        {
            return Ok(Some(leaf));
        }
        for index in 0..self.dir_blocks(&dir) {
            let block = self.dir_block(number, &dir, index)?;
            if free_entry(
                self.store.block(block)?,
                block,
                shape,
                Record::needed(name.len()),
            )?
            .is_some()
            {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Adds a name that is not there yet, of an inode whose type is `kind` in records.
    pub(crate) fn add_entry(
        &mut self,
        number: u32,
        name: &[u8],
        child: u32,
        kind: u8,
    ) -> Result<(), ExtError> {
        let mut dir = self.inode(number)?;
        let kind = if self.types() { kind } else { 0 };
        if self.is_indexed(&dir) {
            if self.insert_indexed(number, &mut dir, name, child, kind)? {
                return Ok(());
            }
            // The index cannot be used: as Linux does, the directory goes on without. In a damaged
            // one that may find another entry of a name.
            self.end_names();
            dir.flags &= !flags::INDEX;
            self.put_inode(number, &dir)?;
        }
        let blocks = self.dir_blocks(&dir);
        for index in 0..blocks {
            let block = self.dir_block(number, &dir, index)?;
            if self.add_in(number, block, name, (child, kind))? {
                return Ok(());
            }
        }
        if blocks == 1
            && self.store.layout.has(compat::DIR_INDEX)
            && self.make_indexed(number, &mut dir)?
        {
            return self.add_entry(number, name, child, kind);
        }
        let (_, block) = self.append_block(number, &mut dir)?;
        let end = self.names_end();
        let bytes = self.fresh_names(number, block)?;
        put_record(bytes, 0, end, child, name, kind);
        put_tail(bytes, end);
        Ok(())
    }

    /// Adds a name to a block if it fits.
    pub(crate) fn add_in(
        &mut self,
        dir: u32,
        block: u32,
        name: &[u8],
        (child, kind): (u32, u8),
    ) -> Result<bool, ExtError> {
        let shape = (self.types(), self.names_end());
        let Some(host) = free_entry(
            self.store.block(block)?,
            block,
            shape,
            Record::needed(name.len()),
        )?
        else {
            return Ok(false);
        };
        let bytes = self.edit_names(dir, block)?;
        let used = host.used();
        if used > 0 {
            put16(bytes, host.at + 4, used as u16);
        }
        put_record(bytes, host.at + used, host.length - used, child, name, kind);
        Ok(true)
    }

    /// One more block at the end of a directory; its bytes are the caller's to fill. Gives its
    /// place in the directory and in the volume.
    pub(crate) fn append_block(
        &mut self,
        number: u32,
        dir: &mut Inode,
    ) -> Result<(u32, u32), ExtError> {
        let index = self.dir_blocks(dir);
        let most = match self.store.layout.incompat & incompat::LARGE_DIR {
            0 => i32::MAX as u64,
            // Pairs of an index have 28 bits.
            _ => u64::from(self.store.layout.block) << 28,
        };
        if u64::from(index + 1) * u64::from(self.store.layout.block) > most {
            return Err(Errno::NoSpace.into());
        }
        let (block, _) = self.map(number, dir, index, 0)?;
        dir.size = u64::from(index + 1) * u64::from(self.store.layout.block);
        self.put_inode(number, dir)?;
        Ok((index, block))
    }

    pub(crate) fn remove_entry(&mut self, found: &Found) -> Result<(), ExtError> {
        let bytes = self.edit_names(found.dir, found.block)?;
        match found.before {
            Some(before) => {
                let length = le16(bytes, before + 4) + found.record.length as u16;
                put16(bytes, before + 4, length);
            }
            None => put32(bytes, found.record.at, 0),
        }
        self.forget_name(found)
    }

    /// Lets a name mean another inode.
    pub(crate) fn point_entry(
        &mut self,
        found: &Found,
        child: u32,
        kind: u8,
    ) -> Result<(), ExtError> {
        let types = self.types();
        let bytes = self.edit_names(found.dir, found.block)?;
        put32(bytes, found.record.at, child);
        if types {
            bytes[found.record.at + 7] = kind;
        }
        self.forget_name(found)
    }

    /// Whether a directory has no names.
    pub(crate) fn is_empty_dir(&mut self, number: u32) -> Result<bool, ExtError> {
        let dir = self.inode(number)?;
        if dir.is_inline() {
            return Ok(self.inline_names(number, &dir)?.is_empty());
        }
        let types = self.types();
        for index in 0..self.dir_blocks(&dir) {
            let block = self.dir_block(number, &dir, index)?;
            let bytes = self.store.block(block)?;
            let mut at = 0;
            while at < bytes.len() {
                let record = record(bytes, at, block, types)?;
                if record.is_listed(bytes) {
                    return Ok(false);
                }
                at += record.length;
            }
        }
        Ok(true)
    }

    pub(crate) fn parent_entry(&mut self, number: u32) -> Result<Found, ExtError> {
        let dir = self.inode(number)?;
        if dir.is_inline() {
            return Ok(self.inline_parent(number, &dir));
        }
        let block = self.dir_block(number, &dir, 0)?;
        let missing = ExtError::Inode {
            inode: number,
            field: "parent",
            found: 0,
            expected: "an entry .. in its first block",
        };
        self.find_in(number, block, b"..")?.ok_or(missing)
    }

    /// The names of one block: place, inode, type byte, name.
    pub(crate) fn names_in(&mut self, block: u32) -> Result<Vec<(Record, Vec<u8>)>, ExtError> {
        let types = self.types();
        let bytes = self.store.block(block)?;
        let mut at = 0;
        let mut names = Vec::new();
        while at < bytes.len() {
            let record = record(bytes, at, block, types)?;
            if record.is_listed(bytes) {
                names.push((record, record.name_in(bytes).to_vec()));
            }
            at += record.length;
        }
        Ok(names)
    }
}
