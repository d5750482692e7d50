//! From what lies where to a tree: names are counted, what has none is given up.
//!
//! *Promises.* Every inode but the root that has a node that counts has a name; every name names an
//! inode that has nodes; a directory has one name. Nothing is written, but that a name too many of
//! a directory, which a power cut during a rename leaves, is removed. Source: fs/jffs2/build.c.

use crate::{
    Finding, Jffs2, Jffs2Error,
    inode::{KIND_DIRECTORY, ROOT},
    scan::{Found, FoundName},
    unreached::Names,
};
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::report::FINDINGS_MAX;

impl<M: Mtd> Jffs2<M> {
    pub(crate) fn build(&mut self, found: Found) -> Result<(), Jffs2Error> {
        self.known = found.inodes;
        self.collected = found.collected;
        self.known.entry(ROOT).or_default().links = 1;
        let doubles = self.count_names(found.names, &found.removed);
        self.report_odd_names(found.odd_names);
        self.lost = found.lost;
        self.take_claims();
        self.give_up_nameless();
        self.build_xattrs(found.xattrs, found.xrefs);
        self.built = true;
        if self.is_writable() {
            for (dir, name) in doubles {
                // No space now: the next mount finds it again.
                match self.forget_name(dir, &name) {
                    Ok(()) | Err(Jffs2Error::Call(_) | Jffs2Error::Stuck) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Gives inodes their names, from the root down, so that what lies in a removed directory names
    /// nothing; gives the names too many of directories.
    fn count_names(&mut self, mut names: Names, removed: &BTreeSet<u32>) -> Vec<(u32, Vec<u8>)> {
        let mut doubles = Vec::new();
        let mut lost = Vec::new();
        let mut waiting = VecDeque::from([ROOT]);
        while let Some(dir) = waiting.pop_front() {
            for (name, found) in names.remove(&dir).unwrap_or_default() {
                if found.ino == 0 {
                    continue;
                }
                let Some(child) = self.known.get_mut(&found.ino).filter(|_| found.ino != ROOT)
                else {
                    lost.push(found.at);
                    self.noted.add(Finding::Dangling {
                        dir,
                        name,
                        ino: found.ino,
                    });
                    continue;
                };
                if found.kind == KIND_DIRECTORY {
                    if child.links > 0 {
                        lost.push(found.at);
                        let ino = found.ino;
                        doubles.push((dir, name.clone()));
                        // A full report keeps no more findings, so the way up is not walked.
                        let full = self.noted.findings.len() >= FINDINGS_MAX;
                        self.noted.add(match !full && self.is_inside(dir, ino) {
                            true => Finding::Cycle { dir, name, ino },
                            false => Finding::TwoNames { dir, name, ino },
                        });
                        continue;
                    }
                    child.parent = dir;
                    waiting.push_back(found.ino);
                }
                child.links += 1;
            }
        }
        for at in lost {
            self.space.obsolete(at, false, true);
        }
        self.keep_unreached(names, removed);
        doubles
    }

    /// Reports entries whose names no path can hold, in directories that have a name.
    fn report_odd_names(&mut self, odd_names: BTreeMap<(u32, Vec<u8>), FoundName>) {
        for ((dir, name), found) in odd_names {
            if self.links(dir) > 0 {
                let at = found.at;
                let ino = found.ino;
                self.noted.add(Finding::Name { at, dir, name, ino });
            }
        }
    }

    fn give_up_nameless(&mut self) {
        let nameless = self.known.values().filter(|known| known.links == 0);
        let nodes: Vec<u32> = nameless
            .flat_map(|known| known.nodes.iter().copied())
            .collect();
        for at in nodes {
            self.space.obsolete(at, false, true);
        }
    }
}
