//! Errors of the flash as the host sees them.

use nandlab_block::BlockError;
use nandlab_mtd::MtdError;

/// The host's error, and whether it poisons the layer: a broken rule, or an answer that it did not
/// expect, means that what it would do next cannot be trusted.
pub(crate) fn host_error(error: MtdError) -> (BlockError, bool) {
    match error {
        MtdError::PowerCut => (BlockError::PowerCut, false),
        MtdError::ReadOnly => (BlockError::ReadOnly, false),
        MtdError::Backing(why) => (BlockError::Backing(why), false),
        MtdError::Illegal(_, why) => (BlockError::Internal(why), true),
        _ => (BlockError::Internal("unexpected answer of the flash"), true),
    }
}
