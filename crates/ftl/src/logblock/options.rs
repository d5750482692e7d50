//! Choices of the log-block layers: what their papers leave open, each with a default and its
//! reason.

/// The log-block layer that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Block-associative sector translation: each log block serves one logical block (Kim, Kim,
    /// Noh, Min and Cho, IEEE TCE 48(2), 2002).
    Bast {
        /// Which log block gives way when none is free.
        victim: LogVictim,
    },
    /// Set-associative sector translation: `blocks` consecutive logical blocks share up to `logs`
    /// log blocks (Park et al., ACM TECS 7(4), 2008). With one and one it is BAST.
    Sast {
        /// Logical blocks of a group (N). Fixed when formatting.
        blocks: u32,
        /// Log blocks that a group may have (K), 1 to 64. Fixed when formatting.
        logs: u32,
        /// Which group gives up its oldest log block when none is free.
        victim: LogVictim,
    },
    /// Fully-associative sector translation: one log block for sequential writes, all others for
    /// any page (Lee et al., ACM TECS 6(3), 2007).
    Fast {
        /// What a write that does not continue the sequential log block of its logical block does.
        mismatch: Mismatch,
        /// Where the page goes whose write made the sequential log block be merged.
        pending: Pending,
        /// How a logical block is merged that owns the sequential log block.
        owner: OwnerMerge,
    },
}

/// Which log block gives way. The BAST paper's choice could not be read; simulators differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogVictim {
    /// That of the group whose log was not written for longest: the default, since a group that is
    /// being written would need its log block again at once.
    #[default]
    LeastRecent,
    /// The one taken first.
    Fifo,
    /// Any, by the options' seed.
    Random,
}

/// A write to the owner of FAST's sequential log block that is not the next page in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mismatch {
    /// Merges the sequential log block: the paper's pseudo-code, and the default.
    #[default]
    Merge,
    /// Goes to the random log blocks; the sequential one waits for its next page.
    Random,
}

/// The page whose write made FAST's sequential log block be merged ([`Mismatch::Merge`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pending {
    /// Is written into the merged block: the default, since it saves a copy.
    #[default]
    Merged,
    /// Goes to the random log blocks afterwards.
    Logged,
}

/// Reclaiming a random log block meets the owner of FAST's sequential log block. Either way that
/// block is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnerMerge {
    /// The sequential log block is completed and becomes the data block, where it can: the default,
    /// since it copies less and erases one block less.
    #[default]
    Partial,
    /// A full merge, as for any other.
    Full,
}

/// Where the first version of a logical page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstWrite {
    /// In place, as long as its page of the data block is erased and may be programmed.
    InPlace,
    /// In place, unless pages of its logical block are in a log: then behind them, so that a log
    /// written in order stays so.
    InPlaceUnlessLogged,
    /// To the log, like any other write.
    Logged,
}

/// The order in which the chip lets the pages of a block be programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// Pages in any order, as small-block SLC allows.
    Any,
    /// Ascending, pages may be left out (all others): the default, since every chip permits it.
    #[default]
    Ascending,
}

/// Choices of the log-block layers. The scheme (with N and K) and the number of logical blocks are
/// fixed when formatting, all others may change from one attach to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBlockOptions {
    /// The log-block layer that is simulated.
    pub scheme: Scheme,
    /// Log blocks in all; fewer once bad blocks have used up the spare ones.
    pub log_blocks: u32,
    /// Blocks set aside when formatting to replace those that go bad, besides four that merges
    /// need.
    pub spare_blocks: u32,
    /// What the chip permits.
    pub page_order: PageOrder,
    /// Where the first version of a logical page goes.
    pub first_write: FirstWrite,
    /// Merge only those logical blocks of a log block that have a newest version in it, rather than
    /// every one it names. On by default: only a layer without a page table of its log blocks could
    /// not tell.
    pub skip_stale: bool,
    /// Merge as soon as the last page of the log space concerned is written, rather than when the
    /// next write needs it. Off by default: a log block whose data are overwritten meanwhile need
    /// not be merged.
    pub eager: bool,
    /// The spread of erase counts at which data at rest is moved off little-worn blocks; 0 never.
    pub wear_threshold: u32,
    /// The seed of [`LogVictim::Random`].
    pub seed: u64,
    /// Deliberate faults, for proving that the crash explorer finds them.
    #[doc(hidden)]
    pub seeded_bug: Option<SeededBug>,
}

impl LogBlockOptions {
    /// BAST with 64 log blocks. First writes go in place only while the logical block has no log,
    /// as the paper is retold.
    pub fn bast() -> Self {
        Self::new(
            Scheme::Bast {
                victim: LogVictim::default(),
            },
            FirstWrite::InPlaceUnlessLogged,
        )
    }

    /// SAST with N `blocks` and K `logs` a group, and 64 log blocks. First writes as in BAST, so
    /// that SAST 1:1 is BAST.
    pub fn sast(blocks: u32, logs: u32) -> Self {
        Self::new(
            Scheme::Sast {
                blocks,
                logs,
                victim: LogVictim::default(),
            },
            FirstWrite::InPlaceUnlessLogged,
        )
    }

    /// FAST with 64 log blocks. First writes go in place, as in the paper's pseudo-code.
    pub fn fast() -> Self {
        let scheme = Scheme::Fast {
            mismatch: Mismatch::default(),
            pending: Pending::default(),
            owner: OwnerMerge::default(),
        };
        Self::new(scheme, FirstWrite::InPlace)
    }

    fn new(scheme: Scheme, first_write: FirstWrite) -> Self {
        Self {
            scheme,
            log_blocks: 64,
            spare_blocks: 16,
            page_order: PageOrder::default(),
            first_write,
            skip_stale: true,
            eager: false,
            wear_threshold: 100,
            seed: 1,
            seeded_bug: None,
        }
    }

    /// Log blocks without which the scheme cannot write.
    pub(super) fn fewest_logs(&self) -> u32 {
        if matches!(self.scheme, Scheme::Fast { .. }) {
            2
        } else {
            1
        }
    }
}

/// A rule left out on purpose, to prove that crash tests bite. Never set outside tests and
/// demonstrations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Rule 1: erase without the fence.
    EraseUnfenced,
    /// Rule 3: fill a block further that was found on the medium.
    ReuseOpenBlock,
    /// Take the last tag read, not the newest.
    IgnoreSequence,
    /// Flush without waiting for the medium.
    FlushWithoutSync,
    /// Switch a full log block whatever the order of its pages.
    SwitchUnordered,
}
