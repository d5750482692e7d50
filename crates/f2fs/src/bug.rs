//! Rules left out on purpose, to prove that tests bite.

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// The last block of a checkpoint pack does not wait for the others.
    PackUnfenced,
    /// A checkpoint pack counts by its first block alone.
    FooterIgnored,
    /// An fsync returns before its nodes are durable.
    FsyncUnflushed,
    /// An fsync writes nodes that do not wait for the contents.
    ContentsUnfenced,
    /// An fsync rolls forward to a file in a directory that no checkpoint has.
    ParentForgotten,
    /// An fsync of a new file leaves out the mark of its name.
    NameUnmarked,
    /// An fsync behind a rename rolls forward without the new name.
    RenameRolledForward,
    /// The logs go on behind a recovery where the checkpoint has them.
    LogsStay,
    /// The list of inodes without names is not written.
    OrphansForgotten,
}
