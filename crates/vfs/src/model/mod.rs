//! Random calls to a file system and to [`MemFs`] side by side: whatever the two answer must be the
//! same.
//!
//! *Promises.* A run is a function of its seed and [`Rules`]; the first difference ends it as a
//! [`Mismatch`], which names seed and step. Calls stay within what the rules say the file system
//! can hold, and below its limits of space, so that each answer is determined. *Knows nothing of*
//! the file system under test but its trait: remounting it, cutting its power or checking its
//! medium between two stretches of a run is the caller's.
//!
//! ```
//! use nandlab_vfs::{MemFs, Time, model::{Model, Rules}};
//! let mut fs = MemFs::new(1 << 30, Time::default());
//! let mut model = Model::new(1, Rules::unix());
//! model.run(&mut fs, 500).unwrap();
//! model.release(&mut fs);
//! model.compare(&mut fs).unwrap();
//! ```

mod calls;
mod dice;

use crate::{Attr, Errno, FileSystem, FileType, Ino, MemFs, Time, tree};
use alloc::{format, string::String, vec::Vec};
use core::fmt::Debug;
use dice::Dice;

/// What a file system can hold, and so what is asked of it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Names to draw from; the file system takes no two of them for one.
    pub names: &'static [&'static [u8]],
    /// Several names for one file.
    pub hard_links: bool,
    /// Symbolic links are made.
    pub symlinks: bool,
    /// Devices, pipes and sockets are made.
    pub special_files: bool,
    /// Permission bits are set and compared.
    pub modes: bool,
    /// User and group ids are set and compared.
    pub owners: bool,
    /// Extended attributes are set and compared.
    pub xattrs: bool,
    /// Names are exchanged by [`Rename::Exchange`](crate::Rename::Exchange).
    pub exchange: bool,
    /// Times of the last change of attributes.
    pub ctimes: bool,
    /// All times are whole multiples of this many seconds.
    pub tick_secs: i64,
    /// Length of the longest file.
    pub file_bytes_max: u64,
    /// The most inodes that exist at once.
    pub inodes_max: usize,
}

impl Rules {
    /// Everything that Unix has; files of at most 200 000 bytes, 300 inodes.
    pub fn unix() -> Self {
        Self {
            names: &[
                b"a",
                b"B",
                b"b",
                b"dir",
                b"file.txt",
                b"a rather long name, to fill more of a directory",
                b"\xff\xfe not UTF-8",
                b"~",
                b"z",
            ],
            hard_links: true,
            symlinks: true,
            special_files: true,
            modes: true,
            owners: true,
            xattrs: true,
            exchange: true,
            ctimes: true,
            tick_secs: 1,
            file_bytes_max: 200_000,
            inodes_max: 300,
        }
    }
}

/// Where the two went apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} step {step}: {call}: expected {expected}, found {found}")]
pub struct Mismatch {
    /// The seed that replays the run.
    pub seed: u64,
    /// The call's number, from 0.
    pub step: u64,
    /// The call that was answered differently.
    pub call: String,
    /// The answer of [`MemFs`], which judges.
    pub expected: String,
    /// What the file system under test answered.
    pub found: String,
}

/// One inode, as both know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Both {
    judge: Ino,
    tested: Ino,
}

const ROOT: Both = Both {
    judge: Ino::ROOT,
    tested: Ino::ROOT,
};

/// A run in progress.
#[derive(Clone, Debug)]
pub struct Model {
    judge: MemFs,
    rules: Rules,
    seed: u64,
    dice: Dice,
    step: u64,
    now: Time,
    /// Files kept open, with or without a name.
    held: Vec<Both>,
    /// References taken by the call under way.
    taken: Vec<Both>,
}

