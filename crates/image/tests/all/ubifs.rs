//! UBIFS in a file and in volumes of UBI: everything in it comes out, and trees go in.
//!
//! Needs mtd-utils; fails saying so.

use crate::common::{asks_for_fixup, differences, extracted, held};
use nandlab_image::check::{Severity, Verdict, check};
use nandlab_image::edit::edit;
use nandlab_image::make::{Format, Making, make};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_image::{ImageError, Shown};
use nandlab_testkit::host;
use nandlab_testkit::share::whole_or;
use nandlab_testkit::tools::{command, printed, text};
use nandlab_vfs::{Caller, Errno, Ino, NewNode, Time};
use std::fs;
use std::path::Path;

/// Bytes of a page, of an erase block, and of a logical block.
pub const SHAPES: [(u32, u32, u32); 3] = [
    (512, 16 << 10, (16 << 10) - 1024),
    (2048, 128 << 10, (128 << 10) - 4096),
    (4096, 256 << 10, (256 << 10) - 8192),
];

/// All shapes with a value each, or the last one with its value.
pub fn shapes<T>(values: [T; 3]) -> impl Iterator<Item = ((u32, u32, u32), T)> {
    SHAPES.into_iter().zip(values).skip(whole_or(0, 2))
}

/// Makes `image` of the host's tree in `tree`.
pub fn packed(scratch: &Path, (page, _, leb): (u32, u32, u32), compressor: &str) {
    let tree = scratch.join("tree");
    if !tree.exists() {
        fs::create_dir(&tree).unwrap();
        host::tree(&tree);
    }
    let output = command("mtd-utils", "mkfs.ubifs")
        .args(["-r", text(&tree), "-o", text(&scratch.join("image"))])
        .args(["-m", &page.to_string(), "-e", &leb.to_string()])
        .args(["-c", "3000", "-x", compressor])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}

/// UBI with the image in one volume, and an empty one before it.
fn in_ubi(scratch: &Path, shape: (u32, u32, u32), to: &Path) {
    in_ubi_of(scratch, shape, to, "");
}

/// The same with more options of the volume.
pub fn in_ubi_of(scratch: &Path, (page, block, _): (u32, u32, u32), to: &Path, more: &str) {
    let config = format!(
        "[first]\nmode=ubi\nvol_id=0\nvol_size=256KiB\nvol_type=dynamic\nvol_name=first\n\
         [root]\nmode=ubi\nimage=image\nvol_id=1\nvol_type=dynamic\nvol_name=root\n{more}"
    );
    fs::write(scratch.join("config"), config).unwrap();
    let device = Device {
        block,
        page,
        sub_page: page,
        image_seq: 7,
    };
    ubinize(&scratch.join("config"), device, to).unwrap();
}

pub fn opened(image: &Path, opening: &Opening) -> Volume {
    Volume::open(image, opening, Access::Read).unwrap()
}

/// Checks that an image has no damage and holds the host's tree.
fn assert_holds(image: &Path, scratch: &Path, opening: &Opening) {
    let mut volume = opened(image, opening);
    let fs = volume.fs().unwrap();
    host::compare(fs, Ino::ROOT, &scratch.join("tree"), &[]);
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Sound, "{checked:?}");
    // UBI notes that blocks are to be added.
    assert!(checked.worst() <= Some(Severity::Note), "{checked:?}");
}

