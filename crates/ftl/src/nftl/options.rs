//! Choices of the replacement-block layer, each with its default and the reason for it.

use nandlab_sim::with_defaults;

/// Which chain is folded when units run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainVictim {
    /// The longest, of several the one of the lowest virtual unit: Linux's rule
    /// (`NFTL_makefreeblock`), and the default.
    #[default]
    Longest,
    /// The one of which the fewest sectors must be copied; of several the one of the lowest virtual
    /// unit. What the scheme could do.
    MinCopy,
}

/// Which free unit is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// The next one, from the one taken last: Linux's rule (`NFTL_findfreeblock`), and the default.
    #[default]
    RoundRobin,
    /// The one erased least often.
    LeastWorn,
}

/// How far a power cut is reckoned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// A page that holds something is programmed again only while a copy of that exists: the
    /// default. Needs a chip that takes three programs a page.
    #[default]
    Guarded,
    /// Linux's operations in Linux's order. A cut while a page is programmed again may take what it
    /// holds, flushed or not. Needs a chip that takes four programs a page.
    Linux,
}

with_defaults! {
    /// Choices of the replacement-block layer. The number of spare units is fixed when formatting,
    /// all others may change from one attach to the next.
    #[derive(Clone, Debug, PartialEq)]
    pub struct NftlOptions {
        /// Units beyond those that hold the disk once, for replacement units and for folding; two
        /// more are set aside for units that go bad. At least 2; 64 by default, the number of log
        /// blocks that the log-block layers have. (`nftl_format` leaves 3 in all.)
        pub spare_units: u32 = 64,
        /// Which chain is folded.
        pub victim: ChainVictim = ChainVictim::default(),
        /// Which free unit is taken.
        pub allocation: Allocation = Allocation::default(),
        /// Read every page of a unit after its erase, data and OOB, and retire the unit unless all
        /// are blank. On by default, as in Linux.
        pub verify_free: bool = true,
        /// How far a power cut is reckoned with.
        pub ordering: Ordering = Ordering::default(),
        /// Take what looks erased on a medium that is attached for erased, as Linux does. Off by
        /// default: a cut may have left it torn, and a page that may be torn must not be
        /// programmed. Off, a chain is folded before a sector is added to a unit that was found,
        /// and a free unit is erased before its first use.
        pub trust_free: bool = false,
        /// The spread of erase counts at which the chain of the least worn unit is moved to the
        /// most worn free one; 0 never, the default: Linux does not level.
        pub wear_threshold: u32 = 0,
        /// Deliberate faults, for proving that the crash explorer finds them.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// A rule left out on purpose, to prove that crash tests bite. Never set outside tests and
/// demonstrations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Rule 1: erase without the fence.
    EraseUnfenced,
    /// Rule 2: link a unit without a copy of what the link's page holds.
    LinkUnguarded,
    /// Rule 2: name a unit the only one of its chain without such a copy.
    FoldUnprepared,
    /// Rule 3: do not look for a unit whose header is lost.
    ForgetLostHeaders,
    /// Rule 4: of two chains keep the longer, as Linux does.
    KeepLonger,
    /// Flush without waiting for the medium.
    FlushWithoutSync,
}
