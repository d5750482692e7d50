//! How a device is attached and run; every default but one is Linux's.

use crate::Headers;
use nandlab_sim::with_defaults;

/// How UBI remembers what a scan of the whole flash would find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Not at all: each attach scans.
    #[default]
    Scan,
    /// Linux's fastmap holds the mapping.
    Fastmap,
    /// UBIL: commits and a log.
    Log(LogOptions),
}

/// Where UBIL's super blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superblock {
    /// The first and the last good block, written in turns: the paper's design.
    #[default]
    Pair,
    /// Two mirrored blocks anywhere, found by a chain that begins in one of the first blocks: the
    /// paper's future work.
    Chain,
}

/// What goes into a commit of UBIL's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// Every block: the paper's design.
    #[default]
    Full,
    /// What has changed since the one before, and an index; an attach reads what it needs: the
    /// paper's future work.
    Incremental,
}

with_defaults! {
    /// UBIL's own options. Where superblock and commit are concerned a device that has a log keeps
    /// to what it has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LogOptions {
        /// Erase blocks of the log.
        pub blocks: u32 = 2,
        /// Full commits are compressed with zlib.
        pub compress: bool = false,
        /// Where the superblock lies; see [`Superblock`].
        pub superblock: Superblock = Superblock::Pair,
        /// How a commit is written; see [`Commit`].
        pub commit: Commit = Commit::Full,
    }
}

with_defaults! {
    /// How a device is attached and run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Where the headers of an erase block lie.
        pub headers: Headers = Headers::Linux,
        /// Erase counters may differ by so much before contents are moved (`UBI_WL_THRESHOLD`).
        pub wear_threshold: u32 = 4096,
        /// Erase blocks of each 1,024 that are kept for those that go bad
        /// (`CONFIG_MTD_UBI_BEB_LIMIT`).
        pub bad_per_1024: u32 = 20,
        /// Corrected bits in a codeword that call for a move. Linux's default is three quarters of
        /// what the code corrects.
        pub scrub_bits: u16 = 1,
        /// Blocks that a scan finds free are used as they are, as Linux does. Otherwise they are
        /// erased once more first: a cut may have left torn pages that read as erased.
        pub trust_free: bool = false,
        /// How the mapping survives a detach; see [`Memory`].
        pub memory: Memory = Memory::Scan,
        /// The image sequence number of a device that is formatted.
        pub image_seq: u32 = 0,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// A rule left out on purpose, to prove that tests bite. Never set outside tests and
/// demonstrations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Operations are not ordered across dies.
    Unfenced,
    /// The newer of two blocks counts, whole or not.
    TrustCopies,
    /// Old fastmaps go whenever there is time.
    KeepOldMaps,
    /// The log says of a block what has happened to it already.
    EntryLast,
    /// A commit begins without saying where.
    NoFuture,
    /// What was committed counts, whatever the log says of it.
    StaleLeaves,
}
