//! The medium: logical blocks of one length, which read as ones where nothing was written.
//!
//! *Promises.* Reads anywhere inside a logical block. What error correction gave up on is still
//! handed over ([`LebError::Lost`]): the checksums of the nodes tell what is sound in it.

use crate::format::Super;
use crate::guess;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use nandlab_mtd::Mtd;
use nandlab_sim::{Backing, BackingError};
use nandlab_ubi::{Ubi, UbiError};

/// An access that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LebError {
    /// Some bits are wrong; the buffer has what was read.
    #[error("bits beyond correction")]
    Lost,
    /// UBI below the volume failed.
    #[error(transparent)]
    Ubi(UbiError),
    /// The bytes of the volume failed.
    #[error(transparent)]
    Bytes(#[from] BackingError),
    /// The medium takes no changes.
    #[error("read-only")]
    ReadOnly,
    /// The image ends before.
    #[error("the image ends before it, at byte {0} of the volume")]
    Short(u64),
}

impl From<UbiError> for LebError {
    fn from(error: UbiError) -> Self {
        match error {
            UbiError::Lost { .. } => Self::Lost,
            error => Self::Ubi(error),
        }
    }
}

/// The shape of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LebShape {
    /// Bytes of a logical block.
    pub leb_bytes: u32,
    /// Logical blocks of the volume.
    pub lebs: u32,
    /// Bytes that are written at once at least, where the medium knows.
    pub page: Option<u32>,
}

/// Logical blocks. Those that are only read need no more than the first two methods.
///
/// Everything takes effect in the order of the calls. A power cut may tear the last write. A block
/// that held something, and is changed, stays whole: old or new.
pub trait Lebs {
    /// Their number and length.
    fn shape(&self) -> LebShape;

    /// The number of blocks up to the last one that may hold anything.
    fn held(&self) -> u32 {
        self.shape().lebs
    }

    /// Fills `buf` from a byte of a logical block on.
    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError>;

    /// Writes whole least writes where nothing was written.
    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        let _ = (lnum, offs, bytes);
        Err(LebError::ReadOnly)
    }

    /// Replaces the contents of a block, whole or not at all.
    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        let _ = (lnum, bytes);
        Err(LebError::ReadOnly)
    }

    /// Gives up the contents of a block, which reads as erased. A power cut may bring them back, in
    /// part perhaps, until the block is written, changed or renewed.
    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        let _ = lnum;
        Err(LebError::ReadOnly)
    }

    /// Lets a block read as erased, after a power cut too: it holds all that it held, or nothing.
    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        let _ = lnum;
        Err(LebError::ReadOnly)
    }

    /// Makes everything durable that was written.
    fn sync(&mut self) -> Result<(), LebError> {
        Err(LebError::ReadOnly)
    }
}

impl<L: Lebs + ?Sized> Lebs for Box<L> {
    fn shape(&self) -> LebShape {
        (**self).shape()
    }

    fn held(&self) -> u32 {
        (**self).held()
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        (**self).read(lnum, offs, buf)
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        (**self).write(lnum, offs, bytes)
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        (**self).change(lnum, bytes)
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        (**self).unmap(lnum)
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        (**self).renew(lnum)
    }

    fn sync(&mut self) -> Result<(), LebError> {
        (**self).sync()
    }
}

/// A volume of UBI.
pub struct UbiLebs<M> {
    ubi: Ubi<M>,
    volume: u32,
    shape: LebShape,
    /// The device erases and moves after each call that writes.
    pub(crate) works: bool,
}

impl<M> fmt::Debug for UbiLebs<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UbiLebs")
            .field("volume", &self.volume)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<M: Mtd> UbiLebs<M> {
    /// The volume with that id.
    pub fn new(ubi: Ubi<M>, volume: u32) -> Result<Self, UbiError> {
        let info = ubi.volume(volume)?;
        let shape = LebShape {
            leb_bytes: info.leb_bytes,
            lebs: info.record.reserved,
            page: Some(ubi.info().shape.page),
        };
        Ok(Self {
            ubi,
            volume,
            shape,
            works: false,
        })
    }

    /// Makes a call that writes, then lets the device work. Its failure shows in the next call.
    fn call(
        &mut self,
        call: impl FnOnce(&mut Ubi<M>, u32) -> Result<(), UbiError>,
    ) -> Result<(), LebError> {
        call(&mut self.ubi, self.volume)?;
        if self.works {
            let _ = self.ubi.work();
        }
        Ok(())
    }

    /// Returns the UBI device below.
    pub fn into_ubi(self) -> Ubi<M> {
        self.ubi
    }
}

