//! Each rule of super blocks, entries, commits and pages at its bound.

use super::*;

pub(in crate::log) const SHAPE: Shape = Shape {
    pebs: 20,
    peb_bytes: 16384,
    page: 512,
    vid_offset: 0,
    data_offset: 0,
    leb_bytes: 16384,
};

pub(in crate::log) fn copied() -> VidHeader {
    VidHeader {
        volume: 3,
        lnum: 7,
        sqnum: 99,
        copy: true,
        data_size: 5,
        data_crc: 6,
        ..VidHeader::default()
    }
}

fn entries() -> Vec<Entry> {
    let vid = copied();
    (0..20)
        .map(|i| Entry {
            role: ROLES[i as usize % 6],
            ec: i,
            vid: if i % 6 == 1 {
                vid
            } else {
                VidHeader::default()
            },
        })
        .collect()
}

#[test]
fn super_blocks_come_back() {
    let entry = Super {
        number: 5,
        commit: 4,
        sqnum: 3,
        image_seq: 2,
        ecs: [8, 9],
        blocks: [0, 19],
        present: vec![1, 2],
        future: vec![3],
        log: vec![4, 5],
        superblock: Superblock::Chain,
        commits: Commit::Incremental,
        index: 7,
        spare: vec![6, 10],
    };
    let bytes = entry.encode(&SHAPE).unwrap();
    assert_eq!(
        (bytes.len(), Super::parse(&bytes, &SHAPE)),
        (512, Ok(entry.clone()))
    );
    assert_eq!(
        Super::parse(&bytes, &Shape { pebs: 19, ..SHAPE })
            .unwrap_err()
            .field,
        "erase blocks"
    );
    assert_eq!(
        Super {
            present: vec![0; 110],
            ..entry
        }
        .encode(&SHAPE),
        None
    );
    assert_eq!(Super::parse(&[0xFF; 512], &SHAPE).unwrap_err().offset, 0);
}

#[test]
fn commits_and_pages_come_back_compressed_or_not() {
    for compress in [false, true] {
        let bytes = encode_commit(7, &entries(), compress);
        assert_eq!(commit_length(&bytes), Some(bytes.len()));
        assert_eq!(parse_commit(&bytes, 7, &SHAPE).unwrap(), entries());
        assert_eq!(bytes.len() as u64 == commit_bytes(20), !compress);
        assert_eq!(
            parse_commit(&bytes, 8, &SHAPE).unwrap_err().field,
            "commit number"
        );
        let mut torn = bytes.clone();
        *torn.last_mut().unwrap() ^= 1;
        assert_eq!(
            parse_commit(&torn, 7, &SHAPE).unwrap_err().field,
            "commit checksum"
        );
    }
    let some: Vec<(u32, Entry)> = (0..7).zip(entries()).collect();
    let page = encode_page(7, 3, &some, 512);
    assert_eq!(parse_page(&page, 7, 3, &SHAPE).unwrap(), some);
    assert_eq!(
        parse_page(&page, 7, 4, &SHAPE).unwrap_err().field,
        "page of the log"
    );
}

fn super_block() -> Super {
    Super {
        present: vec![1, 19],
        log: vec![4],
        ..Super::default()
    }
}

/// A page with another word, its checksum in the last word brought up to date.
fn resummed(mut bytes: Vec<u8>, at: usize, word: u32, sum_at: usize) -> Vec<u8> {
    put(&mut bytes, at, &word.to_be_bytes());
    put(&mut bytes, sum_at, &[0; 4]);
    let rest = &bytes[(sum_at + 4).min(bytes.len())..];
    let sum = crc_of(&[&bytes[..sum_at], rest]);
    put(&mut bytes, sum_at, &sum.to_be_bytes());
    bytes
}

#[test]
fn each_rule_of_a_super_block_holds_from_its_bound_on() {
    let whole = super_block().encode(&SHAPE).unwrap();
    let refused = |at: usize, word: u32| {
        let bytes = resummed(whole.clone(), at, word, 508);
        Super::parse(&bytes, &SHAPE).err().map(|error| error.field)
    };
    // Offset, a word within the rule, one beyond, the field.
    #[rustfmt::skip]
    let rules = [
        (0, SUPER_MAGIC, 0, "super block magic"),
        (4, VERSION, VERSION + 1, "super block version"),
        (32, 20, 21, "erase blocks"),
        (36, 16384, 8192, "bytes of an erase block"),
        (40, 512, 1024, "page"),
        (44, 0, 1, "offset of the volume header"),
        (48, 0, 1, "offset of the data"),
        (84, 3, 4, "super block flags"),
        (64, 102, 104, "blocks in a list"),
        (72, 101, 102, "blocks in a list"),
        (96, 19, 20, "block number"),
        (100, 19, 20, "block number"),
        (104, 19, 20, "block number"),
    ];
    for (at, within, beyond, field) in rules {
        assert_ne!(refused(at, within), Some(field), "byte {at}");
        assert_eq!(refused(at, beyond), Some(field), "byte {at}");
    }
    let mut struck = whole.clone();
    struck[200] ^= 1;
    let error = Super::parse(&struck, &SHAPE).unwrap_err();
    assert_eq!((error.field, error.offset), ("super block checksum", 508));
    // Four lists, and a checksum at the end of the page.
    let full = |blocks: usize| Super {
        future: vec![0; blocks],
        ..Super::default()
    };
    assert_eq!(Super::bytes(103), 512);
    assert!(full(103).encode(&SHAPE).is_some() && full(104).encode(&SHAPE).is_none());
    assert_eq!(
        Super::parse(&full(103).encode(&SHAPE).unwrap(), &SHAPE),
        Ok(full(103))
    );
    let short = Super::parse(&whole[..99], &SHAPE).unwrap_err();
    assert_eq!((short.field, short.found), ("super block", 99));
}

