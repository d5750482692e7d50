//! Nodes that were written and cannot be read.
//!
//! *Promises.* Bytes of a file that only such a node held are an error, not zeros; where an older
//! node holds them, those are shown, as in Linux, and a check lists it. The end of a log that a
//! power cut interrupted is not taken for a loss. *Differs from Linux*, which drops each node with
//! a wrong checksum and shows zeros or a shorter file. *Bounded:* a constant for each such node,
//! and the ranges that it held.

use crate::{
    Jffs2, Jffs2Error, LostNode,
    compress::NONE,
    format::{INODE, RawDirent, RawInode, crc},
    inode::{Inode, ROOT},
    room::For,
    space::{NodeRef, Owner, State},
    summary::INODE_ENTRY,
    tree::{Covered, Tree},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_mtd::Mtd;

/// Erased bytes at the end of a node that show an interrupted write.
const TORN_BYTES: usize = 16;
/// The data of a node whose checksum is wrong on purpose: see [`Jffs2::carry_doubt`].
const UNREADABLE: &[u8] = b"lost";

/// Ranges of a file, each from its first byte to the one behind its last.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// What a node held whose fields are known and whose data cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostData {
    pub ino: u32,
    /// No other node holds these bytes.
    pub lost: Ranges,
    /// An older node holds these.
    pub older: Ranges,
    /// The write may have been interrupted.
    pub torn: bool,
}

impl LostData {
    fn without(&mut self, start: u32, end: u32) {
        for ranges in [&mut self.lost, &mut self.older] {
            *ranges = without(ranges, start, end);
        }
    }

    fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.older.is_empty()
    }
}

/// All such nodes, by their places.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Data nodes behind a damaged head.
    pub heads: BTreeSet<u32>,
    pub data: BTreeMap<u32, LostData>,
    /// Nodes whose fields cannot be read, and whether they hold a name.
    pub fields: BTreeMap<u32, bool>,
    /// Nodes with the version of another node of their inode, that are not copies of it.
    pub twins: BTreeMap<u32, u32>,
    /// Pages beyond correction, the first of each block.
    pub pages: Vec<LostNode>,
    /// Nodes whose fields cannot be read but say that they are of this inode: nothing else does.
    pub claims: BTreeMap<u32, u32>,
    /// Where the block that was being filled goes on since the mount.
    pub resumed: Option<u32>,
}

/// How a node's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Whole,
    Damaged,
    /// The end of the log, which a power cut may have interrupted.
    Torn,
}

/// The nodes of an inode, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Sifted {
    /// Those of which something is to be seen, and the newest, if it has no data.
    pub kept: Vec<(u32, RawInode)>,
    pub damaged: Vec<(u32, RawInode)>,
    pub torn: Vec<(u32, RawInode)>,
}

impl Sifted {
    /// The node that tells the inode's attributes. One whose data are lost tells them of a file
    /// that has no other.
    pub fn latest(&self) -> Option<(u32, RawInode)> {
        let is_file = |raw: &RawInode| raw.mode & 0o170_000 == 0o100_000;
        let damaged = self.damaged.first().filter(|(_, raw)| is_file(raw));
        self.kept.first().or(damaged).copied()
    }

    /// The length of the file that the newest node tells.
    pub fn size(&self) -> Option<u32> {
        let kept = self.kept.first().map(|(_, raw)| (raw.version, raw.isize));
        let damaged = self.damaged.first();
        let damaged = damaged.map(|(_, raw)| (raw.version, raw.isize));
        kept.max(damaged).map(|(_, size)| size)
    }

    /// Takes nodes for damaged that only look torn. What was written behind an interrupted write
    /// covers all bytes up to its own: none would be held by no node.
    pub fn judge_torn(&mut self, covered: &Covered) {
        let Some((newest, size)) = self.kept.first().map(|(_, raw)| (raw.version, raw.isize))
        else {
            return;
        };
        let is_damaged = |raw: &RawInode| {
            let end = raw.offset.saturating_add(raw.covers()).min(size);
            raw.version < newest && !covered.gaps(raw.offset, end).is_empty()
        };
        let (damaged, torn) = core::mem::take(&mut self.torn)
            .into_iter()
            .partition(|(_, raw)| is_damaged(raw));
        self.torn = torn;
        self.damaged.extend::<Vec<_>>(damaged);
        self.damaged
            .sort_by_key(|(at, raw)| (core::cmp::Reverse(raw.version), *at));
    }

