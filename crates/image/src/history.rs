//! What a JFFS2 medium still knows of its past: every version of every file whose nodes have not
//! been collected yet, and files that are no more.
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

/// Everything that was found.
#[derive(Debug, Default)]
pub struct History {
    namings: Vec<Naming>,
    versions: BTreeMap<u32, Vec<Version>>,
    /// Nodes that are not whole.
    pub damaged: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in seconds since 1970, as the node says.
    pub time: u32,
    /// To what.
    pub path: Shown,
    /// Its inode.
    pub ino: u32,
    /// The version, of the directory for names, of the inode for contents.
    pub version: u32,
    /// What.
    pub what: String,
}

/// A file that has no name any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The last name that is known.
    pub path: Shown,
    /// Its inode.
    pub ino: u32,
    /// Bytes.
    pub size: u64,
    /// Time of its last version.
    pub mtime: u32,
    /// Permissions.
    pub mode: u16,
    /// Owner and group.
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
        let (mut history, mut bytes) = (Self::default(), Vec::new());
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

    /// The path of an inode, by the last name that it had.
    fn path(&self, ino: u32) -> Vec<u8> {
        let (mut path, mut at, mut seen) = (Vec::new(), ino, BTreeSet::new());
        while at != 1 && seen.insert(at) {
            let Some(naming) = self.namings.iter().rev().find(|naming| naming.ino == at) else {
                return [format!("inode {at}").as_bytes(), b"/", &path].concat();
            };
            path = if path.is_empty() {
                naming.name.clone()
            } else {
                [&naming.name[..], b"/", &path].concat()
            };
            at = naming.dir;
        }
        path
    }

    /// Everything that happened, by time.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let dirs: BTreeMap<u32, Vec<u8>> = self
            .namings
            .iter()
            .map(|naming| (naming.dir, Vec::new()))
            .collect();
        let dirs: BTreeMap<u32, Vec<u8>> =
            dirs.into_keys().map(|dir| (dir, self.path(dir))).collect();
        for naming in &self.namings {
            let dir = dirs.get(&naming.dir).map_or(&[][..], |path| path);
            let path = if dir.is_empty() {
                naming.name.clone()
            } else {
                [dir, b"/", &naming.name].concat()
            };
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
            let path = Shown::path(&self.path(*ino));
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
                path: Shown::path(&self.path(*ino)),
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
        let (mut packer, mut size, mut covered) = (Packer::default(), 0u32, BTreeMap::new());
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

/// Bytes of a file that no node covers.
fn missing(covered: &BTreeMap<u32, u32>, size: u32) -> u64 {
    let (mut known, mut missing) = (0u64, 0);
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
