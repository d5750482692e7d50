//! What an attach took, in units that can be priced: reads of the flash, work of the processor,
//! bytes of memory. Counts only: what a unit costs is the caller's to say.

/// What an attach did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachCost {
    /// Pages read from the flash.
    pub page_reads: u64,
    /// Bytes that the attach read.
    pub bytes_read: u64,
    /// Blocks that the driver was asked about: bad or not. It knows that without the flash.
    pub bad_checks: u64,
    /// Erase-counter and volume headers looked at, those that are erased among them.
    pub headers: u64,
    /// Blocks entered into the tables.
    pub records: u64,
    /// Bytes that went through a checksum.
    pub crc_bytes: u64,
    /// Bytes that came out of a decompression.
    pub inflated_bytes: u64,
    /// Bytes that went into it.
    pub packed_bytes: u64,
    /// The most memory that the tables took, in bytes: what was found and what is kept, both at
    /// once. Tree nodes are taken to be two thirds full.
    pub peak_bytes: u64,
}

/// Bytes of a tree with so many entries of that size.
pub(crate) fn tree_bytes(entries: usize, entry: usize) -> u64 {
    (entries * entry) as u64 * 3 / 2
}

/// Bytes of a list.
pub(crate) fn list_bytes<T>(list: &alloc::vec::Vec<T>) -> u64 {
    (list.capacity() * size_of::<T>()) as u64
}
