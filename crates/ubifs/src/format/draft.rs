//! Nodes being made. Their numbers, groups and checksums are filled in when they are written.

use super::{Group, HEADER, Key, Kind, MAGIC, PAD, PADDING, align8};
use alloc::{vec, vec::Vec};
use nandlab_ubi::format::crc;

/// A node without sequence number and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    /// A node of `len` bytes, which are zeros behind the header.
    pub fn new(kind: Kind, len: u32) -> Self {
        let mut draft = Self(vec![0; len as usize]);
        draft.put32(0, MAGIC);
        draft.put32(16, len);
        draft.0[20] = kind as u8;
        draft
    }

    /// A node as it was read.
    pub fn again(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub fn put8(&mut self, at: usize, value: u8) {
        self.0[at] = value;
    }

    pub fn put16(&mut self, at: usize, value: u16) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub fn put32(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub fn put64(&mut self, at: usize, value: u64) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn key(&mut self, at: usize, key: Key) {
        self.put32(at, key.inode());
        self.put32(at + 4, key.low());
    }

    /// Completes the node with its sequence number and checksum.
    pub fn seal(mut self, sqnum: u64, group: Group) -> Vec<u8> {
        self.put64(8, sqnum);
        self.0[21] = match group {
            Group::None => 0,
            Group::Inside => 1,
            Group::Last => 2,
        };
        self.summed()
    }

    /// Completes a node that keeps its number and group.
    pub fn summed(mut self) -> Vec<u8> {
        let sum = crc(&self.0[8..]);
        self.put32(4, sum);
        self.0
    }
}

/// Fills `bytes`, a multiple of 8, up to a multiple of `min_io` with padding.
pub(crate) fn pad(bytes: &mut Vec<u8>, min_io: u32) {
    let end = bytes.len().next_multiple_of(min_io as usize);
    pad_to(bytes, end);
}

/// Fills `bytes` up to `end` with padding.
pub(crate) fn pad_to(bytes: &mut Vec<u8>, end: usize) {
    let room = end - bytes.len();
    if room < PAD as usize {
        bytes.resize(end, PADDING);
        return;
    }
    let mut node = Draft::new(Kind::Pad, PAD);
    node.put32(HEADER as usize, room as u32 - PAD);
    bytes.extend(node.summed());
    bytes.resize(end, 0);
}

/// Appends a node at a multiple of 8.
pub(crate) fn append(bytes: &mut Vec<u8>, node: &[u8]) {
    bytes.extend_from_slice(node);
    let end = align8(bytes.len() as u32) as usize;
    bytes.resize(end, 0);
}
