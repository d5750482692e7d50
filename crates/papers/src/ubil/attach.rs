//! Attach times: devices of every size, built on chips that keep headers and tables only, attached
//! after a clean detach and after changes without one.

use crate::PaperError;
use nandlab_mtd::{Geometry, Mtd as _};
use nandlab_nand::{Chip, ChipSpec, SparseStore, Timing};
use nandlab_sim::Nanos;
use nandlab_stack::HostDescription;
use nandlab_ubi::{
    AttachCost, Attached, Commit, Headers, LogOptions, Memory, Options, Superblock, Ubi,
};
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A way to remember what a scan would find.
pub struct Way {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    memory: Memory,
}

const fn log(superblock: Superblock, commit: Commit, compress: bool) -> Memory {
    Memory::Log(LogOptions {
        blocks: 2,
        compress,
        superblock,
        commit,
    })
}

/// Those that are compared; the first is the paper's UBI.
pub const WAYS: [Way; 6] = [
    Way {
        key: "scan",
        name: "UBI, scan",
        memory: Memory::Scan,
    },
    Way {
        key: "fastmap",
        name: "UBI, fastmap",
        memory: Memory::Fastmap,
    },
    Way {
        key: "ubil",
        name: "UBIL",
        memory: log(Superblock::Pair, Commit::Full, false),
    },
    Way {
        key: "compressed",
        name: "UBIL, compressed",
        memory: log(Superblock::Pair, Commit::Full, true),
    },
    Way {
        key: "incremental",
        name: "UBIL, incremental",
        memory: log(Superblock::Pair, Commit::Incremental, false),
    },
    Way {
        key: "chained",
        name: "UBIL, incremental and chained",
        memory: log(Superblock::Chain, Commit::Incremental, false),
    },
];
/// Ways by their places.
pub const SCAN: usize = 0;
pub const UBIL: usize = 2;
pub const COMPRESSED: usize = 3;
pub const CHAINED: usize = 5;

/// Partitions of Figure 4 and beyond it, in blocks of 128 KiB: 64 MiB to 8 GiB.
pub const SMALL: [u32; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// 1 GiB, where the paper has its numbers.
pub const GIBIBYTE: u32 = 8192;
/// Devices with headers and tables only, in blocks of 4 MiB: 16 GiB to 1 TiB.
pub const LARGE: [u32; 4] = [4096, 16_384, 65_536, 262_144];
/// Changes that a detach which never came leaves to the log.
const CHANGES: u32 = 150;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Of 4 MiB with pages of 16 KiB, not of 128 KiB with pages of 2 KiB.
    pub large: bool,
    /// Erase blocks.
    pub blocks: u32,
}

impl Size {
    /// Bytes of flash.
    pub fn bytes(self) -> u64 {
        u64::from(self.blocks) << if self.large { 22 } else { 17 }
    }

    fn geometry(self) -> Geometry {
        let (page, pages) = if self.large {
            (16_384, 256)
        } else {
            (2048, 64)
        };
        Geometry::single_die(page, 0, pages, self.blocks)
    }
}

/// An attach.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// What was counted.
    pub cost: AttachCost,
    /// Time of flash and driver, ns.
    pub flash: Nanos,
    /// The processor's time in UBI, ns.
    pub cpu: Nanos,
}

impl Attach {
    /// Time of it all, ns.
    pub fn total(&self) -> f64 {
        (self.flash + self.cpu) as f64
    }
}

/// A device attached twice.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    way: usize,
    size: Size,
    /// After a detach.
    pub clean: Attach,
    /// After changes and no detach.
    pub unclean: Attach,
}

/// All of them.
pub struct Attaches(Vec<Cell>);

