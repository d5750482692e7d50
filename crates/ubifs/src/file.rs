//! Contents of files: blocks of 4 KiB, of which those that are not there are zeros.

use crate::error::{Result, UbifsError};
use crate::format::{BLOCK, Branch, DataNode, Key, KeyKind};
use crate::inode::Inode;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_vfs::{Errno, FileType};

/// A block of a file, unpacked.
pub(crate) struct Block {
    key: Key,
    bytes: Box<[u8]>,
}

const BLOCK_BYTES: u64 = BLOCK as u64;

fn key_of(inode: &Inode, block: u64) -> Key {
    Key::new(inode.number, KeyKind::Data, block as u32)
}

impl<L: Lebs> Ubifs<L> {
    /// Reads from `offset` on.
    pub(crate) fn read_file(
        &mut self,
        inode: &Inode,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        match inode.kind {
            FileType::File => {}
            FileType::Directory => return Err(Errno::IsDirectory.into()),
            _ => return Err(Errno::Invalid.into()),
        }
        let left = inode.size.saturating_sub(offset);
        let count = left.min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let within = (at % BLOCK_BYTES) as usize;
            let len = (count - done).min(BLOCK as usize - within);
            let part = &mut buf[done..done + len];
            self.read_block(key_of(inode, at / BLOCK_BYTES), within, part)?;
            done += len;
        }
        Ok(count)
    }

    pub(crate) fn read_block(&mut self, key: Key, within: usize, part: &mut [u8]) -> Result<()> {
        part.fill(0);
        let Some(at) = self.index.get(key)? else {
            return Ok(());
        };
        let kept = self.cursor.take().filter(|kept| kept.key == key);
        let mut block = kept.map_or_else(|| None, Some);
        if block.is_none() {
            block = Some(self.unpacked(key, at)?);
        }
        if let Some(block) = &block {
            let bytes = block.bytes.get(within..).unwrap_or_default();
            let len = bytes.len().min(part.len());
            part[..len].copy_from_slice(&bytes[..len]);
        }
        self.cursor = block;
        Ok(())
    }

    /// Reads a data node and unpacks it.
    pub(crate) fn unpacked(&mut self, key: Key, at: Branch) -> Result<Block> {
        let (_, bytes) = self.media.leaf(at, key)?;
        let Branch { lnum, offs, .. } = at;
        let node = DataNode::parse(bytes).map_err(|fault| fault.at(lnum, offs))?;
        let mut bytes = vec![0; node.size as usize].into_boxed_slice();
        self.unpacker
            .unpack(node.compressor, node.packed, &mut bytes)
            .map_err(|why| UbifsError::Packed { lnum, offs, why })?;
        Ok(Block { key, bytes })
    }

    /// Where something else than a hole may be.
    pub(crate) fn next_data_of(&mut self, inode: &Inode, offset: u64) -> Result<u64> {
        if inode.kind != FileType::File || offset >= inode.size {
            return Ok(offset);
        }
        let first = key_of(inode, offset / BLOCK_BYTES);
        let (_, last) = Key::kind_range(inode.number, KeyKind::Data);
        // Of an unknown part a read tells why.
        if self.index.known(first, last).is_err() {
            return Ok(offset);
        }
        let found = self.index.range(first, last).next();
        Ok(found.map_or(inode.size, |(slot, _)| {
            offset.max(u64::from(slot.key.value()) * BLOCK_BYTES)
        }))
    }
}

impl Block {
    /// The byte of the file behind it.
    pub fn end(&self) -> u64 {
        u64::from(self.key.value()) * BLOCK_BYTES + self.bytes.len() as u64
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_vec()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that it takes on the medium.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
