//! Mounts a volume with a damaged superblock, master node, index or journal: a scan finds its
//! nodes.
//!
//! *Promises.* The scan applies all nodes with right checksums to an empty index in the order of
//! their sequence numbers, as a mount applies those of the journal. The readable parts of the last
//! commit's index count more: a scan only fills their holes, and adds newer nodes. Memory is some
//! 100 bytes for each node, beside the index. *Cannot know* of a deletion or a truncation without
//! its node, which collection drops: a deleted file may come back, and so may old contents where a
//! file grew again. The index keeps a damaged data node: a read fails with its place.

use crate::error::{Result, UbifsError};
use crate::finding::Finding;
use crate::format::{Branch, Fault, Key, KeyKind, Kind, Master, SQNUM_LIMIT};
use crate::guess::{self, Clues};
use crate::index::Index;
use crate::lebs::{LebError, Lebs};
use crate::make::first_master;
use crate::mount::{Found, Journal, Loaded, Ubifs, load};
use crate::node::{self, Media};
use crate::replay::{self, Step};
use crate::sizes::Sizes;
use crate::survey::{self, Seen};
use crate::{master, orphans, scan};
use alloc::{vec, vec::Vec};
use nandlab_vfs::report::{FINDINGS_MAX, Report};

/// A damaged node that a scan met.
struct Damaged {
    sqnum: u64,
    key: Option<Key>,
    error: UbifsError,
}

/// All nodes of a volume.
#[derive(Default)]
struct Scan {
    steps: Vec<Step>,
    damaged: Vec<Damaged>,
    /// Damaged nodes beyond those in the list.
    more: u64,
    master: Option<Master>,
    /// The sequence numbers of master nodes and of nodes that begin a commit.
    commits: Vec<u64>,
    clues: Clues,
}

