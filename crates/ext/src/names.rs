//! Making, linking and removing names.
//!
//! *Promises.* A call that fails has changed nothing. *Knows nothing of* how directories find
//! names, nor of who may ask.

use crate::{
    Ext, ExtError,
    cache::Class,
    dir::{Found, put_record, put_tail},
    fast_format::Change,
    format::{flags, ro_compat},
    hash::hash,
    inode::Inode,
    node::Life,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Caller, Errno, FileType, NewNode, check_name, rules};

/// Bytes of a symbolic link's target that fit where an inode has block pointers, with a NUL behind
/// them.
const FAST_MAX: usize = 59;
const TARGET_MAX: usize = 4095;

impl<D: BlockDevice> Ext<D> {
    /// A directory's inode, in use.
    pub(crate) fn check_dir(&mut self, number: u32) -> Result<Inode, ExtError> {
        let inode = self.alive(number)?;
        if inode.is_dir() {
            Ok(inode)
        } else {
            Err(Errno::NotDirectory.into())
        }
    }

    /// An inode in use: named or referred to. Its links are those that it has, not what the medium
    /// says yet.
    pub(crate) fn alive(&mut self, number: u32) -> Result<Inode, ExtError> {
        let mut inode = self.inode(number)?;
        match self.nodes.get(number) {
            None if inode.links == 0 => return Err(Errno::Stale.into()),
            Some(node) if node.life != Life::Named => inode.links = 0,
            _ => {
                inode.links = inode
                    .links
                    .saturating_sub(self.fewer.get(&number).copied().unwrap_or(0))
            }
        }
        if inode.kind().is_none() {
            let expected = "a mode with a known type";
            return Err(ExtError::Inode {
                inode: number,
                field: "mode",
                found: inode.mode.into(),
                expected,
            });
        }
        Ok(inode)
    }

    /// Refuses what is no name, and a directory without names.
    pub(crate) fn check_name_in(&mut self, dir: u32, name: &[u8]) -> Result<(), ExtError> {
        check_name(name)?;
        match self.check_dir(dir)?.links {
            0 => Err(Errno::NoEntry.into()),
            _ => Ok(()),
        }
    }

    /// The entry of a name that must be there.
    pub(crate) fn need(&mut self, dir: u32, name: &[u8]) -> Result<Found, ExtError> {
        self.check_name_in(dir, name)?;
        self.find(dir, name)?.ok_or_else(|| Errno::NoEntry.into())
    }

    /// Refuses a name that is there, and a directory in which no names may be made any more.
    fn check_free(&mut self, dir: u32, name: &[u8]) -> Result<Inode, ExtError> {
        check_name(name)?;
        let inode = self.check_dir(dir)?;
        match self.find(dir, name)? {
            _ if inode.links == 0 => Err(Errno::NoEntry.into()),
            Some(_) => Err(Errno::Exists.into()),
            None => Ok(inode),
        }
    }

    /// Contents of a directory changed now: its names, so that an fdatasync of it must bring them
    /// to the medium.
    pub(crate) fn touch_dir(&mut self, dir: u32, links: i32) -> Result<(), ExtError> {
        let mut inode = self.inode(dir)?;
        inode.touch(self.store.now);
        // One link means more than the field counts.
        let uncounted = self.has_uncounted_links(&inode);
        if !(uncounted && inode.links == 1) {
            inode.links = inode.links.saturating_add_signed(links as i16);
        }
        if uncounted && inode.links > self.store.layout.links_max() {
            inode.links = 1;
        }
        self.put_inode(dir, &inode)
    }

    /// True if a directory may have more links than its inode counts (`dir_nlink`).
    pub(crate) fn has_uncounted_links(&self, dir: &Inode) -> bool {
        self.store.layout.ro_compat & ro_compat::DIR_NLINK != 0 && self.is_indexed(dir)
    }

    fn is_full_of_links(&self, dir: &Inode) -> bool {
        dir.links >= self.store.layout.links_max() && !self.has_uncounted_links(dir)
    }

