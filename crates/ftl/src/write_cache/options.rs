//! Choices of the write cache, what it counts, and why it could not be attached.

use nandlab_block::BlockError;

/// Which pages leave a full cache.
///
/// The block-level policies flush all cached pages of one logical block together, in the order of
/// their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The page that was not written for longest, alone: the yardstick of the papers below.
    Lru,
    /// The logical block with the most pages in the cache; of equals the one not written for
    /// longest (Jo, Kang, Park, Kim and Lee, IEEE TCE 52(2), 2006).
    Fab,
    /// The logical block not written for longest (Kim and Ahn, FAST 2008).
    Bplru {
        /// Read the pages of the block that are not in the cache and write the whole block in
        /// order, so that a log-block layer can switch. The paper's page padding.
        padding: bool,
        /// A block that was written from its first page to its last in order is next to go. The
        /// paper's LRU compensation.
        compensation: bool,
    },
    /// A clock over logical blocks; of those not written since the hand passed, the one with the
    /// most pages in the cache (Debnath, Subramanya, Du and Lilja, MASCOTS 2009). The default: it
    /// weighs recency and size, and reads nothing to write.
    #[default]
    LbClock,
}

/// Choices of the write cache; all may change from one attach to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of the memory to use, tags included; none (the default) for all of it. Another size
    /// than last time writes everything back first.
    pub bytes: Option<u64>,
    /// Pages of a logical block of the layer below: of its erase block, in its pages
    /// ([`BlockGeometry::page`](nandlab_block::BlockGeometry::page)).
    pub block_pages: u32,
    /// Which pages leave a full cache.
    pub policy: CachePolicy,
    /// A flush writes everything back and flushes the layer below, as a cache without a battery
    /// must. Off by default: what is in the memory is durable.
    pub flush_through: bool,
}

impl CacheOptions {
    /// The whole memory, LB-CLOCK, logical blocks of `block_pages` pages.
    pub fn new(block_pages: u32) -> Self {
        Self {
            bytes: None,
            block_pages,
            policy: CachePolicy::default(),
            flush_through: false,
        }
    }
}

/// What the cache did. A part of a page counts as one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Pages that the host wrote.
    pub page_writes: u64,
    /// Of these, pages whose older version had not been written back: writes that the flash never
    /// sees.
    pub absorbed: u64,
    /// Pages that the host read.
    pub page_reads: u64,
    /// Of these, pages served from the memory.
    pub read_hits: u64,
    /// Pages read from the layer below because the host wrote a part of one.
    pub fill_reads: u64,
    /// Units evicted to free space: pages with LRU, logical blocks otherwise.
    pub evictions: u64,
    /// Pages written back, or discarded below, evicted or not; without padding.
    pub written_back: u64,
    /// Pages read from the layer below, and written there again, to make a block whole.
    pub padding_reads: u64,
    /// Flushes that the host asked for.
    pub flushes: u64,
    /// Flushes of the layer below, so that what was written back may leave the memory.
    pub flushes_below: u64,
}

/// Why the cache could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Nothing to cache in.
    #[error(
        "non-volatile memory of {bytes} bytes holds {pages} pages of {page} bytes with their tags, expected at least {least}"
    )]
    TooSmall {
        /// Bytes that may be used.
        bytes: u64,
        /// Pages that fit into the memory.
        pages: u64,
        /// Bytes of a page.
        page: u32,
        /// Pages that are needed.
        least: u32,
    },
    /// The memory, the layer below or the options do not fit.
    #[error("{what} is {found}, expected {expected}")]
    Unsuitable {
        /// The property that does not fit.
        what: &'static str,
        /// The value of that property.
        found: u64,
        /// What it should be.
        expected: &'static str,
    },
    /// The memory holds something else.
    #[error(
        "the non-volatile memory begins with {found:#018x}, expected the magic of a write cache or zeros"
    )]
    NotACache {
        /// The first eight bytes, as a little-endian number.
        found: u64,
    },
    /// The memory holds pages of another disk.
    #[error("the non-volatile memory caches a disk whose {what} is {found}, expected {expected}")]
    Foreign {
        /// The property that differs from the layer's.
        what: &'static str,
        /// That of the disk in the memory.
        found: u64,
        /// That of this disk.
        expected: u64,
    },
    /// The memory's contents contradict themselves.
    #[error("non-volatile memory damaged at byte {offset}: {what}")]
    Damaged {
        /// The offset of the damage in the memory.
        offset: u64,
        /// The part that is damaged.
        what: &'static str,
    },
    /// The memory below refused a request.
    #[error("non-volatile memory: {0}")]
    Nvram(BlockError),
    /// The layer below refused.
    #[error(transparent)]
    Below(BlockError),
}
