//! Reads every node that the index points to, and compares what is said twice.
//!
//! *Promises.* Each node's checksum, key and fields; contents unpacked; names, links, sizes and
//! attributes counted, as Linux's `dbg_check_filesystem` does. The structure of the index was
//! looked at when it was loaded. The properties of logical blocks and the totals of free and dirty
//! space are compared with what is counted (`space`).

use crate::batch::INODES_END;
use crate::error::{Result, UbifsError};
use crate::finding::Finding;
use crate::format::{Branch, Key, KeyKind, align8};
use crate::index::Slot;
use crate::inode::Inode;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::replay::Bud;
use crate::space;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandlab_vfs::report::Report;
use nandlab_vfs::{FileType, Ino, check_name};

/// Counts of what a check read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Inodes, those of attributes among them.
    pub inodes: u64,
    /// Data nodes that the check read.
    pub blocks: u64,
    /// Bytes of contents, unpacked.
    pub bytes: u64,
}

/// Bytes that Linux counts for an entry of a directory or of attributes.
fn entry_bytes(name: &[u8]) -> u64 {
    align8(57 + name.len() as u32).into()
}

/// Bytes that Linux counts for a directory without entries.
const DIRECTORY_BYTES: u64 = 160;

/// Evidence of an inode in nodes.
#[derive(Default)]
struct Met {
    /// What its own node says; none if that is not there or cannot be read.
    inode: Option<Inode>,
    is_unread: bool,
    /// Names, and the first of them: its directory and its place in the index.
    names: u32,
    first: Option<(u32, Slot)>,
    /// The type that the first name has.
    kind: Option<FileType>,
    directories: u32,
    entry_bytes: u64,
    /// Attributes, the bytes of their nodes, and of their names.
    xattrs: u32,
    xattr_bytes: u64,
    xattr_names: u64,
    /// The inode whose attribute it is.
    host: Option<u32>,
    /// The end of its last data node.
    data: u64,
}

/// A finding whose path is not known yet.
enum Early {
    Unread(u32, &'static str, UbifsError),
    Entry(u32, Slot, Misfit),
}

/// An entry that does not fit.
enum Misfit {
    Name,
    Wrong(&'static str),
}

struct Check<'a, L> {
    fs: &'a mut Ubifs<L>,
    report: Report<Finding, Totals>,
    met: BTreeMap<u32, Met>,
    early: Vec<Early>,
    /// No node was unreadable.
    all_read: bool,
}

impl<L: Lebs> Ubifs<L> {
    /// Reads everything, and reports what cannot be read or does not agree. A volume that may be
    /// written is committed before.
    pub fn check(&mut self) -> Report<Finding, Totals> {
        let mut report: Report<Finding, Totals> = Report::default();
        if let Some(salvaged) = &self.salvaged {
            report.findings = salvaged.findings.clone();
            report.more = salvaged.more;
        }
        if self.gate.is_writable() {
            match self.commit() {
                Ok(()) => self.recount(),
                Err(error) => report.add(Finding::Properties { error }),
            }
        }
        let mut check = Check {
            fs: self,
            report,
            met: BTreeMap::new(),
            early: Vec::new(),
            all_read: true,
        };
        check.holes();
        check.nodes();
        check.early();
        check.inodes();
        // The last commit tells nothing of nodes that a scan found.
        if check.fs.salvaged.is_none() {
            check.commit();
            check.space();
        }
        check.report
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Counts what the commit that was just written uses.
    fn recount(&mut self) {
        let index = &mut self.index;
        index.recount();
        let buds = self.writer.log.buds.iter();
        let whole = buds.map(|at| Bud {
            at: *at,
            used: at.offs,
            may_tear: false,
        });
        self.buds = whole.collect();
    }
}

impl<L: Lebs> Check<'_, L> {
    fn holes(&mut self) {
        for hole in self.fs.index.holes.clone() {
            self.report.add(Finding::Hole {
                from: hole.from,
                to: hole.to,
                error: hole.error,
            });
        }
    }

    fn met(&mut self, inode: u32) -> &mut Met {
        self.met.entry(inode).or_default()
    }

    fn later(&mut self, early: Early) {
        if self.early.len() < nandlab_vfs::report::FINDINGS_MAX {
            self.early.push(early);
        } else {
            self.report.more += 1;
        }
    }

    /// Goes through all nodes in the order of their keys.
    fn nodes(&mut self) {
        let mut place = None;
        while let Some((slot, at)) = self.fs.index.next(place) {
            place = Some(slot);
            let inode = slot.key.inode();
            let (what, outcome) = match slot.key.kind() {
                KeyKind::Inode => ("inode", self.inode(inode)),
                KeyKind::Data => ("contents", self.data(slot, at)),
                KeyKind::Dent => ("name in the directory", self.dent(slot, at)),
                KeyKind::Xent => ("attribute", self.xent(slot, at)),
            };
            if let Err(error) = outcome {
                self.all_read = false;
                self.later(Early::Unread(inode, what, error));
            }
        }
    }

