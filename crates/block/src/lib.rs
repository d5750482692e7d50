//! A disk: sectors that can be read and overwritten in any order.
//!
//! *Promises* only the contract of [`BlockDevice`]; translation layers, RAM disks and image files
//! implement it, block file systems and exports stand on it, and the adapters here wrap it.
//!
//! *Knows nothing of* flash, time, files.
//!
//! *Adapters.* [`Ram`], [`Nvram`] and [`Image`] are disks; [`Partition`] is a run of sectors;
//! [`Counter`], [`Tracer`] and [`FaultInjector`] are [`Hook`]s beside a disk; [`Cache`] keeps what
//! may be needed again; [`WriteLog`] remembers every change, and [`cuts`] makes of it what a power
//! cut could leave.
//!
//! *Power loss.* See [`BlockDevice`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bytes;
mod cache;
mod counter;
pub mod cuts;
mod fault;
mod hook;
mod image;
mod lru;
mod nvram;
mod owned;
mod partition;
mod ram;
mod table;
mod tracer;
mod write_log;

use alloc::vec::Vec;
use core::fmt;
use nandlab_sim::{Finding, LayerFault, MediumFault, Place, PowerCut};

pub use cache::{Cache, Key};
pub use counter::{Count, Counter, Counts};
pub use cuts::{CutId, Cuts};
pub use fault::{Fault, FaultInjector, Faults};
pub use hook::{Hook, Hooked, Op, Request};
pub use image::{Image, ImageError};
pub use lru::Lru;
pub use nvram::Nvram;
pub use owned::{OwnedCache, Owner, padded, runs};
pub use partition::Partition;
pub use ram::Ram;
pub use tracer::{Event, Sink, Tracer};
pub use write_log::{Record, WriteLog};

/// A logical sector number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

/// The shape of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGeometry {
    /// Bytes of a sector, the unit of every address and length.
    pub sector: u32,
    /// Sectors of the disk.
    pub sectors: u64,
    /// Bytes that the device writes at once without reading first; a hint, a multiple of `sector`.
    pub page: u32,
}

impl BlockGeometry {
    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.sectors * u64::from(self.sector)
    }

    /// Refuses an extent that is not whole sectors inside the disk; otherwise gives its length in
    /// sectors.
    pub fn check(&self, lba: Lba, bytes: usize) -> Result<u64, BlockError> {
        if !bytes.is_multiple_of(self.sector as usize) {
            return Err(BlockError::BadLength {
                found: bytes,
                sector: self.sector,
            });
        }
        let count = (bytes / self.sector as usize) as u64;
        self.check_sectors(lba, count)?;
        Ok(count)
    }

    /// Refuses an extent that leaves the disk.
    pub fn check_sectors(&self, lba: Lba, count: u64) -> Result<(), BlockError> {
        match lba.0.checked_add(count) {
            Some(end) if end <= self.sectors => Ok(()),
            _ => Err(BlockError::OutOfRange {
                lba,
                count,
                sectors: self.sectors,
            }),
        }
    }
}

/// One pair of [`BlockDevice::remap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// Gives its page away and becomes unmapped.
    pub from: Lba,
    /// Takes the page over.
    pub to: Lba,
}

/// Bytes of a disk that are to be others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The first, from the beginning of the disk.
    pub at: u64,
    /// What they are to be.
    pub bytes: Vec<u8>,
}

