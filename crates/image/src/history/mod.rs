//! Reads the past of a medium of nodes, JFFS2 or UBIFS: deleted files, and every version of a file
//! whose nodes have not been collected yet.
//!
//! *Promises.* Only whole nodes count. Nothing is written but what is asked for. Memory is a
//! constant for each node on the medium. *Knows nothing of* other formats: they overwrite.

mod jffs2;
mod ubifs;

use crate::error::{ImageError, Result, Shown};
use crate::volume::{Mounted, Volume};
pub(crate) use jffs2::block_of;
use nandlab_ubifs::format::Branch;
use nandlab_vfs::FileType;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The inode of the root.
const ROOT: u32 = 1;
/// A name that was given or taken.
#[derive(Clone, Debug)]
struct Naming {
    dir: u32,
    version: u64,
    ino: u32,
    /// When, if the node says it.
    time: Option<i64>,
    kind: u8,
    name: Vec<u8>,
}

/// The attributes in a node of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    time: i64,
}

/// A version of an inode.
#[derive(Clone, Copy, Debug)]
struct Version {
    version: u64,
    /// Without one, that of the version before, up to the end of the range at least.
    state: Option<State>,
    /// Which bytes of the file, and how and where they are on the medium.
    range: (u64, u32),
    packed: Packed,
}

/// Contents on the medium.
#[derive(Clone, Copy, Debug)]
enum Packed {
    /// A node of JFFS2: its compressor, and the place and the length of its contents.
    Jffs2 {
        compr: u8,
        at: u64,
        len: u32,
    },
    /// A data node of UBIFS.
    Ubifs(Branch),
    Zeros,
    Nothing,
}

/// A medium of nodes.
trait Source {
    /// Adds each node.
    fn survey(&mut self, history: &mut History) -> Result<()>;

    /// Unpacks contents of `len` bytes; `None` for unreadable ones.
    fn contents(&mut self, packed: Packed, len: u32) -> Result<Option<Vec<u8>>>;
}

/// The medium below a file system that keeps what has been.
fn source(volume: &mut Volume) -> Result<Box<dyn Source + '_>> {
    match &mut volume.mounted {
        Some(Mounted::Jffs2(fs)) => Ok(Box::new(jffs2::Flash::new(fs))),
        Some(Mounted::Ubifs(fs)) => Ok(Box::new(ubifs::Lebs::new(fs))),
        _ => {
            let found = volume
                .layers
                .last()
                .map_or("nothing".into(), |layer| format!("{layer:?}"));
            Err(ImageError::Choice {
                what: "format",
                found,
                expected: "JFFS2 or UBIFS, which keep what has been".into(),
            })
        }
    }
}

/// The longest path that an event shows whole: Linux's limit. A longer one begins at a directory
/// that is named by its inode, so that deep directories take no more memory than wide ones.
const PATH_MAX: usize = 4096;

/// Everything that was found.
#[derive(Debug, Default)]
pub struct History {
    namings: Vec<Naming>,
    /// The path of each inode that has a name or contents.
    paths: BTreeMap<u32, Vec<u8>>,
    versions: BTreeMap<u32, Vec<Version>>,
    /// Nodes that are not whole.
    pub damaged: u64,
}

/// A dated change that the medium still records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in seconds since 1970, as the node says.
    pub time: i64,
    /// The path of the changed entry.
    pub path: Shown,
    /// The inode number of the entry.
    pub ino: u32,
    /// The version, of the directory for names, of the inode for contents; of UBIFS the sequence
    /// number.
    pub version: u64,
    /// The change, in words.
    pub what: String,
}

/// A file that has lost its last name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The last name that is known.
    pub path: Shown,
    /// The number of the deleted inode.
    pub ino: u32,
    /// The length of the contents in bytes.
    pub size: u64,
    /// Time of its last version.
    pub mtime: i64,
    /// The permission bits of the inode.
    pub mode: u16,
    /// The user and group id.
    pub owner: (u32, u32),
}

impl History {
    /// Looks at every node on the medium.
    pub fn read(volume: &mut Volume) -> Result<Self> {
        let mut history = Self::default();
        source(volume)?.survey(&mut history)?;
        history
            .namings
            .sort_by_key(|naming| (naming.dir, naming.version));
        history
            .versions
            .values_mut()
            .for_each(|versions| settle(versions));
        history.date();
        history.name_all();
        Ok(history)
    }

    /// A name without a time has that of the directory's next version.
    fn date(&mut self) {
        for naming in &mut self.namings {
            let versions = self.versions.get(&naming.dir);
            let versions = versions.map_or(&[][..], |versions| versions);
            let next = versions.partition_point(|version| version.version < naming.version);
            let time = versions.get(next).map_or(0, |version| version.state().time);
            naming.time.get_or_insert(time);
        }
    }

