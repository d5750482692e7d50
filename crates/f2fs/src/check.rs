//! Checking a volume: every node, every block, every name, against the tables.
//!
//! *Promises.* Nothing is changed. Takes one bit a block and some bytes a node. *Knows nothing of*
//! how to repair what it finds.

use crate::{
    F2fs, F2fsError,
    dentry::hash,
    finding::{Finding, Report},
    format::{SEGMENT, inode, is_placed, le32, le64, log, set_bit},
    map::Part,
    node::kind,
    pack::flag,
    summary::NatEntry,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::FileType;

/// What is known of an inode so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    names: u32,
    subdirs: u32,
}

pub(crate) struct Check {
    pub(crate) report: Report,
    /// Blocks in use, one bit each.
    pub(crate) used: Vec<u8>,
    /// Nodes that no file has claimed yet, with their entries.
    nodes: BTreeMap<u32, NatEntry>,
    inodes: BTreeMap<u32, Seen>,
    /// Who uses a block, to compare with summaries.
    owners: BTreeMap<u32, Vec<(u32, u32, u32)>>,
    valid: u64,
}

impl Check {
    /// The table has an inode of this number.
    pub(crate) fn is_inode(&self, ino: u32) -> bool {
        self.inodes.contains_key(&ino)
    }
}

/// What is wrong with a name by itself, or beside the names before it in its directory.
fn wrong_name(
    name: &[u8],
    names: &mut BTreeSet<Vec<u8>>,
    (dir, index, slot): (u32, u32, u32),
) -> Option<Finding> {
    if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Some(Finding::Name {
            dir,
            index,
            slot,
            name: name.to_vec(),
        });
    }
    (!names.insert(name.to_vec())).then(|| Finding::Twice {
        dir,
        index,
        slot,
        name: name.to_vec(),
    })
}

impl<D: BlockDevice> F2fs<D> {
    /// Checks the volume as it is in memory: what was recovered in memory counts.
    pub fn check(&mut self) -> Result<Report, F2fsError> {
        Ok(self.walk_all()?.report)
    }

    pub(crate) fn walk_all(&mut self) -> Result<Check, F2fsError> {
        let mut check = Check {
            report: Report::default(),
            used: vec![0; (self.layout.segments_main * SEGMENT / 8) as usize],
            nodes: BTreeMap::new(),
            inodes: BTreeMap::new(),
            owners: BTreeMap::new(),
            valid: 0,
        };
        if self.checkpoint.flags & flag::UMOUNT == 0 {
            check.report.add(Finding::InUse);
        }
        let mut nodes = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        self.all_nodes(&mut |nid, entry| {
            nodes.insert(nid, entry);
            if entry.ino == nid {
                inodes.insert(nid, Seen::default());
            }
        })?;
        let count_nodes = nodes.len() as u64;
        let count_inodes = inodes.len() as u64;
        (check.nodes, check.inodes) = (nodes, inodes);
        let all: Vec<u32> = check.inodes.keys().copied().collect();
        for ino in &all {
            if let Err(error) = self.check_inode(*ino, &mut check) {
                fail(error, *ino, &mut check.report)?;
            }
        }
        self.check_table(&mut check)?;
        self.check_links(&mut check)?;
        for nid in check.nodes.keys() {
            check.report.add(Finding::LostNode { nid: *nid });
        }
        self.check_segments(&mut check)?;
        let counts = [
            ("valid nodes", u64::from(self.checkpoint.nodes), count_nodes),
            (
                "valid inodes",
                u64::from(self.checkpoint.inodes),
                count_inodes,
            ),
            ("valid blocks", self.checkpoint.valid_blocks, check.valid),
        ];
        for (what, found, expected) in counts {
            if found != expected {
                check.report.add(Finding::Count {
                    what,
                    found,
                    expected,
                });
            }
        }
        check.report.used = check.valid;
        Ok(check)
    }

    /// A block belongs to a node.
    fn claim(&mut self, addr: u32, (nid, slot): (u32, u32), check: &mut Check) {
        check.valid += 1;
        if !is_placed(addr) {
            return;
        }
        let Some((segment, at)) = self.layout.place(addr) else {
            return check.report.add(Finding::Stray { nid, addr });
        };
        let bit = (segment * SEGMENT) as usize + at;
        if crate::format::bit(&check.used, bit) {
            return check.report.add(Finding::CrossLink { nid, addr });
        }
        set_bit(&mut check.used, bit, true);
        if !self.segments.get(segment).is_valid(at) {
            check.report.add(Finding::Invalid { nid, addr });
        }
        check
            .owners
            .entry(segment)
            .or_default()
            .push((at as u32, nid, slot));
    }

