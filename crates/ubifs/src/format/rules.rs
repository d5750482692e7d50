//! Each rule of a superblock, a master node and the properties takes the last value within it. It
//! refuses the first value beyond by the name of the field.

use super::{
    BIG_LPT, Branch, Draft, Geometry, KeyHash, LptShape, Ltab, Master, Place, Props, Space, Super,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const LEB: u32 = 126_976;
const LEBS: u32 = 100;

pub(crate) fn geometry() -> Geometry {
    Geometry {
        min_io: 2048,
        leb: LEB,
        lebs: LEBS,
        lebs_max: 200,
        log_lebs: 4,
        lpt_lebs: 2,
        orphan_lebs: 1,
        fanout: 8,
    }
}

fn head() -> Super {
    Super {
        geometry: geometry(),
        key_hash: KeyHash::R5,
        flags: 0,
        version: 4,
        compressor: 1,
        bud_bytes: 8 * u64::from(LEB),
        reserved_bytes: 0,
        saved_lebs: 1,
        uuid: [7; 16],
    }
}

fn superblock() -> Vec<u8> {
    head().draft().summed()
}

/// The superblock with another word of one to eight bytes.
fn changed(at: usize, value: u64, len: usize) -> Vec<u8> {
    let mut node = Draft::again(&superblock());
    node.bytes(at, &value.to_le_bytes()[..len]);
    node.summed()
}

fn parsed(bytes: &[u8], page: Option<u32>) -> Option<String> {
    let parsed = Super::parse(bytes, LEB, LEBS, page);
    parsed.err().map(|error| error.to_string())
}

#[test]
fn each_rule_of_a_superblock_holds_from_its_bound_on() {
    let main = 200 - 3 - 4 - 2 - 1;
    let main_bytes = main * u64::from(LEB);
    let leb = u64::from(LEB);
    let buds = [3 * leb, main_bytes];
    let no_buds = [3 * leb - 1, main_bytes + 1];
    // Offset, bytes, the last values within, the first values beyond, the field.
    #[rustfmt::skip]
    type Rule<'a> = (usize, usize, &'a [u64], &'a [u64], &'static str);
    let rules: &[Rule<'_>] = &[
        (26, 1, &[0, 1], &[2, 255], "the hash of keys"),
        (27, 1, &[0], &[1], "the format of keys"),
        (28, 4, &[0x02, 0x04, 0x08], &[0x10], "encryption"),
        (28, 4, &[0], &[0x20], "authentication"),
        (28, 4, &[0], &[0x40, 0x01], "a flag beyond 0x3e"),
        (
            32,
            4,
            &[8, 2048, 4096],
            &[24, 3 << 10, 8192],
            "the least write",
        ),
        (
            36,
            4,
            &[leb],
            &[leb - 8, leb + 8],
            "the length of logical blocks",
        ),
        (
            40,
            4,
            &[11, 100],
            &[10, 101],
            "the number of logical blocks",
        ),
        (44, 4, &[100, 201], &[99], "the number of logical blocks"),
        (48, 8, &buds, &no_buds, "the length of the journal"),
        (56, 4, &[2], &[1], "the blocks of an area"),
        (56, 4, &[93], &[94], "the number of logical blocks"),
        (60, 4, &[2], &[1], "the blocks of an area"),
        (64, 4, &[1], &[0], "the blocks of an area"),
        (68, 4, &[1], &[0, 2], "the number of data heads"),
        (72, 4, &[3, 6347], &[2, 6348], "the fanout"),
        (80, 4, &[3, 4], &[2], "a format before 3"),
        (80, 4, &[4], &[5], "the flags of format 5"),
        (84, 2, &[0, 3], &[4], "the default compressor"),
        (
            96,
            8,
            &[main_bytes],
            &[main_bytes + 1],
            "the reserved space",
        ),
        (
            104,
            4,
            &[1, 1_000_000_000],
            &[0, 1_000_000_001],
            "the granularity of times",
        ),
    ];
    for &(at, len, within, beyond, field) in rules {
        for &value in within {
            assert_eq!(
                parsed(&changed(at, value, len), None),
                None,
                "{at}: {value}"
            );
        }
        for &value in beyond {
            let error = parsed(&changed(at, value, len), None).unwrap_or_default();
            assert!(error.contains(field), "{at}: {value}: {error}");
        }
    }
}

