//! The places of the index nodes that a commit writes.
//!
//! *Promises.* New nodes go behind one another into empty blocks. Without an empty block they go
//! between the nodes of blocks that the index has, as in Linux's `layout_in_gaps`. *Power loss.*
//! Nodes of the last commit keep their bytes: one change writes a whole block with gaps.

use crate::blocks::Blocks;
use crate::bug::SeededBug;
use crate::error::{Result, UbifsError};
use crate::format::draft::{append, pad, pad_to};
use crate::format::{Branch, Draft, Group, Place, Props, align8};
use crate::lebs::Lebs;
use crate::node::Media;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The outcome of a commit of the index.
pub(crate) struct Done {
    pub sqnum: u64,
    pub head: Place,
    /// Bytes of the written nodes.
    pub written: u64,
    pub gaps_filled: u64,
}

/// Writes index nodes.
pub(crate) struct IndexOut<'a, L> {
    media: &'a mut Media<L>,
    blocks: &'a mut Blocks,
    done: Done,
    bytes: Vec<u8>,
    /// Nodes of the last commit.
    kept: Vec<Branch>,
    gaps: Option<Gaps>,
    /// Index blocks that still have gaps, with the nodes of each; `None` before the first look.
    left: Option<BTreeMap<u32, Vec<Branch>>>,
    /// Blocks without gaps: the head of the last commit, and those that this commit began.
    heads: Vec<u32>,
    prefers_gaps: bool,
}

impl<'a, L: Lebs> IndexOut<'a, L> {
    pub fn new(
        media: &'a mut Media<L>,
        blocks: &'a mut Blocks,
        sqnum: u64,
        head: Place,
        kept: Vec<Branch>,
    ) -> Self {
        Self {
            media,
            blocks,
            done: Done {
                sqnum,
                head,
                written: 0,
                gaps_filled: 0,
            },
            bytes: Vec::new(),
            kept,
            gaps: None,
            left: None,
            heads: Vec::from([head.0]),
            prefers_gaps: false,
        }
    }

    /// Fills gaps first, although blocks may be empty.
    pub fn preferring_gaps(mut self, prefers_gaps: bool) -> Self {
        self.prefers_gaps = prefers_gaps;
        self
    }

    /// Takes a node, and returns its place.
    pub fn place(&mut self, node: Draft) -> Result<Branch> {
        let len = node.len();
        self.done.sqnum += 1;
        self.done.written += u64::from(align8(len));
        let node = node.seal(self.done.sqnum, Group::None);
        if self.prefers_gaps
            && let Some(place) = self.place_in_gap(&node)?
        {
            return Ok(place);
        }
        if self.has_room(align8(len))? {
            return Ok(self.place_at_head(&node));
        }
        self.place_in_gap(&node)?.ok_or(UbifsError::Full)
    }

    /// Makes sure that the head takes `bytes`. Returns `false` if no block is empty.
    fn has_room(&mut self, bytes: u32) -> Result<bool> {
        let end = self.done.head.1 + self.bytes.len() as u32;
        if end + bytes <= self.media.geometry().leb {
            return Ok(true);
        }
        self.close()?;
        let Some(lnum) = self.blocks.empty() else {
            return Ok(false);
        };
        self.media.renew(lnum)?;
        self.done.head = (lnum, 0);
        self.heads.push(lnum);
        Ok(true)
    }

    fn place_at_head(&mut self, node: &[u8]) -> Branch {
        let (lnum, offs) = self.done.head;
        let place = Branch {
            lnum,
            offs: offs + self.bytes.len() as u32,
            len: node.len() as u32,
        };
        append(&mut self.bytes, node);
        // So that it is not given out again.
        let end = offs + self.bytes.len() as u32;
        self.blocks.index_written(lnum, end, 0);
        place
    }

    fn close(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let end = self.bytes.len() as u32;
        pad(&mut self.bytes, self.media.geometry().min_io);
        let padded = self.bytes.len() as u32;
        let (lnum, offs) = self.done.head;
        self.media.write(lnum, offs, &self.bytes)?;
        self.bytes.clear();
        self.done.head.1 += padded;
        self.blocks
            .index_written(lnum, self.done.head.1, padded - end);
        Ok(())
    }

    /// Puts a node into the next gap that takes it. Returns `None` if no gap does.
    fn place_in_gap(&mut self, node: &[u8]) -> Result<Option<Branch>> {
        loop {
            if let Some(place) = self.gaps.as_mut().and_then(|gaps| gaps.place(node)) {
                return Ok(Some(place));
            }
            self.write_gaps()?;
            if !self.open_gaps()? {
                return Ok(None);
            }
        }
    }

    /// Opens the index block with the most unused bytes. Returns `false` if all were open before.
    fn open_gaps(&mut self) -> Result<bool> {
        let mut left = match self.left.take() {
            Some(left) => left,
            None => self.index_blocks(),
        };
        let used = |nodes: &Vec<Branch>| nodes.iter().map(|at| align8(at.len)).sum::<u32>();
        let least = left.iter().min_by_key(|(_, nodes)| used(nodes));
        let least = least.map(|(lnum, _)| *lnum);
        let opened = least.and_then(|lnum| left.remove_entry(&lnum));
        self.left = Some(left);
        let Some((lnum, nodes)) = opened else {
            return Ok(false);
        };
        self.gaps = Some(Gaps {
            lnum,
            bytes: self.media.leb(lnum)?,
            nodes,
            from: 0,
            at: 0,
            filled: 0,
        });
        Ok(true)
    }

