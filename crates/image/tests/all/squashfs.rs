//! squashfs in a file and in volumes of UBI: everything in it comes out, and nothing goes in.
//!
//! Needs squashfs-tools; fails saying so.

use crate::common::{archive, differences, extracted, held, tree};
use nandlab_image::ImageError;
use nandlab_image::check::{Severity, Verdict, check};
use nandlab_image::edit::edit;
use nandlab_image::tree::Entry;
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_testkit::tools::{command, printed, text};
use std::fs::{self, File};
use std::path::Path;

type Held = Vec<(Entry, Vec<u8>)>;

/// Packs the common tree as an archive, which needs no privileges. Returns what should come out:
/// squashfs keeps whole seconds, and has no name space for access lists; `sqfstar` takes neither
/// sockets nor holes out of an archive.
fn packed(scratch: &Path, options: &[&str]) -> Held {
    let tar = scratch.join("tree.tar");
    let mut tree = tree(scratch, false);
    let dropped: [&[u8]; 3] = [b"sparse", b"zeros", b"dev/socket"];
    tree.entries
        .retain(|(entry, _)| !dropped.contains(&&entry.path[..]));
    fs::write(&tar, archive(&tree)).unwrap();
    let output = command("squashfs-tools", "sqfstar")
        .args(options)
        .args(["-quiet", "-no-progress", text(&scratch.join("image"))])
        .stdin(File::open(&tar).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let mut expected = held(&fs::read(&tar).unwrap(), scratch);
    expected.retain(|(entry, _)| !entry.path.is_empty());
    for (entry, _) in &mut expected {
        entry.mtime.nanos = 0;
        entry
            .xattrs
            .retain(|(name, _)| !name.starts_with(b"system."));
    }
    expected
}

/// Checks that an image is sound and holds what it should.
fn assert_holds(image: &Path, expected: &Held, scratch: &Path) {
    let mut found = held(&extracted(image), scratch);
    // `sqfstar` makes a root of its own.
    found.retain(|(entry, _)| !entry.path.is_empty());
    assert_eq!(differences(expected, &found), "", "{}", image.display());
    let mut volume = Volume::open(image, &Opening::default(), Access::Read).unwrap();
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Sound, "{checked:?}");
    // UBI notes that blocks are to be added.
    assert!(checked.worst() <= Some(Severity::Note), "{checked:?}");
}

#[test]
fn everything_in_a_tree_comes_out_with_each_compressor() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for compressor in ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"] {
        let expected = packed(scratch.path(), &["-comp", compressor]);
        assert_holds(&image, &expected, scratch.path());
        let volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
        let [
            Layer::Squashfs {
                compressor: found,
                block,
                ..
            },
        ] = volume.layers[..]
        else {
            panic!("{:?}", volume.layers)
        };
        assert_eq!((found, block), (compressor, 131_072));
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn an_image_without_padding_is_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let expected = packed(scratch.path(), &["-nopad", "-b", "4096"]);
    let len = fs::metadata(&image).unwrap().len();
    assert!(!len.is_multiple_of(512), "{len}");
    assert_holds(&image, &expected, scratch.path());
}

/// UBI with the image in one volume, and an empty one before it.
fn in_ubi(scratch: &Path, kind: &str, to: &Path) {
    let config = format!(
        "[first]\nmode=ubi\nvol_id=0\nvol_size=256KiB\nvol_type=dynamic\nvol_name=first\n\
         [root]\nmode=ubi\nimage=image\nvol_id=1\nvol_type={kind}\nvol_name=root\n"
    );
    fs::write(scratch.join("config"), config).unwrap();
    let device = Device {
        block: 128 * 1024,
        page: 2048,
        sub_page: 2048,
        image_seq: 7,
    };
    ubinize(&scratch.join("config"), device, to).unwrap();
}

#[test]
fn everything_comes_out_of_static_and_dynamic_volumes_of_ubi() {
    let scratch = tempfile::tempdir().unwrap();
    let expected = packed(scratch.path(), &["-comp", "xz"]);
    for kind in ["static", "dynamic"] {
        let ubi = scratch.path().join(kind);
        in_ubi(scratch.path(), kind, &ubi);
        assert_holds(&ubi, &expected, scratch.path());
        let volume = Volume::open(&ubi, &Opening::default(), Access::Read).unwrap();
        let Some(Layer::Ubi { volumes, .. }) = volume.layers.get(1) else {
            panic!("{:?}", volume.layers)
        };
        assert_eq!(
            (volumes[1].holds, volume.looked_into),
            (Some("squashfs"), Some(1))
        );
        // From the blocks' headers alone, as for a past moment.
        let past = Opening {
            until: Some(u64::MAX),
            ..Opening::default()
        };
        let mut volume = Volume::open(&ubi, &past, Access::Read).unwrap();
        let checked = check(&mut volume).unwrap();
        assert_eq!(checked.verdict(), Verdict::Sound, "{kind}: {checked:?}");
        assert!(volume.fs().is_ok(), "{kind}");
    }
}

#[test]
fn an_edit_is_refused_by_the_name_of_the_format() {
    let scratch = tempfile::tempdir().unwrap();
    packed(scratch.path(), &[]);
    in_ubi(scratch.path(), "dynamic", &scratch.path().join("ubi"));
    for name in ["image", "ubi"] {
        let image = scratch.path().join(name);
        let before = fs::read(&image).unwrap();
        let refused = edit(&image, &Opening::default(), 0, |_| Ok(()));
        let reported = refused.unwrap_err().to_string();
        let expected = "squashfs: it is a read-only format; extract it, and make a new image";
        assert!(reported.starts_with(expected), "{name}: {reported}");
        assert!(before == fs::read(&image).unwrap(), "{name}");
    }
}

#[test]
fn a_damaged_or_short_image_is_damage_and_its_rest_is_salvaged() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    packed(scratch.path(), &["-comp", "gzip", "-b", "4096"]);
    let mut bytes = fs::read(&image).unwrap();
    bytes[3000..3500].fill(0x55);
    fs::write(&image, &bytes).unwrap();
    let mut volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Damaged, "{checked:?}");
    let finding = &checked.findings[0];
    assert_eq!(finding.severity, Severity::Damage);
    assert!(finding.offset.is_some_and(|at| at < 4000), "{finding}");
    bytes.truncate(bytes.len() / 2);
    fs::write(&image, &bytes).unwrap();
    let opened = Volume::open(&image, &Opening::default(), Access::Read);
    assert!(
        matches!(
            opened,
            Err(ImageError::Open {
                layer: "squashfs",
                ..
            })
        ),
        "{opened:?}"
    );
    let salvage = Opening {
        salvage: true,
        ..Opening::default()
    };
    let mut volume = Volume::open(&image, &salvage, Access::Read).unwrap();
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Damaged, "{checked:?}");
}
