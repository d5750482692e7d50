//! What goes wrong below a call, with place and value, and the number that the caller gets.

use crate::Seal;
use nandlab_block::BlockError;
use nandlab_vfs::{Errno, Fault};

/// Why a volume could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum F2fsError {
    /// The call asked for what cannot be.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A field of both superblocks makes no sense; this is the first one's.
    #[error("superblock, byte {offset}: {field} is {found}, expected {expected}")]
    Super {
        /// Where the field is.
        offset: u16,
        /// What it is called.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// The volume has a feature without which it cannot be understood.
    #[error("superblock, byte 2180: feature {bit:#x}, {name}, is not understood")]
    Feature {
        /// The bit in the feature field.
        bit: u32,
        /// The kernel's name for the feature.
        name: &'static str,
    },
    /// The volume has a feature whose structures this crate does not update: it is only read.
    #[error("superblock, byte 2180: feature {bit:#x}, {name}: such a volume is only read")]
    OnlyRead {
        /// The bit in the feature field.
        bit: u32,
        /// The kernel's name for the feature.
        name: &'static str,
    },
    /// The inode is encrypted, compressed or protected, and the call needs what that seals.
    #[error("inode {ino} is {seal}, which is not supported")]
    Sealed {
        /// The number of the inode.
        ino: u32,
        /// The way in which it is sealed.
        seal: Seal,
    },
    /// Blocks of the volume and sectors of the device do not go together.
    #[error("the device has sectors of {sector} bytes, expected a divisor of 4096")]
    Sectors {
        /// Bytes of the device's sector.
        sector: u32,
    },
    /// Neither checkpoint is whole.
    #[error("no valid checkpoint: the packs at blocks {first} and {second} are torn or damaged")]
    NoCheckpoint {
        /// Where the first should be.
        first: u32,
        /// Where the second should be.
        second: u32,
    },
    /// A block of metadata says what cannot be.
    #[error("block {block}, byte {offset}: {field} is {found}, expected {expected}")]
    Block {
        /// The address of the block.
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
    /// A node is not what its number promises.
    #[error("node {nid}: {field} is {found}, expected {expected}")]
    Node {
        /// The number of the node.
        nid: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// A block of names says what cannot be.
    #[error("directory {dir}, block {index}, slot {slot}: {field} is {found}, expected {expected}")]
    Entry {
        /// The inode number of the directory.
        dir: u32,
        /// The index of the block in the directory.
        index: u32,
        /// The slot in it.
        slot: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// An earlier write failed; nothing is written any more.
    #[error("read-only since an earlier write failed")]
    Failed,
}

impl Fault for F2fsError {
    fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Device(BlockError::ReadOnly(_)) | Self::Failed => Errno::ReadOnly,
            Self::Super { .. } | Self::Feature { .. } | Self::Sectors { .. } => Errno::Invalid,
            Self::OnlyRead { .. } => Errno::ReadOnly,
            Self::Sealed { .. } => Errno::NotSupported,
            Self::NoCheckpoint { .. }
            | Self::Block { .. }
            | Self::Node { .. }
            | Self::Entry { .. } => Errno::Unclean,
            Self::Device(_) => Errno::Io,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    fn failed() -> Self {
        Self::Failed
    }
}
