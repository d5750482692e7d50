//! Rules left out on purpose, to prove that tests bite.

/// A rule left out on purpose. Never set outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// The journal leaves out a rule of its own.
    Journal(nandlab_jbd::SeededBug),
    /// The commit comes before the contents to which its metadata leads.
    ContentsLate,
    /// A file takes blocks that another gave back since the last commit.
    ReuseEarly,
    /// A mount leaves the list of orphans as it is.
    OrphansForgotten,
    /// The bitmaps come last.
    BitmapsLate,
    /// All blocks of names go at once.
    NamesUnordered,
    /// An fsync writes the contents only.
    FsyncContents,
    /// A length covers contents that still wait for their blocks.
    DelayedSizeEarly,
    /// An fsync leaves contents that wait.
    DelayedForgotten,
    /// Contents that wait reserve no space.
    DelayedUnreserved,
    /// A fast commit leaves out changes that no tag describes.
    ForbiddenFast,
    /// A replay commits after each fast commit.
    ReplayDivided,
    /// A replay goes on behind the last fast commit that is whole.
    FastTailIgnored,
    /// A replay may put new metadata into blocks that a later tag adds.
    FastBlocksReused,
}
