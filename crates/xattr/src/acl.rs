//! POSIX access control lists: as extended attributes, and as ext, F2FS and JFFS2 store them.
//!
//! *Promises.* What is stored and shown again is the same. As an attribute
//! (`linux/posix_acl_xattr.h`, version 2, little-endian) each entry has 8 bytes; stored
//! (`fs/ext4/acl.h`, `fs/jffs2/acl.h`, version 1) those of the owner, the group, the mask and all
//! others have 4, since they name nobody. *Knows nothing of* rights.

pub mod bits;
pub mod text;

use alloc::vec::Vec;
use nandlab_vfs::Errno;

/// The attribute of the list that decides about an inode.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of the list that what is made in a directory gets.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const SHOWN_VERSION: u32 = 2;
const STORED_VERSION: u32 = 1;
const NOBODY: u32 = u32::MAX;
/// Tags of entries that name a user or a group.
const NAMED: [u16; 2] = [2, 8];
/// Tags of entries that name nobody.
const UNNAMED: [u16; 4] = [1, 4, 16, 32];

/// Whether an attribute is such a list.
pub fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// ext, F2FS, and JFFS2 of little-endian machines.
    Little,
    /// JFFS2 of big-endian machines.
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Self::Little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Self::Little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        }
    }

    fn put16(self, out: &mut Vec<u8>, value: u16) {
        out.extend(if self == Self::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        });
    }

    fn put32(self, out: &mut Vec<u8>, value: u32) {
        out.extend(if self == Self::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        });
    }
}

fn word(bytes: &[u8], at: usize) -> Result<[u8; 4], Errno> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk().copied())
        .ok_or(Errno::Invalid)
}

/// Tag and permissions of an entry.
fn head(bytes: &[u8], at: usize, order: Order) -> Result<(u16, u16), Errno> {
    let [a, b, c, d] = word(bytes, at)?;
    let tag = order.u16([a, b]);
    let permissions = order.u16([c, d]);
    if permissions <= 7 && (NAMED.contains(&tag) || UNNAMED.contains(&tag)) {
        Ok((tag, permissions))
    } else {
        Err(Errno::Invalid)
    }
}

/// An attribute's value as it is stored; others than lists as they are. [`Errno::Invalid`]: it is
/// no list.
pub fn stored(name: &[u8], value: &[u8], order: Order) -> Result<Vec<u8>, Errno> {
    if !is_acl(name) {
        return Ok(value.to_vec());
    }
    if Order::Little.u32(word(value, 0)?) != SHOWN_VERSION || value.len() % 8 != 4 {
        return Err(Errno::Invalid);
    }
    let mut out = Vec::with_capacity(value.len());
    order.put32(&mut out, STORED_VERSION);
    for at in (4..value.len()).step_by(8) {
        let (tag, permissions) = head(value, at, Order::Little)?;
        order.put16(&mut out, tag);
        order.put16(&mut out, permissions);
        if NAMED.contains(&tag) {
            order.put32(&mut out, Order::Little.u32(word(value, at + 4)?));
        }
    }
    Ok(out)
}

/// A stored value as an attribute's.
pub fn shown(name: &[u8], value: Vec<u8>, order: Order) -> Result<Vec<u8>, Errno> {
    if !is_acl(name) {
        return Ok(value);
    }
    if order.u32(word(&value, 0)?) != STORED_VERSION {
        return Err(Errno::Invalid);
    }
    let mut out = Vec::with_capacity(2 * value.len());
    Order::Little.put32(&mut out, SHOWN_VERSION);
    let mut at = 4;
    while at < value.len() {
        let (tag, permissions) = head(&value, at, order)?;
        at += 4;
        let mut id = NOBODY;
        if NAMED.contains(&tag) {
            id = order.u32(word(&value, at)?);
            at += 4;
        }
        Order::Little.put16(&mut out, tag);
        Order::Little.put16(&mut out, permissions);
        Order::Little.put32(&mut out, id);
    }
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The list `u::rwx,u:1000:r--,g::r-x,m::rwx,o::---` as ext stores it.
    pub const LIST: [u8; 44] = [
        2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 5, 0, 255, 255,
        255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
    ];

    #[test]
    fn lists_come_back_from_either_order() {
        let little = stored(ACCESS, &LIST, Order::Little).unwrap();
        assert_eq!(
            little,
            [
                1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 5, 0, 16, 0, 7, 0, 32, 0,
                0, 0
            ]
        );
        for order in [Order::Little, Order::Big] {
            let kept = stored(DEFAULT, &LIST, order).unwrap();
            assert_eq!(shown(DEFAULT, kept, order).unwrap(), LIST);
        }
        assert_eq!(
            stored(b"user.acl", &LIST, Order::Big).unwrap(),
            LIST,
            "others stay as they are"
        );
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in [
            &LIST[..3],
            &LIST[..10],
            &[1, 0, 0, 0],
            &[2, 0, 0, 0, 3, 0, 7, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(
                stored(ACCESS, bad, Order::Little),
                Err(Errno::Invalid),
                "{bad:?}"
            );
        }
        for bad in [
            &[1, 0, 0][..],
            &[2, 0, 0, 0],
            &[1, 0, 0, 0, 2, 0, 7, 0],
            &[1, 0, 0, 0, 1, 0],
        ] {
            assert_eq!(
                shown(ACCESS, bad.to_vec(), Order::Little),
                Err(Errno::Invalid),
                "{bad:?}"
            );
        }
    }
}