#[test]
fn each_rule_of_an_entry_holds_from_its_bound_on() {
    let one = entries()[1];
    let refused = |at: usize, byte: u8| {
        let mut bytes = [0; ENTRY];
        one.encode(19, &mut bytes);
        bytes[at] = byte;
        let sum = crc(&bytes[..60]);
        put(&mut bytes, 60, &sum.to_be_bytes());
        Entry::parse(&bytes, 640, &SHAPE)
            .err()
            .map(|error| (error.offset, error.field))
    };
    // Offset of a byte, a value within the rule, one beyond, the place and the field.
    #[rustfmt::skip]
    let rules = [
        (3, 19, 20, 640, "block number"),
        (4, 5, 6, 644, "role"),
        (5, 1, 0, 645, "volume type"),
        (5, 1, 3, 645, "volume type"),
        (6, 1, 2, 646, "copy flag"),
        (7, 0, 1, 647, "compatibility"),
        (8, 0x7F, 0x80, 648, "erase counter"),
        (12, 0, 0x80, 652, "volume id"),
        (15, 127, 128, 652, "volume id"),
        (16, 0x7F, 0x80, 656, "logical block"),
        (20, 0, 1, 660, "data size"),
    ];
    for (at, within, beyond, offset, field) in rules {
        assert_eq!(refused(at, within), None, "byte {at}");
        assert_eq!(refused(at, beyond), Some((offset, field)), "byte {at}");
    }
    let internal = |volume: u32| {
        let vid = VidHeader {
            volume,
            compat: 5,
            ..one.vid
        };
        let entry = Entry { vid, ..one };
        let mut bytes = [0; ENTRY];
        entry.encode(0, &mut bytes);
        Entry::parse(&bytes, 0, &SHAPE).is_ok()
    };
    assert!(internal(LAYOUT_VOLUME) && !internal(LAYOUT_VOLUME + 1));
}

#[test]
fn each_rule_of_a_commit_and_of_a_page_holds_from_its_bound_on() {
    let whole = encode_commit(7, &entries(), false);
    let refused = |at: usize, word: u32| {
        let bytes = resummed(whole.clone(), at, word, 60);
        parse_commit(&bytes, 7, &SHAPE)
            .err()
            .map(|error| error.field)
    };
    let stored = 20 * ENTRY as u32;
    assert_eq!(refused(16, stored), None);
    #[rustfmt::skip]
    let rules = [
        (0, 0, "commit magic"),
        (4, VERSION + 1, "commit version"),
        (8, 2, "compression"),
        (12, 19, "entries of a commit"),
        (16, stored + 1, "bytes of a commit"),
        (24, 8, "commit number"),
        (64, 1, "entry checksum"),
    ];
    for (at, word, field) in rules {
        assert_eq!(refused(at, word), Some(field), "byte {at}");
    }
    assert!(parse_commit(&whole[..63], 7, &SHAPE).is_err());
    assert_eq!(
        (commit_length(&whole[..63]), commit_length(&whole[..64])),
        (None, Some(whole.len()))
    );
    assert_eq!(commit_length(&[0; 64]), None);
    // A commit of other blocks' entries.
    let mut swapped = whole.clone();
    swapped[64..64 + 2 * ENTRY].rotate_left(ENTRY);
    let sum = crc_of(&[&swapped[..60], &swapped[64..]]);
    put(&mut swapped, 60, &sum.to_be_bytes());
    let error = parse_commit(&swapped, 7, &SHAPE).unwrap_err();
    assert_eq!((error.field, error.offset), ("block number", 64));

    let some: Vec<(u32, Entry)> = (0..7).zip(entries()).collect();
    assert_eq!(entries_per_page(512), 7);
    let page = encode_page(7, 3, &some, 512);
    let refused = |at: usize, word: u32| {
        let bytes = resummed(page.clone(), at, word, 60);
        parse_page(&bytes, 7, 3, &SHAPE)
            .err()
            .map(|error| error.field)
    };
    assert_eq!(
        (refused(20, 7), refused(20, 8)),
        (None, Some("entries of a page"))
    );
    let rules = [
        (0, 0, "log magic"),
        (4, 9, "log version"),
        (12, 8, "commit number"),
    ];
    for (at, word, field) in rules {
        assert_eq!(refused(at, word), Some(field), "byte {at}");
    }
    let mut struck = page.clone();
    struck[30] ^= 1;
    assert_eq!(
        parse_page(&struck, 7, 3, &SHAPE).unwrap_err().field,
        "log checksum"
    );
}
