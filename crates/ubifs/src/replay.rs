//! The journal: what was changed since the last commit, in the order of sequence numbers.
//!
//! *Promises.* [`read`] takes the nodes of every part of the journal; the last part of each head
//! may be torn, if the volume was in use. [`apply`] brings the index up to date as Linux does
//! (`fs/ubifs/replay.c`, and the fallible look-ups of `tnc.c`: an entry of the index may lead to a
//! node that was moved since).

use crate::bug::SeededBug;
use crate::error::Result;
use crate::format::{
    Branch, DataNode, Entry, Fault, InodeNode, Key, KeyKind, Kind, Ref, SQNUM_LIMIT, Truncation,
};
use crate::index::{Index, Slot};
use crate::lebs::Lebs;
use crate::log::{GC_HEAD, Log};
use crate::node::Media;
use crate::scan::{self, Ends, Found};
use crate::sizes::Sizes;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The change of a node of the journal.
#[derive(Debug)]
enum Change {
    Inode {
        size: u64,
        is_gone: bool,
    },
    Data {
        end: u64,
    },
    Entry {
        name: Vec<u8>,
        is_gone: bool,
    },
    Truncation {
        old: u64,
        new: u64,
    },
    /// Unreadable contents.
    Lost,
}

/// A node of the journal.
#[derive(Debug)]
pub(crate) struct Step {
    pub sqnum: u64,
    pub key: Key,
    pub at: Branch,
    change: Change,
}

impl Step {
    /// An unreadable data node. A read of it reports the damage.
    pub fn lost(sqnum: u64, key: Key, at: Branch) -> Self {
        let change = Change::Lost;
        Self {
            sqnum,
            key,
            at,
            change,
        }
    }

    /// The order in which steps count. Of two copies of a node the readable one counts.
    pub fn order(&self) -> (u64, bool) {
        (self.sqnum, !matches!(self.change, Change::Lost))
    }
}

/// A part of the journal, and the byte behind its last node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bud {
    pub at: Ref,
    pub used: u32,
    pub may_tear: bool,
}

/// The nodes of the journal, by their sequence numbers. Adds the parts to `buds`.
pub(crate) fn read<L: Lebs>(
    media: &mut Media<L>,
    log: &Log,
    in_use: bool,
    buds: &mut Vec<Bud>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (index, bud) in log.buds.iter().enumerate() {
        let may_tear = in_use && is_last(media, log, index)?;
        let bytes = media.leb(bud.lnum)?;
        let ends = match bud.head {
            _ if media.has_bug(SeededBug::KeepTornGroups) => Ends::Single,
            GC_HEAD => Ends::Moved,
            _ => Ends::Grouped,
        };
        let here = media.geometry();
        let scanned = match may_tear {
            true => scan::torn(&bytes, bud.lnum, bud.offs, &here, ends)?,
            false => scan::clean(&bytes, bud.lnum, bud.offs, &here)?,
        };
        let used = scanned.used;
        buds.push(Bud {
            at: *bud,
            used,
            may_tear,
        });
        for node in scanned.nodes {
            if let Some(step) = step(&bytes, bud.lnum, node)? {
                steps.push(step);
            }
        }
    }
    if media.has_bug(SeededBug::ReplayUnsorted) {
        return Ok(steps);
    }
    steps.sort_by_key(|step| step.sqnum);
    if let Some(pair) = steps.windows(2).find(|pair| pair[0].sqnum == pair[1].sqnum) {
        let what = "the sequence number of a node of the journal";
        let fault = Fault::rule(what, pair[1].sqnum, "one that no other node has");
        return Err(fault.at(pair[1].at.lnum, pair[1].at.offs));
    }
    Ok(steps)
}

/// Whether a part is the last one of its head: or the last but one, where the last is empty.
fn is_last<L: Lebs>(media: &mut Media<L>, log: &Log, index: usize) -> Result<bool> {
    let bud = log.buds[index];
    let mut later = log.buds[index + 1..]
        .iter()
        .filter(|later| later.head == bud.head);
    let Some(next) = later.next() else {
        return Ok(true);
    };
    if later.next().is_some() || next.offs + 4 > media.geometry().leb {
        return Ok(false);
    }
    let mut first = [0; 4];
    media.read(next.lnum, next.offs, &mut first)?;
    Ok(crate::format::is_erased(&first))
}

pub(crate) fn step(leb: &[u8], lnum: u32, node: Found) -> Result<Option<Step>> {
    let Found { offs, header } = node;
    let wrong = |fault: Fault| fault.at(lnum, offs);
    let bytes = &leb[offs as usize..][..header.len as usize];
    let sqnum = header.sqnum;
    let fits = sqnum < SQNUM_LIMIT;
    Fault::unless(fits, "the sequence number of a node", sqnum, "far less").map_err(wrong)?;
    let (key, change) = match header.kind {
        Kind::Inode => {
            let inode = InodeNode::parse(bytes).map_err(wrong)?;
            let (size, is_gone) = (inode.size, inode.links == 0);
            (Key::of_inode(inode.inode), Change::Inode { size, is_gone })
        }
        Kind::Data => {
            let data = DataNode::parse(bytes).map_err(wrong)?;
            (data.key, Change::Data { end: data.end() })
        }
        Kind::Dent | Kind::Xent => {
            let entry = Entry::parse(bytes, header.kind).map_err(wrong)?;
            let (name, is_gone) = (entry.name.into(), entry.inode == 0);
            (entry.key, Change::Entry { name, is_gone })
        }
        Kind::Truncation => {
            let Truncation { inode, old, new } = Truncation::parse(bytes).map_err(wrong)?;
            (Key::of_inode(inode), Change::Truncation { old, new })
        }
        Kind::Auth => return Ok(None),
        kind => {
            let expected = "one that the journal has";
            let fault = Fault::rule("the type of a node of the journal", kind as u8, expected);
            return Err(wrong(fault));
        }
    };
    let len = header.len;
    Ok(Some(Step {
        sqnum,
        key,
        at: Branch { lnum, offs, len },
        change,
    }))
}

