//! UBI images: those of `ubinize`, byte for byte, and what lies in them.
//!
//! Needs mtd-utils; fails saying so.

use crate::common::{ERASE, archive, differences, extracted, held, made, tree};
use nandlab_image::check::{Severity, check};
use nandlab_image::make::Format;
use nandlab_image::raw::raw;
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_jffs2::{Compression, Medium};
use nandlab_mtd::{Image, ImageFormat, Layout as MtdLayout};
use nandlab_ubi::format::{LAYOUT_VOLUME, Parsed, RECORD_BYTES, VidHeader, VolumeKind, crc};
use nandlab_ubi::{Headers, LogOptions, Memory, Options, Superblock, Ubi, VolumeSpec};
use std::fs;
use std::process::Command;

const CONFIG: &str = "[data]\nmode=ubi\nimage=ext2\nvol_id=3\nvol_type=dynamic\nvol_name=data\nvol_flags=autoresize\n\
    [root]\nmode=ubi\nimage=jffs2\nvol_id=0\nvol_size=6MiB\nvol_type=dynamic\nvol_name=root\n\
    [fixed]\nmode=ubi\nimage=jffs2\nvol_id=1\nvol_type=static\nvol_name=fixed\n";

#[test]
fn an_image_is_that_of_ubinize_and_its_volumes_are_looked_into() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let tree = tree(scratch.path(), false);
    let page = 2048;
    made(
        &tree,
        Format::Ext(nandlab_ext::Format::default()),
        &at("ext2"),
        1,
    );
    fs::write(at("config"), CONFIG).unwrap();
    for (sub_page, headers) in [(512, 1), (page, 2)] {
        let Format::Jffs2 {
            mut choices,
            mut shape,
        } = Format::jffs2(ERASE, Compression::CLASSIC)
        else {
            panic!("JFFS2")
        };
        // A logical block is shorter by the pages of the headers.
        (choices.medium, shape.page, shape.pages_per_block) =
            (Some(Medium::Unmarked), page, 128 * 1024 / page - headers);
        made(&tree, Format::Jffs2 { choices, shape }, &at("jffs2"), 1);
        let device = Device {
            block: 128 * 1024,
            page,
            sub_page,
            image_seq: 77,
        };
        ubinize(&at("config"), device, &at("ours")).unwrap();
        let mut theirs = Command::new("/usr/sbin/ubinize");
        theirs.args([
            "-o",
            "theirs",
            "-p",
            "128KiB",
            "-m",
            "2048",
            "-s",
            &sub_page.to_string(),
            "-Q",
            "77",
            "config",
        ]);
        let output = theirs
            .current_dir(scratch.path())
            .output()
            .unwrap_or_else(|error| panic!("ubinize: {error}: apt-get install mtd-utils"));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            fs::read(at("ours")).unwrap() == fs::read(at("theirs")).unwrap(),
            "sub-pages of {sub_page}"
        );
        let mut expected = held(&archive(&tree), scratch.path());
        expected
            .iter_mut()
            .for_each(|(entry, _)| entry.mtime.nanos = 0);
        assert_eq!(
            differences(&expected, &held(&extracted(&at("ours")), scratch.path())),
            ""
        );
        let volume = Volume::open(
            &at("ours"),
            &Opening {
                volume: Some("data".into()),
                ..Opening::default()
            },
            Access::Read,
        )
        .unwrap();
        assert!(
            matches!(volume.layers.last(), Some(Layer::Ext { .. })),
            "{:?}",
            volume.layers
        );
        let Some(Layer::Ubi {
            volumes,
            image_seq: 77,
            ..
        }) = volume.layers.get(1)
        else {
            panic!("{:?}", volume.layers)
        };
        let reported: Vec<_> = volumes
            .iter()
            .map(|volume| (volume.id, volume.name.as_str(), volume.kind, volume.holds))
            .collect();
        assert_eq!(
            reported,
            [
                (0, "root", "dynamic", Some("JFFS2")),
                (1, "fixed", "static", Some("JFFS2")),
                (3, "data", "dynamic", Some("ext"))
            ]
        );
        let report = check(&mut opened(&at("ours"), &Opening::default())).unwrap();
        let noted = report.findings.iter().filter(|finding| {
            finding.severity == Severity::Note && finding.what.starts_with("volumes reserve ")
        });
        assert_eq!(noted.count(), 1, "{:?}", report.findings);
    }
}

