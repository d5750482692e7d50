//! Which node holds which part of a file: fragments in the order of the file.
//!
//! *Promises.* Fragments do not overlap; what none covers are zeros. A node is in the tree as long
//! as some byte of it is to be seen. *Knows nothing of* the medium: nodes are their places. Source:
//! fs/jffs2/nodelist.c.

use crate::format::PAGE;
use alloc::{collections::BTreeMap, vec::Vec};

/// What a node covers, and in how many fragments it is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u32,
    pub len: u32,
    pub fragments: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub start: u32,
    pub end: u32,
    /// The place of the node in the flash.
    pub node: u32,
}

/// What a change of the tree means for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Nothing of them is to be seen any more.
    pub gone: Vec<u32>,
    /// They share pages with others now.
    pub shared: Vec<u32>,
}

/// The fragments of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// By start: end and node.
    fragments: BTreeMap<u32, (u32, u32)>,
    nodes: BTreeMap<u32, Span>,
}

impl Tree {
    /// Where the last fragment ends.
    pub fn end(&self) -> u32 {
        self.fragments
            .last_key_value()
            .map_or(0, |(_, (end, _))| *end)
    }

    pub fn span(&self, node: u32) -> Option<Span> {
        self.nodes.get(&node).copied()
    }

    #[cfg(test)]
    pub fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.keys().copied()
    }

    /// The fragment that has the byte, or the first behind it.
    pub fn at_or_after(&self, at: u32) -> Option<Fragment> {
        let before = self
            .fragments
            .range(..=at)
            .next_back()
            .filter(|(_, (end, _))| *end > at);
        before
            .or_else(|| self.fragments.range(at..).next())
            .map(|(start, (end, node))| Fragment {
                start: *start,
                end: *end,
                node: *node,
            })
    }

    /// The last fragment that begins before `at`.
    pub fn before(&self, at: u32) -> Option<Fragment> {
        self.fragments
            .range(..at)
            .next_back()
            .map(|(start, (end, node))| Fragment {
                start: *start,
                end: *end,
                node: *node,
            })
    }

    /// Where the first fragment of a node begins and the last ends.
    pub fn seen(&self, node: u32) -> Option<(u32, u32)> {
        let span = self.span(node)?;
        let end = span.start.saturating_add(span.len);
        let mut own = self
            .fragments
            .range(span.start..end)
            .filter(|(_, (_, other))| *other == node);
        let (start, (first_end, _)) = own.next()?;
        Some((
            *start,
            own.next_back().map_or(*first_end, |(_, (end, _))| *end),
        ))
    }

    /// The parts of the file in which a node is to be seen.
    pub fn parts(&self, node: u32) -> Vec<(u32, u32)> {
        let Some((start, end)) = self.seen(node) else {
            return Vec::new();
        };
        let parts = self.fragments.range(start..end);
        let parts = parts.filter(|(_, (_, other))| *other == node);
        parts.map(|(start, (end, _))| (*start, *end)).collect()
    }

    /// A newer node covers `len` bytes from `start` on.
    pub fn insert(&mut self, node: u32, start: u32, len: u32, effects: &mut Effects) {
        if len == 0 {
            return;
        }
        let end = start.saturating_add(len);
        self.cut(start, end, effects);
        self.fragments.insert(start, (end, node));
        self.nodes.insert(
            node,
            Span {
                start,
                len,
                fragments: 1,
            },
        );
        self.note_neighbours(node, start, end, effects);
    }

    /// Nodes that lie in one page are to be merged one day.
    fn note_neighbours(&mut self, node: u32, start: u32, end: u32, effects: &mut Effects) {
        if !start.is_multiple_of(PAGE) {
            effects.shared.push(node);
            effects.shared.extend(
                self.before(start)
                    .filter(|left| left.end > start - start % PAGE)
                    .map(|left| left.node),
            );
        }
        let right = self
            .fragments
            .range(end..)
            .next()
            .map(|(at, (_, other))| (*at, *other));
        if let Some((at, other)) = right
            && !end.is_multiple_of(PAGE)
            && at / PAGE == end / PAGE
        {
            effects.shared.extend([node, other]);
        }
    }

    /// Takes everything from `start` to `end` out.
    fn cut(&mut self, start: u32, end: u32, effects: &mut Effects) {
        if let Some(left) = self.before(start).filter(|left| left.end > start) {
            self.fragments.insert(left.start, (start, left.node));
            effects.shared.push(left.node);
            if left.end > end {
                self.fragments.insert(end, (left.end, left.node));
                self.add_fragments(left.node, 1);
            }
        }
        while let Some((at, (its_end, node))) = self
            .fragments
            .range(start..end)
            .next()
            .map(|(at, rest)| (*at, *rest))
        {
            self.fragments.remove(&at);
            if its_end > end {
                self.fragments.insert(end, (its_end, node));
                effects.shared.push(node);
            } else {
                self.drop_fragment(node, effects);
            }
        }
    }

    fn add_fragments(&mut self, node: u32, more: u32) {
        if let Some(span) = self.nodes.get_mut(&node) {
            span.fragments += more;
        }
    }

    fn drop_fragment(&mut self, node: u32, effects: &mut Effects) {
        let Some(span) = self.nodes.get_mut(&node) else {
            return;
        };
        span.fragments -= 1;
        if span.fragments == 0 {
            self.nodes.remove(&node);
            effects.gone.push(node);
        } else {
            effects.shared.push(node);
        }
    }

    /// Nothing from `len` on.
    pub fn truncate(&mut self, len: u32, effects: &mut Effects) {
        if let Some(left) = self.before(len).filter(|left| left.end > len) {
            self.fragments.insert(left.start, (len, left.node));
        }
        while let Some((at, (_, node))) = self
            .fragments
            .range(len..)
            .next()
            .map(|(at, rest)| (*at, *rest))
        {
            self.fragments.remove(&at);
            self.drop_fragment(node, effects);
        }
    }

    /// A node has moved.
    pub fn rename(&mut self, old: u32, new: u32) {
        let Some(span) = self.nodes.remove(&old) else {
            return;
        };
        for (_, (_, node)) in self
            .fragments
            .range_mut(span.start..span.start.saturating_add(span.len))
        {
            if *node == old {
                *node = new;
            }
        }
        self.nodes.insert(new, span);
    }
}

