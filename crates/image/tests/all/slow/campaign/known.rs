//! Lines of the tools with which a volume may be sound to us, each with the reason.

use super::judges::Format;

/// A line that a tool prints.
pub struct Known {
    pub format: Format,
    /// Words of the line.
    pub words: &'static str,
    pub why: Why,
}

/// Why a volume with such a line may be sound to us.
pub enum Why {
    /// Our check must have a finding with these words. It is waste or a note: space or a hint is
    /// lost, contents are not, and a power cut may leave it.
    Reported(&'static str),
    /// We do not claim to find it.
    NotClaimed(#[expect(dead_code, reason = "for the reader")] &'static str),
}

use Format::{Ext, F2fs, Fat};
use Why::{NotClaimed, Reported};

const fn line(format: Format, words: &'static str, why: Why) -> Known {
    Known { format, words, why }
}

pub const KNOWN: &[Known] = &[
    line(Ext, "Block bitmap differences", Reported("waste")),
    line(Ext, "Inode bitmap differences", Reported("waste")),
    line(Ext, "blocks count wrong for group", Reported("waste")),
    line(Ext, "inodes count wrong for group", Reported("waste")),
    line(Ext, "Directories count wrong for group", Reported("waste")),
    line(
        Ext,
        "Padding at end of",
        Reported("behind the end of the bitmap"),
    ),
    line(Ext, "ref count is", Reported("waste")),
    line(Ext, "Deleted inode", Reported("without a time of deletion")),
    line(Ext, "Unattached inode", Reported("no name leads to it")),
    line(
        Ext,
        "Unattached zero-length inode",
        Reported("no name leads to it"),
    ),
    line(
        Ext,
        "Unconnected directory inode",
        Reported("no name leads to it"),
    ),
    line(
        Ext,
        "should be <The NULL inode>",
        Reported("no name leads to it"),
    ),
    line(
        Ext,
        "part of a corrupted orphan linked list",
        Reported("the number of an inode"),
    ),
    line(
        Ext,
        "was part of the orphaned inode list",
        Reported("the number of an inode"),
    ),
    line(Ext, "is not NULL terminated", Reported("no NUL follows")),
    line(
        Ext,
        "is <The NULL inode> (0), should be",
        Reported("no NUL follows"),
    ),
    line(Ext, "has reference count", Reported("users of block")),
    line(
        Ext,
        "Get a newer version of e2fsck",
        NotClaimed("a feature that only writers must know: Linux mounts such a volume to be read"),
    ),
    line(
        Ext,
        "The test_fs flag is set",
        NotClaimed("Linux mounts a volume for tests as any other"),
    ),
    line(
        Ext,
        "count wrong (",
        NotClaimed("the superblock's counts are hints: Linux counts by groups when it mounts"),
    ),
    line(
        Ext,
        "Timestamp(s) on inode",
        NotClaimed("any time is a time, if one of the far future"),
    ),
    line(
        Ext,
        "Superblock last ",
        NotClaimed("the check has no clock, and no time of the superblock decides what is read"),
    ),
    line(
        Ext,
        "Backing up journal inode block information",
        NotClaimed("the superblock's copy of the journal's inode serves e2fsck only"),
    ),
    line(
        Ext,
        "Adding dirhash hint",
        NotClaimed("without the hint, hashes are those of the machine's bytes"),
    ),
    line(
        Fat,
        "Both FATs appear to be corrupt",
        Reported("first table entry"),
    ),
    line(
        Fat,
        "Is a dot with no 8.3 name flag",
        NotClaimed("byte 12 of a dot entry is reserved, and read by nobody"),
    ),
    line(Fat, "File size is", Reported("are one file")),
    // fsck.fat reads on behind the end.
    line(
        Fat,
        "Orphaned long file name",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "Wrong checksum for long file name",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "Duplicate directory entry",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "First ",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "Second ",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "share clusters",
        Reported("lies behind the end of the directory"),
    ),
    line(
        Fat,
        "File size is",
        Reported("lies behind the end of the directory"),
    ),
    line(Fat, "FATs differ", Reported("table copy")),
    line(
        Fat,
        "differences between boot sector",
        Reported("boot sector and its copy"),
    ),
    line(
        Fat,
        "FSINFO sector has bad magic",
        Reported("no file system information"),
    ),
    line(
        Fat,
        "No FSINFO sector",
        Reported("no file system information"),
    ),
    line(Fat, "Free cluster summary wrong", Reported("free clusters")),
    line(Fat, "Dirty bit is set", Reported("note")),
    line(Fat, "unused cluster", Reported("belong to no file")),
    line(Fat, "unused cluster", Reported("table copy")),
    line(
        Fat,
        "Orphaned long file name",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "Unfinished long file name",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "Wrong checksum for long file name",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "Checksum in long filename part",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "Long filename fragment",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "Unexpected long filename sequence",
        Reported("part of a long name"),
    ),
    line(
        Fat,
        "A new long file name starts",
        Reported("part of a long name"),
    ),
    line(Fat, "File size is", Reported("clusters beyond its end")),
    line(Fat, "Invalid '..' entry", Reported("`..` leads to cluster")),
    line(Fat, "share clusters", Reported("are one file")),
    line(Fat, "out of range (", Reported("chain goes on")),
    line(Fat, "out of range (", Reported("belong to no file")),
    // A failure of fsck.fat itself, at a chain that ends with a bad cluster.
    line(
        Fat,
        "next_cluster on bad cluster",
        Reported("chain goes on"),
    ),
    line(
        Fat,
        "Free cluster summary wrong",
        Reported("belong to no file"),
    ),
    line(
        Fat,
        "Free cluster summary wrong",
        Reported("clusters beyond its end"),
    ),
    line(
        Fat,
        "Got 0 bytes instead of 512",
        Reported("boot sector and its copy"),
    ),
    line(
        Fat,
        "There is no backup boot sector",
        NotClaimed("FAT32 allows a volume without a copy of its boot sector"),
    ),
    // The line before has the label, which may hold a line feed.
    line(
        Fat,
        "stored in root directory is not valid",
        NotClaimed("no file depends on a label"),
    ),
    line(
        Fat,
        "abel",
        NotClaimed("labels name a volume; the two copies may differ, and no file depends on one"),
    ),
    line(
        Fat,
        "summary uninitialized",
        NotClaimed("FAT32 allows a volume whose free clusters are not counted"),
    ),
    line(
        Fat,
        "Fixing first cluster in FAT",
        Reported("first table entry"),
    ),
    line(F2fs, "Checkpoint is polluted", Reported("superblock:")),
    line(F2fs, "SIT valid block bitmap", Reported("used by nothing")),
    line(
        F2fs,
        "valid_block_count matching",
        Reported("checkpoint: valid blocks"),
    ),
    line(
        F2fs,
        "valid_node_count matching",
        Reported("checkpoint: valid nodes"),
    ),
    line(
        F2fs,
        "valid_inode_count matched",
        Reported("checkpoint: valid inodes"),
    ),
];

/// Lines that follow a complaint, and lines that every run prints, by how they begin.
pub const FOLLOWING: &[(Format, &str)] = &[
    (Ext, "e2fsck "),
    (Ext, "Pass "),
    (Ext, "*****"),
    (Ext, "Fix? no"),
    (Ext, "now = "),
    (Ext, "Clear? no"),
    (Ext, "Recreate? no"),
    (Ext, "Connect to /lost+found? no"),
    (Ext, "/"),
    (Ext, "Fix? yes"),
    (Ext, "Clearing orphaned inode"),
    (Ext, "Truncating orphaned inode"),
    (Fat, "fsck.fat "),
    (Fat, "/"),
    (Fat, "Auto-"),
    (Fat, "Not auto"),
    (Fat, "Leaving filesystem unchanged"),
    (Fat, "Using first FAT"),
    (Fat, "Truncating"),
    (Fat, "Creating."),
    (Fat, "Created backup of boot sector"),
    (Fat, "Moving entry down"),
    (Fat, "Renamed to"),
    (Fat, "(Start may have"),
    (Fat, "(Short name"),
    (Fat, "(Maybe the start"),
    (Fat, "It could be that"),
    (Fat, "if \""),
    (Fat, "This is mostly harmless"),
    (Fat, "Offset "),
    (Fat, "Automatically"),
    (Fat, "Warning: Filesystem is FAT32"),
    (Fat, "This may lead to problems"),
    (Fat, "but has only"),
    (Fat, "and fat32_length fields"),
];
