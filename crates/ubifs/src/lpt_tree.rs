//! The LEB properties tree as it lies on the medium, and its next version.
//!
//! *Promises.* [`LptTree::write`] writes the leaves whose blocks changed and everything above them
//! into room that holds nothing, and never where the last commit's tree lies. When little room is
//! left the whole tree is written, so that its old blocks become free. *Power loss.* Blocks that
//! hold nothing in use are given up by [`LptTree::finish`], which comes after the master node.

use crate::blocks::Blocks;
use crate::error::{Result, UbifsError};
use crate::format::{Geometry, LptShape, Ltab, Master, Place};
use crate::lebs::Lebs;
use crate::lpt::Lpt;
use crate::node::Media;
use alloc::collections::BTreeSet;
use alloc::{vec, vec::Vec};

/// Where the nodes of the tree lie.
#[derive(Debug)]
pub(crate) struct LptTree {
    shape: LptShape,
    /// Nodes by level and column; level 0 has the leaves. Nothing for one that was never written.
    places: Vec<Vec<Option<Place>>>,
    ltab: Vec<Ltab>,
    head: Place,
    ltab_at: Option<Place>,
    saved_at: Option<Place>,
    /// Blocks that hold nothing in use, but are not unmapped yet.
    waiting: Vec<u32>,
    /// Times that the whole tree was written, so that its old blocks became free.
    pub moved: u64,
}

/// The bytes of one stretch of a block that are to be written.
struct Stretch {
    lnum: u32,
    offs: u32,
    bytes: Vec<u8>,
}

/// Finds space for the nodes of one commit.
struct Layout {
    leb: u32,
    min_io: u32,
    first: u32,
    /// Blocks that may be written.
    free: Vec<u32>,
    stretches: Vec<Stretch>,
}

impl Layout {
    /// Takes space for a node.
    fn place(&mut self, len: usize, ltab: &mut [Ltab]) -> Result<Place> {
        let last = self.stretches.last();
        let end = last.map(|one| one.offs + one.bytes.len() as u32);
        if end.is_none_or(|end| end + len as u32 > self.leb) {
            self.close(ltab);
            let Some(lnum) = self.free.pop() else {
                return Err(UbifsError::Full);
            };
            let bytes = Vec::new();
            let offs = 0;
            self.stretches.push(Stretch { lnum, offs, bytes });
        }
        let Some(stretch) = self.stretches.last_mut() else {
            return Err(UbifsError::Full);
        };
        let offs = stretch.offs + stretch.bytes.len() as u32;
        stretch.bytes.resize(stretch.bytes.len() + len, 0);
        Ok((stretch.lnum, offs))
    }

    /// Ends the stretch at a whole write.
    fn close(&mut self, ltab: &mut [Ltab]) {
        if let Some(stretch) = self.stretches.last_mut() {
            let end = stretch.offs + stretch.bytes.len() as u32;
            let padded = end.next_multiple_of(self.min_io);
            stretch.bytes.resize((padded - stretch.offs) as usize, 0xFF);
            let own = &mut ltab[(stretch.lnum - self.first) as usize];
            own.free = self.leb - padded;
            own.dirty += padded - end;
        }
    }

    fn fill(&mut self, (lnum, offs): Place, node: &[u8]) {
        let here = |one: &&mut Stretch| one.lnum == lnum && one.offs <= offs;
        if let Some(stretch) = self.stretches.iter_mut().rev().find(here) {
            let at = (offs - stretch.offs) as usize;
            stretch.bytes[at..at + node.len()].copy_from_slice(node);
        }
    }
}

impl LptTree {
    /// A tree of which nothing was written.
    pub fn new(shape: LptShape, here: &Geometry) -> Self {
        let levels = 0..=shape.height;
        let places = levels.map(|level| vec![None; shape.nodes(level) as usize]);
        let empty = Ltab {
            free: here.leb,
            dirty: 0,
        };
        Self {
            places: places.collect(),
            ltab: vec![empty; shape.lebs as usize],
            head: (shape.first, 0),
            ltab_at: None,
            saved_at: None,
            waiting: Vec::new(),
            moved: 0,
            shape,
        }
    }

