//! A salvage of JFFS2 lists each loss that the medium reports, by file and range.

use crate::common::bytes;
use nandlab_image::check::{Checked, Verdict, check};
use nandlab_image::left_out::known_losses;
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::Losses;
use nandlab_jffs2::{Compression, Jffs2, Options, Seen, What, survey};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::mix;
use nandlab_testkit::files::{mkdir, put};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{FileSystem, Ino};
use std::collections::BTreeMap;
use std::fs;

const BLOCK: usize = 64 * 1024;
const BLOCKS: usize = 8;
/// Entries in a directory and below it.
const BELOW: usize = 31;

/// A tree as it is read: contents by path, nothing for what is no file.
pub type Read = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents of an entry, zeros where there is nothing.
pub fn contents(entry: &Entry, bytes: &mut dyn Bytes) -> nandlab_image::Result<Vec<u8>> {
    let mut contents = Vec::new();
    bytes.each(&mut |at, data| {
        contents.resize(at as usize, 0);
        contents.extend(data);
        Ok(())
    })?;
    if let Node::File { size } = entry.node {
        contents.resize(size as usize, 0);
    }
    Ok(contents)
}

/// Takes a tree into memory.
#[derive(Default)]
struct Keep(Read);

impl Sink for Keep {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> nandlab_image::Result<()> {
        let contents = contents(entry, bytes)?;
        self.0.insert(entry.path.clone(), contents);
        Ok(())
    }

    fn finish(&mut self) -> nandlab_image::Result<()> {
        Ok(())
    }
}

fn image() -> Vec<u8> {
    image_with(false)
}

/// An image with files of several nodes, directories and versions. Without lists of blocks, nodes
/// that are replaced are marked.
fn image_with(summary: bool) -> Vec<u8> {
    let options = Options {
        compression: Compression::NONE,
        summary,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(flash(vec![0xFF; BLOCKS * BLOCK]), options).unwrap();
    let etc = mkdir(&mut fs, Ino::ROOT, "etc");
    let deep = mkdir(&mut fs, etc, "deep");
    for number in 0..BELOW as u64 - 1 {
        put(
            &mut fs,
            deep,
            &format!("file {number}"),
            &bytes(number, 500 * number as usize),
        );
    }
    let log = put(&mut fs, Ino::ROOT, "log", &bytes(7, 30_000));
    fs.write(log, 4096, &bytes(8, 4096), nandlab_testkit::files::NOW)
        .unwrap();
    put(&mut fs, Ino::ROOT, "last", &bytes(9, 5000));
    fs.unmount().unwrap();
    fs.into_mtd().into_backing()
}

fn flash(bytes: Vec<u8>) -> Image<Vec<u8>> {
    let format = ImageFormat {
        page: 256,
        oob: 0,
        pages_per_block: BLOCK as u32 / 256,
        layout: Layout::Raw,
        ecc: None,
    };
    Image::new(bytes, format).unwrap()
}

/// What a salvage takes out of an image, what it lists, and what a check says.
fn salvaged(image: &[u8]) -> (Read, Losses, Checked) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    fs::write(&path, image).unwrap();
    let mut volume = Volume::open(&path, &opening(), Access::Read).unwrap();
    let checked = check(&mut volume).unwrap();
    let (tree, losses) = taken(&mut volume).unwrap();
    (tree, losses, checked)
}

/// How a salvage opens an image.
pub fn opening() -> Opening {
    Opening {
        salvage: true,
        ..Opening::default()
    }
}

/// What a salvage takes out of a volume, and what it lists.
pub fn taken(volume: &mut Volume) -> nandlab_image::Result<(Read, Losses)> {
    let mut losses = known_losses(volume, true)?;
    let mut keep = Keep::default();
    let mut nothing = |_| {};
    let mut walk = volume.walk(true, &mut nothing)?;
    walk.run(b"", &mut keep)?;
    losses.merge(walk.losses);
    Ok((keep.0, losses))
}

/// The nodes of an image, with where each begins in it.
fn nodes(image: &[u8]) -> Vec<Seen> {
    survey(nandlab_jffs2::Endian::Little, image).collect()
}

/// Where the bytes of a node begin in its file, and how many they are.
fn range(node: &Seen) -> (u32, u32) {
    match node.what {
        What::Inode { range, .. } => range,
        _ => panic!("{node:?}"),
    }
}

/// The node of a file with the bytes from `start` on, of its `nth` version.
fn data_node(image: &[u8], file: &[u8], start: u32, nth: usize) -> Seen {
    let What::Name { ino: wanted, .. } = name_node(image, file).what else {
        unreachable!()
    };
    let mut versions = BTreeMap::new();
    for node in nodes(image) {
        match node.what {
            What::Inode {
                ino,
                version,
                range: (at, 1..),
                ..
            } if ino == wanted && at == start => _ = versions.insert(version, node),
            _ => {}
        }
    }
    versions.into_values().nth(nth).unwrap()
}

fn name_node(image: &[u8], wanted: &[u8]) -> Seen {
    let is = |seen: &Seen| matches!(&seen.what, What::Name { name, .. } if &image[name.clone()] == wanted);
    nodes(image).into_iter().find(is).unwrap()
}

/// The losses of a path that say so.
#[track_caller]
fn assert_reported(losses: &Losses, path: &[u8], what: &str) {
    let reported = losses
        .list
        .iter()
        .any(|loss| loss.path.0 == path && loss.what.contains(what));
    assert!(
        reported,
        "{}: {what}: {:#?}",
        path.escape_ascii(),
        losses.list
    );
}

