//! Making, linking and removing names, and the end of inodes without any.
//!
//! *Promises.* A call that fails has changed nothing but caches. *Knows nothing of* how directories
//! find names, nor of who may ask.

use crate::{
    F2fs, F2fsError, SeededBug,
    dentry::{Entry, View},
    dir::Found,
    format::{NULL, footer, inode, le16, le32, put16, put32, put64},
    node::{Shape, kind, put_time, touch},
    superblock::feature,
};
use alloc::format;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Caller, Errno, FileType, NewNode, Rename, check_name, rules};

/// Where what has lost its name goes.
const LOST_FOUND: &[u8] = b"lost+found";
const TARGET_MAX: usize = 4095;

impl<D: BlockDevice> F2fs<D> {
    /// An inode in use.
    pub(crate) fn alive(&mut self, ino: u32) -> Result<(), F2fsError> {
        let entry = self.nat_entry(ino).map_err(|error| match error {
            F2fsError::Node { .. } => Errno::Stale.into(),
            other => other,
        })?;
        if entry.addr == 0 || entry.ino != ino {
            return Err(Errno::Stale.into());
        }
        self.inode(ino).map(|_| ())
    }

    pub(crate) fn links(&mut self, ino: u32) -> Result<u32, F2fsError> {
        Ok(le32(self.inode(ino)?, inode::LINKS))
    }

    /// Refuses all but directories in use.
    pub(crate) fn check_dir(&mut self, dir: u32) -> Result<(), F2fsError> {
        self.alive(dir)?;
        if self.is_dir(dir)? {
            Ok(())
        } else {
            Err(Errno::NotDirectory.into())
        }
    }

    /// Refuses what is no name, and a directory without names.
    pub(crate) fn check_name_in(&mut self, dir: u32, name: &[u8]) -> Result<(), F2fsError> {
        check_name(name)?;
        self.check_dir(dir)?;
        match self.links(dir)? {
            0 => Err(Errno::NoEntry.into()),
            _ => Ok(()),
        }
    }

    /// The entry of a name that must be there.
    pub(crate) fn need(&mut self, dir: u32, name: &[u8]) -> Result<Found, F2fsError> {
        self.check_name_in(dir, name)?;
        self.find(dir, name)?.ok_or_else(|| Errno::NoEntry.into())
    }

    /// Refuses a name that is there, and a directory in which no names may be made any more.
    fn check_free(&mut self, dir: u32, name: &[u8]) -> Result<(), F2fsError> {
        check_name(name)?;
        self.check_dir(dir)?;
        self.check_changeable(dir)?;
        match self.find(dir, name)? {
            _ if self.links(dir)? == 0 => Err(Errno::NoEntry.into()),
            Some(_) => Err(Errno::Exists.into()),
            None => Ok(()),
        }
    }

    /// Contents of a directory changed now.
    fn touch_dir(&mut self, dir: u32, links: i32) -> Result<(), F2fsError> {
        let now = self.now;
        let bytes = self.node_mut(dir)?;
        touch(bytes, now);
        let count = le32(bytes, inode::LINKS).saturating_add_signed(links);
        put32(bytes, inode::LINKS, count);
        Ok(())
    }

    /// The inode to which an entry leads.
    pub(crate) fn child(&mut self, found: &Found) -> Result<u32, F2fsError> {
        let ino = found.entry.ino;
        match self.alive(ino) {
            Err(F2fsError::Call(Errno::Stale)) => Err(found.leads_astray()),
            outcome => outcome.map(|()| ino),
        }
    }

