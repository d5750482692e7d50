//! A file's contents: pages, and nothing where there is a hole.

use alloc::{boxed::Box, collections::BTreeMap};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// The contents of a file in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    size: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

/// The pieces of `len` bytes from `offset` on, by page: page, first byte in it, first byte of all,
/// length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let piece = (
            at / PAGE as u64,
            within,
            done,
            (PAGE - within).min(len - done),
        );
        done += piece.3;
        (piece.3 > 0).then_some(piece)
    })
}

impl Bytes {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory, in whole pages.
    pub fn allocated(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = buf
            .len()
            .min(self.size.saturating_sub(offset).min(usize::MAX as u64) as usize);
        for (page, within, at, count) in pieces(offset, len) {
            match self.pages.get(&page) {
                Some(bytes) => buf[at..at + count].copy_from_slice(&bytes[within..within + count]),
                None => buf[at..at + count].fill(0),
            }
        }
        len
    }

    /// How many of `len` bytes at `offset` can be written with at most `pages` new pages.
    pub fn fitting(&self, offset: u64, len: usize, mut pages: u64) -> usize {
        let mut fitting = 0;
        for (page, _, at, count) in pieces(offset, len) {
            if !self.pages.contains_key(&page) {
                if pages == 0 {
                    break;
                }
                pages -= 1;
            }
            fitting = at + count;
        }
        fitting
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (page, within, at, count) in pieces(offset, data.len()) {
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
            page[within..within + count].copy_from_slice(&data[at..at + count]);
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Cuts, or adds a hole.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            let within = (size % PAGE as u64) as usize;
            self.pages.split_off(&size.div_ceil(PAGE as u64));
            if let Some(last) = self.pages.get_mut(&(size / PAGE as u64)) {
                last[within..].fill(0);
            }
        }
        self.size = size;
    }
}
