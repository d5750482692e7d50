//! Media under small damage. A digest of all answers shows when one of them changes.

use nandlab_block::{BlockDevice, Lba, Nvram, Remap};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_ftl::write_cache::{CacheOptions, WriteCache};
use nandlab_ftl::{AttachError, Ftl};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::{Rail, mix};
use nandlab_testkit::hostile::near;
use nandlab_testkit::media::Media;
use nandlab_testkit::share::whole_or;

type Dump = Image<Vec<u8>>;
type Device = Box<dyn Ftl<Medium = Dump>>;

const BLOCKS: u32 = 24;
const fn pages(layout: Layout) -> ImageFormat {
    ImageFormat {
        page: 512,
        oob: 16,
        pages_per_block: 4,
        layout,
        ecc: None,
    }
}
const STRIDE: usize = 528;

/// A kind of layer: made anew, and attached.
struct Kind {
    name: &'static str,
    pages: ImageFormat,
    format: fn(Dump) -> Result<Device, AttachError>,
    attach: fn(Dump) -> Result<Device, AttachError>,
}

fn boxed<F: Ftl<Medium = Dump> + 'static>(
    made: Result<F, AttachError>,
) -> Result<Device, AttachError> {
    made.map(|device| Box::new(device) as Device)
}

fn page() -> PageOptions {
    PageOptions {
        over_provisioning: 0.8,
        map_interval: 40,
        ..PageOptions::default()
    }
}

fn cached() -> PageOptions {
    PageOptions {
        map_cache: Some(2 * 512),
        ..page()
    }
}

fn logs(options: LogBlockOptions) -> LogBlockOptions {
    LogBlockOptions {
        log_blocks: 6,
        spare_blocks: 3,
        page_order: PageOrder::Any,
        ..options
    }
}

fn nftl(ordering: Ordering) -> NftlOptions {
    NftlOptions {
        spare_units: 6,
        ordering,
        ..NftlOptions::default()
    }
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "page",
        pages: pages(Layout::MarkerOnly),
        format: |flash| boxed(PageFtl::format(flash, page())),
        attach: |flash| boxed(PageFtl::attach(flash, page())),
    },
    Kind {
        name: "page, map cache",
        pages: pages(Layout::MarkerOnly),
        format: |flash| boxed(PageFtl::format(flash, cached())),
        attach: |flash| boxed(PageFtl::attach(flash, cached())),
    },
    Kind {
        name: "BAST",
        pages: pages(Layout::MarkerOnly),
        format: |flash| boxed(LogBlockFtl::format(flash, logs(LogBlockOptions::bast()))),
        attach: |flash| boxed(LogBlockFtl::attach(flash, logs(LogBlockOptions::bast()))),
    },
    Kind {
        name: "SAST",
        pages: pages(Layout::MarkerOnly),
        format: |flash| {
            boxed(LogBlockFtl::format(
                flash,
                logs(LogBlockOptions::sast(4, 2)),
            ))
        },
        attach: |flash| {
            boxed(LogBlockFtl::attach(
                flash,
                logs(LogBlockOptions::sast(4, 2)),
            ))
        },
    },
    Kind {
        name: "FAST",
        pages: pages(Layout::MarkerOnly),
        format: |flash| boxed(LogBlockFtl::format(flash, logs(LogBlockOptions::fast()))),
        attach: |flash| boxed(LogBlockFtl::attach(flash, logs(LogBlockOptions::fast()))),
    },
    Kind {
        name: "NFTL, guarded",
        pages: pages(Layout::DiskOnChip),
        format: |flash| boxed(Nftl::format(flash, nftl(Ordering::Guarded))),
        attach: |flash| boxed(Nftl::attach(flash, nftl(Ordering::Guarded))),
    },
    Kind {
        name: "NFTL, Linux",
        pages: pages(Layout::DiskOnChip),
        format: |flash| boxed(Nftl::format(flash, nftl(Ordering::Linux))),
        attach: |flash| boxed(Nftl::attach(flash, nftl(Ordering::Linux))),
    },
];

