//! Block layers as a subject: sectors with stamped contents, judged by [`FlushedOrNewer`].

use super::flushed::{FlushedOrNewer, PER_LIFE, Stamp, Version, fill};
use super::subject::{Failure, GoOn, Kind, Subject};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_nand::Chip;
use nandlab_sim::mix;
use nandlab_workload::{Fit, Fitted, Op, Source, WorkloadError, fit::Target};
use std::fmt;

/// A translation layer over a chip: all that the explorer has to know of it.
pub trait Layer: Sync {
    /// The attached layer.
    type Device: BlockDevice;

    /// A new layer on a new chip, which reads as zeros. Durable on return.
    fn format(&self) -> Result<Self::Device, String>;

    /// Comes back from the chip alone.
    fn attach(&self, chip: Chip) -> Result<Self::Device, String>;

    /// Gives the chip back without any further operation.
    fn power_off(&self, device: Self::Device) -> Chip;
}

/// A host operation on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Reads, and compares with the newest contents.
    Read {
        /// First sector.
        lba: Lba,
        /// How many.
        sectors: u64,
    },
    /// Writes contents that name the operation and the sector.
    Write {
        /// First sector.
        lba: Lba,
        /// How many.
        sectors: u64,
        /// Number of the operation; its own in the whole exploration.
        stamp: u64,
    },
    /// Forgets sectors.
    Discard {
        /// First sector.
        lba: Lba,
        /// How many.
        sectors: u64,
    },
    /// Makes everything so far durable.
    Flush,
}

impl fmt::Display for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Read { lba, sectors } => write!(f, "read {sectors} at {lba}"),
            Self::Write {
                lba,
                sectors,
                stamp,
            } => write!(f, "write {sectors} at {lba} ({})", Version(stamp)),
            Self::Discard { lba, sectors } => write!(f, "discard {sectors} at {lba}"),
            Self::Flush => f.write_str("flush"),
        }
    }
}

/// The first `limit` requests of a stream as operations on a disk of this shape: rounded out to
/// whole sectors, wrapped at its end.
pub fn operations(
    source: &mut dyn Source,
    geometry: &BlockGeometry,
    limit: usize,
) -> Result<Vec<DiskOp>, WorkloadError> {
    let sector = u64::from(geometry.sector);
    let target = Target {
        sector,
        bytes: geometry.bytes(),
        fit: Fit::Wrap,
        time_scale: 1.0,
    };
    let mut fitted = Fitted::new(source, target)?;
    let mut ops = Vec::new();
    while ops.len() < limit
        && let Some(request) = fitted.next()?
    {
        let (lba, sectors, stamp) = (
            Lba(request.offset / sector),
            request.length / sector,
            ops.len() as Stamp + 1,
        );
        ops.push(match request.op {
            Op::Read => DiskOp::Read { lba, sectors },
            Op::Write => DiskOp::Write {
                lba,
                sectors,
                stamp,
            },
            Op::Discard => DiskOp::Discard { lba, sectors },
            Op::Flush => DiskOp::Flush,
        });
    }
    Ok(ops)
}

/// A layer as a subject.
#[derive(Clone, Debug)]
pub struct Disk<L>(pub L);

impl<L: Layer> Disk<L> {
    /// The shape of the disk that the layer makes.
    pub fn geometry(&self) -> Result<BlockGeometry, String> {
        Ok(*self.0.format()?.geometry())
    }
}

impl<L: Layer> Subject for Disk<L> {
    type Device = L::Device;
    type Op = DiskOp;
    type Oracle = FlushedOrNewer;

    fn formatted(&self) -> Result<(Chip, FlushedOrNewer), String> {
        let device = self.0.format()?;
        let oracle = FlushedOrNewer::new(device.geometry());
        Ok((self.0.power_off(device), oracle))
    }

    fn attach(&self, chip: Chip) -> Result<L::Device, String> {
        self.0.attach(chip)
    }

    fn power_off(&self, device: L::Device) -> Chip {
        self.0.power_off(device)
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
                let mut data = vec![0; sectors as usize * sector];
                (lba.0..)
                    .zip(data.chunks_exact_mut(sector))
                    .for_each(|(lba, bytes)| fill(bytes, lba, stamp));
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
