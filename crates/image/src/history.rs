//! Reads the past of a JFFS2 medium: deleted files, and every version of a file whose nodes have
//! not been collected yet.
//!
//! *Promises.* Only whole nodes count. Nothing is written but what is asked for. Memory is a
//! constant for each node on the medium. *Knows nothing of* other formats: they overwrite.

use crate::error::{ImageError, Result, Shown};
use crate::volume::{Mounted, Volume};
use nandlab_jffs2::{Endian, Packer, What, survey};
use nandlab_mtd::{Block, Mtd};
use nandlab_vfs::FileType;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The inode of the root.
const ROOT: u32 = 1;
/// The most bytes of a file that one node holds.
const NODE_MAX: u32 = 1 << 20;

/// A name that was given or taken.
#[derive(Clone, Debug)]
struct Naming {
    dir: u32,
    version: u32,
    ino: u32,
    time: u32,
    kind: u8,
    name: Vec<u8>,
}

/// A version of an inode.
#[derive(Clone, Copy, Debug)]
struct Version {
    version: u32,
    mode: u32,
    owner: (u16, u16),
    size: u32,
    time: u32,
    /// Which bytes of the file, and how and where they are on the medium.
    range: (u32, u32),
    compr: u8,
    data: (u64, u32),
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
    pub time: u32,
    /// The path of the changed entry.
    pub path: Shown,
    /// The inode number of the entry.
    pub ino: u32,
    /// The version, of the directory for names, of the inode for contents.
    pub version: u32,
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
    pub mtime: u32,
    /// The permission bits of the inode.
    pub mode: u16,
    /// The user and group id.
    pub owner: (u16, u16),
}

fn failed(why: impl ToString) -> ImageError {
    ImageError::Open {
        layer: "JFFS2",
        why: why.to_string(),
    }
}

/// The flash below a JFFS2.
fn flash(volume: &mut Volume) -> Result<(&mut Box<dyn Mtd>, Endian)> {
    match &mut volume.mounted {
        Some(Mounted::Jffs2(fs)) => {
            let endian = fs.endian();
            Ok((fs.mtd_mut(), endian))
        }
        _ => {
            let found = volume
                .layers
                .last()
                .map_or("nothing".into(), |layer| format!("{layer:?}"));
            Err(ImageError::Choice {
                what: "format",
                found,
                expected: "JFFS2, which keeps what has been".into(),
            })
        }
    }
}

