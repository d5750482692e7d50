//! Each rule of a superblock takes the last value within it, and refuses the first value beyond by
//! the name of the field. Also where groups keep their copies and descriptors.

use crate::ExtError;
use crate::format::{Layout, MAGIC, compat, incompat, put16, put32, ro_compat, sb};
use alloc::{vec, vec::Vec};

/// Two groups of blocks of 1 KiB, of which the second has no second half.
fn volume() -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    put16(&mut bytes, sb::MAGIC, MAGIC);
    put16(&mut bytes, sb::INODE_SIZE, 256);
    put16(&mut bytes, sb::DESC_SIZE, 64);
    let words = [
        (sb::REVISION, 1),
        (sb::FIRST, 1),
        (sb::BLOCKS, 12_289),
        (sb::PER_GROUP, 8192),
        (sb::INODES, 4096),
        (sb::INODES_PER_GROUP, 2048),
        (sb::FIRST_INODE, 11),
        (sb::COMPAT, compat::RESIZE_INODE),
    ];
    words
        .iter()
        .for_each(|(at, value)| put32(&mut bytes, *at, *value));
    bytes
}

fn with(words: &[(usize, u32)]) -> Result<Layout, ExtError> {
    let mut bytes = volume();
    words
        .iter()
        .for_each(|(at, value)| put32(&mut bytes, *at, *value));
    Layout::parse(&bytes)
}

/// The field that the parser refuses.
fn refused(bytes: &[u8]) -> Option<&'static str> {
    match Layout::parse(bytes).err()? {
        ExtError::Super { field, .. } | ExtError::Unsupported { field, .. } => Some(field),
        ExtError::Feature { .. } => Some("feature"),
        error => panic!("{error}"),
    }
}

