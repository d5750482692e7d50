//! Rules left out on purpose, to prove that tests bite.

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// An fsync commits before it writes the contents.
    ContentsLate,
    /// A commit does not wait for the device.
    CommitUnflushed,
    /// Directories go before the chains to which they lead.
    DirectoriesFirst,
    /// The table goes at once, with the clusters that directories still need as free.
    TableAtOnce,
    /// A file takes clusters that another gave back since the last commit.
    ReuseEarly,
    /// A rename takes the old name away without waiting for the new one.
    RenameAtOnce,
    /// A file takes a name that another lost since the last commit, in other slots.
    NamesAgain,
}
