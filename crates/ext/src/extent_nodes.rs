//! The bytes of trees of extents: nodes, headers and entries (Linux `fs/ext4/ext4_extents.h`).
//!
//! *Promises.* Views never panic on nodes that [`judge`] has passed. *Knows nothing of* where nodes
//! lie.

use crate::{
    format::{le16, le32, put16, put32},
    inode::ROOT_BYTES,
};
use alloc::vec::Vec;

const MAGIC: u16 = 0xF30A;
/// Bytes of a node before its entries, and of an entry.
pub(crate) const HEADER: usize = 12;
pub(crate) const ENTRY: usize = 12;
/// Levels below the root at most.
pub(crate) const DEPTH_MAX: u16 = 5;
/// Blocks of the longest extent; longer counts mean extents that were never written.
pub(crate) const WRITTEN_MAX: u32 = 32_768;
/// The root of an inode without blocks.
pub(crate) fn empty_root() -> [u32; 15] {
    let mut root = [0; 15];
    root[0] = u32::from(MAGIC);
    root[1] = (ROOT_BYTES - HEADER) as u32 / ENTRY as u32;
    root
}

/// A run of an inode's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of the first block in the inode.
    pub logical: u32,
    pub count: u32,
    /// Otherwise the blocks read as zeros.
    pub written: bool,
    /// Where the first block lies; `u32::MAX` beyond every volume.
    pub start: u32,
}

impl Extent {
    pub fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.count)
    }

    pub fn covers(&self, index: u32) -> bool {
        index >= self.logical && u64::from(index) < self.end()
    }

    /// True if one extent can hold this and the next.
    pub fn joins(&self, next: &Self) -> bool {
        let most = WRITTEN_MAX - u32::from(!self.written);
        self.written == next.written
            && self.end() == u64::from(next.logical)
            && self.start.checked_add(self.count) == Some(next.start)
            && self.count + next.count <= most
    }

    pub fn with_count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// The part behind the first `skip` blocks.
    pub fn behind(self, skip: u32) -> Self {
        Self {
            logical: self.logical + skip,
            start: self.start + skip,
            count: self.count - skip,
            ..self
        }
    }

    pub fn bytes(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let count = self.count + if self.written { 0 } else { WRITTEN_MAX };
        put32(&mut bytes, 0, self.logical);
        put16(&mut bytes, 4, count as u16);
        put32(&mut bytes, 8, self.start);
        bytes
    }
}

/// The entry of an index.
pub(crate) fn index_entry(key: u32, child: u32) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    put32(&mut bytes, 0, key);
    put32(&mut bytes, 4, child);
    bytes
}

/// A node's bytes, whose header makes sense.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(pub &'a [u8]);

impl Node<'_> {
    pub fn entries(&self) -> usize {
        le16(self.0, 2).into()
    }

    pub fn max(&self) -> usize {
        le16(self.0, 4).into()
    }

    pub fn depth(&self) -> u16 {
        le16(self.0, 6)
    }

    pub fn key(&self, at: usize) -> u32 {
        le32(self.0, HEADER + ENTRY * at)
    }

    pub fn child(&self, at: usize) -> u32 {
        let place = HEADER + ENTRY * at;
        match le16(self.0, place + 8) {
            0 => le32(self.0, place + 4),
            _ => u32::MAX,
        }
    }

    pub fn extent(&self, at: usize) -> Extent {
        let place = HEADER + ENTRY * at;
        let count = u32::from(le16(self.0, place + 4));
        let written = count <= WRITTEN_MAX;
        Extent {
            logical: self.key(at),
            count: if written { count } else { count - WRITTEN_MAX },
            written,
            start: match le16(self.0, place + 6) {
                0 => le32(self.0, place + 8),
                _ => u32::MAX,
            },
        }
    }

    /// How many keys are not behind `index`.
    pub fn before(&self, index: u32) -> usize {
        let mut low = 0;
        let mut high = self.entries();
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) <= index {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// The entry that leads to `index`, or would.
    pub fn way(&self, index: u32) -> usize {
        self.before(index).max(1) - 1
    }
}

/// Wrong field of a node: byte, name, value, what it may be.
pub(crate) type Wrong = (u32, &'static str, u64, &'static str);

/// Judges a node's header; `depth` is what its parent expects.
pub(crate) fn judge(bytes: &[u8], depth: Option<u16>) -> Result<Node<'_>, Wrong> {
    let node = Node(bytes);
    let magic = le16(bytes, 0);
    if magic != MAGIC {
        return Err((0, "magic of extents", magic.into(), "0xf30a"));
    }
    let capacity = (bytes.len() - HEADER) / ENTRY;
    if node.max() == 0 || node.max() > capacity {
        let expected = "as many as there is space for";
        return Err((4, "most entries of extents", node.max() as u64, expected));
    }
    if node.entries() > node.max() {
        let expected = "no more than the node has space for";
        return Err((2, "entries of extents", node.entries() as u64, expected));
    }
    let right = depth.map_or(node.depth() <= DEPTH_MAX, |depth| depth == node.depth());
    if !right {
        let expected = "one less than above, at most 5";
        return Err((6, "depth of extents", node.depth().into(), expected));
    }
    if node.entries() == 0 && (depth.is_some() || node.depth() > 0) {
        return Err((2, "entries of extents", 0, "at least one"));
    }
    Ok(node)
}

