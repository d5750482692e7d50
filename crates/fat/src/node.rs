//! Inodes, which the format does not have: made when an entry is looked up, found again by the
//! place of its slot.
//!
//! *Promises.* One inode for one slot as long as it is referred to or is dirty; the
//! number stays when the slot moves or goes. *Knows nothing of* sectors: it holds what a slot says,
//! and as much of the chain as was walked.

use crate::{
    format::{self, Bits, SLOT, Slot, attr, le16, put16, put32},
    time::{self, Stamp},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_vfs::{Ino, Time};

/// Numbers from here on are for inodes whose place's own number is taken.
const SPARE: u64 = 1 << 48;

/// Neighbouring clusters of a chain.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first one's place in the chain.
    index: u32,
    cluster: u32,
    count: u32,
}

/// The beginning of a chain, as far as it was walked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain(Vec<Run>);

impl Chain {
    pub fn len(&self) -> u32 {
        self.0.last().map_or(0, |run| run.index + run.count)
    }

    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|run| run.cluster + run.count - 1)
    }

    /// The cluster at a place of the chain, and how many neighbours follow it there, itself
    /// included.
    pub fn at(&self, index: u32) -> Option<(u32, u32)> {
        let run = self.0[..self.0.partition_point(|run| run.index <= index)].last()?;
        let into = index - run.index;
        (into < run.count).then(|| (run.cluster + into, run.count - into))
    }

    pub fn push(&mut self, cluster: u32) {
        let index = self.len();
        match self.0.last_mut() {
            Some(run) if run.cluster + run.count == cluster => run.count += 1,
            _ => self.0.push(Run {
                index,
                cluster,
                count: 1,
            }),
        }
    }

    pub fn truncate(&mut self, len: u32) {
        self.0.retain_mut(|run| {
            run.count = run.count.min(len.saturating_sub(run.index));
            run.count > 0
        });
    }
}

/// What of an inode is newer than its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The time of the first deferred write.
    pub since: Option<Time>,
    /// Not the times alone.
    pub data: bool,
}

/// An inode in memory, with its directory slot.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Byte of the volume at which its slot lies; none for the root and for what has no name any
    /// more.
    pub place: Option<u64>,
    pub directory: bool,
    pub attr: u8,
    /// The first cluster; 0 where there is none.
    pub start: u32,
    /// Bytes; of a directory 0.
    pub size: u32,
    /// Directories in this directory.
    pub subdirs: u32,
    pub atime: Time,
    pub mtime: Time,
    pub btime: Time,
    pub chain: Chain,
    pub references: u64,
    pub pending: Pending,
}

impl Node {
    pub fn root(start: u32) -> Self {
        let zero = Time::new(315_532_800);
        Self {
            place: None,
            directory: true,
            attr: attr::DIRECTORY,
            start,
            size: 0,
            subdirs: 0,
            atime: zero,
            mtime: zero,
            btime: zero,
            chain: Chain::default(),
            references: 1,
            pending: Pending::default(),
        }
    }

    pub fn from_slot(slot: &Slot, place: u64, bits: Bits, offset_minutes: i16) -> Self {
        let stamp = |date, time, hundredths| {
            time::decode(
                Stamp {
                    date,
                    time,
                    hundredths,
                },
                offset_minutes,
            )
        };
        let directory = slot[11] & attr::DIRECTORY != 0;
        Self {
            place: Some(place),
            directory,
            attr: slot[11],
            start: format::slot_start(slot, bits),
            size: if directory {
                0
            } else {
                format::slot_size(slot)
            },
            atime: stamp(le16(slot, 18), 0, 0),
            mtime: stamp(le16(slot, 24), le16(slot, 22), 0),
            btime: stamp(le16(slot, 16), le16(slot, 14), slot[13]),
            references: 0,
            ..Self::root(0)
        }
    }

    /// Brings a slot up to date; its name stays.
    pub fn put(&self, slot: &mut [u8; SLOT], bits: Bits, offset_minutes: i16) {
        slot[11] = self.attr;
        format::put_slot_start(slot, bits, self.start);
        put32(slot, 28, self.size);
        let [accessed, modified, born] =
            [self.atime, self.mtime, self.btime].map(|time| time::encode(time, offset_minutes));
        put16(slot, 18, accessed.date);
        put16(slot, 22, modified.time);
        put16(slot, 24, modified.date);
        put16(slot, 14, born.time);
        put16(slot, 16, born.date);
        slot[13] = born.hundredths;
    }

    pub fn touch(&mut self, data: bool, now: Time) {
        self.pending.since.get_or_insert(now);
        self.pending.data |= data;
    }
}

/// All inodes that are known.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    nodes: BTreeMap<Ino, Node>,
    by_place: BTreeMap<u64, Ino>,
    pending: BTreeSet<Ino>,
    spare: u64,
}

impl Nodes {
    pub fn new(root: Node) -> Self {
        Self {
            nodes: BTreeMap::from([(Ino::ROOT, root)]),
            by_place: BTreeMap::new(),
            pending: BTreeSet::new(),
            spare: SPARE,
        }
    }

