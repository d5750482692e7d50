//! A queue of small numbers, each in it at most once, with removal from the middle in O(1).

use alloc::{vec, vec::Vec};

const NIL: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Queue {
    /// Next and previous of each number; the last entry is the ends of the queue. A number that is not queued points nowhere.
    links: Vec<[u32; 2]>,
}

impl Queue {
    /// For numbers below `n`.
    pub fn new(n: u32) -> Self {
        let mut links = vec![[NIL; 2]; n as usize + 1];
        links[n as usize] = [n; 2];
        Self { links }
    }

    fn end(&self) -> u32 {
        self.links.len() as u32 - 1
    }

    pub fn front(&self) -> Option<u32> {
        let first = self.links[self.end() as usize][0];
        (first != self.end()).then_some(first)
    }

    /// Puts a number at the back, wherever it was.
    #[inline]
    pub fn push_back(&mut self, i: u32) {
        self.remove(i);
        let end = self.end();
        let last = self.links[end as usize][1];
        self.links[i as usize] = [end, last];
        self.links[last as usize][0] = i;
        self.links[end as usize][1] = i;
    }

    /// Takes a number out, if it is in.
    #[inline]
    pub fn remove(&mut self, i: u32) {
        let [next, prev] = self.links[i as usize];
        if next != NIL {
            self.links[next as usize][1] = prev;
            self.links[prev as usize][0] = next;
            self.links[i as usize] = [NIL; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn it_behaves_like_a_list() {
        let mut queue = Queue::new(20);
        let mut list = VecDeque::new();
        for step in 0..10_000 {
            let word = nandlab_sim::mix(9, step);
            let i = (word % 20) as u32;
            list.retain(|&j| j != i);
            if word >> 32 & 1 == 0 {
                queue.push_back(i);
                list.push_back(i);
            } else {
                queue.remove(i);
            }
            assert_eq!(queue.front(), list.front().copied(), "step {step}");
        }
    }
}