pub(crate) fn put_entry(bytes: &mut [u8], at: usize, entry: &[u8; ENTRY]) {
    bytes[HEADER + ENTRY * at..][..ENTRY].copy_from_slice(entry);
}

pub(crate) fn put_header(bytes: &mut [u8], entries: usize, depth: u16) {
    put16(bytes, 0, MAGIC);
    put16(bytes, 2, entries as u16);
    put16(bytes, 4, ((bytes.len() - HEADER) / ENTRY) as u16);
    put16(bytes, 6, depth);
}

/// Makes space for an entry and puts it there.
pub(crate) fn insert_at(bytes: &mut [u8], at: usize, entry: &[u8; ENTRY]) {
    let entries = usize::from(le16(bytes, 2));
    let place = HEADER + ENTRY * at;
    bytes.copy_within(place..HEADER + ENTRY * entries, place + ENTRY);
    put_entry(bytes, at, entry);
    put16(bytes, 2, entries as u16 + 1);
}

pub(crate) fn remove_at(bytes: &mut [u8], at: usize) {
    let entries = usize::from(le16(bytes, 2));
    let place = HEADER + ENTRY * at;
    let end = HEADER + ENTRY * entries;
    bytes.copy_within(place + ENTRY..end, place);
    bytes[end - ENTRY..end].fill(0);
    put16(bytes, 2, entries as u16 - 1);
}

/// The extents of a file that lies in these runs, each its first block and how many.
pub(crate) fn of_runs(runs: &[(u32, u32)]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut logical = 0;
    for (first, count) in runs {
        for skip in (0..*count).step_by(WRITTEN_MAX as usize) {
            let next = Extent {
                logical,
                count: (count - skip).min(WRITTEN_MAX),
                written: true,
                start: first + skip,
            };
            logical += next.count;
            match extents.last_mut() {
                Some(last) if last.joins(&next) => last.count += next.count,
                _ => extents.push(next),
            }
        }
    }
    extents
}

/// Makes of zeros a leaf of these extents; false if they do not fit.
pub(crate) fn put_leaf(bytes: &mut [u8], extents: &[Extent]) -> bool {
    if HEADER + ENTRY * extents.len() > bytes.len() {
        return false;
    }
    put_header(bytes, extents.len(), 0);
    for (at, extent) in extents.iter().enumerate() {
        put_entry(bytes, at, &extent.bytes());
    }
    true
}