impl Attaches {
    /// Builds and attaches everything, on a chip like this one.
    pub fn run(
        chip: &ChipSpec,
        host: &HostDescription,
        watch: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, PaperError> {
        let sizes = SMALL
            .map(|blocks| Size {
                large: false,
                blocks,
            })
            .into_iter()
            .chain(LARGE.map(|blocks| Size {
                large: true,
                blocks,
            }));
        let mut wanted: Vec<(usize, Size)> = sizes
            .flat_map(|size| (0..WAYS.len()).map(move |way| (way, size)))
            .collect();
        // The longest first, so that none is left alone at the end.
        wanted.sort_by_key(|(_, size)| u32::MAX - size.blocks);
        let done = AtomicUsize::new(0);
        let one = |&(way, size): &(usize, Size)| {
            let cell = cell(way, size, chip, host)?;
            watch((done.fetch_add(1, Relaxed) + 1) as f64 / wanted.len() as f64);
            Ok(cell)
        };
        Ok(Self(
            wanted
                .par_iter()
                .map(one)
                .collect::<Result<_, PaperError>>()?,
        ))
    }

    /// One of them.
    pub fn of(&self, way: usize, size: Size) -> &Cell {
        self.0
            .iter()
            .find(|cell| (cell.way, cell.size) == (way, size))
            .expect("every device was attached")
    }

    /// One of those with blocks of 128 KiB.
    pub fn small(&self, way: usize, blocks: u32) -> &Cell {
        self.of(
            way,
            Size {
                large: false,
                blocks,
            },
        )
    }

    /// The power of the size with which something grows, by least squares over doubled sizes: 1 is
    /// in proportion.
    pub fn exponent(&self, way: usize, sizes: &[Size], of: impl Fn(&Cell) -> f64) -> f64 {
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .map(|size| ((size.bytes() as f64).ln(), of(self.of(way, *size)).ln()))
            .collect();
        let count = points.len() as f64;
        let mean = |at: fn(&(f64, f64)) -> f64| points.iter().map(at).sum::<f64>() / count;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
        covariance / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
    }
}

/// Half of a device's logical blocks hold a page each; on large ones a sixteenth.
fn cell(
    way: usize,
    size: Size,
    chip: &ChipSpec,
    host: &HostDescription,
) -> Result<Cell, PaperError> {
    let wrong = |error: &dyn ToString| {
        PaperError::Wrong(
            format!("{}, {} blocks", WAYS[way].name, size.blocks),
            error.to_string(),
        )
    };
    // Two pages of headers, as the paper has it.
    let geometry = size.geometry();
    let options = Options {
        memory: WAYS[way].memory,
        headers: Headers::At(geometry.page),
        ..Options::default()
    };
    let data = vec![0xA5; geometry.page as usize];
    let spec = ChipSpec {
        timing: Timing {
            ..chip.timing.clone()
        },
        geometry,
        ..chip.clone()
    };
    let store = Box::<SparseStore>::default();
    let chip = Chip::with_store(spec, store).map_err(|e| wrong(&e))?;
    let (ubi, id) = Ubi::furnished(chip, options, if size.large { 64 } else { 512 }, &data)
        .map_err(|e| wrong(&e))?;
    let (mut ubi, clean) =
        attach(ubi.detach().map_err(|e| wrong(&e))?, options, host).map_err(|e| wrong(&e))?;
    let lebs = ubi.volume(id).map_err(|e| wrong(&e))?.record.reserved;
    for i in 0..CHANGES {
        ubi.change(id, place(i, lebs), &data)
            .map_err(|e| wrong(&e))?;
    }
    let (mut ubi, unclean) = attach(ubi.into_medium(), options, host).map_err(|e| wrong(&e))?;
    let mut buf = vec![0; data.len()];
    for i in 0..CHANGES {
        ubi.read(id, place(i, lebs), 0, &mut buf)
            .map_err(|e| wrong(&e))?;
        if buf != data {
            return Err(wrong(&"a change is lost"));
        }
    }
    Ok(Cell {
        way,
        size,
        clean,
        unclean,
    })
}

/// Changes lie far from each other.
fn place(change: u32, lebs: u32) -> u32 {
    (u64::from(change) * 7919 % u64::from(lebs)) as u32
}

/// Attaches by the memory, waits for the chip, and prices what was counted.
fn attach(
    chip: Chip,
    options: Options,
    host: &HostDescription,
) -> Result<(Ubi<Chip>, Attach), String> {
    let clock = chip.clock().clone();
    clock.wait_until(chip.issued().0);
    let from = clock.now();
    let ubi = Ubi::attach(chip, options).map_err(|e| e.to_string())?;
    clock.wait_until(ubi.medium().issued().0);
    let expected = match options.memory {
        Memory::Scan => Attached::Scan,
        Memory::Fastmap => Attached::Fastmap,
        Memory::Log(_) => Attached::Log,
    };
    if ubi.info().attached != expected {
        return Err(format!(
            "found attached by {:?}, expected {expected:?}",
            ubi.info().attached
        ));
    }
    let cost = ubi.attach_cost();
    Ok((
        ubi,
        Attach {
            cost,
            flash: clock.now() - from,
            cpu: host.ubi_attach(&cost),
        },
    ))
}
