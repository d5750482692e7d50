//! What goes wrong below a call, with place and value, and the number that the caller gets.

use crate::format::sb;
use nandlab_block::BlockError;
use nandlab_jbd::JournalError;
use nandlab_vfs::{Errno, Fault};

/// Why a volume could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtError {
    /// The call asked for what cannot be.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A field of the superblock makes no sense.
    #[error("superblock, byte {offset}: {field} is {found}, expected {expected}")]
    Super {
        /// Where the field is.
        offset: u16,
        /// What it is called.
        field: &'static str,
        /// The value that the field holds.
        found: u32,
        /// What it may say.
        expected: &'static str,
    },
    /// The volume has a feature without which it cannot be understood.
    #[error(
        "superblock, byte 96: incompatible feature {bit:#x}, {name}, expected none that is not supported"
    )]
    Feature {
        /// The bit in the feature field.
        bit: u32,
        /// The kernel's name for the feature.
        name: &'static str,
    },
    /// The superblock says what other drivers may take and this one does not.
    #[error("superblock, byte {offset}: {field} is {found}, supported is {supported}")]
    Unsupported {
        /// Where the field is.
        offset: u16,
        /// The name of the field.
        field: &'static str,
        /// The value that the field holds.
        found: u32,
        /// The values that are supported.
        supported: &'static str,
    },
    /// Blocks of the volume and sectors of the device do not go together.
    #[error(
        "volume has blocks of {block} bytes, the device sectors of {sector}: expected a multiple"
    )]
    Sectors {
        /// Bytes of the volume's block.
        block: u32,
        /// Bytes of the device's sector.
        sector: u32,
    },
    /// A group's descriptor leads out of the volume.
    #[error("group {group}: {field} at block {found}, expected a block of the volume")]
    Group {
        /// The number of the group.
        group: u32,
        /// The structure that is misplaced.
        field: &'static str,
        /// Where it is said to be.
        found: u32,
    },
    /// An inode says what cannot be.
    #[error("inode {inode}: {field} is {found}, expected {expected}")]
    Inode {
        /// The number of the inode.
        inode: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// A block of metadata says what cannot be.
    #[error("block {block}, byte {offset}: {field} is {found}, expected {expected}")]
    Block {
        /// The number of the block.
        block: u32,
        /// The byte in it.
        offset: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// A structure's checksum is another.
    #[error(
        "block {block}, byte {offset}: the checksum of {what} is {found:#x}, expected {expected:#x}"
    )]
    Checksum {
        /// The number of the block.
        block: u32,
        /// The byte in it at which the structure, or its checksum, lies.
        offset: u32,
        /// The structure.
        what: &'static str,
        /// The checksum that it holds.
        found: u32,
        /// The checksum that its bytes have.
        expected: u32,
    },
    /// The journal cannot be recovered.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// An earlier write failed; nothing is written any more.
    #[error("read-only since an earlier write failed")]
    Failed,
}

impl ExtError {
    /// True for a volume that may be sound and that this crate does not understand: a feature, or a
    /// shape that it lacks.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Feature { .. } | Self::Unsupported { .. })
    }

    /// True for damage of one inode or one block of metadata: others may be sound.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Inode { .. } | Self::Block { .. } | Self::Checksum { .. }
        )
    }

    /// The superblock asks for no recovery, and the log is not empty. Linux drops such a log.
    pub(crate) const FORGOTTEN_LOG: Self = Self::Super {
        offset: sb::INCOMPAT as u16,
        field: "mark of a journal to be recovered",
        found: 0,
        expected: "4, because the journal holds transactions",
    };
}

impl Fault for ExtError {
    fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Device(BlockError::ReadOnly(_)) | Self::Failed => Errno::ReadOnly,
            Self::Super { .. }
            | Self::Feature { .. }
            | Self::Unsupported { .. }
            | Self::Sectors { .. } => Errno::Invalid,
            Self::Journal(_)
            | Self::Group { .. }
            | Self::Inode { .. }
            | Self::Block { .. }
            | Self::Checksum { .. } => Errno::Unclean,
            Self::Device(_) => Errno::Io,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Journal(_))
    }

    fn failed() -> Self {
        Self::Failed
    }
}
