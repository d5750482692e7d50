//! The calls of a file system. Those that would change it are refused.

use crate::format::BLOCK;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::vec::Vec;
use nandlab_vfs::{
    Attr, Call, Cause, DirEntry, Errno, FileSystem, FileType, Gated as _, Ino, NAME_MAX, StatFs,
};

type Result<T = ()> = core::result::Result<T, Errno>;

impl<L: Lebs> FileSystem for Ubifs<L> {
    nandlab_vfs::refuse_changes!();

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.look(Call::named("lookup", dir, name), |fs| {
            let ino = fs.look_up(dir, name)?;
            Ok(fs.inode(ino)?.0.attr)
        })
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.look(Call::on("getattr", ino), |fs| Ok(fs.inode(ino)?.0.attr))
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.look(Call::on("readlink", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            match inode.kind {
                FileType::Symlink => Ok(inode.data),
                _ => Err(Errno::Invalid.into()),
            }
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.look(Call::on("read", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            fs.read_file(&inode, offset, buf)
        })
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result {
        self.look(Call::on("readdir", dir), |fs| fs.list(dir, from, each))
    }

    fn unmount(&mut self) -> Result {
        self.gate.close().map(drop).map_err(|_| Errno::ReadOnly)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let main = self.media.geometry().main_bytes();
        Ok(StatFs {
            block_bytes: BLOCK,
            blocks: main / u64::from(BLOCK),
            inodes: self.master.highest_inode,
            name_max: NAME_MAX as u32,
            ..StatFs::default()
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.look(Call::on("getxattr", ino), |fs| fs.xattr(ino, name))
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.look(Call::on("listxattr", ino), |fs| fs.xattr_names(ino))
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64> {
        self.look(Call::on("next_data", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            fs.next_data_of(&inode, offset)
        })
    }

    fn cause(&mut self) -> Option<Cause> {
        self.take_cause()
    }
}
