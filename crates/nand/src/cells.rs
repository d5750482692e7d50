//! What pages and blocks hold besides data and OOB: which pages are programmed, what a power cut
//! tore, wear, bad marks.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use nandlab_mtd::{Block, Page};
use nandlab_sim::Nanos;

/// Wear and state of an erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCells {
    /// Erases since the factory.
    pub erases: u32,
    /// Those of them into SLC mode.
    pub slc_erases: u32,
    /// The block was erased into SLC mode.
    pub slc: bool,
    /// Page reads since the last erase.
    pub reads: u32,
    /// The lowest page that may be programmed next in ascending order.
    pub next: u32,
    /// Virtual time of the first program since the last erase.
    pub programmed_at: Nanos,
}

/// A page that a power cut, a failed program or a failed erase left in no proper state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Reads as erased, but must not be programmed.
    Blank,
    /// The page is beyond correction.
    Unreadable,
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    pub fn new(len: u32) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    #[inline]
    pub fn has(&self, i: u32) -> bool {
        self.0[(i / 64) as usize] >> (i % 64) & 1 != 0
    }

    #[inline]
    pub fn insert(&mut self, i: u32) {
        self.0[(i / 64) as usize] |= 1 << (i % 64);
    }

    /// The bits from `start` on, the first one lowest; those beyond the set are zero.
    #[inline(always)]
    fn word_at(&self, start: u32) -> u64 {
        let word = (start / 64) as usize;
        let bit = start % 64;
        let low = self.0[word] >> bit;
        if bit == 0 {
            low
        } else {
            low | self.0.get(word + 1).map_or(0, |w| w << (64 - bit))
        }
    }

    /// Inserts `len` numbers, at most 64.
    #[inline]
    fn insert_run(&mut self, start: u32, len: u32) {
        let ones = u64::MAX >> (64 - len);
        let word = (start / 64) as usize;
        let bit = start % 64;
        self.0[word] |= ones << bit;
        if bit + len > 64 {
            self.0[word + 1] |= ones >> (64 - bit);
        }
    }

    pub fn remove_run(&mut self, start: u32, len: u32) {
        let mut i = start;
        while i < start + len {
            if i.is_multiple_of(64) && start + len - i >= 64 {
                self.0[(i / 64) as usize] = 0;
                i += 64;
            } else {
                self.0[(i / 64) as usize] &= !(1 << (i % 64));
                i += 1;
            }
        }
    }
}

/// The cell state of a whole array.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    pages_per_block: u32,
    pub blocks: Vec<BlockCells>,
    programmed: BitSet,
    /// Programs since the erase, where a page takes several; empty where it takes one.
    partial: Vec<u8>,
    odd: BTreeMap<u32, Odd>,
    pub bad: BitSet,
}

impl Cells {
    pub fn new(blocks: u32, pages_per_block: u32, several_programs: bool) -> Self {
        let pages = blocks * pages_per_block;
        Self {
            pages_per_block,
            blocks: vec![BlockCells::default(); blocks as usize],
            programmed: BitSet::new(pages),
            partial: vec![0; if several_programs { pages as usize } else { 0 }],
            odd: BTreeMap::new(),
            bad: BitSet::new(blocks),
        }
    }

    #[inline]
    pub fn is_programmed(&self, page: Page) -> bool {
        self.programmed.has(page.0)
    }

    #[inline]
    pub fn odd(&self, page: Page) -> Option<Odd> {
        if self.odd.is_empty() {
            None
        } else {
            self.odd.get(&page.0).copied()
        }
    }

    /// No page is out of the ordinary.
    pub fn all_ordinary(&self) -> bool {
        self.odd.is_empty()
    }

    /// How often the page was programmed since its erase.
    #[inline]
    pub fn programs(&self, page: Page) -> u8 {
        match self.partial.get(page.0 as usize) {
            Some(&count) => count,
            None => u8::from(self.is_programmed(page)),
        }
    }

    /// Programs a page; true if it is the first one of its block.
    #[inline]
    pub fn program(&mut self, block: Block, index: u32, page: Page, now: Nanos) -> bool {
        let cells = &mut self.blocks[block.0 as usize];
        let first = cells.next == 0;
        if first {
            cells.programmed_at = now;
        }
        cells.next = cells.next.max(index + 1);
        self.programmed.insert(page.0);
        if let Some(count) = self.partial.get_mut(page.0 as usize) {
            *count += 1;
        }
        first
    }

    /// Whether all pages of `mask`, counted from `first`, are programmed.
    #[inline]
    pub fn are_programmed(&self, first: Page, mask: u64) -> bool {
        self.programmed.word_at(first.0) & mask == mask
    }

    /// Programs a run of 1 to 64 pages that each take one program.
    #[inline]
    pub fn program_run(&mut self, block: Block, index: u32, page: Page, len: u32, now: Nanos) {
        let cells = &mut self.blocks[block.0 as usize];
        if cells.next == 0 {
            cells.programmed_at = now;
        }
        cells.next = index + len;
        self.programmed.insert_run(page.0, len);
    }

    pub fn set_odd(&mut self, page: Page, odd: Odd) {
        self.odd.insert(page.0, odd);
    }

    /// After a whole erase, into SLC mode or not.
    pub fn erase(&mut self, block: Block, slc: bool) {
        let start = block.0 * self.pages_per_block;
        self.programmed.remove_run(start, self.pages_per_block);
        if !self.partial.is_empty() {
            self.partial[start as usize..(start + self.pages_per_block) as usize].fill(0);
        }
        if !self.odd.is_empty() {
            let gone: Vec<u32> = self
                .odd
                .range(start..start + self.pages_per_block)
                .map(|(&p, _)| p)
                .collect();
            gone.into_iter().for_each(|p| {
                self.odd.remove(&p);
            });
        }
        let cells = &mut self.blocks[block.0 as usize];
        *cells = BlockCells {
            erases: cells.erases + 1,
            slc_erases: cells.slc_erases + u32::from(slc),
            slc,
            ..BlockCells::default()
        };
    }
}