#[test]
fn everything_comes_out_of_files_and_of_volumes_of_ubi() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let ubi = scratch.path().join("ubi");
    for (shape, compressor) in shapes(["lzo", "zlib", "zstd"]) {
        packed(scratch.path(), shape, compressor);
        assert_holds(&image, scratch.path(), &Opening::default());
        let volume = opened(&image, &Opening::default());
        let Layer::Ubifs {
            format,
            leb,
            compressor: found,
            in_use,
            ..
        } = volume.layers[0]
        else {
            panic!("{:?}", volume.layers)
        };
        assert_eq!(
            (format, leb, found, in_use),
            (4, shape.2, compressor, false)
        );
        in_ubi(scratch.path(), shape, &ubi);
        assert_holds(&ubi, scratch.path(), &Opening::default());
        let volume = opened(&ubi, &Opening::default());
        let volumes = volume.layers.iter().find_map(|layer| match layer {
            Layer::Ubi { volumes, .. } => Some(volumes),
            _ => None,
        });
        assert_eq!(volumes.unwrap()[1].holds, Some("UBIFS"));
        assert_eq!(volume.looked_into, Some(1));
        // From the blocks' headers alone, as for a past moment.
        let past = Opening {
            until: Some(u64::MAX),
            ..Opening::default()
        };
        assert_holds(&ubi, scratch.path(), &past);
    }
}

#[test]
fn an_archive_of_it_has_its_links_and_its_holes() {
    let scratch = tempfile::tempdir().unwrap();
    packed(scratch.path(), SHAPES[1], "zstd");
    let found = held(&extracted(&scratch.path().join("image")), scratch.path());
    let entry = |path: &str| -> &(Entry, Vec<u8>) {
        found
            .iter()
            .find(|(entry, _)| entry.path == path.as_bytes())
            .unwrap()
    };
    assert!(found.len() > 700, "{}", found.len());
    let second = &entry("etc/of 4097").0.node;
    assert!(matches!(second, Node::Link { .. }), "{second:?}");
    let hole = &entry("hole").0.node;
    assert!(matches!(hole, Node::File { size } if *size == 1 << 30));
    // Helpers on other threads, too: the same archive, byte for byte.
    let again = held(&extracted(&scratch.path().join("image")), scratch.path());
    assert_eq!(differences(&found, &again), "");
}

/// Makes `image` of the host's tree in `tree`.
fn created(scratch: &Path, shape: (u32, u32, u32), compressor: u16, size: Option<u64>) {
    created_for(scratch, shape, compressor, (size, false));
}

/// The same, marked for a programmer perhaps.
fn created_for(
    scratch: &Path,
    (page, _, leb): (u32, u32, u32),
    compressor: u16,
    (size, fixup): (Option<u64>, bool),
) {
    let choices = nandlab_ubifs::Format {
        page: Some(page),
        compressor,
        version: 4 + u32::from(compressor % 2),
        ..Default::default()
    };
    let making = Making {
        format: Format::Ubifs {
            choices,
            leb,
            fixup,
        },
        size,
        lossy: false,
        threads: 2,
        progress: &mut |_| {},
    };
    let tree = nandlab_image::source::read(&scratch.join("tree"), None, &Opening::default());
    let made = make(tree.unwrap(), making, &scratch.join("image")).unwrap();
    assert!(made.losses.is_empty(), "{:?}", made.losses);
}

#[test]
fn the_mark_of_an_image_for_a_programmer_outlives_an_edit() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "contents").unwrap();
    let image = scratch.path().join("image");
    for fixup in [false, true] {
        created_for(scratch.path(), SHAPES[0], 1, (Some(100 * 15_360), fixup));
        let marked = || {
            let volume = Volume::open(&image, &Opening::default(), Access::Read).unwrap();
            asks_for_fixup(&volume)
        };
        assert_eq!(marked(), fixup);
        edit(&image, &Opening::default(), 0, |volume| {
            let fs = volume.fs()?;
            nandlab_testkit::files::put(fs, Ino::ROOT, "more", b"contents");
            Ok(())
        })
        .unwrap();
        assert_eq!(marked(), fixup);
        let found = held(&extracted(&image), scratch.path());
        let mut entries = found.iter();
        assert!(entries.any(|(entry, _)| entry.path == b"more"), "{found:?}");
    }
}

