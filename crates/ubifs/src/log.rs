//! The log: which parts of the main area the journal has, in the order in which it took them.
//!
//! *Power loss.* The last block of the log may be torn, if the volume was in use.

use crate::error::Result;
use crate::format::{Fault, Geometry, Header, Kind, Master, Ref, SQNUM_LIMIT, le64, node};
use crate::lebs::Lebs;
use crate::node::Media;
use crate::scan::{self, Ends, Scanned};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Heads of the journal.
pub(crate) const HEADS: u32 = 3;
/// The head that collected nodes are moved through.
pub(crate) const GC_HEAD: u32 = 0;

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Parts of the journal, in the log's order.
    pub buds: Vec<Ref>,
    /// The number of the commit that the log begins with.
    started: Option<u64>,
    known: BTreeMap<u32, Ref>,
    /// The blocks that were read: their numbers and the ends of their nodes.
    pub blocks: Vec<(u32, u32)>,
    /// The greatest sequence number.
    pub sqnum: u64,
}

impl Log {
    /// Reads the log from the master's first block on, round its area.
    pub fn read<L: Lebs>(media: &mut Media<L>, master: &Master, in_use: bool) -> Result<Self> {
        let here = media.geometry();
        let mut log = Self::default();
        let mut lnum = master.log_lnum;
        loop {
            let bytes = media.leb(lnum)?;
            if log
                .started
                .is_some_and(|started| is_old(&bytes, started, &here))
            {
                return Ok(log);
            }
            let scanned = match scan::clean(&bytes, lnum, 0, &here) {
                Err(error) if in_use => log.torn(media, &bytes, lnum, master).map_err(|worse| {
                    // The tear explains the error, unless it cannot be one.
                    if worse.leb().is_some() { worse } else { error }
                })?,
                scanned => scanned?,
            };
            let goes_on = log.take(&bytes, lnum, &scanned, master, &here)?;
            lnum = next(lnum, &here);
            if !goes_on || lnum == master.log_lnum {
                return Ok(log);
            }
        }
    }

    /// The end of the log: the next block must be empty or old.
    fn torn<L: Lebs>(
        &self,
        media: &mut Media<L>,
        bytes: &[u8],
        lnum: u32,
        master: &Master,
    ) -> Result<Scanned> {
        let here = media.geometry();
        let after = next(lnum, &here);
        if after != master.log_lnum {
            let behind = media.leb(after)?;
            let started = self.started.unwrap_or_else(|| match bytes.get(8..16) {
                Some(sqnum) => le64(sqnum, 0),
                None => 0,
            });
            if !is_old(&behind, started, &here) {
                scan::clean(bytes, lnum, 0, &here)?;
            }
        }
        scan::torn(bytes, lnum, 0, &here, Ends::Single)
    }

    /// Takes what a block of the log says. Returns whether the log may go on behind it.
    fn take(
        &mut self,
        bytes: &[u8],
        lnum: u32,
        scanned: &Scanned,
        master: &Master,
        here: &Geometry,
    ) -> Result<bool> {
        let wrong = |offs: u32, fault: Fault| Err(fault.at(lnum, offs));
        let Some(first) = scanned.nodes.first() else {
            return match self.started {
                Some(_) => Ok(false),
                None => wrong(0, Fault::rule("the nodes of the log", 0u32, "1 or more")),
            };
        };
        let started = match self.started {
            Some(started) => started,
            None => self.begin(bytes, lnum, scanned, master)?,
        };
        if first.header.sqnum < started {
            return Ok(false);
        }
        self.blocks.push((lnum, scanned.used));
        if first.offs != 0 {
            let what = "the place of the first node of the log";
            return wrong(first.offs, Fault::value(what, first.offs, 0u32));
        }
        for node in &scanned.nodes {
            let sqnum = node.header.sqnum;
            if !(started..SQNUM_LIMIT).contains(&sqnum) {
                let what = "the sequence number of a node of the log";
                return wrong(
                    node.offs,
                    Fault::rule(what, sqnum, "one behind the commit's"),
                );
            }
            self.sqnum = self.sqnum.max(sqnum);
            match node.header.kind {
                Kind::Ref => {
                    let one = Ref::parse(&bytes[node.offs as usize..][..64]);
                    if let Err(fault) = self.reference(one, here) {
                        return wrong(node.offs, fault);
                    }
                }
                Kind::Commit if node.offs == 0 => {}
                kind => {
                    let expected = "a reference, or a commit start at 0";
                    let fault = Fault::rule("the type of a node of the log", kind as u8, expected);
                    return wrong(node.offs, fault);
                }
            }
        }
        Ok(scanned.end > 0)
    }

    /// The first node of the log must be the last commit's.
    fn begin(
        &mut self,
        bytes: &[u8],
        lnum: u32,
        scanned: &Scanned,
        master: &Master,
    ) -> Result<u64> {
        let first = scanned.nodes[0];
        let at = first.offs as usize;
        let fault = match first.header.kind {
            Kind::Commit if le64(bytes, at + 24) == master.commit => {
                self.started = Some(first.header.sqnum);
                return Ok(first.header.sqnum);
            }
            Kind::Commit => {
                let what = "the number of the commit that the log begins with";
                Fault::value(what, le64(bytes, at + 24), master.commit)
            }
            kind => Fault::value("the type of the log's first node", kind as u8, 10u8),
        };
        Err(fault.at(lnum, first.offs))
    }

    fn reference(&mut self, one: Ref, here: &Geometry) -> Result<(), Fault> {
        let fits = one.head < HEADS;
        Fault::unless(fits, "the head of a reference", one.head, "0 to 2")?;
        let fits = here.is_main(one.lnum, one.offs, 0) && one.offs.is_multiple_of(here.min_io);
        Fault::unless(
            fits,
            "the block of a reference",
            one.lnum,
            "a write in the main area",
        )?;
        if let Some(before) = self.known.get(&one.lnum) {
            let again = before.head == one.head && before.offs <= one.offs;
            let expected = "a block that no other reference names";
            return Fault::unless(again, "the block of a reference", one.lnum, expected);
        }
        self.known.insert(one.lnum, one);
        self.buds.push(one);
        Ok(())
    }
}

/// Whether a block has nothing of the log that began with the sequence number `started`. A block of
/// the log is unmapped when it is no longer needed. After a power cut it may read as it was before,
/// or as a part of that, because its erase may be torn.
fn is_old(bytes: &[u8], started: u64, here: &Geometry) -> bool {
    let at = |offs: usize| node(&bytes[offs..], here.leb, here.fanout).ok();
    let is_new = |header: Header| header.sqnum >= started;
    match at(0) {
        Some((first, _)) => !is_new(first),
        None => {
            let offsets = (0..bytes.len()).step_by(here.min_io as usize);
            let mut nodes = offsets.filter_map(at);
            !nodes.any(|(header, _)| is_new(header))
        }
    }
}

pub(crate) fn next(lnum: u32, here: &Geometry) -> u32 {
    match lnum + 1 {
        next if next < here.lpt_first() => next,
        _ => here.log_first(),
    }
}
