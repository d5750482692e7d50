//! Names in a block, or in the part of an inode that takes their place: a bitmap of slots, an entry
//! for each, 8 bytes of name for each.
//!
//! *Promises.* A name that leads out of its block is an error. *Knows nothing of* which block a
//! name belongs into, save its hash.

use crate::{
    F2fsError,
    format::{le16, le32, put16, put32},
    node::Shape,
};
use alloc::vec::Vec;

const ENTRY: usize = 11;
const NAME: usize = 8;
/// Slots of a block.
pub(crate) const SLOTS: u32 = 214;

/// Where the parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub slots: u32,
    bitmap: usize,
    entries: usize,
    names: usize,
}

/// A name's place and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub slot: u32,
    pub hash: u32,
    pub ino: u32,
    pub kind: u8,
    pub name: Vec<u8>,
}

impl View {
    /// A block of its own.
    pub const BLOCK: Self = Self {
        slots: SLOTS,
        bitmap: 0,
        entries: 30,
        names: 30 + ENTRY * SLOTS as usize,
    };

    pub fn inline(shape: &Shape) -> Self {
        let at = shape.inline_at();
        let bytes = shape.inline_max();
        let slots = bytes * 8 / ((ENTRY + NAME) * 8 + 1);
        let entries = at + bytes - (ENTRY + NAME) * slots;
        Self {
            slots: slots as u32,
            bitmap: at,
            entries,
            names: entries + ENTRY * slots,
        }
    }

    fn is_used(&self, bytes: &[u8], slot: u32) -> bool {
        bytes[self.bitmap + slot as usize / 8] & 1 << (slot % 8) != 0
    }

    fn set_used(&self, bytes: &mut [u8], slot: u32, on: bool) {
        let byte = &mut bytes[self.bitmap + slot as usize / 8];
        let mask = 1 << (slot % 8);
        if on { *byte |= mask } else { *byte &= !mask }
    }

    fn at(&self, slot: u32) -> usize {
        self.entries + ENTRY * slot as usize
    }

    /// The first entry from `slot` on. `dir` and `index` are for messages.
    pub fn next(
        &self,
        bytes: &[u8],
        mut slot: u32,
        dir: u32,
        index: u32,
    ) -> Result<Option<Entry>, F2fsError> {
        while slot < self.slots {
            if !self.is_used(bytes, slot) {
                slot += 1;
                continue;
            }
            let len = le16(bytes, self.at(slot) + 8);
            if len == 0 {
                // Linux steps over such a slot.
                slot += 1;
                continue;
            }
            if len > 255 || slot + slots_for(len.into()) > self.slots {
                let found = len.into();
                let expected = "1 to 255 bytes that fit into the block";
                return Err(F2fsError::Entry {
                    dir,
                    index,
                    slot,
                    field: "length of a name",
                    found,
                    expected,
                });
            }
            return Ok(Some(self.entry(bytes, slot, len)));
        }
        Ok(None)
    }

    fn entry(&self, bytes: &[u8], slot: u32, len: u16) -> Entry {
        let at = self.at(slot);
        let name = self.names + NAME * slot as usize;
        Entry {
            slot,
            hash: le32(bytes, at),
            ino: le32(bytes, at + 4),
            kind: bytes[at + 10],
            name: bytes[name..name + usize::from(len)].to_vec(),
        }
    }

    /// The first slot in use that begins no name.
    pub fn nameless(&self, bytes: &[u8]) -> Option<u32> {
        let mut slot = 0;
        while slot < self.slots {
            let len = le16(bytes, self.at(slot) + 8);
            if !self.is_used(bytes, slot) {
                slot += 1;
            } else if len == 0 {
                return Some(slot);
            } else {
                slot += slots_for(len.into());
            }
        }
        None
    }

    pub fn find(
        &self,
        bytes: &[u8],
        name: &[u8],
        hash: u32,
        dir: u32,
        index: u32,
    ) -> Result<Option<Entry>, F2fsError> {
        let mut slot = 0;
        while slot < self.slots {
            let at = self.at(slot);
            let start = self.names + NAME * slot as usize;
            if !self.is_used(bytes, slot) {
                slot += 1;
            } else if le32(bytes, at) == hash
                && usize::from(le16(bytes, at + 8)) == name.len()
                && bytes[start..].starts_with(name)
            {
                return self.next(bytes, slot, dir, index);
            } else {
                slot += slots_for(le16(bytes, at + 8).into()).max(1);
            }
        }
        Ok(None)
    }

    /// Free slots in a row for a name.
    pub fn free_slot(&self, bytes: &[u8], name: usize) -> Option<u32> {
        let need = slots_for(name);
        let mut run = 0;
        for slot in 0..self.slots {
            run = if self.is_used(bytes, slot) {
                0
            } else {
                run + 1
            };
            if run == need {
                return Some(slot + 1 - need);
            }
        }
        None
    }

