//! The interface of an eviction policy.

use core::{fmt::Debug, ops::Range};

/// Chooses what is written back. It learns of every change. A choice changes nothing: without
/// changes it is the same again.
pub(super) trait Policy: Debug + Send + Sync {
    /// A page was written; `fresh`: it was not dirty before.
    fn written(&mut self, page: u32, fresh: bool);

    /// A dirty page is dirty no longer.
    fn cleaned(&mut self, page: u32);

    /// The pages whose dirty ones should be written back next; none if nothing is dirty.
    fn victim(&mut self) -> Option<Range<u32>>;
}