/// Offset, bytes, values within the rule, values beyond, the field.
type Rule = (usize, usize, &'static [u32], &'static [u32], &'static str);

#[rustfmt::skip]
const RULES: &[Rule] = &[
    (sb::MAGIC, 2, &[0xEF53], &[0xEF52, 0xEF54], "magic"),
    (sb::REVISION, 4, &[0, 1], &[2], "revision"),
    (sb::LOG_BLOCK, 4, &[0, 1, 2], &[3, 6, 7], "block size"),
    (sb::LOG_FRAGMENT, 4, &[0], &[1, u32::MAX], "size of fragments"),
    (sb::FIRST, 4, &[1], &[0, 2], "first block"),
    (sb::BLOCKS, 4, &[10, 12_289], &[9], "blocks"),
    (sb::PER_GROUP, 4, &[256, 8192], &[248, 252, 8200], "blocks of a group"),
    (sb::INODE_SIZE, 2, &[128, 1024], &[64, 192, 2048], "bytes of an inode"),
    (sb::INODES_PER_GROUP, 4, &[4, 8192], &[0, 2, 8196], "inodes of a group"),
    (sb::FIRST_INODE, 4, &[11, 4095], &[10, 4096], "first inode"),
    (sb::RESERVED_GDT, 2, &[0, 256], &[257], "reserved descriptor blocks"),
    (sb::INODES, 4, &[4096], &[4095, 4097], "inodes"),
    (sb::INCOMPAT, 4, &[0, incompat::FILETYPE], &[1, 1 << 31], "feature"),
];

#[test]
fn each_rule_of_a_superblock_holds_from_its_bound_on() {
    assert_eq!(refused(&volume()), None);
    for &(at, len, within, beyond, field) in RULES {
        let judged = |value: u32| {
            let mut bytes = volume();
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            refused(&bytes)
        };
        for value in within {
            assert_ne!(judged(*value), Some(field), "{value}");
        }
        for value in beyond {
            assert_eq!(judged(*value), Some(field), "{value}");
        }
    }
}

#[test]
fn rules_of_features_hold_where_the_volume_has_them() {
    let wide = |size: u32| {
        let mut bytes = volume();
        put32(&mut bytes, sb::INCOMPAT, incompat::WIDE);
        put16(&mut bytes, sb::DESC_SIZE, size as u16);
        refused(&bytes)
    };
    assert_eq!([64, 1024].map(wide), [None; 2]);
    assert_eq!(
        [32, 96, 2048].map(wide),
        [Some("length of a descriptor"); 3]
    );
    assert!(with(&[(sb::BLOCKS_HIGH, 1)]).is_ok());
    assert!(with(&[(sb::INCOMPAT, incompat::WIDE), (sb::BLOCKS_HIGH, 1)]).is_err());
    // Descriptors of two groups take one block.
    let meta = |first| {
        with(&[
            (sb::INCOMPAT, incompat::META_BG),
            (sb::FIRST_META_BG, first),
        ])
    };
    assert!(meta(0).is_ok() && meta(1).is_ok() && meta(2).is_err());
    // Clusters of 16 blocks: a group has as many clusters as a block has bits.
    let clusters = |log: u32, per_group: u32| {
        let fields = [
            (sb::RO_COMPAT, ro_compat::BIGALLOC),
            (sb::LOG_FRAGMENT, log),
            (sb::PER_GROUP, per_group),
            (sb::BLOCKS, 2 * per_group + 1),
        ];
        with(&fields).map(|layout| layout.cluster)
    };
    assert_eq!((clusters(4, 131_072), clusters(0, 8192)), (Ok(16), Ok(1)));
    assert!(clusters(4, 131_200).is_err() && clusters(4, 131_080).is_err());
    assert!(clusters(16, 1 << 19).is_ok() && clusters(17, 1 << 20).is_err());
}

#[test]
fn the_first_revision_has_no_fields_beyond_its_own() {
    let fields = [
        (sb::REVISION, 0),
        (sb::INCOMPAT, 1 << 31),
        (sb::FIRST_INODE, 99),
    ];
    let layout = with(&fields).unwrap();
    assert_eq!(
        (layout.inode_size, layout.first_inode, layout.extra_isize),
        (128, 11, 0)
    );
    assert_eq!(
        (layout.compat, layout.incompat, layout.reserved_gdt),
        (0, 0, 0)
    );
}

#[test]
fn new_inodes_have_as_many_further_bytes_as_the_volume_wants() {
    let extra = |wanted: u16| {
        let mut bytes = volume();
        put16(&mut bytes, sb::WANT_EXTRA, wanted);
        Layout::parse(&bytes).unwrap().extra_isize
    };
    assert_eq!([28, 32, 128].map(extra), [28, 32, 128]);
    assert_eq!([0, 24, 30, 132].map(extra), [32; 4]);
}

#[test]
fn blocks_and_inodes_lie_in_their_groups() {
    let layout = with(&[]).unwrap();
    assert_eq!((layout.groups, layout.table_blocks()), (2, 512));
    assert_eq!([0, 1].map(|group| layout.group_start(group)), [1, 8193]);
    assert_eq!([0, 1].map(|group| layout.group_blocks(group)), [8192, 4096]);
    let found = [1, 8192, 8193, 12_288].map(|block| layout.group_of(block));
    assert_eq!(found, [(0, 0), (0, 8191), (1, 0), (1, 4095)]);
    let found = [1, 2048, 2049, 4096].map(|inode| layout.inode_group(inode));
    assert_eq!(found, [(0, 0), (0, 2047), (1, 0), (1, 2047)]);
    let is_block = [1, 2, 12_288, 12_289].map(|block| layout.is_block(block));
    assert_eq!(is_block, [false, true, true, false]);
    let journal = [8, 10, 11, 4096, 4097].map(|inode| layout.is_journal_inode(inode));
    assert_eq!(journal, [true, false, true, true, false]);
}

#[test]
fn flags_of_inodes_are_foreign_without_their_feature() {
    let foreign = |features: u32| with(&[(sb::INCOMPAT, features)]).unwrap().foreign_flags();
    // `EXT4_EA_INODE_FL`, `EXT4_EXTENTS_FL`, `EXT4_INLINE_DATA_FL`; encryption is always foreign.
    let features = [
        (incompat::EA_INODE, 0x0020_0000),
        (incompat::EXTENTS, 0x0008_0000),
        (incompat::INLINE_DATA, 0x1000_0000),
    ];
    let all = 0x1028_0800;
    assert_eq!(foreign(0), all);
    for (feature, flag) in features {
        assert_eq!(foreign(feature), all & !flag);
    }
}

/// A hundred groups with 32 descriptors in a block.
fn groups(features: &[(usize, u32)]) -> Layout {
    let mut fields = vec![(sb::BLOCKS, 819_201), (sb::INODES, 204_800)];
    fields.extend(features);
    with(&fields).unwrap()
}

#[test]
fn copies_of_the_superblock_are_where_the_features_say() {
    let copies = |layout: Layout| {
        let has = (0..100).filter(|group| layout.has_super(*group));
        has.collect::<Vec<u32>>()
    };
    assert_eq!(copies(groups(&[])).len(), 100);
    let sparse = copies(groups(&[(sb::RO_COMPAT, ro_compat::SPARSE_SUPER)]));
    assert_eq!(sparse, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81]);
    let named = [
        (sb::COMPAT, compat::SPARSE_SUPER2),
        (sb::BACKUP_GROUPS, 1),
        (sb::BACKUP_GROUPS + 4, 99),
    ];
    assert_eq!(copies(groups(&named)), [0, 1, 99]);
}

