//! A disk in front of a disk that holds sectors back and writes them in an order of its own, as a
//! drive's cache does; and some that break the rules.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_lab::crash::Layer;
use nandlab_nand::Chip;
use nandlab_sim::mix;

/// Sectors held back.
const HELD: usize = 48;

/// What it does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A flush writes everything.
    Honest,
    /// A flush writes nothing, once the volume has been made.
    IgnoresFlushes,
    /// A remap is done sector by sector.
    RemapsInPieces,
}

/// A layer with such a disk on top.
#[derive(Clone)]
pub struct Scrambled<L>(pub L, pub Manner);

impl<L: Layer> Layer for Scrambled<L> {
    type Device = Scrambler<L::Device>;

    fn format(&self) -> Result<Self::Device, String> {
        Ok(Scrambler::new(self.0.format()?, Manner::Honest))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        Ok(Scrambler::new(self.0.attach(chip)?, self.1))
    }

    /// What is held back is lost.
    fn power_off(&self, device: Self::Device) -> Chip {
        self.0.power_off(device.inner)
    }
}

/// The disk.
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
            if let Some((_, held)) = self.held.iter().find(|(lba, _)| *lba == at) {
                bytes.copy_from_slice(held);
            }
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry().check(lba, data.len())?;
        let sector = self.geometry().sector as usize;
        for (at, bytes) in (lba.0..).zip(data.chunks(sector)) {
            self.held.retain(|(lba, _)| *lba != at);
            self.held.push((at, bytes.to_vec()));
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
