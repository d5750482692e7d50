//! What is damaged is neither dropped without a word nor made worse by an edit.

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::Ext;
use nandlab_fat::{Bits, Fat};
use nandlab_image::ImageError;
use nandlab_image::check::{Severity, Verdict, check, unlisted};
use nandlab_image::edit::edit;
use nandlab_image::history::History;
use nandlab_image::left_out::left_out;
use nandlab_image::remove::remove;
use nandlab_image::repair::repair;
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::source;
use nandlab_image::tree::Entry;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::{Losses, each_in};
use nandlab_jffs2::{Jffs2, Options};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_testkit::disk::{poke, ram, save, word};
use nandlab_testkit::files::{NOW, bytes, mkdir, put};
use nandlab_vfs::{Errno, FileSystem, Ino, MemFs, delegate};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of an erase block.
const BLOCK: usize = 64 * 1024;

/// A FAT16 volume with the file `SAFE`, the file `LOOSE` and the directory `outer/inner`.
fn fat() -> Ram {
    let mut disk = ram(3000);
    let choices = nandlab_fat::Format {
        bits: Some(Bits::Fat16),
        cluster_sectors: Some(1),
        ..Default::default()
    };
    nandlab_fat::format(&mut disk, &choices).unwrap();
    let mut fat = Fat::mount(&mut disk, nandlab_fat::Options::default()).unwrap();
    put(&mut fat, Ino::ROOT, "SAFE", &bytes(1, 3000));
    put(&mut fat, Ino::ROOT, "LOOSE", &bytes(2, 3000));
    let outer = mkdir(&mut fat, Ino::ROOT, "OUTER");
    mkdir(&mut fat, outer, "INNER");
    fat.unmount().unwrap();
    disk
}

/// The place of the slot with a short name.
fn slot(disk: &mut Ram, name: &[u8]) -> u64 {
    let mut all = vec![0; 200 * 512];
    disk.read(Lba(0), &mut all).unwrap();
    let is = |slot: &[u8]| slot.starts_with(name) && slot[11] != 0x0F;
    32 * all.chunks(32).position(is).unwrap() as u64
}

/// The first cluster in a slot.
fn start(disk: &mut Ram, slot: u64) -> u64 {
    u64::from(word(disk, slot + 26) & 0xFFFF)
}

/// JFFS2 in memory, with its nodes' checksums made right by [`forge_name`] after a change.
fn jffs2(fill: impl FnOnce(&mut dyn FileSystem)) -> Vec<u8> {
    let options = Options {
        summary: false,
        ..Options::default()
    };
    let mut fs = Jffs2::mount(flash(vec![0xFF; 12 * BLOCK]), options).unwrap();
    fill(&mut fs);
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

/// JFFS2's checksum: CRC-32 without the inversions.
fn crc(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    crc.to_le_bytes()
}

/// Changes the node of a name and makes its checksums right again.
fn forge_name(image: &mut [u8], name: &[u8], change: impl FnOnce(&mut [u8])) {
    let head = [0x85, 0x19, 0x01, 0xE0];
    let at = (0..image.len())
        .step_by(4)
        .find(|at| image[*at..].starts_with(&head) && image[at + 40..].starts_with(name))
        .unwrap();
    let node = &mut image[at..at + 40 + name.len()];
    change(node);
    let own = crc(&node[..32]);
    let of_name = crc(&node[40..]);
    node[32..36].copy_from_slice(&own);
    node[36..40].copy_from_slice(&of_name);
}

/// A file to work on.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn image(&self) -> PathBuf {
        self.0.path().join("image")
    }

    fn with(&self, bytes: &[u8]) -> PathBuf {
        fs::write(self.image(), bytes).unwrap();
        self.image()
    }

    fn with_disk(&self, disk: &mut Ram) -> PathBuf {
        save(disk, &self.image());
        self.image()
    }
}

fn open(image: &Path) -> Volume {
    Volume::open(image, &Opening::default(), Access::Read).unwrap()
}

