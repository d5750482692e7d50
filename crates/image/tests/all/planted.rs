//! Planted losses: each block of a volume that holds structure is destroyed, one after the other. A
//! salvage that does not bring every file's contents out lists a loss.
//!
//! Blocks that hold nothing but contents are left alone where the format has no checksum of them:
//! nobody can tell there.
//!
//! Needs squashfs-tools; fails saying so.

use crate::salvage::{Read, opening, taken};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_damage::disk::{Bytes, Target};
use nandlab_damage::{ext, f2fs, fat};
use nandlab_image::place::Place;
use nandlab_image::raw::raw;
use nandlab_image::volume::{Access, Volume};
use nandlab_image::walk::Losses;
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_testkit::share::whole_or;
use nandlab_testkit::tools::{command, printed, text};
use nandlab_ubi::format::VolumeKind;
use nandlab_ubi::{Options, Ubi, VolumeSpec};
use std::collections::HashSet;
use std::fs;

const SECTOR: usize = 512;
/// What a destroyed block holds: zeros, ones, or junk.
const FILLS: [u8; 3] = [0, 0xFF, 0x5A];
/// The fills of the block of a number, one after the other. A sample takes turns.
fn fills(number: usize) -> &'static [u8] {
    whole_or(&FILLS, &FILLS[number % 3..][..1])
}

/// Contents shorter than this may begin any block.
const KNOWN_MIN: usize = 8;

/// What a salvage takes out of a disk; none if the disk is refused, which nobody takes for success.
fn salvaged(ram: &Ram) -> Option<(Read, Losses)> {
    let ram = ram.clone();
    let place = Place::bytes("disk", move || Box::new(Bytes(ram.clone())));
    let mut volume = Volume::at(place, &opening(), Access::Read).ok()?;
    volume.mounted.as_ref()?;
    taken(&mut volume).ok()
}

/// Files that came out with other contents or not at all.
fn lost<'a>(expected: &'a Read, found: &Read) -> Vec<&'a [u8]> {
    let with_contents = expected.iter().filter(|(_, contents)| !contents.is_empty());
    let lost = with_contents.filter(|(path, contents)| found.get(*path) != Some(contents));
    lost.map(|(path, _)| &path[..]).collect()
}

fn block_of(ram: &mut Ram, block: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ram.read(Lba((block * len / SECTOR) as u64), &mut bytes)
        .unwrap();
    bytes
}

/// Beginnings of all sectors of all files.
fn beginnings(tree: &Read) -> HashSet<Vec<u8>> {
    let sectors = tree.values().flat_map(|contents| contents.chunks(SECTOR));
    let long = sectors.filter(|sector| sector.len() >= KNOWN_MIN);
    long.map(|sector| sector[..KNOWN_MIN].to_vec()).collect()
}

/// Destroys each block of `len` bytes that holds structure. At least `least` of the volumes must
/// have lost something: else nothing was planted.
fn assert_losses_are_listed(name: &str, target: Target, len: usize, least: u32) {
    let mut planted = 0;
    for (seed, good) in (target.seeds)().iter().enumerate() {
        let (tree, losses) = salvaged(&good.ram).unwrap();
        assert!(losses.is_empty(), "{name} {seed}: {losses:#?}");
        let contents = beginnings(&tree);
        let blocks = good.ram.geometry().bytes() as usize / len;
        for block in 0..blocks {
            let mut ram = good.ram.clone();
            let bytes = block_of(&mut ram, block, len);
            if bytes.iter().all(|byte| *byte == 0) || contents.contains(&bytes[..KNOWN_MIN]) {
                continue;
            }
            for &fill in fills(block) {
                let lba = Lba((block * len / SECTOR) as u64);
                ram.write(lba, &vec![fill; len]).unwrap();
                let Some((found, losses)) = salvaged(&ram) else {
                    continue;
                };
                let lost = lost(&tree, &found);
                planted += u32::from(!lost.is_empty());
                let first = lost.first().map(|path| path.escape_ascii().to_string());
                assert!(
                    lost.is_empty() || !losses.is_empty(),
                    "{name} {seed}: block {block} of {len} bytes, filled with {fill:#x}: {} files \
                     without a word, the first {first:?}",
                    lost.len()
                );
            }
        }
    }
    assert!(
        planted >= whole_or(least, least / 4),
        "{name}: {planted} volumes lost something"
    );
}

#[test]
fn no_loss_of_ext_is_left_out() {
    assert_losses_are_listed("ext", ext::TARGET, 1024, 60);
}

#[test]
fn no_loss_of_fat_is_left_out() {
    assert_losses_are_listed("FAT", fat::TARGET, SECTOR, 40);
}

#[test]
fn no_loss_of_f2fs_is_left_out() {
    assert_losses_are_listed("F2FS", f2fs::TARGET, 4096, 50);
}

