//! Extended attributes: in what an inode has left behind its fields, and in one block (Linux
//! `fs/ext4/xattr.c`).
//!
//! *Promises.* Entries that lead out of their place are an error. A block that several inodes share
//! is never changed. *Knows* the spaces user, trusted and security, and access control lists; those
//! of others stay as they are, unseen.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{INODE_OLD, compat, flags, incompat, le16, le32, put16, put32, sb},
    inode::Inode,
};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use nandlab_block::BlockDevice;
use nandlab_jbd::crc32c;
use nandlab_vfs::{Errno, SetXattr};
use nandlab_xattr::{
    Space,
    acl::{self, Order},
    check_set,
};

pub(crate) const MAGIC: u32 = 0xEA02_0000;
/// Where a block's header has the number of blocks.
const HEADER_BLOCKS: usize = 8;
/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// Bytes of a block before its entries.
const BLOCK_HEADER: usize = 32;
/// The name space of contents in an inode.
const SYSTEM: u8 = 7;
/// Bytes of the longest value.
const VALUE_MAX: usize = 65_536;
/// Byte of an inode that holds a value at which the value's checksum lies.
const VALUE_SUM: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    space: u8,
    name: Vec<u8>,
    value: Vec<u8>,
    /// The inode that holds the value, or 0, and the value's length.
    elsewhere: (u32, usize),
    /// In the inode rather than in the block.
    inside: bool,
    /// Where the entry lies, and the hash that it has there.
    stored: (usize, u32),
    /// Where the value lies, with its padding.
    value_at: Range<usize>,
    /// All bytes of the padding are zero, as hashes take them.
    is_padded: bool,
    /// The checksum of a value that lies elsewhere.
    sum: u32,
}

impl Attribute {
    fn bytes(&self) -> usize {
        ENTRY + self.name.len().next_multiple_of(4) + self.value.len().next_multiple_of(4)
    }

    /// The hash that a block has of each entry.
    fn hash(&self) -> u32 {
        self.hash_of(|byte| u32::from(*byte))
    }

    /// Whether an entry may have this hash: none, or that of a kernel whose characters have signs
    /// or have none.
    fn allows(&self, hash: u32) -> bool {
        let signed = |byte: &u8| i32::from(*byte as i8) as u32;
        hash == self.hash() || hash == self.hash_of(signed) || hash == 0 && self.inside
    }

    fn hash_of(&self, widen: impl Fn(&u8) -> u32) -> u32 {
        let name = self
            .name
            .iter()
            .fold(0u32, |hash, byte| hash.rotate_left(5) ^ widen(byte));
        let held = self.sum.to_le_bytes();
        let value = if self.elsewhere.0 == 0 {
            &self.value[..]
        } else {
            &held
        };
        value.chunks(4).fold(name, |hash, part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            hash.rotate_left(16) ^ u32::from_le_bytes(word)
        })
    }
}

