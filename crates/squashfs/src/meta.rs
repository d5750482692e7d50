//! Bytes of the device, and metadata blocks: up to 8 KiB each, packed, one behind the other.
//!
//! *Promises.* A place in metadata is a block and a byte in it; reading goes on in the next block.
//! Blocks that were unpacked are kept, a fixed number of them.

use crate::error::{Result, SquashError, field};
use crate::format::{META, PLAIN, Super};
use alloc::{rc::Rc, vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba, Lru};

/// Metadata blocks that are kept: 512 KiB.
const METAS: usize = 64;
/// Data blocks and fragments that are kept: 4 MiB at most.
const BLOCKS: usize = 4;

/// A place in metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where the metadata block is on the device.
    pub block: u64,
    /// A byte in it.
    pub offset: usize,
}

impl Place {
    /// A reference: the block from the beginning of a table, and a byte in it.
    pub fn in_table(table: u64, reference: u64) -> Self {
        Self {
            block: table.saturating_add(reference >> 16),
            offset: (reference & 0xFFFF) as usize,
        }
    }
}

/// A metadata block unpacked.
#[derive(Clone)]
struct Meta {
    bytes: Rc<[u8]>,
    /// Where the next one is.
    next: u64,
}

/// The device with what was read of it.
pub(crate) struct Media<D> {
    device: D,
    pub head: Super,
    metas: Lru<u64, Meta>,
    blocks: Lru<(u64, u32), Rc<[u8]>>,
}

impl<D: BlockDevice> Media<D> {
    pub fn new(device: D, head: Super) -> Self {
        Self {
            device,
            head,
            metas: Lru::new(METAS),
            blocks: Lru::new(BLOCKS),
        }
    }

    pub fn into_device(self) -> D {
        self.device
    }

    /// Bytes of the device, which must belong to the file system.
    pub fn bytes(&mut self, at: u64, len: usize) -> Result<Vec<u8>> {
        let used = self.head.used;
        if at.checked_add(len as u64).is_none_or(|end| end > used) {
            let expected = "a place inside the file system";
            return field(at, "the length of what begins here", len as u64, expected);
        }
        raw(&mut self.device, at, len)
    }

    fn meta(&mut self, at: u64) -> Result<Meta> {
        if let Some(meta) = self.metas.get(at) {
            return Ok(meta.clone());
        }
        let head = self.bytes(at, 2)?;
        let word = u16::from_le_bytes([head[0], head[1]]);
        let len = word & 0x7FFF;
        if len == 0 || usize::from(len) > META {
            return field(at, "the length of a metadata block", len, "1 to 8192 bytes");
        }
        let packed = self.bytes(at + 2, len.into())?;
        let bytes = match word & 0x8000 {
            0 => self.unpacked(at, &packed, META)?,
            _ => packed.into(),
        };
        let next = at + 2 + u64::from(len);
        let meta = Meta { bytes, next };
        self.metas.insert(at, meta.clone());
        Ok(meta)
    }

    fn unpacked(&self, at: u64, packed: &[u8], capacity: usize) -> Result<Rc<[u8]>> {
        let mut bytes = vec![0; capacity];
        match self.head.compressor.unpack(packed, &mut bytes) {
            Ok(len) => Ok(bytes[..len].into()),
            Err(why) => Err(SquashError::Block {
                at,
                len: packed.len() as u32,
                why,
            }),
        }
    }

    /// Fills a buffer from metadata, and moves the place behind it.
    pub fn fill(&mut self, place: &mut Place, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let meta = self.meta(place.block)?;
            let Some(rest) = meta.bytes.get(place.offset..) else {
                let expected = "a byte of it";
                return field(
                    place.block,
                    "a place in a metadata block",
                    place.offset as u64,
                    expected,
                );
            };
            let count = rest.len().min(buf.len() - done);
            buf[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
            place.offset += count;
            if place.offset == meta.bytes.len() {
                *place = Place {
                    block: meta.next,
                    offset: 0,
                };
            }
        }
        Ok(())
    }

    /// So many bytes of metadata.
    pub fn take<const N: usize>(&mut self, place: &mut Place) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(place, &mut bytes)?;
        Ok(bytes)
    }

    /// Moves a place on. Metadata blocks but the last of a table are full.
    pub fn skip(&mut self, place: &mut Place, mut count: u64) -> Result<()> {
        while count > 0 {
            let meta = self.meta(place.block)?;
            let rest = meta.bytes.len().saturating_sub(place.offset) as u64;
            if count < rest {
                place.offset += count as usize;
                return Ok(());
            }
            if meta.bytes.is_empty() || rest == 0 && place.offset > meta.bytes.len() {
                let expected = "a byte of it";
                return field(
                    place.block,
                    "a place in a metadata block",
                    place.offset as u64,
                    expected,
                );
            }
            count -= rest;
            *place = Place {
                block: meta.next,
                offset: 0,
            };
        }
        Ok(())
    }

    /// An entry of a table whose blocks are listed, 8 bytes each, at `list`.
    pub fn entry<const N: usize>(&mut self, list: u64, index: u64) -> Result<[u8; N]> {
        let each = (META / N) as u64;
        let at = list.saturating_add(index / each * 8);
        let pointer = self.bytes(at, 8)?;
        let block = pointer.iter().rev();
        let block = block.fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let offset = (index % each) as usize * N;
        self.take(&mut Place { block, offset })
    }

    /// A data block or a fragment, unpacked: at most as long as a block.
    pub fn block(&mut self, at: u64, word: u32) -> Result<Rc<[u8]>> {
        if let Some(bytes) = self.blocks.get((at, word)) {
            return Ok(bytes.clone());
        }
        let len = word & (PLAIN - 1);
        let capacity = self.head.block as usize;
        if word & !(PLAIN | (PLAIN - 1)) != 0 || len == 0 || len as usize > capacity {
            return field(
                at,
                "the length of a data block",
                word,
                "1 byte to a block's length",
            );
        }
        let packed = self.bytes(at, len as usize)?;
        let bytes: Rc<[u8]> = match word & PLAIN {
            0 => self.unpacked(at, &packed, capacity)?,
            _ => packed.into(),
        };
        self.blocks.insert((at, word), bytes.clone());
        Ok(bytes)
    }
}

/// Bytes of a device at any place.
pub(crate) fn raw(device: &mut impl BlockDevice, at: u64, len: usize) -> Result<Vec<u8>> {
    let geometry = *device.geometry();
    let sector = u64::from(geometry.sector);
    let first = at / sector;
    let end = (at + len as u64).div_ceil(sector);
    let mut sectors = vec![0; ((end - first) * sector) as usize];
    device.read(Lba(first), &mut sectors)?;
    let skip = (at - first * sector) as usize;
    sectors.drain(..skip);
    sectors.truncate(len);
    Ok(sectors)
}
