//! The bytes of a file, from the nodes that hold them.
//!
//! *Promises.* A node's data are given only when their checksum is right; holes are zeros, unless a
//! node of the file is lost that may have held them.
//! *Bounded:* memory for one node's data. Source: fs/jffs2/read.c.

use crate::{
    Jffs2, Jffs2Error, SeededBug,
    compress::{NONE, ZERO},
    format::{INODE, RawInode, crc},
    load::DATA_MAX,
};
use nandlab_mtd::Mtd;

impl<M: Mtd> Jffs2<M> {
    /// Reads from a file; gives the bytes read.
    pub(crate) fn read_file(
        &mut self,
        ino: u32,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, Jffs2Error> {
        let size = u64::from(self.load(ino)?.size);
        if offset >= size {
            return Ok(0);
        }
        let count = out.len().min((size - offset) as usize);
        self.read_range(ino, offset as u32, &mut out[..count])?;
        Ok(count)
    }

    /// Where from a byte on a file has nodes with contents.
    pub(crate) fn next_data(&mut self, ino: u32, offset: u64) -> Result<u64, Jffs2Error> {
        let size = u64::from(self.load(ino)?.size);
        let mut at = offset;
        while at < size {
            let inode = self.load(ino)?;
            let next = inode.tree.at_or_after(at as u32);
            let begin = next.map_or(size, |fragment| fragment.start.into());
            // Nor is a gap that may have been in a node that is lost.
            if begin > at && inode.doubt.is_some() {
                break;
            }
            let Some(fragment) = next else {
                return Ok(size);
            };
            at = at.max(begin);
            // A node that cannot be read is no hole: a read there fails.
            if self
                .read_head(fragment.node, ino)
                .map_or(true, |raw| raw.compr != ZERO)
            {
                break;
            }
            at = fragment.end.into();
        }
        Ok(at.max(offset))
    }

    /// Fills `out` from `start` on, whatever the file's length.
    pub(crate) fn read_range(
        &mut self,
        ino: u32,
        start: u32,
        out: &mut [u8],
    ) -> Result<(), Jffs2Error> {
        let end = start.saturating_add(out.len() as u32);
        let mut at = start;
        while at < end {
            let next = self
                .load(ino)?
                .tree
                .at_or_after(at)
                .filter(|fragment| fragment.start < end);
            let begin = next.map_or(end, |fragment| fragment.start);
            if begin > at {
                self.check_gap(ino)?;
            }
            let Some(fragment) = next else {
                out[(at - start) as usize..].fill(0);
                break;
            };
            let from = fragment.start.max(at);
            out[(at - start) as usize..(from - start) as usize].fill(0);
            at = fragment.end.min(end);
            let into = &mut out[(from - start) as usize..(at - start) as usize];
            let first = self
                .load(ino)?
                .tree
                .span(fragment.node)
                .map_or(from, |span| span.start);
            self.read_data(fragment.node, ino, from - first, into)?;
        }
        Ok(())
    }

    /// The head of an inode's node.
    pub(crate) fn read_head(&mut self, at: u32, ino: u32) -> Result<RawInode, Jffs2Error> {
        let mut bytes = [0; INODE];
        self.flash.read(at, &mut bytes)?;
        let raw = RawInode::read(self.flash.endian, &bytes);
        // The checksum of zeros is zero.
        let raw = raw.filter(|raw| raw.ino != 0);
        raw.ok_or_else(|| {
            let found = self.flash.endian.get32(&bytes, 64);
            let expected = crc(&bytes[..INODE - 8]);
            Jffs2Error::Node {
                at,
                ino,
                what: "checksum of the node",
                found,
                expected,
                medium: self.flash.doubt(),
            }
        })
    }

    /// Fills `out` with what a node holds, from `skip` on.
    pub(crate) fn read_data(
        &mut self,
        at: u32,
        ino: u32,
        skip: u32,
        out: &mut [u8],
    ) -> Result<(), Jffs2Error> {
        if self.open != Some(at) {
            let raw = self.read_head(at, ino)?;
            if raw.compr == ZERO {
                out.fill(0);
                return Ok(());
            }
            self.open_data(at, ino, &raw)?;
            self.work.nodes_read += 1;
            let part = raw.compr == NONE && raw.dsize as usize > out.len();
            self.work.parts_read += u64::from(part);
        }
        let held = self
            .data
            .get(skip as usize..)
            .and_then(|held| held.get(..out.len()));
        let held = held.ok_or(Jffs2Error::Node {
            at,
            ino,
            what: "length of the data",
            found: self.data.len() as u32,
            expected: skip + out.len() as u32,
            medium: self.flash.doubt(),
        })?;
        out.copy_from_slice(held);
        Ok(())
    }

    fn open_data(&mut self, at: u32, ino: u32, raw: &RawInode) -> Result<(), Jffs2Error> {
        self.open = None;
        let longest = DATA_MAX.max(self.space.block_bytes);
        if raw.dsize > longest || raw.csize > self.space.block_bytes {
            return Err(Jffs2Error::Node {
                at,
                ino,
                what: "length of the data",
                found: raw.dsize.max(raw.csize),
                expected: longest,
                medium: self.flash.doubt(),
            });
        }
        let mut packed = core::mem::take(&mut self.raw);
        packed.resize(raw.csize as usize, 0);
        let read = self.flash.read(at + INODE as u32, &mut packed);
        let found = crc(&packed);
        self.data.resize(raw.dsize as usize, 0);
        let unpacked = self.packer.unpack(raw.compr, &packed, &mut self.data);
        self.raw = packed;
        read?;
        if found != raw.data_crc && !self.has_bug(SeededBug::ChecksumIgnored) {
            return Err(Jffs2Error::Node {
                at,
                ino,
                what: "checksum of the data",
                found,
                expected: raw.data_crc,
                medium: self.flash.doubt(),
            });
        }
        unpacked.map_err(|error| Jffs2Error::Data { at, error })?;
        self.open = Some(at);
        Ok(())
    }
}