/// What an edit that adds a file says.
fn put_into(image: &Path) -> Result<(), ImageError> {
    edit(image, &Opening::default(), 5000, |volume| {
        put(volume.fs()?, Ino::ROOT, "NEW", &bytes(3, 5000));
        Ok(())
    })
}

/// An edit is refused and changes nothing; gives its message.
fn refused(image: &Path) -> String {
    let before = fs::read(image).unwrap();
    let error = put_into(image).unwrap_err();
    assert!(fs::read(image).unwrap() == before, "the image was changed");
    error.to_string()
}

#[test]
fn a_fat_volume_with_a_file_on_free_clusters_is_damaged_and_not_written() {
    let lab = Lab::new();
    let mut disk = fat();
    put_into(&lab.with_disk(&mut disk)).unwrap();
    // Frees the file's clusters in both tables.
    let place = slot(&mut disk, b"LOOSE");
    let first = start(&mut disk, place);
    let mut boot = [0; 512];
    disk.read(Lba(0), &mut boot).unwrap();
    let [reserved, sectors] = [14, 22].map(|at| u64::from(boot[at]) | u64::from(boot[at + 1]) << 8);
    for copy in 0..2 {
        let table = (reserved + copy * sectors) * 512;
        poke(&mut disk, table + first * 2, &[0; 12]);
    }
    let image = lab.with_disk(&mut disk);
    assert_eq!(
        check(&mut open(&image)).unwrap().worst(),
        Some(Severity::Damage)
    );
    let message = refused(&image);
    assert!(message.contains("/LOOSE: cluster"), "{message}");
    assert!(message.contains("marked free"), "{message}");
    assert!(repair(&image, &Opening::default(), NOW).unwrap().replaced);
    put_into(&image).unwrap();
    assert_eq!(check(&mut open(&image)).unwrap().worst(), None);
}

#[test]
fn a_jffs2_image_with_a_node_across_blocks_is_damaged_and_not_written() {
    let lab = Lab::new();
    let mut image = jffs2(|fs| _ = put(fs, Ino::ROOT, "file", &bytes(1, 9000)));
    let node = (0..image.len())
        .step_by(4)
        .find(|at| image[*at..].starts_with(&[0x85, 0x19, 0x02, 0xE0]))
        .unwrap();
    let len = BLOCK as u32 + 36;
    image[node + 4..node + 8].copy_from_slice(&len.to_le_bytes());
    let own = crc(&image[node..node + 8]);
    image[node + 8..node + 12].copy_from_slice(&own);
    let image = lab.with(&image);
    assert_eq!(
        check(&mut open(&image)).unwrap().worst(),
        Some(Severity::Damage)
    );
    let message = refused(&image);
    let place = format!("byte {node:#x}: node of {len} bytes");
    assert!(message.contains(&place), "{message}");
    assert!(message.contains("erase block of 65536 bytes"), "{message}");
}

#[test]
fn removal_refuses_a_cycle_of_directories_with_its_path() {
    let mut image = jffs2(|fs| {
        let outer = mkdir(fs, Ino::ROOT, "outer");
        let inner = mkdir(fs, outer, "inner");
        put(fs, inner, "back", b"");
    });
    // Leads back to `outer`, with the type of a file.
    forge_name(&mut image, b"back", |node| {
        node[20..24].copy_from_slice(&2u32.to_le_bytes())
    });
    let mut jffs2 = Jffs2::mount(flash(image), Options::default()).unwrap();
    let error = remove(&mut jffs2, b"/outer", true, NOW).unwrap_err();
    assert!(
        error.to_string().starts_with("/outer/inner/back: "),
        "{error}"
    );

    let mut disk = fat();
    let outer = slot(&mut disk, b"OUTER");
    let inner = slot(&mut disk, b"INNER");
    let first = start(&mut disk, outer) as u16;
    poke(&mut disk, inner + 26, &first.to_le_bytes());
    let mut fat = Fat::mount(&mut disk, nandlab_fat::Options::default()).unwrap();
    let error = remove(&mut fat, b"OUTER", true, NOW).unwrap_err();
    assert!(error.to_string().starts_with("/OUTER/INNER"), "{error}");
    assert!(error.to_string().contains("above it"), "{error}");
}

