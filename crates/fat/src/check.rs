//! Finds what is wrong with a volume.
//!
//! *Promises.* Every name is visited once, every chain followed once, whatever the volume says; memory is one bit a cluster, the names of one directory
//! and the path of every file and directory. At most [`FINDINGS_MAX`] findings are kept, the rest counted. Nothing is written.

use crate::{
    Fat, FatError,
    dir::{LongName, short_of},
    format::{DIR_SLOTS_MAX, Info, SLOT, Slot, SlotKind, UNKNOWN, attr, slot_kind, slot_size, slot_start},
    name,
    table::{Link, copies},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec,
    vec::Vec,
};
use nandlab_block::BlockDevice;

/// The most findings that are kept.
pub const FINDINGS_MAX: usize = 1000;
/// Directories with longer paths are not visited.
const PATH_MAX: usize = 4096;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A hint is stale; nothing is lost.
    Note,
    /// Space or part of a name is lost, no contents are; a power cut may leave it.
    Waste,
    /// Contents are lost or in danger.
    Damage,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The volume was not unmounted.
    #[error("marked as in use")]
    InUse,
    /// The copy of the boot sector is another.
    #[error("boot sector and its copy in sector {sector} differ from byte {offset}")]
    Backup {
        /// Where the copy is.
        sector: u32,
        /// Where they differ first.
        offset: usize,
    },
    /// The file system information is none.
    #[error("no file system information in sector {0}")]
    NoInfo(u32),
    /// The number of free clusters is another.
    #[error("{found} clusters are said to be free, {expected} are")]
    FreeCount {
        /// What is said.
        found: u32,
        /// What is.
        expected: u32,
    },
    /// The copies of the table are not alike.
    #[error("table copy {copy} differs from the first in sector {sector}")]
    Copies {
        /// The copy, from 1.
        copy: u32,
        /// The first sector that differs, counted from the table's beginning.
        sector: u32,
    },
    /// The table does not begin with the media byte.
    #[error("first table entry {found:#x}, expected the media byte {expected:#x} in it")]
    Media {
        /// The entry.
        found: u32,
        /// The media byte.
        expected: u8,
    },
    /// Clusters that nothing uses.
    #[error("{0} clusters are allocated and belong to no file")]
    Lost(u32),
    /// The first cluster is none.
    #[error("{path}: first cluster {found}, expected a cluster")]
    Start {
        /// Whose.
        path: String,
        /// What is said.
        found: u32,
    },
    /// A chain leads to what is no next cluster.
    #[error("{path}: chain goes on from cluster {cluster} with entry {found:#x}")]
    Chain {
        /// Whose.
        path: String,
        /// The last good cluster.
        cluster: u32,
        /// Its entry.
        found: u32,
        /// Whether the chain is broken before the end of the file.
        within: bool,
    },
    /// A cluster belongs to two.
    #[error("{path}: cluster {cluster} belongs to another file too, or twice to this")]
    CrossLink {
        /// The second to be visited.
        path: String,
        /// The cluster.
        cluster: u32,
    },
    /// Two names lead to one chain: a rename was cut short.
    #[error("{path} and {other} are one file")]
    TwoNames {
        /// The second to be visited.
        path: String,
        /// The first.
        other: String,
    },
    /// A file is longer than its chain.
    #[error("{path}: {size} bytes, its clusters hold {held}")]
    TooLong {
        /// Whose.
        path: String,
        /// What is said.
        size: u32,
        /// Bytes of its chain.
        held: u64,
    },
    /// A chain is longer than its file.
    #[error("{path}: {clusters} clusters beyond its end")]
    Excess {
        /// Whose.
        path: String,
        /// Clusters too many.
        clusters: u32,
    },
    /// A directory says that it has bytes.
    #[error("{path}: directory with a length of {size} bytes")]
    DirectorySize {
        /// Whose.
        path: String,
        /// What is said.
        size: u32,
    },
    /// A directory does not begin with itself.
    #[error("{path}: no `.`, or one that leads elsewhere")]
    Dot {
        /// Whose.
        path: String,
    },
    /// A directory does not name its parent.
    #[error("{path}: `..` leads to cluster {found}, expected {expected}")]
    DotDot {
        /// Whose.
        path: String,
        /// Where it leads.
        found: u32,
        /// Where it should.
        expected: u32,
    },
    /// Slots of a long name that belong to no entry.
    #[error("{path}: slot {slot} is part of a long name that has no entry")]
    LongName {
        /// The directory.
        path: String,
        /// The slot.
        slot: u32,
    },
    /// Two entries of one name.
    #[error("{path}: twice in its directory, or with a short name that is")]
    Twice {
        /// The second.
        path: String,
    },
    /// A path is too long to go on.
    #[error("{path}: too deep")]
    Deep {
        /// Whose.
        path: String,
    },
}

