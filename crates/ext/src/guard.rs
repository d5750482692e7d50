//! The block that guards a volume against a second mount (`mmp`).
//!
//! *Promises.* A volume that another host may be using is not written. An image file has no second
//! host that writes while this one waits, so nothing waits here. The block stays as it is:
//! the caller has the image locked.

use crate::{
    Ext, ExtError,
    check::Walk,
    finding::Finding,
    format::{Layout, incompat, le32, sb},
    store::Store,
};
use nandlab_block::BlockDevice;
use nandlab_jbd::crc32c;

const MAGIC: u32 = 0x004D_4D50;
const SEQUENCE: usize = 4;
const CHECKSUM: usize = 1020;
/// The sequence of a volume that was unmounted.
const CLEAN: u32 = 0xFF4D_4D50;

/// Where the block lies; none on volumes without.
fn place(layout: &Layout, superblock: &[u8]) -> Option<u32> {
    let block = le32(superblock, sb::MMP_BLOCK);
    (layout.incompat & incompat::MMP != 0).then_some(block)
}

/// Refuses a volume that is in use elsewhere.
pub(crate) fn check<D: BlockDevice>(store: &mut Store<D>) -> Result<(), ExtError> {
    let layout = store.layout;
    let Some(block) = place(&layout, store.superblock()?) else {
        return Ok(());
    };
    if !layout.is_block(block) {
        return Err(ExtError::Super {
            offset: sb::MMP_BLOCK as u16,
            field: "block of multiple mount protection",
            found: block,
            expected: "a block of the volume",
        });
    }
    judge(&layout, block, store.block(block)?)
}

fn judge(layout: &Layout, block: u32, bytes: &[u8]) -> Result<(), ExtError> {
    let wrong = |offset: usize, field, expected| ExtError::Block {
        block,
        offset: offset as u32,
        field,
        found: le32(bytes, offset).into(),
        expected,
    };
    if le32(bytes, 0) != MAGIC {
        return Err(wrong(0, "magic of multiple mount protection", "0x4d4d50"));
    }
    let expected = crc32c(layout.seed, &bytes[..CHECKSUM]);
    if layout.has_sums() && le32(bytes, CHECKSUM) != expected {
        return Err(ExtError::Checksum {
            block,
            offset: CHECKSUM as u32,
            what: "multiple mount protection",
            found: le32(bytes, CHECKSUM),
            expected,
        });
    }
    match le32(bytes, SEQUENCE) {
        CLEAN => Ok(()),
        _ => Err(wrong(
            SEQUENCE,
            "sequence of multiple mount protection",
            "0xff4d4d50: the volume was unmounted and no e2fsck is at work",
        )),
    }
}

impl<D: BlockDevice> Ext<D> {
    /// The block is there, makes sense, and belongs to nobody else.
    pub(crate) fn check_guard(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let Some(block) = place(&layout, self.store.superblock()?) else {
            return Ok(());
        };
        if layout.is_block(block) {
            walk.mark(block);
        }
        match check(&mut self.store) {
            Err(error @ ExtError::Device(_)) => Err(error),
            Err(error) => {
                walk.report.add(Finding::Mount { error });
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
