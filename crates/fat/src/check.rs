//! Finds what is wrong with a volume.
//!
//! *Promises.* Every name is visited once, every chain followed once, whatever the volume says;
//! memory is one bit a cluster, the names of one directory and the path of every file and
//! directory. At most [`FINDINGS_MAX`](crate::FINDINGS_MAX) findings are kept, the rest counted.
//! Nothing is written.

use crate::{
    Fat, FatError,
    dir::{LongName, short_of},
    finding::{Finding, Report},
    format::{
        DIR_SLOTS_MAX, Info, SLOT, Slot, SlotKind, UNKNOWN, attr, slot_kind, slot_size, slot_start,
    },
    name,
    repair::Fix,
    strict,
    table::{Link, copies, first_entry},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec,
    vec::Vec,
};
use nandlab_block::BlockDevice;

/// The bit of the boot sector's state for a volume in use, which a mount does not set in the copy.
const IN_USE: u8 = 1;
/// Directories with longer paths are not visited.
const PATH_MAX: usize = 4096;

/// A directory still to be visited.
pub(crate) struct Visit {
    pub(crate) path: Vec<u8>,
    clusters: Vec<u32>,
    start: u32,
    parent: u32,
}

/// What is known so far.
pub(crate) struct Walk {
    pub(crate) report: Report,
    repairing: bool,
    /// The patches that repair it.
    pub(crate) fixes: Vec<Fix>,
    used: Vec<u64>,
    /// Who begins where, for names of one chain, and whether it is a directory.
    starts: BTreeMap<u32, (Vec<u8>, bool)>,
    visits: Vec<Visit>,
    /// Whether the root has a label.
    pub(crate) labelled: bool,
}

impl Walk {
    /// Marks a cluster as used. False if it was already.
    fn take(&mut self, cluster: u32) -> bool {
        let bit = 1 << (cluster % 64);
        let word = &mut self.used[cluster as usize / 64];
        let free = *word & bit == 0;
        *word |= bit;
        free
    }

    fn fix(&mut self, fix: Fix) {
        if self.repairing {
            self.fixes.push(fix);
        }
    }
}

/// A chain as far as it was followed.
struct Followed {
    clusters: u32,
    /// Of a directory, its clusters in order.
    list: Vec<u32>,
    trouble: Option<Trouble>,
}

enum Trouble {
    Broken { cluster: u32, found: u32 },
    Crossed { cluster: u32 },
}

pub(crate) fn text(path: &[u8]) -> String {
    if path.is_empty() {
        "/".into()
    } else {
        String::from_utf8_lossy(path).into_owned()
    }
}

