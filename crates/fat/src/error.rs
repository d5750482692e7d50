//! What goes wrong below a call, with place and value, and the number that the caller gets.

use nandlab_block::BlockError;
use nandlab_vfs::{Errno, Fault};

/// Why a volume could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatError {
    /// The call asked for what cannot be.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// The memory that holds metadata failed.
    #[error("metadata memory: {0}")]
    Nvram(BlockError),
    /// A field of the boot sector makes no sense.
    #[error("boot sector, byte {offset}: {field} is {found}, expected {expected}")]
    Boot {
        /// Where the field is.
        offset: u16,
        /// What it is called.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// The sectors of device and volume do not go together.
    #[error("volume has sectors of {volume} bytes, the device of {device}: expected a multiple")]
    Sectors {
        /// Bytes of the volume's sector.
        volume: u32,
        /// Bytes of the device's sector.
        device: u32,
    },
    /// A chain of clusters does not go on as it should.
    #[error(
        "cluster {cluster}: table entry {found:#x} in the chain from {start}, expected {expected}"
    )]
    Chain {
        /// First cluster of the chain; 0 where a chain is missing.
        start: u32,
        /// The cluster whose entry is wrong.
        cluster: u32,
        /// The table entry of the cluster.
        found: u32,
        /// What it may be.
        expected: &'static str,
    },
    /// The memory for metadata holds what another volume still needs.
    #[error(
        "metadata memory holds {sectors} sectors of volume {found:08x} with {total} sectors, expected volume {expected:08x}"
    )]
    ForeignNvram {
        /// The volume it belongs to.
        found: u32,
        /// Sectors of the volume that the memory belongs to.
        total: u32,
        /// The volume being mounted.
        expected: u32,
        /// Sectors that it holds.
        sectors: u32,
    },
    /// The memory for metadata is too small, or its sectors do not divide the volume's.
    #[error(
        "metadata memory of {bytes} bytes in sectors of {sector}: expected space for at least \
         {least} sectors of {volume} bytes"
    )]
    SmallNvram {
        /// The length of the memory in bytes.
        bytes: u64,
        /// Bytes of its sector.
        sector: u32,
        /// Sectors that it must hold.
        least: u32,
        /// Bytes of the volume's sector.
        volume: u32,
    },
    /// An earlier write failed; nothing is written any more.
    #[error("read-only since an earlier write failed")]
    Failed,
}

impl Fault for FatError {
    fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Device(BlockError::ReadOnly(_)) | Self::Failed => Errno::ReadOnly,
            Self::Boot { .. }
            | Self::Sectors { .. }
            | Self::ForeignNvram { .. }
            | Self::SmallNvram { .. } => Errno::Invalid,
            Self::Device(_) | Self::Nvram(_) | Self::Chain { .. } => Errno::Io,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Nvram(_))
    }

    fn failed() -> Self {
        Self::Failed
    }
}