    /// The number to which an entry leads, and what is there.
    pub(crate) fn child(&mut self, found: &Found) -> Result<(u32, Inode), ExtError> {
        let number = found.record.inode;
        let layout = &self.store.layout;
        let there =
            number == crate::format::ROOT || (layout.first_inode..=layout.inodes).contains(&number);
        if !there {
            return Err(found.leads_astray("an inode of the volume that is not reserved"));
        }
        match self.alive(number) {
            Err(ExtError::Call(Errno::Stale)) => Err(found.leads_astray("an inode in use")),
            outcome => Ok((number, outcome?)),
        }
    }

    pub(crate) fn make(
        &mut self,
        dir: u32,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<u32, ExtError> {
        let epoch = self.names_epoch();
        self.check_free(dir, name)?;
        self.spill(dir)?;
        let parent = self.check_dir(dir)?;
        let kind = node.kind();
        let directory = node == NewNode::Directory;
        if let NewNode::Symlink { target } = node {
            let most = TARGET_MAX.min(self.store.layout.size() - 1);
            rules::check_target(target, most)?;
        }
        if directory && self.is_full_of_links(&parent) {
            return Err(Errno::TooManyLinks.into());
        }
        let (mode, gid) = rules::inherit((parent.mode, parent.gid), directory, mode, by);
        let owner = (by.uid, gid);
        let spread = hash(name, 1, self.store.layout.hash_seed).unwrap_or(0);
        let number = self.allocate_inode(dir, directory, spread)?;
        let mut inode = Inode::new(kind, mode, owner, by.now, &self.store.layout);
        (inode.links, inode.generation) = (1 + u16::from(directory), self.next_generation());
        for time in [&mut inode.atime, &mut inode.ctime, &mut inode.mtime] {
            *time = crate::time::rounded(by.now, inode.extra >= 16);
        }
        // What an earlier inode left behind its fields are not this one's attributes.
        self.inode_bytes_mut(number)?.fill(0);
        let outcome = self
            .fill_inode(number, &mut inode, dir, node)
            .and_then(|()| self.add_entry(dir, name, number, kind.number()));
        if let Err(error) = outcome {
            self.undo_inode(number, &mut inode)?;
            return Err(error);
        }
        self.touch_dir(dir, directory.into())?;
        self.note_name(Change::Create, dir, (number, &inode), name);
        self.names.put(dir, name, number, epoch);
        Ok(number)
    }

    /// A name of a file changed. Fast commits leave those of directories to whole commits: Linux
    /// replays them with wrong links.
    fn note_name(&mut self, change: Change, dir: u32, (number, inode): (u32, &Inode), name: &[u8]) {
        match inode.kind() {
            Some(FileType::File) => self.pending.rename(change, dir, number, name),
            _ => self.pending.forbid(),
        }
    }

    /// What a new inode holds from the beginning.
    fn fill_inode(
        &mut self,
        number: u32,
        inode: &mut Inode,
        parent: u32,
        node: NewNode<'_>,
    ) -> Result<(), ExtError> {
        match node {
            NewNode::Directory => self.fill_dir(number, inode, parent)?,
            NewNode::Symlink { target } if target.len() <= FAST_MAX => {
                (inode.flags, inode.block) = (inode.flags & !flags::EXTENTS, [0; 15]);
                put_fast(inode, target);
                inode.size = target.len() as u64;
            }
            NewNode::Symlink { target } => {
                let (block, _) = self.map(number, inode, 0, 0)?;
                let owner = self.owner(number, inode);
                self.store.change_contents(owner, block, 0, target, true)?;
                inode.size = target.len() as u64;
            }
            NewNode::Character { device } | NewNode::Block { device } => inode.set_device(device),
            NewNode::File | NewNode::Fifo | NewNode::Socket => {}
        }
        self.put_inode(number, inode)
    }

    /// The contents of a new directory: itself and its parent.
    pub(crate) fn fill_dir(
        &mut self,
        number: u32,
        inode: &mut Inode,
        parent: u32,
    ) -> Result<(), ExtError> {
        let kind = if self.types() {
            FileType::Directory.number()
        } else {
            0
        };
        let (block, _) = self.map(number, inode, 0, 0)?;
        let size = self.store.layout.size();
        let end = self.names_end();
        let sum = self.sum_of_dir(number, inode);
        let bytes = self.store.fresh_of(block, Class::Directory, sum)?;
        put_record(bytes, 0, 12, number, b".", kind);
        put_record(bytes, 12, end - 12, parent, b"..", kind);
        put_tail(bytes, end);
        inode.size = size as u64;
        Ok(())
    }

    pub(crate) fn link_name(&mut self, number: u32, dir: u32, name: &[u8]) -> Result<(), ExtError> {
        let epoch = self.names_epoch();
        self.check_free(dir, name)?;
        self.spill(dir)?;
        let inode = self.alive(number)?;
        match inode.kind() {
            Some(FileType::Directory) => return Err(Errno::NotPermitted.into()),
            _ if inode.links == 0 => return Err(Errno::NoEntry.into()),
            _ if inode.links >= self.store.layout.links_max() => {
                return Err(Errno::TooManyLinks.into());
            }
            kind => self.add_entry(dir, name, number, kind.map_or(0, FileType::number))?,
        }
        let mut stored = self.inode(number)?;
        stored.links = stored.links.saturating_add(1);
        stored.ctime = stored.rounded(self.store.now);
        self.put_inode(number, &stored)?;
        self.note_name(Change::Link, dir, (number, &stored), name);
        self.names.put(dir, name, number, epoch);
        self.touch_dir(dir, 0)
    }

    pub(crate) fn remove(
        &mut self,
        dir: u32,
        name: &[u8],
        directory: bool,
    ) -> Result<(), ExtError> {
        let found = self.need(dir, name)?;
        let (number, inode) = self.child(&found)?;
        rules::check_kinds(directory, inode.is_dir())?;
        if directory && !self.is_empty_dir(number)? {
            return Err(Errno::NotEmpty.into());
        }
        self.spill(dir)?;
        let found = self.need(dir, name)?;
        self.remove_entry(&found)?;
        self.touch_dir(dir, -i32::from(directory))?;
        self.note_name(Change::Unlink, dir, (number, &inode), name);
        self.lose_name(number, &inode)
    }

    pub(crate) fn rename_name(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        how: nandlab_vfs::Rename,
    ) -> Result<(), ExtError> {
        use nandlab_vfs::Rename::{Exchange, NoReplace};
        for dir in [from.0, to.0] {
            self.check_dir(dir)?;
            self.spill(dir)?;
        }
        let source = self.need(from.0, from.1)?;
        let (moved, inode) = self.child(&source)?;
        check_name(to.1)?;
        let into = self.check_dir(to.0)?;
        if into.links == 0 {
            return Err(Errno::NoEntry.into());
        }
        let target = self.find(to.0, to.1)?;
        match (how, &target) {
            (NoReplace, Some(_)) => return Err(Errno::Exists.into()),
            (Exchange, None) => return Err(Errno::NoEntry.into()),
            (_, Some(target)) if target.record.inode == moved => return Ok(()),
            _ => {}
        }
        if inode.is_dir() && self.is_inside(to.0, moved)? {
            return Err(Errno::Invalid.into());
        }
        match target {
            Some(target) if how == Exchange => {
                self.exchange(from.0, (source, moved, inode), to.0, target)
            }
            Some(target) => self.replace(from, (source, moved, inode), to, target),
            None => self.move_name(from, (source, moved, inode), to),
        }
    }

    /// Whether a directory is another, or lies in it.
    fn is_inside(&mut self, mut dir: u32, ancestor: u32) -> Result<bool, ExtError> {
        // Deeper than any path leads.
        for _ in 0..u16::MAX {
            if dir == ancestor {
                return Ok(true);
            }
            if dir == crate::format::ROOT {
                return Ok(false);
            }
            let parent = self.parent_entry(dir)?;
            dir = self.child(&parent)?.0;
        }
        Err(Errno::Loop.into())
    }

    /// The inode has another name, perhaps in another directory.
    fn finish_move(&mut self, from: u32, to: u32, moved: u32) -> Result<(), ExtError> {
        let mut inode = self.inode(moved)?;
        inode.ctime = inode.rounded(self.store.now);
        self.put_times(moved, &inode)?;
        if inode.is_dir() && from != to {
            self.spill(moved)?;
            let parent = self.parent_entry(moved)?;
            self.point_entry(&parent, to, FileType::Directory.number())?;
        }
        Ok(())
    }

    fn check_links(&mut self, dir: u32, more: bool) -> Result<(), ExtError> {
        let inode = self.inode(dir)?;
        if more && self.is_full_of_links(&inode) {
            Err(Errno::TooManyLinks.into())
        } else {
            Ok(())
        }
    }

    /// To where no name is.
    fn move_name(
        &mut self,
        from: (u32, &[u8]),
        (source, moved, inode): (Found, u32, Inode),
        to: (u32, &[u8]),
    ) -> Result<(), ExtError> {
        let directory = inode.is_dir();
        self.check_links(to.0, directory && from.0 != to.0)?;
        if let Some(place) = self.place_for(to.0, to.1)? {
            self.ordered(place, source.block)?;
        }
        self.add_entry(to.0, to.1, moved, inode.kind().map_or(0, FileType::number))?;
        // Adding may have moved the old name.
        let source = self.need(from.0, from.1)?;
        self.remove_entry(&source)?;
        self.touch_dir(from.0, -i32::from(directory))?;
        self.touch_dir(to.0, directory.into())?;
        self.note_move(from, to, (moved, &inode));
        self.finish_move(from.0, to.0, moved)
    }

    /// To where a name is that loses its inode.
    fn replace(
        &mut self,
        from: (u32, &[u8]),
        (source, moved, inode): (Found, u32, Inode),
        to: (u32, &[u8]),
        target: Found,
    ) -> Result<(), ExtError> {
        let (lost, gone) = self.child(&target)?;
        self.check_replaceable(from.0, &inode, lost, &gone)?;
        // The new contents come with the name, as with Linux's `auto_da_alloc`.
        self.write_back_file(moved)?;
        self.ordered(target.block, source.block)?;
        self.point_entry(&target, moved, inode.kind().map_or(0, FileType::number))?;
        let source = self.need(from.0, from.1)?;
        self.remove_entry(&source)?;
        // A directory takes another's place: one fewer where it came from.
        self.touch_dir(from.0, -i32::from(inode.is_dir()))?;
        self.touch_dir(to.0, 0)?;
        self.note_name(Change::Unlink, to.0, (lost, &gone), to.1);
        self.note_move(from, to, (moved, &inode));
        self.finish_move(from.0, to.0, moved)?;
        self.lose_name(lost, &gone)
    }

    /// A file has another name, and its old one no more.
    fn note_move(&mut self, from: (u32, &[u8]), to: (u32, &[u8]), moved: (u32, &Inode)) {
        self.note_name(Change::Link, to.0, moved, to.1);
        self.note_name(Change::Unlink, from.0, moved, from.1);
    }

    fn check_replaceable(
        &mut self,
        from: u32,
        moved: &Inode,
        lost: u32,
        gone: &Inode,
    ) -> Result<(), ExtError> {
        if gone.is_dir() && self.is_inside(from, lost)? {
            return Err(Errno::NotEmpty.into());
        }
        rules::check_kinds(moved.is_dir(), gone.is_dir())?;
        if gone.is_dir() && !self.is_empty_dir(lost)? {
            return Err(Errno::NotEmpty.into());
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        from: u32,
        (source, moved, inode): (Found, u32, Inode),
        to: u32,
        target: Found,
    ) -> Result<(), ExtError> {
        let (other, twin) = self.child(&target)?;
        if twin.is_dir() && self.is_inside(from, other)? {
            return Err(Errno::Invalid.into());
        }
        let balance = i32::from(twin.is_dir()) - i32::from(inode.is_dir());
        self.check_exchange(from, to, balance)?;
        self.pending.forbid();
        self.point_entry(&source, other, twin.kind().map_or(0, FileType::number))?;
        self.point_entry(&target, moved, inode.kind().map_or(0, FileType::number))?;
        let gained = if from == to { 0 } else { balance };
        self.touch_dir(from, gained)?;
        self.touch_dir(to, -gained)?;
        self.finish_move(from, to, moved)?;
        self.finish_move(to, from, other)
    }

    fn check_exchange(&mut self, from: u32, to: u32, balance: i32) -> Result<(), ExtError> {
        if from != to {
            self.check_links(from, balance > 0)?;
            self.check_links(to, balance < 0)?;
        }
        Ok(())
    }
}

/// Puts the target of a short symbolic link into the inode.
fn put_fast(inode: &mut Inode, target: &[u8]) {
    for (word, part) in inode.block.iter_mut().zip(target.chunks(4)) {
        let mut bytes = [0; 4];
        bytes[..part.len()].copy_from_slice(part);
        *word = u32::from_le_bytes(bytes);
    }
}
