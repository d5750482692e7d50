//! Spare-area bytes. The first [`OWN`] bytes of a page are kept for each page. The next [`COMMON`]
//! bytes are kept once for each block, as long as all its pages agree on them and use no more. A
//! block that does not agree keeps a full table. Nothing is lost either way; the widths only decide
//! what is compact.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use nandlab_mtd::{Block, Move, Page};
use nandlab_sim::prefetch;

/// A page's own bytes: a word and three more.
const OWN: usize = WORD + REST;
const WORD: usize = 4;
const REST: usize = 3;
/// Bytes that the pages of a block share.
const COMMON: usize = 8;
/// OOB bytes of the fast path.
pub(crate) const SHORT: usize = OWN + COMMON;
const OWN_MASK: u64 = (1 << (8 * OWN)) - 1;
const REST_MASK: u32 = (1 << (8 * REST)) - 1;

#[derive(Clone, Debug)]
pub(crate) struct Oob {
    bytes: usize,
    pages_per_block: usize,
    /// Bytes 0 to 3 of each page. This and the next two are stored inverted, so that fresh memory
    /// is erased flash and a large array costs nothing until it is written.
    words: Vec<[u8; WORD]>,
    /// Bytes 4 to 6 of each page.
    rests: Vec<[u8; REST]>,
    /// Bytes 7 to 14 of each block.
    common: Vec<u64>,
    full: BTreeMap<u32, Box<[u8]>>,
}

impl Oob {
    pub fn new(blocks: u32, pages_per_block: u32, bytes: u32) -> Self {
        Self {
            bytes: bytes as usize,
            pages_per_block: pages_per_block as usize,
            words: vec![[0; WORD]; blocks as usize * pages_per_block as usize],
            rests: vec![[0; REST]; blocks as usize * pages_per_block as usize],
            common: vec![0; blocks as usize],
            full: BTreeMap::new(),
        }
    }

    /// No block has a table of its own, so that the fast path is open.
    pub fn is_compact(&self) -> bool {
        self.full.is_empty()
    }

    /// The page's prefix, inverted.
    #[inline]
    fn prefix(&self, page: Page) -> u64 {
        let rest = self.rests[page.0 as usize];
        u64::from(u32::from_le_bytes(self.words[page.0 as usize]))
            | u64::from(u32::from_le_bytes([rest[0], rest[1], rest[2], 0])) << 32
    }

    /// Programs an inverted prefix over what is there.
    #[inline]
    fn add_prefix(&mut self, page: Page, inverted: u64) {
        let [a, b, c, d, e, f, g, _] = inverted.to_le_bytes();
        let word = &mut self.words[page.0 as usize];
        let rest = &mut self.rests[page.0 as usize];
        *word = (u32::from_le_bytes(*word) | u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        *rest = [rest[0] | e, rest[1] | f, rest[2] | g];
    }

    /// Asks for the words of 64 pages from `first` on.
    #[inline]
    pub fn prefetch(&self, first: Page) {
        (0..4).for_each(|line| prefetch(&self.words, first.0 as usize + 16 * line));
    }

    /// The fast path for compact blocks: a prefix and a common part, both plain. False if the block
    /// does not agree; then nothing changed.
    #[inline]
    pub fn program_short(
        &mut self,
        block: Block,
        page: Page,
        prefix: u64,
        common: u64,
        first: bool,
    ) -> bool {
        // An erased prefix means an erased page here.
        if prefix == OWN_MASK && common != u64::MAX {
            return false;
        }
        let kept = &mut self.common[block.0 as usize];
        if first {
            *kept = !common;
        }
        if *kept != !common {
            return false;
        }
        self.add_prefix(page, !prefix);
        true
    }

    /// The fast path to copy. Each target gets the first word of its source, whose bytes go to its
    /// row of heads too, and then its row of tails. False if the rows are of other widths or the
    /// block does not agree; then nothing changed. The targets are erased.
    #[inline]
    pub fn copy_short(
        &mut self,
        block: Block,
        (moves, heads, tails): (&[Move], &mut [u8], &[u8]),
        first: bool,
    ) -> bool {
        let (heads, odd_heads) = heads.as_chunks_mut::<WORD>();
        let (tails, odd_tails) = tails.as_chunks::<{ SHORT - WORD }>();
        let words = heads.len();
        let rests = tails.len();
        if [words, rests] != [moves.len(); 2] || !(odd_heads.is_empty() && odd_tails.is_empty()) {
            return false;
        }
        let inverted = |t: &[u8; SHORT - WORD]| {
            !u64::from_le_bytes([t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10]])
        };
        let kept = if first {
            inverted(&tails[0])
        } else {
            self.common[block.0 as usize]
        };
        // Without an early end, which would take a branch a page.
        let agree = tails.iter().fold(true, |agree, t| {
            let rest = u32::from_le_bytes([t[0], t[1], t[2], t[3]]) & REST_MASK;
            agree & (inverted(t) == kept) & (rest != REST_MASK)
        });
        if !agree {
            return false;
        }
        self.common[block.0 as usize] = kept;
        // Reads take a block's words in order, the blocks in no order: ask for those of the next
        // run now.
        self.prefetch(Page(moves[moves.len() - 1].from.0 + 1));
        for (head, m) in heads.iter_mut().zip(moves) {
            *head = self.words[m.from.0 as usize];
        }
        let targets = moves[0].to.0 as usize..moves[0].to.0 as usize + moves.len();
        self.words[targets.clone()].copy_from_slice(heads);
        for (rest, tail) in self.rests[targets].iter_mut().zip(tails) {
            let inverted = !u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
            let [a, b, c, _] = inverted.to_le_bytes();
            *rest = [a, b, c];
        }
        for head in heads {
            *head = (!u32::from_le_bytes(*head)).to_le_bytes();
        }
        true
    }