/// Reads entries from `from` on; values lie `base` bytes from the beginning plus their offset.
/// `block` is for messages.
fn parse(
    bytes: &[u8],
    from: usize,
    base: usize,
    block: u32,
    (inside, values): (bool, bool),
) -> Result<Vec<Attribute>, ExtError> {
    let mut at = from;
    let mut all = Vec::new();
    let wrong = |at: usize, found: usize, expected| ExtError::Block {
        block,
        offset: at as u32,
        field: "attribute",
        found: found as u64,
        expected,
    };
    while at + 4 <= bytes.len() && le32(bytes, at) != 0 {
        if at + ENTRY > bytes.len() {
            return Err(wrong(at, bytes.len() - at, "space for an entry"));
        }
        let name = usize::from(bytes[at]);
        let offset = base + usize::from(le16(bytes, at + 2));
        let size = le32(bytes, at + 8) as usize;
        let end = at + ENTRY + name;
        let elsewhere = le32(bytes, at + 4);
        if end > bytes.len() || elsewhere != 0 && !values {
            return Err(wrong(
                at,
                name,
                "a name and a value within the place of attributes",
            ));
        }
        let value = match size {
            _ if elsewhere != 0 => &[],
            0 => &[],
            _ => bytes
                .get(offset..)
                .and_then(|rest| rest.get(..size))
                .ok_or(wrong(at, offset, "a value within the place of attributes"))?,
        };
        let here = if elsewhere == 0 { size } else { 0 };
        let value_at = offset..offset + here.next_multiple_of(4);
        let padding = bytes.get(offset + here..value_at.end).unwrap_or_default();
        all.push(Attribute {
            elsewhere: (elsewhere, size),
            sum: 0,
            is_padded: here == 0 || padding.iter().all(|byte| *byte == 0),
            space: bytes[at + 1],
            name: bytes[at + ENTRY..end].to_vec(),
            value: value.to_vec(),
            inside,
            stored: (at, le32(bytes, at + 12)),
            value_at,
        });
        at = at + ENTRY + name.next_multiple_of(4);
    }
    Ok(all)
}

/// The first attribute whose hash, name space or place is wrong: with the field, what it is, and
/// what it should be.
fn wrong_attribute(all: &[Attribute]) -> Option<(&Attribute, &'static str, u64, &'static str)> {
    for (index, one) in all.iter().enumerate() {
        if !one.allows(one.stored.1) {
            let expected = "the hash of its name and its value";
            return Some((one, "hash of an attribute", one.stored.1.into(), expected));
        }
        if !one.is_padded {
            let at = one.value_at.end as u64;
            return Some((one, "padding before byte", at, "zeros"));
        }
        if one.space == 0 {
            let expected = "a name in a known name space";
            return Some((one, "name of an attribute", one.space.into(), expected));
        }
        let overlaps = |other: &Attribute| {
            let value = &other.value_at;
            let entry = other.stored.0..other.stored.0 + ENTRY + other.name.len();
            let meets = |range: &Range<usize>| {
                range.start < one.value_at.end && one.value_at.start < range.end
            };
            other.inside == one.inside && (meets(&entry) || meets(value))
        };
        // With its own entry, but not with its own value.
        let entry = one.stored.0..one.stored.0 + ENTRY + one.name.len();
        let own = entry.start < one.value_at.end && one.value_at.start < entry.end;
        let mut others = all[..index].iter().chain(&all[index + 1..]);
        let collides = !one.value.is_empty() && (own || others.any(overlaps));
        if collides && !one.inside {
            let expected = "a place that no other attribute has";
            let at = one.value_at.start as u64;
            return Some((one, "value of an attribute", at, expected));
        }
    }
    None
}

