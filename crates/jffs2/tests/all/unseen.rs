//! What a mount passes over without a word, as Linux does, and a check has to report.

use crate::common::{NOW, bytes, nor, nor_of, put, read_only};
use crate::hostile::{BLOCK, crc, damage_of, find, forge, forge_name, medium, nodes, with_name};
use nandlab_jffs2::{Finding, Jffs2, Options, Severity, Unreached};
use nandlab_vfs::{FileSystem, Ino, SetXattr};

/// Finds a node's finding by its words.
fn is_node(finding: &Finding, place: usize, words: &str) -> bool {
    matches!(finding, Finding::Node { at, what, .. }
        if *at == place as u32 && what.contains(words))
}

#[test]
fn a_node_in_a_block_that_begins_erased_is_damage() {
    let (clean, at) = with_name(b"large");
    let block = at / BLOCK as usize * BLOCK as usize;
    assert!(at - block > 256, "the node lies at {at}");
    for (erased, expected) in [(252, false), (256, true)] {
        let mut image = clean.clone();
        image[block..block + erased].fill(0xFF);
        let found = damage_of(image);
        let behind = |finding: &Finding| is_node(finding, at, "behind the erased bytes");
        assert_eq!(found.iter().any(behind), expected, "{erased}: {found:?}");
    }
}

#[test]
fn a_name_that_a_list_promises_and_that_is_gone_is_damage() {
    const LIST: [u8; 4] = 0x0285_1885_u32.to_le_bytes();
    let mut image = medium(Options::default());
    let name = b"file number 5";
    let holds = |block: &[u8]| block.windows(name.len()).any(|bytes| bytes == name);
    let mut blocks = image.chunks(BLOCK as usize);
    let block = blocks.position(|block| block.ends_with(&LIST) && holds(block));
    let start = block.expect("a block with the name and a list") * BLOCK as usize;
    let inner = find(&image[start..], 0xE001, |node| {
        node[28] == name.len() as u8 && node[40..].starts_with(name)
    });
    let at = start + inner;
    image[at..at + 40].fill(0xFF);
    let found = damage_of(image);
    let gone = |finding: &Finding| is_node(finding, at, "in the list of its erase block");
    assert!(found.iter().any(gone), "{found:?}");
}

#[test]
fn a_list_whose_nodes_overlap_is_damage() {
    // The place of the first entry, an inode's: kind, inode, version, place, length.
    let found = with_list_changed(42, |place| place + 4);
    assert_lists(&found);
    // The bytes of the clean marker, behind which the first node begins.
    let found = with_list_changed(16, |_| 4000);
    assert_lists(&found);
}

/// The first byte of a block that ends with a list, and in which there is a node of a kind.
fn listed_block(image: &[u8], kind: u16) -> usize {
    const LIST: [u8; 4] = 0x0285_1885_u32.to_le_bytes();
    let has_kind = |block: &[u8]| nodes(block).iter().any(|(_, found)| *found == kind);
    let mut blocks = image.chunks(BLOCK as usize);
    let block = blocks.position(|block| block.ends_with(&LIST) && has_kind(block));
    block.expect("a block with a list") * BLOCK as usize
}

#[test]
fn a_node_that_is_not_what_its_list_says_is_damage() {
    let mut image = medium(Options::default());
    let block = listed_block(&image, 0xE002);
    let node = block + find(&image[block..], 0xE002, |node| word(node, 12) > 1);
    forge(&mut image, (node, 0xE002), 3, 4095);
    let found = damage_of(image.clone());
    let other = |finding: &Finding| is_node(finding, node, "not what the list");
    assert!(found.iter().any(other), "{found:?}");
    // Linux believes the list and drops a node whose head is damaged.
    image[node] ^= 1;
    let found = damage_of(image);
    assert!(found.iter().any(other), "{found:?}");
}

