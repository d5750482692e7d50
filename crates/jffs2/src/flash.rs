//! The array as a run of bytes, with the buffer for a page that is not full yet.
//!
//! *Promises.* What was appended reads back at once, on the medium or not. Where pages are
//! programmed whole (NAND) bytes wait until theirs is full or is padded; elsewhere (NOR) they are
//! on the medium when [`append`](Flash::append) returns, unless the medium is being made. Bytes
//! beyond error correction are given as read: checksums decide. *Knows nothing of* nodes, except of
//! a block's clean marker.

use crate::format::{self, Endian, HEAD, Head, MAGIC, MARKER_OOB, kind};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Geometry, Mtd, MtdError, Page};
use nandlab_sim::MediumFault;

/// How bytes get to the medium, and where an erased block says that it is erased as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Any byte can be programmed at any time: a node that does not count any more is marked in
    /// place, the marker is a node at the beginning of the block.
    Nor,
    /// Whole pages; the marker is in the spare area of the first one.
    Nand,
    /// Whole pages, no marker: UBI volumes and what else never shows a block whose erase was
    /// interrupted.
    Unmarked,
}

/// Bytes that could not be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// The page at this place has failed; the bytes that waited for it are still there, see
    /// [`Flash::take_waiting`].
    Failed { page_at: u32 },
    /// Nothing can be done here.
    Flash(MtdError),
}

/// The array below, by bytes.
#[derive(Debug)]
pub(crate) struct Flash<M> {
    mtd: M,
    geometry: Geometry,
    pub medium: Medium,
    pub endian: Endian,
    /// A medium is being made, on which nothing counts before its end: bytes wait for their page
    /// although they need not.
    pub making: bool,
    /// The page that is being filled, from its first byte on.
    waiting: Vec<u8>,
    waiting_at: u32,
    waiting_len: usize,
    /// The page that was read last.
    last: Vec<u8>,
    last_page: Option<Page>,
    /// Its bit errors could not be corrected.
    last_doubt: Option<MtdError>,
    /// The same of a page of the last read, and where that page begins.
    doubt: Option<(u32, MtdError)>,
    /// Pages programmed from the buffer, for [`Work`](crate::Work).
    pub programs: u64,
    /// Bytes read, for [`Work`](crate::Work).
    pub bytes_read: u64,
    /// Programs and erases since the last sync.
    pub unsynced: bool,
}

impl<M: Mtd> Flash<M> {
    pub fn new(mtd: M, medium: Medium) -> Self {
        let geometry = mtd.geometry().clone();
        let page = vec![0xFF; geometry.page as usize];
        let waiting = page.clone();
        let last = page;
        Self {
            mtd,
            geometry,
            medium,
            endian: Endian::Little,
            making: false,
            waiting,
            waiting_at: 0,
            waiting_len: 0,
            last,
            last_page: None,
            last_doubt: None,
            doubt: None,
            programs: 0,
            bytes_read: 0,
            unsynced: false,
        }
    }

    pub fn mtd_mut(&mut self) -> &mut M {
        self.last_page = None;
        &mut self.mtd
    }

    pub fn into_mtd(self) -> M {
        self.mtd
    }

