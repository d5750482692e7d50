//! Rules left out on purpose, to prove that tests bite.

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// An fsync leaves the page that is not full in memory.
    BufferKept,
    /// An fsync does not wait for the chip.
    FsyncUnsynced,
    /// A block goes while the nodes that replace its contents wait in memory.
    EraseEarly,
    /// A block that reads as erased counts as erased, without its marker.
    MarkerIgnored,
    /// A mount fills the block that was open at the cut, from the torn page on.
    TornPageReused,
    /// Checksums of data are not verified.
    ChecksumIgnored,
    /// A rename takes the old name away before it gives the new one.
    OldNameFirst,
}
