//! Erase blocks as UBI uses them: bytes at offsets, headers, erases with torture. Knows nothing of
//! volumes.
//!
//! *Order.* Each program and erase begins when all before have ended, on whatever die: Linux's
//! driver knows no other order, and all that UBI's headers say rests on it. Pages are programmed
//! whole; a volume header that shares a page with the erase-counter header is programmed together
//! with that header's own bytes once more, so that no bit is asked to go back.

use crate::format::{EcHeader, HEADER_BYTES, Parsed, VidHeader};
use crate::options::SeededBug;
use crate::{AttachCost, Options, Shape};
use alloc::{boxed::Box, vec};
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// What came of a read besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Bits were corrected, as many as call for a move.
    pub flips: bool,
    /// Some page was beyond correction.
    pub damaged: bool,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.flips |= other.flips;
        self.damaged |= other.damaged;
    }
}

#[derive(Debug)]
pub(crate) struct Flash<M> {
    pub mtd: M,
    pub shape: Shape,
    /// The image sequence number of every header that is written.
    pub image_seq: u32,
    scrub_bits: u16,
    page: Box<[u8]>,
    /// Which page is in `page`, as Linux's NAND layer keeps the last page that it read in part.
    cached: Option<(Page, Seen)>,
    pub seeded_bug: Option<SeededBug>,
    pub cost: AttachCost,
}

/// Byte patterns that a tortured block must hold (`torture_peb`, drivers/mtd/ubi/io.c).
const PATTERNS: [u8; 3] = [0xA5, 0x5A, 0x00];
/// Attempts to erase a block.
const ATTEMPTS: u32 = 3;

impl<M: Mtd> Flash<M> {
    pub fn new(mtd: M, shape: Shape, options: &Options) -> Self {
        let page = vec![0; shape.page as usize].into();
        Self {
            mtd,
            shape,
            image_seq: 0,
            scrub_bits: options.scrub_bits.max(1),
            page,
            cached: None,
            seeded_bug: options.seeded_bug,
            cost: AttachCost::default(),
        }
    }

    fn page_of(&self, peb: u32, offset: u32) -> Page {
        self.mtd
            .geometry()
            .page_at(Block(peb), offset / self.shape.page)
    }

    fn read_page(&mut self, page: Page, buf: Option<&mut [u8]>) -> Result<Seen, MtdError> {
        let into = match buf {
            Some(buf) => buf,
            None => &mut self.page,
        };
        self.cost.page_reads += 1;
        self.cost.bytes_read += into.len() as u64;
        match self.mtd.read(page, into, &mut []) {
            Ok(corrected) => Ok(Seen {
                flips: corrected.bits >= self.scrub_bits,
                damaged: false,
            }),
            Err(MtdError::Uncorrectable(_)) => Ok(Seen {
                flips: false,
                damaged: true,
            }),
            Err(error) => Err(error),
        }
    }

