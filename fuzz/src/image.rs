//! Images of every format, found out by what is in them: JFFS2, UBI with and without a log and with
//! a file system in a volume, F2FS, ext, FAT, NFTL. Edits are those of the formats' own targets; of
//! some images only the beginning is there.
//!
//! *A run* does what `nandlab image` does: finds out what the bytes are, opens all layers, reports
//! them, checks, and extracts everything to an archive, as far as it can be had. The input says
//! what is known of the shape. *Bound:* 24 MiB of heap.

use crate::heap;
use nandlab_block::{BlockDevice, Ram};
use nandlab_damage::disk::{Bytes, Target};
use nandlab_damage::edit::Script;
use nandlab_damage::{ext, f2fs, fat, jffs2, plant, ubi};
use nandlab_ftl::nftl::{Nftl, NftlOptions};
use nandlab_image::check::check;
use nandlab_image::detect::Hints;
use nandlab_image::overlay::Overlay;
use nandlab_image::place::Place;
use nandlab_image::raw::raw;
use nandlab_image::tar_out::TarOut;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::{Backing, BackingError};
use nandlab_ubi::{Options, Ubi, VolumeDisk, VolumeSpec};
use nandlab_vfs::FileSystem;
use std::sync::{Arc, OnceLock};

/// NFTL is a tenth as quick as the others: it gets one of so many.
const KINDS: usize = 13;
const HEAP: usize = 24 << 20;
const NFTL: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 16,
    layout: Layout::DiskOnChip,
    ecc: None,
};
const NFTL_BLOCKS: u32 = 40;

/// A medium as an input has it.
#[derive(Debug)]
pub enum Medium {
    /// All bytes of a flash.
    Flash(Vec<u8>),
    /// A disk, most of which may never have been written.
    Disk(Ram),
}

/// The medium of an input, and the shape of its flash; a disk has none.
pub fn medium(script: Script<'_>) -> (Medium, ImageFormat) {
    let mut own = script;
    own.seed /= KINDS;
    seeds();
    let disk = |target: &Target| (Medium::Disk(target.edited(own)), NFTL);
    match script.seed % KINDS {
        0 | 6 => {
            let seeds = jffs2::seeds();
            let seed = &seeds[own.seed % seeds.len()];
            let bytes = seed.edited(own).into_backing();
            (Medium::Flash(bytes), seed.format)
        }
        1 | 7 => {
            let seeds = ubi::seeds();
            let seed = &seeds[own.seed % seeds.len()];
            (Medium::Flash(seed.edited(own)), seed.format)
        }
        2 | 8 => (Medium::Flash(seeds().0.edited(own)), ubi::LARGE),
        3 | 9 => disk(&ext::TARGET),
        4 | 10 => disk(&fat::TARGET),
        5 | 11 => disk(&f2fs::TARGET),
        _ => (Medium::Flash(nftl(script)), NFTL),
    }
}

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let (medium, format) = medium(script);
    let place = match medium {
        Medium::Flash(bytes) => flash(bytes),
        Medium::Disk(ram) => disk(ram),
    };
    let place = match script.part {
        Some(part) => cut(place, part),
        None => place,
    };
    survive(place, format, script.options);
}

/// The beginning of an image, which may end within a sector or page.
fn cut(whole: Place, part: u8) -> Place {
    Place::bytes("part", move || {
        let bytes = whole.raw().expect("bytes in memory");
        let end = bytes.len() * u64::from(part) / 256 + u64::from(part % 5);
        Box::new(Overlay::cut(bytes, end))
    })
}

/// A volume of UBI with FAT in it, and FAT on NFTL.
fn seeds() -> &'static (ubi::Seed, Vec<u8>) {
    static SEEDS: OnceLock<(ubi::Seed, Vec<u8>)> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let bytes = vec![0xFF; ubi::BYTES];
        let mut ubi = Ubi::format(
            Image::new(bytes, ubi::LARGE).expect("whole blocks"),
            Options::default(),
        )
        .expect("a flash without faults");
        let id = ubi
            .create_volume(&VolumeSpec {
                name: "v".into(),
                lebs: 22,
                ..VolumeSpec::default()
            })
            .expect("space for a volume");
        let disk = VolumeDisk::new(ubi, id).expect("a dynamic volume");
        let ubi = planted(disk)
            .into_ubi()
            .expect("a flash without faults")
            .detach()
            .expect("a flash without faults");
        let bytes = vec![0xFF; NFTL.bytes(NFTL_BLOCKS) as usize];
        let options = NftlOptions {
            spare_units: 4,
            ..NftlOptions::default()
        };
        let disk = Nftl::format(Image::new(bytes, NFTL).expect("whole blocks"), options)
            .expect("a flash without faults");
        (
            ubi::Seed::of(ubi.into_backing(), ubi::LARGE, Options::default()),
            planted(disk).into_medium().into_backing(),
        )
    })
}