    /// What each node held that cannot be read: what newer nodes cover is no loss.
    fn losses(&self, ino: u32) -> Vec<(u32, LostData)> {
        let end = |raw: &RawInode| raw.offset.saturating_add(raw.covers());
        let mut all = Covered::default();
        for (_, raw) in &self.kept {
            all.add(raw.offset, end(raw));
        }
        let torn = self.torn.iter().map(|node| (node, true));
        let mut bad: Vec<_> = self
            .damaged
            .iter()
            .map(|node| (node, false))
            .chain(torn)
            .collect();
        bad.sort_by_key(|((_, raw), _)| core::cmp::Reverse(raw.version));
        let mut newer = Covered::default();
        let mut kept = self.kept.iter().peekable();
        let size = self.size().unwrap_or(0);
        let mut losses = Vec::new();
        for ((at, raw), torn) in bad {
            while let Some((_, above)) = kept.next_if(|(_, kept)| kept.version >= raw.version) {
                newer.add(above.offset, end(above));
            }
            // A torn node may be newer than any that tells the file's length.
            let limit = if torn { size.max(raw.isize) } else { size };
            let mut lost = Vec::new();
            let mut older = Vec::new();
            for (start, end) in newer.gaps(raw.offset, end(raw).min(limit)) {
                let gaps = all.gaps(start, end);
                let mut seen = alloc::vec![(start, end)];
                for (start, end) in &gaps {
                    seen = without(&seen, *start, *end);
                }
                lost.extend(gaps);
                older.extend(seen);
            }
            let data = LostData {
                ino,
                lost,
                older,
                torn,
            };
            if !data.is_empty() {
                losses.push((*at, data));
            }
        }
        losses
    }
}

/// Ranges without the bytes from `start` to `end`.
fn without(ranges: &[(u32, u32)], start: u32, end: u32) -> Ranges {
    let parts = |&(from, to): &(u32, u32)| [(from, to.min(start)), (from.max(end), to)];
    let parts = ranges.iter().flat_map(parts);
    parts.filter(|(from, to)| from < to).collect()
}

impl<M: Mtd> Jffs2<M> {
    /// How bytes of a node are whose checksum is wrong: those at `from`, of the node at `at`.
    pub(crate) fn health(&self, at: u32, from: u32, data: &[u8]) -> Health {
        let page = self.flash.page_bytes();
        if self
            .options
            .end
            .is_some_and(|end| from + data.len() as u32 > end)
        {
            return Health::Damaged;
        }
        // The parts of the bytes that were programmed at once.
        let first = data.len().min((page - from % page) as usize);
        let (first, rest) = data.split_at(first);
        let mut parts = core::iter::once(first).chain(rest.chunks(page as usize));
        let is_erased = |part: &[u8]| part.iter().all(|byte| *byte == 0xFF);
        let last = self.is_last(at);
        let tail = &data[data.len().saturating_sub(TORN_BYTES)..];
        let torn = parts
            .any(|part| !part.is_empty() && (last || part.len() >= TORN_BYTES) && is_erased(part))
            || tail.len() == TORN_BYTES && is_erased(tail);
        // The log cannot have ended in a page if a later one is programmed. All nodes of the page
        // are torn then: code that was not programmed miscorrects bytes before them, too.
        let ended = |page_at: u32| {
            let end = page_at + page;
            let behind = end.saturating_sub(from) as usize;
            data.get(behind..).is_none_or(is_erased) && self.is_last(end - 1)
        };
        if torn || self.flash.doubt_at().is_some_and(ended) {
            Health::Torn
        } else {
            Health::Damaged
        }
    }

    /// Whether the mount found no node behind this byte in its block: there the log may have ended.
    pub(crate) fn is_last(&self, at: u32) -> bool {
        let refs = &self.space.block(self.space.block_of(at)).refs;
        let behind = refs.partition_point(|node| node.at <= at);
        let mut behind = refs[behind..].iter();
        let resumed = self.lost.resumed.unwrap_or(u32::MAX);
        let before = at < resumed;
        !behind.any(|node| {
            let is_new = before && node.at >= resumed;
            !is_new && (node.state != State::Obsolete || node.owner != Owner::None)
        })
    }

    /// Remembers what nodes held that cannot be read.
    pub(crate) fn note_losses(&mut self, ino: u32, sifted: &Sifted) {
        if sifted.damaged.is_empty() && sifted.torn.is_empty() {
            return;
        }
        self.lost.data.extend(sifted.losses(ino));
        for (at, _) in &sifted.damaged {
            self.space.set_state(*at, State::Normal);
        }
    }

    /// Bytes of a file were written: what was lost of them does not matter any more.
    pub(crate) fn overwritten(&mut self, ino: u32, start: u32, end: u32) {
        if self.lost.data.is_empty() {
            return;
        }
        self.lost.data.retain(|_, data| {
            if data.ino == ino {
                data.without(start, end);
            }
            !data.is_empty()
        });
    }

