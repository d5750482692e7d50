//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    F2fs, F2fsError,
    file::Why,
    format::{BLOCK, FIRST_NID, inode, le16, le32, le64, put16, put32},
    node::{self, Shape, kind, put_time},
    superblock::feature,
};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Call, Dirty, Errno, FileSystem, FileType, Gated as _, Ino, NAME_MAX, SetAttr, StatFs,
    Time, delegate,
};

impl<D: BlockDevice> F2fs<D> {
    /// The inode that a caller means: the root has another number here.
    fn number(&self, ino: Ino) -> Result<u32, F2fsError> {
        match u32::try_from(ino.0) {
            _ if ino == Ino::ROOT => Ok(self.layout.root),
            Ok(number) if number > FIRST_NID => Ok(number),
            _ => Err(Errno::Stale.into()),
        }
    }

    fn attr(&mut self, number: u32) -> Result<Attr, F2fsError> {
        self.alive(number)?;
        let Self { nodes, layout, .. } = self;
        let root = layout.root;
        let bytes = nodes.get(number).ok_or(F2fsError::Failed)?;
        let kind = kind(bytes).ok_or(Errno::Unclean)?;
        let birth = layout.has(feature::BIRTH) && Shape::of(bytes, layout).extra >= 24;
        let mut attr = Attr {
            ino: if number == root {
                Ino::ROOT
            } else {
                Ino(number.into())
            },
            kind,
            mode: le16(bytes, inode::MODE) & 0o7777,
            uid: le32(bytes, inode::UID),
            gid: le32(bytes, inode::GID),
            links: le32(bytes, inode::LINKS),
            size: le64(bytes, inode::SIZE),
            // The inode's own block does not count.
            blocks: le64(bytes, inode::BLOCKS)
                .saturating_sub(1)
                .saturating_mul(8),
            device: (0, 0),
            atime: node::time(bytes, inode::ATIME, inode::ATIME_NANOS),
            mtime: node::time(bytes, inode::MTIME, inode::MTIME_NANOS),
            ctime: node::time(bytes, inode::CTIME, inode::CTIME_NANOS),
            btime: birth.then(|| node::time(bytes, inode::BIRTH, inode::BIRTH_NANOS)),
        };
        if matches!(kind, FileType::Character | FileType::Block) {
            attr.device = self.device(number)?;
        }
        Ok(attr)
    }

    pub(crate) fn refer(&mut self, number: u32) -> Result<Attr, F2fsError> {
        let attr = self.attr(number)?;
        *self.references.entry(number).or_default() += 1;
        Ok(attr)
    }

    fn check_file(&mut self, ino: Ino) -> Result<u32, F2fsError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        match kind(self.inode(number)?) {
            Some(FileType::File) => Ok(number),
            Some(FileType::Directory) => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, F2fsError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        self.check_changeable(number)?;
        if let Some(size) = change.size {
            self.check_file(ino)?;
            self.resize(number, size)?;
            put_time(
                self.node_mut(number)?,
                inode::MTIME,
                inode::MTIME_NANOS,
                now,
            );
        }
        let bytes = self.node_mut(number)?;
        if let Some(mode) = change.mode {
            let kept = le16(bytes, inode::MODE) & !0o7777;
            put16(bytes, inode::MODE, kept | mode & 0o7777);
        }
        let words = [(inode::UID, change.uid), (inode::GID, change.gid)];
        words
            .iter()
            .filter_map(|(at, value)| Some((*at, (*value)?)))
            .for_each(|(at, value)| put32(bytes, at, value));
        let times = [
            (inode::ATIME, inode::ATIME_NANOS, change.atime),
            (inode::MTIME, inode::MTIME_NANOS, change.mtime),
        ];
        for (secs, nanos, time) in times {
            if let Some(time) = time {
                put_time(bytes, secs, nanos, time);
            }
        }
        put_time(bytes, inode::CTIME, inode::CTIME_NANOS, now);
        self.attr(number)
    }

    fn target(&mut self, number: u32) -> Result<Vec<u8>, F2fsError> {
        self.alive(number)?;
        if kind(self.inode(number)?) != Some(FileType::Symlink) {
            return Err(Errno::Invalid.into());
        }
        let size = self.size(number)?;
        if size == 0 || size > BLOCK as u64 {
            let expected = "1 to 4096 bytes";
            return Err(F2fsError::Node {
                nid: number,
                field: "length of a symbolic link",
                found: size,
                expected,
            });
        }
        let mut target = vec![0; size as usize];
        self.read_file(number, 0, &mut target)?;
        Ok(target)
    }

    fn in_use(&mut self, ino: Ino) -> Result<u32, F2fsError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        Ok(number)
    }

    fn write_data(&mut self, number: u32, offset: u64, data: &[u8]) -> Result<usize, F2fsError> {
        self.check_changeable(number)?;
        self.write_file(number, offset, data)
    }

    fn sync_volume(&mut self) -> Result<(), F2fsError> {
        self.write_all_pages(true)?;
        self.take_checkpoint(false)
    }

    fn sizes(&mut self) -> Result<StatFs, F2fsError> {
        let checkpoint = &self.checkpoint;
        let layout = &self.layout;
        let free = checkpoint
            .user_blocks
            .saturating_sub(checkpoint.valid_blocks);
        let nids = u64::from(layout.nids() - FIRST_NID);
        let nodes = u64::from(checkpoint.nodes);
        Ok(StatFs {
            block_bytes: BLOCK as u32,
            blocks: layout.blocks.saturating_sub(layout.cp.into()),
            free,
            available: free,
            inodes: nids.min(checkpoint.user_blocks),
            inodes_free: free.min(nids.saturating_sub(nodes)),
            name_max: NAME_MAX as u32,
        })
    }

    fn write_oldest(&mut self, bytes: u64, until: Time) -> Result<u64, F2fsError> {
        let before = self.pages.count();
        while let Some((since, (ino, index))) = self.pages.oldest() {
            let written = ((before - self.pages.count()) * BLOCK) as u64;
            if written >= bytes && since > until {
                break;
            }
            self.write_page(ino, index, Why::WriteBack)?;
        }
        self.disk.submit_all()?;
        Ok(((before - self.pages.count()) * BLOCK) as u64)
    }

    fn do_due(&mut self, now: Time) -> Result<(), F2fsError> {
        self.now = now;
        if self.checkpoint_due().is_some_and(|due| due <= now) {
            self.take_checkpoint(false)?;
        }
        if self.cleaning_due().is_some_and(|due| due <= now) {
            self.wake_cleaner()?;
        }
        self.disk.submit_all()
    }
}

impl<D: BlockDevice> FileSystem for F2fs<D> {
    delegate! { [gate]
        lookup getattr setattr create link unlink rmdir rename readlink read write next_data
        readdir fsync sync unmount statfs getxattr setxattr listxattr removexattr write_back cause
        work
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = self.number(ino) else { return };
        let Some(count) = self.references.get_mut(&number) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count > 0 {
            return;
        }
        self.references.remove(&number);
        if self.orphans.contains(&number) && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write_call(Call::on("forget", ino), |f2fs| f2fs.destroy(number));
        }
    }

    fn dirty(&self) -> Dirty {
        // Nodes wait for a checkpoint, which falls due by itself.
        Dirty {
            bytes: (self.pages.count() * BLOCK) as u64,
            since: self.pages.oldest().map(|(since, _)| since),
        }
    }

    fn due(&self) -> Option<Time> {
        let times = [self.checkpoint_due(), self.cleaning_due()];
        times
            .into_iter()
            .flatten()
            .min()
            .filter(|_| self.is_writable())
    }
}
