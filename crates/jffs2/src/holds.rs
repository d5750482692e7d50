//! What is lost with a node that cannot be read.
//!
//! *Promises.* What newer nodes replace is no loss; a name is looked for by its checksum, so that a
//! damaged one is known if its directory has it elsewhere. *Works on* inodes that were loaded.

use crate::{
    Holds, Jffs2, Jffs2Error,
    broken::Broken,
    format::{DIRENT, Endian, RawDirent, XATTR, XREF, crc, kind},
    lost::Health,
    space::{Owner, State},
    unreached::LostName,
};
use alloc::{collections::BTreeSet, vec::Vec};
use nandlab_mtd::Mtd;

/// What was seen of a medium before its nodes are judged.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Inodes that a name leads to.
    pub inodes: BTreeSet<u32>,
    /// Names that cannot be read.
    pub lost: Vec<LostName>,
    /// A name was read whose inode is not to be trusted.
    pub unsure: bool,
}

impl<M: Mtd> Jffs2<M> {
    /// What is lost with the damaged node at `at`; `bytes` begin with it.
    pub(crate) fn holds(
        &mut self,
        at: u32,
        kind: u16,
        bytes: &[u8],
        seen: &mut Seen,
    ) -> Result<Holds, Jffs2Error> {
        let e = self.flash.endian;
        Ok(match kind {
            kind::INODE => self.inode_holds(at, bytes, seen),
            kind::DIRENT if bytes.len() > DIRENT => self.name_holds(at, bytes, seen)?,
            kind::XATTR if bytes.len() >= XATTR => {
                let ino = self.xattrs.missing(e.get32(bytes, 12));
                ino.map_or(Holds::Nothing, |ino| Holds::Attribute { ino })
            }
            kind::XREF if bytes.len() >= XREF => self.reference_holds(bytes, seen),
            kind::SUMMARY => Holds::Nothing,
            _ => self.unknown(at, bytes),
        })
    }

    fn reference_holds(&self, bytes: &[u8], seen: &Seen) -> Holds {
        let e = self.flash.endian;
        let ino = e.get32(bytes, 12);
        let known = self.xattrs.knows(ino, e.get32(bytes, 16));
        match !known && seen.inodes.contains(&ino) {
            true => Holds::Attribute { ino },
            false => Holds::Nothing,
        }
    }

    /// A node of which nothing is to be trusted.
    fn unknown(&self, at: u32, bytes: &[u8]) -> Holds {
        let torn = self.health(at, at, bytes) == Health::Torn;
        Holds::Unknown { torn }
    }

    fn inode_holds(&self, at: u32, bytes: &[u8], seen: &Seen) -> Holds {
        if let Some(data) = self.lost.data.get(&at).cloned() {
            return Holds::Contents {
                ino: data.ino,
                lost: data.lost,
                older: data.older,
                torn: data.torn,
            };
        }
        match self.space.get(at).map(|node| (node.state, node.owner)) {
            None | Some((_, Owner::None)) => self.unknown(at, bytes),
            Some((state, Owner::Inode(ino)))
                if state != State::Obsolete && seen.inodes.contains(&ino) =>
            {
                Holds::Fields { ino }
            }
            // Fields that are not to be trusted may have named another inode.
            Some((_, Owner::Inode(ino)))
                if !seen.inodes.contains(&ino) && self.lost.claims.contains_key(&at) =>
            {
                self.unknown(at, bytes)
            }
            Some(_) => Holds::Nothing,
        }
    }

    fn name_holds(&mut self, at: u32, bytes: &[u8], seen: &mut Seen) -> Result<Holds, Jffs2Error> {
        let e = self.flash.endian;
        let fixed = bytes.first_chunk::<DIRENT>();
        let fields = fixed.and_then(|fixed| repaired_fields(e, fixed));
        let right;
        let bytes = match fields {
            Some(fields) => {
                right = [&fields[..], &bytes[DIRENT..]].concat();
                &right[..]
            }
            None => bytes,
        };
        let sound = fields.is_some() || matches!(Broken::read(e, bytes), Some(Broken::Name { .. }));
        let dir = e.get32(bytes, 12);
        let version = e.get32(bytes, 16);
        let ino = e.get32(bytes, 20);
        let name = &bytes[DIRENT..];
        let name = &name[..name.len().min(bytes[28].into())];
        let sum = e.get32(bytes, 36);
        let repaired = if sound { repaired(name, sum) } else { None };
        let name = repaired.as_deref().unwrap_or(name);
        let readable = crc(name) == sum;
        if self.links(dir) == 0 || name.is_empty() {
            return Ok(if sound && dir != 0 {
                Holds::Nothing
            } else {
                self.unknown(at, bytes)
            });
        }
        let inode = match self.load(dir) {
            Ok(inode) => inode,
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            Err(_) => return Ok(self.unknown(at, bytes)),
        };
        let is_it = |other: &[u8]| match readable {
            true => other == name,
            false => sound && other.len() == name.len() && crc(other) == sum,
        };
        let same = inode.dents.all().find(|dent| is_it(&dent.name));
        // Without its fields a node may have been another than it seems.
        let explained = same.is_some_and(|same| same.version >= version) || ino == 0;
        if explained && !sound {
            return Ok(self.unknown(at, bytes));
        }
        if same.is_some_and(|same| same.version >= version) {
            return Ok(Holds::Nothing);
        }
        if ino == 0 {
            let name = same
                .filter(|same| same.ino != 0)
                .map(|same| same.name.to_vec());
            return Ok(name.map_or(Holds::Nothing, |name| Holds::Removal { dir, name }));
        }
        // Without its fields a node is no proof of a name.
        let proven =
            sound || readable || self.known.contains_key(&ino) && !seen.inodes.contains(&ino);
        if !proven {
            return Ok(self.unknown(at, bytes));
        }
        seen.unsure |= !sound;
        // No interruption makes the length of a name contradict that of its node.
        let is_short = fields.is_some() && name.len() < bytes[28].into();
        let torn = !is_short
            && (name.ends_with(&[0xFF])
                || self.health(at, at + DIRENT as u32, name) == Health::Torn);
        let name = name.to_vec();
        let lost = LostName {
            dir,
            name: name.clone(),
            ino,
        };
        seen.lost.push(lost);
        Ok(Holds::Name {
            dir,
            name,
            ino,
            torn,
        })
    }
}

/// The fields of a name's node, if no bit or one of them is wrong.
fn repaired_fields(e: Endian, fixed: &[u8; DIRENT]) -> Option<[u8; DIRENT]> {
    let mut fixed = *fixed;
    let is_right = |bytes: &[u8]| {
        let fixed = bytes.first_chunk();
        fixed.is_some_and(|fixed| RawDirent::read(e, fixed).is_some())
    };
    (is_right(&fixed) || repair(&mut fixed, is_right)).then_some(fixed)
}

/// A name in which one bit is wrong, with that bit right.
fn repaired(name: &[u8], sum: u32) -> Option<Vec<u8>> {
    if crc(name) == sum {
        return None;
    }
    let mut name = name.to_vec();
    repair(&mut name, |name| crc(name) == sum).then_some(name)
}

/// Inverts the one bit with which bytes are right; false if there is none, and the bytes stay.
fn repair(bytes: &mut [u8], is_right: impl Fn(&[u8]) -> bool) -> bool {
    (0..bytes.len() * 8).any(|bit| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if is_right(bytes) {
            return true;
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        false
    })
}
