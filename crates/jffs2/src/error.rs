//! What goes wrong below a call, with place and value, and the number that the caller gets.

use crate::Undecodable;
use nandlab_mtd::MtdError;
use nandlab_sim::MediumFault;
use nandlab_vfs::{Errno, Fault};

/// A node that was given up since its checksum is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at:#x}: node given up for a wrong checksum")]
pub struct LostNode {
    /// Where the node is.
    pub at: u32,
    /// The flash's answer, if it could not correct the bytes.
    #[source]
    pub medium: Option<MediumFault>,
}

/// Why a medium could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Jffs2Error {
    /// The call asked for what cannot be.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The flash below refused a request.
    #[error("flash: {0}")]
    Flash(#[from] MtdError),
    /// The array has a shape on which the format cannot lie.
    #[error("{field} is {found}, expected {expected}")]
    Shape {
        /// What does not fit.
        field: &'static str,
        /// The value of that parameter.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// Nothing on the medium is of the format, and yet it is not empty: it is not touched.
    #[error(
        "{blocks} blocks hold something and none of them a node, expected JFFS2 or an erased medium"
    )]
    Foreign {
        /// Blocks that are neither erased nor bad.
        blocks: u32,
    },
    /// A node of a kind without which nothing can be understood.
    #[error(
        "byte {at:#x}: node of the unknown kind {kind:#06x}, expected none that is incompatible"
    )]
    Incompatible {
        /// Where the node is.
        at: u32,
        /// The node type that is not understood.
        kind: u16,
    },
    /// A node does not hold what it should.
    #[error("byte {at:#x}: {what} of inode {ino}: found {found:#x}, expected {expected:#x}")]
    Node {
        /// Where the node is.
        at: u32,
        /// The inode number in the node.
        ino: u32,
        /// The name of the wrong field.
        what: &'static str,
        /// The value that the field holds.
        found: u32,
        /// The value that it should hold.
        expected: u32,
        /// The flash's answer, if it could not correct the bytes.
        #[source]
        medium: Option<MediumFault>,
    },
    /// A node's data cannot be decompressed.
    #[error("byte {at:#x}: {error}")]
    Data {
        /// Where the node is.
        at: u32,
        /// The error of the decompressor.
        #[source]
        error: Undecodable,
    },
    /// A device or link whose only node is gone, or an inode without any.
    #[error("inode {ino}: {what}")]
    Inode {
        /// The number of the inode.
        ino: u32,
        /// The part of the inode that is missing.
        what: &'static str,
        /// The last of its nodes that was given up.
        #[source]
        lost: Option<LostNode>,
    },
    /// Space for collecting garbage is used up: a block too many failed.
    #[error("no erased block left for what is moved")]
    Stuck,
    /// A write failed in more places than are tried, here in the last one.
    #[error("writes failed in {0} blocks one after the other")]
    Failing(u32, #[source] MediumFault),
    /// An earlier write failed; nothing is written any more.
    #[error("read-only since an earlier write failed")]
    Failed,
}

impl Jffs2Error {
    /// The byte of the flash where it was met, if it is one place.
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Incompatible { at, .. } | Self::Node { at, .. } | Self::Data { at, .. } => {
                Some((*at).into())
            }
            Self::Inode { lost, .. } => lost.map(|lost| lost.at.into()),
            _ => None,
        }
    }

    /// The number for the caller.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Flash(MtdError::ReadOnly(_)) | Self::Failed => Errno::ReadOnly,
            Self::Shape { .. } | Self::Incompatible { .. } => Errno::Invalid,
            Self::Stuck => Errno::NoSpace,
            Self::Flash(_)
            | Self::Foreign { .. }
            | Self::Node { .. }
            | Self::Data { .. }
            | Self::Inode { .. }
            | Self::Failing(..) => Errno::Io,
        }
    }
}

impl Fault for Jffs2Error {
    fn errno(&self) -> Errno {
        self.errno()
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Flash(_) | Self::Failing(..))
    }

    fn failed() -> Self {
        Self::Failed
    }
}