fn planted<D: BlockDevice>(mut disk: D) -> D {
    nandlab_fat::format(&mut disk, &nandlab_fat::Format::default()).expect("a disk of this size");
    let mut fat =
        nandlab_fat::Fat::mount(&mut disk, nandlab_fat::Options::default()).expect("a new volume");
    plant::plant(&mut fat, 6, 3000).expect("space for the tree");
    fat.unmount().expect("a disk without faults");
    drop(fat);
    disk
}

/// NFTL has no checksums that stand in the way.
fn nftl(script: Script<'_>) -> Vec<u8> {
    let mut bytes = seeds().1.clone();
    let len = bytes.len();
    let block = NFTL.bytes(1) as usize;
    for edit in script.edits() {
        let page = edit.place * 528 % len;
        let at = page
            + if edit.verb & 1 == 0 {
                512 + usize::from(edit.field) % 13
            } else {
                usize::from(edit.field) * 2
            };
        match edit.verb % 12 {
            0..8 => bytes[at] = edit.value as u8,
            8 | 9 => bytes[at..at + 2].copy_from_slice(&(edit.value as u16).to_le_bytes()),
            10 => bytes.copy_within(
                edit.value as usize % (len / block) * block
                    ..(edit.value as usize % (len / block) + 1) * block,
                page / block * block,
            ),
            _ => bytes[page / block * block..(page / block + 1) * block].fill(edit.value as u8),
        }
    }
    bytes
}

/// Bytes of flash that are opened several times.
#[derive(Clone)]
struct Flash(Arc<Vec<u8>>);

impl Backing for Flash {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        let outside = BackingError::OutOfRange {
            offset,
            count: buf.len() as u64,
            len: self.len(),
        };
        let from = self
            .0
            .get(offset as usize..)
            .and_then(|rest| rest.get(..buf.len()))
            .ok_or(outside)?;
        buf.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        panic!("what is opened for reading is written");
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

fn flash(bytes: Vec<u8>) -> Place {
    let bytes = Flash(Arc::new(bytes));
    Place::bytes("flash", move || Box::new(bytes.clone()))
}

fn disk(ram: Ram) -> Place {
    Place::bytes("disk", move || Box::new(Bytes(ram.clone())))
}

/// Any bytes are reported, checked and extracted, or refused in words.
fn survive(place: Place, format: ImageFormat, options: u8) {
    let bit = |number: u8| options >> number & 1 != 0;
    let known = Hints {
        block: Some(format.page * format.pages_per_block),
        page: Some(format.page),
        oob: Some(format.oob),
        layout: Some(format.layout),
        ecc: None,
    };
    let opening = Opening {
        hints: if bit(0) { Hints::default() } else { known },
        volume: None,
        until: bit(1).then(|| u64::from(options >> 4)),
        salvage: !bit(2),
        ..Opening::default()
    };
    heap::bounded(HEAP, || match Volume::at(place, &opening, Access::Read) {
        Err(error) => assert!(error.to_string().len() > 3, "an error says what is wrong"),
        Ok(mut volume) => use_it(&mut volume, &opening),
    });
}

fn use_it(volume: &mut Volume, opening: &Opening) {
    _ = check(volume);
    _ = raw(volume, opening, &mut std::io::sink());
    let Ok(fs) = volume.fs() else { return };
    _ = fs.statfs();
    let mut nothing = |_| {};
    let Ok(mut walk) = volume.walk(true, &mut nothing) else {
        return;
    };
    let outcome = walk.run(b"", &mut TarOut::new(std::io::sink(), "archive"));
    if let Err(error) = outcome.map_err(|error| volume.explain(error)) {
        assert!(error.to_string().len() > 3, "an error says what is wrong");
    }
}
