//! Extended attributes: values, which several inodes may share, and references to them.
//!
//! *Promises.* A reference counts by its highest number; an odd one says that the inode has the
//! attribute no more, and is kept as long as an older reference is anywhere on the medium. Of two
//! attributes of one name the one with the higher number counts. A value is on the medium before
//! what refers to it. *Differs from Linux* in that a replaced value's reference is ended on the
//! medium, too. Source: fs/jffs2/xattr.c.

use crate::{
    Jffs2, Jffs2Error,
    format::{self, RawXattr, RawXref, XATTR, XREF, crc},
    room::For,
    scan::FoundXattr,
    space::{Owner, State},
    summary::{INODE_ENTRY, XREF_ENTRY},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Errno, SetXattr};
use nandlab_xattr::{
    Space,
    acl::{self, Order},
    check_set,
};

/// The odd numbers of references.
const DEAD: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct Value {
    at: u32,
    raw: RawXattr,
    references: u32,
}

#[derive(Clone, Debug, Default)]
struct Ref {
    at: u32,
    seqno: u32,
    /// Those before it that are still on the medium.
    older: BTreeSet<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Xattrs {
    values: BTreeMap<u32, Value>,
    refs: BTreeMap<(u32, u32), Ref>,
    highest_xid: u32,
    highest_seqno: u32,
    /// Values that an inode refers to and that were not found, with the inode.
    missing: BTreeMap<u32, u32>,
    /// A value was found to which no inode refers.
    orphans: bool,
}

impl Xattrs {
    pub fn has_value(&self, xid: u32, at: u32) -> bool {
        self.values.get(&xid).is_some_and(|value| value.at == at)
    }

    pub fn has_ref(&self, ino: u32, xid: u32, at: u32) -> bool {
        self.refs
            .get(&(ino, xid))
            .is_some_and(|found| found.at == at)
    }

    pub fn move_value(&mut self, xid: u32, at: u32) {
        if let Some(value) = self.values.get_mut(&xid) {
            value.at = at;
        }
    }

    pub fn move_ref(&mut self, ino: u32, xid: u32, old: u32, at: u32) {
        if let Some(found) = self.refs.get_mut(&(ino, xid)) {
            found.older.insert(old);
            found.at = at;
        }
    }

    /// An inode with a name that refers to a value that was not found.
    pub fn missing(&self, xid: u32) -> Option<u32> {
        self.missing.get(&xid).copied()
    }

    /// Whether a mount found a value to which no inode refers.
    pub fn has_orphans(&self) -> bool {
        self.orphans
    }

    /// Whether a value of that number counts, wherever it lies.
    pub fn knows_value(&self, xid: u32) -> bool {
        self.values.contains_key(&xid)
    }

    /// Whether it is known that an inode has, or had, an attribute.
    pub fn knows(&self, ino: u32, xid: u32) -> bool {
        self.refs.contains_key(&(ino, xid))
    }

    /// Attributes of an inode, by the numbers of their values.
    fn of(&self, ino: u32) -> Vec<(u32, u32)> {
        self.refs
            .range((ino, 0)..=(ino, u32::MAX))
            .filter(|(_, found)| found.seqno & DEAD == 0)
            .map(|((_, xid), found)| (*xid, found.seqno))
            .collect()
    }
}

impl<M: Mtd> Jffs2<M> {
    /// Binds what the scan found; what nobody needs does not count.
    pub(crate) fn build_xattrs(
        &mut self,
        values: BTreeMap<u32, FoundXattr>,
        found: Vec<(u32, RawXref)>,
    ) {
        let mut refs: BTreeMap<(u32, u32), Ref> = BTreeMap::new();
        for (at, raw) in found {
            self.xattrs.highest_seqno = self.xattrs.highest_seqno.max(raw.seqno & !DEAD);
            self.xattrs.highest_xid = self.xattrs.highest_xid.max(raw.xid);
            self.highest_ino = self.highest_ino.max(raw.ino);
            let entry = refs.entry((raw.ino, raw.xid)).or_insert(Ref {
                at,
                seqno: raw.seqno,
                older: BTreeSet::new(),
            });
            let mut older = at;
            if at != entry.at && raw.seqno >= entry.seqno {
                older = core::mem::replace(&mut entry.at, at);
                entry.seqno = raw.seqno;
            }
            if older != entry.at {
                entry.older.insert(older);
                self.space.obsolete(older, false, true);
            }
        }
        self.xattrs.values = values
            .into_iter()
            .map(|(xid, found)| {
                (
                    xid,
                    Value {
                        at: found.at,
                        raw: found.raw,
                        references: 0,
                    },
                )
            })
            .collect();
        let highest = self
            .xattrs
            .values
            .last_key_value()
            .map_or(0, |(xid, _)| *xid);
        self.xattrs.highest_xid = self.xattrs.highest_xid.max(highest);
        for ((ino, xid), found) in refs {
            let dead = found.seqno & DEAD != 0;
            let value = self.xattrs.values.get_mut(&xid).filter(|_| !dead);
            let needed = if dead {
                !found.older.is_empty()
            } else {
                value.is_some()
            };
            if !needed && !dead && self.links(ino) > 0 {
                self.xattrs.missing.insert(xid, ino);
            }
            if !needed || self.links(ino) == 0 {
                self.space.obsolete(found.at, false, true);
                continue;
            }
            if let Some(value) = self.xattrs.values.get_mut(&xid).filter(|_| !dead) {
                value.references += 1;
            }
            self.xattrs.refs.insert((ino, xid), found);
        }
        let orphans: Vec<(u32, u32)> = self
            .xattrs
            .values
            .iter()
            .filter(|(_, value)| value.references == 0)
            .map(|(xid, value)| (*xid, value.at))
            .collect();
        self.xattrs.orphans = !orphans.is_empty();
        for (xid, at) in orphans {
            self.xattrs.values.remove(&xid);
            self.space.obsolete(at, false, true);
        }
    }