    /// Each name that a directory has now, and what it names.
    fn current(&self) -> BTreeMap<(u32, &[u8]), u32> {
        // By version: the last one counts.
        self.namings
            .iter()
            .map(|naming| ((naming.dir, &naming.name[..]), naming.ino))
            .collect()
    }

    /// Names every inode by the last name that it had. The path of a directory is made once and
    /// serves everything in it.
    fn name_all(&mut self) {
        // By directory and version: the last one counts.
        let last: BTreeMap<u32, &Naming> = self
            .namings
            .iter()
            .map(|naming| (naming.ino, naming))
            .collect();
        let dirs = self.namings.iter().map(|naming| naming.dir);
        let all: BTreeSet<u32> = dirs.chain(self.versions.keys().copied()).collect();
        let mut paths = BTreeMap::from([(ROOT, Vec::new())]);
        for ino in all {
            name(ino, &last, &mut paths);
        }
        self.paths = paths;
    }

    /// The path of an inode, by the last name that it had.
    fn path(&self, ino: u32) -> &[u8] {
        self.paths.get(&ino).map_or(&[], |path| path)
    }

    /// Everything that happened, by time.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for naming in &self.namings {
            let path = below(naming.dir, self.path(naming.dir), &naming.name);
            let what = if naming.ino == 0 {
                "name removed".into()
            } else {
                format!("name given to inode {}", naming.ino)
            };
            events.push(Event {
                time: naming.time.unwrap_or(0),
                path: Shown::path(&path),
                ino: naming.ino,
                version: naming.version,
                what,
            });
        }
        for (ino, versions) in &self.versions {
            let path = Shown::path(self.path(*ino));
            for version in versions {
                let State {
                    mode,
                    owner,
                    size,
                    time,
                } = version.state();
                let (from, len) = version.range;
                let what = match len {
                    0 => format!(
                        "{size} bytes long, mode {:04o}, owner {}:{}",
                        mode & 0o7777,
                        owner.0,
                        owner.1
                    ),
                    _ => {
                        let end = from + u64::from(len);
                        format!("{size} bytes long, bytes {from} to {end} written")
                    }
                };
                events.push(Event {
                    time,
                    path: path.clone(),
                    ino: *ino,
                    version: version.version,
                    what,
                });
            }
        }
        events.sort_by(|a, b| {
            (a.time, a.ino, a.version, &a.path).cmp(&(b.time, b.ino, b.version, &b.path))
        });
        events
    }

    /// Files without a name, of which there are nodes.
    pub fn deleted(&self) -> Vec<Deleted> {
        let named: BTreeSet<u32> = self.current().into_values().collect();
        let known: BTreeSet<u32> = self
            .namings
            .iter()
            .filter(|naming| naming.kind == (FileType::File.mode() >> 12) as u8)
            .map(|naming| naming.ino)
            .collect();
        let gone = self
            .versions
            .iter()
            .filter(|(ino, _)| !named.contains(ino) && **ino != 1);
        let files = gone.filter_map(|(ino, versions)| Some((ino, versions.last()?.state())));
        files
            .filter(|(ino, last)| {
                FileType::from_mode(last.mode as u16) == Some(FileType::File) || known.contains(ino)
            })
            .map(|(ino, last)| Deleted {
                path: Shown::path(self.path(*ino)),
                ino: *ino,
                size: last.size,
                mtime: last.time,
                mode: (last.mode & 0o7777) as u16,
                owner: last.owner,
            })
            .collect()
    }

    /// Writes an inode's contents as they were at a version, by default the last, to an empty file.
    /// Gives the bytes for which there is no node any more: they are a hole.
    pub fn contents(
        &self,
        volume: &mut Volume,
        ino: u32,
        until: Option<u64>,
        to: &File,
    ) -> Result<u64> {
        let mut source = source(volume)?;
        let failed = |error| ImageError::File {
            path: "a file with what was found".into(),
            error,
        };
        let until = until.unwrap_or(u64::MAX);
        let versions = self.versions.get(&ino).map_or(&[][..], |versions| versions);
        let mut size = 0u64;
        let mut covered = BTreeMap::new();
        for version in versions.iter().filter(|version| version.version <= until) {
            let (from, whole) = version.range;
            let now = version.state().size;
            if now < size {
                to.set_len(now).map_err(failed)?;
                covered.retain(|at, _| *at < now);
            }
            size = now;
            let len = u64::from(whole).min(size.saturating_sub(from)) as u32;
            if len == 0 {
                continue;
            }
            covered.insert(from, len);
            if matches!(version.packed, Packed::Zeros) {
                zeros(to, from, len).map_err(failed)?;
            } else if let Some(plain) = source.contents(version.packed, whole)? {
                let plain = &plain[..plain.len().min(len as usize)];
                to.write_all_at(plain, from).map_err(failed)?;
            }
        }
        to.set_len(size).map_err(failed)?;
        Ok(missing(&covered, size))
    }
}

