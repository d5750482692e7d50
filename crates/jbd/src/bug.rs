//! Rules left out on purpose, to prove that tests bite.

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// The commit block does not wait for the copies.
    CommitUnfenced,
    /// A commit returns before its commit block is durable.
    CommitUnflushed,
    /// The superblock that takes a transaction out of the log does not wait for its blocks at home.
    TailUnfenced,
    /// The superblock that empties the log does not wait for blocks that recovery brings home.
    RecoveryUnfenced,
    /// Recovery brings home the copies of a transaction without a commit block.
    UnfinishedCounts,
    /// Recovery ignores the transaction numbers of blocks in the log.
    StaleCounts,
    /// Recovery ignores the revoke records.
    RevokesIgnored,
    /// Recovery brings home an escaped block without its first word.
    EscapeForgotten,
    /// Recovery brings home the oldest version of a block.
    OldestWins,
    /// Recovery empties a log with fast commits before their replay.
    FastLogClosed,
    /// The last block of a fast commit does not wait for what it leads to.
    FastUnfenced,
    /// A fast commit returns before it is durable.
    FastUnflushed,
}
