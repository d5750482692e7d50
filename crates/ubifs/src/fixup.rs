//! Free space that is not erased. A programmer that knows nothing of UBI writes an image whole, the
//! erased pages at the ends of blocks too, and NAND takes no second program there. `mkfs.ubifs -F`
//! marks such an image (Linux `fs/ubifs/sb.c`, `fixup_free_space`).
//!
//! *Promises.* The first mount that may write changes each block with free space whole, or erases
//! it. *Power loss.* The superblock's mark goes last: until then the next mount begins anew.

use crate::bug::SeededBug;
use crate::error::{Result, UbifsError};
use crate::format::{Master, Props};
use crate::lebs::Lebs;
use crate::lpt::Lpt;
use crate::mount::{Found, Ubifs};
use alloc::vec::Vec;

impl<L: Lebs> Ubifs<L> {
    /// Marks a volume behind its unmount: the first mount that may write is to fix up its free
    /// space.
    pub fn require_fixup(&mut self) -> Result<()> {
        self.media.head.set_fixup(true);
        self.write_head()?;
        self.media.sync()
    }

    /// Erases the free space of a volume that asks for it.
    pub(crate) fn fix_up(&mut self, lpt: &Lpt, found: &Found) -> Result<()> {
        if !self.media.head.needs_fixup() {
            return Ok(());
        }
        // Linux drops what a journal has, as free space. Nobody writes to such a volume before.
        if self.journal.in_use || self.journal.nodes > 0 {
            let what = "a journal in free space that is to be fixed up";
            return Err(UbifsError::Feature { what });
        }
        if self.media.has_bug(SeededBug::UnmarkFirst) {
            self.unmark()?;
        }
        for (lnum, used) in self.used_parts(lpt, found) {
            self.repair_end(lnum, used)?;
        }
        self.unmark()
    }

    fn unmark(&mut self) -> Result<()> {
        self.media.head.set_fixup(false);
        self.write_head()
    }

    /// The blocks behind the superblock, and how many of their bytes are in use.
    fn used_parts(&self, lpt: &Lpt, found: &Found) -> Vec<(u32, u32)> {
        let here = self.media.geometry();
        let master = found.master_offs + Master::step(here.min_io);
        let in_log = |lnum: u32| {
            let mut log = found.log.iter();
            log.find(|(of, _)| *of == lnum).map_or(0, |(_, used)| *used)
        };
        let log = here.log_first()..here.lpt_first();
        let tree = lpt.ltab.iter().flatten().map(|own| here.leb - own.free);
        let orphans = here.orphan_first()..here.main_first();
        let empty = Props::empty(here.leb);
        let main = lpt.props.iter().map(|props| props.unwrap_or(empty));
        [(1, master), (2, master)]
            .into_iter()
            .chain(log.map(|lnum| (lnum, in_log(lnum))))
            .chain((here.lpt_first()..).zip(tree))
            .chain(orphans.map(|lnum| (lnum, 0)))
            .chain((here.main_first()..).zip(main.map(|props| here.leb - props.free)))
            .filter(|(_, used)| *used < here.leb)
            .collect()
    }
}