/// Linux takes the newest version, and loses the attribute.
#[test]
fn an_attribute_whose_newest_version_a_cut_has_torn_has_the_version_before() {
    let options = Options {
        summary: false,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(nor(8, BLOCK), options).unwrap();
    let file = put(&mut fs, Ino::ROOT, "file", b"contents");
    fs.setxattr(file, b"user.k", b"value", SetXattr::Any, NOW)
        .unwrap();
    let mut image = fs.into_mtd().into_backing();
    let at = find(&image, 0xE008, |_| true);
    let end = nodes(&image).last().unwrap().0 + 28;
    assert_eq!(image[end..end + 64], [0xFF; 64]);
    // The collector's copy, without its last bytes.
    image.copy_within(at..at + 36, end);
    let version = word(&image, at + 16);
    forge(&mut image, (end, 0xE008), 4, version + 1);
    let mut fs = read_only(nor_of(image, BLOCK));
    let file = fs.lookup(Ino::ROOT, b"file").unwrap().ino;
    assert_eq!(fs.getxattr(file, b"user.k").unwrap(), b"value");
}

#[test]
fn an_attribute_that_a_list_names_and_that_was_overwritten_is_damage() {
    let mut fs = Jffs2::mount(nor(8, BLOCK), Options::default()).unwrap();
    let file = put(&mut fs, Ino::ROOT, "file", b"contents");
    fs.setxattr(file, b"user.k", b"value", SetXattr::Any, NOW)
        .unwrap();
    put(
        &mut fs,
        Ino::ROOT,
        "behind it",
        &bytes(1, 2 * BLOCK as usize),
    );
    let mut image = fs.into_mtd().into_backing();
    let block = listed_block(&image, 0xE009);
    let value = block + find(&image[block..], 0xE008, |_| true);
    let reference = block + find(&image[block..], 0xE009, |_| true);
    for at in [value, reference] {
        image[at..at + 28].fill(0x5A);
    }
    let found = damage_of(image);
    let gone = |finding: &Finding| is_node(finding, reference, "not there, but in the list");
    assert!(found.iter().any(gone), "{found:?}");
}

#[test]
fn a_node_of_inode_0_or_of_version_0_is_damage() {
    for (field, words) in [(3, "inode number 0"), (4, "version 0")] {
        let (mut image, _) = with_name(b"large");
        let at = find(&image, 0xE002, |node| word(node, 28) == 1500);
        forge(&mut image, (at, 0xE002), field, 0);
        let found = damage_of(image);
        let wrong = |finding: &Finding| is_node(finding, at, words);
        assert!(found.iter().any(wrong), "{found:?}");
    }
}

#[test]
fn two_nodes_of_one_version_that_differ_are_damage() {
    let (mut image, _) = with_name(b"large");
    // Two parts of the large file.
    let first = find(&image, 0xE002, |node| word(node, 44) == 4096);
    let ino = word(&image, first + 12);
    let second = find(&image, 0xE002, |node| {
        word(node, 12) == ino && word(node, 44) == 8192
    });
    let version = word(&image, first + 16);
    forge(&mut image, (second, 0xE002), 4, version);
    let found = damage_of(image);
    let places = [first, second];
    let twin = |finding: &Finding| {
        let words = "not the other node with its version";
        places.iter().any(|at| is_node(finding, *at, words))
    };
    assert!(found.iter().any(twin), "{found:?}");
}

/// Linux keeps the version of a hole that it collects, and writes the length of that time.
#[test]
fn a_collected_hole_with_its_old_version_is_no_damage() {
    let options = Options {
        summary: false,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(nor(8, BLOCK), options).unwrap();
    let file = put(&mut fs, Ino::ROOT, "file", b"");
    fs.write(file, 40_000, b"behind a hole", NOW).unwrap();
    fs.write(file, 10_000, b"within the hole", NOW).unwrap();
    let mut image = fs.into_mtd().into_backing();
    let at = find(&image, 0xE002, |node| word(node, 52) == 40_000);
    let last = nodes(&image).last().unwrap().0;
    let end = (last + word(&image, last + 4) as usize).next_multiple_of(4);
    assert_eq!(image[end..end + 68], [0xFF; 68]);
    image.copy_within(at..at + 68, end);
    forge(&mut image, (end, 0xE002), 7, 40_013);
    assert_ne!(image[at..at + 68], image[end..end + 68]);
    assert_eq!(damage_of(image.clone()), []);
    // A hole of another length is no copy.
    forge(&mut image, (end, 0xE002), 13, 39_000);
    let found = damage_of(image);
    let twin = |finding: &Finding| {
        let words = "not the other node with its version";
        [at, end].iter().any(|at| is_node(finding, *at, words))
    };
    assert!(found.iter().any(twin), "{found:?}");
}

/// Damage of a medium, one word of a list of which was changed, with its checksums.
fn with_list_changed(at: usize, change: impl FnOnce(u32) -> u32) -> Vec<Finding> {
    let mut image = medium(Options::default());
    let start = listed_block(&image, 0xE002);
    let end = start + BLOCK as usize;
    let list = start + word(&image, end - 8) as usize;
    assert_eq!(image[list + 32..list + 34], 0xE002_u16.to_le_bytes());
    let value = change(word(&image, list + at));
    image[list + at..list + at + 4].copy_from_slice(&value.to_le_bytes());
    let data = crc(&image[list + 32..end]);
    image[list + 24..list + 28].copy_from_slice(&data.to_le_bytes());
    let own = crc(&image[list..list + 24]);
    image[list + 28..list + 32].copy_from_slice(&own.to_le_bytes());
    damage_of(image)
}

fn assert_lists(found: &[Finding]) {
    let is_list = |finding: &Finding| matches!(finding, Finding::List { .. });
    assert!(found.iter().any(is_list), "{found:?}");
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

#[test]
fn a_file_that_ends_before_its_stated_length_is_damage() {
    let (mut image, _) = with_name(b"large");
    let at = find(&image, 0xE002, |node| node[28..32] == 1500u32.to_le_bytes());
    forge(&mut image, (at, 0xE002), 7, 4_000_000);
    let found = damage_of(image);
    let short = |finding: &Finding| {
        matches!(
            finding,
            Finding::Short {
                found: 1500,
                expected: 4_000_000,
                ..
            }
        )
    };
    assert!(found.iter().any(short), "{found:?}");
}

#[test]
fn a_directory_without_a_node_of_its_own_is_damage() {
    let (mut image, _) = with_name(b"large");
    let at = find(&image, 0xE002, |node| node[12..16] == 2u32.to_le_bytes());
    // Marked in place as not counting any more.
    image[at + 3] &= !0x20;
    let found = damage_of(image);
    assert!(found.contains(&Finding::Bare { ino: 2 }), "{found:?}");
}

#[test]
fn the_removal_of_a_name_that_no_path_can_hold_is_waste() {
    let (mut image, _) = with_name(b"large");
    let at = find(&image, 0xE001, |node| node[20..24] == [0; 4]);
    forge_name(&mut image, at, |node| node[45] = 0);
    let report = read_only(nor_of(image, BLOCK)).check().unwrap();
    let odd = |finding: &&Finding| matches!(finding, Finding::Name { ino: 0, .. });
    let odd = report.findings.iter().find(odd).expect("the name");
    assert_eq!(odd.severity(), Severity::Waste, "{odd}");
}

#[test]
fn nothing_is_written_behind_bytes_that_an_interrupted_write_left() {
    let (mut image, _) = with_name(b"large");
    let block_bytes = BLOCK as usize;
    let used = |block: &[u8]| block.iter().rposition(|byte| *byte != 0xFF).unwrap_or(0) + 1;
    let mut ends = image.chunks(block_bytes).map(used).enumerate();
    let (block, end) = ends
        .find(|(_, end)| (64..block_bytes - 1000).contains(end))
        .expect("a block that is not full");
    let end = block * block_bytes + end.next_multiple_of(4);
    image[end..end + 28].fill(0x5A);
    assert_eq!(damage_of(image.clone()), []);
    let options = Options {
        summary: false,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(nor_of(image, BLOCK), options).unwrap();
    put(&mut fs, Ino::ROOT, "new", b"contents");
    fs.unmount().unwrap();
    assert_eq!(damage_of(fs.into_mtd().into_backing()), []);
}

fn assert_node(found: &[Finding], at: usize, words: &str) {
    let is_it = |finding: &Finding| is_node(finding, at, words);
    assert!(found.iter().any(is_it), "{found:?}");
}

/// Demands damage that is no node and that covers a byte.
fn assert_garbage(found: &[Finding], byte: usize) {
    let byte = byte as u32;
    let covers = |finding: &Finding| match finding {
        Finding::Garbage { at, len, .. } => (*at..*at + *len).contains(&byte),
        _ => false,
    };
    assert!(found.iter().any(covers), "{found:?}");
}

#[test]
fn a_clean_marker_behind_the_start_of_its_block_is_damage() {
    let (mut image, at) = with_name(b"null");
    image[at + 2..at + 4].copy_from_slice(&0x2003_u16.to_le_bytes());
    let head = crc(&image[at..at + 8]);
    image[at + 8..at + 12].copy_from_slice(&head.to_le_bytes());
    // Linux goes on behind the head of the marker, where it finds no node.
    assert_garbage(&damage_of(image), at + 12);
}

#[test]
fn a_name_in_an_inode_that_is_no_directory_is_damage() {
    let (mut image, at) = with_name(b"null");
    let file = find(&image, 0xE001, |node| node[40..].starts_with(b"large"));
    let ino = word(&image, file + 20);
    forge(&mut image, (at, 0xE001), 3, ino);
    let found = damage_of(image);
    let lost = |finding: &Finding| {
        matches!(finding, Finding::Unreachable { path, why: Unreached::NoDirectory, .. }
            if path == b"null")
    };
    assert!(found.iter().any(lost), "{found:?}");
}

/// The name of a removed file, marked on NOR flash. A cut came before the marks of the file's
/// nodes.
#[test]
fn an_inode_whose_name_is_marked_as_obsolete_is_no_damage() {
    let (mut image, at) = with_name(b"file number 5");
    let file = word(&image, at + 20);
    // A node is gone elsewhere: only then does a check report inodes without a name.
    let other = find(&image, 0xE002, |node| word(node, 12) != file);
    image[other..other + 68].fill(0);
    image[at + 3] &= !0x20;
    let is_nameless = |image: &[u8]| {
        let report = read_only(nor_of(image.to_vec(), BLOCK)).check().unwrap();
        let mut findings = report.findings.iter();
        findings.any(|finding| {
            matches!(finding, Finding::Unreachable { ino, why: Unreached::Nameless, .. }
                if *ino == file)
        })
    };
    assert!(!is_nameless(&image));
    // Without the node of the name, nothing says that the file was removed.
    image[at..at + 53].fill(0);
    assert!(is_nameless(&image));
}

#[test]
fn a_name_longer_than_its_node_is_damage() {
    let (mut image, at) = with_name(b"null");
    image[at + 40..at + 44].fill(0xFF);
    image[at + 28] = 255;
    // The checksum is right for the bytes behind the node, and Linux takes them.
    forge_name(&mut image, at, |_| ());
    assert_node(&damage_of(image), at, "length of the name");
}

#[test]
fn a_zeroed_sector_is_damage() {
    let (mut image, at) = with_name(b"null");
    let sector = at / 512 * 512;
    image[sector..sector + 512].fill(0);
    assert_garbage(&damage_of(image), at);
}

#[test]
fn an_attribute_longer_than_its_node_is_damage() {
    let (mut image, _) = with_name(b"null");
    let at = find(&image, 0xE008, |_| true);
    let lengths = word(&image, at + 20) + (40 << 16);
    let node = (at, 0xE008);
    forge(&mut image, node, 5, lengths);
    let end = at + 32 + (lengths >> 8 & 0xFF) as usize + 1 + (lengths >> 16) as usize;
    let data = crc(&image[at + 32..end]);
    forge(&mut image, node, 6, data);
    assert_node(&damage_of(image), at, "length of the attribute");
}

#[test]
fn a_reference_longer_than_its_fields_is_damage() {
    let (mut image, _) = with_name(b"null");
    let at = find(&image, 0xE009, |_| true);
    forge(&mut image, (at, 0xE009), 1, 32);
    assert_node(&damage_of(image), at, "length of the reference");
}
