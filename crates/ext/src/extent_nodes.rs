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
