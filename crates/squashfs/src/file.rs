//! Contents of files: blocks one behind the other, and an end that may lie in a fragment.

use crate::error::{Result, field};
use crate::format::PLAIN;
use crate::inode::{File, Inode};
use crate::meta::{Media, Place};
use alloc::{rc::Rc, vec};
use nandlab_block::BlockDevice;
use nandlab_block::bytes::{le32, le64};
use nandlab_vfs::Ino;

/// A place in a file's list of blocks. Where a block lies follows from the lengths of those before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    ino: Ino,
    /// The index of the block in the file.
    index: u64,
    /// The offset of the block in the volume.
    at: u64,
    /// Where its length is.
    list: Place,
}

/// An unpacked block, and the byte in it where a part of a file begins.
type Piece = (Rc<[u8]>, usize);

/// Entries of a list that are read at once.
const STEP: u64 = 1024;

impl File {
    /// Whole blocks and, without a fragment, the one with the end.
    pub fn blocks(&self, block: u64) -> u64 {
        match self.fragment {
            Some(_) => self.size / block,
            None => self.size.div_ceil(block),
        }
    }
}

impl<D: BlockDevice> Media<D> {
    /// Moves a cursor to a block; one that is behind it, or of another file, begins anew.
    fn seek(
        &mut self,
        inode: &Inode,
        file: &File,
        cursor: &mut Option<Cursor>,
        index: u64,
    ) -> Result<Cursor> {
        let begin = Cursor {
            ino: inode.ino,
            index: 0,
            at: file.start,
            list: file.list,
        };
        let mut place = cursor
            .filter(|cursor| cursor.ino == inode.ino && cursor.index <= index)
            .unwrap_or(begin);
        let mut words = vec![0; 4 * STEP.min(index - place.index) as usize];
        while place.index < index {
            let count = STEP.min(index - place.index);
            let words = &mut words[..4 * count as usize];
            self.fill(&mut place.list, words)?;
            for word in words.chunks_exact(4) {
                place.at = place
                    .at
                    .saturating_add((le32(word, 0) & (PLAIN - 1)).into());
            }
            place.index += count;
        }
        *cursor = Some(place);
        Ok(place)
    }

    /// The block of a file with a byte, and how much of that block is the file's.
    ///
    /// `None` is a hole.
    fn piece(
        &mut self,
        inode: &Inode,
        file: &File,
        cursor: &mut Option<Cursor>,
        index: u64,
    ) -> Result<(Option<Piece>, usize)> {
        let block = u64::from(self.head.block);
        let len = block.min(file.size - index * block) as usize;
        if index >= file.blocks(block) {
            let fragment = self.fragment(inode, file, len)?;
            return Ok((Some(fragment), len));
        }
        let place = self.seek(inode, file, cursor, index)?;
        let mut list = place.list;
        let word = u32::from_le_bytes(self.take(&mut list)?);
        if word == 0 {
            return Ok((None, len));
        }
        let bytes = self.block(place.at, word)?;
        if bytes.len() != len {
            let expected = "the length of the part of the file";
            return field(
                place.at,
                "the contents of a data block",
                bytes.len() as u64,
                expected,
            );
        }
        Ok((Some((bytes, 0)), len))
    }

    /// Where a fragment is, and its length as a block's.
    pub fn fragment_at(&mut self, inode: &Inode, index: u32) -> Result<(u64, u32)> {
        if index >= self.head.fragments {
            return field(
                inode.at,
                "the fragment of a file",
                index,
                "an index of the table",
            );
        }
        let entry: [u8; 16] = self.entry(self.head.fragment_table, index.into())?;
        Ok((le64(&entry, 0), le32(&entry, 8)))
    }

    /// The fragment with the end of a file, and the byte where that begins.
    fn fragment(&mut self, inode: &Inode, file: &File, len: usize) -> Result<Piece> {
        let (index, offset) = file.fragment.unwrap_or_default();
        let (at, word) = self.fragment_at(inode, index)?;
        let bytes = self.block(at, word)?;
        let end = u64::from(offset) + len as u64;
        if end > bytes.len() as u64 {
            let expected = "an end inside its fragment";
            return field(inode.at, "the end of a file in a fragment", end, expected);
        }
        Ok((bytes, offset as usize))
    }

    /// Reads contents from `offset` on. Returns the bytes read.
    pub fn read(
        &mut self,
        inode: &Inode,
        file: &File,
        cursor: &mut Option<Cursor>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let block = u64::from(self.head.block);
        let end = file.size.min(offset.saturating_add(buf.len() as u64));
        let mut at = offset;
        while at < end {
            let index = at / block;
            let (piece, len) = self.piece(inode, file, cursor, index)?;
            let from = (at - index * block) as usize;
            let count = (len - from).min((end - at) as usize);
            let to = &mut buf[(at - offset) as usize..][..count];
            match piece {
                Some((bytes, start)) => to.copy_from_slice(&bytes[start + from..][..count]),
                None => to.fill(0),
            }
            at += count as u64;
        }
        Ok(at.saturating_sub(offset) as usize)
    }

    /// The first byte from `offset` on that is in no hole, or the file's length.
    pub fn next_data(
        &mut self,
        inode: &Inode,
        file: &File,
        cursor: &mut Option<Cursor>,
        offset: u64,
    ) -> Result<u64> {
        let block = u64::from(self.head.block);
        let first = offset / block;
        let last = file.blocks(block);
        if first >= last {
            return Ok(offset);
        }
        let mut list = self.seek(inode, file, cursor, first)?.list;
        for index in first..last {
            let word: [u8; 4] = self.take(&mut list)?;
            if word != [0; 4] {
                return Ok(offset.max(index * block));
            }
        }
        Ok(file.size.min(last * block).max(offset))
    }
}
