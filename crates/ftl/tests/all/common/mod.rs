//! What model tests share: small chips, and a plain array beside a translation layer, through
//! random writes, reads, discards, flushes and remaps.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_crash::{DiskOp, operations};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Contents, Reliability, preset};
use nandlab_sim::Rng;
use nandlab_testkit::chip;
use nandlab_workload::pattern::{Amount, Order};
use nandlab_workload::{Pattern, Spec};
use rand::{Rng as _, RngExt as _};
use std::ops::Range;

const SECTOR: usize = 512;

/// What a sector may hold: the contents at the last flush, and everything given to it since. Zero
/// stands for a discarded or never written sector; all else is the number of a write and the sector
/// that it was for.
#[derive(Clone, Debug, Default)]
struct Versions {
    flushed: u64,
    since: Vec<u64>,
}

impl Versions {
    fn certain(flushed: u64) -> Self {
        Self {
            flushed,
            since: Vec::new(),
        }
    }

    fn newest(&self) -> u64 {
        *self.since.last().unwrap_or(&self.flushed)
    }

    fn allow(&self, seen: u64) -> bool {
        seen == self.flushed || self.since.contains(&seen)
    }
}

/// An operation on a disk, on sectors.
#[derive(Clone, Debug)]
pub enum Op {
    Flush,
    Discard(Range<usize>),
    Read(Range<usize>),
    /// With the number of the write.
    Write(Range<usize>, u64),
    /// The source and the target page.
    Remap(Vec<(usize, usize)>),
}

/// Bytes of a small page, and of a sector.
pub const SMALL_PAGE: u32 = 512;

/// Writes of three sectors, some reads and discards, most of it in a part of the disk.
pub fn hot_and_cold(
    geometry: &BlockGeometry,
    requests: u64,
    flush_every: u64,
    discards: f64,
) -> Vec<DiskOp> {
    let spec = Spec {
        order: Order::HotCold {
            requests: 0.8,
            space: 0.3,
        },
        reads: 0.1,
        discards,
        block: 1536,
        align: 512,
        amount: Amount::Requests(requests),
        flush_every,
        seed: 5,
        ..Spec::new(geometry.bytes())
    };
    operations(&mut Pattern::new(&spec).unwrap(), geometry, usize::MAX).unwrap()
}

/// Serves a list of operations; every one must succeed.
pub fn serve(device: &mut impl BlockDevice, ops: &[DiskOp]) {
    let mut data = vec![0; 1 << 16];
    for op in ops {
        let result = match *op {
            DiskOp::Read { lba, sectors } => device.read(lba, &mut data[..sectors as usize * 512]),
            DiskOp::Write { lba, sectors, .. } => {
                device.write(lba, &data[..sectors as usize * 512])
            }
            DiskOp::Discard { lba, sectors } => device.discard(lba, sectors),
            DiskOp::Flush => device.flush(),
        };
        result.unwrap();
    }
}

/// Blocks of eight pages of one sector: 120 of them share a map page.
pub fn small_pages(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let spec = chip::spec(seed, blocks, reliability);
    ChipSpec {
        geometry: Geometry {
            page: SMALL_PAGE,
            write_unit: SMALL_PAGE,
            ..spec.geometry
        },
        ..spec
    }
}

/// The smallest spare space that the page-mapped layer takes.
pub fn least_spare(spec: &ChipSpec, options: &PageOptions) -> PageOptions {
    let with = |percent: u32| PageOptions {
        over_provisioning: f64::from(percent) / 100.0,
        ..options.clone()
    };
    let fits = |options: &PageOptions| {
        let chip = Chip::new(spec.clone()).unwrap();
        PageFtl::format(chip, options.clone()).is_ok()
    };
    let least = (1..200).map(with).find(fits);
    least.expect("a spare space that is enough")
}

/// Pages of 4 KiB on the dies and planes of an eMMC, without contents.
pub fn large_pages(blocks: u32, pages_per_block: u32) -> ChipSpec {
    let spec = preset::find("emmc-16GiB").unwrap().spec();
    ChipSpec {
        geometry: Geometry {
            blocks,
            pages_per_block,
            page: 4096,
            write_unit: 4096,
            ..spec.geometry
        },
        contents: Contents::Dropped,
        ..spec
    }
}

