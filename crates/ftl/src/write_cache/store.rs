//! The slots in the memory: pages and their tags, written so that a cut at any sector of the memory
//! leaves the old version or the new one.
//!
//! *Knows nothing of* which slots are free.

use super::CacheError;
use super::format::{HEADER, Layout, TAG, Tag};
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError, Lba};

#[derive(Debug)]
pub(super) struct Store<N> {
    memory: N,
    layout: Layout,
    key: u32,
    /// Of the next tag.
    sequence: u64,
    /// One sector of the memory.
    line: Box<[u8]>,
}

/// The header that a memory begins with, as far as it reaches.
pub(super) fn read_header(memory: &mut impl BlockDevice) -> Result<[u8; HEADER], CacheError> {
    let mut line = vec![0; (memory.geometry().sector as usize).max(HEADER)];
    let sector = memory.geometry().sector as usize;
    memory
        .read(Lba(0), &mut line[..sector])
        .map_err(CacheError::Nvram)?;
    Ok(core::array::from_fn(|i| line[i]))
}

impl<N: BlockDevice> Store<N> {
    /// A memory that already has this layout.
    pub fn new(memory: N, layout: Layout) -> Self {
        let line = vec![0; layout.line as usize].into();
        Self {
            key: layout.key(),
            sequence: 1,
            line,
            memory,
            layout,
        }
    }

    /// Empties the memory. The header goes first and comes last, so that a cut leaves a memory that
    /// was never used.
    pub fn format(mut self) -> Result<Self, BlockError> {
        self.line.fill(0);
        let lines = self.layout.place(0) / u64::from(self.layout.line);
        for at in 0..lines {
            self.memory.write(Lba(at), &self.line)?;
        }
        self.line[..HEADER].copy_from_slice(&self.layout.encode());
        self.memory.write(Lba(0), &self.line)?;
        Ok(self)
    }

    /// Every slot with its tag. Later versions will have later numbers.
    pub fn tags(&mut self) -> Result<Vec<(u32, Tag)>, CacheError> {
        let start = self.layout.tag(0);
        let end = self.layout.place(0);
        let mut bytes = vec![0; (end - start) as usize];
        self.memory
            .read(self.at(start), &mut bytes)
            .map_err(CacheError::Nvram)?;
        let mut tags = Vec::new();
        for (slot, bytes) in (0..self.layout.slots).zip(bytes.chunks_exact(TAG)) {
            let offset = self.layout.tag(slot);
            let damaged = |what| CacheError::Damaged { offset, what };
            if let Some(tag) =
                Tag::decode(bytes, self.key, self.layout.disk_pages()).map_err(damaged)?
            {
                self.sequence = self.sequence.max(tag.sequence + 1);
                tags.push((slot, tag));
            }
        }
        Ok(tags)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn into_memory(self) -> N {
        self.memory
    }

    pub fn flush(&mut self) -> Result<(), BlockError> {
        self.memory.flush()
    }

    /// Reads part of a slot: whole sectors of the memory, from byte `at` on.
    #[inline]
    pub fn read(&mut self, slot: u32, at: u32, buf: &mut [u8]) -> Result<(), BlockError> {
        let lba = self.at(self.layout.place(slot) + u64::from(at));
        self.memory.read(lba, buf)
    }

    /// A new version of a page, in a slot without a tag.
    #[inline]
    pub fn write(&mut self, slot: u32, page: u32, data: &[u8]) -> Result<(), BlockError> {
        let lba = self.at(self.layout.place(slot));
        self.memory.write(lba, data)?;
        self.tag(slot, page, false)
    }

    /// The page of a slot is discarded: a newer version, of which only the tag is there.
    pub fn discard(&mut self, slot: u32, page: u32) -> Result<(), BlockError> {
        self.tag(slot, page, true)
    }

    /// A slot holds nothing any more.
    #[inline]
    pub fn clear(&mut self, slot: u32) -> Result<(), BlockError> {
        self.put_tag(slot, [0; TAG])
    }

    #[inline]
    fn tag(&mut self, slot: u32, page: u32, discarded: bool) -> Result<(), BlockError> {
        let tag = Tag {
            page,
            discarded,
            sequence: self.sequence,
        };
        self.sequence += 1;
        self.put_tag(slot, tag.encode(self.key))
    }

    fn put_tag(&mut self, slot: u32, tag: [u8; TAG]) -> Result<(), BlockError> {
        let offset = self.layout.tag(slot);
        let lba = self.at(offset);
        let within = (offset % u64::from(self.layout.line)) as usize;
        self.memory.read(lba, &mut self.line)?;
        self.line[within..within + TAG].copy_from_slice(&tag);
        self.memory.write(lba, &self.line)
    }

    #[inline]
    fn at(&self, offset: u64) -> Lba {
        Lba(offset / u64::from(self.layout.line))
    }
}
