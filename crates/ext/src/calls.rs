//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{Ext, ExtError, format::ROOT, inode::Inode, node::Life};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Call, Dirty, Errno, FileSystem, FileType, Gated as _, Ino, NAME_MAX, SetAttr, StatFs,
    Time, delegate,
};

impl<D: BlockDevice> Ext<D> {
    /// The inode that a caller means: the root has another number here.
    fn number(&self, ino: Ino) -> Result<u32, ExtError> {
        let layout = &self.store.layout;
        match u32::try_from(ino.0) {
            _ if ino == Ino::ROOT => Ok(ROOT),
            Ok(number) if (layout.first_inode..=layout.inodes).contains(&number) => Ok(number),
            _ => Err(Errno::Stale.into()),
        }
    }

    pub(crate) fn attr_of(&self, number: u32, inode: &Inode) -> Result<Attr, ExtError> {
        Ok(Attr {
            ino: if number == ROOT {
                Ino::ROOT
            } else {
                Ino(number.into())
            },
            kind: inode.kind().ok_or(Errno::Unclean)?,
            mode: inode.mode & 0o7777,
            uid: inode.uid,
            gid: inode.gid,
            links: inode.links.into(),
            size: inode.size,
            blocks: inode.units + self.units_of_delayed(number),
            device: inode.device(),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
        })
    }

    /// Units of 512 bytes that wait for their blocks.
    fn units_of_delayed(&self, number: u32) -> u64 {
        u64::from(self.delayed.pages_of(number)) * u64::from(self.store.layout.block / 512)
    }

    fn attr(&mut self, number: u32) -> Result<Attr, ExtError> {
        let inode = self.alive(number)?;
        self.attr_of(number, &inode)
    }

    fn refer(&mut self, number: u32) -> Result<Attr, ExtError> {
        let attr = self.attr(number)?;
        self.nodes.refer(number);
        Ok(attr)
    }

    fn check_file(&mut self, ino: Ino) -> Result<u32, ExtError> {
        let number = self.number(ino)?;
        match self.alive(number)?.kind() {
            Some(FileType::File) => Ok(number),
            Some(FileType::Directory) => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, ExtError> {
        let number = self.number(ino)?;
        if change.size.is_some() {
            self.check_file(ino)?;
        }
        if self.alive(number)?.is_dir() {
            self.pending.forbid();
        }
        if change.size.is_some() {
            self.spill(number)?;
        }
        let mut inode = match change.size {
            Some(size) => self.before_resize(number, size)?,
            None => self.inode(number)?,
        };
        if let Some(size) = change.size {
            self.resize(number, &mut inode, size)?;
            inode.mtime = inode.rounded(now);
        }
        inode.mode = change
            .mode
            .map_or(inode.mode, |mode| inode.mode & !0o7777 | mode & 0o7777);
        (inode.uid, inode.gid) = (
            change.uid.unwrap_or(inode.uid),
            change.gid.unwrap_or(inode.gid),
        );
        inode.atime = change.atime.map_or(inode.atime, |time| inode.rounded(time));
        inode.mtime = change.mtime.map_or(inode.mtime, |time| inode.rounded(time));
        inode.ctime = inode.rounded(now);
        let only_times = SetAttr {
            atime: None,
            mtime: None,
            ..*change
        } == SetAttr::default();
        if only_times {
            self.put_times(number, &inode)?
        } else {
            self.put_inode(number, &inode)?
        }
        self.attr(number)
    }

    fn target(&mut self, number: u32) -> Result<Vec<u8>, ExtError> {
        let inode = self.alive(number)?;
        if inode.kind() != Some(FileType::Symlink) {
            return Err(Errno::Invalid.into());
        }
        let size = inode.size;
        let fast = inode.is_fast_link(&self.store.layout);
        let most = if fast {
            60
        } else {
            u64::from(self.store.layout.block)
        };
        check_target_length(number, size, most)?;
        let mut target = vec![0; size as usize];
        if fast {
            let bytes = inode.block.iter().flat_map(|word| word.to_le_bytes());
            target
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = from);
        } else {
            self.read_file(number, 0, &mut target)?;
        }
        Ok(target)
    }

    pub(crate) fn sizes(&mut self) -> Result<StatFs, ExtError> {
        let layout = &self.store.layout;
        let headers: u32 = (0..layout.groups).map(|group| layout.header(group)).sum();
        let overhead = layout.first + headers + layout.groups * (2 + layout.table_blocks());
        let free = self.free_blocks.saturating_sub(self.delayed.pages());
        Ok(StatFs {
            block_bytes: layout.block,
            blocks: layout.blocks.saturating_sub(overhead).into(),
            free: free.into(),
            available: free.saturating_sub(layout.reserved).into(),
            inodes: layout.inodes.into(),
            inodes_free: self.free_inodes.into(),
            name_max: NAME_MAX as u32,
        })
    }

    fn in_use(&mut self, ino: Ino) -> Result<u32, ExtError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        Ok(number)
    }

    fn sync_volume(&mut self) -> Result<(), ExtError> {
        self.sync_all()?;
        // As Linux's does; an fsync leaves committed blocks in the journal.
        self.write_home()
    }

    fn do_due(&mut self, now: Time) -> Result<(), ExtError> {
        self.write_back_aged(now)?;
        match self.commit_due() {
            Some(due) if due > now => Ok(()),
            _ => self.commit(),
        }
    }

    fn write_data(&mut self, number: u32, offset: u64, data: &[u8]) -> Result<usize, ExtError> {
        let done = self.write_file(number, offset, data)?;
        if done < data.len() && self.is_releasing() {
            // A commit frees space for more.
            self.commit_all_releases()?;
            return match self.write_file(number, offset + done as u64, &data[done..]) {
                Err(ExtError::Call(Errno::NoSpace | Errno::FileTooBig)) => Ok(done),
                more => Ok(done + more?),
            };
        }
        Ok(done)
    }
}

fn check_target_length(inode: u32, found: u64, most: u64) -> Result<(), ExtError> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    let expected = "1 to 60 bytes in the inode, or up to a block";
    Err(ExtError::Inode {
        inode,
        field: "length of a symbolic link",
        found,
        expected,
    })
}

impl<D: BlockDevice> FileSystem for Ext<D> {
    delegate! { [gate]
        lookup getattr setattr create link unlink rmdir rename readlink read write next_data
        readdir fsync sync unmount statfs getxattr setxattr listxattr removexattr write_back cause
        work
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = self.number(ino) else { return };
        if !self.nodes.forget(number, references) {
            return;
        }
        match self.nodes.get(number).map(|node| node.life) {
            Some(Life::Named) => {
                self.delayed.end_replacement(number);
                self.nodes.drop(number);
            }
            // A failure shows at the next call that writes.
            Some(Life::Nameless) if self.is_writable() => {
                _ = self.write_call(Call::on("forget", ino), |ext| ext.destroy(number))
            }
            _ => {}
        }
    }

    fn dirty(&self) -> Dirty {
        if self.is_journaled() {
            return Dirty {
                bytes: self.writable_bytes(),
                since: self.dirty_since(),
            };
        }
        Dirty {
            bytes: self.dirty_bytes(),
            since: self.store.cache.since(),
        }
    }

    fn due(&self) -> Option<Time> {
        let dues = [self.commit_due(), self.write_back_due()];
        let due = dues.into_iter().flatten().min();
        due.filter(|_| self.is_writable())
    }
}