impl<L: Lebs> Ubifs<L> {
    /// Mounts a volume for reading, as far as possible. A scan finds its nodes if anything that
    /// leads to them is unreadable; [`check`](Self::check) reports the reason.
    ///
    /// Fails on an unsupported feature, or if there is no node at all.
    pub fn salvage(mut lebs: L) -> Result<Self> {
        let mut told: Report<Finding> = Report::default();
        let known = node::head(&mut lebs);
        if let Err(error @ UbifsError::Feature { .. }) = known {
            return Err(error);
        }
        let shape = lebs.shape();
        let head = known.clone().unwrap_or_else(|_| guess::blank(shape));
        let mut media = Media::with(lebs, head);
        media.salvages = true;
        let refusal = match known.and_then(|_| load(&mut media)) {
            Ok(loaded) if loaded.index.holes.is_empty() => {
                return Ok(Self::assemble(media, loaded).0);
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = &refusal {
            let what = area(error);
            let error = error.clone();
            told.add(Finding::Scanned { what, error });
        }
        let loaded = rebuild(&mut media, &mut told);
        if let Some(error) = refusal.filter(|_| loaded.index.len() == 0) {
            return Err(error);
        }
        let (mut fs, _) = Self::assemble(media, loaded);
        fs.salvaged = Some(told);
        Ok(fs)
    }

    /// True if a scan had to find the nodes.
    pub fn is_salvaged(&self) -> bool {
        self.salvaged.is_some()
    }

    /// True if there is no sound superblock.
    pub fn is_headless(&self) -> bool {
        self.salvaged.as_ref().is_some_and(lacks_superblock)
    }
}

const SUPERBLOCK: &str = "superblock";

/// True if the superblock is the reason for a scan.
fn lacks_superblock(told: &Report<Finding>) -> bool {
    let is_about =
        |finding: &Finding| matches!(finding, Finding::Scanned { what, .. } if *what == SUPERBLOCK);
    told.findings.first().is_some_and(is_about)
}

/// The area that an error of a mount is about.
fn area(error: &UbifsError) -> &'static str {
    match error.leb() {
        Some((0, _)) => SUPERBLOCK,
        Some((1 | 2, _)) => "master nodes",
        _ => "log and journal",
    }
}

/// Reads what the last commit still tells, and all nodes.
fn rebuild<L: Lebs>(media: &mut Media<L>, told: &mut Report<Finding>) -> Loaded {
    let is_headless = lacks_superblock(told);
    let mut scan = Scan::read(media, told);
    if is_headless {
        media.head = scan.clues.head(media.head);
    }
    let found = match is_headless {
        true => None,
        false => master::find(media).ok().map(|chosen| chosen.master),
    };
    let master = found.or(scan.master);
    let mut index = committed(media, master.as_ref());
    let since = since(media, master.as_ref(), &scan.commits);
    for hole in &index.holes {
        told.add(Finding::Hole {
            from: hole.from,
            to: hole.to,
            error: hole.error.clone(),
        });
    }
    scan.tell(since, &index, told);
    let newest = scan
        .steps
        .iter()
        .map(|step| u64::from(step.key.inode()))
        .max();
    let nodes = scan.steps.len() as u64;
    let sizes = apply(media, &mut index, scan.steps, since);
    let master = master.unwrap_or_else(|| first_master(&media.geometry()));
    Loaded {
        master,
        index,
        sizes,
        journal: Journal {
            nodes,
            ..Journal::default()
        },
        buds: Vec::new(),
        highest_inode: master.highest_inode.max(newest.unwrap_or(0)),
        found: Found::default(),
    }
}

/// The index of the last commit, with holes for its unreadable parts. It must agree with its master
/// node.
fn committed<L: Lebs>(media: &mut Media<L>, master: Option<&Master>) -> Index {
    let Some(master) = master else {
        let what = "the number of master nodes";
        return Index::unknown(Fault::rule(what, 0u32, "1 or more").at(1, 0));
    };
    let index = Index::load(media, master.root);
    let bytes = master.index_bytes;
    match index.holes.is_empty() && index.bytes < bytes {
        true => {
            Index::unknown(Fault::value("the length of the index", index.bytes, bytes).at(1, 0))
        }
        false => index,
    }
}

/// The sequence number of the last commit: nodes behind it are newer than its index. Without the
/// node that began the commit it is that of the node before.
fn since<L: Lebs>(media: &mut Media<L>, master: Option<&Master>, commits: &[u64]) -> u64 {
    let root = master.and_then(|master| media.node(master.root, Kind::Index).ok());
    let Some((root, _)) = root else {
        return 0;
    };
    let before = commits.iter().filter(|sqnum| **sqnum < root.sqnum);
    before.max().copied().unwrap_or(root.sqnum)
}

/// Fills the holes of an index, and brings it up to date. Returns the sizes that its inodes do not
/// tell of.
fn apply<L: Lebs>(
    media: &mut Media<L>,
    index: &mut Index,
    mut steps: Vec<Step>,
    since: u64,
) -> alloc::collections::BTreeMap<u32, u64> {
    steps.sort_by_key(Step::order);
    let late = steps.partition_point(|step| step.sqnum <= since);
    let mut sizes = Sizes::in_order();
    if !index.holes.is_empty() {
        let mut all = Index::default();
        // The scan has reported unreadable blocks.
        _ = replay::apply(media, &mut all, &steps[..late], &mut sizes);
        _ = replay::remove_gone(media, &mut all, &steps[..late]);
        sizes.retain(|inode| {
            index
                .known(Key::of_inode(inode), Key::of_inode(inode))
                .is_err()
        });
        fill(media, index, &all);
    }
    _ = replay::apply(media, index, &steps[late..], &mut sizes);
    _ = replay::remove_gone(media, index, &steps[late..]);
    _ = orphans::kill(media, index);
    sizes.beyond(media, index)
}

/// Takes what lies in the holes of an index from another one.
fn fill<L: Lebs>(media: &mut Media<L>, index: &mut Index, all: &Index) {
    for hole in core::mem::take(&mut index.holes) {
        for (slot, at) in all.range(hole.from, hole.to) {
            match slot.key.is_hashed() {
                false if index.at(slot).is_none() => index.set(slot.key, at),
                false => {}
                true => _ = add_name(media, index, slot.key, at),
            }
        }
    }
}

/// Adds an entry, unless its name is there.
fn add_name<L: Lebs>(media: &mut Media<L>, index: &mut Index, key: Key, at: Branch) -> Result<()> {
    let (_, bytes) = media.leaf(at, key)?;
    let entry = crate::format::Entry::parse(bytes, node::kind_of(key));
    let name: Vec<u8> = entry
        .map_err(|fault| fault.at(at.lnum, at.offs))?
        .name
        .into();
    match replay::find(media, index, key, &name)? {
        (Some(_), _) => Ok(()),
        (None, _) => replay::insert(media, index, key, &name, at),
    }
}

impl Scan {
    /// Looks at every block of the volume.
    fn read<L: Lebs>(media: &mut Media<L>, told: &mut Report<Finding>) -> Self {
        let mut scan = Self::default();
        let here = media.geometry();
        let mut bytes = vec![0; here.leb as usize];
        for lnum in 0..media.held() {
            let outcome = as_far(media, lnum, &mut bytes);
            for seen in survey::nodes(&bytes, &here) {
                scan.node(&bytes, lnum, seen);
            }
            match outcome {
                Err(UbifsError::Medium {
                    error: LebError::Short(_),
                    ..
                }) => break,
                Err(error) => told.add(Finding::Damaged { error }),
                Ok(()) => {}
            }
        }
        scan
    }