#[test]
fn a_sound_image_has_no_losses() {
    let image = image();
    let (tree, losses, checked) = salvaged(&image);
    assert!(
        losses.is_empty() && checked.findings.is_empty(),
        "{losses:?}"
    );
    assert_eq!(tree.len(), 4 + BELOW);
    let log = &tree[&b"log"[..]];
    assert!(log[..4096] == bytes(7, 4096) && log[4096..8192] == bytes(8, 4096));
}

#[test]
fn a_node_of_bad_length_is_a_loss_of_the_range_that_it_held() {
    let mut image = image();
    let node = data_node(&image, b"log", 8192, 0);
    image[node.at + 5] ^= 0x40;
    let (tree, losses, _) = salvaged(&image);
    assert_reported(&losses, b"/log", "bytes 8192 to 12288 cannot be read");
    assert!(tree[&b"log"[..]][12_288..] == bytes(7, 30_000)[12_288..]);
}

#[test]
fn data_with_a_wrong_checksum_are_a_loss_and_an_older_version_is_reported() {
    let mut image = image();
    let node = data_node(&image, b"last", 0, 0);
    image[node.at + 1000] ^= 1;
    let (_, losses, _) = salvaged(&image);
    let len = range(&node).1;
    assert_reported(
        &losses,
        b"/last",
        &format!("bytes 0 to {len} cannot be read"),
    );
    // The newer of two versions.
    let mut image = image_with(true);
    let node = data_node(&image, b"log", 4096, 1);
    image[node.at + 1000] ^= 1;
    let (tree, losses, _) = salvaged(&image);
    let end = 4096 + range(&node).1;
    let reported = format!("bytes 4096 to {end} are of an older version");
    assert_reported(&losses, b"/log", &reported);
    let found = &tree[&b"log"[..]];
    let older = bytes(7, 30_000);
    assert!(found[4096..end as usize] == older[4096..end as usize]);
}

#[test]
fn everything_below_a_damaged_name_is_listed() {
    for damage in [41, 43, 32, 20, 4, 0] {
        let mut image = image();
        let node = name_node(&image, b"deep");
        image[node.at + damage] ^= 2;
        let (tree, losses, _) = salvaged(&image);
        let shown = tree.keys().any(|path| path.starts_with(b"etc/"));
        assert!(!shown, "byte {damage}");
        let below = losses
            .list
            .iter()
            .filter(|loss| loss.what.contains("cannot be reached"));
        // A wrong number of the inode leaves it without a name.
        let reported = below.count();
        assert!(
            reported >= BELOW - 1,
            "byte {damage}: {reported}: {:#?}",
            losses.list
        );
        if damage != 20 {
            assert_reported(&losses, b"/etc/deep", "name");
            assert_reported(&losses, b"/etc/deep/file 12", "cannot be reached");
        }
    }
}

#[test]
fn what_is_passed_over_is_reported() {
    let mut image = image();
    // Nothing of the node's head and fields is left.
    let node = data_node(&image, b"log", 12_288, 0);
    image[node.at..node.at + 68].fill(0x5A);
    let (_, losses, _) = salvaged(&image);
    assert_reported(&losses, b"/", "more may be missing");
    assert_reported(&losses, b"/log", "no node holds bytes 12288 to 16384");
}

#[test]
fn no_damage_of_a_node_is_lost_without_a_word() {
    assert_no_damage_is_lost(&image_with(false));
}

#[test]
fn no_damage_of_a_node_in_a_list_is_lost_without_a_word() {
    assert_no_damage_is_lost(&image_with(true));
}

fn assert_no_damage_is_lost(sound: &[u8]) {
    let tree = salvaged(sound).0;
    let nodes = nodes(sound);
    let mut differ = 0;
    let mut named = 0;
    let mut silent = 0;
    for seed in 0..whole_or(500, 90) {
        let mut image = sound.to_vec();
        let node = &nodes[mix(seed, 0) as usize % nodes.len()];
        let inside = mix(seed, 1) as usize % node.len;
        // In the head and the fields as often as in the data.
        let inside = if seed % 2 == 0 {
            inside % 68.min(node.len)
        } else {
            inside
        };
        let len = [1, 1, 4, 64, 600][mix(seed, 2) as usize % 5].min(node.len - inside);
        let from = node.at + inside;
        let hit = image[from..from + len].iter_mut();
        for (at, byte) in (from as u64..).zip(hit) {
            *byte ^= mix(seed, at) as u8 | 1;
        }
        let (found, losses, checked) = salvaged(&image);
        let reported = found == tree || !losses.is_empty();
        assert!(
            reported,
            "seed {seed}: {len} bytes from {inside} on: {node:?}"
        );
        if found != tree {
            differ += 1;
            assert!(!checked.findings.is_empty(), "seed {seed}: {node:?}");
            silent += u32::from(checked.verdict() == Verdict::Sound);
            let lost = tree
                .iter()
                .filter(|(path, contents)| found.get(*path) != Some(contents));
            let all = lost.clone().count();
            let reported = lost.filter(|(path, _)| {
                let path = [b"/", &path[..]].concat();
                losses.list.iter().any(|loss| loss.path.0 == path)
            });
            named += u32::from(reported.count() == all);
        }
    }
    // Damage that ends with a page looks like an interrupted write.
    assert!(silent * 100 < differ, "{silent} of {differ} called sound");
    assert!(differ > whole_or(200, 30), "{differ} images differ");
    assert!(named * 10 > differ * 8, "{named} of {differ} by name");
}