    pub fn get(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    pub fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(&ino)
    }

    /// The inode whose slot lies there, if it is known.
    pub fn at(&self, place: u64) -> Option<Ino> {
        self.by_place.get(&place).copied()
    }

    /// The number that the inode there has or would get.
    pub fn number(&self, place: u64) -> Ino {
        self.at(place).unwrap_or(Ino(place / SLOT as u64))
    }

    /// Takes up an inode that was not known.
    pub fn insert(&mut self, node: Node) -> Ino {
        let own = node
            .place
            .map(|place| Ino(place / SLOT as u64))
            .filter(|ino| !self.nodes.contains_key(ino) && *ino > Ino::ROOT);
        let ino = own.unwrap_or_else(|| {
            self.spare += 1;
            Ino(self.spare)
        });
        if let Some(place) = node.place {
            self.by_place.insert(place, ino);
        }
        self.nodes.insert(ino, node);
        ino
    }

    /// The inode's slot lies elsewhere now, or nowhere.
    pub fn move_to(&mut self, ino: Ino, place: Option<u64>) {
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        if let Some(before) = core::mem::replace(&mut node.place, place) {
            self.by_place.remove(&before);
        }
        match place {
            Some(place) => drop(self.by_place.insert(place, ino)),
            None => {
                node.pending = Pending::default();
                self.pending.remove(&ino);
            }
        }
    }

    /// The inode is newer than its slot; what has none stays as it is.
    pub fn touch(&mut self, ino: Ino, data: bool, now: Time) {
        if let Some(node) = self.nodes.get_mut(&ino).filter(|node| node.place.is_some()) {
            node.touch(data, now);
            self.pending.insert(ino);
        }
    }

    /// The slot is up to date.
    pub fn mark_clean(&mut self, ino: Ino) {
        self.pending.remove(&ino);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.pending = Pending::default();
        }
    }

    /// Inodes that are newer than their slots.
    pub fn pending(&self) -> &BTreeSet<Ino> {
        &self.pending
    }

    /// Since when the oldest of these is dirty.
    pub fn since(&self) -> Option<Time> {
        self.pending
            .iter()
            .filter_map(|ino| self.nodes.get(ino)?.pending.since)
            .min()
    }

    /// Forgets an inode that nobody refers to and that needs nothing written.
    pub fn drop_unused(&mut self, ino: Ino) {
        let unused = |node: &Node| node.references == 0 && node.pending.since.is_none();
        let gone = ino != Ino::ROOT && self.nodes.get(&ino).is_some_and(unused);
        if gone && let Some(place) = self.nodes.remove(&ino).and_then(|node| node.place) {
            self.by_place.remove(&place);
        }
    }

    /// Inodes that have lost their names.
    pub fn nameless(&self) -> Vec<Ino> {
        self.nodes
            .iter()
            .filter(|(ino, node)| node.place.is_none() && **ino != Ino::ROOT)
            .map(|(ino, _)| *ino)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_finds_its_clusters_and_their_neighbours() {
        let mut chain = Chain::default();
        [5, 6, 7, 20, 21, 9]
            .into_iter()
            .for_each(|cluster| chain.push(cluster));
        let all: Vec<_> = (0..7).map(|index| chain.at(index)).collect();
        assert_eq!(
            all,
            [
                Some((5, 3)),
                Some((6, 2)),
                Some((7, 1)),
                Some((20, 2)),
                Some((21, 1)),
                Some((9, 1)),
                None
            ]
        );
        chain.truncate(4);
        assert_eq!(
            (chain.len(), chain.last(), chain.at(4)),
            (4, Some(20), None)
        );
        chain.truncate(0);
        assert_eq!((chain.len(), chain.last()), (0, None));
    }

    #[test]
    fn a_slot_comes_back_as_it_was() {
        let mut slot = *b"NAME    TXT\x21\x18\x63AAaabb\x01\x00cc\x21\x20\x02\x00\x10\x00\x00\x00";
        slot[14..20].copy_from_slice(&[0x41, 0x10, 0x21, 0x20, 0x21, 0x20]);
        let node = Node::from_slot(&slot, 4096, Bits::Fat32, 60);
        assert_eq!((node.start, node.size, node.attr), (0x1_0002, 16, 0x21));
        let mut again = slot;
        again[11..].fill(0);
        again[12] = slot[12];
        node.put(&mut again, Bits::Fat32, 60);
        assert_eq!(again, slot);
    }

    #[test]
    fn a_number_outlives_its_place() {
        let mut nodes = Nodes::new(Node::root(0));
        let node = |place| Node {
            place: Some(place),
            ..Node::root(2)
        };
        let first = nodes.insert(node(6400));
        nodes.move_to(first, Some(9600));
        let second = nodes.insert(node(6400));
        assert!(
            first == Ino(200)
                && second != first
                && nodes.at(6400) == Some(second)
                && nodes.at(9600) == Some(first)
        );
        assert_eq!(nodes.number(9600), first);
    }
}