/// A device of 2,048-byte pages with JFFS2 in a dynamic volume, and a static one; formatted and
/// filled by UBI itself.
fn device(options: Options, scratch: &std::path::Path, spare: u32) -> (Vec<u8>, ImageFormat) {
    let layout = if spare > 0 {
        MtdLayout::LinuxLargePage64
    } else {
        MtdLayout::Raw
    };
    let format = ImageFormat {
        page: 2048,
        oob: spare,
        pages_per_block: 16,
        layout,
        ecc: None,
    };
    let medium = Image::new(vec![0xFF; format.bytes(160) as usize], format).unwrap();
    let mut ubi = Ubi::format(medium, options).unwrap();
    let leb = ubi.info().shape.leb_bytes;
    let Format::Jffs2 {
        mut choices,
        mut shape,
    } = Format::jffs2(leb, Compression::CLASSIC)
    else {
        panic!("JFFS2")
    };
    (choices.medium, shape.page, shape.pages_per_block) =
        (Some(Medium::Unmarked), 2048, leb / 2048);
    made(
        &tree(scratch, false),
        Format::Jffs2 { choices, shape },
        &scratch.join("inner"),
        1,
    );
    let inner = fs::read(scratch.join("inner")).unwrap();
    let lebs = (inner.len() as u32).div_ceil(leb) + 6;
    let root = ubi
        .create_volume(&VolumeSpec {
            name: "root".into(),
            lebs,
            ..VolumeSpec::default()
        })
        .unwrap();
    for (lnum, data) in inner.chunks(leb as usize).enumerate() {
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(2048), 0xFF);
        ubi.change(root, lnum as u32, &data).unwrap();
    }
    let fixed = VolumeSpec {
        name: "fixed".into(),
        kind: VolumeKind::Static,
        lebs: 4,
        ..VolumeSpec::default()
    };
    let fixed = ubi.create_volume(&fixed).unwrap();
    ubi.start_update(fixed, 70_000).unwrap();
    assert!(
        ubi.write_update(fixed, &FIXED.repeat(70_000 / FIXED.len()))
            .unwrap()
    );
    (ubi.detach().unwrap().into_backing(), format)
}

const FIXED: &[u8] = b"seventy thousand bytes that are always the same.  ";

fn opened(image: &std::path::Path, opening: &Opening) -> Volume {
    Volume::open(image, opening, Access::Read).unwrap()
}

fn raw_bytes(image: &std::path::Path, volume: &str) -> (Vec<u8>, Vec<String>) {
    let opening = Opening {
        volume: Some(volume.into()),
        salvage: true,
        ..Opening::default()
    };
    let mut bytes = Vec::new();
    let (_, losses) = raw(&opened(image, &opening), &opening, &mut bytes).unwrap();
    (
        bytes,
        losses.list.into_iter().map(|loss| loss.what).collect(),
    )
}

#[test]
fn ubi_is_read_with_spare_bytes_with_a_log_and_without_headers() {
    let log = Options {
        memory: Memory::Log(LogOptions::default()),
        ..Options::default()
    };
    let kinds = [
        ("plain", Options::default(), 0, false),
        ("spare", Options::default(), 64, false),
        ("log", log, 0, true),
        ("log and spare", log, 64, true),
        (
            "no headers",
            Options {
                headers: Headers::None,
                ..log
            },
            0,
            true,
        ),
        (
            "no headers, spare",
            Options {
                headers: Headers::None,
                ..log
            },
            64,
            true,
        ),
        (
            "chain",
            Options {
                memory: Memory::Log(LogOptions {
                    superblock: Superblock::Chain,
                    ..LogOptions::default()
                }),
                ..log
            },
            0,
            true,
        ),
    ];
    for (name, options, spare, logged) in kinds {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join("image");
        let (bytes, _) = device(options, scratch.path(), spare);
        fs::write(&image, &bytes).unwrap();
        let mut volume = opened(&image, &Opening::default());
        assert!(
            matches!(volume.layers.get(1), Some(Layer::Ubi { log, .. }) if *log == logged),
            "{name}: {:?}",
            volume.layers
        );
        let damage: Vec<_> = check(&mut volume)
            .unwrap()
            .findings
            .into_iter()
            .filter(|one| one.severity > Severity::Note)
            .collect();
        assert_eq!(damage, [], "{name}");
        let mut expected = held(&archive(&tree(scratch.path(), false)), scratch.path());
        expected
            .iter_mut()
            .for_each(|(entry, _)| entry.mtime.nanos = 0);
        assert_eq!(
            differences(&expected, &held(&extracted(&image), scratch.path())),
            "",
            "{name}"
        );
        let (contents, losses) = raw_bytes(&image, "fixed");
        assert!(
            contents == FIXED.repeat(70_000 / FIXED.len()) && losses.is_empty(),
            "{name}: {losses:?}"
        );
        let (contents, _) = raw_bytes(&image, "root");
        let inner = fs::read(scratch.path().join("inner")).unwrap();
        assert!(
            contents.starts_with(&inner),
            "{name}: the volume begins with what was put there"
        );
        assert!(fs::read(&image).unwrap() == bytes, "{name}: reading wrote");
    }
}