#[test]
fn a_superblock_knows_its_page_and_its_kind() {
    assert_eq!(parsed(&superblock(), Some(2048)), None);
    let error = parsed(&superblock(), Some(4096)).unwrap();
    assert!(error.contains("the least write"), "{error}");
    // A page of one byte is a NOR flash, which takes 8.
    assert_eq!(parsed(&changed(32, 1, 4), Some(1)), None);
    assert_eq!(Super::declared(&superblock()), Some((LEB, LEBS)));
    let bounds = [
        (15_359, false),
        (15_360, true),
        (2 << 20, true),
        ((2 << 20) + 1, false),
    ];
    for (leb, fits) in bounds {
        let found = Super::declared(&changed(36, leb, 4));
        assert_eq!(found.map(|(leb, _)| u64::from(leb)), fits.then_some(leb));
    }
    // The type of the node: a master node is none.
    assert_eq!(Super::declared(&changed(20, 7, 1)), None);
}

pub(crate) fn master() -> Master {
    Master {
        sqnum: 9,
        highest_inode: 70,
        commit: 3,
        flags: 0,
        log_lnum: 3,
        root: Branch {
            lnum: 20,
            offs: 0,
            len: 48,
        },
        gc_lnum: Some(30),
        index_head: (20, 2048),
        index_bytes: 48,
        space: Space {
            free: 800,
            dirty: 80,
            used: 8,
            dead: 16,
            dark: 24,
            empty_lebs: 5,
            index_lebs: 1,
        },
        lpt_root: (7, 0),
        lpt_head: (7, 2048),
        ltab: (8, 0),
        saved: (8, 0),
        scan_lnum: 12,
        lebs: LEBS,
    }
}

/// A change of a master node, the values within its rule, those beyond, and the field.
type Rule = (
    fn(&mut Master, u64),
    &'static [u64],
    &'static [u64],
    &'static str,
);

const MAIN: u64 = 90 * LEB as u64;

fn place(value: u64) -> Place {
    (value as u32, 0)
}

#[rustfmt::skip]
const RULES: &[Rule] = &[
    (|m, v| m.sqnum = v, &[super::SQNUM_LIMIT - 1], &[super::SQNUM_LIMIT], "the sequence number"),
    (|m, v| m.log_lnum = v as u32, &[3, 6], &[2, 7], "the first block of the log"),
    (|m, v| m.root.lnum = v as u32, &[10, 99], &[9, 100], "the block of the index root"),
    (|m, v| m.root.len = v as u32, &[48, 188], &[47, 189], "the block of the index root"),
    (|m, v| m.root.offs = v as u32, &[8, 126_928], &[4, 126_936], "the block of the index root"),
    (|m, v| m.gc_lnum = Some(v as u32), &[10, 99], &[9, 100], "the block for collection"),
    (|m, v| m.index_head = place(v), &[10, 99], &[9, 100], "the head of the index"),
    (|m, v| m.index_head.1 = v as u32, &[0, 126_976], &[8, 129_024], "the head of the index"),
    (|m, v| m.index_bytes = v, &[8, MAIN - 48], &[4, MAIN], "the length of the index"),
    (|m, v| m.lpt_root = place(v), &[7, 8], &[6, 9], "a block of the properties"),
    (|m, v| m.lpt_head.1 = v as u32, &[126_976], &[126_977], "a block of the properties"),
    (|m, v| m.ltab = place(v), &[7, 8], &[6, 9], "a block of the properties"),
    (|m, v| m.space.empty_lebs = v as u32, &[89], &[90], "the empty blocks"),
    (|m, v| m.space.index_lebs = v as u32, &[89], &[90], "the blocks of the index"),
    (|m, v| m.space.free = v, &[0, MAIN - 88], &[4, MAIN + 8], "a total of bytes"),
    (|m, v| m.space.dark = v, &[0, MAIN - 72], &[4, MAIN + 8], "a total of bytes"),
    (|m, v| m.space.free = v, &[MAIN - 88], &[MAIN - 80], "free, dirty and used bytes"),
    (|m, v| m.space.dark = v, &[MAIN - 72], &[MAIN - 64], "dead, dark, used and index bytes"),
];

#[test]
fn each_rule_of_a_master_node_holds_from_its_bound_on() {
    let here = geometry();
    assert!(master().validate(&here).is_ok());
    for (number, (change, within, beyond, field)) in RULES.iter().enumerate() {
        let judged = |value: u64| {
            let mut node = master();
            change(&mut node, value);
            node.validate(&here)
                .map_err(|fault| fault.at(1, 0).to_string())
        };
        for value in *within {
            assert_eq!(judged(*value), Ok(()), "rule {number}: {value}");
        }
        for value in *beyond {
            let error = judged(*value).unwrap_err();
            assert!(error.contains(field), "rule {number}: {value}: {error}");
        }
    }
}