    /// A node belongs to a file; `from` is what leads to it.
    fn claim_node(&mut self, nid: u32, ino: u32, check: &mut Check) {
        let Some(entry) = check.nodes.remove(&nid) else {
            return check.report.add(Finding::CrossLink {
                nid: ino,
                addr: nid,
            });
        };
        if entry.ino != ino {
            check.report.add(Finding::Table {
                nid,
                field: "inode",
                found: entry.ino,
                expected: ino,
            });
        }
        self.claim(entry.addr, (nid, 0), check);
    }

    fn check_inode(&mut self, ino: u32, check: &mut Check) -> Result<(), F2fsError> {
        self.claim_node(ino, ino, check);
        let bytes = self.inode(ino)?;
        let kind = kind(bytes);
        let flags = bytes[inode::INLINE];
        let said = le64(bytes, inode::BLOCKS);
        let xattr = le32(bytes, inode::XATTR_NID);
        let extent = [0, 4, 8].map(|at| le32(bytes, inode::EXTENT + at));
        let mut parts = Vec::new();
        let plain = matches!(
            kind,
            Some(FileType::File | FileType::Directory | FileType::Symlink)
        );
        if plain && flags & (inode::INLINE_DATA | inode::INLINE_DENTRY) == 0 {
            self.walk(ino, &mut |part| match part {
                Part::Slot { addr: 0, .. } => {}
                part => parts.push(part),
            })?;
        }
        let mut blocks = 1 + parts.len() as u64;
        let mut in_run = 0;
        for part in parts {
            match part {
                Part::Node(nid) => self.claim_node(nid, ino, check),
                Part::Slot {
                    nid,
                    number,
                    index,
                    addr,
                } => {
                    self.claim(addr, (nid, number), check);
                    let inside = index.checked_sub(extent[0]).filter(|at| *at < extent[2]);
                    let run = inside.map(|at| extent[1].wrapping_add(at));
                    in_run += u32::from(run == Some(addr));
                    if let Some(expected) = run.filter(|expected| *expected != addr) {
                        check.report.add(Finding::Field {
                            ino,
                            field: "longest run",
                            found: expected.into(),
                            expected: addr.into(),
                        });
                    }
                }
            }
        }
        self.check_fields(ino, plain.then_some(in_run), check)?;
        if xattr != 0 {
            self.check_xattr_node(xattr, ino)?;
            blocks += 1;
            self.claim_node(xattr, ino, check);
        }
        if said != blocks {
            check.report.add(Finding::Field {
                ino,
                field: "blocks",
                found: said,
                expected: blocks,
            });
        }
        self.list_attributes(ino)?;
        match kind {
            Some(FileType::Directory) => {
                check.report.directories += 1;
                self.check_names(ino, check)
            }
            _ => {
                check.report.files += 1;
                Ok(())
            }
        }
    }

    fn check_names(&mut self, dir: u32, check: &mut Check) -> Result<(), F2fsError> {
        let mut entries = Vec::new();
        self.each_entry(dir, 0, &mut |index, entry, _| {
            entries.push((index.unwrap_or(0), entry.clone()));
            Ok(true)
        })?;
        let is_sealed = self.has_sealed_names(dir)?;
        let is_folded = self.is_folded(dir)?;
        self.check_slots(dir, check)?;
        let parent = match dir == self.layout.root {
            true => dir,
            false => le32(self.inode(dir)?, inode::PARENT),
        };
        let mut dots = 0;
        let mut names = BTreeSet::new();
        for (index, entry) in entries {
            let slot = entry.slot;
            let wrong = wrong_name(&entry.name, &mut names, (dir, index, slot));
            if let Some(finding) = wrong.filter(|_| !is_sealed) {
                check.report.add(finding);
            }
            let mut wrong = |field, found, expected| {
                if found != expected {
                    check.report.add(Finding::Entry {
                        dir,
                        index,
                        slot,
                        field,
                        found,
                        expected,
                    });
                }
            };
            if !is_folded {
                wrong("hash", entry.hash, hash(&entry.name));
            }
            let leads_to = match entry.name.as_slice() {
                b"." => Some(dir),
                b".." => Some(parent),
                _ => None,
            };
            if let Some(expected) = leads_to {
                dots += 1;
                wrong("inode", entry.ino, expected);
                let directory = FileType::Directory.number();
                wrong("type", entry.kind.into(), directory.into());
                continue;
            }
            let Some(seen) = check.inodes.get_mut(&entry.ino) else {
                check.report.add(Finding::Dangling {
                    dir,
                    found: entry.ino,
                });
                continue;
            };
            seen.names += 1;
            let Ok(bytes) = self.inode(entry.ino) else {
                continue;
            };
            let expected = kind(bytes).map_or(0, FileType::number);
            wrong("type", entry.kind.into(), expected.into());
            if expected == FileType::Directory.number() {
                if let Some(parent) = check.inodes.get_mut(&dir) {
                    parent.subdirs += 1;
                }
                let up = self
                    .find(entry.ino, b"..")?
                    .map_or(0, |found| found.entry.ino);
                if up != dir {
                    check.report.add(Finding::Field {
                        ino: entry.ino,
                        field: "parent",
                        found: up.into(),
                        expected: dir.into(),
                    });
                }
            }
            // A name that its hash does not lead to.
            if self
                .find(dir, &entry.name)?
                .is_none_or(|found| found.entry.ino != entry.ino)
            {
                check.report.add(Finding::Entry {
                    dir,
                    index,
                    slot,
                    field: "bucket",
                    found: index,
                    expected: entry.hash,
                });
            }
        }
        if dots != 2 {
            check.report.add(Finding::Field {
                ino: dir,
                field: "entries of itself and its parent",
                found: dots,
                expected: 2,
            });
        }
        Ok(())
    }

