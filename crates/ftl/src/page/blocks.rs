//! What is known of each erase block: its state, its valid pages, its wear; and the pool of free
//! ones.

use super::buffer::Buffer;
use crate::victim::{Buckets, Victim, cost_benefit};
use alloc::{collections::BTreeSet, vec, vec::Vec};
use nandlab_mtd::{Geometry, Issued};
use nandlab_sim::{Divisor, prefetch};

/// Where a block is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the pool, to be erased when it is opened.
    Free,
    /// In the pool, erased.
    Clean,
    /// The block takes pages in order.
    Open,
    /// Full, or not to be filled further.
    Closed,
    /// The same, in the SLC cache.
    Filled,
    /// The collector is moving its pages away.
    Victim,
    /// The block is out of service.
    Bad,
}

/// The emptiest blocks among which a victim on a certain plane is looked for.
const CANDIDATES: usize = 64;

/// Two entries a block in the pool: the wear and the number, so that the pool is ordered by wear.
type Pool = BTreeSet<(u32, u32)>;

#[derive(Debug)]
pub(crate) struct BlockTable {
    pages: u32,
    words: usize,
    divisor: Divisor,
    /// Dies times planes: blocks that are equal modulo this lie on one plane.
    units: u32,
    state: Vec<State>,
    valid: Vec<u32>,
    bitmap: Vec<u64>,
    pub erases: Vec<u32>,
    /// Sequence number when the block was closed.
    closed_at: Vec<u64>,
    /// What must be durable before the block is erased.
    erase_after: Vec<Issued>,
    /// Whether each block holds map pages.
    mapping: Vec<bool>,
    /// To be retired once it is empty.
    failing: Vec<bool>,
    buckets: Buckets,
    pools: Vec<Pool>,
    free: u32,
    good: u32,
    /// The blocks of the SLC cache; they are in no other list.
    pub buffer: Buffer,
}

impl BlockTable {
    /// All blocks of the array, out of service until [`release`](Self::release)d or
    /// [`adopt`](Self::adopt)ed.
    pub fn new(geometry: &Geometry) -> Self {
        let n = geometry.blocks as usize;
        let words = geometry.pages_per_block.div_ceil(64) as usize;
        Self {
            pages: geometry.pages_per_block,
            words,
            divisor: Divisor::new(geometry.pages_per_block),
            units: geometry.dies * geometry.planes,
            state: vec![State::Bad; n],
            valid: vec![0; n],
            bitmap: vec![0; n * words],
            erases: vec![0; n],
            closed_at: vec![0; n],
            erase_after: vec![Issued(0); n],
            mapping: vec![false; n],
            failing: vec![false; n],
            buckets: Buckets::new(geometry.blocks, geometry.pages_per_block),
            pools: vec![Pool::new(); (geometry.dies * geometry.planes) as usize],
            free: 0,
            good: 0,
            buffer: Buffer::new(n, geometry.dies * geometry.planes),
        }
    }

    pub fn state(&self, block: u32) -> State {
        self.state[block as usize]
    }

    pub fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    pub fn is_mapping(&self, block: u32) -> bool {
        self.mapping[block as usize]
    }

    /// Blocks in the pool.
    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn good(&self) -> u32 {
        self.good
    }

    pub fn split(&self, page: u32) -> (u32, u32) {
        self.divisor.split(page)
    }

    /// Marks a run of 1 to 64 pages of one block valid.
    #[inline]
    pub fn set_valid_run(&mut self, page: u32, len: u32) {
        let (block, index) = self.divisor.split(page);
        let ones = u64::MAX >> (64 - len);
        let word = block as usize * self.words + index as usize / 64;
        let bit = index % 64;
        self.bitmap[word] |= ones << bit;
        if bit + len > 64 {
            self.bitmap[word + 1] |= ones >> (64 - bit);
        }
        self.valid[block as usize] += len;
    }

    pub fn is_valid(&self, page: u32) -> bool {
        let (block, index) = self.divisor.split(page);
        self.bitmap[block as usize * self.words + index as usize / 64] >> (index % 64) & 1 != 0
    }

