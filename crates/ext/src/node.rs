//! Inodes in use: who refers to them, and whether they have a name.
//!
//! *Promises.* An inode is here while it is referred to or has lost its last name. *Knows nothing
//! of* what inodes hold: that is in their table.

use alloc::{collections::BTreeMap, vec::Vec};

/// Whether an inode has names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    #[default]
    Named,
    /// The last name is gone, but not on the medium.
    Leaving,
    /// It lives only as long as it is referred to.
    Nameless,
}

/// An inode in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    pub references: u64,
    pub life: Life,
    /// The next block that a writer in order will want, and where it would best lie.
    goal: (u64, u32),
}

/// Inodes in use, by number.
#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<u32, Node>);

impl Nodes {
    pub fn get(&self, number: u32) -> Option<&Node> {
        self.0.get(&number)
    }

    pub fn refer(&mut self, number: u32) {
        self.0.entry(number).or_default().references += 1;
    }

    /// Gives references back; says whether there are none now.
    pub fn forget(&mut self, number: u32, references: u64) -> bool {
        let Some(node) = self.0.get_mut(&number) else {
            return false;
        };
        node.references = node.references.saturating_sub(references);
        node.references == 0
    }

    pub fn set_life(&mut self, number: u32, life: Life) {
        self.0.entry(number).or_default().life = life;
    }

    pub fn drop(&mut self, number: u32) {
        self.0.remove(&number);
    }

    /// Inodes in this state.
    pub fn in_life(&self, life: Life) -> Vec<u32> {
        self.0
            .iter()
            .filter(|(_, node)| node.life == life)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Where a block would best lie; 0 where nothing is known.
    pub fn goal(&self, number: u32, index: u64) -> u32 {
        self.0
            .get(&number)
            .filter(|node| node.goal.0 == index)
            .map_or(0, |node| node.goal.1)
    }

    pub fn set_goal(&mut self, number: u32, index: u64, goal: u32) {
        if let Some(node) = self.0.get_mut(&number) {
            node.goal = (index, goal);
        }
    }
}
