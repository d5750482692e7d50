//! The terms in which chains, folds and the flash talk to each other.

use super::format::Status;

/// The newest version of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    /// None, or a discard.
    Nothing,
    /// This unit holds the newest sector.
    At(u16),
    /// Lost to a media error.
    Lost,
}

/// A unit that is named to follow the last one of a chain, with a copy of what that one's first
/// page holds, but not linked to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub chain: u16,
    pub last: u16,
    pub unit: u16,
    /// Of its first sector.
    pub status: Status,
}

/// Where a chain is folded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Its last unit, where that can be done.
    Last,
    Fresh,
    /// The most worn free unit.
    MostWorn,
}

/// A new version of a sector.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Data(&'a [u8]),
    /// Zeros from now on; nothing but OOB is written.
    Discard,
}
