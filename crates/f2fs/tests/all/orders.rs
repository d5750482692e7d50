//! Whatever the order in which the nodes of a file lie behind the last checkpoint, what was fsynced
//! is recovered, and nothing else: the eight cases of Linux's `fs/f2fs/recovery.c`.
//!
//! What Linux makes of the same volumes is asked in `f2fs_kernel.rs`.

use crate::common::chain::{CASES, Found, PLACES, contents, name, volume};
use crate::common::{assert_clean, mount, read_only};
use nandlab_block::BlockDevice;
use nandlab_f2fs::F2fs;
use nandlab_vfs::{FileSystem, Ino};

fn found<D: BlockDevice>(f2fs: &mut F2fs<D>, number: usize) -> Found {
    let file = f2fs.lookup(Ino::ROOT, name(number).as_bytes()).ok()?.ino;
    let versions = PLACES.map(|place| {
        let mut data = vec![0; 4096];
        assert_eq!(f2fs.read(file, place, &mut data), Ok(4096));
        (1..3)
            .find(|version| contents(number, *version, place) == data)
            .unwrap_or_else(|| panic!("{}: strange bytes at {place}", name(number)))
    });
    f2fs.forget(file, 1);
    Some((versions[0], versions[1]))
}

fn assert_recovered(number: usize) {
    let case = CASES[number];
    let mut disk = volume(&[(number, case)]);
    assert_eq!(
        found(&mut read_only(&mut disk), number),
        case.found,
        "{case:?} in memory"
    );
    let mut f2fs = mount(&mut disk);
    assert_eq!(found(&mut f2fs, number), case.found, "{case:?}");
    f2fs.unmount().unwrap();
    assert_clean(&mut disk, &name(number));
    assert_eq!(
        found(&mut mount(&mut disk), number),
        case.found,
        "{case:?} later"
    );
}

#[test]
fn an_inode_without_a_mark_counts_before_a_mark_of_its_file() {
    assert_recovered(0);
}

#[test]
fn an_inode_and_a_node_with_marks_count() {
    assert_recovered(1);
}

#[test]
fn an_inode_behind_the_last_mark_of_its_file_is_dropped() {
    assert_recovered(2);
}

#[test]
fn a_node_and_an_inode_with_marks_count() {
    assert_recovered(3);
}

#[test]
fn a_node_of_a_file_whose_name_is_not_known_is_dropped() {
    assert_recovered(4);
}

#[test]
fn a_new_file_is_recovered_with_its_name() {
    assert_recovered(5);
}

#[test]
fn a_new_file_is_recovered_though_its_inode_comes_last() {
    assert_recovered(6);
}

#[test]
fn a_node_whose_inode_never_got_a_mark_is_dropped() {
    assert_recovered(7);
}

/// A mark of another file behind it makes no node of this file durable.
#[test]
fn a_node_behind_the_last_mark_of_its_file_is_dropped_though_another_file_has_a_later_mark() {
    let mut disk = volume(&[(2, CASES[2]), (1, CASES[1])]);
    let mut f2fs = mount(&mut disk);
    assert_eq!(found(&mut f2fs, 2), CASES[2].found);
    assert_eq!(found(&mut f2fs, 1), CASES[1].found);
    f2fs.unmount().unwrap();
    assert_clean(&mut disk, "two files");
}
