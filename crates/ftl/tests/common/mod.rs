//! What model tests share: small chips, and a plain array beside a translation layer, through random writes, reads, discards and flushes.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_mtd::Geometry;
use nandlab_nand::{ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, Timing};
use nandlab_sim::Rng;
use rand::{Rng as _, RngExt as _};

const SECTOR: usize = 512;

/// What a sector may hold: the contents at the last flush, and everything given to it since. Zero stands for a discarded or never written sector.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    flushed: u64,
    since: Vec<u64>,
}

impl Versions {
    fn newest(&self) -> u64 {
        *self.since.last().unwrap_or(&self.flushed)
    }
}

/// The plain array.
pub struct Model {
    sectors: Vec<Versions>,
    stamp: u64,
}

fn fill(sector: &mut [u8], lba: u64, stamp: u64) {
    if stamp == 0 {
        sector.fill(0);
        return;
    }
    for (i, word) in sector.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&nandlab_sim::mix(stamp, lba << 8 | i as u64).to_le_bytes());
    }
    sector[..8].copy_from_slice(&stamp.to_le_bytes());
}

/// The stamp that a sector carries; panics if its bytes are not those of that stamp.
fn stamp_of(sector: &[u8], lba: u64) -> u64 {
    let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
    let mut expected = [0; SECTOR];
    fill(&mut expected, lba, stamp);
    assert!(sector == expected, "sector {lba} holds a mixture (stamp {stamp})");
    stamp
}

impl Model {
    /// A disk that was never written.
    pub fn new(sectors: u64) -> Self {
        Self { sectors: vec![Versions::default(); sectors as usize], stamp: 0 }
    }

    /// Compares every sector; what is there is taken to stay.
    pub fn check_all(&mut self, device: &mut impl BlockDevice, after: &str) {
        let mut buf = vec![0; SECTOR * self.sectors.len()];
        device.read(Lba(0), &mut buf).unwrap_or_else(|e| panic!("reading everything after {after}: {e}"));
        for (lba, (bytes, versions)) in buf.chunks_exact(SECTOR).zip(&mut self.sectors).enumerate() {
            let seen = stamp_of(bytes, lba as u64);
            assert!(
                seen == versions.flushed || versions.since.contains(&seen),
                "sector {lba} after {after}: stamp {seen}, allowed {versions:?}"
            );
            *versions = Versions { flushed: seen, since: Vec::new() };
        }
    }
}

/// A chip of 512 pages whose dies, planes and commands vary with the seed.
pub fn small_chip(seed: u64, reliability: Reliability) -> ChipSpec {
    let timing = Timing {
        read_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        bus_ps_per_byte: 25_000,
        oob_bus_bytes: 16,
        oob_read_ns: None,
        oob_program_ns: None,
        cache_program: seed.is_multiple_of(2),
        multi_plane: seed.is_multiple_of(3),
        copy_back: seed.is_multiple_of(5),
    };
    let dies = [1, 2, 4][seed as usize % 3];
    let geometry = Geometry { dies, planes: if dies == 2 { 2 } else { 1 }, channels: 1, ..Geometry::single_die(1024, 15, 8, 64) };
    ChipSpec {
        geometry,
        timing,
        rules: Rules { order: PageOrder::Ascending, partial_programs: 1 },
        reliability,
        contents: Contents::Kept,
        seed,
    }
}

/// Bad blocks, failures and bit errors.
pub fn flaky() -> Reliability {
    Reliability {
        rated_erases: 10_000,
        factory_bad: 0.03,
        program_fail: [2e-6, 2e-6],
        erase_fail: [2e-5, 2e-5],
        bit_errors: [1e-5, 1e-5],
        ecc: Ecc::Bch { bits: 8, codeword: 512 },
        ..Reliability::default()
    }
}

/// One random operation; the model follows.
pub fn step<F: BlockDevice>(device: &mut F, model: &mut Model, random: &mut Rng) -> Result<(), BlockError> {
    let sectors = model.sectors.len() as u64;
    // Now and then a long run, which fills blocks in order.
    let longest = if random.random_bool(0.125) { 64 } else { 6 };
    let count = 1 + u64::from(random.next_u32() % longest).min(sectors - 1);
    // Half of the traffic goes to an eighth of the space.
    let span = if random.random_bool(0.5) { sectors / 8 } else { sectors };
    let lba = random.random_range(0..=span.max(count) - count);
    let run = lba as usize..(lba + count) as usize;
    match random.next_u32() % 32 {
        0 => {
            device.flush()?;
            model.sectors.iter_mut().for_each(|v| *v = Versions { flushed: v.newest(), since: Vec::new() });
        }
        1 | 2 => {
            model.sectors[run].iter_mut().for_each(|v| v.since.push(0));
            device.discard(Lba(lba), count)?;
        }
        3..8 => {
            let mut buf = vec![0; SECTOR * count as usize];
            device.read(Lba(lba), &mut buf)?;
            for (at, bytes) in run.zip(buf.chunks_exact(SECTOR)) {
                assert_eq!(stamp_of(bytes, at as u64), model.sectors[at].newest(), "sector {at}");
            }
        }
        _ => {
            model.stamp += 1;
            let mut data = vec![0; SECTOR * count as usize];
            for (at, bytes) in run.zip(data.chunks_exact_mut(SECTOR)) {
                fill(bytes, at as u64, model.stamp);
                model.sectors[at].since.push(model.stamp);
            }
            device.write(Lba(lba), &data)?;
        }
    }
    Ok(())
}