/// A request that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The extent leaves the disk.
    #[error("{count} sectors at {lba} leave the disk of {sectors} sectors")]
    OutOfRange {
        /// First sector asked for.
        lba: Lba,
        /// Length asked for, in sectors.
        count: u64,
        /// Length of the disk.
        sectors: u64,
    },
    /// The buffer is not a whole number of sectors.
    #[error("buffer of {found} bytes is not a multiple of the {sector}-byte sector")]
    BadLength {
        /// The length of the buffer in bytes.
        found: usize,
        /// The length of a sector in bytes.
        sector: u32,
    },
    /// The sector's contents are lost.
    #[error("{lba}: contents lost to a media error")]
    Lost {
        /// The first sector whose contents are lost.
        lba: Lba,
        /// Where the contents were lost, if a layer below knows.
        #[source]
        cause: Option<LayerFault>,
    },
    /// The image that the disk is held in ends before.
    #[error("byte {at} lies beyond the end of the image at byte {end}")]
    Missing {
        /// The first byte that is not there.
        at: u64,
        /// Where the image ends.
        end: u64,
    },
    /// No good block is left to write to; reading goes on.
    #[error("worn out: no erase block left to write to")]
    WornOut(#[source] Option<LayerFault>),
    /// The power is off.
    #[error("power cut")]
    PowerCut,
    /// The device does not offer this operation.
    #[error("operation not supported by this device")]
    Unsupported,
    /// The device takes no writes. If a layer stopped writing, its fault says why.
    #[error("read-only device")]
    ReadOnly(#[source] Option<LayerFault>),
    /// The layer broke its own rules or those of the layer below; the device refuses everything
    /// from here on.
    #[error("internal error")]
    Internal(#[source] LayerFault),
    /// The file that backs the device failed.
    #[error("backing file: {0}")]
    Backing(&'static str),
}

impl From<PowerCut> for BlockError {
    fn from(_: PowerCut) -> Self {
        Self::PowerCut
    }
}

impl BlockError {
    /// Contents that are lost for a reason which no layer below can tell.
    pub fn lost(lba: Lba) -> Self {
        Self::Lost { lba, cause: None }
    }

    /// A rule that `layer` itself broke.
    #[cold]
    pub fn internal(layer: &'static str, what: &'static str) -> Self {
        Self::Internal(MediumFault::new(Place::Whole, what).in_layer(layer))
    }

    /// Contents at `lba` that `cause` lost.
    #[cold]
    pub fn lost_to(lba: Lba, cause: LayerFault) -> Self {
        let cause = Some(cause);
        Self::Lost { lba, cause }
    }

    /// The error as the cause of another layer's.
    #[cold]
    pub fn fault(self) -> MediumFault {
        let value = |found, expected| Finding::Value { found, expected };
        let (place, what, finding) = match self {
            Self::Internal(fault)
            | Self::WornOut(Some(fault))
            | Self::ReadOnly(Some(fault))
            | Self::Lost {
                cause: Some(fault), ..
            } => return fault.cause,
            Self::Lost { lba, cause: None } => (Place::Sector(lba.0), "contents lost", None),
            Self::OutOfRange {
                lba,
                count,
                sectors,
            } => {
                let end = value(lba.0.saturating_add(count), sectors);
                (Place::Sector(lba.0), "end of the request", Some(end))
            }
            Self::BadLength { found, sector } => {
                let length = value(found as u64, sector.into());
                (Place::Whole, "buffer length", Some(length))
            }
            Self::Missing { at, end } => {
                (Place::Whole, "byte beyond the end", Some(value(at, end)))
            }
            Self::WornOut(None) => (Place::Whole, "worn out", None),
            Self::PowerCut => (Place::Whole, "power cut", None),
            Self::Unsupported => (Place::Whole, "operation not supported", None),
            Self::ReadOnly(None) => (Place::Whole, "read-only", None),
            Self::Backing(why) => (Place::Whole, why, None),
        };
        MediumFault {
            place,
            what,
            finding,
        }
    }

    /// The same error without its cause, for comparing what two devices answer.
    pub fn without_cause(self) -> Self {
        match self {
            Self::Lost { lba, .. } => Self::lost(lba),
            Self::WornOut(_) => Self::WornOut(None),
            Self::ReadOnly(_) => Self::ReadOnly(None),
            other => other,
        }
    }

    /// The byte of a disk with sectors of so many bytes where it was met, if that is one place.
    pub fn place(self, sector: u32) -> Option<u64> {
        match self {
            Self::Missing { at, .. } => Some(at),
            Self::Lost { lba, .. } | Self::OutOfRange { lba, .. } => {
                lba.0.checked_mul(sector.into())
            }
            _ => None,
        }
    }
}

/// A disk.
///
/// **Durability.** A write that returned is visible to every later read. It is durable when a later
/// [`flush`](BlockDevice::flush) has returned; before that a power cut may keep or lose it, sector
/// by sector, in any order.
///
/// **Power loss.** After a cut each sector holds what it held at the last flush that returned, or
/// what some later write or discard gave it: never a mixture within a sector, never anything else.
/// `flush` never reports success for what is not durable.
///
/// A disk of zeros that takes no writes:
///
/// ```
/// use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
///
/// struct Zeros(BlockGeometry);
///
/// impl BlockDevice for Zeros {
///     fn geometry(&self) -> &BlockGeometry {
///         &self.0
///     }
///     fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
///         self.0.check(lba, buf.len())?;
///         buf.fill(0);
///         Ok(())
///     }
///     fn write(&mut self, _: Lba, _: &[u8]) -> Result<(), BlockError> {
///         Err(BlockError::ReadOnly(None))
///     }
///     fn flush(&mut self) -> Result<(), BlockError> {
///         Ok(())
///     }
///     fn discard(&mut self, _: Lba, _: u64) -> Result<(), BlockError> {
///         Err(BlockError::ReadOnly(None))
///     }
/// }
///
/// let mut disk = Zeros(BlockGeometry {
///     sector: 512,
///     sectors: 8,
///     page: 4096,
/// });
/// assert_eq!(disk.read(Lba(7), &mut [1; 512]), Ok(()));
/// let outside = disk.read(Lba(8), &mut [1; 512]).unwrap_err();
/// assert_eq!(
///     outside.to_string(),
///     "1 sectors at sector 8 leave the disk of 8 sectors"
/// );
/// ```
pub trait BlockDevice {
    /// Returns the shape of the whole disk.
    fn geometry(&self) -> &BlockGeometry;

    /// A request for this sector will come soon, after at most a few others: a device with a large
    /// map may prefetch its entry. Only a hint, for the simulation's own speed; it changes nothing
    /// that can be observed.
    fn expect(&mut self, lba: Lba) {
        let _ = lba;
    }

    /// What is written from now on lives about as long as other data of this stream: 0 is rewritten
    /// soonest, larger numbers live longer. Only a hint, for a device that keeps data of different
    /// lives apart; one with fewer streams takes its last for all beyond.
    fn stream(&mut self, stream: u8) {
        let _ = stream;
    }

    /// The host has nothing to do: a device with work of its own may do a step of it, so short that
    /// a request may wait for it. Gives whether there was any; the caller waits for the step's end
    /// before it asks for another.
    fn idle(&mut self) -> Result<bool, BlockError> {
        Ok(false)
    }

    /// Reads whole sectors. Sectors never written, or discarded, read as zeros.
    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError>;

    /// Writes whole sectors, starting at `lba`.
    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError>;

    /// Makes everything written and discarded so far durable.
    fn flush(&mut self) -> Result<(), BlockError>;

    /// Forgets the contents of sectors; they read as zeros. Durable like a write.
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError>;

    /// Each `to` takes over the contents of its `from`, `from` becomes as if discarded: all pairs
    /// or none, durable on return, without copying. JFTL's dedicated interface, today's SHARE.
    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        let _ = pairs;
        Err(BlockError::Unsupported)
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<B: BlockDevice + ?Sized> BlockDevice for $type {
            fn geometry(&self) -> &BlockGeometry {
                (**self).geometry()
            }
            fn expect(&mut self, lba: Lba) {
                (**self).expect(lba);
            }
            fn stream(&mut self, stream: u8) {
                (**self).stream(stream);
            }
            fn idle(&mut self) -> Result<bool, BlockError> {
                (**self).idle()
            }
            fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
                (**self).read(lba, buf)
            }
            fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
                (**self).write(lba, data)
            }
            fn flush(&mut self) -> Result<(), BlockError> {
                (**self).flush()
            }
            fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
                (**self).discard(lba, sectors)
            }
            fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
                (**self).remap(pairs)
            }
        }
    )*};
}
forward!(&mut B, alloc::boxed::Box<B>);
