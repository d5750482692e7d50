//! Contents that lie in the inode itself (`inline_data`, Linux `fs/ext4/inline.c`): 60 bytes where
//! others have block pointers, the rest in the attribute `system.data`.
//!
//! *Promises.* Records that leave their part are an error. *Knows nothing of* writing: a volume
//! with this feature is not written.

use crate::{
    Ext, ExtError,
    dir::{Found, Record, record},
    format::le32,
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
}