/// Chains that lead into other files' clusters: each file reads without an error.
#[test]
fn no_chain_of_fat_that_leads_elsewhere_is_left_out() {
    // One cluster has one sector, one table entry two bytes: the first seed is FAT16.
    let good = &(fat::TARGET.seeds)()[0].ram;
    let (tree, _) = salvaged(good).unwrap();
    let boot = block_of(&mut good.clone(), 0, SECTOR);
    let tables = usize::from(u16::from_le_bytes([boot[14], boot[15]]));
    let table = block_of(&mut good.clone(), tables, SECTOR);
    let mut planted = 0;
    for entry in (2..SECTOR / 2).step_by(whole_or(1, 3)) {
        let next = u16::from_le_bytes([table[2 * entry], table[2 * entry + 1]]);
        if next == 0 {
            continue;
        }
        // Free, an end, a bad cluster, a cluster of another file, one beyond the volume.
        for value in [0, 0xFFFF, 0xFFF7, 2 + (entry as u16 + 5) % 40, 0xFFF0] {
            let mut bytes = table.clone();
            bytes[2 * entry..2 * entry + 2].copy_from_slice(&value.to_le_bytes());
            let mut ram = good.clone();
            ram.write(Lba(tables as u64), &bytes).unwrap();
            let Some((found, losses)) = salvaged(&ram) else {
                continue;
            };
            let lost = lost(&tree, &found);
            planted += u32::from(!lost.is_empty());
            let reported = lost.is_empty() || !losses.is_empty();
            assert!(reported, "cluster {entry} leads to {value:#x}");
        }
    }
    assert!(
        planted > whole_or(50, 12),
        "{planted} volumes lost something"
    );
}

const FLASH: ImageFormat = ImageFormat {
    page: 512,
    oob: 0,
    pages_per_block: 16,
    layout: Layout::Raw,
    ecc: None,
};

/// Every page of the blocks of a static volume, and each such block as a whole.
#[test]
fn no_loss_of_a_static_volume_of_ubi_is_left_out() {
    const BLOCKS: u32 = 40;
    let erased = vec![0xFF; FLASH.bytes(BLOCKS) as usize];
    let mut ubi = Ubi::format(Image::new(erased, FLASH).unwrap(), Options::default()).unwrap();
    let spec = VolumeSpec {
        name: "fixed".into(),
        lebs: 6,
        kind: VolumeKind::Static,
        ..VolumeSpec::default()
    };
    let id = ubi.create_volume(&spec).unwrap();
    let contents = crate::common::bytes(3, 35_000);
    ubi.start_update(id, contents.len() as u64).unwrap();
    ubi.write_update(id, &contents).unwrap();
    let good = ubi.detach().unwrap().into_backing();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let mut fixed = opening();
    fixed.volume = Some("fixed".into());
    let take = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let volume = Volume::open(&path, &fixed, Access::Read).ok()?;
        let mut out = Vec::new();
        let (_, losses) = raw(&volume, &fixed, &mut out).ok()?;
        let reported = !losses.is_empty() || !volume.troubles.is_empty();
        Some((out, reported))
    };
    assert_eq!(take(&good), Some((contents.clone(), false)));
    let block = FLASH.bytes(1) as usize;
    let mut planted = 0;
    for len in [SECTOR, block] {
        for at in (0..good.len()).step_by(len) {
            for &fill in fills(at / len) {
                let mut bytes = good.clone();
                bytes[at..at + len].fill(fill);
                let Some((out, reported)) = take(&bytes) else {
                    continue;
                };
                planted += u32::from(out != contents);
                let right = out == contents || reported;
                assert!(right, "{len} bytes from {at} on, filled with {fill:#x}");
            }
        }
    }
    assert!(
        planted > whole_or(100, 30),
        "{planted} volumes lost something"
    );
}

#[test]
fn no_loss_of_squashfs_is_left_out() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    fs::create_dir_all(source.join("below")).unwrap();
    for number in 1..12 {
        // Each compresses, and so has a checksum: that of zlib.
        let line = format!("line of file {number}\n");
        let contents = line.repeat(number * 900);
        fs::write(source.join(format!("below/file {number}")), contents).unwrap();
    }
    let image = scratch.path().join("image");
    let output = command("squashfs-tools", "mksquashfs")
        .args([text(&source), text(&image)])
        .args([
            "-comp",
            "gzip",
            "-b",
            "8192",
            "-quiet",
            "-no-progress",
            "-nopad",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let good = fs::read(&image).unwrap();
    let take = |bytes: Vec<u8>| {
        let place = Place::bytes("image", move || Box::new(bytes.clone()));
        let mut volume = Volume::at(place, &opening(), Access::Read).ok()?;
        volume.mounted.as_ref()?;
        taken(&mut volume).ok()
    };
    let (tree, losses) = take(good.clone()).unwrap();
    assert!(losses.is_empty() && tree.len() > 11, "{losses:?}");
    let mut planted = 0;
    for at in (0..good.len()).step_by(64) {
        for &fill in fills(at / 64) {
            let mut bytes = good.clone();
            bytes[at..good.len().min(at + 64)].fill(fill);
            let cut = good[..at].to_vec();
            for (how, bytes) in [("filled", bytes), ("cut", cut)] {
                let Some((found, losses)) = take(bytes) else {
                    continue;
                };
                let lost = lost(&tree, &found);
                planted += u32::from(!lost.is_empty());
                let reported = lost.is_empty() || !losses.is_empty();
                assert!(reported, "{how} at byte {at}, with {fill:#x}: {lost:?}");
            }
        }
    }
    assert!(
        planted > whole_or(50, 12),
        "{planted} images lost something"
    );
}
