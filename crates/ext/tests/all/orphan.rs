//! A file that a crash has left in the list of orphans while it was cut short.

use crate::common::{assert_clean, mount, put, ram};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Format, format};
use nandlab_testkit::disk::{poke, word};
use nandlab_vfs::{FileSystem, Ino};

/// Bytes of the superblock: length of an inode, head of the list of orphans.
const INODE_SIZE: u64 = 1024 + 88;
const LAST_ORPHAN: u64 = 1024 + 232;
/// Byte of the first group's descriptor with the first block of inodes, in blocks of 1 KiB.
const INODE_TABLE: u64 = 2048 + 8;
const KEPT: usize = 4500;
/// What the last block is filled with.
const LAST: u8 = 0xD7;

/// The block that begins with these bytes.
fn block_with(disk: &mut Ram, first: u8) -> [u8; 1024] {
    let mut block = [0; 1024];
    let mut found = (0..disk.geometry().sectors / 2).filter_map(|at| {
        disk.read(Lba(at * 2), &mut block).unwrap();
        (block[..32] == [first; 32]).then_some(block)
    });
    let block = found.next().unwrap();
    assert!(found.next().is_none(), "two blocks begin with {first:#x}");
    block
}

/// Linux grows a file without a look at the bytes behind its end, so they must be zeros on the
/// medium.
#[test]
fn what_a_finished_truncate_cuts_off_in_the_last_block_is_zeroed() {
    let mut disk = ram(8000);
    let choices = Format {
        journal: true,
        block: Some(1024),
        journal_blocks: Some(1024),
        ..Format::default()
    };
    format(&mut disk, &choices).unwrap();
    let mut ext = mount(&mut disk);
    let mut contents = [0xD6; 5000];
    contents[4096..].fill(LAST);
    let file = put(&mut ext, Ino::ROOT, "file", &contents);
    ext.unmount().unwrap();
    drop(ext);
    // The new length is there and the file is in the list; its blocks are as before.
    let table = u64::from(word(&mut disk, INODE_TABLE)) * 1024;
    let inode = table + (file.0 - 1) * u64::from(word(&mut disk, INODE_SIZE) & 0xFFFF);
    assert_eq!(
        word(&mut disk, inode + 4),
        5000,
        "the length of inode {}",
        file.0
    );
    poke(&mut disk, inode + 4, &(KEPT as u32).to_le_bytes());
    poke(&mut disk, inode + 20, &0u32.to_le_bytes());
    poke(&mut disk, LAST_ORPHAN, &(file.0 as u32).to_le_bytes());
    let mut ext = mount(&mut disk);
    ext.unmount().unwrap();
    drop(ext);
    assert_eq!(word(&mut disk, LAST_ORPHAN), 0, "the list is not empty");
    assert_clean(&mut disk, "after the mount that finishes the truncate");
    let last = block_with(&mut disk, LAST);
    let kept = KEPT % 1024;
    assert!(
        last[..kept].iter().all(|byte| *byte == LAST),
        "what the file holds is there"
    );
    assert_eq!(last[kept..], [0; 1024 - KEPT % 1024], "what was cut off");
}
