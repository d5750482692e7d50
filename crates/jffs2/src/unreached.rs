//! What no path leads to: inodes below a name that cannot be read, in cycles of directories, or
//! without a name.
//!
//! *Promises.* Nothing here is given up by a mount that would be listed otherwise; it is reported,
//! with the path as far as it is known. *Bounded:* the names in directories that cannot be reached.

use crate::{
    Finding, Jffs2, Jffs2Error, Report, Unreached, inode::KIND_DIRECTORY, scan::FoundName,
};
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::report::FINDINGS_MAX;

pub(crate) type Names = BTreeMap<u32, BTreeMap<Vec<u8>, FoundName>>;

/// What the build did not reach from the root.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Names in directories that have none themselves.
    pub names: Names,
    /// Directories that lie below themselves: one of each cycle.
    cycles: Vec<u32>,
    /// Inodes that have nodes and no name, and of which no removed name is left.
    nameless: BTreeSet<u32>,
}

/// A name that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct LostName {
    pub dir: u32,
    pub name: Vec<u8>,
    pub ino: u32,
}

impl Apart {
    /// Directories below one that cannot be reached, with their names.
    fn below(&self, dir: u32) -> impl DoubleEndedIterator<Item = (&[u8], u32)> {
        let names = self.names.get(&dir).into_iter().flatten();
        let is_dir = |found: &FoundName| found.kind == KIND_DIRECTORY && found.ino != 0;
        names
            .filter(move |(_, found)| is_dir(found))
            .map(|(name, found)| (&name[..], found.ino))
    }

    /// Finds the cycles of directories, and adds each.
    fn find_cycles(&mut self, report: &mut Report) {
        let dirs: Vec<u32> = self.names.keys().copied().collect();
        let mut above = BTreeSet::new();
        let mut done = BTreeSet::new();
        for first in dirs {
            // Directories to go into, and those to leave again.
            let mut way = alloc::vec![(first, false)];
            while let Some((dir, leaves)) = way.pop() {
                if leaves {
                    above.remove(&dir);
                    continue;
                }
                if !done.insert(dir) {
                    continue;
                }
                above.insert(dir);
                way.push((dir, true));
                let mut closing = None;
                for (name, ino) in self.below(dir) {
                    if above.contains(&ino) {
                        closing = Some((name.to_vec(), ino));
                    } else if !done.contains(&ino) {
                        way.push((ino, false));
                    }
                }
                if let Some((name, ino)) = closing {
                    self.cycles.push(ino);
                    report.add(Finding::Cycle { dir, name, ino });
                }
            }
        }
    }
}

impl<M: Mtd> Jffs2<M> {
    /// Keeps what the build did not reach. `removed` are inodes that once had a name that was
    /// removed.
    pub(crate) fn keep_unreached(&mut self, names: Names, removed: &BTreeSet<u32>) {
        self.apart.names = names;
        let apart = &mut self.apart;
        let known = &self.known;
        apart.names.retain(|_, names| {
            names.retain(|_, found| found.ino != 0 && known.contains_key(&found.ino));
            !names.is_empty()
        });
        apart.find_cycles(&mut self.noted);
        let named: BTreeSet<u32> = apart
            .names
            .values()
            .flatten()
            .map(|(_, found)| found.ino)
            .collect();
        let nameless = self.known.iter().filter(|(ino, known)| {
            known.links == 0 && !removed.contains(ino) && !named.contains(ino)
        });
        self.apart.nameless = nameless.map(|(ino, _)| *ino).collect();
    }

