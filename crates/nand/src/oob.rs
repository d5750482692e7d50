//! Spare-area bytes. A page's first [`PREFIX`] bytes are kept per page; the next [`COMMON`] once per block, as long as all its pages agree on them and
//! use no more; a block that does not agree keeps a full table of its own. Nothing is lost either way, and seven bytes a page is what a
//! mapping layer's tag (whose page number differs and whose block header does not) costs.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use nandlab_mtd::{Block, Page};

const PREFIX: usize = 7;
const COMMON: usize = 8;
const SHORT: usize = PREFIX + COMMON;

#[derive(Clone, Debug)]
pub(crate) struct Oob {
    bytes: usize,
    pages_per_block: usize,
    /// Stored inverted, so that fresh memory is erased flash and a large array costs nothing until it is written.
    prefix: Vec<[u8; PREFIX]>,
    common: Vec<[u8; COMMON]>,
    full: BTreeMap<u32, Box<[u8]>>,
}

impl Oob {
    pub fn new(blocks: u32, pages_per_block: u32, bytes: u32) -> Self {
        Self {
            bytes: bytes as usize,
            pages_per_block: pages_per_block as usize,
            prefix: vec![[0; PREFIX]; blocks as usize * pages_per_block as usize],
            common: vec![[0; COMMON]; blocks as usize],
            full: BTreeMap::new(),
        }
    }

    /// Programs `oob` over what is there: bits only go from one to zero. `first`: no page of the block has been programmed yet.
    #[inline]
    pub fn program(&mut self, block: Block, index: u32, page: Page, oob: &[u8], first: bool) {
        if let (Ok(tag), true) = (<&[u8; SHORT]>::try_from(oob), self.full.is_empty()) {
            let prefix: [u8; PREFIX] = tag[..PREFIX].try_into().expect("a tag starts with a prefix");
            let common: [u8; COMMON] = tag[PREFIX..].try_into().expect("a tag ends with the common part");
            let inverted = u64::from_ne_bytes(common) ^ u64::MAX;
            let kept = &mut self.common[block.0 as usize];
            if first {
                *kept = inverted.to_ne_bytes();
            }
            if *kept == inverted.to_ne_bytes() {
                let cell = &mut self.prefix[page.0 as usize];
                for (to, from) in cell.iter_mut().zip(prefix) {
                    *to |= !from;
                }
                return;
            }
        }
        self.program_any(block, index, page, oob, first);
    }

    fn program_any(&mut self, block: Block, index: u32, page: Page, oob: &[u8], first: bool) {
        if oob.is_empty() {
            return;
        }
        if !self.full.contains_key(&block.0) {
            let fits = oob.len() <= SHORT;
            let mut common = [0u8; COMMON];
            for (c, o) in common.iter_mut().zip(oob.get(PREFIX..).unwrap_or_default()) {
                *c = !o;
            }
            let kept = &mut self.common[block.0 as usize];
            if first && fits {
                *kept = common;
            }
            // Erased common bytes (a block that has none yet) may stay so; anything else must agree.
            if fits && *kept == common {
                for (to, from) in self.prefix[page.0 as usize].iter_mut().zip(oob) {
                    *to |= !from;
                }
                return;
            }
            self.spill(block);
        }
        let table = self.full.get_mut(&block.0).expect("spilled above");
        let start = index as usize * self.bytes;
        for (to, from) in table[start..start + self.bytes].iter_mut().zip(oob) {
            *to &= from;
        }
    }

    /// Gives the block a table of its own. Pages without a prefix were never programmed, or only with 0xFF: their common bytes are erased.
    fn spill(&mut self, block: Block) {
        let mut table = vec![0xff; self.bytes * self.pages_per_block].into_boxed_slice();
        let start = block.0 as usize * self.pages_per_block;
        for (index, row) in table.chunks_exact_mut(self.bytes).enumerate() {
            let prefix = self.prefix[start + index];
            if prefix == [0; PREFIX] {
                continue;
            }
            for (to, from) in row.iter_mut().zip(prefix.iter().chain(&self.common[block.0 as usize])) {
                *to = !from;
            }
        }
        self.full.insert(block.0, table);
    }

    /// Fills `oob` with the page's bytes.
    #[inline]
    pub fn read(&self, block: Block, index: u32, page: Page, oob: &mut [u8]) {
        if !self.full.is_empty()
            && let Some(table) = self.full.get(&block.0)
        {
            let start = index as usize * self.bytes;
            let n = oob.len().min(self.bytes);
            oob[..n].copy_from_slice(&table[start..start + n]);
            return;
        }
        let prefix = &self.prefix[page.0 as usize];
        if *prefix == [0; PREFIX] {
            oob.fill(0xff);
            return;
        }
        for (to, from) in oob.iter_mut().zip(prefix.iter().chain(&self.common[block.0 as usize])) {
            *to = !from;
        }
        if oob.len() > SHORT {
            oob[SHORT..].fill(0xff);
        }
    }

    /// After an erase of the pages up to `used`.
    pub fn erase(&mut self, block: Block, used: u32) {
        self.full.remove(&block.0);
        let start = block.0 as usize * self.pages_per_block;
        self.prefix[start..start + used as usize].fill([0; PREFIX]);
        self.common[block.0 as usize] = [0; COMMON];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_programs_read_back_whatever_their_length() {
        let (blocks, ppb, bytes) = (3u32, 8u32, 40usize);
        let mut oob = Oob::new(blocks, ppb, bytes as u32);
        let mut model = vec![vec![0xffu8; bytes]; (blocks * ppb) as usize];
        let mut used = vec![0u32; blocks as usize];
        for step in 0..20_000u64 {
            let word = nandlab_sim::mix(7, step);
            let block = (word % u64::from(blocks)) as u32;
            if word >> 8 & 31 == 0 {
                oob.erase(Block(block), used[block as usize]);
                used[block as usize] = 0;
                model[(block * ppb) as usize..((block + 1) * ppb) as usize].fill(vec![0xff; bytes]);
                continue;
            }
            let index = (word >> 16) as u32 % ppb;
            let page = block * ppb + index;
            let len = [0, 4, 8, 15, 15, 15, 15, 16, 40][(word >> 24) as usize % 9];
            // Agreeing headers most of the time, disagreeing ones now and then.
            let value: Vec<u8> = (0..len)
                .map(|i| if i < 7 { nandlab_sim::mix(word, i) as u8 } else { (block as u8) ^ u8::from(word >> 40 & 7 == 0) })
                .collect();
            oob.program(Block(block), index, Page(page), &value, used[block as usize] == 0);
            used[block as usize] = used[block as usize].max(index + 1);
            model[page as usize].iter_mut().zip(&value).for_each(|(m, v)| *m &= v);
            let mut back = vec![0; bytes];
            for p in 0..blocks * ppb {
                oob.read(Block(p / ppb), p % ppb, Page(p), &mut back);
                assert_eq!(back, model[p as usize], "page {p} after step {step}");
            }
        }
    }
}