/// Counts calls that find entries.
struct Counting {
    fs: MemFs,
    lookups: u32,
}

impl FileSystem for Counting {
    delegate! { [self.fs]
        forget getattr setattr create link unlink rmdir rename readlink read write readdir fsync sync
        unmount statfs
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<nandlab_vfs::Attr, Errno> {
        self.lookups += 1;
        self.fs.lookup(dir, name)
    }
}

#[test]
fn removal_of_three_thousand_levels_looks_each_entry_up_once() {
    let mut fs = MemFs::new(64 << 20, NOW);
    let mut dir = Ino::ROOT;
    for _ in 0..3000 {
        let below = mkdir(&mut fs, dir, "d");
        put(&mut fs, below, "f", b"");
        dir = below;
    }
    let mut fs = Counting { fs, lookups: 0 };
    remove(&mut fs, b"d", true, NOW).unwrap();
    assert_eq!(fs.lookups, 6000);
    assert_eq!(fs.fs.lookup(Ino::ROOT, b"d"), Err(Errno::NoEntry));
}

#[test]
fn history_tells_each_of_three_thousand_levels_with_a_bounded_path() {
    let lab = Lab::new();
    let image = jffs2(|fs| {
        let mut dir = Ino::ROOT;
        for _ in 0..3000 {
            let below = mkdir(fs, dir, "d");
            fs.forget(dir, 1);
            dir = below;
        }
    });
    let history = History::read(&mut open(&lab.with(&image))).unwrap();
    let events = history.events();
    assert!(events.len() >= 6000, "{}", events.len());
    assert!(events.iter().all(|event| event.path.0.len() <= 4097));
}

/// Takes entries and reads nothing.
struct Paths(Vec<Vec<u8>>);

impl Sink for Paths {
    fn put(&mut self, entry: &Entry, _: &mut dyn Bytes) -> nandlab_image::Result<()> {
        self.0.push(entry.path.clone());
        Ok(())
    }