/// An array that stands for the right answer.
#[derive(Clone)]
pub struct Model {
    sectors: Vec<Versions>,
    stamp: u64,
    /// A remap that has not returned: all of it may be done, or nothing.
    remapping: Vec<(usize, usize)>,
}

fn contents(stamp: u64, lba: usize) -> u64 {
    stamp << 16 | lba as u64
}

fn fill(sector: &mut [u8], contents: u64) {
    if contents == 0 {
        sector.fill(0);
        return;
    }
    for (i, word) in sector.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&nandlab_sim::mix(contents, i as u64).to_le_bytes());
    }
    sector[..8].copy_from_slice(&contents.to_le_bytes());
}

/// The contents that a sector carries; panics if its bytes are not one write's.
fn contents_of(sector: &[u8], lba: usize) -> u64 {
    let contents = u64::from_le_bytes(sector[..8].try_into().unwrap());
    let mut expected = [0; SECTOR];
    fill(&mut expected, contents);
    assert!(
        sector == expected,
        "sector {lba} holds a mixture (contents {contents:#x})"
    );
    contents
}

impl Model {
    /// A disk that was never written.
    pub fn new(sectors: u64) -> Self {
        Self {
            sectors: vec![Versions::default(); sectors as usize],
            stamp: 0,
            remapping: Vec::new(),
        }
    }

    /// Compares every sector; what is there is taken to stay.
    pub fn check_all(&mut self, device: &mut impl BlockDevice, after: &str) {
        let mut buf = vec![0; SECTOR * self.sectors.len()];
        device
            .read(Lba(0), &mut buf)
            .unwrap_or_else(|e| panic!("reading everything after {after}: {e}"));
        let seen: Vec<u64> = buf
            .chunks_exact(SECTOR)
            .enumerate()
            .map(|(lba, bytes)| contents_of(bytes, lba))
            .collect();
        let moved = |&(from, to): &(usize, usize)| {
            seen[to] == self.sectors[from].newest() && seen[from] == 0
        };
        if self.remapping.iter().all(moved) {
            self.remapped();
        }
        self.remapping.clear();
        for (lba, (&seen, versions)) in seen.iter().zip(&mut self.sectors).enumerate() {
            assert!(
                versions.allow(seen),
                "sector {lba} after {after}: contents {seen:#x}, allowed {versions:#x?}"
            );
            *versions = Versions::certain(seen);
        }
    }

    /// The remap under way is done.
    fn remapped(&mut self) {
        for (from, to) in std::mem::take(&mut self.remapping) {
            self.sectors[to] = Versions::certain(self.sectors[from].newest());
            self.sectors[from] = Versions::certain(0);
        }
    }

    /// An operation begins: it may be done at any time from now on, or in part.
    pub fn begin(&mut self, op: &Op) {
        match op {
            Op::Discard(run) => self.sectors[run.clone()]
                .iter_mut()
                .for_each(|v| v.since.push(0)),
            Op::Write(run, stamp) => run
                .clone()
                .for_each(|lba| self.sectors[lba].since.push(contents(*stamp, lba))),
            Op::Remap(pairs) => self.remapping.clone_from(pairs),
            Op::Flush | Op::Read(_) => {}
        }
    }

    /// An operation has returned.
    pub fn done(&mut self, op: &Op) {
        match op {
            Op::Flush => self
                .sectors
                .iter_mut()
                .for_each(|v| *v = Versions::certain(v.newest())),
            Op::Remap(_) => self.remapped(),
            Op::Discard(_) | Op::Read(_) | Op::Write(..) => {}
        }
    }

    /// Does an operation on the device; reads are compared.
    pub fn perform(&self, device: &mut impl BlockDevice, op: &Op) -> Result<(), BlockError> {
        let lba = |run: &Range<usize>| Lba(run.start as u64);
        match op {
            Op::Flush => device.flush(),
            Op::Discard(run) => device.discard(lba(run), run.len() as u64),
            Op::Read(run) => {
                let mut buf = vec![0; SECTOR * run.len()];
                device.read(lba(run), &mut buf)?;
                for (at, bytes) in run.clone().zip(buf.chunks_exact(SECTOR)) {
                    assert_eq!(
                        contents_of(bytes, at),
                        self.sectors[at].newest(),
                        "sector {at}"
                    );
                }
                Ok(())
            }
            Op::Write(run, stamp) => {
                let mut data = vec![0; SECTOR * run.len()];
                for (at, bytes) in run.clone().zip(data.chunks_exact_mut(SECTOR)) {
                    fill(bytes, contents(*stamp, at));
                }
                device.write(lba(run), &data)
            }
            Op::Remap(pairs) => {
                let sector = |lba: usize| Lba(lba as u64);
                let pairs: Vec<Remap> = pairs
                    .iter()
                    .map(|&(from, to)| Remap {
                        from: sector(from),
                        to: sector(to),
                    })
                    .collect();
                device.remap(&pairs)
            }
        }
    }

