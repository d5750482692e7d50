//! UBI is repaired by attaching it, and a file system in a volume by its own means; what is damaged
//! stays as it is.
//!
//! Needs e2fsprogs, dosfstools and f2fs-tools; fails saying so.

use crate::common::{derange, differences, extracted, formats, held, judged, made, plain};
use nandlab_block::{BlockDevice as _, Lba};
use nandlab_image::check::{Checked, Severity, check};
use nandlab_image::make::Format;
use nandlab_image::raw::raw;
use nandlab_image::repair::repair;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_ubi::format::{LAYOUT_VOLUME, VolumeKind};
use nandlab_ubi::{Options, Ubi, VolumeDisk, VolumeSpec};
use nandlab_vfs::Time;
use std::fs;
use std::path::Path;

const NOW: Time = Time::new(1_700_000_000);
const FORMAT: ImageFormat = ImageFormat {
    page: 512,
    oob: 0,
    pages_per_block: 64,
    layout: Layout::Raw,
    ecc: None,
};
/// Contents of the static volume, of several blocks.
const FIXED: &[u8] = b"never changes";

/// UBI with a disk in one volume and a static volume behind it.
fn device(disk: &[u8]) -> Vec<u8> {
    let blocks = disk.len().div_ceil(30 << 10) as u32 + 60;
    let mut ubi = Ubi::format(
        Image::new(vec![0xFF; FORMAT.bytes(blocks) as usize], FORMAT).unwrap(),
        Options::default(),
    )
    .unwrap();
    let leb = ubi.info().shape.leb_bytes as usize;
    let lebs = disk.len().div_ceil(leb) as u32;
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "disk".into(),
            lebs,
            ..VolumeSpec::default()
        })
        .unwrap();
    let fixed = VolumeSpec {
        name: "fixed".into(),
        lebs: 4,
        kind: VolumeKind::Static,
        ..VolumeSpec::default()
    };
    let fixed = ubi.create_volume(&fixed).unwrap();
    let contents = FIXED.repeat(3 * leb / FIXED.len());
    ubi.start_update(fixed, contents.len() as u64).unwrap();
    assert!(ubi.write_update(fixed, &contents).unwrap());
    let mut volume = VolumeDisk::new(ubi, id).unwrap();
    // Zeros, too: what was never written is erased in the volume's bytes.
    for (at, sectors) in disk.chunks(512 * 16).enumerate() {
        volume.write(Lba(at as u64 * 16), sectors).unwrap();
    }
    volume.into_ubi().unwrap().detach().unwrap().into_backing()
}

fn opened(image: &Path) -> Volume {
    Volume::open(
        image,
        &Opening {
            salvage: true,
            ..Opening::default()
        },
        Access::Read,
    )
    .unwrap()
}

fn worst(checked: &Checked) -> Option<Severity> {
    checked.worst().filter(|worst| *worst > Severity::Note)
}

/// A volume as bytes, and what was lost of it.
fn bytes_of(image: &Path, volume: &str) -> (Vec<u8>, bool) {
    let opening = Opening {
        volume: Some(volume.into()),
        salvage: true,
        ..Opening::default()
    };
    let mut bytes = Vec::new();
    let (_, losses) = raw(
        &Volume::open(image, &opening, Access::Read).unwrap(),
        &opening,
        &mut bytes,
    )
    .unwrap();
    (bytes, losses.is_empty())
}

/// Where the block that holds a logical one begins.
fn block_of(image: &Path, volume: u32, leb: u32) -> usize {
    let survey = opened(image).survey(None).unwrap().unwrap();
    survey.current(volume, leb).unwrap().peb as usize * survey.shape.peb_bytes as usize
}

#[test]
fn a_file_system_in_a_volume_is_repaired_and_satisfies_its_judge() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let fat = ("fat", Format::Fat(nandlab_fat::Format::default()));
    for (name, format) in formats()
        .into_iter()
        .chain([fat])
        .filter(|(name, _)| *name != "jffs2")
    {
        made(&plain(scratch.path()), format, &at("inner"), 1);
        let mut disk = fs::read(at("inner")).unwrap();
        let expected = held(&extracted(&at("inner")), scratch.path());
        derange(name, &mut disk);
        fs::write(at("image"), device(&disk)).unwrap();
        let outcome = repair(&at("image"), &Opening::default(), NOW).unwrap();
        assert!(
            outcome.replaced && worst(&outcome.before).is_some(),
            "{name}: {outcome:?}"
        );
        assert_eq!(worst(&outcome.after), None, "{name}: {:?}", outcome.after);
        assert_eq!(
            differences(&expected, &held(&extracted(&at("image")), scratch.path())),
            "",
            "{name}"
        );
        let (repaired, whole) = bytes_of(&at("image"), "disk");
        assert!(whole && bytes_of(&at("image"), "fixed").1, "{name}");
        // Less what the volume's last block is longer.
        fs::write(at("volume"), &repaired[..disk.len()]).unwrap();
        assert_eq!(judged(&at("volume"), name), None, "{name}");
    }
}

