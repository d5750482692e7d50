//! Random calls that both can play: the kernel, by the program `play` in a guest, and our file
//! system.

use crate::common::NOW;
use nandlab_sim::mix;
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Sync, path};
use std::fmt;

/// A call that both sides make.
#[derive(Clone, Debug)]
pub enum Call {
    Create(String),
    Mkdir(String),
    Write {
        path: String,
        offset: u64,
        len: usize,
        seed: u64,
    },
    Fsync(String),
    Truncate(String, u64),
    Mode(String, u16),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    Xattr {
        path: String,
        name: &'static str,
        len: usize,
        seed: u64,
    },
}

/// As `play` reads it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "c {path}"),
            Self::Mkdir(path) => write!(f, "d {path}"),
            Self::Write {
                path,
                offset,
                len,
                seed,
            } => write!(f, "w {path} {offset} {len} {seed}"),
            Self::Fsync(path) => write!(f, "f {path}"),
            Self::Truncate(path, size) => write!(f, "t {path} {size}"),
            Self::Mode(path, mode) => write!(f, "m {path} {mode}"),
            Self::Unlink(path) => write!(f, "u {path}"),
            Self::Rename(from, to) => write!(f, "n {from} {to}"),
            Self::Link(from, to) => write!(f, "l {from} {to}"),
            Self::Symlink(path, target) => write!(f, "s {path} {target}"),
            Self::Xattr {
                path,
                name,
                len,
                seed,
            } => write!(f, "a {path} {name} {len} {seed}"),
        }
    }
}

/// The bytes that `play` writes: half of the seeds give what cannot be compressed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let words = if seed % 4 == 2 { 8 } else { u64::MAX };
    let mask = if seed % 4 == 3 { 3 } else { 0xFF };
    let word = |index: u64| {
        let word = seed
            .wrapping_add(index % words + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ word >> 31).to_le_bytes()
    };
    (0..)
        .flat_map(word)
        .map(|byte| byte & mask)
        .take(len)
        .collect()
}

impl Call {
    /// The letter by which `play` knows it.
    pub fn kind(&self) -> char {
        self.to_string().chars().next().unwrap()
    }

    pub fn apply<F: FileSystem>(&self, fs: &mut F) -> Result<(), Errno> {
        match self {
            Self::Create(to) => made(fs, to, |fs, dir, name| {
                fs.create(dir, name, NewNode::File, 0o644, Caller::root(NOW))
                    .map(|attr| attr.ino)
            }),
            Self::Mkdir(to) => made(fs, to, |fs, dir, name| {
                fs.mkdir(dir, name, 0o755, Caller::root(NOW))
                    .map(|attr| attr.ino)
            }),
            Self::Symlink(to, target) => made(fs, to, |fs, dir, name| {
                fs.symlink(dir, name, target.as_bytes(), Caller::root(NOW))
                    .map(|attr| attr.ino)
            }),
            Self::Link(from, to) => found(fs, from, |fs, ino| {
                made(fs, to, |fs, dir, name| {
                    fs.link(ino, dir, name, NOW).map(|attr| attr.ino)
                })
            }),
            Self::Write {
                path,
                offset,
                len,
                seed,
            } => found(fs, path, |fs, ino| {
                match fs.write(ino, *offset, &bytes(*seed, *len), NOW)? {
                    written if written == *len => Ok(()),
                    _ => Err(Errno::NoSpace),
                }
            }),
            Self::Fsync(path) => found(fs, path, |fs, ino| fs.fsync(ino, Sync::All)),
            Self::Truncate(path, size) => found(fs, path, |fs, ino| {
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(*size),
                        ..SetAttr::default()
                    },
                    NOW,
                )
                .map(drop)
            }),
            Self::Mode(path, mode) => found(fs, path, |fs, ino| {
                fs.setattr(
                    ino,
                    &SetAttr {
                        mode: Some(*mode),
                        ..SetAttr::default()
                    },
                    NOW,
                )
                .map(drop)
            }),
            Self::Xattr {
                path,
                name,
                len,
                seed,
            } => found(fs, path, |fs, ino| {
                fs.setxattr(
                    ino,
                    name.as_bytes(),
                    &bytes(*seed, *len),
                    SetXattr::Any,
                    NOW,
                )
            }),
            Self::Unlink(path) => within(fs, path, |fs, dir, name| fs.unlink(dir, name, NOW)),
            Self::Rename(from, to) => within(fs, from, |fs, old, from| {
                within(fs, to, |fs, new, to| {
                    fs.rename((old, from), (new, to), Rename::Replace, NOW)
                })
            }),
        }
    }
}

fn within<F: FileSystem, T>(
    fs: &mut F,
    to: &str,
    call: impl FnOnce(&mut F, Ino, &[u8]) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (dir, name) = path::parent(fs, to.as_bytes())?;
    let outcome = call(fs, dir, name);
    fs.forget(dir, 1);
    outcome
}

fn made<F: FileSystem>(
    fs: &mut F,
    to: &str,
    call: impl FnOnce(&mut F, Ino, &[u8]) -> Result<Ino, Errno>,
) -> Result<(), Errno> {
    let ino = within(fs, to, call)?;
    fs.forget(ino, 1);
    Ok(())
}

