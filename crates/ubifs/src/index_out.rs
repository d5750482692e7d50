//! The places of the index nodes that a commit writes.
//!
//! *Promises.* New nodes go behind one another into empty blocks. Without an empty block they go
//! between the nodes of blocks that the index has, as in Linux's `layout_in_gaps`. *Power loss.*
//! Nodes of the last commit keep their bytes: one change writes a whole block with gaps.

use crate::blocks::Blocks;
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
    /// Index blocks that still have gaps, with the nodes of each.
    left: BTreeMap<u32, Vec<Branch>>,
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
            left: BTreeMap::new(),
        }
    }

    /// Takes a node, and returns its place.
    pub fn place(&mut self, node: Draft) -> Result<Branch> {
        let len = node.len();
        self.done.sqnum += 1;
        self.done.written += u64::from(align8(len));
        let node = node.seal(self.done.sqnum, Group::None);
        if self.gaps.is_none() && !self.has_room(align8(len))? {
            self.left = self.index_blocks();
            self.open_gaps()?;
        }
        match self.gaps {
            Some(_) => self.place_in_gap(&node),
            None => Ok(self.place_at_head(&node)),
        }
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

    fn place_in_gap(&mut self, node: &[u8]) -> Result<Branch> {
        loop {
            let gaps = self.gaps.as_mut().ok_or(UbifsError::Full)?;
            if let Some(place) = gaps.place(node) {
                return Ok(place);
            }
            self.close_gaps()?;
        }
    }

    /// Writes the block with gaps, and goes to the next one.
    fn close_gaps(&mut self) -> Result<()> {
        self.write_gaps()?;
        self.open_gaps()
    }

    /// Opens the index block with the most unused bytes.
    fn open_gaps(&mut self) -> Result<()> {
        let used = |nodes: &Vec<Branch>| nodes.iter().map(|at| align8(at.len)).sum::<u32>();
        let least = self.left.iter().min_by_key(|(_, nodes)| used(nodes));
        let lnum = *least.ok_or(UbifsError::Full)?.0;
        let nodes = self.left.remove(&lnum).unwrap_or_default();
        let bytes = self.media.leb(lnum)?;
        self.done.gaps_filled += 1;
        self.gaps = Some(Gaps {
            lnum,
            bytes,
            nodes,
            from: 0,
            at: 0,
        });
        Ok(())
    }

    /// Index blocks other than the head's, with the nodes that the last commit has in each.
    fn index_blocks(&mut self) -> BTreeMap<u32, Vec<Branch>> {
        let head = self.done.head.0;
        let idle = self.blocks.idle();
        let index = idle.filter(|(lnum, props)| props.is_index && *lnum != head);
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

    fn write_gaps(&mut self) -> Result<()> {
        let Some(gaps) = self.gaps.take() else {
            return Ok(());
        };
        let here = self.media.geometry();
        let (bytes, used) = gaps.filled(here.min_io);
        self.media.change(gaps.lnum, &bytes)?;
        let end = bytes.len() as u32;
        let props = Props {
            free: here.leb - end,
            dirty: end - used,
            is_index: true,
        };
        self.blocks.set(gaps.lnum, props);
        Ok(())
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
        Some(place)
    }

    /// The bytes of the block with padding between its nodes, and how many of them are nodes.
    fn filled(&self, min_io: u32) -> (Vec<u8>, u32) {
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
    use crate::{Bare, Format, Ubifs, format};
    use nandlab_vfs::FileSystem as _;
    use nandlab_vfs::model::{Model, Rules};

    const LEB: u32 = 15_872;

    fn volume(seed: u64) -> (Ubifs<Bare<Vec<u8>>>, Model) {
        let bytes = alloc::vec![0xFF; LEB as usize * 400];
        let choices = Format {
            page: Some(512),
            ..Format::default()
        };
        let lebs = format(Bare::with(bytes, LEB, 400), &choices).unwrap();
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        let mut model = Model::new(seed, Rules::unix());
        for _ in 0..60 {
            model.run(&mut fs, 60).unwrap();
            fs.commit().unwrap();
        }
        (fs, model)
    }

    /// Commits the index nodes of the fullest block while no block counts as empty.
    fn commit_full(fs: &mut Ubifs<Bare<Vec<u8>>>) {
        let leb = fs.head().geometry.leb;
        let blocks: Vec<(u32, Props)> = fs.writer.blocks.idle().collect();
        let index = blocks.iter().filter(|(_, props)| props.is_index);
        if let Some((lnum, _)) = index.max_by_key(|(_, props)| props.used(leb)) {
            fs.index.tree.touch_block(*lnum);
        }
        for (lnum, props) in &blocks {
            if props.free == leb {
                fs.writer.blocks.take(*lnum);
            }
        }
        fs.commit().unwrap();
        for (lnum, props) in blocks {
            if props.free == leb {
                fs.writer.blocks.release(lnum);
            }
        }
    }

    #[test]
    fn a_commit_without_an_empty_block_writes_between_the_nodes_of_the_index() {
        let mut filled = 0;
        for seed in 1..=6 {
            let (mut fs, mut model) = volume(seed);
            model.run(&mut fs, 60).unwrap();
            for _ in 0..3 {
                commit_full(&mut fs);
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
}