/// Calls of every kind. Returns a digest of all answers.
fn use_up(device: &mut impl BlockDevice, seed: u64, calls: u64) -> Media {
    let mut seen = Media::default();
    let sectors = device.geometry().sectors;
    seen.note(&sectors);
    let mut sector = [0; 512];
    for number in 0..calls {
        let word = mix(seed, number);
        let lba = Lba((word >> 8) % sectors);
        seen.note(&match word % 16 {
            0 => device.discard(lba, 1 + (word >> 40) % (sectors - lba.0).min(5)),
            1 => device.flush(),
            2 | 3 => device.read(lba, &mut sector),
            4 => device.remap(&[Remap {
                from: Lba((word >> 32) % sectors),
                to: lba,
            }]),
            _ => device.write(lba, &[number as u8; 512]),
        });
    }
    for lba in 0..sectors {
        seen.note(&device.read(Lba(lba), &mut sector));
        seen.note(&sector);
    }
    seen
}

/// The medium of a device in use that nobody detached.
fn used(kind: &Kind, seed: u64) -> Vec<u8> {
    let blank = vec![0xFF; kind.pages.bytes(BLOCKS) as usize];
    let flash = Image::new(blank, kind.pages).unwrap();
    let mut device = (kind.format)(flash).unwrap();
    use_up(&mut device, seed, 160);
    device.into_medium().into_backing()
}

/// A digest of the answer to an attach, and of the medium behind some calls.
fn outcome(kind: &Kind, bytes: Vec<u8>, seed: u64) -> Media {
    let mut seen = Media::default();
    match (kind.attach)(Image::new(bytes, kind.pages).unwrap()) {
        Ok(mut device) => {
            seen.add(use_up(&mut device, seed, 24));
            seen.note(&device.tally().rows().collect::<Vec<_>>());
            seen.bytes(&device.into_medium().into_backing())
        }
        Err(error) => {
            seen.note(&error.to_string());
            seen
        }
    }
}

/// Damages a byte of spare data, or of a page that is not erased.
fn strike(bytes: &mut [u8], word: u64) {
    let pages = bytes.len() / STRIDE;
    let is_used = |page: &usize| bytes[page * STRIDE..][..STRIDE] != [0xFF; STRIDE];
    let places: Vec<usize> = (0..pages).filter(is_used).collect();
    let page = places[word as usize % places.len()];
    let within = match word >> 32 & 3 {
        0 => word as usize >> 8 & 63,
        1 => (word >> 8) as usize % 512,
        _ => 512 + (word >> 8) as usize % 16,
    };
    let byte = &mut bytes[page * STRIDE + within];
    *byte = near(*byte, word >> 40);
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    // A sample has one of each layer.
    for kind in KINDS.iter().skip(whole_or(0, 1)).step_by(whole_or(1, 2)) {
        let mut all = Media::default();
        for life in 0..4 {
            let bytes = used(kind, life);
            all.add(outcome(kind, bytes.clone(), life));
            for seed in 0..150 {
                let mut struck = bytes.clone();
                (0..1 + seed % 2).for_each(|number| strike(&mut struck, mix(seed, number)));
                all.add(outcome(kind, struck, seed));
            }
        }
        all.assert(&format!("damage, {}", kind.name));
    }
}

#[test]
fn every_answer_to_damage_of_a_caches_memory_is_a_kept_one() {
    let kind = &KINDS[0];
    let flash = used(kind, 1);
    let cache = |memory: &mut Nvram, seen: &mut Media, calls| {
        let device = (kind.attach)(Image::new(flash.clone(), kind.pages).unwrap()).unwrap();
        match WriteCache::attach(device, memory, CacheOptions::new(4)) {
            Ok(mut cache) => seen.add(use_up(&mut cache, 3, calls)),
            Err(error) => seen.note(&error.to_string()),
        }
    };
    let mut all = Media::default();
    let mut memory = Nvram::new(64, 80, Rail::new());
    cache(&mut memory, &mut all, 60);
    for seed in 0..400 {
        let mut struck = memory.clone();
        let word = mix(seed, 1);
        let at = [word % 32, 64 + (word >> 8) % 160][word as usize >> 60 & 1];
        let mut line = [0; 64];
        struck.read(Lba(at / 64), &mut line).unwrap();
        let byte = &mut line[at as usize % 64];
        *byte = near(*byte, word >> 20);
        struck.write(Lba(at / 64), &line).unwrap();
        cache(&mut struck, &mut all, 6);
    }
    all.assert("damage, write cache");
}