    pub(crate) fn make(
        &mut self,
        dir: u32,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<u32, F2fsError> {
        let epoch = self.names_epoch();
        self.check_free(dir, name)?;
        if let NewNode::Symlink { target } = node {
            rules::check_target(target, TARGET_MAX)?;
        }
        let directory = node == NewNode::Directory;
        let (ino, mode, gid) = self.new_inode(dir, &node, mode, by)?;
        let owner = (by.uid, gid);
        self.fill_inode(ino, mode, owner, by, (dir, name))?;
        self.fill_contents(ino, dir, node)?;
        self.add_entry(dir, name, ino, node.kind())?;
        self.touch_dir(dir, directory.into())?;
        self.known.put(dir, name, ino, epoch);
        Ok(ino)
    }

    /// Takes an inode number; gives it with the mode and the group that the inode gets.
    fn new_inode(
        &mut self,
        dir: u32,
        node: &NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<(u32, u16, u32), F2fsError> {
        // The inode, its contents, a block of names and the nodes above: a call that begins finds
        // space for all.
        self.reserve(8)?;
        self.unreserve(8);
        let parent = self.inode(dir)?;
        let parent = (le16(parent, inode::MODE), le32(parent, inode::GID));
        let directory = *node == NewNode::Directory;
        let (mode, gid) = rules::inherit(parent, directory, mode, by);
        let mode = node.kind().mode() | mode;
        let ino = self.new_node(None, 0, directory)?;
        Ok((ino, mode, gid))
    }

    /// The fields that every new inode has.
    fn fill_inode(
        &mut self,
        ino: u32,
        mode: u16,
        owner: (u32, u32),
        by: Caller,
        at: (u32, &[u8]),
    ) -> Result<(), F2fsError> {
        let kind = FileType::from_mode(mode);
        let features = self.layout.features;
        let options = self.options;
        let advise = if kind == Some(FileType::File) {
            self.temperature(at.1)
        } else {
            0
        };
        let generation = self.given_out as u32 ^ ino;
        let bytes = self.node_mut(ino)?;
        put16(bytes, inode::MODE, mode);
        bytes[inode::ADVISE] = advise;
        bytes[inode::INLINE] = inode::INLINE_XATTR
            | match kind {
                Some(FileType::File | FileType::Symlink) if options.inline_data => {
                    inode::INLINE_DATA
                }
                Some(FileType::Directory) if options.inline_names => inode::INLINE_DENTRY,
                _ => 0,
            };
        if features & feature::EXTRA_ATTR != 0 {
            bytes[inode::INLINE] |= inode::EXTRA_ATTR;
            put16(bytes, inode::EXTRA_SIZE, 36);
            put16(
                bytes,
                inode::XATTR_SLOTS,
                if features & feature::FLEXIBLE_XATTR != 0 {
                    inode::DEFAULT_XATTR_SLOTS as u16
                } else {
                    0
                },
            );
            if features & feature::BIRTH != 0 {
                put_time(bytes, inode::BIRTH, inode::BIRTH_NANOS, by.now);
            }
        }
        put32(bytes, inode::UID, owner.0);
        put32(bytes, inode::GID, owner.1);
        put32(
            bytes,
            inode::LINKS,
            if kind == Some(FileType::Directory) {
                2
            } else {
                1
            },
        );
        put64(bytes, inode::BLOCKS, 1);
        put_time(bytes, inode::ATIME, inode::ATIME_NANOS, by.now);
        touch(bytes, by.now);
        put32(bytes, inode::GENERATION, generation);
        if kind == Some(FileType::Directory) {
            put32(bytes, inode::DEPTH, 1);
        }
        self.remember_name(ino, at.0, at.1)
    }

    /// An inode knows the last name that it was given, for roll-forward.
    fn remember_name(&mut self, ino: u32, dir: u32, name: &[u8]) -> Result<(), F2fsError> {
        let bytes = self.node_mut(ino)?;
        put32(bytes, inode::PARENT, dir);
        put32(bytes, inode::NAME_LEN, name.len() as u32);
        bytes[inode::NAME..inode::NAME + 255].fill(0);
        bytes[inode::NAME..inode::NAME + name.len()].copy_from_slice(name);
        Ok(())
    }

    /// How long contents of a file will live, by its name (paper, section 2.3).
    fn temperature(&self, name: &[u8]) -> u8 {
        let has = |extension: &[u8; 8]| {
            let extension = extension
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default();
            let behind = (1..name.len())
                .filter(|at| name[*at] == b'.')
                .map(|at| &name[at + 1..]);
            !extension.is_empty()
                && behind.clone().any(|rest| {
                    rest.get(..extension.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(extension))
                })
        };
        let cold = if self.layout.cold.iter().any(has) {
            inode::ADVISE_COLD
        } else {
            0
        };
        if cold == 0 && self.layout.hot.iter().any(has) {
            inode::ADVISE_HOT
        } else {
            cold
        }
    }

    /// What a new inode holds from the beginning.
    fn fill_contents(&mut self, ino: u32, parent: u32, node: NewNode<'_>) -> Result<(), F2fsError> {
        match node {
            NewNode::Directory => self.fill_dir(ino, parent),
            NewNode::Symlink { target } => self.fill_link(ino, target),
            NewNode::Character { device } | NewNode::Block { device } => {
                let (major, minor) = device;
                let at = self.shape(ino)?.slots_at();
                let bytes = self.node_mut(ino)?;
                match major < 256 && minor < 256 {
                    true => put32(bytes, at, major << 8 | minor),
                    false => put32(
                        bytes,
                        at + 4,
                        minor & 0xFF | major << 8 | (minor & !0xFF) << 12,
                    ),
                }
                Ok(())
            }
            NewNode::File | NewNode::Fifo | NewNode::Socket => Ok(()),
        }
    }

    /// Without [`write_file`](Self::write_file), which may take a checkpoint on the way: no inode
    /// is on the medium before its name is known.
    fn fill_link(&mut self, ino: u32, target: &[u8]) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let fits = self.is_inline(ino)? && target.len() <= shape.inline_max();
        let bytes = self.node_mut(ino)?;
        put64(bytes, inode::SIZE, target.len() as u64);
        if fits {
            bytes[inode::INLINE] |= inode::DATA_EXIST;
            bytes[shape.inline_at()..shape.inline_at() + target.len()].copy_from_slice(target);
        } else {
            bytes[inode::INLINE] &= !inode::INLINE_DATA;
            self.page_mut(ino, 0)?[..target.len()].copy_from_slice(target);
        }
        Ok(())
    }

    fn fill_dir(&mut self, ino: u32, parent: u32) -> Result<(), F2fsError> {
        let dots =
            [(0, ino, &b"."[..]), (1, parent, b"..")].map(|(slot, ino, name)| dot(slot, ino, name));
        let shape = self.shape(ino)?;
        let inline = self.has_inline_names(ino)?;
        let size = if inline {
            shape.inline_max() as u64
        } else {
            crate::format::BLOCK as u64
        };
        put64(self.node_mut(ino)?, inode::SIZE, size);
        let view = if inline {
            View::inline(&shape)
        } else {
            View::BLOCK
        };
        let bytes = if inline {
            self.node_mut(ino)?
        } else {
            self.page_mut(ino, 0)?
        };
        dots.iter().for_each(|entry| view.put(bytes, entry));
        Ok(())
    }

    pub(crate) fn link_name(&mut self, ino: u32, dir: u32, name: &[u8]) -> Result<(), F2fsError> {
        let epoch = self.names_epoch();
        self.check_free(dir, name)?;
        self.alive(ino)?;
        self.check_changeable(ino)?;
        self.reserve(6)?;
        self.unreserve(6);
        let kind = self.kind_to_link(ino)?;
        let links = self.links(ino)?.checked_add(1).ok_or(Errno::TooManyLinks)?;
        self.add_entry(dir, name, ino, kind)?;
        self.known.put(dir, name, ino, epoch);
        let now = self.now;
        let bytes = self.node_mut(ino)?;
        put32(bytes, inode::LINKS, links);
        put_time(bytes, inode::CTIME, inode::CTIME_NANOS, now);
        self.needs_checkpoint.insert(ino);
        self.touch_dir(dir, 0)
    }

    /// The type of an inode that may get another name.
    fn kind_to_link(&mut self, ino: u32) -> Result<FileType, F2fsError> {
        match kind(self.inode(ino)?) {
            Some(FileType::Directory) => Err(Errno::NotPermitted.into()),
            _ if self.links(ino)? == 0 => Err(Errno::NoEntry.into()),
            kind => Ok(kind.unwrap_or(FileType::File)),
        }
    }

    pub(crate) fn remove(
        &mut self,
        dir: u32,
        name: &[u8],
        directory: bool,
    ) -> Result<(), F2fsError> {
        let found = self.need(dir, name)?;
        let ino = self.child(&found)?;
        self.check_changeable(dir)?;
        self.check_changeable(ino)?;
        rules::check_kinds(directory, self.is_dir(ino)?)?;
        if directory && !self.is_empty_dir(ino)? {
            return Err(Errno::NotEmpty.into());
        }
        self.remove_entry(&found)?;
        self.touch_dir(dir, -i32::from(directory))?;
        self.lose_name(ino)
    }

    /// A name has gone; with the last one the inode too, unless it is referred to.
    pub(crate) fn lose_name(&mut self, ino: u32) -> Result<(), F2fsError> {
        let now = self.now;
        let directory = self.is_dir(ino)?;
        let bytes = self.node_mut(ino)?;
        let links = if directory {
            0
        } else {
            le32(bytes, inode::LINKS).saturating_sub(1)
        };
        put32(bytes, inode::LINKS, links);
        put_time(bytes, inode::CTIME, inode::CTIME_NANOS, now);
        self.needs_checkpoint.insert(ino);
        if links > 0 {
            return Ok(());
        }
        if self.references.contains_key(&ino) {
            self.orphans.insert(ino);
            return Ok(());
        }
        self.destroy(ino)
    }

    /// An inode ends, with everything that it has.
    pub(crate) fn destroy(&mut self, ino: u32) -> Result<(), F2fsError> {
        self.orphans.remove(&ino);
        if self.is_dir(ino)? {
            // Another directory may get the number.
            self.end_names();
        }
        let special = !matches!(
            kind(self.inode(ino)?),
            Some(FileType::File | FileType::Directory | FileType::Symlink)
        );
        let inline =
            self.inode(ino)?[inode::INLINE] & (inode::INLINE_DATA | inode::INLINE_DENTRY) != 0;
        if !special && !inline {
            self.cut(ino, 0)?;
        }
        let xattr = le32(self.inode(ino)?, inode::XATTR_NID);
        if xattr != 0 {
            self.check_xattr_node(xattr, ino)?;
            self.free_node(xattr, ino)?;
        }
        self.pages.forget_range((ino, 0)..=(ino, u32::MAX));
        self.free_node(ino, ino)
    }

    pub(crate) fn rename_name(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        how: Rename,
    ) -> Result<(), F2fsError> {
        let source = self.need(from.0, from.1)?;
        let moved = self.child(&source)?;
        check_name(to.1)?;
        self.check_dir(to.0)?;
        if self.links(to.0)? == 0 {
            return Err(Errno::NoEntry.into());
        }
        let target = self.find(to.0, to.1)?;
        let replaced = target.as_ref().map(|target| target.entry.ino);
        for ino in [from.0, to.0, moved].into_iter().chain(replaced) {
            self.check_changeable(ino)?;
        }
        match (how, &target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::Exists.into()),
            (Rename::Exchange, None) => return Err(Errno::NoEntry.into()),
            (_, Some(target)) if target.entry.ino == moved => return Ok(()),
            _ => {}
        }
        if self.is_dir(moved)? && self.is_inside(to.0, moved)? {
            return Err(Errno::Invalid.into());
        }
        self.reserve(6)?;
        self.unreserve(6);
        match target {
            Some(target) if how == Rename::Exchange => {
                self.exchange((from, source, moved), to, target)
            }
            Some(target) => self.replace((from, source, moved), to, target),
            None => self.move_name((from, moved), to),
        }
    }