/// Forgets where names lay in blocks that the journal has from their beginnings on: collection
/// emptied them since the commit. A new node there may have the hash of an old one.
pub(crate) fn forget_emptied<L: Lebs>(media: &Media<L>, index: &mut Index, buds: &[Bud]) {
    let emptied = buds.iter().filter(|bud| bud.at.offs == 0);
    let lnums: BTreeSet<u32> = emptied.map(|bud| bud.at.lnum).collect();
    if !lnums.is_empty() && !media.has_bug(SeededBug::TrustOldPlaces) {
        index.unplace_names(&lnums, media.geometry().leb);
    }
}

/// Brings the index up to date.
pub(crate) fn apply<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    steps: &[Step],
    sizes: &mut Sizes,
) -> Result<()> {
    let lasts = last_inodes(steps);
    for step in steps {
        let inode = step.key.inode();
        match &step.change {
            Change::Inode { is_gone: true, .. } => {
                // A file without a name may have got one again.
                if lasts.get(&inode) == Some(&true) {
                    remove_inode(media, index, inode)?;
                }
            }
            Change::Entry { name, is_gone } => {
                entry(media, index, step, name, *is_gone)?;
            }
            Change::Truncation { old, new } => index.truncate(inode, *old, *new),
            _ => index.set(step.key, step.at),
        }
        match step.change {
            Change::Inode { size, is_gone } => sizes.inode(inode, size, is_gone),
            Change::Data { end } => sizes.data(inode, end),
            Change::Truncation { new, .. } => sizes.truncated(inode, new),
            Change::Entry { .. } | Change::Lost => {}
        }
    }
    Ok(())
}

/// Takes inodes out that lost their last name. A program may write to one that it still has open.
pub(crate) fn remove_gone<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    steps: &[Step],
) -> Result<()> {
    let lasts = last_inodes(steps);
    let gone = lasts.into_iter().filter(|(_, is_gone)| *is_gone);
    gone.map(|(inode, _)| inode)
        .try_for_each(|inode| remove_inode(media, index, inode))
}

/// Whether the last node of each inode deletes it.
fn last_inodes(steps: &[Step]) -> BTreeMap<u32, bool> {
    let inodes = steps.iter().filter_map(|step| match step.change {
        Change::Inode { is_gone, .. } => Some((step.key.inode(), is_gone)),
        _ => None,
    });
    inodes.collect()
}

/// Takes an inode out, with its contents, its attributes and the inodes of their values. An entry
/// may be gone with its block; then the journal says by itself that the inode of the value is.
pub(crate) fn remove_inode<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    inode: u32,
) -> Result<()> {
    let (from, to) = Key::kind_range(inode, KeyKind::Xent);
    let entries: Vec<_> = index.range(from, to).collect();
    for (slot, at) in entries {
        match media.leaf(at, slot.key) {
            Ok((_, bytes)) => {
                if let Ok(entry) = Entry::parse(bytes, Kind::Xent) {
                    index.remove_inode(entry.inode);
                }
            }
            Err(error) => media.pass(error)?,
        }
    }
    index.remove_inode(inode);
    Ok(())
}

/// Adds, replaces or removes a name.
fn entry<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    step: &Step,
    name: &[u8],
    is_gone: bool,
) -> Result<()> {
    let (same, dangling) = find(media, index, step.key, name)?;
    match (same, dangling) {
        (Some(slot), _) if is_gone => index.remove(slot),
        (Some(slot), _) => index.replace(slot, step.at),
        (None, dangling) => {
            if let Some(slot) = dangling {
                index.remove(slot);
            }
            if !is_gone {
                insert(media, index, step.key, name, step.at)?;
            }
        }
    }
    Ok(())
}

/// Adds a name behind the lesser ones with the same hash. A node that is gone has no name.
pub(crate) fn insert<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    key: Key,
    name: &[u8],
    at: Branch,
) -> Result<()> {
    let all: Vec<_> = index.nodes_of(key).collect();
    let mut position = 0;
    for (_, at) in all {
        let kind = crate::node::kind_of(key);
        let is_less = match media.leaf(at, key) {
            Ok((_, bytes)) => Entry::parse(bytes, kind).is_ok_and(|entry| entry.name < name),
            Err(error) => media.pass(error).map(|()| true)?,
        };
        position += usize::from(is_less);
    }
    index.insert(key, position, at);
    Ok(())
}

/// Returns the slot with that name, and a slot with its hash whose node is gone.
pub(crate) fn find<L: Lebs>(
    media: &mut Media<L>,
    index: &Index,
    key: Key,
    name: &[u8],
) -> Result<(Option<Slot>, Option<Slot>)> {
    let mut dangling = None;
    for (slot, at) in index.nodes_of(key) {
        let kind = crate::node::kind_of(key);
        match media.leaf(at, key) {
            Ok((_, bytes)) => match Entry::parse(bytes, kind) {
                Ok(entry) if entry.name == name => return Ok((Some(slot), None)),
                Ok(_) => {}
                Err(_) => dangling = Some(slot),
            },
            Err(error) => {
                media.pass(error)?;
                dangling = Some(slot);
            }
        }
    }
    Ok((None, dangling))
}
