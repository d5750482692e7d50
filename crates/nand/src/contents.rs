//! Page data: kept as reference-counted slots (a copy inside the chip moves a number, not bytes),
//! handed to a backing store, or not kept.

use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::fmt;
use nandlab_mtd::{Move, Page};

/// Where page data goes when it is not kept in memory: a sparse file, typically. Errors are short
/// reasons for the message.
pub trait PageStore: fmt::Debug + Send {
    /// Reads a programmed page.
    fn read(&mut self, page: Page, data: &mut [u8]) -> Result<(), &'static str>;
    /// Stores a page.
    fn write(&mut self, page: Page, data: &[u8]) -> Result<(), &'static str>;
    /// Forgets `count` pages from `first`.
    fn forget(&mut self, first: Page, count: u32) -> Result<(), &'static str>;
}

/// Bytes of a chunk, which is what two forks share or one copies: a thousandth of the array, within
/// these bounds. Small chips are forked often; on large ones few chunks keep their counters in the
/// processor's caches.
const CHUNK_BYTES: [u64; 2] = [16 << 10, 1 << 20];

/// Reference-counted page buffers.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    page: usize,
    /// Slots of a chunk, as a power of two.
    chunk_shift: u32,
    chunks: Vec<Arc<[u8]>>,
    references: Vec<u32>,
    unused: Vec<u32>,
    /// Slot of each page, plus one; zero: erased or all 0xFF; [`ZEROS`]: all zeros, for which no
    /// memory is taken.
    slots: Vec<u32>,
}

const ZEROS: u32 = u32::MAX;

impl Slab {
    fn new(pages: u32, page: u32) -> Self {
        let bytes =
            (u64::from(pages) * u64::from(page) / 1024).clamp(CHUNK_BYTES[0], CHUNK_BYTES[1]);
        let per_chunk = (bytes / u64::from(page)).max(1).next_power_of_two();
        Self {
            page: page as usize,
            chunk_shift: per_chunk.trailing_zeros(),
            chunks: Vec::new(),
            references: Vec::new(),
            unused: Vec::new(),
            slots: vec![0; pages as usize],
        }
    }

    /// Where a slot lies: its chunk, and its place there.
    #[inline]
    fn place(&self, slot: u32) -> (usize, usize) {
        (
            (slot >> self.chunk_shift) as usize,
            (slot & ((1 << self.chunk_shift) - 1)) as usize * self.page,
        )
    }

    fn take(&mut self) -> u32 {
        if self.unused.is_empty() {
            let first = self.references.len() as u32;
            let per_chunk = 1 << self.chunk_shift;
            self.chunks
                .push(vec![0; per_chunk as usize * self.page].into());
            self.references
                .resize(self.references.len() + per_chunk as usize, 0);
            self.unused.extend((first..first + per_chunk).rev());
        }
        let slot = self.unused.pop().expect("filled above");
        self.references[slot as usize] = 1;
        slot
    }

    /// An entry of `slots` is gone.
    fn drop_slot(&mut self, entry: u32) {
        if entry == 0 || entry == ZEROS {
            return;
        }
        let slot = entry - 1;
        let count = &mut self.references[slot as usize];
        *count -= 1;
        if *count == 0 {
            self.unused.push(slot);
        }
    }

    fn bytes(&self, slot: u32) -> &[u8] {
        let (chunk, at) = self.place(slot);
        &self.chunks[chunk][at..at + self.page]
    }

    fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let (chunk, at) = self.place(slot);
        &mut Arc::make_mut(&mut self.chunks[chunk])[at..at + self.page]
    }

    fn read(&self, page: Page, data: &mut [u8]) {
        match self.slots[page.0 as usize] {
            0 => data.fill(0xff),
            ZEROS => data.fill(0),
            slot => data.copy_from_slice(self.bytes(slot - 1)),
        }
    }

    fn write(&mut self, page: Page, data: &[u8]) {
        let new = if is_zero(data) {
            ZEROS
        } else {
            let slot = self.take();
            self.bytes_mut(slot).copy_from_slice(data);
            slot + 1
        };
        let old = core::mem::replace(&mut self.slots[page.0 as usize], new);
        self.drop_slot(old);
    }

    fn share(&mut self, from: Page, to: Page) {
        let slot = self.slots[from.0 as usize];
        if slot != 0 && slot != ZEROS {
            self.references[slot as usize - 1] += 1;
        }
        self.slots[to.0 as usize] = slot;
    }

    fn forget(&mut self, first: Page, count: u32) {
        for page in first.0..first.0 + count {
            let slot = core::mem::take(&mut self.slots[page as usize]);
            self.drop_slot(slot);
        }
    }
}

