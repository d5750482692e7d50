//! What may be wrong with a volume, and how much it matters.

use alloc::{format, string::String};
use nandlab_vfs::report::{self, Severity};

/// Slots of 512 bytes, the smallest unit that a disk writes.
const SECTOR_SLOTS: u32 = 16;
/// The table entry of a free cluster.
const FREE: u32 = 0;

fn broken(cluster: u32, found: u32) -> String {
    match found {
        FREE => format!("cluster {cluster} is in use and marked free in the table"),
        _ => format!("chain goes on from cluster {cluster} with entry {found:#x}"),
    }
}

/// A deviation from the format that a check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The volume was not unmounted.
    #[error("marked as in use")]
    InUse,
    /// The copy of the boot sector is another.
    #[error("boot sector and its copy in sector {sector} differ from byte {offset}")]
    Backup {
        /// Where the copy is.
        sector: u32,
        /// Where they differ first.
        offset: usize,
    },
    /// The file system information is none.
    #[error("no file system information in sector {0}")]
    NoInfo(u32),
    /// The number of free clusters is another.
    #[error("free clusters: {found}, expected {expected}")]
    FreeCount {
        /// The count on the volume.
        found: u32,
        /// The count that the check found.
        expected: u32,
    },
    /// The copies of the table are not alike.
    #[error("table copy {copy} differs from the first in sector {sector}")]
    Copies {
        /// The copy, from 1.
        copy: u32,
        /// The first sector that differs, counted from the table's beginning.
        sector: u32,
    },
    /// The table's second entry says that a volume was not unmounted, or that its disk had errors.
    #[error("second table entry {found:#x}: not unmounted, or the disk had errors")]
    Unclean {
        /// The table entry that was read.
        found: u32,
    },
    /// The table does not begin with the media byte and ones.
    #[error("first table entry {found:#x}, expected {expected:#x}: ones and the media byte")]
    Media {
        /// The table entry that was read.
        found: u32,
        /// The entry of a volume with this media byte.
        expected: u32,
    },
    /// Clusters that nothing uses.
    #[error("clusters that are allocated and belong to no file: {0}")]
    Lost(u32),
    /// The first cluster is none.
    #[error("{path}: first cluster {found}, expected a cluster")]
    Start {
        /// The path of the entry.
        path: String,
        /// The cluster number in the entry.
        found: u32,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A chain leads to what is no next cluster.
    #[error("{path}: {}", broken(*cluster, *found))]
    Chain {
        /// The path of the entry.
        path: String,
        /// The last cluster of the chain.
        cluster: u32,
        /// The table entry of that cluster.
        found: u32,
        /// Whether the chain is broken before the end of the file.
        within: bool,
    },
    /// A cluster belongs to two.
    #[error("{path}: cluster {cluster} belongs to another file too, or twice to this")]
    CrossLink {
        /// The second to be visited.
        path: String,
        /// The number of the cluster.
        cluster: u32,
    },
    /// Two names lead to one chain: a rename was cut short.
    #[error("{path} and {other} are one file")]
    TwoNames {
        /// The second to be visited.
        path: String,
        /// The path of the first of the two names.
        other: String,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A directory holds a directory above itself.
    #[error("{path}: leads back to {other}, a directory above it")]
    Cycle {
        /// The name that leads back.
        path: String,
        /// The path of the directory above.
        other: String,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A file is longer than its chain.
    #[error("{path}: {size} bytes, its clusters hold {held}")]
    TooLong {
        /// The path of the entry.
        path: String,
        /// The length in the entry, in bytes.
        size: u32,
        /// Bytes of its chain.
        held: u64,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A chain is longer than its file.
    #[error("{path}: clusters beyond its end: {clusters}")]
    Excess {
        /// The path of the entry.
        path: String,
        /// The clusters beyond the end of the file.
        clusters: u32,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A directory says that it has bytes.
    #[error("{path}: directory with a length of {size} bytes")]
    DirectorySize {
        /// The path of the entry.
        path: String,
        /// The length in the entry, in bytes.
        size: u32,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A directory does not begin with itself.
    #[error("{path}: no `.`, or one that leads elsewhere")]
    Dot {
        /// The path of the entry.
        path: String,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// The second slot of a directory is another entry.
    #[error("{path}: no `..` in the second slot")]
    NoDotDot {
        /// The path of the directory.
        path: String,
        /// Where the slot is, in bytes of the volume.
        at: u64,
    },
    /// A short name with characters that no short name has: control characters, a dot, one of
    /// `*?<>|":/\`, or a space at its start.
    #[error("{path}: slot {slot} has the short name \"{}\", which no file may have", name.escape_ascii())]
    ShortName {
        /// The path of the directory.
        path: String,
        /// The number of the slot in the directory.
        slot: u32,
        /// The name as the slot holds it.
        name: [u8; 11],
        /// Where the slot is, in bytes of the volume.
        at: u64,
    },
    /// A label has clusters or a length, or is not the only one and in the root: it may be a file
    /// that nobody sees.
    #[error("{path}: slot {slot} is a label, expected one without clusters, in the root only")]
    Label {
        /// The path of the directory.
        path: String,
        /// The number of the slot in the directory.
        slot: u32,
        /// Where the slot is, in bytes of the volume.
        at: u64,
    },
    /// A slot of a long name has bits or fields that are zero in any other.
    #[error(
        "{path}: slot {slot}, of a long name, has {found:#x} at byte {byte}, expected {expected:#x}"
    )]
    LongSlot {
        /// The path of the directory.
        path: String,
        /// The number of the slot in the directory.
        slot: u32,
        /// The byte of the slot.
        byte: u8,
        /// The value that the slot holds.
        found: u16,
        /// What it should be.
        expected: u16,
        /// Where the slot is, in bytes of the volume.
        at: u64,
    },
    /// A slot behind the end of its directory is in use: Linux shows it, others do not. A power cut
    /// may leave it where only the second of two sectors was written.
    #[error("{path}: slot {slot} lies behind the end of the directory, slot {end}, and is in use")]
    Behind {
        /// The path of the directory.
        path: String,
        /// The number of the slot in the directory.
        slot: u32,
        /// The slot that ends the directory.
        end: u32,
        /// Where the slot is, in bytes of the volume.
        at: u64,
    },
    /// A directory does not name its parent.
    #[error("{path}: `..` leads to cluster {found}, expected {expected}")]
    DotDot {
        /// The path of the entry.
        path: String,
        /// The cluster number in the entry.
        found: u32,
        /// The cluster number that it should hold.
        expected: u32,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// Slots of a long name that belong to no entry.
    #[error("{path}: slot {slot} is part of a long name that has no entry")]
    LongName {
        /// The path of the directory.
        path: String,
        /// The number of the slot in the directory.
        slot: u32,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// Two entries of one name.
    #[error("{path}: twice in its directory, or with a short name that is")]
    Twice {
        /// The path of the second entry.
        path: String,
        /// Where its slot is, in bytes of the volume.
        at: u64,
    },
    /// A path is too long to go on.
    #[error("{path}: too deep")]
    Deep {
        /// The path of the entry.
        path: String,
    },
}

impl report::Finding for Finding {
    /// Clusters that nothing leads to, and names that two readers read differently, may be lost.
    fn may_lose(&self) -> bool {
        self.severity() > Severity::Note
    }

    fn severity(&self) -> Severity {
        match self {
            Self::InUse
            | Self::Backup { .. }
            | Self::NoInfo(_)
            | Self::FreeCount { .. }
            | Self::Unclean { .. }
            | Self::Media { .. } => Severity::Note,
            Self::Copies { .. } | Self::Lost(_) | Self::Excess { .. } | Self::TwoNames { .. } => {
                Severity::Waste
            }
            Self::DotDot { .. } | Self::LongName { .. } => Severity::Waste,
            Self::Behind { slot, end, .. } => {
                // The sector of the end, which was not written, had something in it before.
                let next = slot / SECTOR_SLOTS <= end / SECTOR_SLOTS + 1;
                match *end > 0 && next && slot.is_multiple_of(SECTOR_SLOTS) {
                    true => Severity::Waste,
                    false => Severity::Damage,
                }
            }
            // The next write gives a free cluster away.
            Self::Chain { within, found, .. } if !within && *found != FREE => Severity::Waste,
            _ => Severity::Damage,
        }
    }
}

impl Finding {
    /// Whether the next write may change the contents of another file.
    pub fn endangers_writes(&self) -> bool {
        matches!(
            self,
            Self::Chain { found: FREE, .. } | Self::CrossLink { .. } | Self::Cycle { .. }
        )
    }
}

/// What a check found.
pub type Report = report::Report<Finding, Totals>;

/// What a check counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files that the check read.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// The number of free clusters.
    pub free: u32,
}