    /// A value's name and contents.
    fn read_value(&mut self, xid: u32) -> Result<(u8, Vec<u8>, Vec<u8>), Jffs2Error> {
        let value = *self.xattrs.values.get(&xid).ok_or(Errno::NoData)?;
        let mut data = alloc::vec![0; value.raw.data_len()];
        self.flash.read(value.at + XATTR as u32, &mut data)?;
        let found = crc(&data);
        if found != value.raw.data_crc {
            return Err(Jffs2Error::Node {
                at: value.at,
                ino: 0,
                what: "checksum of an attribute",
                found,
                expected: value.raw.data_crc,
                medium: self.flash.doubt(),
            });
        }
        let contents = data.split_off(usize::from(value.raw.name_len) + 1);
        data.pop();
        Ok((value.raw.prefix, data, contents))
    }

    /// The attribute of that name with the highest number: its value's number and contents.
    fn find_xattr(&mut self, ino: u32, name: &[u8]) -> Result<Option<(u32, Vec<u8>)>, Jffs2Error> {
        let (prefix, rest) = Space::JFFS2.split(name)?;
        let mut best: Option<(u32, u32, Vec<u8>)> = None;
        for (xid, seqno) in self.xattrs.of(ino) {
            let fits =
                |raw: &RawXattr| raw.prefix == prefix && usize::from(raw.name_len) == rest.len();
            let newer = best.as_ref().is_none_or(|(highest, ..)| seqno > *highest);
            if !newer
                || !self
                    .xattrs
                    .values
                    .get(&xid)
                    .is_some_and(|value| fits(&value.raw))
            {
                continue;
            }
            let (_, found, contents) = self.read_value(xid)?;
            if found == rest {
                best = Some((seqno, xid, contents));
            }
        }
        Ok(best.map(|(_, xid, contents)| (xid, contents)))
    }

    pub(crate) fn get_attribute(&mut self, ino: u32, name: &[u8]) -> Result<Vec<u8>, Jffs2Error> {
        let (_, value) = self.find_xattr(ino, name)?.ok_or(Errno::NoData)?;
        Ok(acl::shown(name, value, self.order())?)
    }

    pub(crate) fn list_attributes(&mut self, ino: u32) -> Result<Vec<Vec<u8>>, Jffs2Error> {
        let mut names = BTreeSet::new();
        for (xid, _) in self.xattrs.of(ino) {
            let (prefix, name, _) = self.read_value(xid)?;
            names.extend(Space::JFFS2.join(prefix, &name));
        }
        Ok(names.into_iter().collect())
    }

    /// How lists are stored.
    fn order(&self) -> Order {
        if self.flash.endian == format::Endian::Little {
            Order::Little
        } else {
            Order::Big
        }
    }

    /// Sets an attribute, or removes it.
    pub(crate) fn set_attribute(
        &mut self,
        ino: u32,
        name: &[u8],
        value: Option<&[u8]>,
        expect: SetXattr,
    ) -> Result<(), Jffs2Error> {
        let Some(value) = value else {
            let (xid, _) = self.find_xattr(ino, name)?.ok_or(Errno::NoData)?;
            return self.end_ref(ino, xid);
        };
        let value = &acl::stored(name, value, self.order())?[..];
        let old = self.find_xattr(ino, name)?;
        check_set(Some(value), expect, old.is_some())?;
        if old.as_ref().is_some_and(|(_, contents)| contents == value) {
            return Ok(());
        }
        let (prefix, rest) = Space::JFFS2.split(name)?;
        let xid = self.put_value(prefix, rest, value)?;
        self.replace_ref(ino, xid, old.map(|(old, _)| old))
    }

    /// Gives the inode a value in place of an old one.
    fn replace_ref(&mut self, ino: u32, xid: u32, old: Option<u32>) -> Result<(), Jffs2Error> {
        if let Err(error) = self.put_ref(ino, xid, 0, For::Write) {
            self.release_value(xid)?;
            return Err(error);
        }
        old.map_or(Ok(()), |old| self.end_ref(ino, old))
    }