    /// Bytes of an erase block.
    pub fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes()
    }

    pub fn blocks(&self) -> u32 {
        self.geometry.blocks
    }

    /// Bytes that are programmed at once.
    pub fn page_bytes(&self) -> u32 {
        self.geometry.page
    }

    pub fn is_buffered(&self) -> bool {
        self.medium != Medium::Nor
    }

    /// Bytes of the clean marker at the beginning of a block.
    pub fn marker_bytes(&self) -> u32 {
        if self.medium == Medium::Nor {
            HEAD as u32
        } else {
            0
        }
    }

    /// Tells if a clean marker of `len` bytes counts at `at` in its block. Linux goes on behind the
    /// head of one that does not (`jffs2_scan_eraseblock`).
    pub fn is_marker(&self, at: u32, len: u32) -> bool {
        at == 0 && len == self.marker_bytes()
    }

    pub fn is_bad(&mut self, block: u32) -> Result<bool, MtdError> {
        self.mtd.is_bad(Block(block))
    }

    pub fn mark_bad(&mut self, block: u32) -> Result<(), MtdError> {
        self.mtd.mark_bad(Block(block))
    }

    pub fn waiting(&self) -> usize {
        self.waiting_len
    }

    /// Where the bytes that wait begin: a multiple of the page.
    pub fn waiting_at(&self) -> u32 {
        self.waiting_at
    }

    /// Takes the bytes before `until` out of the buffer.
    pub fn take_waiting(&mut self, until: u32) -> Vec<u8> {
        let len = (until.saturating_sub(self.waiting_at) as usize).min(self.waiting_len);
        let bytes = self.waiting[..len].to_vec();
        self.waiting_len = 0;
        bytes
    }

    pub fn read(&mut self, at: u32, mut out: &mut [u8]) -> Result<(), MtdError> {
        let mut at = at;
        self.doubt = None;
        self.bytes_read += out.len() as u64;
        while !out.is_empty() {
            let in_page = (at % self.geometry.page) as usize;
            let step = out.len().min(self.waiting.len() - in_page);
            let (now, later) = out.split_at_mut(step);
            if self.waiting_len > 0 && at - in_page as u32 == self.waiting_at {
                now.fill(0xFF);
                let known = self.waiting_len.saturating_sub(in_page).min(step);
                now[..known].copy_from_slice(&self.waiting[in_page..in_page + known]);
            } else {
                self.load(Page(at / self.geometry.page))?;
                let doubt = self.last_doubt.map(|error| (at - in_page as u32, error));
                self.doubt = self.doubt.or(doubt);
                now.copy_from_slice(&self.last[in_page..in_page + step]);
            }
            out = later;
            at = at.wrapping_add(step as u32);
        }
        Ok(())
    }

    /// The error of the last read whose bytes were given although the flash could not correct them.
    pub fn doubt(&self) -> Option<MediumFault> {
        Some(self.doubt?.1.fault(&self.geometry))
    }

    /// Where the first page of the last read begins that the flash could not correct.
    pub fn doubt_at(&self) -> Option<u32> {
        Some(self.doubt?.0)
    }

    fn load(&mut self, page: Page) -> Result<(), MtdError> {
        if self.last_page == Some(page) {
            return Ok(());
        }
        self.last_page = None;
        self.last_doubt = match self.mtd.read(page, &mut self.last, &mut []) {
            Ok(_) => None,
            Err(error @ MtdError::Uncorrectable(_)) => Some(error),
            Err(error) => return Err(error),
        };
        self.last_page = Some(page);
        Ok(())
    }

    /// Appends bytes at `at`: behind those before, or, where pages are programmed whole, at the
    /// beginning of one when none wait. Then come zeros up to a multiple of four; where pages are
    /// not, what is erased.
    pub fn append(&mut self, at: u32, parts: &[&[u8]]) -> Result<(), Append> {
        if !self.is_buffered() && !self.making {
            return self
                .program_bytes(at, parts)
                .map_err(|(page_at, error)| fate(error, page_at));
        }
        if self.waiting_len == 0 {
            self.begin_page(at)?;
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let byte = if self.is_buffered() { 0 } else { 0xFF };
        let padding = &[byte; 3][..format::pad(len as u32) as usize - len];
        for part in parts.iter().copied().chain([padding]) {
            self.fill(part)?;
        }
        Ok(())
    }

    /// Starts the buffer at the page of `at`, with the bytes before it.
    fn begin_page(&mut self, at: u32) -> Result<(), Append> {
        let in_page = at % self.geometry.page;
        if in_page > 0 {
            self.load(Page(at / self.geometry.page))
                .map_err(Append::Flash)?;
            self.waiting[..in_page as usize].copy_from_slice(&self.last[..in_page as usize]);
        }
        (self.waiting_at, self.waiting_len) = (at - in_page, in_page as usize);
        Ok(())
    }

    fn fill(&mut self, mut bytes: &[u8]) -> Result<(), Append> {
        while !bytes.is_empty() {
            let step = bytes.len().min(self.waiting.len() - self.waiting_len);
            self.waiting[self.waiting_len..self.waiting_len + step].copy_from_slice(&bytes[..step]);
            self.waiting_len += step;
            bytes = &bytes[step..];
            if self.waiting_len == self.waiting.len() {
                self.program_waiting()?;
            }
        }
        Ok(())
    }

    fn program_waiting(&mut self) -> Result<(), Append> {
        let page = Page(self.waiting_at / self.geometry.page);
        self.forget(page);
        self.mtd
            .program(page, &self.waiting, &[])
            .map_err(|error| fate(error, self.waiting_at))?;
        self.unsynced = true;
        self.programs += 1;
        self.waiting_at = self.waiting_at.wrapping_add(self.geometry.page);
        self.waiting_len = 0;
        Ok(())
    }

    /// Fills the rest of the page, with a padding node where one fits, and programs it. Gives the
    /// length of the rest; where bytes need not wait it stays erased.
    pub fn pad(&mut self) -> Result<u32, Append> {
        if self.waiting_len == 0 {
            return Ok(0);
        }
        let len = self.waiting_len;
        let page = self.waiting.len();
        if !self.is_buffered() {
            self.waiting[len..].fill(0xFF);
            self.program_waiting()?;
            return Ok(0);
        }
        let rest = (page - len) as u32;
        self.waiting[len..].fill(0);
        if len + HEAD < page {
            Head {
                kind: kind::PADDING,
                len: rest,
            }
            .write(self.endian, &mut self.waiting[len..]);
        }
        self.waiting_len = page;
        self.program_waiting()
            .inspect_err(|_| self.waiting_len = len)?;
        Ok(rest)
    }

    /// Programs bytes in place; the others of their pages stay.
    fn program_bytes(&mut self, at: u32, parts: &[&[u8]]) -> Result<(), (u32, MtdError)> {
        let mut at = at;
        for mut bytes in parts.iter().copied() {
            while !bytes.is_empty() {
                let page = Page(at / self.geometry.page);
                let in_page = (at % self.geometry.page) as usize;
                let page_at = at - in_page as u32;
                let step = bytes.len().min(self.last.len() - in_page);
                if self.waiting_len > 0 && page_at == self.waiting_at {
                    self.waiting[in_page..in_page + step]
                        .iter_mut()
                        .zip(bytes)
                        .for_each(|(to, from)| *to &= from);
                    (bytes, at) = (&bytes[step..], at.wrapping_add(step as u32));
                    continue;
                }
                self.load(page).map_err(|error| (page_at, error))?;
                for (to, from) in self.last[in_page..].iter_mut().zip(&bytes[..step]) {
                    // What is programmed already stays: only ones become zeros.
                    *to &= from;
                }
                self.last_page = None;
                self.mtd
                    .program(page, &self.last, &[])
                    .map_err(|error| (page_at, error))?;
                (self.last_page, self.unsynced) = (Some(page), true);
                bytes = &bytes[step..];
                at = at.wrapping_add(step as u32);
            }
        }
        Ok(())
    }

    /// Clears the bit of a node's head that says that it counts.
    pub fn clear_accurate(&mut self, at: u32) -> Result<(), MtdError> {
        let mut word = [0; 2];
        self.read(at + 2, &mut word)?;
        let found = self.endian.get16(&word, 0);
        self.endian.put16(&mut word, 0, found & !kind::ACCURATE);
        self.program_bytes(at + 2, &[&word])
            .map_err(|(_, error)| error)
    }

    /// Erases a block, behind everything that was issued before, and says on it that it is erased.
    pub fn erase(&mut self, block: u32) -> Result<(), MtdError> {
        self.last_page = None;
        let mark = self.mtd.issued();
        self.mtd.fence(mark);
        self.mtd.erase(Block(block))?;
        self.unsynced = true;
        self.mark_clean(block)
    }

    fn mark_clean(&mut self, block: u32) -> Result<(), MtdError> {
        let at = block * self.block_bytes();
        match self.medium {
            Medium::Unmarked => Ok(()),
            Medium::Nand => {
                let oob = self.marker_oob();
                self.mtd.program(Page(at / self.geometry.page), &[], &oob)
            }
            Medium::Nor => {
                let mut node = [0; HEAD];
                Head {
                    kind: kind::CLEANMARKER,
                    len: HEAD as u32,
                }
                .write(self.endian, &mut node);
                self.program_bytes(at, &[&node]).map_err(|(_, error)| error)
            }
        }
    }

    fn marker_oob(&self) -> [u8; MARKER_OOB] {
        let mut oob = [0; MARKER_OOB];
        self.endian.put16(&mut oob, 0, MAGIC);
        self.endian.put16(&mut oob, 2, kind::CLEANMARKER);
        self.endian.put32(&mut oob, 4, MARKER_OOB as u32);
        oob
    }

    /// Whether the spare area says that the block was erased as a whole; nothing where it holds
    /// anything else.
    pub fn oob_marker(&mut self, block: u32) -> Result<Option<bool>, MtdError> {
        let mut oob = [0xFF; MARKER_OOB];
        let first = Page(block * self.geometry.pages_per_block);
        match self.mtd.read(first, &mut [], &mut oob) {
            Ok(_) => {}
            Err(MtdError::Uncorrectable(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        if oob == self.marker_oob() {
            return Ok(Some(true));
        }
        Ok((oob == [0xFF; MARKER_OOB]).then_some(false))
    }

    /// Everything that was programmed is durable.
    pub fn sync(&mut self) -> Result<(), MtdError> {
        if self.unsynced {
            self.mtd.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// The failed program of the page at this place, as a cause.
    pub fn program_failed(&self, page_at: u32) -> MediumFault {
        let page = Page(page_at / self.geometry.page);
        MtdError::ProgramFailed(page).fault(&self.geometry)
    }

    fn forget(&mut self, page: Page) {
        if self.last_page == Some(page) {
            self.last_page = None;
        }
    }
}

/// A failed program can be tried elsewhere, nothing else can.
fn fate(error: MtdError, page_at: u32) -> Append {
    match error {
        MtdError::ProgramFailed(_) => Append::Failed { page_at },
        other => Append::Flash(other),
    }
}