    /// Reads bytes of an erase block; those of a page beyond correction are as read.
    pub fn read(&mut self, peb: u32, offset: u32, buf: &mut [u8]) -> Result<Seen, MtdError> {
        let unit = self.shape.page as usize;
        let mut seen = Seen::default();
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let page = self.page_of(peb, at);
            let within = at as usize % unit;
            let length = rest.len().min(unit - within);
            let (part, tail) = rest.split_at_mut(length);
            if length == unit {
                seen.add(self.read_page(page, Some(part))?);
            } else {
                seen.add(self.read_within(page, within, part)?);
            }
            (at, rest) = (at + length as u32, tail);
        }
        Ok(seen)
    }

    /// Reads a part of a page, which stays in memory.
    fn read_within(
        &mut self,
        page: Page,
        within: usize,
        part: &mut [u8],
    ) -> Result<Seen, MtdError> {
        if self.cached.is_none_or(|(cached, _)| cached != page) {
            self.cached = None;
            self.cached = Some((page, self.read_page(page, None)?));
        }

        part.copy_from_slice(&self.page[within..within + part.len()]);
        Ok(self.cached.map(|(_, seen)| seen).unwrap_or_default())
    }

    /// What follows begins when all before has ended.
    fn order(&mut self) {
        if self.seeded_bug != Some(SeededBug::Unfenced) {
            let mark = self.mtd.issued();
            self.mtd.fence(mark);
        }
    }

    fn program(&mut self, page: Page, data: Option<&[u8]>) -> Result<(), MtdError> {
        if self.cached.is_some_and(|(cached, _)| cached == page) {
            self.cached = None;
        }
        self.order();
        self.mtd.program(page, data.unwrap_or(&self.page), &[])
    }

    pub fn write(&mut self, peb: u32, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let unit = self.shape.page as usize;
        for (i, data) in data.chunks_exact(unit).enumerate() {
            let page = self.page_of(peb, offset + (i * unit) as u32);
            self.program(page, Some(data))?;
        }
        Ok(())
    }

    /// Begins a page of headers.
    fn erased_page(&mut self) {
        self.cached = None;
        self.page.fill(0xFF);
    }

    /// Puts a header into the page. What follows it in its sub-page is zero, as Linux leaves it.
    fn put_header(&mut self, offset: u32, header: &[u8; HEADER_BYTES]) {
        let within = (offset % self.shape.page) as usize;
        let unit = (self.mtd.geometry().write_unit as usize).max(HEADER_BYTES);
        let next = if offset < self.shape.vid_offset {
            self.shape.vid_offset
        } else {
            self.shape.data_offset
        } - offset;
        let end = (within + unit.min(next as usize)).min(self.page.len());
        self.page[within..end].fill(0);
        self.page[within..within + HEADER_BYTES].copy_from_slice(header);
    }

    fn ec_header(&self, ec: u32) -> [u8; HEADER_BYTES] {
        let Shape {
            vid_offset,
            data_offset,
            ..
        } = self.shape;
        EcHeader {
            ec,
            vid_offset,
            data_offset,
            image_seq: self.image_seq,
        }
        .encode()
    }

    pub fn write_ec(&mut self, peb: u32, ec: u32) -> Result<(), MtdError> {
        if !self.shape.has_headers() {
            return Ok(());
        }
        self.erased_page();
        self.put_header(0, &self.ec_header(ec));
        self.program(self.page_of(peb, 0), None)
    }

    /// Writes a volume header into a block whose erase counter is `ec`.
    pub fn write_vid(&mut self, peb: u32, vid: &VidHeader, ec: u32) -> Result<(), MtdError> {
        if !self.shape.has_headers() {
            return Ok(());
        }
        self.erased_page();
        if self.shape.vid_offset < self.shape.page {
            self.put_header(0, &self.ec_header(ec));
        }
        self.put_header(self.shape.vid_offset, &vid.encode());
        self.program(self.page_of(peb, self.shape.vid_offset), None)
    }

    pub fn read_ec(&mut self, peb: u32) -> Result<(Parsed<EcHeader>, Seen), MtdError> {
        let mut bytes = [0; HEADER_BYTES];
        let seen = self.read(peb, 0, &mut bytes)?;
        self.cost.headers += 1;
        self.cost.crc_bytes += HEADER_BYTES as u64;
        Ok((EcHeader::parse(&bytes), seen))
    }

    pub fn read_vid(&mut self, peb: u32) -> Result<(Parsed<VidHeader>, Seen), MtdError> {
        let mut bytes = [0; HEADER_BYTES];
        let seen = self.read(peb, self.shape.vid_offset, &mut bytes)?;
        self.cost.headers += 1;
        self.cost.crc_bytes += HEADER_BYTES as u64;
        Ok((VidHeader::parse(&bytes, self.shape.leb_bytes), seen))
    }

    /// Reads data: `offset` counts from where a block's data begin.
    pub fn read_data(&mut self, peb: u32, offset: u32, buf: &mut [u8]) -> Result<Seen, MtdError> {
        self.read(peb, self.shape.data_offset + offset, buf)
    }

    /// Programs whole pages of data.
    pub fn write_data(&mut self, peb: u32, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.write(peb, self.shape.data_offset + offset, data)
    }

    /// Erases a block; a failure is tried again.
    pub fn erase(&mut self, peb: u32) -> Result<(), MtdError> {
        self.cached = None;
        for _ in 1..ATTEMPTS {
            match self.erase_once(peb) {
                Err(MtdError::EraseFailed(_)) => {}
                other => return other,
            }
        }
        self.erase_once(peb)
    }

    fn erase_once(&mut self, peb: u32) -> Result<(), MtdError> {
        self.order();
        self.mtd.erase(Block(peb))
    }

    /// Writes and reads patterns; gives the erases that took, or a failure that shows the block
    /// bad. The block is left to be erased once more.
    pub fn torture(&mut self, peb: u32) -> Result<u32, MtdError> {
        let mut buf = vec![0; self.shape.peb_bytes as usize];
        for pattern in PATTERNS {
            self.erase(peb)?;
            self.expect(peb, &mut buf, 0xFF)?;
            buf.fill(pattern);
            self.write(peb, 0, &buf)?;
            self.expect(peb, &mut buf, pattern)?;
        }
        Ok(PATTERNS.len() as u32)
    }

    fn expect(&mut self, peb: u32, buf: &mut [u8], byte: u8) -> Result<(), MtdError> {
        let seen = self.read(peb, 0, buf)?;
        let fine = !seen.damaged && !seen.flips && buf.iter().all(|&b| b == byte);
        if fine {
            Ok(())
        } else {
            Err(MtdError::EraseFailed(Block(peb)))
        }
    }

    pub fn is_bad(&mut self, peb: u32) -> Result<bool, MtdError> {
        self.cost.bad_checks += 1;
        self.mtd.is_bad(Block(peb))
    }

    pub fn mark_bad(&mut self, peb: u32) -> Result<(), MtdError> {
        self.cached = None;
        // What failed has to have ended.
        self.mtd.sync()?;
        self.mtd.mark_bad(Block(peb))
    }
}

