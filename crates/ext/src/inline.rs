//! Contents that lie in the inode itself (`inline_data`, Linux `fs/ext4/inline.c`): 60 bytes where
//! others have block pointers, the rest in the attribute `system.data`.
//!
//! *Promises.* Records that leave their part are an error. Contents that are to change move to
//! blocks first, as Linux moves what grows; none move back, and no new inode has its contents
//! within.

use crate::{
    Ext, ExtError,
    cache::Class,
    dir::{Found, Record, put_record, put_tail, record},
    extent_nodes,
    format::{flags, le32},
    inode::{Inode, ROOT_BYTES},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;

/// Bytes of a directory before its first record: the number of its parent.
const PARENT: usize = 4;

/// A name in an inode: the record, and the name.
pub(crate) type Named = (Record, Vec<u8>);

impl<D: BlockDevice> Ext<D> {
    /// The contents of an inode that holds them itself.
    pub(crate) fn inline_bytes(&mut self, number: u32, inode: &Inode) -> Result<Vec<u8>, ExtError> {
        let mut bytes = inode.root().to_vec();
        bytes.extend(self.inline_rest(number, inode)?);
        bytes.resize(
            bytes.len().min(inode.size.min(usize::MAX as u64) as usize),
            0,
        );
        Ok(bytes)
    }

    /// The names of such a directory, without those of itself and of its parent.
    pub(crate) fn inline_names(
        &mut self,
        number: u32,
        dir: &Inode,
    ) -> Result<Vec<Named>, ExtError> {
        let bytes = self.inline_bytes(number, dir)?;
        let types = self.types();
        let (block, _) = self.inode_place(number);
        let end = bytes.len().min(ROOT_BYTES);
        let mut names = Vec::new();
        for part in [PARENT..end, end..bytes.len()] {
            let part = bytes.get(part).unwrap_or_default();
            let mut at = 0;
            while at < part.len() {
                let record = record(part, at, block, types)?;
                if record.inode != 0 {
                    names.push((record, record.name_in(part).to_vec()));
                }
                at += record.length;
            }
        }
        Ok(names)
    }

    /// The parent of such a directory.
    pub(crate) fn inline_parent(&mut self, number: u32, dir: &Inode) -> Found {
        self.inline_found(number, le32(&dir.root(), 0), 2)
    }

    fn inline_found(&self, dir: u32, inode: u32, name: usize) -> Found {
        let record = Record {
            at: self.inode_place(dir).1,
            length: 0,
            inode,
            name,
            kind: 2,
        };
        Found {
            dir,
            block: self.inode_place(dir).0,
            record,
            before: None,
        }
    }

    /// Where a name is in such a directory; the place is the inode's.
    pub(crate) fn find_inline(
        &mut self,
        number: u32,
        dir: &Inode,
        name: &[u8],
    ) -> Result<Option<Found>, ExtError> {
        match name {
            b"." => return Ok(Some(self.inline_found(number, number, 1))),
            b".." => return Ok(Some(self.inline_parent(number, dir))),
            _ => {}
        }
        let names = self.inline_names(number, dir)?;
        let record = names.into_iter().find(|(_, other)| other == name);
        let place = self.inline_found(number, 0, 0);
        Ok(record.map(|(record, _)| {
            let at = place.record.at;
            let record = Record { at, ..record };
            Found { record, ..place }
        }))
    }

    /// Moves the contents of an inode to a block, if they lie within.
    pub(crate) fn spill(&mut self, number: u32) -> Result<(), ExtError> {
        let mut inode = self.inode(number)?;
        if !inode.is_inline() {
            return Ok(());
        }
        self.pending.forbid();
        let names = match inode.is_dir() {
            true => self.inline_names(number, &inode)?,
            false => Vec::new(),
        };
        let parent = le32(&inode.root(), 0);
        let bytes = self.inline_bytes(number, &inode)?;
        let rest = self.attributes_without_contents(number, &inode)?;
        self.empty(&mut inode);
        let is_dir = inode.is_dir();
        if is_dir || !bytes.is_empty() {
            // Without a free block the inode stays as it is.
            let (block, _) = self.map(number, &mut inode, 0, 0)?;
            if is_dir {
                self.spill_names((number, &mut inode), parent, block, &names)?;
            } else {
                let owner = self.owner(number, &inode);
                self.store.change_contents(owner, block, 0, &bytes, true)?;
            }
        }
        self.put_attributes(number, &mut inode, &rest)?;
        self.put_inode(number, &inode)
    }

    /// Makes an inode one without blocks, and without contents in it.
    fn empty(&self, inode: &mut Inode) {
        inode.flags &= !flags::INLINE;
        inode.block = [0; 15];
        if self.store.layout.has_extents() {
            inode.flags |= flags::EXTENTS;
            inode.block = extent_nodes::empty_root();
        }
    }

    fn spill_names(
        &mut self,
        (number, dir): (u32, &mut Inode),
        parent: u32,
        block: u32,
        names: &[Named],
    ) -> Result<(), ExtError> {
        let kind = if self.types() { 2 } else { 0 };
        let end = self.names_end();
        let sum = self.sum_of_dir(number, dir);
        dir.size = self.store.layout.size() as u64;
        let bytes = self.store.fresh_of(block, Class::Directory, sum)?;
        put_record(bytes, 0, 12, number, b".", kind);
        let mut at = 12;
        let mut length = Record::needed(2);
        put_record(bytes, at, length, parent, b"..", kind);
        for (record, name) in names {
            at += length;
            length = Record::needed(name.len());
            put_record(bytes, at, length, record.inode, name, record.kind);
        }
        // The last record takes the rest.
        bytes[at + 4..at + 6].copy_from_slice(&((end - at) as u16).to_le_bytes());
        put_tail(bytes, end);
        Ok(())
    }
}
