//! Whatever the bytes of an image, of whatever format: everything that looks at it ends, panics
//! nowhere, leaves it as it is, and says where something is wrong.

use crate::common;
use crate::common::{formats, made};
use nandlab_image::check::check;
use nandlab_image::make::Format;
use nandlab_image::place::Place;
use nandlab_image::raw::raw;
use nandlab_image::tar_out::TarOut;
use nandlab_image::tree::{Data, Entry, Node, Tree};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::{Backing, BackingError, mix};
use nandlab_ubi::{LogOptions, Memory, Options, Ubi, VolumeDisk, VolumeSpec};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Edited images of each format.
const SEEDS: u64 = 24;
const PAGE: u64 = 512;

/// An image with pages that are others.
#[derive(Clone)]
struct Edited {
    good: Arc<Vec<u8>>,
    pages: Arc<BTreeMap<u64, Vec<u8>>>,
}

impl Backing for Edited {
    fn len(&self) -> u64 {
        self.good.len() as u64
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        let outside = BackingError::OutOfRange {
            offset,
            count: buf.len() as u64,
            len: self.len(),
        };
        buf.copy_from_slice(
            self.good
                .get(offset as usize..)
                .and_then(|rest| rest.get(..buf.len()))
                .ok_or(outside)?,
        );
        let end = offset + buf.len() as u64;
        for (page, bytes) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = page * PAGE;
            let from = start.max(offset);
            let to = (start + bytes.len() as u64).min(end);
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        panic!("what is opened for reading is written");
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

/// Changes words, bits and whole pages where there is structure.
fn edited(good: &Arc<Vec<u8>>, structure: &[u64], seed: u64) -> Edited {
    let mut pages = BTreeMap::new();
    let numbers = |count: u64| mix(seed, count);
    let original = |page: u64| good[(page * PAGE) as usize..((page + 1) * PAGE) as usize].to_vec();
    for edit in 0..1 + numbers(0) % 12 {
        let number = |which: u64| mix(numbers(edit + 1), which);
        let pick = |which: u64| structure[(number(which) % structure.len() as u64) as usize];
        let page = pages
            .entry(pick(0))
            .or_insert_with_key(|page| original(*page));
        let at = (number(1) % (PAGE - 4)) as usize;
        let special = [
            0u32,
            1,
            0x7FFF_FFFF,
            0x8000_0000,
            0xFFFF_FFFF,
            4096,
            number(2) as u32,
            number(2) as u32 % 5000,
        ];
        match number(3) % 6 {
            0 => page[at..at + 4].copy_from_slice(&special[(number(4) % 8) as usize].to_le_bytes()),
            1 => page[at..at + 4].copy_from_slice(&special[(number(4) % 8) as usize].to_be_bytes()),
            2 => page[at] ^= 1 << (number(4) % 8),
            3 => page[at] = number(4) as u8,
            4 => *page = original(pick(5)),
            _ => page.fill(if number(4) & 1 == 0 { 0 } else { 0xFF }),
        }
    }
    Edited {
        good: good.clone(),
        pages: Arc::new(pages),
    }
}

/// Everything that the tools do with an image that they only read; gives what was wrong.
fn survive(image: &Edited, opening: &Opening) -> Vec<String> {
    let image = image.clone();
    let place = Place::bytes("image", move || Box::new(image.clone()));
    let mut volume = match Volume::at(place, opening, Access::Read) {
        Ok(volume) => volume,
        Err(error) => return vec![error.to_string()],
    };
    let mut said = volume.troubles.clone();
    match check(&mut volume) {
        Ok(checked) => said.extend(checked.findings.into_iter().map(|finding| finding.what)),
        Err(error) => said.push(error.to_string()),
    }
    if volume
        .layers
        .iter()
        .any(|layer| matches!(layer, Layer::Ubi { .. }))
    {
        said.extend(
            raw(&volume, opening, &mut std::io::sink())
                .err()
                .map(|error| error.to_string()),
        );
    }
    let Ok(fs) = volume.fs() else { return said };
    _ = fs.statfs();
    let mut nothing = |_| {};
    let mut walk = volume.walk(true, &mut nothing).unwrap();
    let outcome = walk.run(b"", &mut TarOut::new(std::io::sink(), "archive"));
    said.extend(
        std::mem::take(&mut walk.losses.list)
            .into_iter()
            .map(|loss| format!("{}: {}", loss.path, loss.what)),
    );
    said.extend(outcome.err().map(|error| volume.explain(error).to_string()));
    said
}

/// A tree that every format holds.
fn tree(scratch: &Path) -> Tree {
    let mut tree = Tree::default();
    let file = |path: &str, size: u64| Entry {
        node: Node::File { size },
        mode: 0o644,
        ..Entry::directory(path.as_bytes())
    };
    for number in 0..30usize {
        let path = scratch.join(format!("contents {number}"));
        let contents = common::bytes(number as u64, number * 700);
        fs::write(&path, &contents).unwrap();
        let name = format!("directory {}/a file with a name {number}", number % 3);
        tree.push(
            file(&name, contents.len() as u64),
            Data::whole(path, contents.len() as u64),
        );
    }
    tree.normalize().unwrap();
    tree
}

/// FAT in a volume of UBI.
fn in_ubi(fat: &[u8], memory: Memory) -> Vec<u8> {
    let format = ImageFormat {
        page: 512,
        oob: 0,
        pages_per_block: 32,
        layout: Layout::Raw,
        ecc: None,
    };
    let blocks = (fat.len() / (30 * 512)) as u32 + 40;
    let options = Options {
        memory,
        ..Options::default()
    };
    let mut ubi = Ubi::format(
        Image::new(vec![0xFF; format.bytes(blocks) as usize], format).unwrap(),
        options,
    )
    .unwrap();
    let leb = ubi.info().shape.leb_bytes;
    let lebs = (fat.len() as u32).div_ceil(leb);
    let id = ubi
        .create_volume(&VolumeSpec {
            name: "v".into(),
            lebs,
            ..VolumeSpec::default()
        })
        .unwrap();
    let mut disk = VolumeDisk::new(ubi, id).unwrap();
    for (at, sectors) in fat.chunks(512 * 16).enumerate() {
        nandlab_block::BlockDevice::write(&mut disk, nandlab_block::Lba(at as u64 * 16), sectors)
            .unwrap();
    }
    disk.into_ubi().unwrap().detach().unwrap().into_backing()
}

fn images(scratch: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let tree = tree(scratch);
    let mut images = Vec::new();
    let fat = ("fat", Format::Fat(nandlab_fat::Format::default()));
    for (name, format) in formats().into_iter().chain([fat]) {
        made(&tree, format, &scratch.join(name), 1);
        images.push((name, fs::read(scratch.join(name)).unwrap()));
    }
    let fat = images.last().unwrap().1.clone();
    images.push(("ubi", in_ubi(&fat, Memory::Scan)));
    images.push(("ubil", in_ubi(&fat, Memory::Log(LogOptions::default()))));
    images
}

#[test]
fn edited_images_of_every_format_are_looked_at_to_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, good) in images(scratch.path()) {
        let good = Arc::new(good);
        let zeros = |page: &[u8]| {
            page.iter()
                .filter(|byte| matches!(**byte, 0 | 0xFF))
                .count()
        };
        let pages = good.chunks_exact(PAGE as usize).enumerate();
        let structure: Vec<u64> = pages
            .filter(|(_, page)| (40..512).contains(&zeros(page)))
            .map(|(at, _)| at as u64)
            .collect();
        assert!(
            structure.len() > 3,
            "{name}: {} pages with structure",
            structure.len()
        );
        let untouched = Edited {
            good: good.clone(),
            pages: Arc::default(),
        };
        let said: Vec<String> = survive(&untouched, &Opening::default());
        // UBI remembers copies that were replaced.
        assert!(
            said.iter().all(|one| one.starts_with("PEB ")),
            "{name}: {said:?}"
        );
        let mut reported = 0;
        for seed in 0..SEEDS {
            let image = edited(&good, &structure, seed);
            for salvage in [false, true] {
                let said = survive(
                    &image,
                    &Opening {
                        salvage,
                        ..Opening::default()
                    },
                );
                reported += usize::from(!said.is_empty());
                assert!(
                    said.iter().all(|one| one.len() > 10 && !one.contains('\n')),
                    "{name}, seed {seed}: {said:?}"
                );
            }
        }
        assert!(
            reported > SEEDS as usize / 4,
            "{name}: {reported} of {} edited images were found wrong",
            2 * SEEDS
        );
    }
}
