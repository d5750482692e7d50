//! Listings of directories: groups of entries behind a header, sorted by name.
//!
//! *Promises.* Names come in strictly rising order of their bytes; a listing that breaks it is
//! damaged. So no name comes twice, and a listing ends.

use crate::error::{Result, field};
use crate::inode::{Directory, kind};
use crate::meta::{Media, Place};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_block::bytes::{le16, le32};
use nandlab_vfs::FileType;

/// Entries behind a header.
const GROUP_MAX: u32 = 256;

/// A name, and the inode that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: Vec<u8>,
    /// The place of the inode.
    pub reference: u64,
    /// The number that the inode should have.
    pub number: u32,
    pub kind: FileType,
    /// The metadata block with the entry.
    pub at: u64,
}

/// A place in a listing, from which it goes on.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    place: Place,
    /// Bytes that are left.
    left: u32,
    /// Entries that are left behind the last header, with its block and number.
    group: (u32, u32, u32),
    last: Vec<u8>,
    /// Entries before this place.
    pub count: u64,
}

impl Listing {
    pub fn new(directory: Directory) -> Self {
        Self {
            place: directory.at,
            left: directory.len,
            group: (0, 0, 0),
            last: Vec::new(),
            count: 0,
        }
    }

    /// The name before this place.
    pub fn last(&self) -> &[u8] {
        &self.last
    }

    fn spend(&mut self, count: u32) -> Result<()> {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let expected = "as many as are left of the listing";
                field(self.place.block, "the length of an entry", count, expected)
            }
        }
    }

    fn header<D: BlockDevice>(&mut self, media: &mut Media<D>) -> Result<()> {
        self.spend(12)?;
        let at = self.place.block;
        let header: [u8; 12] = media.take(&mut self.place)?;
        let more = le32(&header, 0);
        if more >= GROUP_MAX {
            return field(at, "the entries behind a header", more, "less than 256");
        }
        self.group = (more + 1, le32(&header, 4), le32(&header, 8));
        Ok(())
    }

    /// The next entry; `None` at the end.
    pub fn next<D: BlockDevice>(&mut self, media: &mut Media<D>) -> Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.group.0 == 0 {
            self.header(media)?;
        }
        self.spend(8)?;
        let at = self.place.block;
        let head: [u8; 8] = media.take(&mut self.place)?;
        let len = u32::from(le16(&head, 6)) + 1;
        if len > GROUP_MAX {
            return field(at, "the length of a name", len, "at most 256 bytes");
        }
        self.spend(len)?;
        let mut name = vec![0; len as usize];
        media.fill(&mut self.place, &mut name)?;
        if name <= self.last {
            return field(
                at,
                "the order of names: entry",
                self.count,
                "one behind the last name",
            );
        }
        let Some(kind) = kind(le16(&head, 4)) else {
            return field(at, "the type of an entry", le16(&head, 4), "1 to 7");
        };
        let (left, block, number) = self.group;
        self.group.0 = left - 1;
        self.count += 1;
        self.last.clone_from(&name);
        let delta = le16(&head, 2).cast_signed();
        Ok(Some(Entry {
            name,
            reference: u64::from(block) << 16 | u64::from(le16(&head, 0)),
            number: number.wrapping_add_signed(delta.into()),
            kind,
            at,
        }))
    }
}