    fn finish(&mut self) -> nandlab_image::Result<()> {
        Ok(())
    }
}

fn walked(volume: &mut Volume, salvage: bool) -> nandlab_image::Result<(Paths, Losses)> {
    let mut paths = Paths(Vec::new());
    let mut nothing = |_| {};
    let mut walk = volume.walk(salvage, &mut nothing)?;
    walk.run(b"", &mut paths)?;
    Ok((paths, walk.losses))
}

#[test]
fn a_bad_name_of_ext2_is_refused_or_a_loss_and_the_rest_is_listed() {
    for (name, why) in [
        (&b"f/le"[..], "no directory can hold"),
        (b"f\0le", "no directory can hold"),
        (b"kept", "a second entry"),
    ] {
        let lab = Lab::new();
        let mut disk = ram(1200);
        nandlab_ext::format(&mut disk, &nandlab_ext::Format::default()).unwrap();
        let mut ext = Ext::mount(&mut disk, nandlab_ext::Options::default()).unwrap();
        put(&mut ext, Ino::ROOT, "kept", b"kept");
        put(&mut ext, Ino::ROOT, "file", b"lost");
        ext.unmount().unwrap();
        let mut all = vec![0; 1200 * 1024];
        disk.read(Lba(0), &mut all).unwrap();
        let at = all.windows(4).position(|bytes| bytes == b"file").unwrap();
        poke(&mut disk, at as u64, name);
        let mut volume = open(&lab.with_disk(&mut disk));
        assert_eq!(check(&mut volume).unwrap().worst(), Some(Severity::Damage));
        let error = walked(&mut volume, false).err().unwrap();
        assert!(error.to_string().contains(why), "{error}");
        let (paths, losses) = walked(&mut volume, true).unwrap();
        assert!(paths.0.contains(&b"kept".to_vec()));
        assert_eq!(losses.list.len(), 1, "{losses:?}");
        assert_eq!(losses.list[0].path.0, [b"/", name].concat());
        let mut listed = Vec::new();
        let losses = each_in(volume.fs().unwrap(), Ino::ROOT, b"", &mut |entry| {
            listed.push(entry.path);
            Ok(())
        });
        assert_eq!(listed, [&b"kept"[..], b"lost+found"]);
        assert!(losses.unwrap().list[0].what.contains(why));
    }
}

#[test]
fn a_volume_with_features_of_ext4_that_no_check_looks_at_is_not_called_sound() {
    const FEATURES: u64 = 1024 + 100;
    let lab = Lab::new();
    let mut disk = ram(1200);
    nandlab_ext::format(&mut disk, &nandlab_ext::Format::default()).unwrap();
    let checked = check(&mut open(&lab.with_disk(&mut disk))).unwrap();
    assert_eq!(checked.verdict(), Verdict::Sound, "{checked:?}");
    let more = word(&mut disk, FEATURES) | 0x8000_0100;
    poke(&mut disk, FEATURES, &more.to_le_bytes());
    let checked = check(&mut open(&lab.with_disk(&mut disk))).unwrap();
    assert_eq!(checked.verdict(), Verdict::NotLookedAt, "{checked:?}");
    let unseen = "what features of ext4 add: quota, 0x80000000";
    assert_eq!(checked.unseen, [unseen]);
}

#[test]
fn a_file_in_a_circle_of_blocks_ends_for_every_reader() {
    let lab = Lab::new();
    let mut disk = ram(1200);
    nandlab_ext::format(&mut disk, &nandlab_ext::Format::default()).unwrap();
    let mut ext = Ext::mount(&mut disk, nandlab_ext::Options::default()).unwrap();
    let contents = [0xC1; 1024];
    put(&mut ext, Ino::ROOT, "file", &contents);
    ext.unmount().unwrap();
    let mut all = vec![0; 1200 * 1024];
    disk.read(Lba(0), &mut all).unwrap();
    let at = all
        .windows(1024)
        .position(|bytes| bytes == contents)
        .unwrap();
    let block = (at as u32 / 1024).to_le_bytes();
    let size = 1024_u32.to_le_bytes();
    let is_inode = |bytes: &[u8]| bytes[4..8] == size && bytes[40..44] == block;
    let inode = all.windows(128).position(is_inode).unwrap() as u64;
    // The block that maps the third level maps itself, and the file has 16 GiB.
    poke(&mut disk, at as u64, &block.repeat(256));
    poke(&mut disk, inode + 96, &block);
    poke(&mut disk, inode + 108, &4_u32.to_le_bytes());
    let image = lab.with_disk(&mut disk);
    let error = source::image(&image, &Opening::default(), false).unwrap_err();
    let why = "/file: file too large (more data than the image could hold)";
    assert_eq!(error.to_string(), why);
    let (_, losses) = source::image(&image, &Opening::default(), true).unwrap();
    assert!(losses.list[0].what.ends_with("could hold"), "{losses:?}");
    assert_eq!(
        check(&mut open(&image)).unwrap().worst(),
        Some(Severity::Damage)
    );
}

#[test]
fn a_bad_name_of_jffs2_is_a_loss_for_every_reader() {
    let lab = Lab::new();
    let mut image = jffs2(|fs| {
        put(fs, Ino::ROOT, "kept", b"kept");
        put(fs, Ino::ROOT, "evil", b"lost");
    });
    forge_name(&mut image, b"evil", |node| {
        node[40..].copy_from_slice(b"../z")
    });
    let mut volume = open(&lab.with(&image));
    assert_eq!(check(&mut volume).unwrap().worst(), Some(Severity::Damage));
    let (paths, _) = walked(&mut volume, false).unwrap();
    assert_eq!(paths.0, [b"".to_vec(), b"kept".to_vec()]);
    // Extraction tells the first of these, a listing the second.
    let reported = left_out(&mut volume, false).unwrap().list;
    assert!(
        reported
            .iter()
            .any(|finding| finding.what.contains("\"../z\"")),
        "{reported:?}"
    );
    assert!(unlisted(&volume).list[0].what.contains("\"../z\""));
}