    pub fn put(&self, bytes: &mut [u8], entry: &Entry) {
        let at = self.at(entry.slot);
        let name = self.names + NAME * entry.slot as usize;
        put32(bytes, at, entry.hash);
        put16(bytes, at + 8, entry.name.len() as u16);
        bytes[name..name + entry.name.len()].copy_from_slice(&entry.name);
        self.point(bytes, entry.slot, entry.ino, entry.kind);
        for slot in entry.slot..entry.slot + slots_for(entry.name.len()) {
            self.set_used(bytes, slot, true);
            if slot > entry.slot {
                put16(bytes, self.at(slot) + 8, 0);
            }
        }
    }

    pub fn point(&self, bytes: &mut [u8], slot: u32, ino: u32, kind: u8) {
        put32(bytes, self.at(slot) + 4, ino);
        bytes[self.at(slot) + 10] = kind;
    }

    pub fn remove(&self, bytes: &mut [u8], entry: &Entry) {
        (entry.slot..entry.slot + slots_for(entry.name.len()))
            .for_each(|slot| self.set_used(bytes, slot, false));
    }

    pub fn is_empty(&self, bytes: &[u8]) -> bool {
        (0..self.slots).all(|slot| !self.is_used(bytes, slot))
    }
}

fn slots_for(name: usize) -> u32 {
    name.div_ceil(NAME) as u32
}

/// A name's hash: TEA over 16 bytes at a time (`fs/f2fs/hash.c`).
pub(crate) fn hash(name: &[u8]) -> u32 {
    if name == b"." || name == b".." {
        return 0;
    }
    let mut state = [0x6745_2301u32, 0xEFCD_AB89];
    let mut rest = name;
    loop {
        let words = words(rest);
        let mut b0 = state[0];
        let mut b1 = state[1];
        let mut sum = 0u32;
        for _ in 0..16 {
            sum = sum.wrapping_add(0x9E37_79B9);
            b0 = b0.wrapping_add(
                (b1 << 4).wrapping_add(words[0])
                    ^ b1.wrapping_add(sum)
                    ^ (b1 >> 5).wrapping_add(words[1]),
            );
            b1 = b1.wrapping_add(
                (b0 << 4).wrapping_add(words[2])
                    ^ b0.wrapping_add(sum)
                    ^ (b0 >> 5).wrapping_add(words[3]),
            );
        }
        state = [state[0].wrapping_add(b0), state[1].wrapping_add(b1)];
        if rest.len() <= 16 {
            return state[0];
        }
        rest = &rest[16..];
    }
}

/// Up to 16 bytes as four words; what is missing is filled with the length of all that was left.
fn words(rest: &[u8]) -> [u32; 4] {
    let pad = rest.len() as u32 | (rest.len() as u32) << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; 4];
    for (word, part) in words.iter_mut().zip(rest.chunks(4)) {
        *word = part
            .iter()
            .fold(pad, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_an_inode_have_the_places_that_linux_gives_them() {
        let view = View::inline(&Shape {
            extra: 0,
            slots: 873,
            xattr: 50,
        });
        assert_eq!(
            view,
            View {
                slots: 182,
                bitmap: 364,
                entries: 364 + 30,
                names: 364 + 30 + 182 * 11
            }
        );
    }

    #[test]
    fn names_come_and_go() {
        let mut bytes = alloc::vec![0; 4096];
        let view = View::BLOCK;
        for (number, len) in [1usize, 8, 9, 255].into_iter().enumerate() {
            let name = alloc::vec![b'a' + number as u8; len];
            let slot = view.free_slot(&bytes, len).unwrap();
            view.put(
                &mut bytes,
                &Entry {
                    slot,
                    hash: hash(&name),
                    ino: 9,
                    kind: 1,
                    name,
                },
            );
        }
        let found = view
            .find(&bytes, b"ccccccccc", hash(b"ccccccccc"), 3, 0)
            .unwrap()
            .unwrap();
        assert_eq!((found.slot, found.ino), (2, 9));
        view.remove(&mut bytes, &found);
        assert_eq!(view.next(&bytes, 1, 3, 0).unwrap().unwrap().slot, 1);
        assert_eq!(view.next(&bytes, 2, 3, 0).unwrap().unwrap().slot, 4);
        assert_eq!(
            (view.free_slot(&bytes, 16), view.free_slot(&bytes, 17)),
            (Some(2), Some(36))
        );
        bytes[30 + 8] = 255;
        bytes[30 + 9] = 255;
        assert!(view.next(&bytes, 0, 3, 0).is_err());
    }
}
