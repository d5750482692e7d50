//! Makes a block layer a subject of the crash explorer. Operations write sectors with stamped
//! contents, and [`FlushedOrNewer`] judges what a cut left of them.

mod flushed;
mod op;
mod stamp;

pub use flushed::FlushedOrNewer;
pub use op::{DiskOp, operations};

use crate::subject::{Failure, GoOn, Kind, Subject};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::{Chip, ChipSpec};
use nandlab_sim::mix;
use op::{PER_LIFE, Stamp};
use stamp::fill;

/// A block layer on a chip, as a subject.
#[derive(Clone, Debug)]
pub struct Disk<L> {
    /// The chip that the layer is attached to.
    pub chip: ChipSpec,
    /// The layer over the chip.
    pub layer: L,
}

impl<L: Layer<Chip, Device: BlockDevice>> Disk<L> {
    /// The layer, formatted on a new chip.
    pub fn format(&self) -> Result<L::Device, LayerError> {
        self.layer.format(Chip::new(self.chip.clone())?)
    }

    /// The shape of the disk that the layer makes.
    pub fn geometry(&self) -> Result<BlockGeometry, LayerError> {
        Ok(*self.format()?.geometry())
    }
}

impl<L: Layer<Chip, Device: BlockDevice> + Sync> Subject for Disk<L> {
    type Device = L::Device;
    type Op = DiskOp;
    type Oracle = FlushedOrNewer;

    fn formatted(&self) -> Result<(Chip, FlushedOrNewer), LayerError> {
        let device = self.format()?;
        let oracle = FlushedOrNewer::new(device.geometry());
        Ok((self.layer.power_off(device), oracle))
    }

    fn attach(&self, chip: Chip) -> Result<L::Device, LayerError> {
        self.layer.attach(chip)
    }

    fn power_off(&self, device: L::Device) -> Option<Chip> {
        Some(self.layer.power_off(device))
    }

    fn apply(
        &self,
        device: &mut L::Device,
        op: &DiskOp,
        oracle: &FlushedOrNewer,
    ) -> Result<(), Failure> {
        let sector = device.geometry().sector as usize;
        let refused = |e: BlockError| {
            Failure::new(Kind::Refused, format_args!("{op}: {e}; allowed: success"))
        };
        match *op {
            DiskOp::Read { lba, sectors } => {
                let mut data = vec![0; sectors as usize * sector];
                device.read(lba, &mut data).map_err(refused)?;
                oracle.compare(lba, &data, |_, _| {})
            }
            DiskOp::Write {
                lba,
                sectors,
                stamp,
            } => {
                let data = stamped(lba, sectors, stamp, sector);
                device.write(lba, &data).map_err(refused)
            }
            DiskOp::Discard { lba, sectors } => device.discard(lba, sectors).map_err(refused),
            DiskOp::Flush => device.flush().map_err(refused),
        }
    }

    fn go_on(&self, device: &L::Device, going_on: GoOn) -> Vec<DiskOp> {
        let g = device.geometry();
        let per_page = u64::from(g.page / g.sector).max(1);
        let write = |i: u32| {
            let chance = mix(going_on.word, u64::from(i));
            let sectors = (1 + chance % per_page).min(g.sectors);
            let lba = Lba((chance >> 8) % (g.sectors - sectors + 1));
            DiskOp::Write {
                lba,
                sectors,
                stamp: Stamp::from(going_on.life) * PER_LIFE + Stamp::from(i) + 1,
            }
        };
        (0..going_on.changes)
            .map(write)
            .chain([DiskOp::Flush])
            .collect()
    }
}

/// The contents of sectors that a write with this stamp leaves.
fn stamped(lba: Lba, sectors: u64, stamp: u64, sector: usize) -> Vec<u8> {
    let mut data = vec![0; sectors as usize * sector];
    (lba.0..)
        .zip(data.chunks_exact_mut(sector))
        .for_each(|(lba, bytes)| fill(bytes, lba, stamp));
    data
}