    /// The tree of the last commit.
    pub fn known(shape: LptShape, here: &Geometry, master: &Master, lpt: &Lpt) -> Option<Self> {
        let mut tree = Self::new(shape, here);
        tree.ltab = lpt.ltab.clone()?;
        tree.head = master.lpt_head;
        tree.ltab_at = Some(master.ltab);
        tree.saved_at = shape.is_big.then_some(master.saved);
        for (level, column, place) in &lpt.places {
            tree.places[*level as usize][*column as usize] = Some(*place);
        }
        Some(tree)
    }

    fn own(&mut self, lnum: u32) -> &mut Ltab {
        &mut self.ltab[(lnum - self.shape.first) as usize]
    }

    fn node_bytes(&self, level: usize) -> usize {
        match level {
            0 => self.shape.pnode_bytes(),
            _ => self.shape.nnode_bytes(),
        }
    }

    /// Bytes that can be written before a block has to become free.
    fn room(&self, leb: u32) -> u64 {
        let (lnum, offs) = self.head;
        let others = (self.shape.first..).zip(&self.ltab);
        let free = others.filter(|(other, own)| *other != lnum && own.free == leb);
        u64::from(leb - offs) + free.map(|(_, own)| u64::from(own.free)).sum::<u64>()
    }

    /// Nodes to be written, by levels.
    fn dirty(&mut self, leaves: BTreeSet<u32>, leb: u32) -> Vec<BTreeSet<u32>> {
        let is_new = self.ltab_at.is_none();
        if is_new || self.room(leb) <= 2 * self.shape.whole_bytes() {
            self.moved += u64::from(!is_new);
            let all = self.places.iter();
            return all.map(|level| (0..level.len() as u32).collect()).collect();
        }
        let mut levels = Vec::from([leaves]);
        for _ in 1..self.places.len() {
            let below = levels.last().into_iter().flatten();
            let above = below.map(|column| column / 4).collect();
            levels.push(above);
        }
        levels
    }

