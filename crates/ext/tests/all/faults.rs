//! Faults that the test images of e2fsprogs showed, each on a small volume of its own.

use crate::common::{NOW, assert_clean, bytes, fsck, made_by_mke2fs, mkdir, mount, put, read_only};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, ExtError, Finding, Format, Options, Severity, format};
use nandlab_testkit::disk::{poke, ram, word};
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{FileSystem, Ino, Sync};

/// Fields of the superblock, by their bytes on the disk.
const LOG_BLOCK: u64 = 1024 + 24;
const INCOMPAT: u64 = 1024 + 96;
const RO_COMPAT: u64 = 1024 + 100;
const JOURNAL_INODE: u64 = 1024 + 224;
const FIRST_META_BG: u64 = 1024 + 260;
const FREE_BLOCKS_HIGH: u64 = 1024 + 344;

/// Bytes of an inode on all volumes here.
const INODE: u64 = 256;

/// Fields of an inode.
const FLAGS: u64 = 32;
const DTIME: u64 = 20;
const BLOCKS: u64 = 40;
const EXTRA_END: u64 = 160;

/// A volume of ext4 without checksums, so that each field can be changed alone.
fn plain(features: &str) -> Ram {
    let features = format!("^metadata_csum,^64bit,^has_journal,^extent{features}");
    let options = ["-t", "ext4", "-b", "1024", "-I", "256", "-O", &features];
    made_by_mke2fs(8 * 1024, &options)
}

/// The byte of the disk at which an inode of the first group lies, with blocks of 1 KiB.
fn inode_at(disk: &mut Ram, inode: Ino) -> u64 {
    u64::from(word(disk, 2048 + 8)) * 1024 + (inode.0 - 1) * INODE
}

fn set_bits(disk: &mut Ram, at: u64, bits: u32) {
    let value = word(disk, at) | bits;
    poke(disk, at, &value.to_le_bytes());
}

/// Makes a file and unmounts.
fn with_file(disk: &mut Ram, name: &str, contents: &[u8]) -> Ino {
    let mut ext = mount(&mut *disk);
    let file = put(&mut ext, Ino::ROOT, name, contents);
    ext.unmount().unwrap();
    file
}

fn findings(disk: &mut Ram) -> Vec<Finding> {
    read_only(disk).check().unwrap().findings
}

fn has_field(found: &[Finding], words: &str) -> bool {
    found
        .iter()
        .any(|one| matches!(one, Finding::Field { field, .. } if field.contains(words)))
}

fn refused(disk: &mut Ram) -> ExtError {
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    Ext::mount(disk, options).unwrap_err()
}