/// Whether a path lies in a directory or below it.
fn is_below(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.first() == Some(&b'/'))
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// Checks the volume as it is in memory: mount it read-only to judge the medium alone.
    pub fn check(&mut self) -> Result<Report, FatError> {
        Ok(self.walk(false)?.report)
    }

    /// Looks at everything; with `repairing`, the patches are noted too, which takes memory for
    /// each place.
    pub(crate) fn walk(&mut self, repairing: bool) -> Result<Walk, FatError> {
        let clusters = self.store.layout.clusters as usize;
        let used = vec![0; (clusters + 2).div_ceil(64)];
        let mut walk = Walk {
            report: Report::default(),
            repairing,
            fixes: Vec::new(),
            used,
            starts: BTreeMap::new(),
            visits: Vec::new(),
            labelled: false,
        };
        self.check_boot(&mut walk)?;
        self.check_copies(&mut walk)?;
        self.check_root(&mut walk)?;
        while let Some(visit) = walk.visits.pop() {
            self.check_dir_slots(&mut walk, &visit)?;
        }
        self.check_counts(&mut walk)?;
        Ok(walk)
    }

    fn check_boot(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let layout = self.store.layout;
        if self.is_marked_in_use() {
            walk.report.add(Finding::InUse);
        }
        if let Some(sector) = layout.backup {
            self.check_backup(walk, sector)?;
        }
        self.check_marks(walk)?;
        let found = self.table.value(&mut self.store, 0)?;
        let expected = first_entry(&layout);
        if found != expected {
            walk.report.add(Finding::Media { found, expected });
        }
        Ok(())
    }

    fn check_backup(&mut self, walk: &mut Walk, sector: u32) -> Result<(), FatError> {
        let layout = self.store.layout;
        let boot = self.store.metadata(0)?.to_vec();
        let copy = self.store.metadata(sector)?;
        let state = layout.state_offset();
        let differs = |at: &usize| {
            let bits = if *at == state { !IN_USE } else { 0xFF };
            (boot[*at] ^ copy[*at]) & bits != 0
        };
        if let Some(offset) = (0..512).find(differs) {
            walk.report.add(Finding::Backup { sector, offset });
            walk.fix(Fix::Backup(sector));
        }
        Ok(())
    }

    fn check_copies(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let layout = self.store.layout;
        for copy in 1..copies(&layout, layout.fat_start).count() as u32 {
            let mut differs = false;
            for sector in 0..layout.fat_sectors {
                let first = self.store.metadata(layout.fat_start + sector)?.to_vec();
                let other = layout.fat_start + copy * layout.fat_sectors + sector;
                if self.store.metadata(other)? != first {
                    if !differs {
                        walk.report.add(Finding::Copies { copy, sector });
                    }
                    differs = true;
                    walk.fix(Fix::Copy {
                        first: layout.fat_start + sector,
                        copy: other,
                    });
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
        walk.visits.push(Visit {
            path: Vec::new(),
            clusters,
            start: 0,
            parent: 0,
        });
        Ok(())
    }

    /// Follows a chain and takes its clusters.
    fn follow(
        &mut self,
        walk: &mut Walk,
        start: u32,
        directory: bool,
    ) -> Result<Followed, FatError> {
        let most = DIR_SLOTS_MAX * SLOT as u32 / self.store.layout.cluster_bytes();
        let mut followed = Followed {
            clusters: 0,
            list: Vec::new(),
            trouble: None,
        };
        let mut at = start;
        loop {
            if !walk.take(at) {
                followed.trouble = Some(Trouble::Crossed { cluster: at });
                return Ok(followed);
            }
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
            Some(Trouble::Broken { cluster, found }) => {
                walk.fix(Fix::End(cluster));
                walk.report.add(Finding::Chain {
                    path: text(path),
                    cluster,
                    found,
                    within,
                });
            }
            Some(Trouble::Crossed { cluster }) => walk.report.add(Finding::CrossLink {
                path: text(path),
                cluster,
            }),
            None => {}
        }
    }

    /// Where the slots of a directory lie, from the first to the last.
    pub(crate) fn visit_place(&self, visit: &Visit, index: u32) -> Option<u64> {
        let layout = &self.store.layout;
        let at = u64::from(index) * SLOT as u64;
        if visit.path.is_empty() && layout.root_cluster == 0 {
            return (index < layout.root_slots)
                .then(|| u64::from(layout.root_start) * u64::from(layout.sector) + at);
        }
        let bytes = u64::from(layout.cluster_bytes());
        let cluster = visit.clusters.get((at / bytes) as usize)?;
        (index < DIR_SLOTS_MAX).then(|| {
            u64::from(layout.cluster_sector(*cluster)) * u64::from(layout.sector) + at % bytes
        })
    }

    fn check_dir_slots(&mut self, walk: &mut Walk, visit: &Visit) -> Result<(), FatError> {
        let mut long = LongName::default();
        let mut names = BTreeSet::new();
        let mut shorts = BTreeSet::new();
        let mut long_places = Vec::new();
        for index in 0.. {
            let Some(place) = self.visit_place(visit, index) else {
                break;
            };
            let slot = self.store.slot(place)?;
            let kind = slot_kind(&slot);
            let places = &mut long_places;
            let orphan = |walk: &mut Walk, places: &mut Vec<u64>, slot| {
                let at = places.first().copied().unwrap_or(place);
                places
                    .drain(..)
                    .for_each(|place| walk.fix(Fix::Remove(place)));
                walk.report.add(Finding::LongName {
                    path: text(&visit.path),
                    slot,
                    at,
                });
            };
            if !visit.path.is_empty() && index < 2 {
                self.check_dots(walk, visit, index, (&slot, place));
            }
            if let Some(finding) = strict::slot(walk, visit, (&slot, index, place)) {
                walk.report.add(finding);
            }
            if kind == SlotKind::LongName {
                if long.is_pending() && slot[0] & 0x40 != 0 || !long.take(&slot, index) {
                    orphan(walk, places, index);
                    if !long.take(&slot, index) {
                        walk.fix(Fix::Remove(place));
                        continue;
                    }
                }
                places.push(place);
                continue;
            }
            let pending = long.is_pending();
            let named = (kind == SlotKind::Entry)
                .then(|| long.finish(&short_of(&slot)))
                .flatten();
            if pending && named.is_none() {
                orphan(walk, places, index);
            }
            places.clear();
            long = LongName::default();
            match kind {
                SlotKind::End => {
                    self.check_end(walk, visit, index)?;
                    break;
                }
                SlotKind::Entry => {
                    let units = named.map_or_else(
                        || name::show(&short_of(&slot), slot[12]),
                        |(units, _)| units,
                    );
                    let path = [&visit.path[..], b"/", &name::to_bytes(&units)].concat();
                    if !shorts.insert(short_of(&slot)) | !names.insert(name::fold(&units)) {
                        walk.report.add(Finding::Twice {
                            path: text(&path),
                            at: place,
                        });
                    }
                    self.check_entry(walk, visit, path, (&slot, place))?;
                }
                _ => {}
            }
        }
        // The directory is full, and its last slot belongs to a name without an entry.
        if let (true, Some(at)) = (long.is_pending(), long_places.first()) {
            walk.report.add(Finding::LongName {
                path: text(&visit.path),
                slot: long.first_slot(),
                at: *at,
            });
            long_places
                .iter()
                .for_each(|place| walk.fix(Fix::Remove(*place)));
        }
        Ok(())
    }

    fn check_dots(&self, walk: &mut Walk, visit: &Visit, index: u32, (slot, place): (&Slot, u64)) {
        let path = || text(&visit.path);
        let start = slot_start(slot, self.store.layout.bits);
        let expected: (&[u8; 11], u32) = [
            (b".          ", visit.start),
            (b"..         ", visit.parent),
        ][index as usize];
        let named = slot[..11] == *expected.0 && slot[11] & attr::DIRECTORY != 0;
        if named && start != expected.1 {
            walk.fix(Fix::Start(place, expected.1));
        }
        if index == 0 && !(named && start == expected.1) {
            walk.report.add(Finding::Dot {
                path: path(),
                at: place,
            });
        }
        if index == 1 && !named {
            walk.report.add(Finding::NoDotDot {
                path: path(),
                at: place,
            });
        } else if index == 1 && start != expected.1 {
            walk.report.add(Finding::DotDot {
                path: path(),
                found: start,
                expected: expected.1,
                at: place,
            });
        }
    }

    fn check_entry(
        &mut self,
        walk: &mut Walk,
        visit: &Visit,
        path: Vec<u8>,
        (slot, place): (&Slot, u64),
    ) -> Result<(), FatError> {
        let layout = self.store.layout;
        let start = slot_start(slot, layout.bits);
        let size = slot_size(slot);
        let directory = slot[11] & attr::DIRECTORY != 0;
        if directory {
            walk.report.directories += 1
        } else {
            walk.report.files += 1
        }
        if directory && size != 0 {
            walk.fix(Fix::Size(place, 0));
            walk.report.add(Finding::DirectorySize {
                path: text(&path),
                size,
                at: place,
            });
        }
        if start == 0 && !directory {
            if size > 0 {
                walk.fix(Fix::Size(place, 0));
                walk.report.add(Finding::TooLong {
                    path: text(&path),
                    size,
                    held: 0,
                    at: place,
                });
            }
            return Ok(());
        }
        if !layout.is_cluster(start) {
            walk.report.add(Finding::Start {
                path: text(&path),
                found: start,
                at: place,
            });
            return Ok(());
        }
        if let Some((other, is_directory)) = walk.starts.get(&start) {
            if *is_directory != directory {
                walk.report.add(Finding::CrossLink {
                    path: text(&path),
                    cluster: start,
                });
                return Ok(());
            }
            let back = directory && is_below(&path, other);
            let path = text(&path);
            let other = text(other);
            let at = place;
            walk.report.add(match back {
                true => Finding::Cycle { path, other, at },
                false => Finding::TwoNames { path, other, at },
            });
            return Ok(());
        }
        walk.starts.insert(start, (path.clone(), directory));
        let followed = self.follow(walk, start, directory)?;
        let held = u64::from(followed.clusters) * u64::from(layout.cluster_bytes());
        self.judge_chain(walk, &path, &followed, directory || held < u64::from(size));
        if directory {
            if path.len() > PATH_MAX {
                walk.report.add(Finding::Deep {
                    path: text(&path[..64]),
                });
            } else {
                walk.visits.push(Visit {
                    path,
                    clusters: followed.list,
                    start,
                    parent: visit.start,
                });
            }
            return Ok(());
        }
        let needed = self.clusters_for(u64::from(size));
        if followed.clusters < needed && followed.trouble.is_none() {
            walk.fix(Fix::Size(place, held as u32));
            walk.report.add(Finding::TooLong {
                path: text(&path),
                size,
                held,
                at: place,
            });
        } else if followed.clusters > needed {
            // A file of no bytes has no chain at all.
            walk.fix(if needed == 0 {
                Fix::Start(place, 0)
            } else {
                Fix::Cut {
                    start,
                    keep: needed,
                }
            });
            walk.report.add(Finding::Excess {
                path: text(&path),
                clusters: followed.clusters - needed,
                at: place,
            });
        }
        Ok(())
    }

    fn check_counts(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let layout = self.store.layout;
        let mut lost = 0;
        for cluster in 2..layout.clusters + 2 {
            let used = walk.used[cluster as usize / 64] >> (cluster % 64) & 1 == 1;
            match self.table.get(&mut self.store, cluster)? {
                Link::Free => walk.report.free += 1,
                Link::Bad => {}
                _ if used => {}
                _ => {
                    lost += 1;
                    walk.fix(Fix::Free(cluster));
                }
            }
        }
        if lost > 0 {
            walk.report.add(Finding::Lost(lost));
        }
        let Some(sector) = layout.info else {
            return Ok(());
        };
        match Info::parse(self.store.metadata(sector)?) {
            None => {
                walk.fix(Fix::Count(walk.report.free));
                walk.report.add(Finding::NoInfo(sector));
            }
            Some(info) if info.free != UNKNOWN && info.free != walk.report.free => {
                walk.fix(Fix::Count(walk.report.free));
                walk.report.add(Finding::FreeCount {
                    found: info.free,
                    expected: walk.report.free,
                });
            }
            Some(_) => {}
        }
        Ok(())
    }
}