impl Finding {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::InUse | Self::Backup { .. } | Self::NoInfo(_) | Self::FreeCount { .. } | Self::Media { .. } => Severity::Note,
            Self::Copies { .. } | Self::Lost(_) | Self::Excess { .. } | Self::TwoNames { .. } => Severity::Waste,
            Self::DotDot { .. } | Self::LongName { .. } | Self::DirectorySize { .. } => Severity::Waste,
            Self::Chain { within, .. } if !within => Severity::Waste,
            _ => Severity::Damage,
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Findings that were not kept.
    pub more: u64,
    /// Files.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Free clusters.
    pub free: u32,
}

impl Report {
    /// The worst finding's severity.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX { self.findings.push(finding) } else { self.more += 1 }
    }
}

/// A directory still to be visited.
struct Visit {
    path: Vec<u8>,
    clusters: Vec<u32>,
    start: u32,
    parent: u32,
}

/// What is known so far.
struct Walk {
    report: Report,
    used: Vec<u64>,
    /// Who begins where, for names of one chain.
    starts: BTreeMap<u32, Vec<u8>>,
    visits: Vec<Visit>,
}

/// A chain as far as it was followed.
struct Followed {
    clusters: u32,
    /// For directories: which.
    list: Vec<u32>,
    trouble: Option<Trouble>,
}

enum Trouble {
    Broken { cluster: u32, found: u32 },
    Crossed { cluster: u32 },
}

