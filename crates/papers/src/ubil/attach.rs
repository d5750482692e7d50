//! Attach times: devices of every size, built on chips that keep headers and tables only, attached
//! after a clean detach and after changes without one.

use crate::PaperError;
use crate::runs::{Runs, Watch};
use nandlab_mtd::{Geometry, Mtd as _};
use nandlab_nand::{Chip, ChipSpec, SparseStore};
use nandlab_sim::Nanos;
use nandlab_stack::HostDescription;
use nandlab_ubi::{
    AttachCost, Attached, Commit, Headers, LogOptions, Memory, Options, Superblock, Ubi,
};
use std::error::Error;

/// A way to remember what a scan would find.
pub struct Way {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    pub(super) memory: Memory,
}

const fn log(superblock: Superblock, commit: Commit, compress: bool) -> Memory {
    Memory::Log(LogOptions {
        blocks: 2,
        compress,
        superblock,
        commit,
    })
}

const fn way(key: &'static str, name: &'static str, memory: Memory) -> Way {
    Way { key, name, memory }
}

/// Those that are compared; the first is the paper's UBI.
pub const WAYS: [Way; 6] = [
    way("scan", "UBI, scan", Memory::Scan),
    way("fastmap", "UBI, fastmap", Memory::Fastmap),
    way("ubil", "UBIL", log(Superblock::Pair, Commit::Full, false)),
    way(
        "compressed",
        "UBIL, compressed",
        log(Superblock::Pair, Commit::Full, true),
    ),
    way(
        "incremental",
        "UBIL, incremental",
        log(Superblock::Pair, Commit::Incremental, false),
    ),
    way(
        "chained",
        "UBIL, incremental and chained",
        log(Superblock::Chain, Commit::Incremental, false),
    ),
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

/// The size of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Of 4 MiB with pages of 16 KiB, not of 128 KiB with pages of 2 KiB.
    pub large: bool,
    pub blocks: u32,
}

impl Size {
    /// Devices of Figure 4.
    pub fn small() -> Vec<Self> {
        let small = |blocks| Self {
            large: false,
            blocks,
        };
        SMALL.map(small).to_vec()
    }

    /// Returns the sizes beyond those of the paper.
    pub fn large() -> Vec<Self> {
        let large = |blocks| Self {
            large: true,
            blocks,
        };
        LARGE.map(large).to_vec()
    }

    pub fn bytes(self) -> u64 {
        u64::from(self.blocks) << if self.large { 22 } else { 17 }
    }

    pub fn geometry(self) -> Geometry {
        let (page, pages) = if self.large {
            (16_384, 256)
        } else {
            (2048, 64)
        };
        Geometry::single_die(page, 0, pages, self.blocks)
    }
}

/// The cost of one attach.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// The operations that the attach took.
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
    /// The attach after a clean detach.
    pub clean: Attach,
    /// After changes and no detach.
    pub unclean: Attach,
}

/// All of them, by way and size.
pub struct Attaches(Runs<(usize, Size), Cell>);

impl Attaches {
    /// Builds and attaches everything, on a chip like this one.
    pub fn run(
        chip: &ChipSpec,
        host: &HostDescription,
        watch: Watch<'_>,
    ) -> Result<Self, PaperError> {
        let sizes = [Size::small(), Size::large()].concat().into_iter();
        let mut wanted: Vec<(usize, Size)> = sizes
            .flat_map(|size| (0..WAYS.len()).map(move |way| (way, size)))
            .collect();
        wanted.sort_by_key(|(_, size)| u32::MAX - size.blocks);
        let one = |&(way, size): &(usize, Size)| {
            let name = || format!("{}, {} blocks", WAYS[way].name, size.blocks);
            cell(&WAYS[way], size, chip, host).map_err(|error| PaperError::wrong(name(), error))
        };
        Ok(Self(Runs::all(wanted, (watch, "attaches"), one)?))
    }

    pub fn of(&self, way: usize, size: Size) -> &Cell {
        self.0.of(&(way, size))
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
        slope(&points)
    }
}

/// The slope of the line of least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |at: fn(&(f64, f64)) -> f64| points.iter().map(at).sum::<f64>() / count;
    let x = mean(|p| p.0);
    let y = mean(|p| p.1);
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    covariance / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Half of a device's logical blocks hold a page each; on large ones a sixteenth.
fn cell(
    way: &Way,
    size: Size,
    chip: &ChipSpec,
    host: &HostDescription,
) -> Result<Cell, Box<dyn Error>> {
    // Two pages of headers, as the paper has it.
    let geometry = size.geometry();
    let options = Options {
        memory: way.memory,
        headers: Headers::At(geometry.page),
        ..Options::default()
    };
    let data = vec![0xA5; geometry.page as usize];
    let spec = ChipSpec {
        geometry,
        ..chip.clone()
    };
    let chip = Chip::with_store(spec, Box::<SparseStore>::default())?;
    let apart = if size.large { 64 } else { 512 };
    let (ubi, id) = Ubi::furnished(chip, options, apart, &data)?;
    let (mut ubi, clean) = attach(ubi.detach()?, options, host)?;
    let lebs = ubi.volume(id)?.record.reserved;
    for i in 0..CHANGES {
        ubi.change(id, place(i, lebs), &data)?;
    }
    let (mut ubi, unclean) = attach(ubi.into_medium(), options, host)?;
    let mut buf = vec![0; data.len()];
    for i in 0..CHANGES {
        ubi.read(id, place(i, lebs), 0, &mut buf)?;
        if buf != data {
            return Err("a change is lost".into());
        }
    }
    Ok(Cell { clean, unclean })
}

/// Changes lie far from each other.
fn place(change: u32, lebs: u32) -> u32 {
    (u64::from(change) * 7919 % u64::from(lebs)) as u32
}

/// Attaches by the memory, waits for the chip, and prices what was counted.
pub fn attach(
    chip: Chip,
    options: Options,
    host: &HostDescription,
) -> Result<(Ubi<Chip>, Attach), Box<dyn Error>> {
    let clock = chip.clock().clone();
    clock.wait_until(chip.issued().0);
    let from = clock.now();
    let ubi = Ubi::attach(chip, options)?;
    clock.wait_until(ubi.medium().issued().0);
    let expected = match options.memory {
        Memory::Scan => Attached::Scan,
        Memory::Fastmap => Attached::Fastmap,
        Memory::Log(_) => Attached::Log,
    };
    if ubi.info().attached != expected {
        let found = ubi.info().attached;
        return Err(format!("found attached by {found:?}, expected {expected:?}").into());
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
