//! Lists of small numbers, each number in at most one list, with insertion at both ends and removal
//! from the middle in O(1) and without allocation.

use alloc::{vec, vec::Vec};

const NIL: u32 = u32::MAX;

/// Lists that share their numbers.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Next and previous of each number, then the ends of each list. A number that is in no list
    /// points nowhere.
    links: Vec<[u32; 2]>,
    numbers: u32,
}

impl Lists {
    /// `lists` empty lists of numbers below `numbers`.
    pub fn new(lists: u32, numbers: u32) -> Self {
        let mut links = vec![[NIL; 2]; numbers as usize];
        links.extend((numbers..numbers + lists).map(|end| [end; 2]));
        Self { links, numbers }
    }

    /// The first number of a list.
    #[inline]
    pub fn front(&self, list: u32) -> Option<u32> {
        let [first, _] = self.links[(self.numbers + list) as usize];
        (first < self.numbers).then_some(first)
    }

    /// The numbers of a list, from the front.
    pub fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let inside = |i: &u32| *i < self.numbers;
        core::iter::successors(self.front(list), move |&i| {
            Some(self.links[i as usize][0]).filter(inside)
        })
    }

    /// Puts a number at the back, wherever it was.
    #[inline]
    pub fn push_back(&mut self, list: u32, i: u32) {
        self.remove(i);
        let end = self.numbers + list;
        let [_, last] = self.links[end as usize];
        self.link(last, i, end);
    }

    /// Puts a number at the front, wherever it was.
    #[inline]
    pub fn push_front(&mut self, list: u32, i: u32) {
        self.remove(i);
        let end = self.numbers + list;
        let [first, _] = self.links[end as usize];
        self.link(end, i, first);
    }

    /// Takes a number out, if it is in a list.
    #[inline]
    pub fn remove(&mut self, i: u32) {
        let [next, prev] = self.links[i as usize];
        if next != NIL {
            self.links[next as usize][1] = prev;
            self.links[prev as usize][0] = next;
            self.links[i as usize] = [NIL; 2];
        }
    }

    #[inline]
    fn link(&mut self, prev: u32, i: u32, next: u32) {
        self.links[i as usize] = [next, prev];
        self.links[prev as usize][0] = i;
        self.links[next as usize][1] = i;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn they_behave_like_lists() {
        let mut lists = Lists::new(3, 20);
        let mut models = [const { VecDeque::new() }; 3];
        for step in 0..20_000 {
            let word = crate::mix(9, step);
            let i = (word % 20) as u32;
            let list = (word >> 16) as u32 % 3;
            models.iter_mut().for_each(|m| m.retain(|&j| j != i));
            match word >> 32 & 3 {
                0 => lists.remove(i),
                1 => {
                    lists.push_front(list, i);
                    models[list as usize].push_front(i);
                }
                _ => {
                    lists.push_back(list, i);
                    models[list as usize].push_back(i);
                }
            }
            let second: Vec<u32> = lists.iter(1).collect();
            assert_eq!(second, Vec::from(models[1].clone()), "step {step}");
            let fronts = [0, 1, 2].map(|l| lists.front(l));
            assert_eq!(
                fronts,
                [0, 1, 2].map(|l: usize| models[l].front().copied()),
                "step {step}"
            );
        }
    }
}