    /// A node has moved.
    pub(crate) fn lost_moved(&mut self, old: u32, new: u32) {
        if self.lost.heads.remove(&old) {
            self.lost.heads.insert(new);
        }
        if let Some(data) = self.lost.data.remove(&old) {
            self.lost.data.insert(new, data);
        }
        if let Some(is_name) = self.lost.fields.remove(&old) {
            self.lost.fields.insert(new, is_name);
        }
        if let Some(ino) = self.lost.claims.remove(&old) {
            self.lost.claims.insert(new, ino);
        }
    }

    /// A block was erased.
    pub(crate) fn lost_erased(&mut self, block: u32) {
        let start = block * self.space.block_bytes;
        let inside = start..start + self.space.block_bytes;
        self.lost.pages.retain(|page| !inside.contains(&page.at));
        self.lost.heads.retain(|at| !inside.contains(at));
        self.lost.data.retain(|at, _| !inside.contains(at));
        self.lost.fields.retain(|at, _| !inside.contains(at));
        self.lost.claims.retain(|at, _| !inside.contains(at));
        self.lost.twins.retain(|at, _| !inside.contains(at));
    }

    /// Takes nodes that only say whose they are for nodes of inodes that have a name.
    pub(crate) fn take_claims(&mut self) {
        for (at, ino) in &self.lost.claims {
            match self.known.get_mut(ino).filter(|known| known.links > 0) {
                Some(known) if *ino != ROOT => {
                    known.nodes.insert(*at);
                }
                _ => _ = self.space.obsolete(*at, false, true),
            }
        }
    }

    /// A node of an inode whose fields cannot be read: keeps it, unless it looks like the end of a
    /// log.
    pub(crate) fn keep_fieldless(
        &mut self,
        at: u32,
        ino: u32,
        is_name: bool,
    ) -> Result<Option<LostNode>, Jffs2Error> {
        let len = self.space.get(at).map_or(0, |node| node.len);
        let mut node = alloc::vec![0; len as usize];
        self.flash.read(at, &mut node)?;
        let medium = self.flash.doubt();
        let is_erased = node.iter().all(|byte| *byte == 0xFF);
        if is_erased || self.health(at, at, &node) == Health::Torn {
            if let Some(known) = self.known.get_mut(&ino) {
                known.nodes.remove(&at);
            }
            self.obsolete(at)?;
            return Ok(None);
        }
        self.lost.fields.insert(at, is_name);
        self.space.set_state(at, State::Normal);
        Ok(Some(LostNode { at, medium }))
    }

    /// A page that cannot be read and may have held a missing part of a file: the file has a part
    /// that no node holds, and versions of it are missing.
    pub(crate) fn lost_page(&self, ino: u32, inode: &Inode) -> Option<LostNode> {
        let page = *self.lost.pages.first()?;
        let nodes = self.known.get(&ino).map_or(0, |known| known.nodes.len());
        let lacks = (nodes as u64) < inode.version.into();
        (lacks && !gaps(&inode.tree, 0, inode.size).is_empty()).then_some(page)
    }

    /// Refuses to take bytes that no node holds for zeros where a node of the file is lost.
    pub(crate) fn check_gap(&mut self, ino: u32) -> Result<(), Jffs2Error> {
        let lost = self.load(ino)?.doubt;
        lost.map_or(Ok(()), |lost| {
            Err(Jffs2Error::Inode {
                ino,
                what: "no node holds these bytes, and one that cannot be read may have held them",
                lost: Some(lost),
            })
        })
    }

    /// A node whose fields cannot be read lies in a block that is to be erased. For bytes that no
    /// other node holds, writes nodes that cannot be read either: their checksums are wrong. So
    /// they stay an error, also for the next mount.
    pub(crate) fn carry_doubt(&mut self, at: u32, ino: u32) -> Result<(), Jffs2Error> {
        let inode = self.load(ino)?;
        let gaps = if inode.is_directory() {
            Ranges::new()
        } else {
            gaps(&inode.tree, 0, inode.size)
        };
        self.put_unreadable(ino, gaps)?;
        self.lost.fields.remove(&at);
        self.obsolete(at)
    }