/// Where the block that holds a logical one begins.
fn block_of(image: &std::path::Path, volume: u32, leb: u32) -> usize {
    let survey = opened(
        image,
        &Opening {
            salvage: true,
            ..Opening::default()
        },
    )
    .survey(None)
    .unwrap()
    .unwrap();
    survey.current(volume, leb).unwrap().peb as usize * survey.shape.peb_bytes as usize
}

#[test]
fn damage_is_found_by_offset_and_the_rest_is_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let (good, _) = device(Options::default(), scratch.path(), 0);
    fs::write(&image, &good).unwrap();
    let fixed = block_of(&image, 1, 2);
    let tables = [0, 1].map(|lnum| block_of(&image, LAYOUT_VOLUME, lnum));
    let found = |bytes: &[u8]| {
        fs::write(&image, bytes).unwrap();
        let checked = check(&mut opened(
            &image,
            &Opening {
                salvage: true,
                ..Opening::default()
            },
        ))
        .unwrap();
        checked
            .findings
            .into_iter()
            .filter(|one| one.severity > Severity::Note)
            .collect::<Vec<_>>()
    };
    let mut bytes = good.clone();
    bytes[fixed + 4096 + 77] ^= 0x10;
    let findings = found(&bytes);
    assert!(
        findings.iter().any(
            |one| one.offset == Some(fixed as u64) && one.what.contains("checksum of the data")
        ),
        "{findings:?}"
    );
    let (contents, losses) = raw_bytes(&image, "fixed");
    assert!(
        contents.len() == 70_000 && losses.len() == 1 && losses[0].starts_with("LEB 2, "),
        "{losses:?}"
    );
    // A damaged volume header with data behind it.
    let mut bytes = good.clone();
    bytes[fixed + 2048 + 9] ^= 1;
    let findings = found(&bytes);
    assert!(
        findings
            .iter()
            .any(|one| one.what.contains("volume header: header checksum")
                && one.offset == Some(fixed as u64)),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|one| one.what.contains("LEB 2: no block, expected 3")),
        "{findings:?}"
    );
    // A kernel takes a block without an erase counter for an erased one.
    let mut bytes = good.clone();
    bytes[fixed..fixed + 64].fill(0xFF);
    let findings = found(&bytes);
    assert!(
        findings.iter().any(|one| one.severity == Severity::Damage
            && one
                .what
                .contains("Linux erases the block, with volume 1, LEB 2")
            && one.offset == Some(fixed as u64)),
        "{findings:?}"
    );
    // One table is enough; without any the blocks name the volumes.
    let mut bytes = good.clone();
    bytes[tables[0]..tables[0] + 32_768].fill(0xFF);
    assert!(
        found(&bytes)
            .iter()
            .all(|one| one.severity == Severity::Waste)
    );
    assert_eq!(raw_bytes(&image, "fixed").1, [""; 0]);
    bytes[tables[1] + 4096..tables[1] + 8192].fill(0);
    assert!(
        found(&bytes)
            .iter()
            .any(|one| one.what.contains("no copy of the volume table is whole"))
    );
    assert_eq!(
        raw_bytes(&image, "1"),
        (FIXED.repeat(70_000 / FIXED.len()), Vec::new())
    );
    let mut volume = opened(
        &image,
        &Opening {
            salvage: true,
            ..Opening::default()
        },
    );
    assert!(
        volume.troubles[0].starts_with("UBI: "),
        "{:?}",
        volume.troubles
    );
    assert!(
        nandlab_image::walk::one(volume.fs().unwrap(), b"").is_ok(),
        "the file system in volume 0 is there"
    );
}

