//! Repairs what follows from something else and says something else: counts, links, the longest
//! run, valid blocks and nodes that nothing uses. What has lost its name gets one in `lost+found`.
//!
//! *Promises.* A pass changes what one check can tell; it takes effect with the checkpoint of a
//! sync or an unmount. While it is in doubt which block is whose, nothing is changed. *Knows
//! nothing of* contents and names.

use crate::{
    F2fs, F2fsError,
    check::Check,
    finding::Finding,
    format::{NULL, SEGMENT, inode, put32, put64},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Call, Errno, Gated as _, Time};

/// Whether it is in doubt which block is whose.
fn in_doubt(check: &Check) -> bool {
    let doubtful = |finding: &Finding| {
        matches!(
            finding,
            Finding::Unreadable { .. }
                | Finding::Stray { .. }
                | Finding::CrossLink { .. }
                | Finding::Invalid { .. }
                | Finding::Summary { .. }
        )
    };
    check.report.more > 0 || check.report.findings.iter().any(doubtful)
}

impl<D: BlockDevice> F2fs<D> {
    /// Repairs what it can in one pass; returns how many findings that were. One may show the next.
    pub fn repair(&mut self, now: Time) -> Result<u32, Errno> {
        let check = self.look(Call::new("repair"), Self::walk_all)?;
        if in_doubt(&check) {
            return Ok(0);
        }
        self.change(Call::new("repair"), now, |f2fs| {
            let mut repaired = 0;
            for finding in &check.report.findings {
                repaired += u32::from(f2fs.repair_one(finding, &check)?);
            }
            // New names take nodes and blocks, of which the check knows nothing.
            let nameless = check
                .report
                .findings
                .iter()
                .filter_map(|finding| match finding {
                    Finding::Nameless { ino } if repaired == 0 => Some(*ino),
                    _ => None,
                });
            for ino in nameless.collect::<Vec<u32>>() {
                match f2fs.reconnect(ino) {
                    Ok(()) => repaired += 1,
                    // No space, or the name is taken: it stays as it is.
                    Err(F2fsError::Call(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(repaired)
        })
    }

    fn repair_one(&mut self, finding: &Finding, check: &Check) -> Result<bool, F2fsError> {
        match finding {
            Finding::Links { ino, expected, .. } => {
                put32(self.node_mut(*ino)?, inode::LINKS, *expected)
            }
            Finding::Field {
                ino,
                field: "blocks",
                expected,
                ..
            } => put64(self.node_mut(*ino)?, inode::BLOCKS, *expected),
            Finding::Field {
                ino,
                field: "longest run",
                ..
            } => {
                let bytes = self.node_mut(*ino)?;
                [0, 4, 8]
                    .iter()
                    .for_each(|at| put32(bytes, inode::EXTENT + at, 0));
            }
            Finding::LostNode { nid } => {
                self.set_nat(*nid, 0, NULL)?;
                self.nodes.forget(*nid);
                self.end_names();
            }
            Finding::LostBlocks { segment, .. } => {
                for at in 0..SEGMENT as usize {
                    let used = crate::format::bit(&check.used, (segment * SEGMENT) as usize + at);
                    if self.segments.get(*segment).is_valid(at) && !used {
                        self.segments.unmark((*segment, at))?;
                    }
                }
            }
            Finding::Count {
                what: "valid nodes",
                expected,
                ..
            } => self.checkpoint.nodes = *expected as u32,
            Finding::Count {
                what: "valid inodes",
                expected,
                ..
            } => self.checkpoint.inodes = *expected as u32,
            Finding::Count {
                what: "valid blocks",
                expected,
                ..
            } => self.checkpoint.valid_blocks = *expected,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
