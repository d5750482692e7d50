//! Random calls on names, to compare a file system with itself.

use crate::files::NOW;
use nandlab_sim::mix;
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename};

/// Directories at a time.
const DIRS: usize = 6;
/// Names of a directory: enough for an index in blocks of 1 KiB.
const NAMES: u64 = 60;

struct Player<'a, F: ?Sized> {
    fs: &'a mut F,
    dirs: Vec<Ino>,
    word: u64,
}

impl<F: FileSystem + ?Sized> Player<'_, F> {
    fn dir(&self, shift: u32) -> Ino {
        self.dirs[(self.word >> shift) as usize % self.dirs.len()]
    }

    fn name(&self, shift: u32) -> Vec<u8> {
        let number = (self.word >> shift) % NAMES;
        format!("a name of some length, number {number}").into_bytes()
    }

    fn create(&mut self, node: NewNode<'_>) -> Result<u64, Errno> {
        let dir = self.dir(8);
        let name = self.name(16);
        let made = self
            .fs
            .create(dir, &name, node, 0o755, Caller::root(NOW))?
            .ino;
        match node {
            NewNode::Directory if self.dirs.len() < DIRS => self.dirs.push(made),
            NewNode::Directory => self.fs.forget(made, 1),
            _ => {
                // Contents push other blocks out of a small cache.
                let data = vec![self.word as u8; (self.word >> 40) as usize % 20_000];
                let written = self.fs.write(made, 0, &data, NOW);
                self.fs.forget(made, 1);
                written?;
            }
        }
        Ok(made.0)
    }

    fn look(&mut self) -> Result<u64, Errno> {
        let dir = self.dir(8);
        let name = self.name(16);
        let found = self.fs.lookup(dir, &name)?;
        let mut byte = [0];
        _ = self.fs.read(found.ino, 0, &mut byte);
        self.fs.forget(found.ino, 1);
        Ok(found.ino.0 << 32 | found.size << 8 | u64::from(byte[0]))
    }

    fn rename(&mut self) -> Result<u64, Errno> {
        let dir = self.dir(8);
        let name = self.name(16);
        let to_dir = self.dir(24);
        let to_name = self.name(32);
        let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange];
        let how = how[(self.word >> 50) as usize % how.len()];
        self.fs
            .rename((dir, &name), (to_dir, &to_name), how, NOW)
            .map(|()| 0)
    }

    fn link(&mut self) -> Result<u64, Errno> {
        let dir = self.dir(8);
        let name = self.name(16);
        let to_dir = self.dir(24);
        let to_name = self.name(32);
        let found = self.fs.lookup(dir, &name)?.ino;
        let linked = self.fs.link(found, to_dir, &to_name, NOW);
        self.fs.forget(found, 1 + u64::from(linked.is_ok()));
        linked.map(|attr| attr.links.into())
    }

    /// Gives up the reference to a directory, which may have lost its name.
    fn leave(&mut self) -> Result<u64, Errno> {
        let at = (self.word >> 8) as usize % self.dirs.len();
        if at > 0 {
            let left = self.dirs.swap_remove(at);
            self.fs.forget(left, 1);
        }
        Ok(at as u64)
    }

    fn step(&mut self) -> Result<u64, Errno> {
        let dir = self.dir(8);
        let name = self.name(16);
        match self.word % 32 {
            0..8 => self.create(NewNode::File),
            8 => self.create(NewNode::Directory),
            9..22 => self.look(),
            22..25 => self.fs.unlink(dir, &name, NOW).map(|()| 0),
            25 => self.fs.rmdir(dir, &name, NOW).map(|()| 0),
            26..29 => self.rename(),
            29 => self.link(),
            30 => self.leave(),
            _ => self.fs.sync().map(|()| 0),
        }
    }
}

/// Makes `steps` random calls and returns their outcomes.
pub fn play<F: FileSystem + ?Sized>(fs: &mut F, seed: u64, steps: u64) -> Vec<String> {
    let dirs = vec![Ino::ROOT];
    let mut player = Player { fs, dirs, word: 0 };
    let mut outcomes = Vec::new();
    for step in 0..steps {
        player.word = mix(seed, step);
        outcomes.push(format!("{:?}", player.step()));
    }
    player
        .dirs
        .iter()
        .skip(1)
        .for_each(|dir| player.fs.forget(*dir, 1));
    outcomes
}