    /// A value of which one more is used: one that is there already, or a new one.
    fn put_value(&mut self, prefix: u8, name: &[u8], value: &[u8]) -> Result<u32, Jffs2Error> {
        let data = [name, b"\0", value].concat();
        let name_len = name.len() as u8;
        let value_len = u16::try_from(value.len()).map_err(|_| Errno::NoSpace)?;
        let wanted = RawXattr {
            prefix,
            name_len,
            value_len,
            data_crc: crc(&data),
            ..RawXattr::default()
        };
        let alike = |raw: &RawXattr| {
            RawXattr {
                xid: 0,
                version: 0,
                ..*raw
            } == wanted
        };
        let known: Vec<u32> = self
            .xattrs
            .values
            .iter()
            .filter(|(_, value)| alike(&value.raw))
            .map(|(xid, _)| *xid)
            .collect();
        for xid in known {
            if self
                .read_value(xid)
                .is_ok_and(|(_, other, contents)| other == name && contents == value)
                && let Some(value) = self.xattrs.values.get_mut(&xid)
            {
                value.references += 1;
                return Ok(xid);
            }
        }
        let xid = self
            .xattrs
            .highest_xid
            .checked_add(1)
            .ok_or(Errno::NoSpace)?;
        let raw = RawXattr {
            xid,
            version: 1,
            ..wanted
        };
        let node = [&raw.write(self.flash.endian)[..], &data].concat();
        let too_long = |error| {
            if error == Jffs2Error::Call(Errno::FileTooBig) {
                Errno::NoSpace.into()
            } else {
                error
            }
        };
        let at = self
            .put(&node, INODE_ENTRY, Owner::Xattr(xid), For::Write)
            .map_err(too_long)?;
        self.xattrs.highest_xid = xid;
        self.xattrs.values.insert(
            xid,
            Value {
                at,
                raw,
                references: 1,
            },
        );
        Ok(xid)
    }

    fn put(&mut self, node: &[u8], entry: u32, owner: Owner, who: For) -> Result<u32, Jffs2Error> {
        loop {
            self.reserve(format::pad(node.len() as u32), entry, who)?;
            if let Some(at) = self.append([node, &[]], State::Pristine, owner)? {
                return Ok(at);
            }
        }
    }

    /// An inode has an attribute (`dead` is 0), or has it no more.
    fn put_ref(&mut self, ino: u32, xid: u32, dead: u32, who: For) -> Result<(), Jffs2Error> {
        let seqno = self
            .xattrs
            .highest_seqno
            .checked_add(2)
            .ok_or(Errno::NoSpace)?;
        let raw = RawXref {
            ino,
            xid,
            seqno: seqno | dead,
        };
        let at = self.put(
            &raw.write(self.flash.endian),
            XREF_ENTRY,
            Owner::Xref(ino, xid),
            who,
        )?;
        debug_assert_eq!(XREF % 4, 0);
        self.xattrs.highest_seqno = seqno;
        let found = self.xattrs.refs.entry((ino, xid)).or_insert(Ref {
            at,
            seqno: raw.seqno,
            older: BTreeSet::new(),
        });
        let old = core::mem::replace(&mut found.at, at);
        found.seqno = raw.seqno;
        if old != at {
            found.older.insert(old);
            return self.obsolete(old);
        }
        Ok(())
    }

    fn end_ref(&mut self, ino: u32, xid: u32) -> Result<(), Jffs2Error> {
        if self.marks_in_place() {
            let found = self.xattrs.refs.remove(&(ino, xid));
            found.map_or(Ok(()), |found| self.obsolete(found.at))?;
        } else {
            self.put_ref(ino, xid, DEAD, For::Deletion)?;
        }
        self.release_value(xid)
    }

    /// One user of a value less.
    fn release_value(&mut self, xid: u32) -> Result<(), Jffs2Error> {
        let Some(value) = self.xattrs.values.get_mut(&xid) else {
            return Ok(());
        };
        value.references = value.references.saturating_sub(1);
        if value.references == 0 {
            let at = value.at;
            self.xattrs.values.remove(&xid);
            return self.obsolete(at);
        }
        Ok(())
    }

    /// The inode is gone: its references need no end of their own.
    pub(crate) fn drop_xattrs_of(&mut self, ino: u32) -> Result<(), Jffs2Error> {
        let all: Vec<u32> = self
            .xattrs
            .refs
            .range((ino, 0)..=(ino, u32::MAX))
            .map(|((_, xid), _)| *xid)
            .collect();
        for xid in all {
            let Some(found) = self.xattrs.refs.remove(&(ino, xid)) else {
                continue;
            };
            self.obsolete(found.at)?;
            if found.seqno & DEAD == 0 {
                self.release_value(xid)?;
            }
        }
        Ok(())
    }

    /// A reference is erased. An end is not needed any more when there is nothing left that it
    /// ends.
    pub(crate) fn disown_xref(&mut self, at: u32, ino: u32, xid: u32) -> Result<(), Jffs2Error> {
        let Some(found) = self.xattrs.refs.get_mut(&(ino, xid)) else {
            return Ok(());
        };
        found.older.remove(&at);
        if found.older.is_empty() && found.seqno & DEAD != 0 {
            let last = found.at;
            self.xattrs.refs.remove(&(ino, xid));
            return self.obsolete(last);
        }
        Ok(())
    }
}
