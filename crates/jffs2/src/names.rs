//! Names and what they name: made, linked, removed, moved.
//!
//! *Promises.* An inode is on the medium before its first name, a new name before the old one goes.
//! A cut may leave both names of a rename, never neither; of a directory the next mount keeps one.
//! Source: fs/jffs2/dir.c.

use crate::{
    Jffs2, Jffs2Error, SeededBug,
    format::NAME_MAX,
    inode::{Dent, Inode, ROOT, device_data, owner, seconds},
    room::For,
};
use alloc::vec::Vec;
use nandlab_mtd::Mtd;
use nandlab_vfs::{Caller, Errno, FileType, NewNode, Rename, check_name, rules};

impl<M: Mtd> Jffs2<M> {
    pub(crate) fn dir(&mut self, dir: u32) -> Result<&mut Inode, Jffs2Error> {
        let inode = self.load(dir)?;
        if inode.is_directory() {
            Ok(inode)
        } else {
            Err(Errno::NotDirectory.into())
        }
    }

    /// A name that is there.
    pub(crate) fn find(&mut self, dir: u32, name: &[u8]) -> Result<Dent, Jffs2Error> {
        check_name(name)?;
        self.dir(dir)?
            .dents
            .get(name)
            .filter(|dent| dent.ino != 0)
            .cloned()
            .ok_or(Jffs2Error::Call(Errno::NoEntry))
    }

    /// A name that can be made: not there, in a directory that has a name itself.
    fn check_new(&mut self, dir: u32, name: &[u8]) -> Result<(), Jffs2Error> {
        match self.find(dir, name) {
            Ok(_) => return Err(Errno::Exists.into()),
            Err(Jffs2Error::Call(Errno::NoEntry)) => {}
            Err(error) => return Err(error),
        }
        if self.links(dir) == 0 {
            return Err(Errno::NoEntry.into());
        }
        if name.len() > NAME_MAX {
            Err(Errno::NameTooLong.into())
        } else {
            Ok(())
        }
    }