/// Makes a root that leads to one leaf, which begins with the file.
pub(crate) fn put_index(root: &mut [u8; ROOT_BYTES], leaf: u32) {
    root.fill(0);
    put_header(root, 1, 1);
    put_entry(root, 0, &index_entry(0, leaf));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn written(logical: u32, count: u32, start: u32) -> Extent {
        Extent {
            logical,
            count,
            written: true,
            start,
        }
    }

    /// Whether a node with another half word makes sense to a parent that expects `depth`.
    fn refused(bytes: &[u8], (at, value): (usize, u16), depth: Option<u16>) -> Option<u32> {
        let mut bytes = bytes.to_vec();
        put16(&mut bytes, at, value);
        judge(&bytes, depth).err().map(|wrong| wrong.0)
    }

    #[test]
    fn each_rule_of_a_header_holds_from_its_bound_on() {
        // A block of 1 KiB has space for 84 entries.
        let mut leaf = vec![0; 1024];
        put_leaf(&mut leaf, &[written(0, 1, 50)]);
        let node = judge(&leaf, Some(0)).ok().unwrap();
        assert_eq!((node.entries(), node.max(), node.depth()), (1, 84, 0));
        let at = |at, value| refused(&leaf, (at, value), Some(0));
        assert_eq!((at(0, MAGIC), at(0, MAGIC + 1)), (None, Some(0)));
        assert_eq!((at(4, 1), at(4, 0), at(4, 85)), (None, Some(4), Some(4)));
        assert_eq!((at(2, 84), at(2, 85), at(2, 0)), (None, Some(2), Some(2)));
        assert_eq!((at(6, 0), at(6, 1)), (None, Some(6)));
        // A root has at most five levels below it, and may be empty at the bottom.
        let root = |at, value| refused(&leaf, (at, value), None);
        assert_eq!((root(6, 5), root(6, 6), root(2, 0)), (None, Some(6), None));
        let mut index = vec![0; 1024];
        put_header(&mut index, 0, 1);
        assert_eq!(judge(&index, None).err().map(|wrong| wrong.0), Some(2));
        let empty: Vec<u8> = empty_root()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let root = judge(&empty, None).ok().unwrap();
        assert_eq!((root.entries(), root.max(), root.depth()), (0, 4, 0));
    }

    #[test]
    fn extents_come_back_written_or_not() {
        let mut leaf = vec![0; 1024];
        let longest = written(7, WRITTEN_MAX, 9);
        let unwritten = Extent {
            written: false,
            ..written(u32::MAX, WRITTEN_MAX - 1, 3)
        };
        assert!(put_leaf(&mut leaf, &[longest, unwritten]));
        let node = Node(&leaf);
        assert_eq!((node.extent(0), node.extent(1)), (longest, unwritten));
        assert_eq!(unwritten.end(), u64::from(u32::MAX) + 32_767);
        // Blocks of more than 32 bits lie beyond every volume.
        put16(&mut leaf, HEADER + 6, 1);
        assert_eq!(Node(&leaf).extent(0).start, u32::MAX);
        put_entry(&mut leaf, 1, &index_entry(5, 77));
        assert_eq!((Node(&leaf).key(1), Node(&leaf).child(1)), (5, 77));
        put16(&mut leaf, HEADER + ENTRY + 8, 1);
        assert_eq!(Node(&leaf).child(1), u32::MAX);
        let all: Vec<Extent> = (0..84).map(|at| written(at, 1, 2 * at)).collect();
        assert!(put_leaf(&mut leaf, &all) && !put_leaf(&mut leaf[..1019], &all));
    }

    #[test]
    fn extents_join_up_to_the_longest() {
        let joins = |count: u32, next: u32, is_written: bool| {
            let first = Extent {
                written: is_written,
                ..written(10, count, 100)
            };
            let next = Extent {
                count: next,
                ..first.behind(0)
            };
            let next = Extent {
                logical: 10 + count,
                start: 100 + count,
                ..next
            };
            first.joins(&next)
        };
        assert!(joins(32_767, 1, true) && !joins(32_767, 2, true));
        assert!(joins(32_766, 1, false) && !joins(32_766, 2, false));
        let first = written(10, 5, 100);
        assert!(!first.joins(&written(16, 5, 105)) && !first.joins(&written(15, 5, 106)));
        assert!(!first.joins(&Extent {
            written: false,
            ..written(15, 5, 105)
        }));
        assert!(!written(10, 5, u32::MAX).joins(&written(15, 5, 4)));
        assert_eq!(first.behind(2), written(12, 3, 102));
        let covers = [9, 10, 14, 15].map(|index| first.covers(index));
        assert_eq!(covers, [false, true, true, false]);
    }

    #[test]
    fn a_search_finds_the_last_key_that_is_not_behind() {
        let mut leaf = vec![0; 1024];
        put_leaf(
            &mut leaf,
            &[10, 20, 30].map(|logical| written(logical, 5, 1)),
        );
        let before = [9, 10, 19, 20, 30, u32::MAX].map(|index| Node(&leaf).before(index));
        assert_eq!(before, [0, 1, 1, 2, 3, 3]);
        let ways = [0, 10, 25, 99].map(|index| Node(&leaf).way(index));
        assert_eq!(ways, [0, 0, 1, 2]);
    }

    #[test]
    fn entries_move_aside_and_close_up() {
        let mut leaf = vec![0; 1024];
        put_leaf(&mut leaf, &[written(1, 1, 11), written(3, 1, 13)]);
        insert_at(&mut leaf, 1, &written(2, 1, 12).bytes());
        insert_at(&mut leaf, 3, &written(4, 1, 14).bytes());
        let keys = |leaf: &[u8]| {
            let node = Node(leaf);
            (0..node.entries())
                .map(|at| node.key(at))
                .collect::<Vec<u32>>()
        };
        assert_eq!(keys(&leaf), [1, 2, 3, 4]);
        remove_at(&mut leaf, 0);
        remove_at(&mut leaf, 2);
        assert_eq!(keys(&leaf), [2, 3]);
        // Nothing stays behind the last entry.
        assert!(leaf[HEADER + 2 * ENTRY..].iter().all(|byte| *byte == 0));
        assert_eq!(Node(&leaf).extent(1), written(3, 1, 13));
    }

    #[test]
    fn runs_become_as_few_extents_as_can_be() {
        let runs = [(100, 2), (102, 3), (7, 70_000)];
        let expected = [
            written(0, 5, 100),
            written(5, 32_768, 7),
            written(32_773, 32_768, 32_775),
            written(65_541, 4464, 65_543),
        ];
        assert_eq!(of_runs(&runs), expected);
        let mut root = [0xFF; ROOT_BYTES];
        put_index(&mut root, 55);
        let node = judge(&root, None).ok().unwrap();
        assert_eq!((node.depth(), node.entries(), node.max()), (1, 1, 4));
        assert_eq!((node.key(0), node.child(0)), (0, 55));
    }
}
