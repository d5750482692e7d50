//! Compares what the LEB properties tree says of the main area with the index of the last commit,
//! with the journal, and with what lies in the blocks (Linux's `dbg_check_lprops` and
//! `dbg_check_ltab`).
//!
//! *Promises.* Used bytes are counted from the index. Blocks with nodes in use are scanned to their
//! ends, except those that the journal has, which a mount scans. *Knows nothing of* what nodes
//! mean.

use crate::error::Result;
use crate::finding::Finding;
use crate::format::{Geometry, LptShape, Props, Space};
use crate::index::Use;
use crate::lebs::Lebs;
use crate::lpt::Lpt;
use crate::mount::Ubifs;
use crate::scan::{self, Ends};
use alloc::collections::BTreeSet;

/// Reports everything that does not agree.
pub(crate) fn compare<L: Lebs>(fs: &mut Ubifs<L>, report: &mut dyn FnMut(Finding)) {
    let lpt = Lpt::load(&mut fs.media, &fs.master);
    for error in lpt.faults.iter().cloned() {
        report(Finding::Properties { error });
    }
    let mut compare = Compare {
        here: fs.media.geometry(),
        report,
    };
    compare.area(&LptShape::new(&fs.media.head), &lpt);
    // Without a part of the index nothing can be counted.
    if fs.index.holes.is_empty() {
        compare.main(fs, &lpt);
    }
    compare.totals(fs, &lpt);
}

struct Compare<'a> {
    here: Geometry,
    report: &'a mut dyn FnMut(Finding),
}

impl Compare<'_> {
    fn count(&mut self, lnum: u32, what: &'static str, found: u64, counted: u64) {
        if found != counted {
            (self.report)(Finding::Space {
                lnum,
                what,
                found,
                counted,
            });
        }
    }

    /// The tree's own blocks.
    fn area(&mut self, shape: &LptShape, lpt: &Lpt) {
        let Some(ltab) = lpt.ltab.as_ref().filter(|_| lpt.faults.is_empty()) else {
            return;
        };
        for ((lnum, known), live) in (shape.first..).zip(ltab).zip(&lpt.live) {
            let used = self.here.leb - known.free - known.dirty;
            self.count(lnum, "bytes of the properties tree", used.into(), *live);
        }
    }

    fn main<L: Lebs>(&mut self, fs: &mut Ubifs<L>, lpt: &Lpt) {
        let live: BTreeSet<u32> = fs.index.leaves().map(|at| at.lnum).collect();
        for (lnum, props) in (self.here.main_first()..).zip(&lpt.props) {
            let Some(props) = *props else {
                continue;
            };
            let usage = fs.index.used.get(&lnum).copied().unwrap_or_default();
            self.usage(lnum, props, usage);
            match fs
                .buds
                .iter()
                .map(|bud| bud.at)
                .find(|bud| bud.lnum == lnum)
            {
                // From its beginning on: collection has emptied it since the commit.
                Some(bud) if bud.offs == 0 => {}
                Some(bud) => {
                    let free = self.here.leb - bud.offs;
                    self.count(lnum, "free bytes", props.free.into(), free.into());
                }
                None if usage.index > 0 || !props.is_index && live.contains(&lnum) => {
                    if let Err(error) = self.contents(fs, lnum, props) {
                        (self.report)(Finding::Contents { error });
                    }
                }
                None => {}
            }
        }
    }

    fn usage(&mut self, lnum: u32, props: Props, usage: Use) {
        let used = u64::from(props.used(self.here.leb));
        self.count(lnum, "used bytes", used, usage.leaves + usage.index);
        let is_index = u64::from(props.is_index);
        if usage.index > 0 && usage.leaves > 0 {
            (self.report)(Finding::Mixed { lnum });
        } else if usage.index + usage.leaves > 0 {
            let counted = u64::from(usage.index > 0);
            self.count(lnum, "flag of an index block", is_index, counted);
        }
    }

    /// The nodes of a block, and nothing behind them. A commit that a power cut interrupted may
    /// have written to a block of the index.
    fn contents<L: Lebs>(&mut self, fs: &mut Ubifs<L>, lnum: u32, props: Props) -> Result<()> {
        let bytes = fs.media.leb(lnum)?;
        if props.is_index && fs.journal.in_use {
            return scan::torn(&bytes, lnum, 0, &self.here, Ends::Single).map(drop);
        }
        let scanned = scan::clean(&bytes, lnum, 0, &self.here)?;
        // An interrupted commit may have filled gaps, in the free space too. Nobody writes there
        // but a commit that changes the block whole.
        if props.is_index && lnum != fs.master.index_head.0 {
            return Ok(());
        }
        let free = self.here.leb - scanned.end;
        self.count(lnum, "free bytes", props.free.into(), free.into());
        Ok(())
    }

    /// The sums that the master node has.
    fn totals<L: Lebs>(&mut self, fs: &Ubifs<L>, lpt: &Lpt) {
        let here = self.here;
        let mut space = Space::default();
        for props in &lpt.props {
            let Some(props) = *props else {
                return;
            };
            space.add(props, &here);
        }
        // Blocks by which the volume grew since the master node was written.
        let mut said = fs.master.space;
        let grown = here.lebs.saturating_sub(fs.master.lebs);
        (0..grown).for_each(|_| said.add(Props::empty(here.leb), &here));
        let pairs = [
            ("total of free bytes", said.free, space.free),
            ("total of dirty bytes", said.dirty, space.dirty),
            ("total of used bytes", said.used, space.used),
            ("total of dead bytes", said.dead, space.dead),
            ("total of dark bytes", said.dark, space.dark),
            (
                "number of empty blocks",
                said.empty_lebs.into(),
                space.empty_lebs.into(),
            ),
            (
                "number of index blocks",
                said.index_lebs.into(),
                space.index_lebs.into(),
            ),
        ];
        for (what, found, counted) in pairs {
            if found != counted {
                let path = alloc::vec::Vec::new();
                (self.report)(Finding::Count {
                    path,
                    what,
                    found,
                    counted,
                });
            }
        }
    }
}
