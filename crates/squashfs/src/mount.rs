//! A mounted volume, and what it remembers between calls.

use crate::dir::Listing;
use crate::error::{Result, SquashError};
use crate::file::Cursor;
use crate::format::{SUPER, Super};
use crate::inode::{Directory, Inode, Node};
use crate::meta::{Media, raw};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType, Gate, Gated, Ino};

/// A squashfs volume that is mounted for reading.
pub struct Squashfs<D> {
    pub(crate) media: Media<D>,
    pub(crate) gate: Gate<SquashError>,
    /// The file that was read last.
    pub(crate) cursor: Option<Cursor>,
    /// The directory that was looked through last, and where in it.
    pub(crate) listing: Option<(Ino, Listing)>,
}

impl<D> core::fmt::Debug for Squashfs<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Squashfs").finish_non_exhaustive()
    }
}

impl<D: BlockDevice> Squashfs<D> {
    /// Mounts the volume that a device begins with.
    pub fn mount(mut device: D) -> Result<Self> {
        let head = raw(&mut device, 0, SUPER)?;
        let head = head.first_chunk().expect("so many bytes were read");
        let media = Media::new(device, Super::parse(head)?);
        let mut fs = Self {
            media,
            gate: Gate::new(true),
            cursor: None,
            listing: None,
        };
        let root = fs.media.inode(Ino::ROOT)?;
        match root.kind {
            FileType::Directory => Ok(fs),
            kind => crate::error::field(root.at, "the type of the root", kind.number(), "2"),
        }
    }

    /// Returns the fields of the superblock.
    pub fn head(&self) -> &Super {
        &self.media.head
    }

    /// Unmounts and returns the device.
    pub fn into_device(self) -> D {
        self.media.into_device()
    }

    pub(crate) fn directory(&mut self, ino: Ino) -> Result<(Inode, Directory)> {
        let inode = self.media.inode(ino)?;
        match inode.node {
            Node::Directory(directory) => Ok((inode, directory)),
            _ => Err(Errno::NotDirectory.into()),
        }
    }
}

impl<D: BlockDevice> Gated for Squashfs<D> {
    type Error = SquashError;

    fn gate(&mut self) -> &mut Gate<SquashError> {
        &mut self.gate
    }

    fn place(&mut self, error: &SquashError) -> Option<u64> {
        error.place()
    }
}