impl Model {
    /// A run for a file system that is empty.
    pub fn new(seed: u64, rules: Rules) -> Self {
        // A time that every format can hold.
        let now = Time::new(1_000_000_000 / rules.tick_secs * rules.tick_secs);
        let judge = MemFs::new(u64::MAX / 2, now);
        Self {
            judge,
            rules,
            seed,
            dice: Dice::new(seed),
            step: 0,
            now,
            held: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// What the file system must hold by now.
    pub fn judge(&mut self) -> &mut MemFs {
        &mut self.judge
    }

    /// Makes `steps` random calls and compares the answers.
    pub fn run<F: FileSystem + ?Sized>(&mut self, fs: &mut F, steps: u64) -> Result<(), Mismatch> {
        for _ in 0..steps {
            if self.dice.chance(3) {
                self.now.secs += self.rules.tick_secs;
            }
            self.call(fs)?;
            for both in core::mem::take(&mut self.taken) {
                self.forget(fs, both);
            }
            self.step += 1;
        }
        Ok(())
    }

    /// Closes every file that is held open; needed before the file system is remounted.
    pub fn release<F: FileSystem + ?Sized>(&mut self, fs: &mut F) {
        for both in core::mem::take(&mut self.held) {
            self.forget(fs, both);
        }
    }

    /// Compares the whole trees.
    pub fn compare<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Result<(), Mismatch> {
        let expected = tree::snapshot(&mut self.judge);
        let found = tree::snapshot(fs);
        let (expected, found) = match (expected, found) {
            (Ok(expected), Ok(found)) => (expected, found),
            (expected, found) => return self.same("snapshot", &expected.err(), &found.err()),
        };
        self.same(
            "paths",
            &expected.keys().map(text).collect::<Vec<_>>(),
            &found.keys().map(text).collect::<Vec<_>>(),
        )?;
        for ((path, expected), found) in expected.iter().zip(found.values()) {
            let call = format!("tree at {:?}", text(path));
            self.same_attr(&call, Ok(expected.attr), Ok(found.attr))?;
            if expected.contents != found.contents {
                let first = expected
                    .contents
                    .iter()
                    .zip(&found.contents)
                    .position(|(a, b)| a != b);
                return self.same(
                    &call,
                    &("contents", expected.contents.len()),
                    &(
                        "contents that differ from",
                        first.unwrap_or(found.contents.len()),
                    ),
                );
            }
            if self.rules.xattrs {
                self.same(&call, &expected.xattrs, &found.xattrs)?;
            }
        }
        Ok(())
    }

    fn same<T: PartialEq + Debug>(
        &self,
        call: &str,
        expected: &T,
        found: &T,
    ) -> Result<(), Mismatch> {
        if expected == found {
            return Ok(());
        }
        let expected = format!("{expected:?}");
        let found = format!("{found:?}");
        Err(Mismatch {
            seed: self.seed,
            step: self.step,
            call: call.into(),
            expected,
            found,
        })
    }

    fn same_attr(
        &self,
        call: &str,
        expected: Result<Attr, Errno>,
        found: Result<Attr, Errno>,
    ) -> Result<(), Mismatch> {
        self.same(
            call,
            &expected.map(|attr| self.essence(&attr)),
            &found.map(|attr| self.essence(&attr)),
        )
    }

    /// The attribute as far as the rules say that it is kept. A root's own are often nowhere
    /// stored.
    fn essence(&self, attr: &Attr) -> Attr {
        let rules = &self.rules;
        let directory = attr.kind == FileType::Directory;
        let root = attr.ino == Ino::ROOT;
        Attr {
            ino: Ino::ROOT,
            mode: if rules.modes && !root { attr.mode } else { 0 },
            uid: if rules.owners { attr.uid } else { 0 },
            gid: if rules.owners { attr.gid } else { 0 },
            size: if directory { 0 } else { attr.size },
            blocks: 0,
            atime: Time::default(),
            mtime: if root { Time::default() } else { attr.mtime },
            ctime: if rules.ctimes && !root {
                attr.ctime
            } else {
                Time::default()
            },
            btime: None,
            ..*attr
        }
    }

    fn forget<F: FileSystem + ?Sized>(&mut self, fs: &mut F, both: Both) {
        self.judge.forget(both.judge, 1);
        fs.forget(both.tested, 1);
    }
}

fn text(name: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(name.as_ref()).into_owned()
}

#[cfg(test)]
mod tests;
