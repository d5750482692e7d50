//! Extended attributes: entries like those of a directory, and an inode for each value.

use crate::error::Result;
use crate::format::{Fault, Key, KeyKind};
use crate::inode;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::vec::Vec;
use nandlab_vfs::Ino;

impl<L: Lebs> Ubifs<L> {
    /// The value of an attribute.
    pub(crate) fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let (host, _) = self.inode(ino)?;
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
}
