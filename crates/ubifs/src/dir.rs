//! Names in directories. Names with the same hash are compared with those in their nodes.

use crate::error::{Result, UbifsError};
use crate::format::{Branch, Entry, Key, KeyKind, kind_of_entry};
use crate::index::Slot;
use crate::inode;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::node::kind_of;
use alloc::vec::Vec;
use nandlab_vfs::{DirEntry, Errno, FileType, Ino, check_name};

/// An entry that was read.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub inode: u32,
    pub kind: FileType,
    pub name: Vec<u8>,
}

impl<L: Lebs> Ubifs<L> {
    /// Reads the entry of a slot.
    pub(crate) fn entry(&mut self, slot: Slot, at: Branch) -> Result<Named> {
        let (_, bytes) = self.media.leaf(at, slot.key)?;
        let entry = Entry::parse(bytes, kind_of(slot.key));
        let entry = entry.map_err(|fault| fault.at(at.lnum, at.offs))?;
        Ok(Named {
            inode: entry.inode,
            kind: kind_of_entry(entry.kind).unwrap_or(FileType::File),
            name: entry.name.into(),
        })
    }

    /// The entry with a name, of a directory or of an inode's attributes. Where it is not found and
    /// another one cannot be read, that one may have been it.
    pub(crate) fn find(&mut self, inode: u32, kind: KeyKind, name: &[u8]) -> Result<Named> {
        let key = Key::new(inode, kind, self.media.head.key_hash.of(name));
        let slots: Vec<_> = self.index.nodes_of(key).collect();
        let mut unread = None;
        for (slot, at) in slots {
            match self.entry(slot, at) {
                Ok(entry) if entry.name == name => return Ok(entry),
                Ok(_) => {}
                Err(error) => unread = Some(error),
            }
        }
        self.index.known(key, key)?;
        let none = match kind {
            KeyKind::Xent => Errno::NoData,
            _ => Errno::NoEntry,
        };
        Err(unread.unwrap_or(none.into()))
    }

    /// The inode that a name leads to.
    pub(crate) fn look_up(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        check_name(name)?;
        let number = self.directory(dir)?.number;
        let entry = self.find(number, KeyKind::Dent, name)?;
        Ok(Ino(entry.inode.into()))
    }

    /// Lists a directory. Entries that cannot be read are left out, and the first of their errors
    /// is returned when all others were listed.
    pub(crate) fn list(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.directory(dir)?;
        let number = inode::number(dir)?;
        let (first, last) = Key::kind_range(number, KeyKind::Dent);
        let mut unread: Option<UbifsError> = self.index.known(first, last).err();
        let mut place = match from {
            0 => Slot {
                key: first,
                ordinal: 0,
            },
            from => slot_of(number, from),
        };
        while let Some((slot, at)) = self.index.behind(place, last) {
            place = slot;
            match self.entry(slot, at) {
                Ok(entry) => {
                    let told = DirEntry {
                        ino: Ino(entry.inode.into()),
                        kind: entry.kind,
                        name: &entry.name,
                        next: position(slot),
                    };
                    if !each(told) {
                        return Ok(());
                    }
                }
                Err(error) => unread = unread.or(Some(error)),
            }
        }
        unread.map_or(Ok(()), Err)
    }
}

/// The place behind a slot; never 0, since no hash is.
fn position(slot: Slot) -> u64 {
    u64::from(slot.key.value()) << 32 | u64::from(slot.ordinal)
}

fn slot_of(inode: u32, position: u64) -> Slot {
    Slot {
        key: Key::new(inode, KeyKind::Dent, (position >> 32) as u32),
        ordinal: position as u32,
    }
}
