//! Runs that every file system has to survive.

use super::story::Story;
use crate::files::bytes;
use nandlab_vfs::{FileSystem, Time};

/// All kinds of changes, with space enough.
pub fn mixed<F: FileSystem>(story: &mut Story<F>) {
    mixed_with(story, |_| ());
}

/// The same with more changes near the end.
pub fn mixed_with<F: FileSystem>(story: &mut Story<F>, more: impl FnOnce(&mut Story<F>)) {
    // Long names, so that directories grow and entries cross sectors.
    let long =
        |number| format!("/a directory/below/a file with quite a long name, number {number}");
    story.create("/first", &bytes(1, 3000));
    story.scribble("/never synced", 30_000);
    story.mkdir("/a directory");
    story.mkdir("/a directory/below");
    for number in 0..25 {
        story.create(&long(number), &bytes(number, 700 * number as usize));
    }
    story.append("/first", 512, 40);
    story.rename("/first", "/a directory/renamed");
    story.scribble("/a directory/scribble", 100_000);
    for number in 0..8 {
        story.unlink(&long(number * 3));
        story.create(&format!("/reuse {number}"), &bytes(100 + number, 9000));
    }
    story.truncate("/a directory/renamed", 5000, true);
    story.append("/a directory/renamed", 3000, 5);
    story.rename("/reuse 1", "/reuse 2");
    story.rename(&long(1), "/a directory/below/b");
    story.truncate("/reuse 5", 0, true);
    story.append("/reuse 5", 2500, 3);
    more(story);
    story.fs.write_back(1 << 20, Time::MAX).unwrap();
    story.fs.sync().unwrap();
    story.create("/last", &bytes(9, 20_000));
}

/// Little space, so that freed space is taken again at once. Files differ in length by multiples of
/// `step` bytes; a ballast leaves `left` bytes free.
pub fn churn<F: FileSystem>(story: &mut Story<F>, step: usize, left: usize) {
    story.mkdir("/d");
    for round in 0..30u64 {
        let kept = |round: u64| format!("/d/kept for a while {round}");
        let length = 6000 + step * (round as usize % 4);
        story.create(&kept(round), &bytes(round, length));
        story.create(&format!("/cut {round}"), &bytes(round + 50, 8000));
        if round >= 3 {
            // Not durable until the next create makes it so, while that takes the space.
            story.unlink(&kept(round - 3));
            let size = 700 * (round as usize % 3);
            story.truncate(&format!("/cut {}", round - 3), size, false);
        }
        if round >= 5 {
            story.unlink(&format!("/cut {}", round - 5));
        }
        if round == 6 {
            fill_up(story, left);
        }
    }
}

/// Leaves so many bytes free. A later round has no more space than the round before freed.
fn fill_up<F: FileSystem>(story: &mut Story<F>, left: usize) {
    let free = story.fs.statfs().unwrap();
    let space = free.free as usize * free.block_bytes as usize;
    story.create("/ballast", &bytes(6, space - left));
}
