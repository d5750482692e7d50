//! The calls of a run: each picks its arguments, asks both and compares.

use super::{Both, Mismatch, Model, ROOT, text};
use crate::{
    Caller, Dirty, Errno, FileSystem, FileType, NewNode, Rename, SetAttr, SetXattr, Sync, Time,
    tree,
};
use alloc::{format, string::String, vec, vec::Vec};

/// How many files are kept open at once.
const HELD_MAX: usize = 5;
/// Directories deeper than this are not gone into.
const DEPTH_MAX: u32 = 4;

type Outcome = Result<(), Mismatch>;

impl Model {
    pub(super) fn call<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        match self.dice.below(100) {
            0..10 => self.make(fs, NewNode::File),
            10..14 => self.make(fs, NewNode::Directory),
            14..17 => self.make_other(fs),
            17..20 => self.link(fs),
            20..27 => self.remove(fs, false),
            27..30 => self.remove(fs, true),
            30..38 => self.rename(fs),
            38..60 => self.write(fs),
            60..72 => self.read(fs),
            72..78 => self.truncate(fs),
            78..83 => self.set_attributes(fs),
            83..87 => self.xattr(fs),
            87..90 => self.list(fs),
            90..94 => self.hold(fs),
            94..96 => self.close(fs),
            96..98 => self.fsync(fs),
            _ => self.flush(fs),
        }
    }

    /// A directory, found by going down from the root.
    fn dir<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Result<(Both, String), Mismatch> {
        let mut at = ROOT;
        let mut path = String::from("/");
        for _ in 0..self.dice.below(u64::from(DEPTH_MAX)) {
            let names = tree::names(&mut self.judge, at.judge).unwrap_or_default();
            let below: Vec<_> = names
                .into_iter()
                .filter(|(_, kind)| *kind == FileType::Directory)
                .collect();
            let Some((name, _)) = self.dice.pick(&below) else {
                break;
            };
            at = self.look(fs, at, name)?.unwrap_or(at);
            path.push_str(&text(name));
            path.push('/');
        }
        Ok((at, path))
    }

    /// Looks a name up in both; the references last as long as the call.
    fn look<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        dir: Both,
        name: &[u8],
    ) -> Result<Option<Both>, Mismatch> {
        let expected = self.judge.lookup(dir.judge, name);
        let found = fs.lookup(dir.tested, name);
        self.same_attr(&format!("lookup {:?}", text(name)), expected, found)?;
        Ok(expected.ok().zip(found.ok()).map(|(judge, tested)| {
            let both = Both {
                judge: judge.ino,
                tested: tested.ino,
            };
            self.taken.push(both);
            both
        }))
    }

    /// A name, more often than not one that is there.
    fn name(&mut self, dir: Both) -> Vec<u8> {
        let there = tree::names(&mut self.judge, dir.judge).unwrap_or_default();
        if let Some((name, _)) = self.dice.pick(&there).filter(|_| self.dice.chance(2)) {
            return name.clone();
        }
        self.dice
            .pick(self.rules.names)
            .map_or_else(Vec::new, |name| name.to_vec())
    }

    /// A file by name, or one of those held open.
    fn file<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
    ) -> Result<Option<(Both, String)>, Mismatch> {
        if self.dice.chance(4) {
            return Ok(self
                .dice
                .pick(&self.held)
                .map(|both| (*both, format!("open {}", both.judge.0))));
        }
        let (dir, path) = self.dir(fs)?;
        let names = tree::names(&mut self.judge, dir.judge).unwrap_or_default();
        let files: Vec<_> = names
            .into_iter()
            .filter(|(_, kind)| *kind == FileType::File)
            .collect();
        let Some((name, _)) = self.dice.pick(&files) else {
            return Ok(None);
        };
        Ok(self
            .look(fs, dir, name)?
            .map(|both| (both, format!("{path}{}", text(name)))))
    }

    /// Anything with a name.
    fn any<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
    ) -> Result<Option<(Both, String)>, Mismatch> {
        let (dir, path) = self.dir(fs)?;
        let names = tree::names(&mut self.judge, dir.judge).unwrap_or_default();
        let Some((name, _)) = self.dice.pick(&names) else {
            return Ok(None);
        };
        Ok(self
            .look(fs, dir, name)?
            .map(|both| (both, format!("{path}{}", text(name)))))
    }

    fn make<F: FileSystem + ?Sized>(&mut self, fs: &mut F, node: NewNode<'_>) -> Outcome {
        let (dir, path) = self.dir(fs)?;
        let name = self.name(dir);
        let full = self.judge.inodes() >= self.rules.inodes_max;
        if full
            && self
                .judge
                .lookup(dir.judge, &name)
                .map(|attr| self.judge.forget(attr.ino, 1))
                .is_err()
        {
            return Ok(());
        }
        let mode = (self.dice.word() & 0o7777) as u16;
        let by = Caller {
            uid: self.dice.below(3) as u32,
            gid: self.dice.below(70_000) as u32,
            now: self.now,
        };
        let expected = self.judge.create(dir.judge, &name, node, mode, by);
        let found = fs.create(dir.tested, &name, node, mode, by);
        self.same_attr(
            &format!("create {node:?} {path}{}", text(&name)),
            expected,
            found,
        )?;
        if let (Ok(judge), Ok(tested)) = (expected, found) {
            self.taken.push(Both {
                judge: judge.ino,
                tested: tested.ino,
            });
        }
        Ok(())
    }

    fn make_other<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let device = (self.dice.below(300) as u32, self.dice.below(70_000) as u32);
        match self.dice.below(7) {
            0 if self.rules.special_files => self.make(fs, NewNode::Fifo),
            1 if self.rules.special_files => self.make(fs, NewNode::Socket),
            2 if self.rules.special_files => self.make(fs, NewNode::Character { device }),
            3 if self.rules.special_files => self.make(fs, NewNode::Block { device }),
            4.. if self.rules.symlinks => {
                let target = vec![b't'; 1 + self.dice.below(300) as usize];
                self.make(fs, NewNode::Symlink { target: &target })
            }
            _ => Ok(()),
        }
    }

    fn link<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        if !self.rules.hard_links {
            return Ok(());
        }
        let Some((from, source)) = self.any(fs)? else {
            return Ok(());
        };
        let (dir, path) = self.dir(fs)?;
        let name = self.name(dir);
        let now = self.now;
        let expected = self.judge.link(from.judge, dir.judge, &name, now);
        let found = fs.link(from.tested, dir.tested, &name, now);
        self.same_attr(
            &format!("link {source} {path}{}", text(&name)),
            expected,
            found,
        )?;
        if expected.is_ok() {
            self.taken.push(from);
        }
        Ok(())
    }

    fn remove<F: FileSystem + ?Sized>(&mut self, fs: &mut F, directory: bool) -> Outcome {
        let (dir, path) = self.dir(fs)?;
        let name = self.name(dir);
        let now = self.now;
        let (expected, found) = match directory {
            true => (
                self.judge.rmdir(dir.judge, &name, now),
                fs.rmdir(dir.tested, &name, now),
            ),
            false => (
                self.judge.unlink(dir.judge, &name, now),
                fs.unlink(dir.tested, &name, now),
            ),
        };
        self.same(
            &format!(
                "{} {path}{}",
                if directory { "rmdir" } else { "unlink" },
                text(&name)
            ),
            &expected,
            &found,
        )
    }

    fn rename<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let (from, source) = self.dir(fs)?;
        let (to, target) = self.dir(fs)?;
        let old = self.name(from);
        let new = self.name(to);
        let now = self.now;
        let how = match self.dice.below(6) {
            0 => Rename::NoReplace,
            1 if self.rules.exchange => Rename::Exchange,
            _ => Rename::Replace,
        };
        let expected = self
            .judge
            .rename((from.judge, &old), (to.judge, &new), how, now);
        let found = fs.rename((from.tested, &old), (to.tested, &new), how, now);
        self.same(
            &format!(
                "rename {source}{} {target}{} {how:?}",
                text(&old),
                text(&new)
            ),
            &expected,
            &found,
        )
    }

    /// A place in a file, most often near what is there already.
    fn place(&mut self, both: Both) -> u64 {
        let size = self.judge.getattr(both.judge).map_or(0, |attr| attr.size);
        let place = match self.dice.below(8) {
            0 => self.dice.below(self.rules.file_bytes_max),
            1..4 => size,
            4 => size.saturating_add(self.dice.below(5000)),
            _ => self.dice.below(size + 1),
        };
        place.min(self.rules.file_bytes_max - 1)
    }

    fn length(&mut self) -> u64 {
        match self.dice.below(5) {
            0 => 512,
            1 => 1 + self.dice.below(50_000),
            _ => 1 + self.dice.below(3000),
        }
    }

    fn write<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((file, name)) = self.file(fs)? else {
            return Ok(());
        };
        let offset = self.place(file);
        let length = self.length();
        let length = length.min(self.rules.file_bytes_max - offset);
        let start = self.dice.word();
        let data: Vec<u8> = (0..length)
            .map(|at| (start.wrapping_add(at).wrapping_mul(0x9E37) >> 8) as u8)
            .collect();
        let expected = self.judge.write(file.judge, offset, &data, self.now);
        let found = fs.write(file.tested, offset, &data, self.now);
        self.same(
            &format!("write {name} {length} bytes at {offset}"),
            &expected,
            &found,
        )
    }

    fn read<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((file, name)) = self.file(fs)? else {
            return Ok(());
        };
        let offset = self.place(file);
        let length = self.length() as usize;
        let mut expected = vec![0xAA; length];
        let mut found = vec![0xAA; length];
        let counts = (
            self.judge.read(file.judge, offset, &mut expected),
            fs.read(file.tested, offset, &mut found),
        );
        let call = format!("read {name} {length} bytes at {offset}");
        self.same(&call, &counts.0, &counts.1)?;
        self.same_bytes(&call, &expected, &found)
    }

    fn same_bytes(&mut self, call: &str, expected: &[u8], found: &[u8]) -> Outcome {
        match expected.iter().zip(found).position(|(a, b)| a != b) {
            Some(at) => self.same(&format!("{call}: byte {at}"), &expected[at], &found[at]),
            None => Ok(()),
        }
    }

    fn set<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        both: Both,
        name: &str,
        change: &SetAttr,
    ) -> Outcome {
        let expected = self.judge.setattr(both.judge, change, self.now);
        let found = fs.setattr(both.tested, change, self.now);
        self.same_attr(&format!("setattr {name} {change:?}"), expected, found)
    }

    fn truncate<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((file, name)) = self.file(fs)? else {
            return Ok(());
        };
        let size = if self.dice.chance(4) {
            0
        } else {
            self.place(file)
        };
        self.set(
            fs,
            file,
            &name,
            &SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
        )
    }

    fn set_attributes<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((both, name)) = self.any(fs)? else {
            return Ok(());
        };
        let tick = self.rules.tick_secs;
        let time = Time::new((400_000_000 + self.dice.below(1_000_000_000) as i64) / tick * tick);
        let mut change = SetAttr {
            mtime: Some(time),
            ..SetAttr::default()
        };
        if self.rules.modes && self.dice.chance(2) {
            change.mode = Some((self.dice.word() & 0o7777) as u16);
        }
        if self.rules.owners && self.dice.chance(2) {
            (change.uid, change.gid) = (
                Some(self.dice.below(100_000) as u32),
                Some(self.dice.below(9) as u32),
            );
        }
        self.set(fs, both, &name, &change)
    }

    fn xattr<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((both, path)) = self.any(fs)?.filter(|_| self.rules.xattrs) else {
            return Ok(());
        };
        let symlink = self
            .judge
            .getattr(both.judge)
            .is_ok_and(|attr| attr.kind != FileType::File && attr.kind != FileType::Directory);
        if symlink {
            // Linux keeps user attributes to files and directories.
            return Ok(());
        }
        let names: [&[u8]; 3] = [b"user.a", b"user.a longer name", b"user.b"];
        let name = names[self.dice.below(3) as usize];
        let now = self.now;
        let call = format!("xattr {} of {path}", text(name));
        match self.dice.below(4) {
            0 => {
                let expected = self.judge.getxattr(both.judge, name);
                let found = fs.getxattr(both.tested, name);
                self.same(&call, &expected, &found)
            }
            1 => {
                let expected = self.judge.removexattr(both.judge, name, now);
                let found = fs.removexattr(both.tested, name, now);
                self.same(&call, &expected, &found)
            }
            _ => {
                let value = vec![self.dice.word() as u8; self.dice.below(300) as usize];
                let expect = [SetXattr::Any, SetXattr::Create, SetXattr::Replace]
                    [self.dice.below(3) as usize];
                let expected = self.judge.setxattr(both.judge, name, &value, expect, now);
                let found = fs.setxattr(both.tested, name, &value, expect, now);
                self.same(&format!("{call} {expect:?}"), &expected, &found)
            }
        }
    }

    fn list<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let (dir, path) = self.dir(fs)?;
        let sorted = |names: Result<Vec<_>, Errno>| {
            names.map(|mut names| {
                names.sort();
                names
            })
        };
        let expected = sorted(tree::names(&mut self.judge, dir.judge));
        let found = sorted(tree::names(fs, dir.tested));
        self.same(&format!("readdir {path}"), &expected, &found)
    }

    /// Opens a file, to keep it beyond the end of its name.
    fn hold<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        if let Some((file, _)) = self.file(fs)?.filter(|_| self.held.len() < HELD_MAX) {
            // The reference moves from the call to the model; a file that is held already has one
            // of its own.
            if let Some(at) = self.taken.iter().rposition(|both| *both == file) {
                self.held.push(self.taken.remove(at));
            }
        }
        Ok(())
    }

    fn close<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        if !self.held.is_empty() {
            let at = self.dice.below(self.held.len() as u64) as usize;
            let both = self.held.swap_remove(at);
            self.forget(fs, both);
        }
        Ok(())
    }

    fn fsync<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        let Some((file, name)) = self.file(fs)? else {
            return Ok(());
        };
        let what = if self.dice.chance(2) {
            Sync::Data
        } else {
            Sync::All
        };
        self.same(
            &format!("fsync {name} {what:?}"),
            &Ok(()),
            &fs.fsync(file.tested, what),
        )
    }

    fn flush<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Outcome {
        if self.dice.chance(2) {
            self.same("sync", &Ok(()), &fs.sync())?;
            return self.same(
                "nothing is dirty after sync",
                &Dirty::default(),
                &fs.dirty(),
            );
        }
        let bytes = self.dice.below(40_000);
        let waiting = fs.dirty().bytes;
        let written = fs.write_back(bytes, Time::MIN);
        let enough = written.map(|written| written >= bytes.min(waiting));
        self.same(
            &format!("write back {bytes} of {waiting} bytes"),
            &Ok(true),
            &enough,
        )
    }
}