/// The attributes of an inode whose 100 bytes of contents lie in the inode `holder`.
fn contents_in(holder: Ino) -> Vec<u8> {
    let mut bytes = 0xEA02_0000u32.to_le_bytes().to_vec();
    bytes.extend([4, 7, 0, 0]);
    bytes.extend((holder.0 as u32).to_le_bytes());
    bytes.extend(100u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(b"data");
    bytes
}

#[test]
fn a_value_that_lies_in_its_own_inode_is_damage_and_no_recursion() {
    let mut disk = plain(",inline_data");
    let file = with_file(&mut disk, "file", b"");
    set_bits(&mut disk, INCOMPAT, 0x400);
    let at = inode_at(&mut disk, file);
    // Contents within, and the value of an attribute of another inode.
    set_bits(&mut disk, at + FLAGS, 0x1020_0000);
    poke(&mut disk, at + 4, &100u32.to_le_bytes());
    poke(&mut disk, at + EXTRA_END, &contents_in(file));
    let mut ext = read_only(&mut disk);
    let report = ext.check().unwrap();
    assert_eq!(report.worst(), Some(Severity::Damage));
    assert!(ext.read(file, 0, &mut [0; 100]).is_err());
}

#[test]
fn descriptors_with_their_groups_beside_kept_blocks_do_not_overflow() {
    let mut disk = plain("");
    set_bits(&mut disk, INCOMPAT, 0x10);
    _ = findings(&mut disk);
    let content = fsck(&mut disk).0;
    assert!(
        !content,
        "e2fsck knows that the two features exclude each other"
    );
}

#[test]
fn a_first_block_of_descriptors_beyond_all_is_refused() {
    let mut disk = plain(",meta_bg,^resize_inode");
    poke(&mut disk, FIRST_META_BG, &[2]);
    let why = refused(&mut disk).to_string();
    assert!(why.contains("descriptors with their groups"), "{why}");
}

#[test]
fn shapes_that_are_not_supported_are_no_damage() {
    let mut large = plain("");
    poke(&mut large, LOG_BLOCK, &[3]);
    assert!(refused(&mut large).is_unsupported());
    let features = ["-t", "ext4", "-b", "1024", "-O", "bigalloc,^resize_inode"];
    let mut clusters = made_by_mke2fs(16 * 1024, &features);
    assert!(refused(&mut clusters).is_unsupported());
    let mut broken = plain("");
    poke(&mut broken, LOG_BLOCK, &[7]);
    assert!(!refused(&mut broken).is_unsupported());
}

#[test]
fn files_share_blocks_only_where_the_volume_says_so() {
    let mut disk = plain("");
    let one = with_file(&mut disk, "one", &bytes(1, 1000));
    let other = with_file(&mut disk, "other", &bytes(2, 1000));
    let one_at = inode_at(&mut disk, one);
    let other_at = inode_at(&mut disk, other);
    let block = word(&mut disk, one_at + BLOCKS);
    poke(&mut disk, other_at + BLOCKS, &block.to_le_bytes());
    let is_crossed = |one: &Finding| matches!(one, Finding::CrossLink { .. });
    assert!(findings(&mut disk).iter().any(is_crossed));
    set_bits(&mut disk, RO_COMPAT, 0x4000);
    let found = findings(&mut disk);
    let damage = found
        .iter()
        .filter(|one| one.severity() == Severity::Damage);
    assert_eq!(damage.count(), 0, "{found:?}");
}

#[test]
fn a_file_with_a_tree_of_hashes_has_blocks_behind_its_length() {
    let mut disk = plain("");
    let file = with_file(&mut disk, "file", &bytes(1, 5000));
    let at = inode_at(&mut disk, file);
    poke(&mut disk, at + 4, &1000u32.to_le_bytes());
    assert!(has_field(&findings(&mut disk), "blocks behind it"));
    set_bits(&mut disk, RO_COMPAT, 0x8000);
    set_bits(&mut disk, at + FLAGS, 0x10_0000);
    assert_eq!(findings(&mut disk), []);
}

#[test]
fn flags_of_contents_that_contradict_the_inode_are_damage() {
    let cases = [
        (0x1000_0000, "attributes with contents"),
        (0x1008_0000, "contents in the inode and in extents"),
    ];
    for (flags, words) in cases {
        let mut disk = plain(",inline_data,extent");
        let file = with_file(&mut disk, "file", b"");
        let at = inode_at(&mut disk, file);
        poke(&mut disk, at + FLAGS, &u32::to_le_bytes(flags));
        let found = findings(&mut disk);
        assert!(has_field(&found, words), "{words}: {found:?}");
        let content = fsck(&mut disk).0;
        assert!(!content, "{words}");
    }
    let mut disk = plain(",inline_data,extent");
    let file = with_file(&mut disk, "file", b"");
    let at = inode_at(&mut disk, file);
    // A pipe.
    poke(&mut disk, at, &0o010_644u16.to_le_bytes());
    assert!(has_field(&findings(&mut disk), "on an inode without any"));
}

#[test]
fn a_type_of_zero_leaves_the_question_to_the_inode() {
    let mut disk = plain("");
    let root = inode_at(&mut disk, Ino(2));
    let names = u64::from(word(&mut disk, root + BLOCKS)) * 1024;
    poke(&mut disk, names + 7, &[0]);
    let report = read_only(&mut disk).check().unwrap();
    let found = &report.findings;
    assert!(
        matches!(found[..], [Finding::Type { found: 0, .. }]),
        "{found:?}"
    );
    assert_eq!(report.worst(), Some(Severity::Note));
    let (content, said) = fsck(&mut disk);
    assert!(content, "{said}");
}

#[test]
fn the_upper_half_of_the_free_blocks_is_counted() {
    let mut disk = made_by_mke2fs(8 * 1024, &["-t", "ext4", "-O", "^metadata_csum,64bit"]);
    poke(&mut disk, FREE_BLOCKS_HIGH, &[1]);
    let found = findings(&mut disk);
    assert!(matches!(found[..], [Finding::Count { .. }]), "{found:?}");
    repair(&mut disk);
    assert_clean(&mut disk, "the upper half");
}

/// Moves all bytes of an inode to another.
fn move_inode(disk: &mut Ram, from: Ino, to: Ino) {
    let from = inode_at(disk, from);
    let to = inode_at(disk, to);
    let mut sector = [0; 512];
    disk.read(Lba(from / 512), &mut sector).unwrap();
    let start = (from % 512) as usize;
    poke(disk, to, &sector[start..start + INODE as usize]);
    poke(disk, from, &[0; INODE as usize]);
}

/// A journal with transactions, in the inode of a file as in the first days of ext3.
#[test]
fn a_journal_in_a_file_is_recovered() {
    let mut disk = ram(8 * 1024);
    let choices = Format {
        journal: true,
        inode_ratio: Some(4096),
        ..Format::default()
    };
    format(&mut disk, &choices).unwrap();
    let holder = with_file(&mut disk, ".journal", b"");
    let mut ext = mount(&mut disk);
    let file = put(&mut ext, Ino::ROOT, "file", b"contents");
    ext.fsync(file, Sync::All).unwrap();
    drop(ext);
    move_inode(&mut disk, Ino(8), holder);
    poke(&mut disk, JOURNAL_INODE, &(holder.0 as u32).to_le_bytes());
    let mut ext = mount(&mut disk);
    assert!(ext.lookup(Ino::ROOT, b"file").is_ok());
    ext.unmount().unwrap();
    drop(ext);
    assert_eq!(findings(&mut disk), []);
}

/// Writes patches until there are none, then names what lost its name.
fn repair(disk: &mut Ram) {
    for _ in 0..4 {
        let patches = read_only(&mut *disk).repair().unwrap();
        for patch in &patches {
            poke(disk, patch.at, &patch.bytes);
        }
        let mut ext = mount(&mut *disk);
        _ = ext.reconnect(NOW);
        ext.unmount().unwrap();
    }
}

/// Makes a directory with a file, and removes `lost+found`.
fn without_lost_and_found(disk: &mut Ram) -> (Ino, Ino) {
    let mut ext = mount(&mut *disk);
    ext.rmdir(Ino::ROOT, b"lost+found", NOW).unwrap();
    let dir = mkdir(&mut ext, Ino::ROOT, "dir");
    let file = put(&mut ext, dir, "file", b"contents");
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(disk, "before");
    (dir, file)
}

#[test]
fn dates_flags_and_a_directory_for_lost_files_are_repaired() {
    let mut disk = plain("");
    let made = without_lost_and_found(&mut disk);
    let dir = made.0;
    let file = made.1;
    let at = inode_at(&mut disk, file);
    poke(&mut disk, at + DTIME, &12u32.to_le_bytes());
    // The flag of compressed blocks.
    set_bits(&mut disk, at + FLAGS, 0x200);
    // The name goes: its record leads to nothing.
    let dir_at = inode_at(&mut disk, dir);
    let names = u64::from(word(&mut disk, dir_at + BLOCKS)) * 1024;
    poke(&mut disk, names + 24, &[0; 4]);
    repair(&mut disk);
    assert_clean(&mut disk, "repaired");
    let mut ext = read_only(&mut disk);
    let lost = ext.lookup(Ino::ROOT, b"lost+found").unwrap().ino;
    let name = format!("#{}", file.0);
    assert_eq!(ext.lookup(lost, name.as_bytes()).unwrap().ino, file);
}

#[test]
fn the_blocks_of_an_inode_whose_mode_is_in_doubt_stay() {
    let mut disk = plain("");
    let mut ext = mount(&mut disk);
    let dir = mkdir(&mut ext, Ino::ROOT, "dir");
    ext.unmount().unwrap();
    drop(ext);
    let at = inode_at(&mut disk, dir);
    // A socket with the length and the block of a directory.
    poke(&mut disk, at, &0o140_755u16.to_le_bytes());
    repair(&mut disk);
    assert_eq!(word(&mut disk, at + 4), 1024);
    let found = findings(&mut disk);
    let lost = |one: &Finding| matches!(one, Finding::LostBlocks { .. });
    assert!(found.iter().any(lost), "the block stays taken: {found:?}");
}
