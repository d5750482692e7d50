//! The yardstick: page mapping as a bare loop over arrays. No traits, no clock, no statistics, no
//! rules, no recovery: a map of 4 bytes a logical page, 16 OOB bytes a flash page, and a valid bit
//! a page. Blocks are in lists by valid pages, and greedy collection has a block of its own.

/// What a loop did after its warm-up.
pub struct Done {
    pub writes: u64,
    pub programs: u64,
}

const NIL: u32 = u32::MAX;
const FREE_MIN: usize = 3;

/// Page contents: none, or shared slots (a copy moves the slot's number).
pub struct Slots {
    of_page: Vec<u32>,
    unused: Vec<u32>,
    bytes: Vec<u8>,
}

impl Slots {
    pub fn new(pages: u32, logical: u32) -> Self {
        // Slots that are free turn over in the order of the pages that held them, as in any store
        // that has been in use for a while.
        Self {
            of_page: vec![NIL; pages as usize],
            unused: (0..=logical).rev().collect(),
            bytes: vec![0; (logical as usize + 1) * PAGE],
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

pub const PAGE: usize = 4096;

pub struct Bare {
    pages_per_block: u32,
    map: Vec<u32>,
    oob: Vec<[u32; 4]>,
    bitmap: Vec<u64>,
    valid: Vec<u32>,
    closed: Vec<bool>,
    next: Vec<u32>,
    prev: Vec<u32>,
    heads: Vec<u32>,
    lowest: usize,
    free: Vec<u32>,
    host: (u32, u32),
    collection: (u32, u32),
    pub programs: u64,
    pub slots: Option<Slots>,
}

impl Bare {
    pub fn new(blocks: u32, pages_per_block: u32, logical: u32, slots: Option<Slots>) -> Self {
        let pages = (blocks * pages_per_block) as usize;
        Self {
            pages_per_block,
            map: vec![NIL; logical as usize],
            oob: vec![[NIL; 4]; pages],
            bitmap: vec![0; pages.div_ceil(64)],
            valid: vec![0; blocks as usize],
            closed: vec![false; blocks as usize],
            next: vec![NIL; blocks as usize],
            prev: vec![NIL; blocks as usize],
            heads: vec![NIL; pages_per_block as usize + 1],
            lowest: pages_per_block as usize,
            free: (2..blocks).rev().collect(),
            host: (0, 0),
            collection: (1, 0),
            programs: 0,
            slots,
        }
    }

    #[inline]
    fn link(&mut self, block: u32, valid: u32) {
        let head = std::mem::replace(&mut self.heads[valid as usize], block);
        self.next[block as usize] = head;
        self.prev[block as usize] = NIL;
        if head != NIL {
            self.prev[head as usize] = block;
        }
        self.lowest = self.lowest.min(valid as usize);
    }

    #[inline]
    fn unlink(&mut self, block: u32, valid: u32) {
        let next = self.next[block as usize];
        let prev = self.prev[block as usize];
        if prev == NIL {
            self.heads[valid as usize] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NIL {
            self.prev[next as usize] = prev;
        }
    }

    #[inline]
    fn close(&mut self, block: u32) {
        self.closed[block as usize] = true;
        self.link(block, self.valid[block as usize]);
    }

    #[inline]
    fn put(&mut self, lpn: u32, (block, index): (u32, u32)) -> u32 {
        let page = block * self.pages_per_block + index;
        self.map[lpn as usize] = page;
        self.oob[page as usize] = [
            lpn,
            self.programs as u32,
            (self.programs >> 32) as u32,
            block,
        ];
        self.bitmap[page as usize / 64] |= 1 << (page % 64);
        self.valid[block as usize] += 1;
        self.programs += 1;
        page
    }

    fn collect(&mut self) {
        while self.heads[self.lowest] == NIL {
            self.lowest += 1;
        }
        let victim = self.heads[self.lowest];
        self.unlink(victim, self.lowest as u32);
        self.closed[victim as usize] = false;
        let first = victim * self.pages_per_block;
        for word in first / 64..(first + self.pages_per_block) / 64 {
            let mut bits = std::mem::take(&mut self.bitmap[word as usize]);
            while bits != 0 {
                let from = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if self.collection.1 == self.pages_per_block {
                    self.close(self.collection.0);
                    self.collection = (self.free.pop().expect("a free block"), 0);
                }
                let to = self.put(self.oob[from as usize][0], self.collection);
                self.collection.1 += 1;
                if let Some(slots) = &mut self.slots {
                    slots.of_page[to as usize] = slots.of_page[from as usize];
                }
            }
        }
        self.valid[victim as usize] = 0;
        self.free.push(victim);
    }

    /// Writes one logical page.
    #[inline]
    pub fn write(&mut self, lpn: u32, data: &[u8; PAGE]) {
        if self.host.1 == self.pages_per_block {
            self.close(self.host.0);
            while self.free.len() < FREE_MIN {
                self.collect();
            }
            self.host = (self.free.pop().expect("a free block"), 0);
        }
        let old = self.map[lpn as usize];
        let page = self.put(lpn, self.host);
        self.host.1 += 1;
        if let Some(slots) = &mut self.slots {
            let slot = slots.unused.pop().expect("a free slot");
            slots.bytes[slot as usize * PAGE..][..PAGE].copy_from_slice(data);
            slots.of_page[page as usize] = slot;
            if old != NIL {
                slots.unused.push(slots.of_page[old as usize]);
            }
        }
        if old == NIL {
            return;
        }
        self.bitmap[old as usize / 64] &= !(1 << (old % 64));
        let block = old / self.pages_per_block;
        let valid = self.valid[block as usize];
        self.valid[block as usize] = valid - 1;
        if self.closed[block as usize] {
            self.unlink(block, valid);
            self.link(block, valid - 1);
        }
    }
}