    /// Index blocks without heads, with the nodes that the last commit has in each.
    fn index_blocks(&mut self) -> BTreeMap<u32, Vec<Branch>> {
        let heads = &self.heads;
        let idle = self.blocks.idle();
        let index = idle.filter(|(lnum, props)| props.is_index && !heads.contains(lnum));
        let mut all: BTreeMap<u32, Vec<Branch>> =
            index.map(|(lnum, _)| (lnum, Vec::new())).collect();
        self.kept.sort_unstable_by_key(|at| (at.lnum, at.offs));
        for at in &self.kept {
            if let Some(nodes) = all.get_mut(&at.lnum) {
                nodes.push(*at);
            }
        }
        all
    }

    /// Writes the block with gaps if it has new nodes.
    fn write_gaps(&mut self) -> Result<()> {
        let Some(gaps) = self.gaps.take().filter(|gaps| gaps.filled > 0) else {
            return Ok(());
        };
        let here = self.media.geometry();
        let (bytes, used) = gaps.whole(here.min_io);
        self.change(gaps.lnum, &bytes)?;
        self.done.gaps_filled += 1;
        let end = bytes.len() as u32;
        let props = Props {
            free: here.leb - end,
            dirty: end - used,
            is_index: true,
        };
        self.blocks.set(gaps.lnum, props);
        Ok(())
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<()> {
        if self.media.has_bug(SeededBug::UnmapGaps) {
            self.media.unmap(lnum)?;
            return self.media.write(lnum, 0, bytes);
        }
        self.media.change(lnum, bytes)
    }

    /// Writes the rest.
    pub fn finish(mut self) -> Result<Done> {
        self.write_gaps()?;
        self.close()?;
        Ok(self.done)
    }
}

/// An index block with gaps that take nodes.
struct Gaps {
    lnum: u32,
    /// All of its bytes as they lie on the medium.
    bytes: Vec<u8>,
    /// Nodes in use, in the order of their places; new ones join them.
    nodes: Vec<Branch>,
    /// The byte from which on there may be a gap, and the number of the next node behind it.
    from: u32,
    at: usize,
    /// New nodes.
    filled: u32,
}

impl Gaps {
    /// Puts a node into the next gap that takes it.
    fn place(&mut self, node: &[u8]) -> Option<Branch> {
        let leb = self.bytes.len() as u32;
        let len = align8(node.len() as u32);
        loop {
            let next = self.nodes.get(self.at).copied();
            let end = next.map_or(leb, |next| next.offs);
            if self.from + len <= end {
                break;
            }
            self.from = next?.offs + align8(next?.len);
            self.at += 1;
        }
        let place = Branch {
            lnum: self.lnum,
            offs: self.from,
            len: node.len() as u32,
        };
        let offs = place.offs as usize;
        self.bytes[offs..offs + node.len()].copy_from_slice(node);
        self.nodes.insert(self.at, place);
        self.at += 1;
        self.from += len;
        self.filled += 1;
        Some(place)
    }

