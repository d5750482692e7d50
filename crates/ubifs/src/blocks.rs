//! The blocks of the main area in memory: how much of each is free and dirty, and which of them are
//! not to be given out.
//!
//! *Knows nothing of* the medium: the tree of properties is written by `lpt_tree`.

use crate::format::{Branch, Geometry, Props, Space, align8};
use alloc::collections::BTreeSet;
use alloc::{vec, vec::Vec};

/// The blocks of the main area.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    first: u32,
    leb: u32,
    props: Vec<Props>,
    /// Blocks of the journal, and the one that collection keeps.
    taken: Vec<bool>,
    /// Blocks whose properties the medium does not have.
    changed: BTreeSet<u32>,
}

impl Blocks {
    pub fn new(here: &Geometry, props: Vec<Props>) -> Self {
        Self {
            first: here.main_first(),
            leb: here.leb,
            taken: vec![false; props.len()],
            props,
            changed: BTreeSet::new(),
        }
    }

    fn at(&self, lnum: u32) -> usize {
        (lnum - self.first) as usize
    }

    pub fn get(&self, lnum: u32) -> Props {
        self.props[self.at(lnum)]
    }

    pub fn set(&mut self, lnum: u32, props: Props) {
        let at = self.at(lnum);
        if self.props[at] != props {
            self.props[at] = props;
            self.changed.insert(at as u32);
        }
    }

    /// A node of a block is not in use any more.
    pub fn obsolete(&mut self, node: Branch) {
        let mut props = self.get(node.lnum);
        props.dirty += align8(node.len);
        self.set(node.lnum, props);
    }

    /// The block was written up to `end`; `waste` of that is in no use.
    pub fn written(&mut self, lnum: u32, end: u32, waste: u32) {
        let mut props = self.get(lnum);
        props.free = self.leb - end;
        props.dirty += waste;
        self.set(lnum, props);
    }

    /// The same of a block of the index.
    pub fn index_written(&mut self, lnum: u32, end: u32, waste: u32) {
        self.written(lnum, end, waste);
        let at = self.at(lnum);
        self.props[at].is_index = true;
    }

    /// Keeps so many of the first blocks.
    pub fn truncate(&mut self, lebs: u32) {
        self.props.truncate(lebs as usize);
        self.taken.truncate(lebs as usize);
    }

    /// The block holds nothing any more.
    pub fn emptied(&mut self, lnum: u32) {
        self.set(lnum, Props::empty(self.leb));
    }

    pub fn take(&mut self, lnum: u32) {
        let at = self.at(lnum);
        self.taken[at] = true;
    }

    pub fn release(&mut self, lnum: u32) {
        let at = self.at(lnum);
        self.taken[at] = false;
    }

    /// Blocks that may be given out, with their properties.
    pub fn idle(&self) -> impl Iterator<Item = (u32, Props)> + '_ {
        let all = (self.first..).zip(&self.props).zip(&self.taken);
        let idle = all.filter(|(_, taken)| !**taken);
        idle.map(|((lnum, props), _)| (lnum, *props))
    }

    /// Returns all blocks of the main area with their properties.
    pub fn all(&self) -> impl Iterator<Item = (u32, Props)> + '_ {
        let props = self.props.iter().copied();
        (self.first..).zip(props)
    }

    pub fn empties(&self) -> u32 {
        self.idle()
            .filter(|(_, props)| props.free == self.leb)
            .count() as u32
    }

    pub fn empty(&self) -> Option<u32> {
        let mut idle = self.idle();
        let found = idle.find(|(_, props)| props.free == self.leb);
        found.map(|(lnum, _)| lnum)
    }

    /// A block that is partly written and has `len` bytes left: the one with the most.
    pub fn partial(&self, len: u32) -> Option<(u32, Props)> {
        let fits = |props: &Props| !props.is_index && (len..self.leb).contains(&props.free);
        let idle = self.idle().filter(|(_, props)| fits(props));
        idle.max_by_key(|(_, props)| props.free)
    }

    /// Blocks without nodes in use that are not empty.
    pub fn reclaimable(&self, is_index: bool) -> Vec<u32> {
        let fits = |props: &Props| {
            props.is_index == is_index
                && props.free < self.leb
                && props.free + props.dirty == self.leb
        };
        let idle = self.idle().filter(|(_, props)| fits(props));
        idle.map(|(lnum, _)| lnum).collect()
    }

    pub fn space(&self, here: &Geometry) -> Space {
        let mut space = Space::default();
        let props = self.props.iter();
        props.for_each(|props| space.add(*props, here));
        space
    }

    /// The properties of four blocks from `4 * leaf` on.
    pub fn four(&self, leaf: u32) -> [Props; 4] {
        let empty = Props::empty(self.leb);
        let mut four = [empty; 4];
        let known = self.props.iter().skip(4 * leaf as usize);
        four.iter_mut()
            .zip(known)
            .for_each(|(to, from)| *to = *from);
        four
    }

    /// Leaves of the tree with blocks whose properties changed, reported once.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        let changed = core::mem::take(&mut self.changed);
        changed.into_iter().map(|at| at / 4).collect()
    }
}
