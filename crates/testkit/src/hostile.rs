//! Calls on a damaged file system. They may fail; they must not panic or loop without end.

use crate::disk::{self, poke};
use crate::files::NOW;
use crate::media::Media;
use nandlab_block::Ram;
use nandlab_sim::mix;
use nandlab_vfs::{
    Attr, Caller, Errno, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, SetXattr, Sync,
};
use std::fmt::Debug;

/// Replaces one or two bytes by values that `word` chooses, mostly limits of fields.
pub fn strike(disk: &mut Ram, at: u64, word: u64) {
    let any = [(word >> 50) as u8, (word >> 40) as u8];
    let value = [0, 1, 2, 0xFF, 0x0F, 0x40, any[0], any[1]][(word >> 58) as usize % 8];
    let length = 1 + (word >> 20) as usize % 2;
    poke(disk, at, &[value, (word >> 32) as u8][..length]);
}

/// Strikes copies of a disk once or twice each, in the first `used` bytes behind the places.
/// Returns a digest of all outcomes.
pub fn struck(
    disk: &Ram,
    (places, used): (&[u64], u64),
    copies: u64,
    outcome: impl Fn(&mut Ram) -> Media,
) -> Media {
    let mut all = Media::default();
    for seed in 0..copies {
        let mut disk = disk.clone();
        for number in 0..1 + seed % 2 {
            let place = places[mix(seed, number) as usize % places.len()];
            let word = mix(seed, 2 + number);
            nudge(&mut disk, place + word % used, word >> 16);
        }
        all.add(outcome(&mut disk));
    }
    all
}

/// Replaces a byte by another that is worth a try.
fn nudge(disk: &mut Ram, at: u64, word: u64) {
    let old = disk::word(disk, at & !3) >> (at % 4 * 8);
    poke(disk, at, &[near(old as u8, word)]);
}

/// Returns a neighbour of a byte, the byte with another bit, or a limit of fields.
pub fn near(old: u8, word: u64) -> u8 {
    let flipped = old ^ 1 << (word >> 8 & 7);
    let values = [
        old.wrapping_add(1),
        old.wrapping_sub(1),
        flipped,
        0,
        1,
        0xFF,
    ];
    values[word as usize % values.len()]
}

/// Makes calls on up to `names` files, then syncs and unmounts. Returns a digest of all answers.
pub fn use_up<F: FileSystem + ?Sized>(fs: &mut F, names: u32) -> Media {
    let mut user = User::new(fs, names);
    user.exercise(Ino::ROOT, 0);
    _ = user.make(FileSystem::statfs);
    _ = user.make(FileSystem::sync);
    _ = user.make(FileSystem::unmount);
    user.answers
}

/// Walks the tree and makes calls on each of up to `names` files. Returns a digest of all answers.
pub fn exercise<F: FileSystem + ?Sized>(fs: &mut F, names: u32) -> Media {
    let mut user = User::new(fs, names);
    user.exercise(Ino::ROOT, 0);
    user.answers
}

/// A caller that takes every answer.
struct User<'a, F: ?Sized> {
    fs: &'a mut F,
    /// Files that the caller may still visit.
    names: u32,
    answers: Media,
}

impl<'a, F: FileSystem + ?Sized> User<'a, F> {
    fn new(fs: &'a mut F, names: u32) -> Self {
        let answers = Media::default();
        Self { fs, names, answers }
    }

    /// Makes a call, and notes the answer with the cause of an error.
    fn make<T: Debug>(
        &mut self,
        call: impl FnOnce(&mut F) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let answer = call(self.fs);
        self.answers.note(&answer);
        if answer.is_err() {
            let cause = self.fs.cause().map(|cause| cause.to_string());
            self.answers.note(&cause);
        }
        answer
    }

    fn exercise(&mut self, dir: Ino, depth: u32) {
        let mut names = Vec::new();
        _ = self.make(|fs| {
            fs.readdir(dir, 0, &mut |entry| {
                names.push((entry.name.to_vec(), entry.kind));
                names.len() < 40
            })
        });
        self.answers.note(&names);
        for (index, (name, kind)) in names.into_iter().enumerate() {
            let Some(left) = self.names.checked_sub(1) else {
                return;
            };
            self.names = left;
            let Ok(attr) = self.make(|fs| fs.lookup(dir, &name)) else {
                continue;
            };
            if kind == FileType::Directory && depth < 6 {
                self.exercise(attr.ino, depth + 1);
            }
            let data = self.look(&attr);
            let new = &data[..index * 7];
            _ = self.make(|fs| fs.setxattr(attr.ino, b"user.new", new, SetXattr::Any, NOW));
            self.change((dir, &name), &attr, &data, (index, depth));
            _ = self.make(|fs| fs.fsync(attr.ino, Sync::All));
            _ = self.make(|fs| fs.work(NOW));
            self.fs.forget(attr.ino, 1);
        }
    }

    /// Reads what belongs to a file; returns the end of its contents.
    fn look(&mut self, attr: &Attr) -> Vec<u8> {
        let mut data = vec![0; 2000];
        let end = attr.size.saturating_sub(1000);
        _ = self.make(|fs| fs.read(attr.ino, end, &mut data));
        self.answers.note(&data);
        _ = self.make(|fs| fs.next_data(attr.ino, attr.size / 2));
        _ = self.make(|fs| fs.readlink(attr.ino));
        let names = self.make(|fs| fs.listxattr(attr.ino));
        for name in names.unwrap_or_default() {
            _ = self.make(|fs| fs.getxattr(attr.ino, &name));
        }
        data
    }

    fn change(
        &mut self,
        (dir, name): (Ino, &[u8]),
        attr: &Attr,
        data: &[u8],
        (index, depth): (usize, u32),
    ) {
        let ino = attr.ino;
        _ = match index % 7 {
            0 => {
                let end = attr.size.min(100_000);
                self.make(|fs| fs.write(ino, end, data, NOW)).map(drop)
            }
            1 => self.make(|fs| fs.setattr(ino, &half(attr), NOW)).map(drop),
            2 => self.make(|fs| fs.unlink(dir, name, NOW)),
            3 => {
                let to = format!("moved {index} {depth}");
                let to = (Ino::ROOT, to.as_bytes());
                self.make(|fs| fs.rename((dir, name), to, Rename::Replace, NOW))
            }
            4 => self.make(|fs| create(fs, dir, index)).map(drop),
            5 => self.make(|fs| fs.setxattr(ino, b"user.k", &data[..50], SetXattr::Any, NOW)),
            _ => self.make(|fs| fs.rmdir(dir, name, NOW)),
        };
    }
}

fn create<F: FileSystem + ?Sized>(fs: &mut F, dir: Ino, index: usize) -> Result<Attr, Errno> {
    let name = format!("a new file {index}");
    let by = Caller::root(NOW);
    fs.create(dir, name.as_bytes(), NewNode::File, 0o644, by)
}

fn half(attr: &Attr) -> SetAttr {
    SetAttr {
        size: Some(attr.size / 2),
        ..SetAttr::default()
    }
}
