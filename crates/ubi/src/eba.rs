//! Logical erase blocks: read, write, change, map, unmap.
//!
//! *Promises.* A program goes to a mapped block in place, or, for an unmapped one, to a fresh block
//! after its header. A change of a mapped block is whole or did not happen; of an unmapped one it
//! may be cut off between pages. A block whose program fails is replaced: what it held is copied
//! and the data go to the copy; nobody notices.
//!
//! *Power loss.* Everything takes effect in the order in which it was called, the last call in
//! part: a torn page, or a header without data. It is durable when [`Ubi::sync`] has returned or a
//! later call has begun to write. An unmapped block may come back, whole or with pages missing,
//! until it has been erased or was written again (as with Linux; [`Ubi::erase_leb`] waits for that,
//! [`Ubi::renew`] does without).

use crate::Ubi;
use crate::device::compat;
use crate::error::{UbiError, require};
use crate::flash::is_wear;
use crate::format::{LAYOUT_VOLUME, Parsed, VidHeader, VolumeKind, crc};
use crate::options::SeededBug;
use crate::wear::State;
use alloc::{vec, vec::Vec};
use nandlab_mtd::Mtd;

/// Blocks that are tried for one logical block before giving up (`UBI_IO_RETRIES`).
const ATTEMPTS: u32 = 4;

impl<M: Mtd> Ubi<M> {
    /// Where a logical block is, once that is sure.
    pub(crate) fn mapping(&mut self, id: u32, lnum: u32) -> Result<Option<u32>, UbiError> {
        self.wake_leb(id, lnum)?;
        let volume = self.find(id)?;
        let Some(&mapped) = volume.map.get(lnum as usize) else {
            return Err(UbiError::Invalid {
                what: "logical block",
                found: lnum.into(),
                expected: "below the volume's blocks",
            });
        };
        match mapped {
            Some(peb) if volume.unsure.get(lnum as usize) == Some(&true) => {
                self.confirm(id, lnum, peb)
            }
            Some(peb) => self.check_place(id, lnum, peb).map(|()| Some(peb)),
            None => Ok(None),
        }
    }

    /// A fastmap says where a logical block is; the block may have been erased since
    /// (`check_mapping`, drivers/mtd/ubi/eba.c).
    fn confirm(&mut self, id: u32, lnum: u32, peb: u32) -> Result<Option<u32>, UbiError> {
        let (parsed, _) = self.flash.read_vid(peb)?;
        let Some(volume) = self.volumes.get_mut(&id) else {
            return Err(UbiError::NoVolume(id));
        };
        volume.unsure[lnum as usize] = false;
        match parsed {
            Parsed::Good(vid) if (vid.volume, vid.lnum) == (id, lnum) => Ok(Some(peb)),
            Parsed::Good(_) | Parsed::Refused(_) => {
                self.read_only = Some("a fastmap that is not of this flash");
                Err(UbiError::Lost { volume: id, lnum })
            }
            Parsed::Empty | Parsed::Damaged(_) => {
                volume.map[lnum as usize] = None;
                self.wear.queue(peb, false);
                Ok(None)
            }
        }
    }

    fn check_range(&self, id: u32, offset: u32, length: usize) -> Result<(), UbiError> {
        let space = self.find(id)?.leb_bytes(self.flash.shape.leb_bytes);
        let end = u64::from(offset) + length as u64;
        require(
            end <= space.into(),
            "end of the range",
            end,
            "within the logical block",
        )
    }

