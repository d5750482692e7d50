//! A volume as a disk.
//!
//! Read-only as Linux's `ubiblock`: the bytes of the logical blocks one after the other. Or
//! writable: one logical block is kept in memory, and written back by an atomic change when another
//! is written, or at a flush. So a cut leaves each logical block as it was before or after a
//! write-back, which is what [`BlockDevice`] promises of its sectors; a sector is never half new.
//! The price is a whole logical block for each write that is flushed on its own. Sectors of
//! unmapped blocks are zero. A change is atomic against what is mapped, so that an unmapped block
//! is mapped first, empty. Empty blocks are detected when the disk is opened, and are zero too.

use crate::format::VolumeKind;
use crate::{Ubi, UbiError};
use alloc::{vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Mtd, MtdError};
use nandlab_sim::Place;

/// Bytes of a sector.
const SECTOR: u32 = 512;

#[derive(Debug)]
struct Cached {
    lnum: u32,
    data: Vec<u8>,
    dirty: bool,
}

/// A volume as a disk.
#[derive(Debug)]
pub struct VolumeDisk<M> {
    ubi: Ubi<M>,
    volume: u32,
    geometry: BlockGeometry,
    leb_bytes: u64,
    cached: Option<Cached>,
    /// Logical blocks that hold nothing: all zeros.
    blank: Vec<bool>,
    writable: bool,
}

impl<M: Mtd> VolumeDisk<M> {
    /// A disk that cannot be written, of a volume of either kind; what is behind the last whole
    /// sector cannot be reached.
    pub fn read_only(ubi: Ubi<M>, volume: u32) -> Result<Self, UbiError> {
        let info = ubi.volume(volume)?;
        let geometry = BlockGeometry {
            sector: SECTOR,
            sectors: info.used_bytes / u64::from(SECTOR),
            page: ubi.flash.shape.page,
        };
        Ok(Self {
            ubi,
            volume,
            geometry,
            leb_bytes: info.leb_bytes.into(),
            cached: None,
            blank: Vec::new(),
            writable: false,
        })
    }

    /// A disk that can be written, of a dynamic volume.
    pub fn new(ubi: Ubi<M>, volume: u32) -> Result<Self, UbiError> {
        let info = ubi.volume(volume)?;
        if info.record.kind != VolumeKind::Dynamic {
            return Err(UbiError::Invalid {
                what: "volume",
                found: volume.into(),
                expected: "a dynamic one",
            });
        }
        let mut disk = Self::read_only(ubi, volume)?;
        // Sectors do not cross logical blocks.
        disk.leb_bytes -= disk.leb_bytes % u64::from(SECTOR);
        disk.geometry.sectors =
            u64::from(info.record.reserved) * disk.leb_bytes / u64::from(SECTOR);
        disk.geometry.page = disk.leb_bytes as u32;
        disk.writable = true;
        disk.blank = (0..info.record.reserved)
            .map(|lnum| disk.is_empty(lnum))
            .collect::<Result<_, _>>()?;
        Ok(disk)
    }

    /// Whether a block was never written: neither changed whole nor programmed.
    fn is_empty(&mut self, lnum: u32) -> Result<bool, UbiError> {
        let Some(peb) = self.ubi.mapping(self.volume, lnum)? else {
            return Ok(true);
        };
        if self.ubi.vid_of(peb)?.is_none_or(|vid| vid.copy) {
            return Ok(false);
        }
        self.reads_as_erased(lnum)
    }

