//! Which block to collect next.

use alloc::{vec, vec::Vec};
use nandlab_sim::prefetch;

/// The rule that picks a victim among full blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The fewest valid pages.
    #[default]
    Greedy,
    /// The largest `(1 - u) * age / 2u`, with `u` the valid share and the age since the block was
    /// closed (Kawaguchi, Nishioka and Motoda, USENIX 1995, after Rosenblum and Ousterhout).
    CostBenefit,
}

const NIL: u32 = u32::MAX;

/// Blocks in lists by their number of valid pages; insertion, removal and the change by one that an
/// overwrite makes are O(1).
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    heads: Vec<u32>,
    links: Vec<Link>,
    /// No list below this one has members.
    lowest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

impl Buckets {
    pub fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self {
            heads: vec![NIL; pages_per_block as usize + 1],
            links: vec![
                Link {
                    next: NIL,
                    prev: NIL
                };
                blocks as usize
            ],
            lowest: pages_per_block as usize,
        }
    }

    /// Asks for what a change of the block's number of valid pages will need.
    #[inline]
    pub fn prefetch(&self, block: u32) {
        prefetch(&self.links, block as usize);
    }

    #[inline]
    pub fn insert(&mut self, block: u32, valid: u32) {
        let head = core::mem::replace(&mut self.heads[valid as usize], block);
        self.links[block as usize] = Link {
            next: head,
            prev: NIL,
        };
        if head != NIL {
            self.links[head as usize].prev = block;
        }
        self.lowest = self.lowest.min(valid as usize);
    }

    #[inline]
    pub fn remove(&mut self, block: u32, valid: u32) {
        let Link { next, prev } = self.links[block as usize];
        if prev == NIL {
            self.heads[valid as usize] = next;
        } else {
            self.links[prev as usize].next = next;
        }
        if next != NIL {
            self.links[next as usize].prev = prev;
        }
    }

    /// A block with the fewest valid pages, and how many.
    pub fn emptiest(&mut self) -> Option<(u32, u32)> {
        while self.heads.get(self.lowest).is_some_and(|&h| h == NIL) {
            self.lowest += 1;
        }
        match self.heads.get(self.lowest) {
            Some(&block) => Some((block, self.lowest as u32)),
            None => {
                self.lowest = self.heads.len() - 1;
                None
            }
        }
    }
}

impl Buckets {
    /// Blocks with their numbers of valid pages, the emptiest first.
    pub fn ascending(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (self.lowest..self.heads.len()).flat_map(move |valid| {
            let some = |block: u32| (block != NIL).then_some(block);
            let next = move |&block: &u32| some(self.links[block as usize].next);
            core::iter::successors(some(self.heads[valid]), next)
                .map(move |block| (block, valid as u32))
        })
    }
}

/// Kawaguchi's score; `valid` below `pages`.
pub(crate) fn cost_benefit(valid: u32, pages: u32, age: u64) -> f64 {
    let used = f64::from(valid) / f64::from(pages);
    if valid == 0 {
        f64::INFINITY
    } else {
        (1.0 - used) * age as f64 / (2.0 * used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_is_found_whatever_the_order_of_changes() {
        let blocks = 50u32;
        let pages = 16u32;
        let mut buckets = Buckets::new(blocks, pages);
        let mut valid: Vec<Option<u32>> = vec![None; blocks as usize];
        for step in 0..20_000 {
            let word = nandlab_sim::mix(5, step);
            let b = (word % u64::from(blocks)) as u32;
            let v = (word >> 20) as u32 % (pages + 1);
            match valid[b as usize].take() {
                Some(old) => buckets.remove(b, old),
                None => {
                    buckets.insert(b, v);
                    valid[b as usize] = Some(v);
                }
            }
            let least = valid.iter().flatten().min().copied();
            let found = buckets.emptiest();
            assert_eq!(found.map(|f| f.1), least, "step {step}");
            assert!(found.is_none_or(|(b, v)| valid[b as usize] == Some(v)));
            let ascending: Vec<(u32, u32)> = buckets.ascending().collect();
            assert!(ascending.is_sorted_by_key(|&(_, v)| v));
            assert!(ascending.iter().all(|&(b, v)| valid[b as usize] == Some(v)));
            assert_eq!(ascending.len(), valid.iter().flatten().count());
        }
    }
}
