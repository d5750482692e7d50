//! What a processor has had to do, for those who know what that takes.

use crate::Jffs2;
use nandlab_mtd::Mtd;

/// Counted since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Nodes written, by calls and by garbage collection.
    pub nodes: u64,
    /// Their bytes, each under one of a node's checksums.
    pub bytes: u64,
    /// Bytes read from the medium: checked or copied.
    pub bytes_read: u64,
    /// Reads of the data of nodes.
    pub nodes_read: u64,
    /// Of those, reads of a part of a plain node.
    pub parts_read: u64,
    /// Nodes that stopped counting because newer ones replaced them.
    pub obsoleted: u64,
    /// Pages programmed from the write buffer.
    pub programs: u64,
    /// Pieces of files for the compressors.
    pub packed: u64,
    /// Nodes that came out of a compressor.
    pub unpacked: u64,
    /// Bytes that LZO coded and decoded.
    pub lzo: Coded,
    /// Bytes that zlib coded and decoded.
    pub zlib: Coded,
    /// Bytes that rtime coded and decoded.
    pub rtime: Coded,
    /// Passes of garbage collection.
    pub passes: u64,
}

impl<M: Mtd> Jffs2<M> {
    /// What has been done so far.
    pub fn worked(&self) -> Work {
        let [lzo, zlib, rtime] = self.packer.coded;
        Work {
            lzo,
            zlib,
            rtime,
            bytes_read: self.flash.bytes_read,
            programs: self.flash.programs,
            packed: self.packer.packed,
            unpacked: self.packer.unpacked,
            ..self.work
        }
    }
}

/// What a compressor has done, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coded {
    /// Times that it compressed.
    pub runs: u64,
    /// Given to it to be compressed.
    pub plain: u64,
    /// What it made of them, also where they were longer than before and not taken.
    pub packed: u64,
    /// What came out where it decompressed.
    pub unpacked: u64,
    /// What went in there.
    pub unpacked_from: u64,
}