    /// Writes nodes of ranges of a file whose checksums are wrong.
    fn put_unreadable(&mut self, ino: u32, ranges: Ranges) -> Result<(), Jffs2Error> {
        for (start, end) in ranges {
            let len = (INODE + UNREADABLE.len()) as u32;
            self.reserve(len, INODE_ENTRY, For::Collection)?;
            let mut raw = self.load(ino)?.next_node(ino);
            (raw.offset, raw.dsize, raw.compr) = (start, end - start, NONE);
            raw.data_crc = !crc(UNREADABLE);
            let node = self.put_inode(&mut raw, UNREADABLE)?;
            self.enter_data(node, &raw)?;
            let data = LostData {
                ino,
                lost: alloc::vec![(start, end)],
                older: Ranges::new(),
                torn: false,
            };
            self.lost.data.insert(node, data);
        }
        Ok(())
    }

    /// Moves a node that the flash could not correct, so that what it says is still known
    /// afterwards: `bytes` as they were read.
    pub(crate) fn move_unreadable(
        &mut self,
        node: NodeRef,
        ino: u32,
        bytes: &[u8],
    ) -> Result<(), Jffs2Error> {
        let e = self.flash.endian;
        let inode = match self.load(ino) {
            Ok(inode) => inode,
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            Err(_) => return self.put_copy(&node, bytes),
        };
        if let Some(dent) = inode.dents.at(node.at) {
            let name = &dent.name;
            let raw = RawDirent {
                pino: ino,
                version: dent.version,
                ino: dent.ino,
                mctime: inode.mtime,
                name_len: name.len() as u8,
                kind: dent.kind,
                name_crc: crc(name),
            };
            let mut anew = [&raw.write(e)[..], name].concat();
            anew.resize(bytes.len(), 0);
            return self.put_copy(&node, &anew);
        }
        let fixed = bytes.first_chunk::<INODE>();
        let is_known = fixed.is_some_and(|fixed| RawInode::read(e, fixed).is_some());
        let parts = inode.tree.parts(node.at);
        if is_known || parts.is_empty() {
            return self.put_copy(&node, bytes);
        }
        self.put_unreadable(ino, parts)?;
        self.obsolete(node.at)
    }
}

/// Bytes from `start` to `end` that no node of a file holds.
pub(crate) fn gaps(tree: &Tree, start: u32, end: u32) -> Ranges {
    let mut at = start;
    let mut gaps = Vec::new();
    while at < end {
        let next = tree.at_or_after(at).filter(|next| next.start < end);
        let begin = next.map_or(end, |next| next.start);
        if begin > at {
            gaps.push((at, begin));
        }
        at = next.map_or(end, |next| next.end);
    }
    gaps
}

/// Bytes of a file that may have been in a node whose fields cannot be read.
pub(crate) fn doubtful(inode: &Inode) -> Option<(LostNode, Ranges)> {
    let lost = inode.doubt?;
    Some((lost, gaps(&inode.tree, 0, inode.size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(version: u32, offset: u32, len: u32, isize: u32) -> (u32, RawInode) {
        let raw = RawInode {
            version,
            offset,
            dsize: len,
            isize,
            mode: 0o100_644,
            ..RawInode::default()
        };
        (version * 1000, raw)
    }

    #[test]
    fn a_loss_is_what_newer_nodes_do_not_cover_distinguished_from_what_older_ones_show() {
        let sifted = Sifted {
            kept: alloc::vec![node(5, 100, 100, 1000), node(2, 0, 300, 300)],
            damaged: alloc::vec![node(4, 50, 450, 1000)],
            torn: alloc::vec![node(6, 900, 400, 1300)],
        };
        let losses = sifted.losses(7);
        let torn = LostData {
            ino: 7,
            lost: alloc::vec![(900, 1300)],
            older: Ranges::new(),
            torn: true,
        };
        let damaged = LostData {
            ino: 7,
            lost: alloc::vec![(300, 500)],
            older: alloc::vec![(50, 100), (200, 300)],
            torn: false,
        };
        assert_eq!(losses, [(6000, torn), (4000, damaged)]);
        assert_eq!(sifted.size(), Some(1000));
    }

    #[test]
    fn a_newest_node_whose_data_are_lost_tells_the_length() {
        let sifted = Sifted {
            kept: alloc::vec![node(1, 0, 100, 100)],
            damaged: alloc::vec![node(2, 100, 50, 150)],
            torn: Vec::new(),
        };
        assert_eq!(
            (sifted.size(), sifted.losses(1)[0].1.lost[0]),
            (Some(150), (100, 150))
        );
    }

    #[test]
    fn ranges_are_cut_anywhere() {
        let all = [(0, 10), (20, 30)];
        for (start, end, left) in [
            (5, 25, &[(0, 5), (25, 30)][..]),
            (2, 4, &[(0, 2), (4, 10), (20, 30)]),
            (0, 40, &[]),
            (10, 20, &all),
        ] {
            assert_eq!(without(&all, start, end), left);
        }
    }
}