/// Writes a file of 4 MiB into an image.
fn put_long(image: &Path, grow: bool) -> Result<(), ImageError> {
    let now = Time::new(1_700_000_000);
    let long = nandlab_testkit::files::bytes(5, 4 << 20);
    let opening = Opening {
        grow,
        ..Opening::default()
    };
    edit(image, &opening, long.len() as u64, |volume| {
        let fs = volume.fs()?;
        let made = fs.create(Ino::ROOT, b"long", NewNode::File, 0o644, Caller::root(now));
        let written = made.and_then(|made| fs.write(made.ino, 0, &long, now));
        match written {
            Ok(count) if count == long.len() => Ok(()),
            _ => Err(ImageError::Call {
                path: Shown::path(b"long"),
                error: Errno::NoSpace,
                why: String::new(),
            }),
        }
    })
}

/// mkfs.ubifs makes an image as short as it can be, and its superblock says how long it may be.
#[test]
fn a_full_image_becomes_longer_if_it_may_and_no_longer_than_its_superblock_says() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (shape, compressor) in shapes(["lzo", "zlib", "none"]) {
        packed(scratch.path(), shape, compressor);
        let before = fs::read(&image).unwrap();
        let refused = put_long(&image, false).unwrap_err().to_string();
        assert!(refused.contains("--grow adds some"), "{refused}");
        assert!(before == fs::read(&image).unwrap());
        put_long(&image, true).unwrap();
        assert!(before.len() + (4 << 20) < fs::read(&image).unwrap().len());
        let mut volume = opened(&image, &Opening::default());
        let fs = volume.fs().unwrap();
        let long = nandlab_vfs::path::resolve(fs, b"long").unwrap();
        assert_eq!(long.size, 4 << 20);
        assert_eq!(check(&mut volume).unwrap().verdict(), Verdict::Sound);
    }
    // 64 blocks of 15 KiB are less than 4 MiB.
    let shape = SHAPES[0];
    let tree = scratch.path().join("tree");
    fs::remove_dir_all(&tree).unwrap();
    fs::create_dir(&tree).unwrap();
    created(scratch.path(), shape, 1, Some(64 * u64::from(shape.2)));
    let before = fs::read(&image).unwrap();
    let refused = put_long(&image, true).unwrap_err().to_string();
    assert!(refused.contains("no space left"), "{refused}");
    assert!(before == fs::read(&image).unwrap());
}

#[test]
fn a_tree_is_made_an_image_and_the_contents_of_a_volume() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    fs::create_dir(&tree).unwrap();
    host::tree(&tree);
    let image = scratch.path().join("image");
    let ubi = scratch.path().join("ubi");
    for (shape, compressor) in shapes([0, 1, 2]) {
        created(scratch.path(), shape, compressor, None);
        assert_holds(&image, scratch.path(), &Opening::default());
        let bytes = fs::read(&image).unwrap();
        created(scratch.path(), shape, compressor, None);
        assert!(
            bytes == fs::read(&image).unwrap(),
            "not the same bytes again"
        );
        in_ubi(scratch.path(), shape, &ubi);
        assert_holds(&ubi, scratch.path(), &Opening::default());
    }
    let size = 200 * u64::from(SHAPES[1].2);
    created(scratch.path(), SHAPES[1], 3, Some(size));
    assert_eq!(fs::metadata(&image).unwrap().len(), size);
    assert_holds(&image, scratch.path(), &Opening::default());
}

/// mkfs.ubifs compresses LZO better, so contents are not compressed here.
#[test]
fn an_image_ends_behind_its_last_block_as_one_of_mkfs_ubifs_does() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (shape, ()) in shapes([(); 3]) {
        packed(scratch.path(), shape, "none");
        let theirs = fs::metadata(&image).unwrap().len();
        created(scratch.path(), shape, 0, None);
        let bytes = fs::read(&image).unwrap();
        let leb = shape.2 as usize;
        let most = theirs + 10 * leb as u64;
        assert!(bytes.len() as u64 <= most, "{} of {theirs}", bytes.len());
        let declared = nandlab_ubifs::declared_bytes(&bytes[..4096]);
        assert_eq!(declared, Some(bytes.len() as u64));
        // The master blocks hold one node each, and no older one.
        for master in [1, 2] {
            let step = 512.max(shape.0 as usize);
            let behind = &bytes[master * leb + step..(master + 1) * leb];
            assert!(behind.iter().all(|byte| *byte == 0xFF));
        }
        assert_holds(&image, scratch.path(), &Opening::default());
        put_long(&image, true).unwrap();
        let mut volume = opened(&image, &Opening::default());
        assert_eq!(check(&mut volume).unwrap().verdict(), Verdict::Sound);
    }
}

