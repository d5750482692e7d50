//! What is wrong with a medium.
//!
//! *Promises.* Every block is read whole, every node's checksums are looked at, every byte of every
//! file is read. Nothing is written. *Bounded:* so many findings, one block and one node's data.

use crate::{
    Finding, Holds, Jffs2, Jffs2Error,
    broken::Broken,
    compress::ZERO,
    format::{
        DIRENT, HEAD, Head, INODE, Place, RawDirent, RawInode, RawSummary, RawXattr, RawXref,
        SUMMARY, XATTR, XREF, crc, kind, pad,
    },
    holds::Seen,
    inode::{KIND_DIRECTORY, ROOT},
    lost::{doubtful, gaps},
    names::type_of,
    scan::looks_empty,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::{
    FileType,
    report::{self, FINDINGS_MAX},
};

/// The least that NAND flash programs at once. Larger pages are multiples of it.
const PAGE_MIN: usize = 512;

/// Linux gives such a node the number that the next inode will have.
const NO_INODE: &str = "inode number 0";
/// Linux passes such a node by.
const NO_VERSION: &str = "version 0";

/// What a check found.
pub type Report = report::Report<Finding, Totals>;

/// What a check counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes on the medium, those too that do not count any more.
    pub nodes: u64,
    /// Inodes with a name.
    pub inodes: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl<M: Mtd> Jffs2<M> {
    /// Looks at everything. What a mount has repaired already is among the findings; mount
    /// read-only to have nothing repaired.
    pub fn check(&mut self) -> Result<Report, Jffs2Error> {
        self.check_all(true)
    }

    /// Looks at everything but the bytes that files' nodes hold once they are unpacked: a read of
    /// those reports them anyway.
    pub fn check_structure(&mut self) -> Result<Report, Jffs2Error> {
        self.check_all(false)
    }

    /// Returns what a mount found in names: it leaves these entries out without an error.
    pub fn noted(&self) -> &Report {
        &self.noted
    }

    /// Returns a node that crosses the end of its erase block. Such a medium must not be written:
    /// its nodes may have been written for larger blocks.
    pub fn crossing_node(&mut self) -> Result<Option<Finding>, Jffs2Error> {
        let mut report = Report::default();
        self.check_blocks(&mut report, &mut Seen::default())?;
        let crosses = |finding: &Finding| matches!(finding, Finding::CrossesBlock { .. });
        Ok(report.findings.into_iter().find(crosses))
    }

    fn check_blocks(&mut self, report: &mut Report, seen: &mut Seen) -> Result<(), Jffs2Error> {
        let mut bytes = vec![0; self.space.block_bytes as usize];
        for block in 0..self.flash.blocks() {
            if self.flash.is_bad(block)? {
                continue;
            }
            let start = block * self.space.block_bytes;
            self.flash.read(start, &mut bytes)?;
            if let Some(at) = self.flash.doubt_at() {
                // The log may have ended here, if nothing was programmed behind it.
                let behind = (at - start + self.flash.page_bytes()) as usize;
                let torn = bytes[behind..].iter().all(|byte| *byte == 0xFF);
                report.add(Finding::Page { at, torn });
            }
            self.check_block(start, &bytes, report, seen)?;
            let gone = self.not_as_listed(block, &bytes, seen)?;
            gone.into_iter().for_each(|finding| report.add(finding));
        }
        Ok(())
    }

    fn check_all(&mut self, unpack: bool) -> Result<Report, Jffs2Error> {
        let mut report = self.noted.clone();
        let mut seen = Seen::default();
        let named: Vec<u32> = self
            .known
            .iter()
            .filter(|(_, known)| known.links > 0)
            .map(|(ino, _)| *ino)
            .collect();
        let mut kinds = BTreeMap::new();
        let mut gaps = Vec::new();
        for ino in named {
            report.inodes += 1;
            let outcome = self.check_inode(ino, unpack, &mut report);
            if outcome == Ok(FileType::File) {
                gaps.extend(
                    self.unknown_gaps(ino)?
                        .filter(|_| gaps.len() < FINDINGS_MAX),
                );
            }
            match outcome {
                Ok(kind) => _ = kinds.insert(ino, type_of(kind)),
                Err(error @ Jffs2Error::Flash(_)) => return Err(error),
                Err(error) => report.add(Finding::Unreadable { ino, error }),
            }
            self.let_go();
        }
        self.check_names(&kinds, &mut seen, &mut report)?;
        self.check_blocks(&mut report, &mut seen)?;
        let unknown = report.findings.iter().any(Finding::is_unknown) || report.more > 0;
        if unknown {
            gaps.into_iter().for_each(|gap| report.add(gap));
        }
        let lost = core::mem::take(&mut seen.lost);
        let all = unknown || seen.unsure;
        self.check_unreached(&seen.inodes, lost, all, &mut report)?;
        Ok(report)
    }

    fn check_block(
        &mut self,
        start: u32,
        bytes: &[u8],
        report: &mut Report,
        seen: &mut Seen,
    ) -> Result<(), Jffs2Error> {
        let half_erased = may_be_half_erased(bytes) || self.flash.doubt_at().is_some();
        // A list of nodes leads to them all the same: then they are known.
        let refs = &self.space.block(start / self.space.block_bytes).refs;
        let passed_over = refs.len() <= 1 && looks_empty(&self.flash, bytes);
        let mut at = 0;
        while at + HEAD <= bytes.len() {
            let rest = &bytes[at..];
            let erased = rest.iter().take_while(|byte| **byte == 0xFF).count() & !3;
            // Padding too short for a node is zeros.
            let zeros = rest.iter().take_while(|byte| **byte == 0).count() & !3;
            if erased > 0 || (1..HEAD).contains(&zeros) {
                at += erased.max(zeros);
                continue;
            }
            let place = start + at as u32;
            let node = rest
                .first_chunk::<HEAD>()
                .map(|head| Head::read(self.flash.endian, head));
            match node {
                Some(Place::Node(head)) if head.len as usize <= rest.len() => {
                    report.nodes += 1;
                    let node = &rest[..head.len as usize];
                    let wrong = self.wrong_in(head, node).map(|what| (what, false));
                    let behind = "behind the erased bytes with which its block begins";
                    let wrong = wrong.or(passed_over.then_some((behind, true)));
                    if let Some((what, whole)) = wrong.filter(|_| head.is_accurate()) {
                        let kind = head.kind;
                        let holds = if whole {
                            self.passed_over(place, kind, node, seen)?
                        } else {
                            self.holds(place, kind, node, seen)?
                        };
                        if !whole || holds != Holds::Nothing {
                            report.add(Finding::Node {
                                at: place,
                                kind,
                                what,
                                holds,
                            });
                        }
                    }
                    let is_marker = self.flash.is_marker(at as u32, head.len);
                    let passed = match head.kind {
                        kind::CLEANMARKER if !is_marker => HEAD as u32,
                        _ => pad(head.len),
                    };
                    at += passed as usize;
                }
                Some(Place::BadHead | Place::NoMagic)
                    if let Some(broken) = Broken::read(self.flash.endian, rest) =>
                {
                    report.nodes += 1;
                    let kind = broken.kind();
                    let len = broken.len();
                    let holds = self.holds(place, kind, &rest[..len as usize], seen)?;
                    let what = "checksum of the head";
                    report.add(Finding::Node {
                        at: place,
                        kind,
                        what,
                        holds,
                    });
                    at += pad(len) as usize;
                }
                _ => {
                    if let Some(Place::Node(head)) = node {
                        report.add(Finding::CrossesBlock {
                            at: place,
                            len: head.len,
                            block: self.space.block_bytes,
                        });
                    }
                    let len = self.garbage(rest);
                    let torn = half_erased || may_be_torn(bytes, at, len);
                    let len = len as u32;
                    report.add(Finding::Garbage {
                        at: place,
                        len,
                        torn,
                    });
                    at += len as usize;
                }
            }
        }
        Ok(())
    }

    /// Bytes up to the next node, or to what is erased or zeros.
    fn garbage(&self, bytes: &[u8]) -> usize {
        let e = self.flash.endian;
        let ends = |at: &usize| {
            let rest = &bytes[*at..];
            rest.len() < HEAD
                || rest.starts_with(&[0xFF; 4])
                || rest.starts_with(&[0; 4])
                || Broken::read(e, rest).is_some()
                || rest.first_chunk::<HEAD>().is_some_and(
                    |head| matches!(Head::read(e, head), Place::Node(head) if head.len as usize <= rest.len()),
                )
        };
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count() & !3;
        let mut steps = (zeros.max(4)..bytes.len()).step_by(4);
        steps.find(ends).unwrap_or(bytes.len())
    }

    /// Parts of a file that no node holds although versions of it are missing.
    fn unknown_gaps(&mut self, ino: u32) -> Result<Option<Finding>, Jffs2Error> {
        let inode = self.load(ino)?;
        let ranges = gaps(&inode.tree, 0, inode.size);
        if ranges.is_empty() || inode.doubt.is_some() {
            return Ok(None);
        }
        let highest = inode.version;
        let nodes = self.known.get(&ino).map(|known| known.nodes.clone());
        let mut versions = BTreeSet::new();
        for at in nodes.unwrap_or_default() {
            match self.read_head(at, ino) {
                Ok(raw) => _ = versions.insert(raw.version),
                Err(error @ Jffs2Error::Flash(_)) => return Err(error),
                Err(_) => {}
            }
        }
        let missing = (versions.len() as u32) < highest;
        Ok(missing.then_some(Finding::Gap { ino, ranges }))
    }

    /// What is wrong with a node whose head is right.
    fn wrong_in(&self, head: Head, node: &[u8]) -> Option<&'static str> {
        let e = self.flash.endian;
        match head.kind {
            kind::INODE => {
                let Some(raw) = node
                    .first_chunk::<INODE>()
                    .and_then(|fixed| RawInode::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let data = if raw.compr == ZERO {
                    Some(&[][..])
                } else {
                    node.get(INODE..INODE + raw.csize as usize)
                };
                let Some(data) = data else {
                    return Some("length of the data");
                };
                let whole = raw.compr == ZERO || crc(data) == raw.data_crc;
                // Linux leaves out nodes that contradict themselves (`read_dnode`).
                let len = (INODE as u32).checked_add(raw.csize);
                let sane = len.is_some_and(|len| pad(len) == pad(head.len));
                match (whole, sane, raw.offset <= raw.isize) {
                    _ if raw.ino == 0 => Some(NO_INODE),
                    _ if raw.version == 0 => Some(NO_VERSION),
                    (false, ..) => Some("checksum of the data"),
                    (_, false, _) => Some("length of the data"),
                    (.., false) => Some("data behind the end of the file"),
                    _ => None,
                }
            }
            kind::DIRENT => {
                let Some(raw) = node
                    .first_chunk::<DIRENT>()
                    .and_then(|fixed| RawDirent::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let Some(name) = node.get(DIRENT..DIRENT + usize::from(raw.name_len)) else {
                    return Some("length of the name");
                };
                match crc(name) == raw.name_crc {
                    _ if raw.pino == 0 => Some(NO_INODE),
                    true => None,
                    false => Some("checksum of the name"),
                }
            }
            kind::XATTR => {
                let Some(raw) = node
                    .first_chunk::<XATTR>()
                    .and_then(|fixed| RawXattr::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let len = XATTR + raw.data_len();
                let fits = pad(len as u32) == pad(head.len);
                let Some(data) = node.get(XATTR..len).filter(|_| fits) else {
                    return Some("length of the attribute");
                };
                (crc(data) != raw.data_crc).then_some("checksum of the attribute")
            }
            kind::XREF => {
                let whole = node
                    .first_chunk::<XREF>()
                    .is_some_and(|fixed| RawXref::read(e, fixed).is_some());
                match (whole, head.len == XREF as u32) {
                    (false, _) => Some("checksum of the node"),
                    (_, false) => Some("length of the reference"),
                    _ => None,
                }
            }
            kind::SUMMARY => {
                let raw = node
                    .first_chunk::<SUMMARY>()
                    .and_then(|fixed| RawSummary::read(e, fixed));
                raw.is_none_or(|raw| crc(&node[SUMMARY..]) != raw.data_crc)
                    .then_some("checksum of the list")
            }
            _ => None,
        }
    }

    fn check_inode(
        &mut self,
        ino: u32,
        unpack: bool,
        report: &mut Report,
    ) -> Result<FileType, Jffs2Error> {
        let inode = self.load(ino)?;
        let kind = inode.kind;
        if kind == FileType::Directory && ino != ROOT && inode.metadata.is_none() {
            report.add(Finding::Bare { ino });
        }
        for (at, _) in self.lost.twins.iter().filter(|(_, of)| **of == ino) {
            report.add(Finding::Node {
                at: *at,
                kind: kind::INODE,
                what: "not the other node with its version",
                holds: Holds::Fields { ino },
            });
        }
        if kind == FileType::File {
            self.check_contents(ino, unpack, report)?;
        }
        for name in self.list_attributes(ino)? {
            self.get_attribute(ino, &name)?;
        }
        debug_assert!(ino != ROOT || kind == FileType::Directory || self.links(ROOT) == 1);
        Ok(kind)
    }

    fn check_contents(
        &mut self,
        ino: u32,
        unpack: bool,
        report: &mut Report,
    ) -> Result<(), Jffs2Error> {
        let inode = self.load(ino)?;
        let size = inode.size;
        let shortened = inode.shortened;
        report.bytes += u64::from(size);
        if let Some(expected) = shortened.filter(|expected| *expected > size) {
            report.add(Finding::Short {
                ino,
                found: size,
                expected,
            });
        }
        if let Some((lost, ranges)) = doubtful(self.load(ino)?)
            && !ranges.is_empty()
        {
            report.add(Finding::Missing { ino, ranges, lost });
        }
        if unpack {
            self.read_all(ino, size)?;
        }
        Ok(())
    }

    /// Compares the names in all directories with the types of their inodes. A mount trusts the
    /// type in a name.
    fn check_names(
        &mut self,
        kinds: &BTreeMap<u32, u8>,
        seen: &mut Seen,
        report: &mut Report,
    ) -> Result<(), Jffs2Error> {
        seen.inodes.insert(ROOT);
        let mut parents = BTreeMap::new();
        let directories = kinds.iter().filter(|(_, kind)| **kind == KIND_DIRECTORY);
        for dir in directories.map(|(ino, _)| *ino) {
            for dent in self.load(dir)?.dents.from(0) {
                let ino = dent.ino;
                seen.inodes.insert(ino);
                // An inode that cannot be read is reported by itself.
                let Some(&expected) = kinds.get(&ino) else {
                    continue;
                };
                if dent.kind != expected {
                    report.add(wrong_type(dir, dent, expected));
                }
                if expected == KIND_DIRECTORY
                    && let Some(first) = parents.insert(ino, dir)
                {
                    report.add(two_parents(dir, dent, first));
                }
            }
            self.let_go();
        }
        Ok(())
    }

    /// Reads what the nodes of a file hold; holes need no reading.
    fn read_all(&mut self, ino: u32, size: u32) -> Result<(), Jffs2Error> {
        let mut at = 0;
        let mut data = Vec::new();
        while let Some(fragment) = self
            .load(ino)?
            .tree
            .at_or_after(at)
            .filter(|fragment| fragment.start < size)
        {
            let from = fragment.start.max(at);
            at = fragment.end.min(from.saturating_add(crate::PAGE));
            // It is reported with its node.
            if self.lost.data.contains_key(&fragment.node) {
                at = fragment.end;
                continue;
            }
            if self.read_head(fragment.node, ino)?.compr == ZERO {
                at = fragment.end;
                continue;
            }
            data.resize((at - from) as usize, 0);
            self.read_range(ino, from, &mut data)?;
        }
        Ok(())
    }
}

/// The finding for a directory that a second name leads to.
fn two_parents(dir: u32, dent: &crate::inode::Dent, first: u32) -> Finding {
    Finding::TwoParents {
        dir,
        name: dent.name.to_vec(),
        ino: dent.ino,
        first,
    }
}

/// The finding for a name whose type is not its inode's.
fn wrong_type(dir: u32, dent: &crate::inode::Dent, expected: u8) -> Finding {
    Finding::Type {
        dir,
        name: dent.name.to_vec(),
        ino: dent.ino,
        found: dent.kind,
        expected,
    }
}

/// Whether an interrupted write may have left bytes that are no node, with nodes behind them. Where
/// pages are programmed whole, their page was given up; elsewhere, less than a head was written.
fn may_be_torn(block: &[u8], at: usize, len: usize) -> bool {
    let end = at + len;
    let zeros = block[end..].iter().take_while(|byte| **byte == 0).count();
    let next = &block[end + zeros..];
    let page_ends = (end..=end + zeros).any(|end| end.is_multiple_of(PAGE_MIN));
    len <= HEAD || page_ends || next.starts_with(&[0xFF]) || next.len() < HEAD
}

/// Whether the erase of a block may have been interrupted: a page of it is erased and a later one
/// is not.
fn may_be_half_erased(block: &[u8]) -> bool {
    let is_erased = |page: &[u8]| page.iter().all(|byte| *byte == 0xFF);
    let mut pages = block.chunks(PAGE_MIN).map(is_erased);
    pages.any(|erased| erased) && pages.any(|erased| !erased)
}