#[test]
fn a_lost_copy_of_the_volume_table_is_written_anew() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    made(
        &plain(scratch.path()),
        Format::Fat(nandlab_fat::Format::default()),
        &at("inner"),
        1,
    );
    let good = device(&fs::read(at("inner")).unwrap());
    fs::write(at("image"), &good).unwrap();
    let expected = held(&extracted(&at("image")), scratch.path());
    let tables = [0, 1].map(|lnum| block_of(&at("image"), LAYOUT_VOLUME, lnum));
    let block = FORMAT.bytes(1) as usize;
    for (name, place, fill) in [
        ("erased", 0, 0xFF),
        ("erased", block, 0xFF),
        ("damaged table", 1024, 0x5A),
    ] {
        for table in tables {
            let mut bytes = good.clone();
            match place {
                0 => bytes[table..table + block].fill(fill),
                // Only what the copy holds: its headers are whole.
                1024 => bytes[table + 1024..table + 2048].fill(fill),
                _ => bytes[table + 512..table + block].fill(fill),
            }
            fs::write(at("image"), &bytes).unwrap();
            assert!(
                worst(&check(&mut opened(&at("image"))).unwrap()).is_some(),
                "{name}"
            );
            let outcome = repair(&at("image"), &Opening::default(), NOW).unwrap();
            assert!(
                outcome.replaced && worst(&outcome.after).is_none(),
                "{name}: {outcome:?}"
            );
            let copies = [0, 1].map(|lnum| block_of(&at("image"), LAYOUT_VOLUME, lnum));
            assert_ne!(copies[0], copies[1], "{name}");
            let after = fs::read(at("image")).unwrap();
            assert!(
                after[copies[0] + 1024..copies[0] + block]
                    == after[copies[1] + 1024..copies[1] + block],
                "{name}: the copies are one"
            );
            assert_eq!(
                differences(&expected, &held(&extracted(&at("image")), scratch.path())),
                "",
                "{name}"
            );
            assert!(bytes_of(&at("image"), "fixed").1, "{name}");
        }
    }
}

#[test]
fn what_is_lost_in_a_volume_is_not_made_up() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    made(
        &plain(scratch.path()),
        Format::Fat(nandlab_fat::Format::default()),
        &at("inner"),
        1,
    );
    let good = device(&fs::read(at("inner")).unwrap());
    fs::write(at("image"), &good).unwrap();
    let fixed = block_of(&at("image"), 1, 1);
    // Its contents, its volume header, and both copies of the volume table.
    let tables = [0, 1].map(|lnum| block_of(&at("image"), LAYOUT_VOLUME, lnum) + 1024);
    for harmed in [vec![fixed + 2000], vec![fixed + 512 + 9], tables.to_vec()] {
        let mut bytes = good.clone();
        harmed.iter().for_each(|place| bytes[place + 3] ^= 0x40);
        fs::write(at("image"), &bytes).unwrap();
        match repair(&at("image"), &Opening::default(), NOW) {
            Ok(outcome) => assert!(
                !outcome.replaced && outcome.after.worst() == Some(Severity::Damage),
                "{outcome:?}"
            ),
            Err(error) => assert!(error.to_string().starts_with("UBI: "), "{error}"),
        }
        assert!(
            fs::read(at("image")).unwrap() == bytes,
            "not repaired and yet changed"
        );
    }
}

#[test]
fn a_free_block_that_is_not_erased_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let mut bytes = device(&[0x5A; 4096]);
    let block = 64 * 512;
    let is_free = |peb: &[u8]| peb.starts_with(b"UBI#") && peb[512..].iter().all(|b| *b == 0xFF);
    let free = bytes.chunks(block).position(is_free).unwrap();
    let unerased = |checked: &Checked| {
        let mut findings = checked.findings.iter();
        findings.any(|one| one.to_string().contains("free, but it is not erased"))
    };
    fs::write(&image, &bytes).unwrap();
    assert!(!unerased(&check(&mut opened(&image)).unwrap()));
    bytes[free * block + 20_000] = 0xBF;
    fs::write(&image, &bytes).unwrap();
    assert!(unerased(&check(&mut opened(&image)).unwrap()));
}
