//! Contents of files written and cut.
//!
//! *Promises.* Each block of 4 KiB is a node of its own, packed if that saves enough. *Power loss.*
//! The inode is written first, but to another head of the journal: either may become durable first.
//! A recovery raises the size to the end of the contents. A truncation is one group of nodes.

use crate::batch::Batch;
use crate::bug::SeededBug;
use crate::compress::Packed;
use crate::error::{Result, UbifsError};
use crate::format::{BLOCK, DataNode, Draft, FILE_MAX, IS_PACKED, Key, KeyKind, Truncation};
use crate::inode::Inode;
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::{borrow::Cow, vec, vec::Vec};
use nandlab_vfs::{Errno, SetAttr, Time};

const BLOCK_BYTES: u64 = BLOCK as u64;

impl<L: Lebs> Ubifs<L> {
    /// Writes at `offset`, blocks as they are in `packed` where it has them; returns the bytes that
    /// found room.
    pub(crate) fn write_data(
        &mut self,
        number: u32,
        offset: u64,
        (data, packed): (&[u8], &Packed),
        now: Time,
    ) -> Result<usize> {
        let mut inode = self.stored(number)?;
        if offset >= FILE_MAX {
            return Err(Errno::FileTooBig.into());
        }
        let len = (FILE_MAX - offset).min(data.len() as u64) as usize;
        let before = inode.clone();
        inode.size = inode.size.max(offset + len as u64);
        inode.touch(now);
        // A commit may come in between: it must not have contents behind the end of the file.
        self.put(&inode)?;
        let (done, outcome) = self.write_parts(&before, offset, (&data[..len], packed));
        if done < len {
            inode.size = before.size.max(offset + done as u64);
            let kept = if done == 0 { &before } else { &inode };
            self.removing(|fs| fs.put(kept))?;
        }
        match outcome {
            Err(UbifsError::Call(Errno::NoSpace)) if done > 0 => Ok(done),
            outcome => outcome.map(|()| done),
        }
    }

    /// Writes block after block; returns the bytes that were written.
    fn write_parts(
        &mut self,
        inode: &Inode,
        offset: u64,
        (data, packed): (&[u8], &Packed),
    ) -> (usize, Result<()>) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let part = (data.len() - done).min((BLOCK_BYTES - at % BLOCK_BYTES) as usize);
            let part_of = (&data[done..done + part], packed);
            if let Err(error) = self.write_part(inode, at, part_of) {
                return (done, Err(error));
            }
            done += part;
        }
        (done, Ok(()))
    }

    /// Writes within a block.
    fn write_part(
        &mut self,
        inode: &Inode,
        at: u64,
        (part, packed): (&[u8], &Packed),
    ) -> Result<()> {
        let start = at / BLOCK_BYTES * BLOCK_BYTES;
        let end = at + part.len() as u64;
        let len = inode.size.max(end).min(start + BLOCK_BYTES) - start;
        let key = Key::new(inode.number, KeyKind::Data, (start / BLOCK_BYTES) as u32);
        let node = if part.len() as u64 == len {
            self.packed(inode, key, part, packed)
        } else {
            let mut block = vec![0; len as usize];
            self.read_block(key, 0, &mut block)?;
            block[(at - start) as usize..(end - start) as usize].copy_from_slice(part);
            self.packed(inode, key, &block, &Packed::default())
        };
        let mut batch = Batch::default();
        batch.data(key, node);
        self.cursor = None;
        self.run(Head::Data, batch)
    }

    /// The node of a block, from `before` if that has it.
    fn packed(&mut self, inode: &Inode, key: Key, block: &[u8], before: &Packed) -> Draft {
        let wanted = match inode.flags & IS_PACKED {
            0 => 0,
            _ => inode.compressor,
        };
        let number = u64::from(key.value());
        let (compressor, packed) = match before.block(wanted, number, block.len()) {
            Some((compressor, packed)) => (compressor, Cow::Borrowed(packed)),
            None => {
                let (compressor, packed) = self.writer.packer.pack(wanted, block);
                (compressor, Cow::Owned(packed))
            }
        };
        let node = DataNode {
            key,
            size: block.len() as u32,
            compressor,
            packed: &packed,
        };
        node.draft()
    }

    /// Changes attributes, the size among them.
    pub(crate) fn set(&mut self, number: u32, change: &SetAttr, now: Time) -> Result<()> {
        let mut inode = self.stored(number)?;
        let size = inode.size;
        inode.mode = change.mode.map_or(inode.mode, |mode| {
            inode.mode & !0o7777 | u32::from(mode & 0o7777)
        });
        let attr = &mut inode.attr;
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        if change.size.is_some() {
            attr.mtime = now;
        }
        attr.atime = change.atime.unwrap_or(attr.atime);
        attr.mtime = change.mtime.unwrap_or(attr.mtime);
        attr.ctime = now;
        inode.size = change.size.unwrap_or(size);
        match inode.size < size {
            true => self.cut(&inode, size),
            false => self.put(&inode),
        }
    }

    /// Writes an inode that became shorter, and takes away what lies behind its end.
    fn cut(&mut self, inode: &Inode, old: u64) -> Result<()> {
        let new = inode.size;
        let number = inode.number;
        let mut batch = Batch::default();
        batch.inode(inode);
        if !self.media.has_bug(SeededBug::ForgetTruncation) {
            batch.truncation(Truncation {
                inode: number,
                old,
                new,
            });
        }
        let within = new % BLOCK_BYTES;
        let key = Key::new(number, KeyKind::Data, (new / BLOCK_BYTES) as u32);
        if let Some(at) = self.index.get(key)?.filter(|_| within > 0) {
            let block = self.unpacked(key, at)?;
            let kept: Vec<u8> = block
                .bytes()
                .iter()
                .take(within as usize)
                .copied()
                .collect();
            if kept.len() < block.len() {
                let node = self.packed(inode, key, &kept, &Packed::default());
                batch.data(key, node);
            }
        }
        self.cursor = None;
        self.removing(|fs| fs.run(Head::Base, batch))?;
        self.index.truncate(number, old, new);
        self.count_obsolete();
        Ok(())
    }
}