/// Data that is not zero shows it at once.
#[inline]
fn is_zero(data: &[u8]) -> bool {
    data.chunks(64)
        .all(|part| part.iter().fold(0, |bits, byte| bits | byte) == 0)
}

/// The data of every page.
#[derive(Debug)]
pub(crate) enum PageData {
    Kept(Box<Slab>),
    Stored(Box<dyn PageStore>),
    Dropped,
}

impl PageData {
    pub fn kept(pages: u32, page: u32) -> Self {
        Self::Kept(Box::new(Slab::new(pages, page)))
    }

    /// A copy that shares pages; none where the data lies in a backing store.
    pub fn fork(&self) -> Option<Self> {
        match self {
            Self::Kept(slab) => Some(Self::Kept(slab.clone())),
            Self::Dropped => Some(Self::Dropped),
            Self::Stored(_) => None,
        }
    }

    #[inline]
    pub fn read(
        &mut self,
        page: Page,
        programmed: bool,
        data: &mut [u8],
    ) -> Result<(), &'static str> {
        match self {
            Self::Kept(slab) => slab.read(page, data),
            Self::Stored(store) if programmed => return store.read(page, data),
            Self::Dropped if programmed => data.fill(0),
            _ => data.fill(0xff),
        }
        Ok(())
    }

    #[inline]
    pub fn write(&mut self, page: Page, data: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Kept(slab) => slab.write(page, data),
            Self::Stored(store) => return store.write(page, data),
            Self::Dropped => {}
        }
        Ok(())
    }

    #[inline]
    pub fn copy(&mut self, from: Page, to: Page, page_bytes: u32) -> Result<(), &'static str> {
        match self {
            Self::Kept(slab) => slab.share(from, to),
            Self::Stored(store) => {
                let mut data = vec![0; page_bytes as usize];
                store.read(from, &mut data)?;
                store.write(to, &data)?;
            }
            Self::Dropped => {}
        }
        Ok(())
    }

    /// Copies of pages that are not in a backing store.
    #[inline]
    pub fn share_run(&mut self, moves: &[Move]) {
        if let Self::Kept(slab) = self {
            moves.iter().for_each(|m| slab.share(m.from, m.to));
        }
    }

    pub fn forget(&mut self, first: Page, count: u32) -> Result<(), &'static str> {
        match self {
            Self::Kept(slab) => slab.forget(first, count),
            Self::Stored(store) => return store.forget(first, count),
            Self::Dropped => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_share_until_one_side_writes_and_slots_are_reused() {
        let mut a = Slab::new(16, 4096);
        a.write(Page(0), &[1; 4096]);
        a.share(Page(0), Page(1));
        a.forget(Page(0), 1);
        let mut b = a.clone();
        b.forget(Page(1), 1);
        b.write(Page(5), &[2; 4096]);
        let mut data = [0; 4096];
        a.read(Page(1), &mut data);
        assert_eq!(data, [1; 4096]);
        a.read(Page(0), &mut data);
        assert_eq!(data, [0xff; 4096]);
        b.read(Page(5), &mut data);
        assert_eq!(data, [2; 4096]);
        for _ in 0..1000 {
            a.write(Page(3), &[3; 4096]);
        }
        assert_eq!(a.chunks.len(), 1, "rewriting must not grow the slab");
    }

    #[test]
    fn pages_of_zeros_take_no_memory() {
        let mut a = Slab::new(16, 4096);
        a.write(Page(0), &[0; 4096]);
        a.share(Page(0), Page(1));
        a.forget(Page(0), 1);
        let mut data = [1; 4096];
        a.read(Page(1), &mut data);
        assert_eq!((data, a.chunks.len()), ([0; 4096], 0));
        a.write(Page(1), &[9; 4096]);
        a.read(Page(1), &mut data);
        assert_eq!((data, a.chunks.len()), ([9; 4096], 1));
    }
}