    /// Reads bytes of a logical block; of an unmapped one they are all ones. Bit flips that were
    /// corrected make its contents move soon. [`UbiError::Lost`]: `buf` has what was read.
    pub fn read(
        &mut self,
        id: u32,
        lnum: u32,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<(), UbiError> {
        let volume = self.find(id)?;
        if volume.record.updating {
            return Err(UbiError::Updating(id));
        }
        let fixed = volume.record.kind == VolumeKind::Static;
        self.check_range(id, offset, buf.len())?;
        let Some(peb) = self.mapping(id, lnum)? else {
            buf.fill(0xFF);
            return if fixed {
                Err(UbiError::Lost { volume: id, lnum })
            } else {
                Ok(())
            };
        };
        let seen = self.flash.read_data(peb, offset, buf)?;
        if seen.flips {
            self.scrub(peb);
        }
        if seen.damaged {
            Err(UbiError::Lost { volume: id, lnum })
        } else {
            Ok(())
        }
    }

    /// Reads a static volume whole and compares checksums. Gives the logical blocks whose contents
    /// are lost.
    pub fn check_volume(&mut self, id: u32) -> Result<Vec<u32>, UbiError> {
        let volume = self.find(id)?;
        require(
            volume.record.kind == VolumeKind::Static,
            "volume",
            id.into(),
            "a static one",
        )?;
        let used = volume.used_ebs;
        let mut lost = Vec::new();
        for lnum in 0..used {
            if self.is_lost(id, lnum)? {
                lost.push(lnum);
            }
        }
        Ok(lost)
    }

    fn is_lost(&mut self, id: u32, lnum: u32) -> Result<bool, UbiError> {
        let Some(peb) = self.mapping(id, lnum)? else {
            return Ok(true);
        };
        let Some(vid) = self.vid_of(peb)? else {
            return Ok(true);
        };
        let mut data = vec![0; vid.data_size as usize];
        match self.read(id, lnum, 0, &mut data) {
            Err(UbiError::Lost { .. }) => Ok(true),
            Err(error) => Err(error),
            Ok(_) => Ok(crc(&data) != vid.data_crc),
        }
    }

    /// Soon moves what a block holds.
    pub(crate) fn scrub(&mut self, peb: u32) {
        if matches!(self.wear.state(peb), State::Used | State::Protected) {
            self.wear.set(peb, State::Scrub);
        }
    }

    /// Whether a dynamic volume may be written there.
    fn check_write(&self, id: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.writable()?;
        let volume = self.find(id)?;
        require(
            id != LAYOUT_VOLUME && volume.record.kind == VolumeKind::Dynamic,
            "volume",
            id.into(),
            "a dynamic one",
        )?;
        if volume.record.updating {
            return Err(UbiError::Updating(id));
        }
        let page = self.flash.shape.page;
        require(
            offset.is_multiple_of(page),
            "offset",
            offset.into(),
            "a multiple of the page",
        )?;
        require(
            data.len().is_multiple_of(page as usize),
            "bytes",
            data.len() as u64,
            "a multiple of the page",
        )?;
        self.check_range(id, offset, data.len())
    }

    /// Programs whole pages of a dynamic volume's logical block. They must not have been programmed
    /// since it was mapped.
    pub fn write(&mut self, id: u32, lnum: u32, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(id, offset, data)?;
        self.write_any(id, lnum, offset, data)
    }

    pub(crate) fn write_any(
        &mut self,
        id: u32,
        lnum: u32,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let Some(peb) = self.mapping(id, lnum)? else {
            let vid = self.header(id, lnum)?;
            let peb = self.place(vid, offset, data)?;
            return self.map_to(id, lnum, peb);
        };
        match self.flash.write_data(peb, offset, data) {
            Ok(()) => Ok(()),
            Err(error) if is_wear(&error) => self.recover(id, lnum, peb, offset, data),
            Err(error) => Err(self.stop(error)),
        }
    }

    /// Replaces the contents of a dynamic volume's logical block, whole or not at all if it is
    /// mapped; whole pages from its beginning.
    pub fn change(&mut self, id: u32, lnum: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(id, 0, data)?;
        if data.is_empty() {
            self.unmap_any(id, lnum)?;
            return self.map(id, lnum);
        }
        self.change_any(id, lnum, data)
    }

    pub(crate) fn change_any(&mut self, id: u32, lnum: u32, data: &[u8]) -> Result<(), UbiError> {
        let old = self.mapping(id, lnum)?;
        let vid = VidHeader {
            copy: true,
            data_size: data.len() as u32,
            data_crc: crc(data),
            ..self.header(id, lnum)?
        };
        let peb = self.place(vid, 0, data)?;
        self.map_to(id, lnum, peb)?;
        if let Some(old) = old {
            self.wear.queue(old, false);
        }
        Ok(())
    }

    /// Writes a logical block of a static volume, once: `used_ebs` in all will be.
    pub(crate) fn write_static(
        &mut self,
        id: u32,
        lnum: u32,
        data: &[u8],
        used_ebs: u32,
    ) -> Result<(), UbiError> {
        self.mapping(id, lnum)?;
        let vid = VidHeader {
            data_size: data.len() as u32,
            data_crc: crc(data),
            used_ebs,
            ..self.header(id, lnum)?
        };
        let mut padded = Vec::from(data);
        padded.resize(
            data.len().next_multiple_of(self.flash.shape.page as usize),
            0xFF,
        );
        let peb = self.place(vid, 0, &padded)?;
        self.map_to(id, lnum, peb)
    }

    /// Gives an unmapped logical block a physical one, so that it reads as erased whatever was
    /// unmapped before.
    pub fn map(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.check_write(id, 0, &[])?;
        if self.mapping(id, lnum)?.is_some() {
            Ok(())
        } else {
            self.write_any(id, lnum, 0, &[])
        }
    }

    /// Gives a logical block a fresh physical one, so that it reads as erased: at a cut it holds
    /// all that it held, or nothing.
    pub fn renew(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.check_write(id, 0, &[])?;
        let old = self.mapping(id, lnum)?;
        let vid = self.header(id, lnum)?;
        let peb = self.place(vid, 0, &[])?;
        self.map_to(id, lnum, peb)?;
        old.into_iter().for_each(|old| self.wear.queue(old, false));
        Ok(())
    }

    /// Whether a logical block has a physical one.
    pub fn is_mapped(&mut self, id: u32, lnum: u32) -> Result<bool, UbiError> {
        Ok(self.mapping(id, lnum)?.is_some())
    }

    /// Gives up the contents of a logical block. After a power cut they may be there again, whole
    /// or in part.
    pub fn unmap(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.check_write(id, 0, &[])?;
        self.unmap_any(id, lnum)
    }

    pub(crate) fn unmap_any(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        let Some(peb) = self.mapping(id, lnum)? else {
            return Ok(());
        };
        self.set_place(id, lnum, None)?;
        self.wear.queue(peb, false);
        Ok(())
    }

    /// Gives up the contents of a logical block for good: durable on return.
    pub fn erase_leb(&mut self, id: u32, lnum: u32) -> Result<(), UbiError> {
        self.unmap(id, lnum)?;
        self.flush_erases()?;
        self.sync()
    }

    /// The header of a logical block's next physical one, without number.
    fn header(&self, id: u32, lnum: u32) -> Result<VidHeader, UbiError> {
        let record = &self.find(id)?.record;
        Ok(VidHeader {
            kind: record.kind,
            compat: compat(id),
            volume: id,
            lnum,
            data_pad: record.data_pad,
            ..VidHeader::default()
        })
    }

    fn map_to(&mut self, id: u32, lnum: u32, peb: u32) -> Result<(), UbiError> {
        self.set_place(id, lnum, Some(peb))
    }

    /// Writes header and data into a fresh block, or into another if that one fails.
    pub(crate) fn place(
        &mut self,
        vid: VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<u32, UbiError> {
        for _ in 0..ATTEMPTS {
            let peb = self.get_peb()?;
            match self.fill(peb, vid, offset, data) {
                Ok(()) => return Ok(peb),
                Err(UbiError::Mtd(error)) if is_wear(&error) => self.wear.queue(peb, true),
                Err(error) => return Err(error),
            }
        }
        self.read_only
            .get_or_insert("one erase block after the other failed");
        Err(UbiError::ReadOnly("one erase block after the other failed"))
    }

    /// Writes header and data into a block.
    pub(crate) fn fill(
        &mut self,
        peb: u32,
        vid: VidHeader,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let vid = VidHeader {
            sqnum: self.next_sqnum(),
            ..vid
        };
        let late = self.options.seeded_bug == Some(SeededBug::EntryLast);
        if !late {
            self.remember(peb, Some(&vid))?;
        }
        let ec = self.wear.ec(peb);
        let written = self
            .flash
            .write_vid(peb, &vid, ec)
            .and_then(|()| self.flash.write_data(peb, offset, data));
        written.map_err(|error| {
            if is_wear(&error) {
                error.into()
            } else {
                self.stop(error)
            }
        })?;
        if late {
            self.remember(peb, Some(&vid))
        } else {
            Ok(())
        }
    }

    /// A program failed: the pages before it and the data go to another block, whole or not at all
    /// (`recover_peb`, drivers/mtd/ubi/eba.c).
    fn recover(
        &mut self,
        id: u32,
        lnum: u32,
        peb: u32,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let mut all = vec![0xFF; offset as usize];
        let seen = self.flash.read_data(peb, 0, &mut all)?;
        if seen.damaged {
            return Err(UbiError::Lost { volume: id, lnum });
        }
        all.extend_from_slice(data);
        let copied = VidHeader {
            copy: true,
            data_size: all.len() as u32,
            data_crc: crc(&all),
            ..self.header(id, lnum)?
        };
        let new = self.place(copied, 0, &all)?;
        self.map_to(id, lnum, new)?;
        self.wear.queue(peb, true);
        Ok(())
    }
}
