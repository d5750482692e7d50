//! The calls of a file system. Those that would change it are refused.

use crate::dir::{Entry, Listing};
use crate::error::{Result as Inner, field};
use crate::inode::{Directory, Inode, Node};
use crate::mount::Squashfs;
use crate::xattr::Xattr;
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Call, Cause, DirEntry, Errno, FileSystem, Gated as _, Ino, NAME_MAX, StatFs,
};

type Result<T = ()> = core::result::Result<T, Errno>;

impl<D: BlockDevice> Squashfs<D> {
    /// The place in a listing before a name: that of the last look-up, unless that is behind it.
    fn listing_before(&mut self, ino: Ino, directory: Directory, name: &[u8]) -> Listing {
        let kept = self.listing.take();
        let kept = kept.filter(|(dir, listing)| *dir == ino && listing.last() < name);
        kept.map_or_else(|| Listing::new(directory), |(_, listing)| listing)
    }

    fn find(&mut self, ino: Ino, name: &[u8]) -> Inner<Entry> {
        let (_, directory) = self.directory(ino)?;
        let mut listing = self.listing_before(ino, directory, name);
        while let Some(entry) = listing.next(&mut self.media)? {
            if entry.name == name {
                self.listing = Some((ino, listing));
                return Ok(entry);
            }
            if *entry.name > *name {
                break;
            }
        }
        Err(Errno::NoEntry.into())
    }

    /// The inode of an entry, which must be what the entry says.
    pub(crate) fn entry_inode(&mut self, entry: &Entry) -> Inner<Inode> {
        let inode = self.media.inode(self.media.head.ino(entry.reference))?;
        if inode.kind != entry.kind {
            let found = inode.kind.number();
            return field(
                inode.at,
                "the type of an inode",
                found,
                "the type in its entry",
            );
        }
        if inode.number != entry.number {
            let expected = "the number in its entry";
            return field(inode.at, "the number of an inode", inode.number, expected);
        }
        Ok(inode)
    }

    fn list(
        &mut self,
        ino: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Inner<()> {
        let (_, directory) = self.directory(ino)?;
        let kept = self.listing.take();
        let kept = kept.filter(|(dir, listing)| *dir == ino && listing.count <= from);
        let kept = kept.map(|(_, listing)| listing);
        let mut listing = kept.unwrap_or_else(|| Listing::new(directory));
        while let Some(entry) = listing.next(&mut self.media)? {
            if listing.count <= from {
                continue;
            }
            let reported = DirEntry {
                ino: self.media.head.ino(entry.reference),
                kind: entry.kind,
                name: &entry.name,
                next: listing.count,
            };
            if !each(reported) {
                break;
            }
        }
        self.listing = Some((ino, listing));
        Ok(())
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Inner<Vec<u8>> {
        let inode = self.media.inode(ino)?;
        let xattrs = self.media.xattrs(&inode)?;
        match xattrs.iter().find(|xattr| xattr.name == name) {
            Some(xattr) => self.media.xattr_value(xattr),
            None => Err(Errno::NoData.into()),
        }
    }

    pub(crate) fn read_inode(
        &mut self,
        inode: &Inode,
        offset: u64,
        buf: &mut [u8],
    ) -> Inner<usize> {
        match &inode.node {
            Node::File(file) => self.media.read(inode, file, &mut self.cursor, offset, buf),
            Node::Directory(_) => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }
}

impl<D: BlockDevice> FileSystem for Squashfs<D> {
    nandlab_vfs::refuse_changes!();

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.look(Call::named("lookup", dir, name), |fs| {
            let entry = fs.find(dir, name)?;
            let inode = fs.entry_inode(&entry)?;
            fs.media.attr(&inode)
        })
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.look(Call::on("getattr", ino), |fs| {
            let inode = fs.media.inode(ino)?;
            fs.media.attr(&inode)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.look(Call::on("readlink", ino), |fs| {
            match fs.media.inode(ino)?.node {
                Node::Symlink { len, at } => fs.media.target(len, at),
                _ => Err(Errno::Invalid.into()),
            }
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.look(Call::on("read", ino), |fs| {
            let inode = fs.media.inode(ino)?;
            fs.read_inode(&inode, offset, buf)
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
        let head = self.media.head;
        Ok(StatFs {
            block_bytes: head.block,
            blocks: head.used.div_ceil(head.block.into()),
            inodes: head.inodes.into(),
            name_max: NAME_MAX as u32,
            ..StatFs::default()
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.look(Call::on("getxattr", ino), |fs| fs.xattr(ino, name))
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.look(Call::on("listxattr", ino), |fs| {
            let inode = fs.media.inode(ino)?;
            let xattrs = fs.media.xattrs(&inode)?.into_iter();
            Ok(xattrs.map(|Xattr { name, .. }| name).collect())
        })
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64> {
        self.look(Call::on("next_data", ino), |fs| {
            let inode = fs.media.inode(ino)?;
            match &inode.node {
                Node::File(file) => fs.media.next_data(&inode, file, &mut fs.cursor, offset),
                _ => Ok(offset),
            }
        })
    }

    fn cause(&mut self) -> Option<Cause> {
        self.take_cause()
    }
}