    /// Programs `oob` over what is there: bits only go from one to zero. `first`: no page of the
    /// block has been programmed yet.
    pub fn program(&mut self, block: Block, index: u32, page: Page, oob: &[u8], first: bool) {
        if oob.is_empty() {
            return;
        }
        if !self.full.contains_key(&block.0) {
            let (prefix, common) = split(oob);
            if oob.len() <= SHORT && self.program_short(block, page, prefix, common, first) {
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

    /// Gives the block a table of its own. Pages without a prefix were never programmed, or only
    /// with 0xFF: their common bytes are erased.
    fn spill(&mut self, block: Block) {
        let mut table = vec![0xff; self.bytes * self.pages_per_block].into_boxed_slice();
        for (index, row) in table.chunks_exact_mut(self.bytes).enumerate() {
            self.expand(
                block,
                Page((block.0 as usize * self.pages_per_block + index) as u32),
                row,
            );
        }
        self.full.insert(block.0, table);
    }

    /// The OOB of a compact block's page.
    fn expand(&self, block: Block, page: Page, oob: &mut [u8]) {
        oob.fill(0xff);
        let prefix = self.prefix(page);
        if prefix == 0 {
            return;
        }
        let mut short = [0; SHORT];
        short[..OWN].copy_from_slice(&(!prefix).to_le_bytes()[..OWN]);
        short[OWN..].copy_from_slice(&(!self.common[block.0 as usize]).to_le_bytes());
        let n = oob.len().min(SHORT);
        oob[..n].copy_from_slice(&short[..n]);
    }

    /// Fills `oob` with the page's bytes.
    #[inline]
    pub fn read(&self, block: Block, index: u32, page: Page, oob: &mut [u8]) {
        if oob.is_empty() {
            return;
        }
        match if self.full.is_empty() {
            None
        } else {
            self.full.get(&block.0)
        } {
            None => self.expand(block, page, oob),
            Some(table) => {
                let start = index as usize * self.bytes;
                let n = oob.len().min(self.bytes);
                oob[..n].copy_from_slice(&table[start..start + n]);
            }
        }
    }

    /// After an erase of the pages up to `used`.
    pub fn erase(&mut self, block: Block, used: u32) {
        self.full.remove(&block.0);
        let start = block.0 as usize * self.pages_per_block;
        let pages = start..start + used as usize;
        self.words[pages.clone()].fill([0; WORD]);
        self.rests[pages].fill([0; REST]);
        self.common[block.0 as usize] = 0;
    }
}

/// Prefix and common part of OOB bytes; all others stay erased.
#[inline]
fn split(oob: &[u8]) -> (u64, u64) {
    if let Ok(short) = oob.try_into() {
        return split_short(short);
    }
    let mut short = [0xff; SHORT];
    let n = oob.len().min(SHORT);
    short[..n].copy_from_slice(&oob[..n]);
    split_short(&short)
}

/// Prefix and common part.
#[inline]
pub(crate) fn split_short(oob: &[u8; SHORT]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(oob[at..at + 8].try_into().expect("eight bytes"));
    (word(0) & OWN_MASK, word(OWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_programs_read_back_whatever_their_length() {
        let blocks = 3u32;
        let ppb = 8u32;
        let bytes = 40usize;
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
            // Now and then an erased prefix before bytes that are not.
            let prefix = |i| {
                if word >> 44 & 7 == 0 {
                    0xff
                } else {
                    nandlab_sim::mix(word, i) as u8
                }
            };
            let value: Vec<u8> = (0..len)
                .map(|i| {
                    if i < 7 {
                        prefix(i)
                    } else {
                        (block as u8) ^ u8::from(word >> 40 & 7 == 0)
                    }
                })
                .collect();
            oob.program(
                Block(block),
                index,
                Page(page),
                &value,
                used[block as usize] == 0,
            );
            used[block as usize] = used[block as usize].max(index + 1);
            model[page as usize]
                .iter_mut()
                .zip(&value)
                .for_each(|(m, v)| *m &= v);
            let mut back = vec![0; bytes];
            for p in 0..blocks * ppb {
                oob.read(Block(p / ppb), p % ppb, Page(p), &mut back);
                assert_eq!(back, model[p as usize], "page {p} after step {step}");
            }
        }
    }
}