#[test]
fn a_static_volume_whose_blocks_say_that_they_are_a_dynamic_ones_is_empty() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let (mut bytes, _) = device(Options::default(), scratch.path(), 0);
    fs::write(&image, &bytes).unwrap();
    for lnum in 0..3 {
        let at = block_of(&image, 1, lnum) + 2048;
        let header = &mut bytes[at..at + 64];
        let Parsed::Good(found) = VidHeader::parse(header, 28_672) else {
            panic!("a header")
        };
        let changed = VidHeader {
            kind: VolumeKind::Dynamic,
            used_ebs: 0,
            data_size: 0,
            data_crc: 0,
            ..found
        };
        header.copy_from_slice(&changed.encode());
    }
    fs::write(&image, &bytes).unwrap();
    assert_eq!(raw_bytes(&image, "fixed").0, []);
}

/// Makes the volume table say that a volume is dynamic and has so many blocks.
fn reserve(image: &std::path::Path, volume: usize, lebs: u32) {
    let mut bytes = fs::read(image).unwrap();
    for copy in 0..2 {
        let record = &mut bytes[block_of(image, LAYOUT_VOLUME, copy) + 4096..]
            [volume * RECORD_BYTES..][..RECORD_BYTES];
        record[..4].copy_from_slice(&lebs.to_be_bytes());
        record[12] = 1;
        let checksum = crc(&record[..RECORD_BYTES - 4]);
        record[RECORD_BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
    }
    fs::write(image, &bytes).unwrap();
}

#[test]
fn volumes_that_reserve_more_than_any_flash_has_are_read_as_far_as_they_are_there() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    fs::write(&image, device(Options::default(), scratch.path(), 0).0).unwrap();
    reserve(&image, 0, 0x7000_0000);
    let mut volume = opened(
        &image,
        &Opening {
            salvage: true,
            ..Opening::default()
        },
    );
    assert!(
        nandlab_image::walk::one(volume.fs().unwrap(), b"").is_ok(),
        "the file system in volume 0 is there"
    );
    fs::write(&image, device(Options::default(), scratch.path(), 0).0).unwrap();
    reserve(&image, 1, 0x7000_0000);
    let opening = Opening {
        volume: Some("fixed".into()),
        salvage: true,
        ..Opening::default()
    };
    let error = raw(&opened(&image, &opening), &opening, &mut Vec::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("found 1879048192 logical blocks, expected at most "),
        "{error}"
    );
}

#[test]
fn older_versions_of_a_volume_are_still_there() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let format = ImageFormat {
        page: 2048,
        oob: 0,
        pages_per_block: 16,
        layout: MtdLayout::Raw,
        ecc: None,
    };
    let mut ubi = Ubi::format(
        Image::new(vec![0xFF; format.bytes(40) as usize], format).unwrap(),
        Options::default(),
    )
    .unwrap();
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "v".into(),
            lebs: 2,
            ..VolumeSpec::default()
        })
        .unwrap();
    for round in 1..=3u8 {
        ubi.change(id, 0, &[round; 4096]).unwrap();
    }
    // As a power cut leaves it: replaced blocks are queued for an erase.
    fs::write(&image, ubi.into_medium().into_backing()).unwrap();
    let versions = opened(&image, &Opening::default())
        .survey(None)
        .unwrap()
        .unwrap()
        .versions();
    assert!(
        versions.len() >= 2 && versions.iter().filter(|one| one.current).count() == 1,
        "{versions:?}"
    );
    for (back, version) in versions.iter().rev().enumerate() {
        let opening = Opening {
            until: Some(version.sequence),
            ..Opening::default()
        };
        let mut bytes = Vec::new();
        raw(&opened(&image, &opening), &opening, &mut bytes).unwrap();
        assert_eq!(
            bytes[..4096],
            [3 - back as u8; 4096],
            "sequence {}",
            version.sequence
        );
    }
}