#[test]
fn descriptors_lie_behind_the_superblock_or_with_their_groups() {
    let sparse = (sb::RO_COMPAT, ro_compat::SPARSE_SUPER);
    let mut plain = groups(&[sparse]);
    plain.reserved_gdt = 7;
    assert_eq!(plain.desc_blocks(), 4);
    let headers = [0, 1, 2, 49].map(|group| (plain.header_in_use(group), plain.header(group)));
    assert_eq!(headers, [(5, 12), (5, 12), (0, 0), (5, 12)]);
    let places = [0, 1, 32, 99].map(|group| plain.desc_place(group));
    assert_eq!(places, [(2, 0), (2, 32), (3, 0), (5, 96)]);
    // From the second block on, descriptors lie in the first, second and last of their groups.
    let meta = [
        sparse,
        (sb::INCOMPAT, incompat::META_BG),
        (sb::FIRST_META_BG, 1),
    ];
    let mut meta = groups(&meta);
    meta.reserved_gdt = 7;
    let headers = [0, 3, 31, 32, 33, 34, 49, 63, 64, 81].map(|group| meta.header_in_use(group));
    assert_eq!(headers, [2, 2, 0, 1, 1, 0, 1, 1, 1, 1]);
    assert_eq!([3, 81].map(|group| meta.header(group)), [9, 1]);
    let start = |group| meta.group_start(group);
    let places = [31, 32, 33, 95, 96].map(|group| meta.desc_place(group));
    let expected = [
        (2, 992),
        (start(32), 0),
        (start(32), 32),
        (start(64), 992),
        (start(96), 0),
    ];
    assert_eq!(places, expected);
}

#[test]
fn the_longest_files_are_those_of_linux() {
    // Direct blocks, and three levels of 256 pointers.
    let layout = with(&[]).unwrap();
    let mapped = (12 + 256 + 256 * 256 + 256 * 256 * 256) * 1024;
    assert_eq!(layout.mapped_bytes_max(), mapped);
    assert_eq!((layout.file_bytes_max(), layout.pointers()), (mapped, 256));
    assert_eq!(layout.extent_bytes_max(), u64::from(u32::MAX) << 10);
    // In blocks of 4 KiB the count of `i_blocks` ends first.
    let large = [
        (sb::LOG_BLOCK, 2),
        (sb::LOG_FRAGMENT, 2),
        (sb::FIRST, 0),
        (sb::BLOCKS, 16_384),
    ];
    let layout = with(&large).unwrap();
    let counted = u64::from(u32::MAX) * 512 / 1026 * 1024;
    assert_eq!(layout.file_bytes_max(), counted / 4096 * 4096);
    assert!(layout.file_bytes_max() < layout.mapped_bytes_max());
    assert_eq!(layout.super_place(), (0, 1024));
}