    /// Makes an inode under a new name.
    pub(crate) fn make(
        &mut self,
        dir: u32,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<u32, Jffs2Error> {
        self.check_new(dir, name)?;
        let data = match node {
            NewNode::Symlink { target } => {
                rules::check_target(target, NAME_MAX)?;
                target.to_vec()
            }
            NewNode::Character { device } | NewNode::Block { device } => {
                device_data(self.flash.endian, device).ok_or(Errno::Invalid)?
            }
            _ => Vec::new(),
        };
        let parent = self.load(dir)?;
        let inherited = (parent.mode as u16, parent.gid.into());
        let (mode, gid) = rules::inherit(inherited, node == NewNode::Directory, mode, by);
        let now = seconds(by.now);
        let kind = node.kind();
        let inode = Inode {
            kind,
            mode: u32::from(kind.mode() | mode),
            uid: owner(by.uid),
            gid: owner(gid),
            size: if kind == FileType::Symlink {
                data.len() as u32
            } else {
                0
            },
            data,
            atime: now,
            mtime: now,
            ctime: now,
            ..Inode::bare_directory()
        };
        let ino = self.highest_ino.checked_add(1).ok_or(Errno::NoSpace)?;
        self.highest_ino = ino;
        let known = self.known.entry(ino).or_default();
        (known.links, known.checked) = (1, true);
        if kind == FileType::Directory {
            known.parent = dir;
        }
        let made = self
            .write_new(ino, inode)
            .and_then(|()| self.write_name(dir, name, ino, type_of(kind), For::Write));
        match made {
            Ok(()) => Ok(ino),
            Err(error) => {
                self.unlink_inode(ino)?;
                Err(error)
            }
        }
    }

    /// One name less; without any the inode goes when nobody refers to it.
    pub(crate) fn unlink_inode(&mut self, ino: u32) -> Result<(), Jffs2Error> {
        if let Some(known) = self.known.get_mut(&ino) {
            known.links = known.links.saturating_sub(1);
        }
        if self.links(ino) == 0 && !self.references.contains_key(&ino) {
            return self.destroy(ino);
        }
        Ok(())
    }

    /// Gives up everything of an inode.
    pub(crate) fn destroy(&mut self, ino: u32) -> Result<(), Jffs2Error> {
        self.core.remove(&ino);
        let nodes: Vec<u32> = self
            .known
            .get(&ino)
            .map(|known| known.nodes.iter().copied().collect())
            .unwrap_or_default();
        for at in nodes {
            self.obsolete(at)?;
            self.lost.fields.remove(&at);
        }
        self.overwritten(ino, 0, u32::MAX);
        self.drop_xattrs_of(ino)?;
        if self
            .known
            .get(&ino)
            .is_some_and(|known| known.nodes.is_empty())
        {
            self.known.remove(&ino);
        }
        Ok(())
    }

    pub(crate) fn link_name(&mut self, ino: u32, dir: u32, name: &[u8]) -> Result<(), Jffs2Error> {
        self.check_new(dir, name)?;
        let kind = self.load(ino)?.kind;
        if kind == FileType::Directory {
            return Err(Errno::NotPermitted.into());
        }
        if self.links(ino) == 0 {
            return Err(Errno::NoEntry.into());
        }
        self.write_name(dir, name, ino, type_of(kind), For::Write)?;
        if let Some(known) = self.known.get_mut(&ino) {
            known.links += 1;
        }
        Ok(())
    }

    pub(crate) fn remove(
        &mut self,
        dir: u32,
        name: &[u8],
        directory: bool,
    ) -> Result<(), Jffs2Error> {
        let found = self.find(dir, name)?;
        // What cannot be read can be removed, by the type that its name says.
        let (is_directory, empty) = match self.load(found.ino) {
            Ok(inode) => (inode.is_directory(), inode.dents.from(0).next().is_none()),
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            Err(_) => (found.kind == type_of(FileType::Directory), true),
        };
        rules::check_kinds(directory, is_directory)?;
        if directory && !empty {
            return Err(Errno::NotEmpty.into());
        }
        self.write_name(dir, name, 0, 0, For::Deletion)?;
        self.unlink_inode(found.ino)
    }

    /// Whether `dir` is `ancestor` or below it. Bounded: a medium may have rings.
    pub(crate) fn is_inside(&self, mut dir: u32, ancestor: u32) -> bool {
        for _ in 0..=self.known.len() {
            if dir == ancestor {
                return true;
            }
            match self.known.get(&dir) {
                Some(known) if dir != ROOT && known.parent != 0 => dir = known.parent,
                _ => return false,
            }
        }
        true
    }

    pub(crate) fn rename_name(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        how: Rename,
    ) -> Result<(), Jffs2Error> {
        let moved = self.find(from.0, from.1)?;
        let target = match self.find(to.0, to.1) {
            Ok(target) => Some(target),
            Err(Jffs2Error::Call(Errno::NoEntry)) => None,
            Err(error) => return Err(error),
        };
        if self.links(to.0) == 0 {
            return Err(Errno::NoEntry.into());
        }
        match (how, &target) {
            (Rename::Exchange, _) => return Err(Errno::Invalid.into()),
            (Rename::NoReplace, Some(_)) => return Err(Errno::Exists.into()),
            (_, Some(target)) if target.ino == moved.ino => return Ok(()),
            _ => {}
        }
        let is_directory = self.load(moved.ino)?.is_directory();
        if is_directory && self.is_inside(to.0, moved.ino) {
            return Err(Errno::Invalid.into());
        }
        if to.1.len() > NAME_MAX {
            return Err(Errno::NameTooLong.into());
        }
        if let Some(target) = &target {
            self.check_replace(from.0, is_directory, target.ino)?;
        }
        if self.has_bug(SeededBug::OldNameFirst) {
            self.write_name(from.0, from.1, 0, 0, For::Deletion)?;
        }
        self.write_name(to.0, to.1, moved.ino, moved.kind, For::Write)?;
        if let Some(known) = self.known.get_mut(&moved.ino).filter(|_| is_directory) {
            known.parent = to.0;
        }
        let removed = self.write_name(from.0, from.1, 0, 0, For::Deletion);
        if let (Err(_), Some(known)) = (&removed, self.known.get_mut(&moved.ino)) {
            // Two names, until the old one is removed.
            known.links += u32::from(!is_directory);
        }
        if let Some(target) = target {
            self.unlink_inode(target.ino)?;
        }
        removed
    }

    fn check_replace(
        &mut self,
        from: u32,
        is_directory: bool,
        target: u32,
    ) -> Result<(), Jffs2Error> {
        if self.is_inside(from, target) {
            return Err(Errno::NotEmpty.into());
        }
        let inode = self.load(target)?;
        rules::check_kinds(is_directory, inode.is_directory())?;
        match is_directory && inode.dents.from(0).next().is_some() {
            true => Err(Errno::NotEmpty.into()),
            false => Ok(()),
        }
    }
}

/// As the upper four bits of a mode.
pub(crate) fn type_of(kind: FileType) -> u8 {
    (kind.mode() >> 12) as u8
}