/// Writes entries from `from` on and values from the end.
fn put(bytes: &mut [u8], from: usize, base: usize, all: &[&Attribute], hashed: bool) {
    let mut at = from;
    let mut end = bytes.len();
    for attribute in all {
        bytes[at] = attribute.name.len() as u8;
        bytes[at + 1] = attribute.space;
        if !attribute.value.is_empty() {
            end -= attribute.value.len().next_multiple_of(4);
            put16(bytes, at + 2, (end - base) as u16);
            bytes[end..end + attribute.value.len()].copy_from_slice(&attribute.value);
        }
        put32(bytes, at + 8, attribute.value.len() as u32);
        put32(bytes, at + 12, if hashed { attribute.hash() } else { 0 });
        bytes[at + ENTRY..at + ENTRY + attribute.name.len()].copy_from_slice(&attribute.name);
        at += ENTRY + attribute.name.len().next_multiple_of(4);
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Where in an inode's bytes attributes may lie.
    fn inside(&self, inode: &Inode) -> Option<core::ops::Range<usize>> {
        let from = INODE_OLD as usize + usize::from(inode.extra);
        let end = self.store.layout.inode_size as usize;
        (inode.extra > 0 && from.is_multiple_of(4) && from + 4 + ENTRY < end).then_some(from..end)
    }

    /// The block of attributes, checked.
    pub(crate) fn attribute_block(
        &mut self,
        number: u32,
        inode: &Inode,
    ) -> Result<Option<u32>, ExtError> {
        let block = inode.attributes;
        if block == 0 {
            return Ok(None);
        }
        if self.is_metadata(block) {
            let expected = "a block for contents";
            return Err(ExtError::Inode {
                inode: number,
                field: "block of attributes",
                found: block.into(),
                expected,
            });
        }
        let sum = self.attribute_sum();
        let bytes = self.store.block_of(block, sum)?;
        let fields = [
            (0, "magic of attributes", MAGIC, "0xea020000"),
            (HEADER_BLOCKS, "blocks of attributes", 1, "1"),
        ];
        for (offset, field, right, expected) in fields {
            let found = le32(bytes, offset);
            if found != right {
                return Err(ExtError::Block {
                    block,
                    offset: offset as u32,
                    field,
                    found: found.into(),
                    expected,
                });
            }
        }
        Ok(Some(block))
    }

    fn attributes(&mut self, number: u32, inode: &Inode) -> Result<Vec<Attribute>, ExtError> {
        let (table, at) = self.inode_place(number);
        let values = self.store.layout.incompat & incompat::EA_INODE != 0;
        let mut all = Vec::new();
        if let Some(place) = self.inside(inode) {
            let bytes = &self.store.block(table)?[at + place.start..at + place.end];
            if le32(bytes, 0) == MAGIC {
                all = parse(bytes, 4, 4, table, (true, values))?;
            }
        }
        if let Some(block) = self.attribute_block(number, inode)? {
            all.extend(parse(
                self.store.block(block)?,
                BLOCK_HEADER,
                0,
                block,
                (false, values),
            )?);
        }
        for attribute in all.iter_mut().filter(|one| one.elsewhere.0 != 0) {
            self.fetch_value(number, attribute)?;
        }
        Ok(all)
    }

    /// Reads a value from the inode that holds it.
    fn fetch_value(&mut self, number: u32, attribute: &mut Attribute) -> Result<(), ExtError> {
        let (holder, size) = attribute.elsewhere;
        let layout = self.store.layout;
        let wrong = |field, found: u64, expected| ExtError::Inode {
            inode: number,
            field,
            found,
            expected,
        };
        if !(1..=layout.inodes).contains(&holder) || size > VALUE_MAX {
            let expected = "an inode of the volume, with up to 64 KiB";
            return Err(wrong(
                "inode of an attribute's value",
                holder.into(),
                expected,
            ));
        }
        let inode = self.inode(holder)?;
        // Contents within the holder would be an attribute again, perhaps this one.
        if inode.flags & flags::VALUE == 0 || inode.size != size as u64 || inode.is_inline() {
            let expected = "one that holds a value of that length in blocks";
            return Err(wrong(
                "inode of an attribute's value",
                holder.into(),
                expected,
            ));
        }
        let mut value = vec![0; size];
        self.read_file(holder, 0, &mut value)?;
        attribute.sum = crc32c(layout.seed, &value);
        attribute.value = value;
        self.check_value_sum(holder, attribute.sum)
    }

    /// Compares the checksum of a value with the one in the inode that holds the value.
    fn check_value_sum(&mut self, holder: u32, expected: u32) -> Result<(), ExtError> {
        // The time of access is no time here.
        let (block, at) = self.inode_place(holder);
        let found = le32(self.store.block(block)?, at + VALUE_SUM);
        match found == expected {
            true => Ok(()),
            false => Err(ExtError::Checksum {
                block,
                offset: (at + VALUE_SUM) as u32,
                what: "an attribute's value",
                found,
                expected,
            }),
        }
    }

    /// All attributes but the one that holds contents.
    pub(crate) fn attributes_without_contents(
        &mut self,
        number: u32,
        inode: &Inode,
    ) -> Result<Vec<Attribute>, ExtError> {
        let mut all = self.attributes(number, inode)?;
        all.retain(|a| a.space != SYSTEM || a.name != b"data");
        Ok(all)
    }

    /// The part of an inode's own contents that its attributes hold.
    pub(crate) fn inline_rest(&mut self, number: u32, inode: &Inode) -> Result<Vec<u8>, ExtError> {
        let all = self.attributes(number, inode)?;
        let found = all
            .into_iter()
            .find(|a| a.space == SYSTEM && a.name == b"data");
        Ok(found.map_or_else(Vec::new, |attribute| attribute.value))
    }

    /// True if an inode should hold its contents itself and has no attribute for them: Linux then
    /// takes them for block pointers. Attributes that cannot be read are another's matter.
    pub(crate) fn lacks_contents(&mut self, number: u32, inode: &Inode) -> Result<bool, ExtError> {
        if !inode.is_inline() {
            return Ok(false);
        }
        let holds = |one: &Attribute| one.space == SYSTEM && one.name == b"data";
        match self.attributes(number, inode) {
            Err(error) if error.is_damage() => Ok(false),
            all => Ok(!all?.iter().any(holds)),
        }
    }

    /// Checks the attributes of an inode, with the hashes of their entries.
    pub(crate) fn check_hashes(&mut self, number: u32) -> Result<(), ExtError> {
        let inode = self.inode(number)?;
        let all = self.attributes(number, &inode)?;
        let (table, place) = self.inode_place(number);
        let Some((wrong, field, found, expected)) = wrong_attribute(&all) else {
            return Ok(());
        };
        let at = wrong.stored.0;
        let inside = place + INODE_OLD as usize + usize::from(inode.extra) + at;
        let (block, offset) = match wrong.inside {
            true => (table, inside),
            false => (inode.attributes, at),
        };
        Err(ExtError::Block {
            block,
            offset: offset as u32,
            field,
            found,
            expected,
        })
    }

    pub(crate) fn get_attribute(&mut self, number: u32, name: &[u8]) -> Result<Vec<u8>, ExtError> {
        let inode = self.inode(number)?;
        let (space, rest) = Space::EXT.split(name)?;
        let found = self
            .attributes(number, &inode)?
            .into_iter()
            .find(|a| a.space == space && a.name == rest);
        Ok(acl::shown(
            name,
            found.ok_or(Errno::NoData)?.value,
            Order::Little,
        )?)
    }

    pub(crate) fn list_attributes(&mut self, number: u32) -> Result<Vec<Vec<u8>>, ExtError> {
        let inode = self.inode(number)?;
        let full = |attribute: &Attribute| Space::EXT.join(attribute.space, &attribute.name);
        Ok(self
            .attributes(number, &inode)?
            .iter()
            .filter_map(full)
            .collect())
    }

    /// Sets an attribute, or removes it.
    pub(crate) fn set_attribute(
        &mut self,
        number: u32,
        name: &[u8],
        value: Option<&[u8]>,
        expect: SetXattr,
    ) -> Result<(), ExtError> {
        let mut inode = self.inode(number)?;
        let (space, rest) = Space::EXT.split(name)?;
        let mut all = self.attributes(number, &inode)?;
        let there = all.iter().position(|a| a.space == space && a.name == rest);
        check_set(value, expect, there.is_some())?;
        if let Some(at) = there {
            all.remove(at);
        }
        if let Some(value) = value {
            let value = acl::stored(name, value, Order::Little)?;
            let mut new = Attribute {
                is_padded: true,
                elsewhere: (0, 0),
                sum: 0,
                space,
                name: rest.to_vec(),
                value,
                inside: true,
                stored: (0, 0),
                value_at: 0..0,
            };
            let own = new.bytes() + 4;
            let sum = |inside| {
                all.iter()
                    .filter(|a| a.inside == inside)
                    .map(Attribute::bytes)
                    .sum::<usize>()
                    + own
            };
            new.inside = self
                .inside(&inode)
                .is_some_and(|place| sum(true) + 4 <= place.len());
            if !new.inside && sum(false) + BLOCK_HEADER > self.store.layout.size() {
                return Err(Errno::NoSpace.into());
            }
            all.push(new);
        }
        self.put_attributes(number, &mut inode, &all)?;
        inode.ctime = inode.rounded(self.store.now);
        self.put_inode(number, &inode)
    }

    pub(crate) fn put_attributes(
        &mut self,
        number: u32,
        inode: &mut Inode,
        all: &[Attribute],
    ) -> Result<(), ExtError> {
        self.pending.forbid();
        // The block first: it may find no space.
        let mut outside: Vec<&Attribute> = all.iter().filter(|a| !a.inside).collect();
        outside.sort_by_key(|a| (a.space, a.name.len(), a.name.clone()));
        self.put_attribute_block(number, inode, &outside)?;
        if let Some(place) = self.inside(inode) {
            let inside: Vec<&Attribute> = all.iter().filter(|a| a.inside).collect();
            let mut bytes = vec![0; place.len()];
            if !inside.is_empty() {
                put32(&mut bytes, 0, MAGIC);
                put(&mut bytes, 4, 4, &inside, false);
            }
            self.inode_bytes_mut(number)?[place].copy_from_slice(&bytes);
        }
        if !self.store.layout.has(compat::EXT_ATTR) && !all.is_empty() {
            self.store.layout.compat |= compat::EXT_ATTR;
            let features = self.store.layout.compat;
            put32(self.store.superblock_mut()?, sb::COMPAT, features);
        }
        Ok(())
    }

    fn put_attribute_block(
        &mut self,
        number: u32,
        inode: &mut Inode,
        all: &[&Attribute],
    ) -> Result<(), ExtError> {
        let old = self.attribute_block(number, inode)?;
        let size = self.store.layout.size();
        if all.is_empty() {
            return self.drop_attribute_block(number, inode);
        }
        let sum = self.attribute_sum();
        let mut image = vec![0; size];
        put32(&mut image, 0, MAGIC);
        put32(&mut image, 4, 1);
        put32(&mut image, 8, 1);
        put32(
            &mut image,
            12,
            all.iter()
                .fold(0u32, |hash, a| hash.rotate_left(16) ^ a.hash()),
        );
        put(&mut image, BLOCK_HEADER, 0, all, true);
        let alone = match old {
            Some(block) => le32(self.store.block(block)?, 4) <= 1,
            None => false,
        };
        if let Some(block) = old.filter(|_| alone) {
            self.store
                .edit_of(block, Class::Inode, sum)?
                .copy_from_slice(&image);
            return Ok(());
        }
        let goal = self.inode_goal(number);
        let block = self.allocate_block(goal)?;
        self.store
            .fresh_of(block, Class::Inode, sum)?
            .copy_from_slice(&image);
        self.drop_attribute_block(number, inode)?;
        inode.attributes = block;
        inode.units += u64::from(self.store.layout.block / 512);
        Ok(())
    }

    /// The inode lets go of its block of attributes, which others may share.
    pub(crate) fn drop_attribute_block(
        &mut self,
        number: u32,
        inode: &mut Inode,
    ) -> Result<(), ExtError> {
        let Some(block) = self.attribute_block(number, inode)? else {
            return Ok(());
        };
        let sharers = le32(self.store.block(block)?, 4);
        if sharers > 1 {
            let sum = self.attribute_sum();
            put32(
                self.store.edit_of(block, Class::Inode, sum)?,
                4,
                sharers - 1,
            );
        } else {
            self.free_block_of(number, block)?;
        }
        inode.attributes = 0;
        let units = u64::from(self.store.layout.block / 512);
        inode.units = inode.units.saturating_sub(units);
        Ok(())
    }
}