#[test]
fn an_edit_changes_an_image_of_ours() {
    let scratch = tempfile::tempdir().unwrap();
    let now = Time::new(1_700_000_000);
    fs::create_dir(scratch.path().join("tree")).unwrap();
    host::tree(&scratch.path().join("tree"));
    created(scratch.path(), SHAPES[1], 1, None);
    in_ubi(scratch.path(), SHAPES[1], &scratch.path().join("ubi"));
    let put = scratch.path().join("tree/put");
    fs::write(&put, "new contents").unwrap();
    let when = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now.secs as u64);
    fs::File::options()
        .write(true)
        .open(&put)
        .unwrap()
        .set_modified(when)
        .unwrap();
    for name in ["image", "ubi"] {
        let image = scratch.path().join(name);
        edit(&image, &Opening::default(), 0, |volume| {
            let fs = volume.fs()?;
            let by = Caller::root(now);
            let made = fs
                .create(Ino::ROOT, b"put", NewNode::File, 0o644, by)
                .unwrap();
            fs.write(made.ino, 0, b"new contents", now).unwrap();
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_holds(&image, scratch.path(), &Opening::default());
    }
}

#[test]
fn a_damaged_or_short_image_is_damage_and_its_rest_is_salvaged() {
    let scratch = tempfile::tempdir().unwrap();
    packed(scratch.path(), SHAPES[1], "none");
    let image = scratch.path().join("image");
    let mut bytes = fs::read(&image).unwrap();
    let needle = nandlab_testkit::files::bytes(60_000, 60_000);
    let at = bytes
        .windows(64)
        .position(|window| window == &needle[8192..8256]);
    bytes[at.unwrap()] ^= 1;
    fs::write(&image, &bytes).unwrap();
    let mut volume = opened(&image, &Opening::default());
    let checked = check(&mut volume).unwrap();
    assert_eq!(checked.verdict(), Verdict::Damaged, "{checked:?}");
    assert_eq!(checked.findings[0].offset, Some(at.unwrap() as u64 - 48));
    let mut nothing = |_| {};
    let mut walk = volume.walk(true, &mut nothing).unwrap();
    walk.run(b"", &mut Kept::default()).unwrap();
    let [loss] = &walk.losses.list[..] else {
        panic!("{:?}", walk.losses);
    };
    assert_eq!(loss.path.to_string(), "/etc/of 60000");
    // The index lies near the end: without it nothing is found, and that is said.
    bytes.truncate(bytes.len() / 2);
    fs::write(&image, &bytes).unwrap();
    let short = Volume::open(&image, &Opening::default(), Access::Read);
    assert!(
        matches!(short, Err(ImageError::Open { layer: "UBIFS", .. })),
        "{short:?}"
    );
    let salvage = Opening {
        salvage: true,
        ..Opening::default()
    };
    let mut volume = opened(&image, &salvage);
    assert_eq!(check(&mut volume).unwrap().verdict(), Verdict::Damaged);
}

#[derive(Default)]
struct Kept(u64);

impl nandlab_image::sink::Sink for Kept {
    fn put(
        &mut self,
        _: &Entry,
        bytes: &mut dyn nandlab_image::sink::Bytes,
    ) -> nandlab_image::Result<()> {
        bytes.each(&mut |_, part| {
            self.0 += part.len() as u64;
            Ok(())
        })
    }

    fn finish(&mut self) -> nandlab_image::Result<()> {
        Ok(())
    }
}
