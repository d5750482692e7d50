//! Rules left out on purpose, to prove that tests bite.

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
    /// The mark that asks for a fix-up goes before the fix-up.
    UnmarkFirst,
    /// A log that was put together again keeps the age of its beginning.
    KeepLogAge,
}