    /// The bytes of the block with padding between its nodes, and how many of them are nodes.
    fn whole(&self, min_io: u32) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        let mut used = 0;
        for at in &self.nodes {
            let offs = at.offs as usize;
            if bytes.len() < offs {
                pad_to(&mut bytes, offs);
            }
            append(&mut bytes, &self.bytes[offs..offs + at.len as usize]);
            used += align8(at.len);
        }
        pad(&mut bytes, min_io);
        (bytes, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Slot;
    use crate::{Bare, Format, Ubifs, format};
    use nandlab_vfs::model::{Model, Rules};
    use nandlab_vfs::{Caller, FileSystem as _, Ino, NewNode, Time};

    const LEB: u32 = 15_872;

    fn mounted() -> Ubifs<Bare<Vec<u8>>> {
        let bytes = alloc::vec![0xFF; LEB as usize * 400];
        let choices = Format {
            page: Some(512),
            ..Format::default()
        };
        let lebs = format(Bare::with(bytes, LEB, 400), &choices).unwrap();
        Ubifs::mount_writable(lebs).unwrap()
    }

    fn volume(seed: u64) -> (Ubifs<Bare<Vec<u8>>>, Model) {
        let mut fs = mounted();
        let mut model = Model::new(seed, Rules::unix());
        for _ in 0..60 {
            model.run(&mut fs, 60).unwrap();
            fs.commit().unwrap();
        }
        (fs, model)
    }

    /// Commits the index nodes of the fullest block while only so many blocks count as empty.
    fn commit_full(fs: &mut Ubifs<Bare<Vec<u8>>>, empty: usize) {
        let leb = fs.head().geometry.leb;
        let blocks: Vec<(u32, Props)> = fs.writer.blocks.idle().collect();
        let index = blocks.iter().filter(|(_, props)| props.is_index);
        if let Some((lnum, _)) = index.max_by_key(|(_, props)| props.used(leb)) {
            fs.index.tree.touch_block(*lnum);
        }
        let empties = blocks.iter().filter(|(_, props)| props.free == leb);
        let hidden: Vec<u32> = empties.map(|(lnum, _)| *lnum).skip(empty).collect();
        for lnum in &hidden {
            fs.writer.blocks.take(*lnum);
        }
        fs.commit().unwrap();
        for lnum in hidden {
            fs.writer.blocks.release(lnum);
        }
    }

    #[test]
    fn a_commit_without_an_empty_block_writes_between_the_nodes_of_the_index() {
        let mut filled = 0;
        for seed in 1..=6 {
            let (mut fs, mut model) = volume(seed);
            model.run(&mut fs, 60).unwrap();
            for _ in 0..3 {
                commit_full(&mut fs, 0);
                assert_eq!(fs.check().findings, []);
            }
            filled += fs.counts().gaps_filled;
            model.run(&mut fs, 200).unwrap();
            assert_eq!(fs.check().findings, []);
            model.release(&mut fs);
            fs.unmount().unwrap();
            let mut again = Ubifs::mount_writable(fs.into_lebs()).unwrap();
            model.compare(&mut again).unwrap();
            assert_eq!(again.check().findings, []);
        }
        assert!(filled > 3, "{filled}");
    }

    /// A volume with an index of several blocks.
    fn with_files() -> Ubifs<Bare<Vec<u8>>> {
        let mut fs = mounted();
        let by = Caller::root(Time::new(1));
        for number in 0..FILES {
            let name = alloc::format!("{number}");
            let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by);
            fs.forget(made.unwrap().ino, 1);
        }
        fs.commit().unwrap();
        fs
    }

    /// Blocks that the commit has filled already hold nodes that the last commit does not have.
    #[test]
    fn a_commit_that_takes_the_last_empty_block_overwrites_none_of_its_own_nodes() {
        let mut fs = with_files();
        let mut both = 0;
        for round in 0..12 {
            // Leaves gaps in the blocks of the index.
            touch_some(&mut fs, 100 + round);
            fs.commit().unwrap();
            let head = fs.master.index_head.0;
            let before = fs.counts().gaps_filled;
            touch_some(&mut fs, round);
            commit_full(&mut fs, 1);
            assert_eq!(fs.check().findings, [], "round {round}");
            let filled = fs.counts().gaps_filled - before;
            both += u64::from(filled > 0 && fs.master.index_head.0 != head);
        }
        assert!(both > 3, "{both} commits took a block and filled gaps");
        fs.unmount().unwrap();
        let mut again = Ubifs::mount(fs.into_lebs()).unwrap();
        assert_eq!(again.check().findings, []);
        let names = nandlab_vfs::tree::names(&mut again, Ino::ROOT).unwrap();
        assert_eq!(names.len(), FILES as usize);
    }

    /// The last commit counts other free bytes in a block than an interrupted one has left.
    #[test]
    fn gaps_that_an_interrupted_commit_filled_are_no_damage() {
        let mut fs = with_files();
        let mut differ = 0;
        for round in 0..6 {
            touch_some(&mut fs, 100 + round);
            fs.commit().unwrap();
            let index = fs.writer.blocks.idle().filter(|(_, props)| props.is_index);
            let index: Vec<(u32, Props)> = index.collect();
            let before = fs.media.bytes().clone();
            touch_some(&mut fs, round);
            commit_full(&mut fs, 1);
            let mut cut = before.clone();
            for (lnum, props) in index {
                let block = lnum as usize * LEB as usize..(lnum as usize + 1) * LEB as usize;
                let filled = &fs.media.bytes()[block.clone()];
                if filled != &before[block.clone()] && filled.iter().any(|byte| *byte != 0xFF) {
                    let erased = filled
                        .iter()
                        .rev()
                        .take_while(|byte| **byte == 0xFF)
                        .count();
                    differ += u32::from(erased as u32 / 512 != props.free / 512);
                    cut[block].copy_from_slice(filled);
                }
            }
            assert_sound(cut);
        }
        assert!(differ > 3, "{differ}");
    }

    /// Asserts that a check finds nothing, in use and unmounted.
    fn assert_sound(bytes: Vec<u8>) {
        let lebs = Bare::with(bytes, LEB, 400);
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        assert_eq!(fs.check().findings, []);
        fs.unmount().unwrap();
        let mut fs = Ubifs::mount(fs.into_lebs()).unwrap();
        assert_eq!(fs.check().findings, []);
    }

    const FILES: u32 = 1500;

    /// Marks half of the index nodes, which take more than one block.
    fn touch_some(fs: &mut Ubifs<Bare<Vec<u8>>>, round: u64) {
        let slots: Vec<_> = fs.index.between(Slot::FIRST, None);
        for (number, (slot, _)) in slots.into_iter().enumerate() {
            if nandlab_sim::mix(round, number as u64 / 8).is_multiple_of(2) {
                fs.index.tree.touch(slot);
            }
        }
    }
}