    fn reads_as_erased(&mut self, lnum: u32) -> Result<bool, UbiError> {
        let mut page = vec![0; self.ubi.flash.shape.page as usize];
        for at in (0..self.leb_bytes as u32).step_by(page.len()) {
            let length = page.len().min(self.leb_bytes as usize - at as usize);
            match self.ubi.read(self.volume, lnum, at, &mut page[..length]) {
                Err(UbiError::Lost { .. }) => return Ok(false),
                other => other?,
            }
            if page[..length].iter().any(|&byte| byte != 0xFF) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the device back, after a flush.
    pub fn into_ubi(mut self) -> Result<Ubi<M>, BlockError> {
        if self.writable {
            self.flush()?;
        }
        Ok(self.ubi)
    }

    /// Returns the UBI device below the volume.
    pub fn ubi(&self) -> &Ubi<M> {
        &self.ubi
    }

    /// The device, for its background work.
    pub fn ubi_mut(&mut self) -> &mut Ubi<M> {
        &mut self.ubi
    }

    /// Gives the flash back as it is, as a power cut would.
    pub fn into_medium(self) -> M {
        self.ubi.into_medium()
    }

    /// An error of the whole device as one of this disk.
    #[cold]
    pub fn whole_error(&self, error: UbiError) -> BlockError {
        self.error_at(error, Place::Whole, Lba(0))
    }

    #[cold]
    fn error(&self, error: UbiError, leb: u32) -> BlockError {
        let volume = self.volume;
        let first = Lba(u64::from(leb) * self.leb_bytes / u64::from(SECTOR));
        self.error_at(error, Place::Leb { volume, leb }, first)
    }

    fn error_at(&self, error: UbiError, place: Place, lba: Lba) -> BlockError {
        let fault = error.fault(place, self.ubi.flash.mtd.geometry());
        let fault = fault.in_layer("UBI");
        match error {
            UbiError::Mtd(MtdError::PowerCut) => BlockError::PowerCut,
            UbiError::Mtd(MtdError::Backing(why)) => BlockError::Backing(why),
            UbiError::Mtd(MtdError::ReadOnly(_)) | UbiError::ReadOnly(_) => {
                BlockError::ReadOnly(Some(fault))
            }
            UbiError::Lost { .. } => BlockError::lost_to(lba, fault),
            UbiError::NoSpace { .. } => BlockError::WornOut(Some(fault)),
            _ => BlockError::Internal(fault),
        }
    }

    fn is_blank(&self, lnum: u32) -> bool {
        self.blank.get(lnum as usize) == Some(&true)
    }

    /// Runs of a request: logical block, offset in it, bytes.
    fn parts(&self, lba: Lba, bytes: u64) -> impl Iterator<Item = (u32, usize, usize)> + use<M> {
        let leb = self.leb_bytes;
        let mut at = lba.0 * u64::from(SECTOR);
        let mut left = bytes;
        core::iter::from_fn(move || {
            let length = left.min(leb - at % leb);
            let part = ((at / leb) as u32, (at % leb) as usize, length as usize);
            (at, left) = (at + length, left - length);
            (length > 0).then_some(part)
        })
    }

    fn write_back(&mut self) -> Result<(), BlockError> {
        let Some(mut cached) = self.cached.take() else {
            return Ok(());
        };
        let mut done = Ok(());
        if cached.dirty {
            done = self.change_whole(cached.lnum, &mut cached.data);
        }
        let lnum = cached.lnum;
        self.blank[lnum as usize] &= !cached.dirty || done.is_err();
        cached.dirty &= done.is_err();
        self.cached = Some(cached);
        done.map_err(|error| self.error(error, lnum))
    }

    /// Maps the block and writes all of it, padded to whole pages.
    fn change_whole(&mut self, lnum: u32, data: &mut Vec<u8>) -> Result<(), UbiError> {
        let unit = self.ubi.flash.shape.page as usize;
        let length = data.len();
        let padded = data.len().next_multiple_of(unit);
        data.resize(padded, 0);
        let mapped = self.ubi.map(self.volume, lnum);
        let done = mapped.and_then(|()| self.ubi.change(self.volume, lnum, data));
        data.truncate(length);
        done
    }

    /// The logical block in memory; its contents are read unless it is about to be overwritten
    /// whole.
    fn load(&mut self, lnum: u32, whole: bool) -> Result<&mut Cached, BlockError> {
        if self
            .cached
            .as_ref()
            .is_none_or(|cached| cached.lnum != lnum)
        {
            self.write_back()?;
            let mut data = vec![0; self.leb_bytes as usize];
            if !whole && !self.is_blank(lnum) {
                self.ubi
                    .read(self.volume, lnum, 0, &mut data)
                    .map_err(|e| self.error(e, lnum))?;
            }
            self.cached = Some(Cached {
                lnum,
                data,
                dirty: false,
            });
        }
        self.cached
            .as_mut()
            .ok_or(BlockError::internal("UBI", "no block in memory"))
    }
}

impl<M: Mtd> BlockDevice for VolumeDisk<M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        let mut rest = buf;
        for (lnum, at, length) in self.parts(lba, rest.len() as u64) {
            let (part, tail) = rest.split_at_mut(length);
            rest = tail;
            match &self.cached {
                Some(cached) if cached.lnum == lnum => {
                    part.copy_from_slice(&cached.data[at..at + length])
                }
                _ if self.is_blank(lnum) => part.fill(0),
                _ => self
                    .ubi
                    .read(self.volume, lnum, at as u32, part)
                    .map_err(|e| self.error(e, lnum))?,
            }
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        if !self.writable {
            return Err(BlockError::ReadOnly(None));
        }
        self.geometry.check(lba, data.len())?;
        let mut rest = data;
        for (lnum, at, length) in self.parts(lba, rest.len() as u64) {
            let (part, tail) = rest.split_at(length);
            rest = tail;
            let whole = length as u64 == self.leb_bytes;
            let cached = self.load(lnum, whole)?;
            cached.data[at..at + length].copy_from_slice(part);
            cached.dirty = true;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.write_back()?;
        self.ubi.sync().map_err(|e| self.error(e, 0))
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        if !self.writable {
            return Err(BlockError::ReadOnly(None));
        }
        self.geometry.check_sectors(lba, sectors)?;
        for (lnum, at, length) in self.parts(lba, sectors * u64::from(SECTOR)) {
            if length as u64 == self.leb_bytes {
                self.cached.take_if(|cached| cached.lnum == lnum);
                if !self.is_blank(lnum) {
                    self.ubi
                        .renew(self.volume, lnum)
                        .map_err(|e| self.error(e, lnum))?;
                    self.blank[lnum as usize] = true;
                }
            } else {
                let cached = self.load(lnum, false)?;
                cached.data[at..at + length].fill(0);
                cached.dirty = true;
            }
        }
        Ok(())
    }
}
