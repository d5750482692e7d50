//! Where the newest version of each logical page is: in its place in the data block, or in a log.

use alloc::{vec, vec::Vec};
use nandlab_sim::Divisor;

#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: u32) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    #[inline]
    fn get(&self, i: u32) -> bool {
        self.0[(i / 64) as usize] >> (i % 64) & 1 != 0
    }

    #[inline]
    fn set(&mut self, i: u32, value: bool) {
        let word = &mut self.0[(i / 64) as usize];
        *word = *word & !(1 << (i % 64)) | u64::from(value) << (i % 64);
    }
}

#[derive(Debug)]
pub(super) struct Maps {
    /// Pages of a block.
    pub pages: u32,
    divisor: Divisor,
    /// Data block plus one of each logical block; 0 none.
    data: Vec<u32>,
    /// The lowest page of the data block that may still be programmed; `pages` if none may.
    fill: Vec<u32>,
    /// Logical pages of the block whose newest version is in a log.
    logged: Vec<u32>,
    /// Flash page plus one of each logical page in a log; 0 not in a log.
    log: Vec<u32>,
    /// The page of the data block is programmed.
    placed: Bits,
    /// The newest version is no discard; so it does not read as zeros.
    present: Bits,
}

impl Maps {
    pub fn new(logical_blocks: u32, pages: u32) -> Self {
        let lpns = logical_blocks * pages;
        Self {
            pages,
            divisor: Divisor::new(pages),
            data: vec![0; logical_blocks as usize],
            fill: vec![0; logical_blocks as usize],
            logged: vec![0; logical_blocks as usize],
            log: vec![0; lpns as usize],
            placed: Bits::new(lpns),
            present: Bits::new(lpns),
        }
    }

    pub fn logical_blocks(&self) -> u32 {
        self.data.len() as u32
    }

    pub fn logical_pages(&self) -> u32 {
        self.log.len() as u32
    }

    /// A logical page's block and offset; a flash page's too.
    #[inline]
    pub fn split(&self, page: u32) -> (u32, u32) {
        self.divisor.split(page)
    }

    pub fn data(&self, lbn: u32) -> Option<u32> {
        self.data[lbn as usize].checked_sub(1)
    }

    /// Sets the data block and the lowest page that may still be programmed in it; gives the old
    /// one.
    pub fn set_data(&mut self, lbn: u32, block: Option<u32>, fill: u32) -> Option<u32> {
        self.fill[lbn as usize] = fill;
        core::mem::replace(&mut self.data[lbn as usize], block.map_or(0, |b| b + 1)).checked_sub(1)
    }

    #[inline]
    pub fn fill(&self, lbn: u32) -> u32 {
        self.fill[lbn as usize]
    }

    pub fn set_fill(&mut self, lbn: u32, fill: u32) {
        self.fill[lbn as usize] = fill;
    }

    #[inline]
    pub fn logged(&self, lbn: u32) -> u32 {
        self.logged[lbn as usize]
    }

    #[inline]
    pub fn log(&self, lpn: u32) -> Option<u32> {
        self.log[lpn as usize].checked_sub(1)
    }

    /// Sets the place in a log; gives the old one.
    #[inline]
    pub fn set_log(&mut self, lpn: u32, page: Option<u32>) -> Option<u32> {
        let old = core::mem::replace(&mut self.log[lpn as usize], page.map_or(0, |p| p + 1))
            .checked_sub(1);
        let logged = &mut self.logged[self.divisor.split(lpn).0 as usize];
        *logged = *logged + u32::from(page.is_some()) - u32::from(old.is_some());
        old
    }

    #[inline]
    pub fn placed(&self, lpn: u32) -> bool {
        self.placed.get(lpn)
    }

    pub fn set_placed(&mut self, lpn: u32, placed: bool) {
        self.placed.set(lpn, placed);
    }

    #[inline]
    pub fn present(&self, lpn: u32) -> bool {
        self.present.get(lpn)
    }

    #[inline]
    pub fn set_present(&mut self, lpn: u32, present: bool) {
        self.present.set(lpn, present);
    }

    /// The flash page of the newest version; none if the page was never written.
    #[inline]
    pub fn newest(&self, lpn: u32) -> Option<u32> {
        if let Some(page) = self.log(lpn) {
            return Some(page);
        }
        if !self.placed(lpn) {
            return None;
        }
        let (lbn, off) = self.divisor.split(lpn);
        self.data(lbn).map(|block| block * self.pages + off)
    }

    /// The flash page plus one of the newest version of every page of a logical block, into `to`; 0
    /// where there is none.
    pub fn newest_of_block(&self, lbn: u32, to: &mut [u32]) {
        let first = lbn * self.pages;
        let base = self.data[lbn as usize].saturating_sub(1) * self.pages + 1;
        let logs = &self.log[first as usize..(first + self.pages) as usize];
        for ((off, to), &log) in (0..).zip(to).zip(logs) {
            let in_place = if self.placed(first + off) {
                base + off
            } else {
                0
            };
            *to = if log != 0 { log } else { in_place };
        }
    }

    /// Pages of a logical block whose newest version is in its place.
    pub fn in_place(&self, lbn: u32) -> u32 {
        let first = lbn * self.pages;
        (first..first + self.pages)
            .filter(|&lpn| self.placed(lpn) && self.log(lpn).is_none())
            .count() as u32
    }

    /// Asks for what a request for the page needs.
    pub fn prefetch(&self, lpn: u32) {
        nandlab_sim::prefetch(&self.log, lpn as usize);
    }
}