/// Ranges of a file that newer nodes cover.
#[derive(Debug, Default)]
pub(crate) struct Covered(BTreeMap<u32, u32>);

impl Covered {
    pub fn has(&self, start: u32, end: u32) -> bool {
        self.0
            .range(..=start)
            .next_back()
            .is_some_and(|(_, its_end)| *its_end >= end)
    }

    /// Parts of a range that are not covered.
    pub fn gaps(&self, start: u32, end: u32) -> Vec<(u32, u32)> {
        let before = self.0.range(..=start).next_back();
        let mut at = before.map_or(start, |(_, its_end)| start.max(*its_end));
        let mut gaps = Vec::new();
        while at < end {
            let next = self.0.range(at..end).next();
            let (begin, its_end) = next.map_or((end, end), |(begin, its_end)| (*begin, *its_end));
            if begin > at {
                gaps.push((at, begin));
            }
            at = its_end;
        }
        gaps
    }

    pub fn add(&mut self, mut start: u32, mut end: u32) {
        if start >= end {
            return;
        }
        if let Some((at, its_end)) = self
            .0
            .range(..start)
            .next_back()
            .filter(|(_, its_end)| **its_end >= start)
        {
            (start, end) = (*at, end.max(*its_end));
        }
        while let Some((at, its_end)) = self
            .0
            .range(start..=end)
            .next()
            .map(|(at, its_end)| (*at, *its_end))
        {
            self.0.remove(&at);
            end = end.max(its_end);
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Byte by byte: which node is to be seen.
    fn bytes(tree: &Tree) -> Vec<u32> {
        let mut all = vec![0; tree.end() as usize];
        let mut at = 0;
        while let Some(f) = tree.at_or_after(at) {
            all[f.start as usize..f.end as usize].fill(f.node);
            at = f.end;
        }
        all
    }

    #[test]
    fn newer_nodes_hide_older_ones_byte_by_byte() {
        let mut tree = Tree::default();
        let mut expected = vec![0u32; 20_000];
        let mut spans = BTreeMap::new();
        for step in 0..3000u64 {
            let word = nandlab_sim::mix(9, step);
            let start = (word % 15_000) as u32;
            let len = (word >> 32) as u32 % 4900 + 1;
            let node = step as u32 + 1;
            let mut effects = Effects::default();
            if step % 50 == 49 {
                tree.truncate(start, &mut effects);
                expected[start as usize..].fill(0);
            } else {
                tree.insert(node, start, len, &mut effects);
                expected[start as usize..(start + len) as usize].fill(node);
                spans.insert(node, (start, len));
            }
            let mut found = bytes(&tree);
            found.resize(expected.len(), 0);
            assert_eq!(found, expected, "step {step}");
            spans.retain(|node, _| !effects.gone.contains(node));
            assert_eq!(
                tree.nodes().collect::<Vec<_>>(),
                spans.keys().copied().collect::<Vec<_>>(),
                "step {step}"
            );
            for node in tree.nodes() {
                let seen = tree.seen(node).unwrap();
                let first = expected.iter().position(|other| *other == node).unwrap() as u32;
                let last = expected.iter().rposition(|other| *other == node).unwrap() as u32;
                assert_eq!(seen, (first, last + 1));
            }
        }
    }

    #[test]
    fn a_moved_node_stays_where_it_is_seen() {
        let mut tree = Tree::default();
        let mut effects = Effects::default();
        tree.insert(1, 0, 300, &mut effects);
        tree.insert(2, 100, 100, &mut effects);
        tree.rename(1, 9);
        assert_eq!(
            (tree.span(1), tree.span(9)),
            (
                None,
                Some(Span {
                    start: 0,
                    len: 300,
                    fragments: 2
                })
            )
        );
        assert_eq!(bytes(&tree), [[9; 100], [2; 100], [9; 100]].concat());
        assert!(
            effects.gone.is_empty() && effects.shared.contains(&1) && effects.shared.contains(&2)
        );
    }

    #[test]
    fn ranges_grow_together() {
        let mut covered = Covered::default();
        covered.add(10, 20);
        covered.add(30, 40);
        assert!(covered.has(12, 20) && !covered.has(15, 35) && !covered.has(0, 11));
        assert_eq!(covered.gaps(5, 50), [(5, 10), (20, 30), (40, 50)]);
        assert_eq!(covered.gaps(12, 35), [(20, 30)]);
        assert_eq!((covered.gaps(12, 20), covered.gaps(7, 7)), (vec![], vec![]));
        covered.add(25, 25);
        covered.add(18, 30);
        assert!(covered.has(10, 40) && !covered.has(10, 41));
    }
}