    /// The parent that a directory names.
    fn parent_entry(&mut self, dir: u32) -> Result<Found, F2fsError> {
        let missing = F2fsError::Node {
            nid: dir,
            field: "entry of the parent",
            found: 0,
            expected: "one",
        };
        self.find(dir, b"..")?.ok_or(missing)
    }

    /// Whether a directory is another, or lies in it.
    fn is_inside(&mut self, mut dir: u32, ancestor: u32) -> Result<bool, F2fsError> {
        // Deeper than any path leads.
        for _ in 0..u16::MAX {
            if dir == ancestor {
                return Ok(true);
            }
            if dir == self.layout.root {
                return Ok(false);
            }
            let parent = self.parent_entry(dir)?;
            dir = self.child(&parent)?;
        }
        Err(Errno::Loop.into())
    }

    /// The inode has another name, perhaps in another directory.
    fn finish_move(&mut self, moved: u32, from: u32, to: (u32, &[u8])) -> Result<(), F2fsError> {
        self.remember_name(moved, to.0, to.1)?;
        let now = self.now;
        put_time(self.node_mut(moved)?, inode::CTIME, inode::CTIME_NANOS, now);
        if !self.has_bug(SeededBug::RenameRolledForward) {
            self.needs_checkpoint.insert(moved);
        }
        if from != to.0 && self.is_dir(moved)? {
            let parent = self.parent_entry(moved)?;
            self.point_entry(&parent, to.0, FileType::Directory)?;
        }
        Ok(())
    }

