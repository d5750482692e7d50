//! Extended attributes: entries like those of a directory, and an inode for each value.

use crate::batch::Batch;
use crate::error::{Result, UbifsError};
use crate::format::{
    Fault, INLINE_MAX, IS_PACKED, IS_XATTR, Key, KeyKind, NAME_MAX, XATTR_NAMES_MAX, align8,
};
use crate::inode::{self, Inode};
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::names::entry_bytes;
use alloc::vec::Vec;
use nandlab_vfs::{Errno, FileType, Ino, SetXattr, Time};

/// The names that Linux takes begin with these.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

fn check_name(name: &[u8]) -> Result<()> {
    let is_known = |space: &&[u8]| name.len() > space.len() && name.starts_with(space);
    match name.len() {
        len if len > NAME_MAX => Err(Errno::Range.into()),
        _ if SPACES.iter().any(is_known) => Ok(()),
        _ => Err(Errno::NotSupported.into()),
    }
}

/// Bytes that the inode of a value takes.
fn value_bytes(value: &[u8]) -> u32 {
    align8(161 + value.len() as u32)
}

impl<L: Lebs> Ubifs<L> {
    /// The value of an attribute.
    pub(crate) fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let (host, _) = self.inode(ino)?;
        if self.gate.is_writable() {
            check_name(name)?;
        }
        let entry = self.find(host.number, KeyKind::Xent, name)?;
        self.xattr_value(entry.inode)
    }

    /// The value that an inode holds.
    pub(crate) fn xattr_value(&mut self, number: u32) -> Result<Vec<u8>> {
        let (inode, at) = self.inode(Ino(number.into()))?;
        match inode.is_xattr {
            true => Ok(inode.data),
            false => {
                let what = "the mode of the inode of an attribute's value";
                let fault = Fault::rule(what, inode.mode, "a file's, with the flag of a value");
                Err(fault.at(at.lnum, at.offs))
            }
        }
    }

    /// The names of an inode's attributes.
    pub(crate) fn xattr_names(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.inode(ino)?;
        let number = inode::number(ino)?;
        let (from, to) = Key::kind_range(number, KeyKind::Xent);
        self.index.known(from, to)?;
        let slots: Vec<_> = self.index.range(from, to).collect();
        let names = slots.into_iter().map(|(slot, at)| self.entry(slot, at));
        names.map(|entry| Ok(entry?.name)).collect()
    }

    /// Sets an extended attribute of an inode.
    pub(crate) fn set_xattr(
        &mut self,
        number: u32,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<()> {
        let mut host = self.stored(number)?;
        check_name(name)?;
        if value.len() > INLINE_MAX as usize {
            return Err(Errno::TooBig.into());
        }
        let old = match self.find(number, KeyKind::Xent, name) {
            Ok(entry) => Some(self.stored(entry.inode)?),
            Err(UbifsError::Call(Errno::NoData)) => None,
            Err(error) => return Err(error),
        };
        check_expected(expect, old.is_some())?;
        host.attr.ctime = now;
        match old {
            Some(old) => self.change_xattr(host, old, value),
            None => self.add_xattr(host, name, value, now),
        }
    }

    fn change_xattr(&mut self, mut host: Inode, mut inode: Inode, value: &[u8]) -> Result<()> {
        let rest = host.xattrs.1.saturating_sub(value_bytes(&inode.data));
        host.xattrs.1 = rest.saturating_add(value_bytes(value));
        inode.set_value(value);
        let mut batch = Batch::default();
        batch.inode(&host);
        batch.inode(&inode);
        self.run(Head::Base, batch)
    }

    fn add_xattr(&mut self, mut host: Inode, name: &[u8], value: &[u8], now: Time) -> Result<()> {
        let (count, bytes, names) = host.xattrs;
        let names = names + name.len() as u32;
        if u64::from(names) + u64::from(count + 1) > XATTR_NAMES_MAX {
            return Err(Errno::NoSpace.into());
        }
        // A mount does not know whether this number is right.
        let bytes = bytes.saturating_add(entry_bytes(name) + value_bytes(value));
        host.xattrs = (count + 1, bytes, names);
        let number = self.new_number()?;
        let mut inode = self.fresh(number, FileType::File, 0o777, now);
        inode.make_value(host.flags, value);
        let mut batch = Batch::default();
        self.any_entry(&mut batch, (host.number, KeyKind::Xent), name, number, 0);
        batch.inode(&inode);
        batch.inode(&host);
        self.run(Head::Base, batch)
    }

    /// Removes an extended attribute of an inode.
    pub(crate) fn remove_xattr(&mut self, number: u32, name: &[u8], now: Time) -> Result<()> {
        let mut host = self.stored(number)?;
        check_name(name)?;
        let entry = self.find(number, KeyKind::Xent, name)?;
        let inode = self.stored(entry.inode)?;
        host.subtract_xattr(name, &inode.data);
        host.attr.ctime = now;
        let inode = inode.without_value();
        let mut batch = Batch::default();
        self.any_entry(&mut batch, (number, KeyKind::Xent), name, 0, 0);
        batch.inode(&inode);
        batch.inode(&host);
        self.removing(|fs| fs.run(Head::Base, batch))
    }
}

/// Whether an attribute may be set where one is there already, or none is.
fn check_expected(expect: SetXattr, is_there: bool) -> Result<()> {
    match (expect, is_there) {
        (SetXattr::Create, true) => Err(Errno::Exists.into()),
        (SetXattr::Replace, false) => Err(Errno::NoData.into()),
        _ => Ok(()),
    }
}

impl Inode {
    /// Turns a fresh inode into the value of an attribute of an inode with these flags.
    fn make_value(&mut self, host_flags: u32, value: &[u8]) {
        self.compressor = 0;
        self.flags = IS_XATTR | host_flags & IS_PACKED;
        self.set_value(value);
    }

    /// Takes an attribute out of the inode's counts.
    fn subtract_xattr(&mut self, name: &[u8], value: &[u8]) {
        let (count, bytes, names) = self.xattrs;
        let gone = entry_bytes(name) + value_bytes(value);
        self.xattrs = (
            count.saturating_sub(1),
            bytes.saturating_sub(gone),
            names.saturating_sub(name.len() as u32),
        );
    }

    /// The inode of a value, without links.
    pub fn without_value(mut self) -> Self {
        self.links = 0;
        self.set_value(&[]);
        self
    }

    fn set_value(&mut self, value: &[u8]) {
        self.data = value.into();
        self.size = value.len() as u64;
    }
}