    /// A random operation other than a remap.
    pub fn draw(&mut self, random: &mut Rng) -> Op {
        let sectors = self.sectors.len() as u64;
        // Now and then a long run, which fills blocks in order.
        let longest = if random.random_bool(0.125) { 64 } else { 6 };
        let count = 1 + u64::from(random.next_u32() % longest).min(sectors - 1);
        // Half of the traffic goes to an eighth of the space.
        let span = if random.random_bool(0.5) {
            sectors / 8
        } else {
            sectors
        };
        let lba = random.random_range(0..=span.max(count) - count);
        let run = lba as usize..(lba + count) as usize;
        match random.next_u32() % 32 {
            0 => Op::Flush,
            1 | 2 => Op::Discard(run),
            3..8 => Op::Read(run),
            _ => self.write(run),
        }
    }

    /// A write of its own number.
    pub fn write(&mut self, run: Range<usize>) -> Op {
        self.stamp += 1;
        Op::Write(run, self.stamp)
    }

    /// A random remap of whole pages of `per_page` sectors: mostly a few, now and then up to
    /// `most`, a run or scattered, written or not.
    pub fn draw_remap(&self, random: &mut Rng, per_page: usize, most: usize) -> Op {
        let pages = self.sectors.len() / per_page;
        let most = if random.random_bool(0.125) {
            most.min(pages / 2)
        } else {
            most.min(8)
        };
        let count = random.random_range(1..=most);
        let start = random.random_range(0..=pages - count);
        let run = start..start + count;
        let mut others: Vec<usize> = (0..pages).filter(|page| !run.contains(page)).collect();
        (0..count).for_each(|i| {
            let with = random.random_range(i..others.len());
            others.swap(i, with);
        });
        // A run of sources is what a journal has, a run of targets what a file has that is read in
        // order.
        let gather = random.random_bool(0.25);
        let pair = |(run, other)| if gather { (other, run) } else { (run, other) };
        let pages = run.zip(others).map(pair);
        Op::Remap(
            pages
                .flat_map(|(from, to)| {
                    (0..per_page).map(move |i| (from * per_page + i, to * per_page + i))
                })
                .collect(),
        )
    }
}

/// A chip of 512 pages whose dies, planes and commands vary with the seed.
pub fn small_chip(seed: u64, reliability: Reliability) -> ChipSpec {
    let mut spec = chip::spec(seed, 64, reliability);
    spec.geometry.planes = if spec.geometry.dies == 2 { 2 } else { 1 };
    spec.timing.multi_plane = seed.is_multiple_of(3);
    spec.timing.copy_back = seed.is_multiple_of(5);
    spec
}

/// Bad blocks, failures and bit errors.
pub fn flaky() -> Reliability {
    chip::flaky(2e-6, 2e-5, 1e-5)
}

/// One random operation; the model follows.
pub fn step<F: BlockDevice>(
    device: &mut F,
    model: &mut Model,
    random: &mut Rng,
) -> Result<(), BlockError> {
    let op = model.draw(random);
    follow(device, model, &op)
}

/// One random operation, of which every eighth is a remap of up to `most` pages.
pub fn step_or_remap<F: BlockDevice>(
    device: &mut F,
    model: &mut Model,
    random: &mut Rng,
    most: usize,
) -> Result<(), BlockError> {
    if !random.random_bool(0.125) {
        return step(device, model, random);
    }
    let per_page = device.geometry().page as usize / SECTOR;
    let op = model.draw_remap(random, per_page, most);
    follow(device, model, &op)
}

fn follow<F: BlockDevice>(device: &mut F, model: &mut Model, op: &Op) -> Result<(), BlockError> {
    model.begin(op);
    model.perform(device, op)?;
    model.done(op);
    Ok(())
}