    /// Gives an inode that has lost its name one in `lost+found`, its number; the directory is made
    /// where there is none. Links are left as they are.
    pub(crate) fn reconnect(&mut self, ino: u32) -> Result<(), F2fsError> {
        let root = self.layout.root;
        let by = Caller::root(self.now);
        let dir = match self.find(root, LOST_FOUND)? {
            Some(found) => self.child(&found)?,
            None => self.make(root, LOST_FOUND, NewNode::Directory, 0o700, by)?,
        };
        let name = format!("#{ino}");
        let kind = self.kind_of(ino)?;
        self.check_free(dir, name.as_bytes())?;
        self.reserve(6)?;
        self.unreserve(6);
        self.add_entry(dir, name.as_bytes(), ino, kind)?;
        self.touch_dir(dir, i32::from(kind == FileType::Directory))?;
        self.finish_move(ino, NULL, (dir, name.as_bytes()))
    }

    fn kind_of(&mut self, ino: u32) -> Result<FileType, F2fsError> {
        Ok(kind(self.inode(ino)?).unwrap_or(FileType::File))
    }

    /// To where no name is.
    fn move_name(
        &mut self,
        (from, moved): ((u32, &[u8]), u32),
        to: (u32, &[u8]),
    ) -> Result<(), F2fsError> {
        let kind = self.kind_of(moved)?;
        let directory = i32::from(kind == FileType::Directory);
        self.add_entry(to.0, to.1, moved, kind)?;
        // Adding may have moved the old name.
        let source = self.need(from.0, from.1)?;
        self.remove_entry(&source)?;
        self.touch_dir(from.0, -directory)?;
        self.touch_dir(to.0, directory)?;
        self.finish_move(moved, from.0, to)
    }

