//! Which blocks of names must reach the medium before which, where there is no journal: a name's
//! new place before its old one is gone.
//!
//! *Promises.* What is asked for never goes in a circle. *Knows nothing of* names.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

/// Pairs of blocks: the first before the second.
#[derive(Debug, Default)]
pub(crate) struct Order {
    after: BTreeMap<u32, BTreeSet<u32>>,
}

impl Order {
    /// Asks that `first` goes before `then`; false, and nothing asked, if the opposite was asked
    /// for before.
    pub fn ask(&mut self, first: u32, then: u32) -> bool {
        if first == then || self.leads(then, first) {
            return false;
        }
        self.after.entry(first).or_default().insert(then);
        true
    }

    fn leads(&self, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::new();
        let mut ways = vec![from];
        while let Some(at) = ways.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                ways.extend(self.after.get(&at).into_iter().flatten());
            }
        }
        false
    }

    /// Sorts blocks into groups: each before the next.
    pub fn groups(&self, blocks: &[u32]) -> Vec<Vec<u32>> {
        let mut left: BTreeSet<u32> = blocks.iter().copied().collect();
        let mut groups = Vec::new();
        while !left.is_empty() {
            let later: BTreeSet<u32> = left
                .iter()
                .filter_map(|block| self.after.get(block))
                .flatten()
                .copied()
                .collect();
            let group: Vec<u32> = left.difference(&later).copied().collect();
            if group.is_empty() {
                // Cannot be, there is no circle; if it were, all would go at once.
                groups.push(left.iter().copied().collect());
                break;
            }
            left.retain(|block| later.contains(block));
            groups.push(group);
        }
        groups
    }

    /// All of it is on the medium.
    pub fn clear(&mut self) {
        self.after.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_refused_and_groups_follow_the_order() {
        let mut order = Order::default();
        assert!(order.ask(5, 3) && order.ask(3, 9) && order.ask(5, 9));
        assert!(!order.ask(9, 5) && !order.ask(4, 4));
        assert_eq!(order.groups(&[1, 3, 5, 9]), [vec![1, 5], vec![3], vec![9]]);
        order.clear();
        assert!(order.ask(9, 5));
    }
}