/// A block's data, pages that cannot be read as they are.
pub(crate) fn block_of(mtd: &mut dyn Mtd, block: u32, bytes: &mut Vec<u8>) -> Result<()> {
    let geometry = mtd.geometry().clone();
    bytes.resize(geometry.block_bytes() as usize, 0);
    for (index, page) in bytes.chunks_mut(geometry.page as usize).enumerate() {
        match mtd.read(geometry.page_at(Block(block), index as u32), page, &mut []) {
            Ok(_) | Err(nandlab_mtd::MtdError::Uncorrectable(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

impl History {
    /// Looks at every node on the medium.
    pub fn read(volume: &mut Volume) -> Result<Self> {
        let (mtd, endian) = flash(volume)?;
        let geometry = mtd.geometry().clone();
        let mut history = Self::default();
        let mut bytes = Vec::new();
        for block in 0..geometry.blocks {
            if mtd.is_bad(Block(block)).map_err(failed)? {
                continue;
            }
            block_of(&mut **mtd, block, &mut bytes)?;
            let start = u64::from(block) * u64::from(geometry.block_bytes());
            survey(endian, &bytes).for_each(|seen| history.add(start, &bytes, &seen));
        }
        history
            .namings
            .sort_by_key(|naming| (naming.dir, naming.version));
        history
            .versions
            .values_mut()
            .for_each(|versions| versions.sort_by_key(|version| version.version));
        history.name_all();
        Ok(history)
    }

    fn add(&mut self, start: u64, bytes: &[u8], seen: &nandlab_jffs2::Seen) {
        match &seen.what {
            _ if !seen.sound => self.damaged += 1,
            What::Name {
                dir,
                version,
                ino,
                time,
                kind,
                name,
            } => {
                let name = bytes[name.clone()].to_vec();
                self.namings.push(Naming {
                    dir: *dir,
                    version: *version,
                    ino: *ino,
                    time: *time,
                    kind: *kind,
                    name,
                });
            }
            What::Inode {
                ino,
                version,
                mode,
                owner,
                size,
                mtime,
                range,
                compr,
                data,
            } => {
                let data = (start + data.start as u64, data.len() as u32);
                let version = Version {
                    version: *version,
                    mode: *mode,
                    owner: *owner,
                    size: *size,
                    time: *mtime,
                    range: *range,
                    compr: *compr,
                    data,
                };
                self.versions.entry(*ino).or_default().push(version);
            }
            _ => {}
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
                time: naming.time,
                path: Shown::path(&path),
                ino: naming.ino,
                version: naming.version,
                what,
            });
        }
        for (ino, versions) in &self.versions {
            let path = Shown::path(self.path(*ino));
            for version in versions {
                let (from, len) = version.range;
                let what = match len {
                    0 => format!(
                        "{} bytes long, mode {:04o}, owner {}:{}",
                        version.size,
                        version.mode & 0o7777,
                        version.owner.0,
                        version.owner.1
                    ),
                    _ => format!(
                        "{} bytes long, bytes {from} to {} written",
                        version.size,
                        u64::from(from) + u64::from(len)
                    ),
                };
                events.push(Event {
                    time: version.time,
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
        let files = gone.filter_map(|(ino, versions)| Some((ino, versions.last()?)));
        files
            .filter(|(ino, last)| {
                FileType::from_mode(last.mode as u16) == Some(FileType::File) || known.contains(ino)
            })
            .map(|(ino, last)| Deleted {
                path: Shown::path(self.path(*ino)),
                ino: *ino,
                size: last.size.into(),
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
        until: Option<u32>,
        to: &File,
    ) -> Result<u64> {
        let (mtd, _) = flash(volume)?;
        let failed_to_write = |error| ImageError::File {
            path: "a file with what was found".into(),
            error,
        };
        let until = until.unwrap_or(u32::MAX);
        let versions = self.versions.get(&ino).map_or(&[][..], |versions| versions);
        let mut packer = Packer::default();
        let mut size = 0u32;
        let mut covered = BTreeMap::new();
        for version in versions.iter().filter(|version| version.version <= until) {
            let (from, len) = version.range;
            if version.size < size {
                to.set_len(version.size.into()).map_err(failed_to_write)?;
                covered.retain(|at, _| *at < version.size);
            }
            size = version.size;
            let len = len.min(size.saturating_sub(from));
            if len == 0 {
                continue;
            }
            covered.insert(from, len);
            if version.compr == 1 {
                zeros(to, from, len).map_err(failed_to_write)?;
            } else if version.range.1 <= NODE_MAX {
                let mut plain = vec![0; version.range.1 as usize];
                let packed = bytes_at(&mut **mtd, version.data)?;
                if packer.unpack(version.compr, &packed, &mut plain).is_ok() {
                    to.write_all_at(&plain[..len as usize], from.into())
                        .map_err(failed_to_write)?;
                }
            }
        }
        to.set_len(size.into()).map_err(failed_to_write)?;
        Ok(missing(&covered, size))
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
fn missing(covered: &BTreeMap<u32, u32>, size: u32) -> u64 {
    let mut known = 0u64;
    let mut missing = 0;
    for (from, len) in covered {
        missing += u64::from(*from).saturating_sub(known);
        known = known.max(u64::from(*from) + u64::from(*len));
    }
    missing + u64::from(size).saturating_sub(known)
}

fn zeros(to: &File, from: u32, len: u32) -> std::io::Result<()> {
    // Behind the end there is a hole anyway.
    let end = to.metadata()?.len().min(u64::from(from) + u64::from(len));
    for at in (u64::from(from)..end).step_by(4096) {
        to.write_all_at(&[0; 4096][..4096.min((end - at) as usize)], at)?;
    }
    Ok(())
}

fn bytes_at(mtd: &mut dyn Mtd, (at, len): (u64, u32)) -> Result<Vec<u8>> {
    let page = mtd.geometry().page;
    let mut bytes = Vec::with_capacity(len as usize);
    let mut cells = vec![0; page as usize];
    let mut at = at;
    while bytes.len() < len as usize {
        match mtd.read(
            nandlab_mtd::Page((at / u64::from(page)) as u32),
            &mut cells,
            &mut [],
        ) {
            Ok(_) | Err(nandlab_mtd::MtdError::Uncorrectable(_)) => {}
            Err(error) => return Err(failed(error)),
        }
        let within = (at % u64::from(page)) as usize;
        let step = (cells.len() - within).min(len as usize - bytes.len());
        bytes.extend(&cells[within..within + step]);
        at += step as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(dir: u32, ino: u32) -> Naming {
        Naming {
            dir,
            version: 1,
            ino,
            time: 0,
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