    /// Adds what cannot be reached. Inodes without a name are reported only if `all`: removed files
    /// leave such inodes, too.
    pub(crate) fn check_unreached(
        &mut self,
        seen: &BTreeSet<u32>,
        lost: Vec<LostName>,
        all: bool,
        report: &mut Report,
    ) -> Result<(), Jffs2Error> {
        let mut shown = BTreeSet::new();
        for LostName { dir, name, ino } in lost {
            if !seen.contains(&ino) && shown.insert(ino) {
                self.tell_below((dir, name, ino), Unreached::NameLost, &mut shown, report)?;
            }
        }
        for ino in self.apart.cycles.clone() {
            let path = format!("#{ino}").into_bytes();
            self.tell_below((0, path, ino), Unreached::Cycle, &mut shown, report)?;
        }
        let holders = self.apart.names.keys().copied();
        let named: Vec<u32> = holders.filter(|ino| self.links(*ino) > 0).collect();
        for dir in named {
            let names = (dir, Vec::new(), dir);
            self.tell_below(names, Unreached::NoDirectory, &mut shown, report)?;
        }
        let nameless = if all {
            self.apart.nameless.clone()
        } else {
            BTreeSet::new()
        };
        for ino in nameless {
            // The numbers of removed inodes are given out again.
            if self.known.get(&ino).is_none_or(|known| known.links > 0) || !shown.insert(ino) {
                continue;
            }
            let path = format!("#{ino}").into_bytes();
            let why = Unreached::Nameless;
            report.add(Finding::Unreachable {
                dir: 0,
                path: path.clone(),
                ino,
                why,
            });
            self.tell_below((0, path, ino), why, &mut shown, report)?;
        }
        Ok(())
    }

    /// Adds everything below an inode.
    fn tell_below(
        &mut self,
        (dir, path, ino): (u32, Vec<u8>, u32),
        why: Unreached,
        shown: &mut BTreeSet<u32>,
        report: &mut Report,
    ) -> Result<(), Jffs2Error> {
        let mut waiting = VecDeque::from([(path, ino)]);
        while let Some((path, above)) = waiting.pop_front() {
            for (name, ino, is_dir) in self.names_of(above)? {
                let is_new = shown.insert(ino);
                // A full report counts only; paths of any depth need not be kept for that.
                let full = report.findings.len() >= FINDINGS_MAX;
                let path = match (full, path.is_empty()) {
                    (true, _) => Vec::new(),
                    (false, true) => name,
                    (false, false) => [&path[..], b"/", &name].concat(),
                };
                if is_dir && is_new {
                    waiting.push_back((path.clone(), ino));
                }
                report.add(Finding::Unreachable {
                    dir,
                    path,
                    ino,
                    why,
                });
            }
        }
        Ok(())
    }

    /// The names in a directory that a mount does not show.
    fn names_of(&mut self, dir: u32) -> Result<Vec<(Vec<u8>, u32, bool)>, Jffs2Error> {
        if let Some(names) = self.apart.names.get(&dir) {
            let name = |(name, found): (&Vec<u8>, &FoundName)| {
                (name.clone(), found.ino, found.kind == KIND_DIRECTORY)
            };
            return Ok(names.iter().map(name).collect());
        }
        if self.links(dir) == 0 {
            return Ok(Vec::new());
        }
        match self.load(dir) {
            Ok(inode) => Ok(inode
                .dents
                .from(0)
                .map(|dent| (dent.name.to_vec(), dent.ino, dent.kind == KIND_DIRECTORY))
                .collect()),
            Err(error @ Jffs2Error::Flash(_)) => Err(error),
            // It has a finding of its own.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// The paths of inodes that are wanted, one of each, without a slash in front.
    pub fn paths(&mut self, wanted: &BTreeSet<u32>) -> Result<BTreeMap<u32, Vec<u8>>, Jffs2Error> {
        let mut above = BTreeMap::new();
        let mut found = BTreeMap::new();
        let mut waiting = VecDeque::from([crate::inode::ROOT]);
        while let Some(dir) = waiting.pop_front() {
            let inode = match self.load(dir) {
                Ok(inode) => inode,
                Err(error @ Jffs2Error::Flash(_)) => return Err(error),
                Err(_) => continue,
            };
            for dent in inode.dents.from(0) {
                let is_dir = dent.kind == KIND_DIRECTORY;
                if is_dir && !above.contains_key(&dent.ino) {
                    waiting.push_back(dent.ino);
                }
                if is_dir || wanted.contains(&dent.ino) {
                    above
                        .entry(dent.ino)
                        .or_insert_with(|| (dir, dent.name.clone()));
                }
            }
            self.let_go();
        }
        for ino in wanted {
            let mut parts = Vec::new();
            let mut at = *ino;
            while let Some((dir, name)) = above.get(&at).filter(|_| parts.len() <= above.len()) {
                parts.push(&name[..]);
                at = *dir;
            }
            if at == crate::inode::ROOT {
                parts.reverse();
                found.insert(*ino, parts.join(&b"/"[..]));
            }
        }
        Ok(found)
    }
}
