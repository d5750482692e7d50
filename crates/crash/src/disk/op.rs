//! Host operations on a disk, and the requests of a workload as such operations.

use nandlab_block::{BlockGeometry, Lba};
use nandlab_workload::{Fit, Fitted, Op, Source, WorkloadError, fit::Target};
use std::fmt;

/// Which operation gave a sector its contents; [`ZEROS`] if it was discarded or never written.
pub(super) type Stamp = u64;

/// Sectors that read as zeros.
pub(super) const ZEROS: Stamp = 0;

/// Stamps of the operations after a recovery begin at multiples of this.
pub(super) const PER_LIFE: Stamp = 1 << 40;

/// A stamp in words.
pub(super) struct Version(pub Stamp);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / PER_LIFE, self.0 % PER_LIFE) {
            (0, ZEROS) => f.write_str("zeros"),
            (0, n) => write!(f, "#{n}"),
            (life, n) => write!(f, "#{n} after cut {life}"),
        }
    }
}

/// A host operation on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Reads, and compares with the newest contents.
    Read {
        /// The first sector of the extent.
        lba: Lba,
        /// The number of sectors.
        sectors: u64,
    },
    /// Writes contents that name the operation and the sector.
    Write {
        /// The first sector of the extent.
        lba: Lba,
        /// The number of sectors.
        sectors: u64,
        /// Number of the operation; its own in the whole exploration.
        stamp: u64,
    },
    /// Discards an extent, whose contents then count for nothing.
    Discard {
        /// The first sector of the extent.
        lba: Lba,
        /// The number of sectors.
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
        let lba = Lba(request.offset / sector);
        let sectors = request.length / sector;
        let stamp = ops.len() as Stamp + 1;
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