    /// To where a name is that loses its inode.
    fn replace(
        &mut self,
        (from, source, moved): ((u32, &[u8]), Found, u32),
        to: (u32, &[u8]),
        target: Found,
    ) -> Result<(), F2fsError> {
        let lost = self.child(&target)?;
        let kind = self.kind_of(moved)?;
        let directory = self.is_dir(moved)?;
        let gone = self.is_dir(lost)?;
        if gone && self.is_inside(from.0, lost)? {
            return Err(Errno::NotEmpty.into());
        }
        rules::check_kinds(directory, gone)?;
        if gone && !self.is_empty_dir(lost)? {
            return Err(Errno::NotEmpty.into());
        }
        self.point_entry(&target, moved, kind)?;
        self.remove_entry(&source)?;
        // A directory takes another's place: one fewer where it came from.
        self.touch_dir(from.0, -i32::from(directory))?;
        self.touch_dir(to.0, 0)?;
        self.finish_move(moved, from.0, to)?;
        self.lose_name(lost)
    }

    fn exchange(
        &mut self,
        (from, source, moved): ((u32, &[u8]), Found, u32),
        to: (u32, &[u8]),
        target: Found,
    ) -> Result<(), F2fsError> {
        let other = self.child(&target)?;
        let kind = self.kind_of(moved)?;
        let twin = self.kind_of(other)?;
        if twin == FileType::Directory && self.is_inside(from.0, other)? {
            return Err(Errno::Invalid.into());
        }
        let balance =
            i32::from(twin == FileType::Directory) - i32::from(kind == FileType::Directory);
        self.point_entry(&source, other, twin)?;
        self.point_entry(&target, moved, kind)?;
        let gained = if from.0 == to.0 { 0 } else { balance };
        self.touch_dir(from.0, gained)?;
        self.touch_dir(to.0, -gained)?;
        self.finish_move(moved, from.0, to)?;
        self.finish_move(other, to.0, from)
    }

    /// Major and minor number of a device.
    pub(crate) fn device(&mut self, ino: u32) -> Result<(u32, u32), F2fsError> {
        let layout = self.layout.clone();
        let bytes = self.inode(ino)?;
        let at = Shape::of(bytes, &layout).slots_at();
        let old = le32(bytes, at);
        let new = le32(bytes, at + 4);
        Ok(match old {
            0 => (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xF_FF00),
            _ => (old >> 8 & 0xFF, old & 0xFF),
        })
    }

    /// The file that a node belongs to.
    pub(crate) fn check_xattr_node(&mut self, nid: u32, ino: u32) -> Result<(), F2fsError> {
        let bytes = self.node(nid)?;
        let owner = le32(bytes, footer::INO);
        let place = crate::format::node_offset(bytes);
        if owner != ino || nid == ino || place != footer::XATTR_OFFSET {
            return Err(F2fsError::Node {
                nid,
                field: "owner",
                found: owner.into(),
                expected: "the file whose attributes it has",
            });
        }
        Ok(())
    }
}

/// An entry of a directory for itself or its parent.
fn dot(slot: u32, ino: u32, name: &[u8]) -> Entry {
    Entry {
        slot,
        hash: 0,
        ino,
        kind: FileType::Directory.number(),
        name: name.to_vec(),
    }
}