impl Version {
    /// The state of the inode. Call [`settle`] first.
    fn state(&self) -> State {
        self.state.unwrap_or_default()
    }
}

/// Sorts the versions of an inode. One that says nothing of it takes over the state before.
fn settle(versions: &mut [Version]) {
    versions.sort_by_key(|version| version.version);
    let mut before = State::default();
    for version in versions {
        let end = version.range.0 + u64::from(version.range.1);
        let taken = State {
            size: before.size.max(end),
            ..before
        };
        before = *version.state.get_or_insert(taken);
    }
}

/// Makes the paths of an inode and of the directories above it, as far as they are not made.
/// Returns the number of names that it looked at.
fn name(ino: u32, last: &BTreeMap<u32, &Naming>, paths: &mut BTreeMap<u32, Vec<u8>>) -> usize {
    // Up to what has a path already, then down again.
    let mut way = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = ino;
    while !paths.contains_key(&at) {
        match last.get(&at) {
            Some(naming) if seen.insert(at) => {
                way.push(naming);
                at = naming.dir;
            }
            // It has no name, or lies below itself.
            _ => _ = paths.insert(at, unnamed(at)),
        }
    }
    for naming in way.iter().rev() {
        let path = below(naming.dir, &paths[&naming.dir], &naming.name);
        paths.entry(naming.ino).or_insert(path);
    }
    way.len()
}

fn unnamed(ino: u32) -> Vec<u8> {
    format!("inode {ino}").into_bytes()
}

/// The path of a name in a directory.
fn below(dir: u32, path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.len() + 1 + name.len() {
        _ if dir == ROOT => name.to_vec(),
        ..=PATH_MAX => [path, b"/", name].concat(),
        _ => [&unnamed(dir), &b"/"[..], name].concat(),
    }
}

/// Bytes of a file that no node covers.
fn missing(covered: &BTreeMap<u64, u32>, size: u64) -> u64 {
    let mut known = 0u64;
    let mut missing = 0;
    for (from, len) in covered {
        missing += from.saturating_sub(known);
        known = known.max(from + u64::from(*len));
    }
    missing + size.saturating_sub(known)
}

fn zeros(to: &File, from: u64, len: u32) -> std::io::Result<()> {
    // Behind the end there is a hole anyway.
    let end = to.metadata()?.len().min(from + u64::from(len));
    for at in (from..end).step_by(4096) {
        to.write_all_at(&[0; 4096][..4096.min((end - at) as usize)], at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(dir: u32, ino: u32) -> Naming {
        Naming {
            dir,
            version: 1,
            ino,
            time: Some(0),
            kind: 4,
            name: b"d".to_vec(),
        }
    }

    /// Names all inodes; gives the paths and the names looked at.
    fn named(namings: &[Naming]) -> (BTreeMap<u32, Vec<u8>>, usize) {
        let last = namings.iter().map(|naming| (naming.ino, naming)).collect();
        let mut paths = BTreeMap::from([(ROOT, Vec::new())]);
        let looked_at = namings
            .iter()
            .rev()
            .map(|naming| name(naming.ino, &last, &mut paths))
            .sum();
        (paths, looked_at)
    }

    #[test]
    fn three_thousand_levels_are_named_by_one_look_at_each_name() {
        let namings: Vec<Naming> = (2..3002).map(|ino| naming(ino - 1, ino)).collect();
        let (paths, looked_at) = named(&namings);
        assert_eq!((paths.len(), looked_at), (3001, 3000));
        assert_eq!(paths[&4], b"d/d/d");
        assert!(paths.values().all(|path| path.len() <= PATH_MAX));
        // Behind the longest path, one begins at the directory's inode.
        assert_eq!(paths[&2049].len(), 4095);
        assert_eq!(paths[&2050], b"inode 2049/d");
    }

    #[test]
    fn directories_that_lie_in_each_other_have_paths_that_end() {
        let (paths, _) = named(&[naming(3, 2), naming(2, 3)]);
        let mut ends = [&paths[&2], &paths[&3]].map(|path| path.escape_ascii().to_string());
        ends.sort();
        assert!(ends[0].starts_with("inode "), "{ends:?}");
        assert!(ends[1].starts_with("inode "), "{ends:?}");
    }
}