    fn inode(&mut self, number: u32) -> Result<()> {
        self.report.totals.inodes += 1;
        match self.fs.inode(Ino(number.into())) {
            Ok((inode, _)) => self.met(number).inode = Some(inode),
            Err(error) => {
                self.met(number).is_unread = true;
                return Err(error);
            }
        }
        Ok(())
    }

    fn data(&mut self, slot: Slot, at: Branch) -> Result<()> {
        let block = self.fs.unpacked(slot.key, at)?;
        let end = block.end();
        self.report.totals.blocks += 1;
        self.report.totals.bytes += block.len() as u64;
        let met = self.met(slot.key.inode());
        met.data = met.data.max(end);
        Ok(())
    }

    fn dent(&mut self, slot: Slot, at: Branch) -> Result<()> {
        let entry = self.fs.entry(slot, at)?;
        let dir = slot.key.inode();
        if check_name(&entry.name).is_err() {
            self.later(Early::Entry(dir, slot, Misfit::Name));
        }
        self.hash(dir, slot, &entry.name);
        let above = self.met(dir);
        above.entry_bytes += entry_bytes(&entry.name);
        above.directories += u32::from(entry.kind == FileType::Directory);
        let met = self.met(entry.inode);
        met.names += 1;
        match met.kind {
            None => {
                met.first = Some((dir, slot));
                met.kind = Some(entry.kind);
            }
            Some(FileType::Directory) => {
                let what = "a second name of a directory";
                self.later(Early::Entry(dir, slot, Misfit::Wrong(what)));
            }
            Some(kind) if kind != entry.kind => {
                let what = "another file type than the inode's first name has";
                self.later(Early::Entry(dir, slot, Misfit::Wrong(what)));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn xent(&mut self, slot: Slot, at: Branch) -> Result<()> {
        let entry = self.fs.entry(slot, at)?;
        let number = slot.key.inode();
        self.hash(number, slot, &entry.name);
        let value = self.fs.xattr_value(entry.inode)?;
        let host = self.met(number);
        host.xattrs += 1;
        host.xattr_names += entry.name.len() as u64;
        host.xattr_bytes += entry_bytes(&entry.name) + u64::from(align8(161 + value.len() as u32));
        let met = self.met(entry.inode);
        if met.host.replace(number).is_some() {
            let what = "an attribute that shares its inode with another";
            self.later(Early::Entry(number, slot, Misfit::Wrong(what)));
        }
        Ok(())
    }

    fn hash(&mut self, inode: u32, slot: Slot, name: &[u8]) {
        if self.fs.media.head.key_hash.of(name) != slot.key.value() {
            let what = "a name with another hash than its key has";
            self.later(Early::Entry(inode, slot, Misfit::Wrong(what)));
        }
    }

    /// The path of an inode, as far as names lead to it.
    fn path(&mut self, mut inode: u32) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let root = Ino::ROOT.0 as u32;
        // Damage may make a circle of them.
        for _ in 0..DEPTH_MAX {
            if inode == root {
                break;
            }
            let met = self.met.get(&inode);
            if let Some(host) = met.and_then(|met| met.host) {
                inode = host;
                continue;
            }
            let Some((dir, slot)) = met.and_then(|met| met.first) else {
                parts.push(alloc::format!("(inode {inode})").into_bytes());
                break;
            };
            parts.push(self.name(slot));
            inode = dir;
        }
        parts.reverse();
        parts.join(&b'/')
    }

    fn name(&mut self, slot: Slot) -> Vec<u8> {
        let at = self.fs.index.at(slot);
        let entry = at.and_then(|at| self.fs.entry(slot, at).ok());
        entry.map_or_else(|| b"?".into(), |entry| entry.name)
    }

    /// Findings whose paths can be given now that all names are known.
    fn early(&mut self) {
        for early in core::mem::take(&mut self.early) {
            let finding = match early {
                Early::Unread(inode, what, error) => {
                    let path = self.path(inode);
                    Finding::Unread { path, what, error }
                }
                Early::Entry(dir, slot, wrong) => {
                    let mut path = self.path(dir);
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend(self.name(slot));
                    match wrong {
                        Misfit::Name => Finding::Name { path },
                        Misfit::Wrong(what) => Finding::Wrong { path, what },
                    }
                }
            };
            self.report.add(finding);
        }
    }

    /// What the nodes of one inode say of each other.
    fn inodes(&mut self) {
        let reached = self.reached();
        let numbers: Vec<u32> = self.met.keys().copied().collect();
        for number in numbers {
            let Some(met) = self.met.remove(&number) else {
                continue;
            };
            self.one(number, &met, reached.get(&number) == Some(&true));
            self.met.insert(number, met);
        }
    }

    fn one(&mut self, number: u32, met: &Met, is_reached: bool) {
        let Some(inode) = &met.inode else {
            let named = met.names > 0 || met.host.is_some();
            if !met.is_unread && named && self.known(number) {
                self.wrong(number, met, "a name of an inode that is not there");
            } else if !met.is_unread && !named && self.known(number) {
                self.report.add(Finding::Lost { inode: number });
            }
            return;
        };
        // It goes when callers have given it back.
        if inode.links == 0 && self.fs.writer.orphans.contains(&number) {
            return;
        }
        if !is_reached {
            self.report.add(Finding::Lost { inode: number });
        }
        if met.kind.is_some_and(|kind| kind != inode.kind) {
            self.wrong(
                number,
                met,
                "a name with another file type than its inode has",
            );
        }
        if inode.is_xattr != met.host.is_some() {
            self.wrong(
                number,
                met,
                "an inode of an attribute with a name, or without an attribute",
            );
        }
        // Of what cannot be read nothing was counted.
        if self.known_all(number) {
            self.counts(number, met, inode);
        }
    }

    fn wrong(&mut self, number: u32, met: &Met, what: &'static str) {
        let path = self.path_of(number, met);
        self.report.add(Finding::Wrong { path, what });
    }

    fn path_of(&mut self, number: u32, met: &Met) -> Vec<u8> {
        let root = Ino::ROOT.0 as u32;
        let above = met.first.map(|(dir, slot)| (dir, Some(slot)));
        let above = above.or(met.host.map(|host| (host, None)));
        let Some((dir, slot)) = above.filter(|_| number != root) else {
            return match number == root {
                true => Vec::new(),
                false => alloc::format!("(inode {number})").into_bytes(),
            };
        };
        let mut path = self.path(dir);
        if let Some(slot) = slot {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(self.name(slot));
        }
        path
    }

    fn known(&self, number: u32) -> bool {
        let key = Key::of_inode(number);
        self.fs.index.known(key, key).is_ok()
    }

    /// Whether no node of an inode is hidden or unreadable.
    fn known_all(&self, number: u32) -> bool {
        let (from, to) = Key::range(number);
        self.all_read && self.fs.index.known(from, to).is_ok()
    }

    fn counts(&mut self, number: u32, met: &Met, inode: &Inode) {
        let names = match inode.kind {
            FileType::Directory => 2 + met.directories,
            _ if met.host.is_some() => 1,
            _ => met.names,
        };
        let mut counts = Vec::from([
            ("links", u64::from(inode.links), u64::from(names)),
            ("attributes", inode.xattrs.0.into(), met.xattrs.into()),
            (
                "bytes of attributes",
                inode.xattrs.1.into(),
                met.xattr_bytes,
            ),
            (
                "bytes of attribute names",
                inode.xattrs.2.into(),
                met.xattr_names,
            ),
        ]);
        if inode.kind == FileType::Directory {
            let counted = DIRECTORY_BYTES + met.entry_bytes;
            counts.push(("bytes of entries", inode.size, counted));
        }
        if met.data > inode.size {
            counts.push(("size", inode.size, met.data));
        }
        for (what, found, counted) in counts.into_iter().filter(|count| count.1 != count.2) {
            let path = self.path_of(number, met);
            self.report.add(Finding::Count {
                path,
                what,
                found,
                counted,
            });
        }
    }

    /// Which inodes the root leads to.
    fn reached(&self) -> BTreeMap<u32, bool> {
        let root = Ino::ROOT.0 as u32;
        let orphans = self.fs.writer.orphans.iter();
        let first = orphans.chain([&root]).map(|number| (*number, true));
        let mut reached: BTreeMap<u32, bool> = first.collect();
        for number in self.met.keys() {
            let mut way = Vec::new();
            let mut at = Some(*number);
            let answer = loop {
                match at.map(|number| (number, reached.get(&number))) {
                    None => break false,
                    Some((_, Some(known))) => break *known,
                    Some((number, None)) => {
                        // Until it is known: a circle leads nowhere.
                        reached.insert(number, false);
                        way.push(number);
                        let met = self.met.get(&number);
                        at = met.and_then(|met| met.host.or(met.first.map(|first| first.0)));
                    }
                }
            };
            way.into_iter().for_each(|number| {
                reached.insert(number, answer);
            });
        }
        reached
    }

    /// What the last commit says of the whole.
    fn commit(&mut self) {
        if !self.fs.index.holes.is_empty() {
            return;
        }
        self.whole(
            "bytes of the index",
            self.fs.master.index_bytes,
            self.fs.index.bytes,
        );
        let highest = self.met.keys().next_back().copied().unwrap_or(0);
        let known = self.fs.highest_inode;
        if u64::from(highest) > known || known >= INODES_END {
            self.whole("greatest inode number", known, highest.into());
        }
    }

    /// What the properties say of the blocks.
    fn space(&mut self) {
        let Self { fs, report, .. } = self;
        let known: Vec<_> = report.findings.iter().map(Finding::leb).collect();
        space::compare(fs, &mut |finding| {
            // A node that cannot be read was reported with its path.
            let is_known =
                matches!(finding, Finding::Contents { .. }) && known.contains(&finding.leb());
            if !is_known {
                report.add(finding);
            }
        });
    }

    fn whole(&mut self, what: &'static str, found: u64, counted: u64) {
        if found != counted {
            let path = Vec::new();
            self.report.add(Finding::Count {
                path,
                what,
                found,
                counted,
            });
        }
    }
}

/// Directories inside one another.
const DEPTH_MAX: usize = 4096;