    /// Writes what changed, and puts the places into the master node.
    pub fn write<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        blocks: &mut Blocks,
        master: &mut Master,
    ) -> Result<()> {
        let here = media.geometry();
        let mut layout = self.layout(&here);
        let mut dirty = self.dirty(blocks.take_changed(), here.leb);
        if let Some(root) = dirty.last_mut() {
            root.insert(0);
        }
        self.forget(&dirty);
        if self.shape.is_big {
            self.saved_at = Some(layout.place(self.shape.saved_bytes(), &mut self.ltab)?);
        }
        self.ltab_at = Some(layout.place(self.shape.ltab_bytes(), &mut self.ltab)?);
        for (level, columns) in dirty.iter().enumerate() {
            let len = self.node_bytes(level);
            for column in columns {
                let place = layout.place(len, &mut self.ltab)?;
                self.places[level][*column as usize] = Some(place);
            }
        }
        layout.close(&mut self.ltab);
        self.collect(&layout, here.leb);
        self.fill(&mut layout, &dirty, blocks);
        for stretch in &layout.stretches {
            let Stretch { lnum, offs, bytes } = stretch;
            if *offs == 0 {
                media.renew(*lnum)?;
            }
            if !bytes.is_empty() {
                media.write(*lnum, *offs, bytes)?;
            }
        }
        if let Some(last) = layout.stretches.last() {
            self.head = (last.lnum, last.offs + last.bytes.len() as u32);
        }
        self.put_places(master);
        Ok(())
    }

    /// Room from the head on, then in blocks that hold nothing.
    fn layout(&self, here: &Geometry) -> Layout {
        let (lnum, offs) = self.head;
        let all = (self.shape.first..).zip(&self.ltab);
        let free = all.filter(|(other, own)| own.free == here.leb && *other != lnum);
        let mut free: Vec<u32> = free.map(|(other, _)| other).collect();
        // The next ones round the area come first.
        free.sort_by_key(|other| core::cmp::Reverse((*other < lnum, *other)));
        let bytes = Vec::new();
        Layout {
            leb: here.leb,
            min_io: here.min_io,
            first: self.shape.first,
            free,
            stretches: Vec::from([Stretch { lnum, offs, bytes }]),
        }
    }

    /// Old versions of what is written are in no use.
    fn forget(&mut self, dirty: &[BTreeSet<u32>]) {
        for (level, columns) in dirty.iter().enumerate() {
            let len = self.node_bytes(level) as u32;
            for column in columns {
                let old = self.places[level][*column as usize];
                if let Some((lnum, _)) = old {
                    self.own(lnum).dirty += len;
                }
            }
        }
        let tables = [
            (self.ltab_at, self.shape.ltab_bytes()),
            (self.saved_at, self.shape.saved_bytes()),
        ];
        for (place, len) in tables {
            if let Some((lnum, _)) = place {
                self.own(lnum).dirty += len as u32;
            }
        }
    }

    /// Counts blocks as free that hold nothing in use any more.
    fn collect(&mut self, layout: &Layout, leb: u32) {
        let written: Vec<u32> = layout.stretches.iter().map(|one| one.lnum).collect();
        for (lnum, own) in (self.shape.first..).zip(&mut self.ltab) {
            let is_dead = own.dirty > 0 && own.free + own.dirty == leb;
            if is_dead && !written.contains(&lnum) {
                *own = Ltab {
                    free: leb,
                    dirty: 0,
                };
                self.waiting.push(lnum);
            }
        }
    }

    fn fill(&self, layout: &mut Layout, dirty: &[BTreeSet<u32>], blocks: &Blocks) {
        for (level, columns) in dirty.iter().enumerate() {
            for column in columns {
                let Some(place) = self.places[level][*column as usize] else {
                    continue;
                };
                layout.fill(place, &self.packed(level, *column, blocks));
            }
        }
        if let Some(place) = self.ltab_at {
            layout.fill(place, &self.shape.ltab(&self.ltab));
        }
        if let Some(place) = self.saved_at {
            layout.fill(place, &self.shape.saved(self.worth_saving(blocks)));
        }
    }

    fn packed(&self, level: usize, column: u32, blocks: &Blocks) -> Vec<u8> {
        if level == 0 {
            return self.shape.pnode(column, &blocks.four(column));
        }
        let below = &self.places[level - 1];
        let mut children = [None; 4];
        for (child, place) in (4 * column as usize..).zip(&mut children) {
            *place = below.get(child).copied().flatten();
        }
        let number = self.number(level, column);
        self.shape.nnode(number, &children)
    }

    /// The number of a node above the leaves.
    fn number(&self, level: usize, column: u32) -> u32 {
        let mut number = 1;
        for above in (level as u32 + 1..=self.shape.height).rev() {
            let child = column >> (2 * (above - level as u32 - 1)) & 3;
            number = self.shape.nnode_number(number, above, child);
        }
        number
    }

    /// Blocks that the next mount should know first.
    fn worth_saving(&self, blocks: &Blocks) -> Vec<u32> {
        let with_space = blocks
            .all()
            .filter(|(_, props)| props.free + props.dirty > 0);
        let found = with_space.map(|(lnum, _)| lnum);
        let filler = core::iter::repeat(self.shape.main_first);
        found
            .chain(filler)
            .take(self.shape.saved as usize)
            .collect()
    }

    fn put_places(&self, master: &mut Master) {
        let root = self.places.last().and_then(|level| level.first().copied());
        master.lpt_root = root.flatten().unwrap_or_default();
        master.lpt_head = self.head;
        master.ltab = self.ltab_at.unwrap_or_default();
        master.saved = self.saved_at.unwrap_or_default();
    }

    /// Gives up blocks that only older commits use.
    pub fn finish<L: Lebs>(&mut self, media: &mut Media<L>) -> Result<()> {
        let waiting = core::mem::take(&mut self.waiting);
        waiting.into_iter().try_for_each(|lnum| media.unmap(lnum))
    }
}