    /// Asks for what an invalidation of the page will change.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        let (block, index) = self.divisor.split(page);
        prefetch(
            &self.bitmap,
            block as usize * self.words + index as usize / 64,
        );
        prefetch(&self.valid, block as usize);
        self.buckets.prefetch(block);
    }

    /// The page no longer holds the newest version of anything.
    #[inline]
    pub fn invalidate(&mut self, page: u32) {
        let (block, index) = self.divisor.split(page);
        let b = block as usize;
        self.bitmap[b * self.words + index as usize / 64] &= !(1 << (index % 64));
        let valid = self.valid[b];
        self.valid[b] = valid - 1;
        if self.state[b] == State::Closed {
            self.buckets.remove(block, valid);
            self.buckets.insert(block, valid - 1);
        }
    }

    /// The valid pages of a block, as words of 64 page bits.
    pub fn valid_word(&self, block: u32, word: usize) -> u64 {
        self.bitmap[block as usize * self.words + word]
    }

    /// Of 64 pages of a victim only these are still valid, if they are.
    pub fn keep(&mut self, block: u32, word: usize, left: u64) {
        let bits = &mut self.bitmap[block as usize * self.words + word];
        self.valid[block as usize] -= (*bits & !left).count_ones();
        *bits &= left;
    }

    pub fn words(&self) -> usize {
        self.words
    }

    /// Takes a block from the pool: the least worn for data that will be rewritten, the most worn
    /// for data at rest; from plane `unit` of the array if it has one, else from the plane with the
    /// most.
    pub fn take(&mut self, unit: u32, at_rest: bool) -> Option<(u32, State)> {
        let mut unit = (unit % self.units) as usize;
        if self.pools[unit].is_empty() {
            unit = (0..self.pools.len()).max_by_key(|&u| self.pools[u].len())?;
        }
        let (_, block) = if at_rest {
            self.pools[unit].pop_last()
        } else {
            self.pools[unit].pop_first()
        }?;
        self.free -= 1;
        Some((block, self.state[block as usize]))
    }

    /// A block taken from the pool goes into use.
    pub fn open(&mut self, block: u32, mapping: bool) {
        self.state[block as usize] = State::Open;
        self.mapping[block as usize] = mapping;
        self.valid[block as usize] = 0;
    }

    /// What must be durable before the block is erased.
    pub fn erase_after(&self, block: u32) -> Issued {
        self.erase_after[block as usize]
    }

    /// A block will not be filled further, and may be collected.
    pub fn close(&mut self, block: u32, sequence: u64) {
        let b = block as usize;
        self.closed_at[b] = sequence;
        if self.buffer.owns(block) {
            self.state[b] = State::Filled;
            self.buffer.close(block);
            return;
        }
        self.state[b] = State::Closed;
        self.buckets.insert(block, self.valid[b]);
    }

    /// A closed block is about to be emptied.
    pub fn begin_victim(&mut self, block: u32) {
        self.buckets.remove(block, self.valid[block as usize]);
        self.state[block as usize] = State::Victim;
    }

    /// A block of the SLC cache is about to be folded: the next one in line.
    pub fn begin_fold(&mut self) -> Option<u32> {
        let block = self.buffer.next()?;
        self.state[block as usize] = State::Victim;
        Some(block)
    }

    /// An empty block goes (back) to the pool, to be erased once `erase_after` is durable; or out
    /// of service if it is failing (false).
    pub fn release(&mut self, block: u32, erase_after: Issued) -> bool {
        let b = block as usize;
        self.bitmap[b * self.words..(b + 1) * self.words].fill(0);
        self.valid[b] = 0;
        if self.state[b] == State::Bad {
            self.good += 1;
        }
        if self.failing[b] {
            self.retire(block);
            return false;
        }
        self.state[b] = State::Free;
        self.erase_after[b] = erase_after;
        if self.buffer.owns(block) {
            self.buffer.put(block, self.erases[b]);
            return true;
        }
        self.pools[(block % self.units) as usize].insert((self.erases[b], block));
        self.free += 1;
        true
    }

    /// Another condition for the erase of a free block.
    pub fn set_erase_after(&mut self, block: u32, erase_after: Issued) {
        self.erase_after[block as usize] = erase_after;
    }

    /// Gives free blocks to the SLC cache until it has `size`: the least worn, from each plane in
    /// turn.
    pub fn fill_buffer(&mut self, size: u32) {
        let mut unit = self.buffer.size() as usize % self.pools.len();
        while self.buffer.size() < size && self.free > 0 {
            if let Some(&(_, block)) = self.pools[unit].first() {
                self.give_to_buffer(block);
            }
            unit = (unit + 1) % self.pools.len();
        }
    }

    /// Gives a free block to the SLC cache.
    pub fn give_to_buffer(&mut self, block: u32) {
        let erases = self.erases[block as usize];
        if self.pools[(block % self.units) as usize].remove(&(erases, block)) {
            self.free -= 1;
            self.state[block as usize] = State::Free;
            self.buffer.join(block);
            self.buffer.put(block, erases);
        }
    }

    /// Takes freshly erased blocks into service, all at once: (block, erase count), in ascending
    /// order.
    pub fn release_all(&mut self, blocks: &[(u32, u32)]) {
        let mut pools = vec![Vec::new(); self.units as usize];
        for &(block, erases) in blocks {
            self.state[block as usize] = State::Clean;
            self.erases[block as usize] = erases;
            pools[(block % self.units) as usize].push((erases, block));
        }
        self.pools = pools.into_iter().map(Pool::from_iter).collect();
        self.free = blocks.len() as u32;
        self.good = self.free;
    }

    /// A block found on the medium with data in it.
    pub fn adopt(&mut self, block: u32, mapping: bool, sequence: u64) {
        self.good += 1;
        self.mapping[block as usize] = mapping;
        self.close(block, sequence);
    }

    /// A block found on the medium goes on being filled.
    pub fn reopen(&mut self, block: u32) {
        self.good += 1;
        self.state[block as usize] = State::Open;
    }

    pub fn set_failing(&mut self, block: u32) {
        self.failing[block as usize] = true;
    }

    /// Takes a block that is in no list out of service.
    pub fn retire(&mut self, block: u32) {
        self.state[block as usize] = State::Bad;
        self.good -= 1;
        self.buffer.leave(block);
    }

    /// The block to collect next on the plane with the fewest free blocks, so that the planes of a
    /// die have blocks at the same time; none if the emptiest blocks lie on other planes.
    pub fn victim_of_scarcest(&self, rule: Victim, now: u64) -> Option<u32> {
        let scarcest = (0..self.pools.len()).min_by_key(|&unit| self.pools[unit].len())?;
        let is_there = |&(block, _): &(u32, u32)| (block % self.units) as usize == scarcest;
        let emptiest = self.buckets.ascending().take(CANDIDATES);
        let mut candidates = emptiest
            .filter(|&(_, valid)| valid < self.pages)
            .filter(is_there);
        let score = |&(block, valid): &(u32, u32)| {
            let age = now - self.closed_at[block as usize];
            cost_benefit(valid, self.pages, age)
        };
        let chosen = match rule {
            Victim::Greedy => candidates.next(),
            Victim::CostBenefit => candidates.max_by(|a, b| score(a).total_cmp(&score(b))),
        };
        chosen.map(|(block, _)| block)
    }

    /// The block to collect next.
    pub fn victim(&mut self, rule: Victim, now: u64) -> Option<u32> {
        let (emptiest, valid) = self.buckets.emptiest()?;
        if valid == self.pages {
            return None;
        }
        if rule == Victim::Greedy || valid == 0 {
            return Some(emptiest);
        }
        let score = |b: u32| {
            cost_benefit(
                self.valid[b as usize],
                self.pages,
                now - self.closed_at[b as usize],
            )
        };
        let closed =
            (0..self.state.len() as u32).filter(|&b| self.state[b as usize] == State::Closed);
        closed.max_by(|&a, &b| score(a).total_cmp(&score(b)))
    }

    /// The block of map pages with the fewest valid ones, if one of its pages is stale.
    pub fn emptiest_mapping(&self) -> Option<u32> {
        let closed = (0..self.state.len()).filter(|&b| self.state[b] == State::Closed);
        let emptiest = closed
            .filter(|&b| self.mapping[b])
            .min_by_key(|&b| self.valid[b])?;
        (self.valid[emptiest] < self.pages).then_some(emptiest as u32)
    }

    /// The least worn closed block and the largest erase count of any block in service.
    pub fn wear_extremes(&self) -> Option<(u32, u32)> {
        // Erases into SLC mode are another kind of wear.
        let in_service = || {
            (0..self.state.len())
                .filter(|&b| self.state[b] != State::Bad && !self.buffer.owns(b as u32))
        };
        let coldest = in_service()
            .filter(|&b| self.state[b] == State::Closed)
            .min_by_key(|&b| self.erases[b])?;
        let most = in_service().map(|b| self.erases[b]).max()?;
        Some((coldest as u32, most))
    }
}