fn text(path: &[u8]) -> String {
    if path.is_empty() { "/".into() } else { String::from_utf8_lossy(path).into_owned() }
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// Checks the volume as it is in memory: mount it read-only to judge the medium alone.
    pub fn check(&mut self) -> Result<Report, FatError> {
        let clusters = self.store.layout.clusters as usize;
        let used = vec![0; (clusters + 2).div_ceil(64)];
        let mut walk = Walk { report: Report::default(), used, starts: BTreeMap::new(), visits: Vec::new() };
        self.check_boot(&mut walk.report)?;
        self.check_copies(&mut walk.report)?;
        self.check_root(&mut walk)?;
        while let Some(visit) = walk.visits.pop() {
            self.check_dir_slots(&mut walk, &visit)?;
        }
        self.check_counts(&mut walk)?;
        Ok(walk.report)
    }

    fn check_boot(&mut self, report: &mut Report) -> Result<(), FatError> {
        let layout = self.store.layout;
        if self.is_marked_in_use() {
            report.add(Finding::InUse);
        }
        if let Some(sector) = layout.backup {
            let boot = self.store.metadata(0)?.to_vec();
            let copy = self.store.metadata(sector)?;
            let state = layout.state_offset();
            if let Some(offset) = (0..512).find(|at| boot[*at] != copy[*at] && *at != state) {
                report.add(Finding::Backup { sector, offset });
            }
        }
        let found = self.table.value(&mut self.store, 0)?;
        if found as u8 != layout.media {
            report.add(Finding::Media { found, expected: layout.media });
        }
        Ok(())
    }

    fn check_copies(&mut self, report: &mut Report) -> Result<(), FatError> {
        let layout = self.store.layout;
        for copy in 1..copies(&layout, layout.fat_start).count() as u32 {
            for sector in 0..layout.fat_sectors {
                let first = self.store.metadata(layout.fat_start + sector)?.to_vec();
                if self.store.metadata(layout.fat_start + copy * layout.fat_sectors + sector)? != first {
                    report.add(Finding::Copies { copy, sector });
                    break;
                }
            }
        }
        Ok(())
    }

    fn check_root(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let start = self.store.layout.root_cluster;
        let mut clusters = Vec::new();
        if start != 0 {
            let followed = self.follow(walk, start, true)?;
            self.judge_chain(walk, &[], &followed, true);
            clusters = followed.list;
        }
        walk.visits.push(Visit { path: Vec::new(), clusters, start: 0, parent: 0 });
        Ok(())
    }

    /// Follows a chain and takes its clusters.
    fn follow(&mut self, walk: &mut Walk, start: u32, directory: bool) -> Result<Followed, FatError> {
        let most = DIR_SLOTS_MAX * SLOT as u32 / self.store.layout.cluster_bytes();
        let (mut followed, mut at) = (Followed { clusters: 0, list: Vec::new(), trouble: None }, start);
        loop {
            let (word, bit) = (at as usize / 64, 1 << (at % 64));
            if walk.used[word] & bit != 0 {
                followed.trouble = Some(Trouble::Crossed { cluster: at });
                return Ok(followed);
            }
            walk.used[word] |= bit;
            followed.clusters += 1;
            if directory && followed.clusters <= most.max(1) {
                followed.list.push(at);
            }
            match self.table.get(&mut self.store, at)? {
                Link::Next(next) => at = next,
                Link::End => return Ok(followed),
                _ => {
                    let found = self.table.value(&mut self.store, at)?;
                    followed.trouble = Some(Trouble::Broken { cluster: at, found });
                    return Ok(followed);
                }
            }
        }
    }

    fn judge_chain(&self, walk: &mut Walk, path: &[u8], followed: &Followed, within: bool) {
        match followed.trouble {
            Some(Trouble::Broken { cluster, found }) => walk.report.add(Finding::Chain { path: text(path), cluster, found, within }),
            Some(Trouble::Crossed { cluster }) => walk.report.add(Finding::CrossLink { path: text(path), cluster }),
            None => {}
        }
    }

    /// Where the slots of a directory lie, from the first to the last.
    fn visit_place(&self, visit: &Visit, index: u32) -> Option<u64> {
        let (layout, at) = (&self.store.layout, u64::from(index) * SLOT as u64);
        if visit.path.is_empty() && layout.root_cluster == 0 {
            return (index < layout.root_slots).then(|| u64::from(layout.root_start) * u64::from(layout.sector) + at);
        }
        let bytes = u64::from(layout.cluster_bytes());
        let cluster = visit.clusters.get((at / bytes) as usize)?;
        (index < DIR_SLOTS_MAX).then(|| u64::from(layout.cluster_sector(*cluster)) * u64::from(layout.sector) + at % bytes)
    }

    fn check_dir_slots(&mut self, walk: &mut Walk, visit: &Visit) -> Result<(), FatError> {
        let (mut long, mut names, mut shorts) = (LongName::default(), BTreeSet::new(), BTreeSet::new());
        for index in 0.. {
            let Some(place) = self.visit_place(visit, index) else { break };
            let slot = self.store.slot(place)?;
            let kind = slot_kind(&slot);
            let orphan = |walk: &mut Walk, slot| walk.report.add(Finding::LongName { path: text(&visit.path), slot });
            if !visit.path.is_empty() && index < 2 {
                self.check_dots(walk, visit, index, &slot);
            }
            if kind == SlotKind::LongName {
                if long.is_pending() && slot[0] & 0x40 != 0 || !long.take(&slot, index) {
                    orphan(walk, index);
                    long.take(&slot, index);
                }
                continue;
            }
            let pending = long.is_pending();
            let named = (kind == SlotKind::Entry).then(|| long.finish(&short_of(&slot))).flatten();
            if pending && named.is_none() {
                orphan(walk, index);
            }
            long = LongName::default();
            match kind {
                SlotKind::End => break,
                SlotKind::Entry => {
                    let units = named.map_or_else(|| name::show(&short_of(&slot), slot[12]), |(units, _)| units);
                    let path = [&visit.path[..], b"/", &name::to_bytes(&units)].concat();
                    if !shorts.insert(short_of(&slot)) | !names.insert(name::fold(&units)) {
                        walk.report.add(Finding::Twice { path: text(&path) });
                    }
                    self.check_entry(walk, visit, path, &slot)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_dots(&self, walk: &mut Walk, visit: &Visit, index: u32, slot: &Slot) {
        let path = || text(&visit.path);
        let start = slot_start(slot, self.store.layout.bits);
        let expected: (&[u8; 11], u32) = [(b".          ", visit.start), (b"..         ", visit.parent)][index as usize];
        let named = slot[..11] == *expected.0 && slot[11] & attr::DIRECTORY != 0;
        if index == 0 && !(named && start == expected.1) {
            walk.report.add(Finding::Dot { path: path() });
        }
        if index == 1 && !(named && start == expected.1) {
            walk.report.add(Finding::DotDot { path: path(), found: if named { start } else { 0 }, expected: expected.1 });
        }
    }

    fn check_entry(&mut self, walk: &mut Walk, visit: &Visit, path: Vec<u8>, slot: &Slot) -> Result<(), FatError> {
        let layout = self.store.layout;
        let (start, size, directory) = (slot_start(slot, layout.bits), slot_size(slot), slot[11] & attr::DIRECTORY != 0);
        if directory {
            walk.report.directories += 1
        } else {
            walk.report.files += 1
        }
        if directory && size != 0 {
            walk.report.add(Finding::DirectorySize { path: text(&path), size });
        }
        if start == 0 && !directory {
            if size > 0 {
                walk.report.add(Finding::TooLong { path: text(&path), size, held: 0 });
            }
            return Ok(());
        }
        if !layout.is_cluster(start) {
            walk.report.add(Finding::Start { path: text(&path), found: start });
            return Ok(());
        }
        if let Some(other) = walk.starts.get(&start) {
            let finding = Finding::TwoNames { path: text(&path), other: text(other) };
            walk.report.add(finding);
            return Ok(());
        }
        walk.starts.insert(start, path.clone());
        let followed = self.follow(walk, start, directory)?;
        let held = u64::from(followed.clusters) * u64::from(layout.cluster_bytes());
        self.judge_chain(walk, &path, &followed, directory || held < u64::from(size));
        if directory {
            if path.len() > PATH_MAX {
                walk.report.add(Finding::Deep { path: text(&path[..64]) });
            } else {
                walk.visits.push(Visit { path, clusters: followed.list, start, parent: visit.start });
            }
            return Ok(());
        }
        let needed = self.clusters_for(u64::from(size));
        if followed.clusters < needed && followed.trouble.is_none() {
            walk.report.add(Finding::TooLong { path: text(&path), size, held });
        } else if followed.clusters > needed {
            walk.report.add(Finding::Excess { path: text(&path), clusters: followed.clusters - needed });
        }
        Ok(())
    }

    fn check_counts(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let (layout, mut lost) = (self.store.layout, 0);
        for cluster in 2..layout.clusters + 2 {
            let used = walk.used[cluster as usize / 64] >> (cluster % 64) & 1 == 1;
            match self.table.get(&mut self.store, cluster)? {
                Link::Free => walk.report.free += 1,
                Link::Bad => {}
                _ => lost += u32::from(!used),
            }
        }
        if lost > 0 {
            walk.report.add(Finding::Lost(lost));
        }
        let Some(sector) = layout.info else { return Ok(()) };
        match Info::parse(self.store.metadata(sector)?) {
            None => walk.report.add(Finding::NoInfo(sector)),
            Some(info) if info.free != UNKNOWN && info.free != walk.report.free => {
                walk.report.add(Finding::FreeCount { found: info.free, expected: walk.report.free });
            }
            Some(_) => {}
        }
        Ok(())
    }
}
