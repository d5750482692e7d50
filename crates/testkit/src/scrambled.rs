//! A disk in front of a disk that holds sectors back and writes them in an order of its own, as a
//! drive's cache does. Two of its manners break the rules of a disk.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_mtd::{Layer, LayerError};
use nandlab_sim::mix;

/// The most sectors held back.
const HELD: usize = 48;

/// How the disk behaves besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A flush writes everything.
    Honest,
    /// The same, and the disk writes each request whole.
    WholeRequests,
    /// A flush writes nothing, except while the layer is formatted.
    IgnoresFlushes,
    /// A remap is done sector by sector.
    RemapsInPieces,
}

/// A layer with such a disk on top.
#[derive(Clone, Debug)]
pub struct Scrambled<L>(pub L, pub Manner);

impl<M, L: Layer<M, Device: BlockDevice>> Layer<M> for Scrambled<L> {
    type Device = Scrambler<L::Device>;

    fn format(&self, medium: M) -> Result<Self::Device, LayerError> {
        Ok(Scrambler::new(self.0.format(medium)?, Manner::Honest))
    }

    fn attach(&self, medium: M) -> Result<Self::Device, LayerError> {
        Ok(Scrambler::new(self.0.attach(medium)?, self.1))
    }

    /// Sectors held back are lost.
    fn power_off(&self, device: Self::Device) -> M {
        self.0.power_off(device.inner)
    }
}

/// A disk that reorders its writes.
#[derive(Debug)]
pub struct Scrambler<D> {
    inner: D,
    held: Vec<(u64, Vec<u8>)>,
    manner: Manner,
    drawn: u64,
}

impl<D: BlockDevice> Scrambler<D> {
    fn new(inner: D, manner: Manner) -> Self {
        Self {
            inner,
            held: Vec::new(),
            manner,
            drawn: 0,
        }
    }

    /// Writes sectors in any order until so many are left.
    fn drain(&mut self, left: usize) -> Result<(), BlockError> {
        while self.held.len() > left {
            self.drawn += 1;
            let (lba, data) = self
                .held
                .swap_remove((mix(7, self.drawn) % self.held.len() as u64) as usize);
            self.inner.write(Lba(lba), &data)?;
        }
        Ok(())
    }
}

impl<D: BlockDevice> BlockDevice for Scrambler<D> {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.inner.read(lba, buf)?;
        let sector = self.geometry().sector as usize;
        for (at, bytes) in (lba.0..).zip(buf.chunks_mut(sector)) {
            for (first, held) in &self.held {
                let from = at.wrapping_sub(*first).saturating_mul(sector as u64) as usize;
                if let Some(held) = held.get(from..).and_then(|held| held.get(..sector)) {
                    bytes.copy_from_slice(held);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry().check(lba, data.len())?;
        let sector = self.geometry().sector as usize;
        let piece = match self.manner {
            Manner::WholeRequests => data.len().max(sector),
            _ => sector,
        };
        let sectors = |bytes: &[u8]| (bytes.len() / sector) as u64;
        let mut at = lba.0;
        for bytes in data.chunks(piece) {
            let end = at + sectors(bytes);
            self.held
                .retain(|(from, held)| (*from, held.len()) != (at, bytes.len()));
            let overlaps =
                |(from, held): &(u64, Vec<u8>)| *from < end && at < *from + sectors(held);
            if self.held.iter().any(overlaps) {
                self.drain(0)?;
            }
            self.held.push((at, bytes.to_vec()));
            at = end;
        }
        self.drain(HELD)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        if self.manner == Manner::IgnoresFlushes {
            return Ok(());
        }
        self.drain(0)?;
        self.inner.flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.drain(0)?;
        self.inner.discard(lba, sectors)
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.drain(0)?;
        if self.manner == Manner::RemapsInPieces {
            return pairs
                .iter()
                .try_for_each(|pair| self.inner.remap(std::slice::from_ref(pair)));
        }
        self.inner.remap(pairs)
    }
}