fn found<F: FileSystem>(
    fs: &mut F,
    at: &str,
    call: impl FnOnce(&mut F, Ino) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let ino = path::resolve(fs, at.as_bytes())?.ino;
    let outcome = call(fs, ino);
    fs.forget(ino, 1);
    outcome
}

/// What a run of calls is like.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub seed: u64,
    pub files: usize,
    pub file_bytes: u64,
    /// The most bytes of all files.
    pub live_bytes: u64,
    /// Every so many writes one is followed by an fsync.
    pub fsync_each: u64,
    /// Attributes are set, too.
    pub xattrs: bool,
}

#[derive(Clone, Debug)]
struct File {
    names: Vec<String>,
    size: u64,
}

const DIRS: u64 = 6;

/// Calls that can be made, one after the other.
#[derive(Clone, Debug)]
pub struct Calls {
    load: Load,
    step: u64,
    files: Vec<File>,
    links: Vec<String>,
    waiting: Vec<Call>,
}

impl Calls {
    pub fn new(load: Load) -> Self {
        let waiting = (0..DIRS)
            .map(|dir| Call::Mkdir(format!("d{dir}")))
            .collect();
        Self {
            load,
            step: 0,
            files: Vec::new(),
            links: Vec::new(),
            waiting,
        }
    }

    fn dice(&self, n: u64, bound: u64) -> u64 {
        mix(mix(self.load.seed, self.step), n) % bound.max(1)
    }

    /// A name that never was.
    fn name(&self) -> String {
        let name = format!("f{}", self.step);
        match self.dice(1, DIRS + 1) {
            dir if dir < DIRS => format!("d{dir}/{name}"),
            _ => name,
        }
    }

    fn create(&mut self) -> Call {
        let name = self.name();
        self.files.push(File {
            names: vec![name.clone()],
            size: 0,
        });
        Call::Create(name)
    }

    fn remove(&mut self, file: usize) -> Call {
        let names = &mut self.files[file].names;
        let name = names.pop().unwrap();
        if names.is_empty() {
            self.files.swap_remove(file);
        }
        Call::Unlink(name)
    }

    fn write(&mut self, file: usize, offset: u64, len: u64) -> Call {
        let len = len.min(self.load.file_bytes.saturating_sub(offset)).max(1);
        let size = &mut self.files[file].size;
        *size = (*size).max(offset + len);
        let path = self.files[file].names[0].clone();
        if self.dice(2, self.load.fsync_each) == 0 {
            self.waiting.push(Call::Fsync(path.clone()));
        }
        Call::Write {
            path,
            offset,
            len: len as usize,
            seed: self.step,
        }
    }

    fn rename(&mut self, file: usize) -> Call {
        let from = self.files[file].names[0].clone();
        let other = self.dice(5, self.files.len() as u64) as usize;
        let over = self.dice(6, 4) == 0 && other != file && self.files[other].names.len() == 1;
        let to = if over {
            self.files[other].names[0].clone()
        } else {
            self.name()
        };
        self.files[file].names[0] = to.clone();
        if over {
            self.files.swap_remove(other);
        }
        Call::Rename(from, to)
    }

    fn symlink(&mut self) -> Call {
        if self.links.len() < 20 {
            self.links.push(self.name());
            return Call::Symlink(
                self.links[self.links.len() - 1].clone(),
                format!("../somewhere/{}", self.step),
            );
        }
        Call::Unlink(self.links.swap_remove(0))
    }
}

impl Iterator for Calls {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        self.step += 1;
        if !self.waiting.is_empty() {
            return Some(self.waiting.remove(0));
        }
        let live: u64 = self.files.iter().map(|file| file.size).sum();
        if self.files.len() < 3 {
            return Some(self.create());
        }
        let file = self.dice(0, self.files.len() as u64) as usize;
        let size = self.files[file].size;
        let path = self.files[file].names[0].clone();
        if live > self.load.live_bytes || self.files.len() > self.load.files {
            return Some(self.remove(file));
        }
        Some(match self.dice(3, 100) {
            0..9 => self.create(),
            9..40 if size < self.load.file_bytes => self.write(file, size, 1 + self.dice(4, 9000)),
            40..72 => {
                let offset = self.dice(4, size + 1);
                let len = 1 + self.dice(7, 5000);
                self.write(file, offset, len)
            }
            72..75 if size + 9000 < self.load.file_bytes => {
                self.write(file, size + self.dice(4, 8000), 700)
            }
            75..80 => {
                let to = self.dice(4, size * 5 / 4 + 1).min(self.load.file_bytes);
                self.files[file].size = to;
                Call::Truncate(path, to)
            }
            80..87 => self.rename(file),
            87..91 => self.remove(file),
            91..93 => {
                let to = self.name();
                self.files[file].names.push(to.clone());
                Call::Link(path, to)
            }
            93..95 => self.symlink(),
            95..98 if self.load.xattrs => {
                let name = ["user.one", "user.two", "trusted.three", "security.four"]
                    [self.dice(4, 4) as usize];
                Call::Xattr {
                    path,
                    name,
                    len: self.dice(7, 300) as usize,
                    seed: self.step,
                }
            }
            _ => Call::Mode(path, self.dice(4, 0o1000) as u16 | 0o400),
        })
    }
}