impl<M: Mtd> Lebs for UbiLebs<M> {
    fn shape(&self) -> LebShape {
        self.shape
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        Ok(self.ubi.read(self.volume, lnum, offs, buf)?)
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.call(|ubi, id| ubi.write(id, lnum, offs, bytes))
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.call(|ubi, id| ubi.change(id, lnum, bytes))
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.call(|ubi, id| ubi.unmap(id, lnum))
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.call(|ubi, id| ubi.renew(id, lnum))
    }

    fn sync(&mut self) -> Result<(), LebError> {
        Ok(self.ubi.sync()?)
    }
}

/// The bytes of a volume, one logical block behind the other, as mkfs.ubifs writes them.
#[derive(Debug)]
pub struct Bare<B> {
    bytes: B,
    shape: LebShape,
    held: u32,
}

impl<B: Backing> Bare<B> {
    /// Takes the length of a logical block from the superblock; `None` without a superblock.
    pub fn new(mut bytes: B) -> Result<Option<Self>, BackingError> {
        let mut head = [0; Super::BYTES];
        if bytes.len() < head.len() as u64 {
            return Ok(None);
        }
        bytes.read_at(0, &mut head)?;
        let Some((leb_bytes, lebs)) = Super::declared(&head) else {
            return Ok(None);
        };
        Ok(Some(Self::with(bytes, leb_bytes, lebs)))
    }

    /// The bytes of a volume without a superblock: the length of a logical block follows from the
    /// places that nodes name. `None` if there are too few nodes.
    pub fn guessed(mut bytes: B) -> Option<Self> {
        let leb_bytes = guess::leb_bytes(&mut bytes)?;
        Some(Self::with(bytes, leb_bytes, 0))
    }

    /// The same volume; blocks from `held` on hold nothing.
    pub fn holding(self, held: u32) -> Self {
        Self { held, ..self }
    }

    /// Bytes that the superblock says to be there, at least those that are.
    pub fn declared_bytes(&self) -> u64 {
        u64::from(self.shape.leb_bytes) * u64::from(self.shape.lebs)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &B {
        &self.bytes
    }

    /// Returns the bytes of the volume.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// With logical blocks of `leb_bytes`, at least `lebs` of them.
    pub fn with(bytes: B, leb_bytes: u32, lebs: u32) -> Self {
        let there = bytes.len() / u64::from(leb_bytes.max(1));
        let lebs = u32::try_from(there).unwrap_or(u32::MAX).max(lebs);
        let shape = LebShape {
            leb_bytes,
            lebs,
            page: None,
        };
        Self {
            bytes,
            shape,
            held: lebs,
        }
    }
}

impl<B: Backing> Lebs for Bare<B> {
    fn shape(&self) -> LebShape {
        self.shape
    }

    fn held(&self) -> u32 {
        self.held.min(self.shape.lebs)
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let at = u64::from(lnum) * u64::from(self.shape.leb_bytes) + u64::from(offs);
        let len = self.bytes.len();
        if at + buf.len() as u64 > len {
            return Err(LebError::Short(len));
        }
        Ok(self.bytes.read_at(at, buf)?)
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        let at = u64::from(lnum) * u64::from(self.shape.leb_bytes) + u64::from(offs);
        Ok(self.bytes.write_at(at, bytes)?)
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        let mut whole = Vec::from(bytes);
        whole.resize(self.shape.leb_bytes as usize, 0xFF);
        self.write(lnum, 0, &whole)
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.change(lnum, &[])
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.change(lnum, &[])
    }

    fn sync(&mut self) -> Result<(), LebError> {
        Ok(self.bytes.sync()?)
    }
}
