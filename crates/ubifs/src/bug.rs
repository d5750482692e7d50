//! Switches that only tests set: rules left out on purpose, and commits in the gaps.

/// Switches of a mount. Never set outside tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// A rule left out on purpose.
    pub bug: Option<SeededBug>,
    /// Every second commit writes index nodes between old ones, although blocks are empty.
    pub prefers_gaps: bool,
}

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// The second of the two master nodes is written first.
    SecondMasterFirst,
    /// The block of the master nodes is unmapped before it begins anew, as Linux does.
    UnmapMaster,
    /// The same, and a pair of which one block is erased in part is refused.
    RefuseTornErase,
    /// A block that is to read as erased is unmapped, and no more.
    UnmapOnly,
    /// Blocks of the last commit go before the new one counts.
    LeaveEarly,
    /// A collected block goes before its nodes are written elsewhere.
    CollectUnflushed,
    /// The list of inodes without names is not written.
    ForgetOrphans,
    /// A removed file takes its attributes along without a word in the journal.
    ForgetValues,
    /// The journal has no node of a truncation.
    ForgetTruncation,
    /// An fsync writes contents, and no inodes.
    FsyncContents,
    /// The timer writes contents, and no inodes.
    ForgetTimer,
    /// A torn group of nodes counts.
    KeepTornGroups,
    /// Blocks with torn ends stay as they are.
    KeepTornEnds,
    /// The commit of a recovery gives up blocks before it counts.
    FreeInRecovery,
    /// Sizes are not raised to the ends of contents.
    KeepSizes,
    /// Nodes of the journal are applied in the order of their blocks.
    ReplayUnsorted,
    /// The journal writes a collected block before a commit, although names in it share their
    /// hashes. Linux does that, and its own replay mistakes them.
    ReuseNames,
    /// The same, and the replay takes a new node there for an old name.
    TrustOldPlaces,
    /// The mark that asks for a fix-up goes before the fix-up.
    UnmarkFirst,
    /// A log that was put together again keeps the age of its beginning.
    KeepLogAge,
    /// Nodes that only the last commit has count as gaps.
    FillKept,
    /// A commit unmaps a block to fill its gaps, and does not change it whole.
    UnmapGaps,
}