/// Whether another block may serve where this failure came from.
pub(crate) fn is_wear(error: &MtdError) -> bool {
    matches!(error, MtdError::ProgramFailed(_) | MtdError::EraseFailed(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Headers;
    use crate::format::VolumeKind;
    use nandlab_nand::{Chip, ChipSpec, preset};

    fn flash() -> Flash<Chip> {
        let spec = preset::find("slc-2k").unwrap().spec();
        let spec = ChipSpec {
            geometry: nandlab_mtd::Geometry {
                blocks: 8,
                ..spec.geometry
            },
            ..spec
        };
        let chip = Chip::new(spec).unwrap();
        let shape = Shape::new(chip.geometry(), Headers::Linux).unwrap();
        Flash::new(chip, shape, &Options::default())
    }

    #[test]
    fn both_headers_fit_a_page_and_take_one_read() {
        let mut flash = flash();
        let vid = VidHeader {
            kind: VolumeKind::Dynamic,
            volume: 1,
            lnum: 2,
            sqnum: 3,
            ..VidHeader::default()
        };
        flash.write_ec(3, 9).unwrap();
        flash.write_vid(3, &vid, 9).unwrap();
        let reads = flash.mtd.counts().reads;
        let (ec, _) = flash.read_ec(3).unwrap();
        assert!(matches!(
            ec,
            Parsed::Good(EcHeader {
                ec: 9,
                vid_offset: 512,
                data_offset: 2048,
                ..
            })
        ));
        assert_eq!(flash.read_vid(3).unwrap().0, Parsed::Good(vid));
        assert_eq!(flash.mtd.counts().reads - reads, 1);
        assert_eq!(flash.read_vid(4).unwrap().0, Parsed::Empty);
    }

    #[test]
    fn bytes_come_back_across_pages() {
        let mut flash = flash();
        let data: alloc::vec::Vec<u8> = (0..4096u32).map(|i| (i / 7) as u8).collect();
        flash.write_data(1, 2048, &data).unwrap();
        let mut buf = [0; 3000];
        assert_eq!(flash.read_data(1, 2100, &mut buf).unwrap(), Seen::default());
        assert_eq!(buf[..], data[52..3052]);
        assert_eq!(flash.torture(1), Ok(3));
    }
}
