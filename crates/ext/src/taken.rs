//! The used blocks of a new volume, and where mke2fs looks for free ones
//! (e2fsprogs `lib/ext2fs/alloc_tables.c`).
//!
//! *Promises.* Memory is bounded by the runs of taken blocks. *Knows nothing of* what blocks hold.

use crate::{format::Layout, groups::Group};
use alloc::{collections::BTreeMap, vec::Vec};

/// Runs of taken blocks that do not touch: the first of each, and the one behind it.
#[derive(Debug, Default)]
pub(crate) struct Taken(BTreeMap<u32, u32>);

impl Taken {
    pub fn mark(&mut self, first: u32, count: u32) {
        let mut start = first;
        let mut end = first + count;
        if let Some((before, behind)) = self.0.range(..=first).next_back()
            && *behind >= first
        {
            (start, end) = (*before, end.max(*behind));
        }
        while let Some((next, behind)) = self.0.range(start..=end).next() {
            let next = *next;
            end = end.max(*behind);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
    }

    /// The end of the run that a block is in; the block itself if it is free.
    pub fn behind(&self, block: u32) -> u32 {
        let run = self.0.range(..=block).next_back();
        run.map_or(block, |(_, end)| block.max(*end))
    }

    /// The first taken block from `block` on; `u32::MAX` if there is none.
    pub fn next(&self, block: u32) -> u32 {
        let next = self.0.range(block..).next();
        next.map_or(u32::MAX, |(next, _)| *next)
    }

    /// The first of `count` free blocks in a row that begin before `end`.
    pub fn free(&self, from: u32, end: u32, count: u32) -> Option<u32> {
        let mut at = self.behind(from);
        while at < end {
            let next = self.next(at);
            if next - at >= count {
                return Some(at);
            }
            at = self.behind(next);
        }
        None
    }

    /// The taken blocks of a range, as runs.
    pub fn runs(&self, from: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
        let first = self.0.range(..from).next_back();
        let runs = first.into_iter().chain(self.0.range(from..end));
        runs.map(move |(start, behind)| ((*start).max(from), (*behind).min(end)))
            .filter(|(start, behind)| start < behind)
    }

    pub fn count(&self, from: u32, end: u32) -> u32 {
        self.runs(from, end)
            .map(|(start, behind)| behind - start)
            .sum()
    }
}

/// Where each group's bitmaps and table lie in a new volume, all marked as taken; none if they do
/// not fit.
pub(crate) fn place(layout: &Layout, flex: u32, taken: &mut Taken) -> Option<Vec<Group>> {
    for group in 0..layout.groups {
        if layout.header(group) > 0 {
            taken.mark(layout.group_start(group), layout.header(group));
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for group in 0..layout.groups {
        let before = (group % flex > 0).then(|| groups[group as usize - 1]);
        let last = (group / flex * flex)
            .saturating_add(flex - 1)
            .min(layout.groups - 1);
        let first = group / flex * flex;
        let span = Span {
            start: layout.group_start(first),
            end: layout.group_start(last) + layout.group_blocks(last),
            left: last - group + 1,
            gap: if first == last {
                flex
            } else {
                last - first + 1
            },
            most: layout.per_group / 4,
        };
        let table = layout.table_blocks();
        let goal = before.map_or(0, |before| before.block_bitmap + 1);
        let block_bitmap = span.take(taken, goal, 1)?;
        let goal = before.map_or(block_bitmap + span.gap, |before| before.inode_bitmap + 1);
        let inode_bitmap = span.take(taken, goal, 1)?;
        let goal = before.map_or(inode_bitmap + span.gap, |before| before.table + table);
        groups.push(Group {
            block_bitmap,
            inode_bitmap,
            table: span.take(taken, goal, table)?,
            ..Group::default()
        });
    }
    Some(groups)
}

/// The blocks of a flexible group, and how many of its groups are not placed.
struct Span {
    start: u32,
    end: u32,
    left: u32,
    /// From the first bitmap of one kind to the next kind: the groups, but whole for a single one.
    gap: u32,
    most: u32,
}

impl Span {
    /// Takes blocks at the goal, or where there is space for those of all groups that are left, or
    /// where they fit.
    fn take(&self, taken: &mut Taken, goal: u32, count: u32) -> Option<u32> {
        let is_free = |at: u32| at > 0 && taken.free(at, at + 1, count) == Some(at);
        let all = self.left.saturating_mul(count).min(self.most);
        let found = match is_free(goal) {
            true => Some(goal),
            false => taken.free(self.start, self.end, all),
        };
        let found = found.or_else(|| taken.free(self.start, self.end, count));
        let found = found.filter(|at| at + count <= self.end)?;
        taken.mark(found, count);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_gaps_are_found() {
        let mut taken = Taken::default();
        taken.mark(5, 3);
        taken.mark(10, 2);
        assert_eq!(
            (taken.free(0, 20, 5), taken.free(4, 20, 2)),
            (Some(0), Some(8))
        );
        taken.mark(8, 2);
        assert_eq!(taken.runs(0, 100).collect::<Vec<_>>(), [(5, 12)]);
        assert_eq!(
            (taken.behind(6), taken.behind(12), taken.count(7, 11)),
            (12, 12, 4)
        );
        assert_eq!(taken.free(5, 12, 1), None);
    }
}