    fn check_links(&mut self, check: &mut Check) -> Result<(), F2fsError> {
        for (ino, seen) in core::mem::take(&mut check.inodes) {
            let Ok(bytes) = self.inode(ino) else { continue };
            let links = le32(bytes, inode::LINKS);
            let directory = kind(bytes) == Some(FileType::Directory);
            let root = ino == self.layout.root;
            if self.layout.quotas.contains(&ino) {
                continue;
            }
            if seen.names == 0 && !root && !self.orphans.contains(&ino) {
                check.report.add(Finding::Nameless { ino });
                continue;
            }
            if let Some(wrong) = wrong_links(ino, &seen, directory, root, links) {
                check.report.add(wrong);
            }
        }
        Ok(())
    }

    /// Valid blocks are those in use, and summaries tell whose they are.
    fn check_segments(&mut self, check: &mut Check) -> Result<(), F2fsError> {
        for segment in 0..self.layout.segments_main {
            let first = (segment * SEGMENT) as usize;
            let lost = |at: &usize| {
                self.segments.get(segment).is_valid(*at)
                    && !crate::format::bit(&check.used, first + at)
            };
            let lost: Vec<usize> = (0..SEGMENT as usize).filter(lost).collect();
            if let Some(at) = lost.first() {
                let first = self.layout.start(segment) + *at as u32;
                check.report.add(Finding::LostBlocks {
                    segment,
                    count: lost.len() as u32,
                    first,
                });
            }
            let Some(used) = check.owners.remove(&segment) else {
                continue;
            };
            let owners = self.owners_of(segment)?;
            let data = usize::from(self.segments.get(segment).entry.kind) < log::DATA;
            for (at, nid, slot) in used {
                let owner = owners[at as usize];
                let mut wrong = (owner.nid != nid).then_some(("node", owner.nid, nid));
                if data && wrong.is_none() {
                    let version = self.nat_entry(nid)?.version;
                    let fields = [
                        ("slot", owner.slot.into(), slot),
                        ("version", owner.version.into(), version.into()),
                    ];
                    wrong = fields
                        .into_iter()
                        .find(|(_, found, expected)| found != expected);
                }
                if let Some((field, found, expected)) = wrong {
                    check.report.add(Finding::Summary {
                        addr: self.layout.start(segment) + at,
                        field,
                        found,
                        expected,
                    });
                }
            }
        }
        let logs = self.log_segments();
        for (log, segment) in logs.into_iter().enumerate() {
            let found = self.segments.get(segment).entry.kind;
            if segment < self.layout.segments_main && usize::from(found) != log {
                check.report.add(Finding::Type {
                    segment,
                    found,
                    expected: log as u8,
                });
            }
        }
        if (0..log::COUNT).any(|one| (one + 1..log::COUNT).any(|other| logs[one] == logs[other])) {
            check.report.add(Finding::Count {
                what: "segments of logs",
                found: 0,
                expected: log::COUNT as u64,
            });
        }
        Ok(())
    }
}

/// The finding where a link count is not that of the names.
fn wrong_links(ino: u32, seen: &Seen, directory: bool, root: bool, found: u32) -> Option<Finding> {
    let expected = match directory {
        true if seen.names > 1 => seen.names + 1,
        true if seen.names == 1 || root => 2 + seen.subdirs,
        _ => seen.names,
    };
    (found != expected).then_some(Finding::Links {
        ino,
        found,
        expected,
    })
}

/// What cannot be read is a finding; what the device refuses ends the check.
fn fail(error: F2fsError, nid: u32, report: &mut Report) -> Result<(), F2fsError> {
    match error {
        F2fsError::Device(nandlab_block::BlockError::PowerCut) | F2fsError::Failed => Err(error),
        error => {
            report.add(Finding::Unreadable { nid, error });
            Ok(())
        }
    }
}