    fn node(&mut self, leb: &[u8], lnum: u32, seen: Seen) {
        let Seen { offs, header, .. } = seen;
        let bytes = &leb[offs as usize..][..header.len as usize];
        let sqnum = header.sqnum;
        match (header.kind, seen.fault) {
            (Kind::Inode | Kind::Data | Kind::Dent | Kind::Xent | Kind::Truncation, fault) => {
                let found = scan::Found { offs, header };
                let step = match fault {
                    Some(fault) => Err(fault.at(lnum, offs)),
                    None => replay::step(leb, lnum, found),
                };
                match step {
                    Ok(step) => {
                        self.clues.leaf(bytes, header.kind);
                        self.steps.extend(step);
                    }
                    Err(error) => self.damaged(bytes, (lnum, seen), error),
                }
            }
            (_, Some(_)) => {}
            (Kind::Master, None) => {
                self.commits.push(sqnum);
                let newer = self.master.is_none_or(|master| master.sqnum < sqnum);
                if newer && sqnum < SQNUM_LIMIT {
                    self.master = Some(Master::parse(bytes, sqnum));
                }
            }
            (Kind::Commit, None) => self.commits.push(sqnum),
            (Kind::Index, None) => self.clues.index(header.len),
            _ => {}
        }
    }

    fn damaged(&mut self, bytes: &[u8], (lnum, seen): (u32, Seen), error: UbifsError) {
        let sqnum = seen.header.sqnum;
        let key = Key::parse(bytes, 24).ok();
        let data = key.filter(|key| key.kind() == KeyKind::Data && seen.header.kind == Kind::Data);
        if let Some(key) = data.filter(|_| sqnum < SQNUM_LIMIT) {
            let at = Branch {
                lnum,
                offs: seen.offs,
                len: seen.header.len,
            };
            self.steps.push(Step::lost(sqnum, key, at));
        }
        match self.damaged.len() {
            ..FINDINGS_MAX => self.damaged.push(Damaged { sqnum, key, error }),
            _ => self.more += 1,
        }
    }

    /// Reports the damaged nodes that the index does not replace.
    fn tell(&mut self, since: u64, index: &Index, told: &mut Report<Finding>) {
        for Damaged { sqnum, key, error } in self.damaged.drain(..) {
            let unknown = |key| index.known(key, key).is_err();
            if sqnum > since || key.map_or(!index.holes.is_empty(), unknown) {
                told.add(Finding::Damaged { error });
            }
        }
        told.more += self.more;
    }
}

/// Reads a block as far as the medium gives it. The rest reads as erased.
fn as_far<L: Lebs>(media: &mut Media<L>, lnum: u32, bytes: &mut [u8]) -> Result<()> {
    const STEP: usize = 512;
    let outcome = media.read(lnum, 0, bytes);
    if outcome.is_err() {
        for (offs, part) in (0..).step_by(STEP).zip(bytes.chunks_mut(STEP)) {
            if media.read(lnum, offs, part).is_err() {
                part.fill(0xFF);
            }
        }
    }
    outcome
}
