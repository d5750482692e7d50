//! Extended attributes: a list for each inode that has any, values in it or elsewhere.

use crate::error::{Result, field};
use crate::format::NONE;
use crate::inode::Inode;
use crate::meta::{Media, Place};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_block::bytes::{le16, le32, le64};

/// Name spaces by their numbers.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Of a type: the value lies elsewhere.
const ELSEWHERE: u16 = 1 << 8;
/// Bytes of all names of an inode, and of a value: what Linux passes on.
const NAMES_MAX: usize = 64 << 10;
const VALUE_MAX: u32 = 64 << 10;

/// An attribute: its name, and where its value is.
pub(crate) struct Xattr {
    pub name: Vec<u8>,
    value: Place,
    is_elsewhere: bool,
}

impl<D: BlockDevice> Media<D> {
    /// The attributes of an inode.
    pub fn xattrs(&mut self, inode: &Inode) -> Result<Vec<Xattr>> {
        let Some(index) = inode.xattrs.filter(|_| self.head.xattr_table != NONE) else {
            return Ok(Vec::new());
        };
        let (mut place, count) = self.xattr_list(inode, index)?;
        let mut xattrs = Vec::new();
        let mut names = 0;
        for _ in 0..count {
            let at = place.block;
            let head: [u8; 4] = self.take(&mut place)?;
            let kind = le16(&head, 0);
            let Some(space) = SPACES.get(usize::from(kind & 0xFF)) else {
                return field(at, "the type of an attribute", kind, "0 to 2");
            };
            let mut name = space.to_vec();
            name.resize(space.len() + usize::from(le16(&head, 2)), 0);
            self.fill(&mut place, &mut name[space.len()..])?;
            names += name.len() + 1;
            if names > NAMES_MAX {
                return field(
                    at,
                    "the length of all names",
                    names as u64,
                    "at most 65536 bytes",
                );
            }
            xattrs.push(Xattr {
                name,
                value: place,
                is_elsewhere: kind & ELSEWHERE != 0,
            });
            let len = u32::from_le_bytes(self.take(&mut place)?);
            self.skip(&mut place, len.into())?;
        }
        Ok(xattrs)
    }

    /// Where the list of an index begins, and how many attributes are in it.
    fn xattr_list(&mut self, inode: &Inode, index: u32) -> Result<(Place, u32)> {
        let at = self.head.xattr_table;
        let head = self.bytes(at, 16)?;
        let table = le64(&head, 0);
        let ids = le32(&head, 8);
        if index >= ids {
            return field(
                inode.at,
                "the attributes of an inode",
                index,
                "an index of the table",
            );
        }
        let entry: [u8; 16] = self.entry(at + 16, index.into())?;
        let place = Place::in_table(table, le64(&entry, 0));
        Ok((place, le32(&entry, 8)))
    }

    /// The value of an attribute.
    pub fn xattr_value(&mut self, xattr: &Xattr) -> Result<Vec<u8>> {
        let mut place = xattr.value;
        let mut len = u32::from_le_bytes(self.take(&mut place)?);
        if xattr.is_elsewhere {
            let reference = u64::from_le_bytes(self.take(&mut place)?);
            let at = self.head.xattr_table;
            let table = le64(&self.bytes(at, 8)?, 0);
            place = Place::in_table(table, reference);
            len = u32::from_le_bytes(self.take(&mut place)?);
        }
        if len > VALUE_MAX {
            let expected = "at most 65536 bytes";
            return field(
                place.block,
                "the length of an attribute's value",
                len,
                expected,
            );
        }
        let mut value = vec![0; len as usize];
        self.fill(&mut place, &mut value)?;
        Ok(value)
    }
}