#[test]
fn a_master_node_comes_back_from_its_bytes() {
    let bytes = master().draft().summed();
    let found = Master::parse(&bytes, master().sqnum);
    assert_eq!(found, master());
}

/// The shapes of both forms of the tree of properties.
fn shapes() -> [LptShape; 2] {
    let big = Super {
        flags: BIG_LPT,
        saved_lebs: 5,
        ..head()
    };
    [LptShape::new(&head()), LptShape::new(&big)]
}

#[test]
fn nodes_of_the_properties_have_the_lengths_of_linux() {
    let [small, big] = shapes();
    let lengths = |shape: &LptShape| {
        let nodes = (shape.pnode_bytes(), shape.nnode_bytes());
        (nodes, shape.ltab_bytes(), shape.saved_bytes())
    };
    // 16 bits of checksum and 4 of the type; 14 bits of space, 2 of a block, 17 of a place.
    assert_eq!(lengths(&small), ((17, 12), 11, 0));
    // Six bits of a number; five blocks of eight bits.
    assert_eq!(lengths(&big), ((18, 13), 11, 8));
    // 90 blocks now, 190 in the end.
    assert_eq!((small.height, small.pnodes()), (3, 23));
    assert_eq!([0, 1, 2, 3].map(|level| small.nodes(level)), [23, 6, 2, 1]);
}

#[test]
fn each_rule_of_the_properties_holds_from_its_bound_on() {
    for shape in shapes() {
        let leaf = |free: u32, dirty: u32| {
            let mut all = [Props::default(); 4];
            all[3] = Props {
                free,
                dirty,
                is_index: true,
            };
            let found = shape.parse_pnode(&shape.pnode(7, &all), 7);
            found.is_ok_and(|found| found == all)
        };
        let within = [(0, 0), (0, LEB), (LEB, 0), (2048, LEB - 2048)];
        assert!(within.into_iter().all(|(free, dirty)| leaf(free, dirty)));
        let beyond = [(1024, 0), (LEB + 2048, 0), (2048, LEB - 2040)];
        assert!(!beyond.into_iter().any(|(free, dirty)| leaf(free, dirty)));

        let above = |place: Option<Place>| {
            let all = [None, Some((7, 0)), place, None];
            let found = shape.parse_nnode(&shape.nnode(9, &all), 9);
            found.is_ok_and(|found| found == all)
        };
        assert!(above(None) && above(Some((8, LEB - 1))));
        // The third block stands for an absent child, and has no place.
        assert!(!above(Some((9, 1))) && !above(Some((10, 0))) && !above(Some((8, LEB))));

        let table = |free: u32, dirty: u32| {
            let all = [Ltab { free: 0, dirty: 0 }, Ltab { free, dirty }];
            let found = shape.parse_ltab(&shape.ltab(&all));
            found.is_ok_and(|found| found[..] == all)
        };
        assert!(table(LEB, 0) && table(2048, LEB - 2048) && table(0, LEB));
        assert!(!table(1024, 0) && !table(LEB, 1) && !table(2048, LEB - 2047));
        // The checksum covers every byte.
        let mut bytes = shape.pnode(7, &[Props::default(); 4]);
        bytes[5] ^= 1;
        assert!(shape.parse_pnode(&bytes, 7).is_err());
        assert!(shape.parse_pnode(&shape.nnode(7, &[None; 4]), 7).is_err());
    }
}

#[test]
fn the_big_form_has_numbers_and_saved_blocks() {
    let [small, big] = shapes();
    let all = [Props::default(); 4];
    let node = big.pnode(7, &all);
    assert!(big.parse_pnode(&node, 7).is_ok() && big.parse_pnode(&node, 8).is_err());
    // Numbers have six bits.
    assert!(big.parse_pnode(&node, 7 + 64).is_ok());
    assert!(small.parse_pnode(&small.pnode(7, &all), 8).is_ok());
    let saved = |lnum: u32| {
        let found = big.parse_saved(&big.saved([10, 11, 12, 13, lnum]));
        found.is_ok_and(|found| found == [10, 11, 12, 13, lnum])
    };
    assert!(saved(10) && saved(199) && !saved(9) && !saved(200));
    // `calc_nnode_num_from_parent` in Linux's fs/ubifs/lpt.c.
    let children = |parent, level| [0, 1, 2, 3].map(|at| big.nnode_number(parent, level, at));
    assert_eq!(children(1, 3), [4, 5, 6, 7]);
    assert_eq!(children(5, 2), [17, 21, 25, 29]);
}
