//! Partition tables: Linux's `mtdparts`, MBR, GPT and `fixed-partitions` of a device tree.
//!
//! *Promises.* Any bytes and any text are valid input, and at most [`PARTITIONS_MAX`] partitions
//! come out. Every partition that is returned lies inside the medium. An error names the table, the
//! byte or the character, what was found and what was expected. *Knows nothing of* what partitions
//! hold.

mod env;
mod gpt;
mod mbr;
mod mtdparts;
#[cfg(test)]
mod tests;
mod tree;

pub use env::environment;
pub use gpt::{Gpt, gpt};
pub use mbr::mbr;
pub use mtdparts::{mtd_ids, mtdparts, mtdparts_of};
pub use tree::{device_tree, tree_devices};

use crate::error;
use crate::known;
use nandlab_sim::Backing;
use serde::Serialize;
use std::fmt;

/// Partitions of a table.
pub const PARTITIONS_MAX: usize = 4096;

/// A part of a medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Its name in the table, or its number as in `p5`.
    pub name: String,
    /// The offset of the first byte in the image.
    pub at: u64,
    /// The length of the partition in bytes.
    pub len: u64,
    /// The table forbids writes to it.
    pub read_only: bool,
}

impl Partition {
    /// The byte behind the last.
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (bytes {} to {})", self.name, self.at, self.end())
    }
}

/// A place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// An offset in the medium, or from the beginning of a device tree.
    Byte(u64),
    /// An offset in a string.
    Character(usize),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(at) => write!(f, "byte {at}"),
            Self::Character(at) => write!(f, "character {at}"),
        }
    }
}

/// Why a table was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}, {at}: found {found}, expected {expected}")]
pub struct PartitionError {
    /// The kind of table.
    pub table: &'static str,
    /// The field that is wrong.
    pub at: At,
    /// The value that the table holds.
    pub found: String,
    /// The value that the table may hold.
    pub expected: String,
}

/// The result of reading a table.
pub type Result<T> = std::result::Result<T, PartitionError>;

fn wrong<T>(
    table: &'static str,
    at: At,
    found: impl fmt::Display,
    expected: impl fmt::Display,
) -> Result<T> {
    Err(PartitionError {
        table,
        at,
        found: found.to_string(),
        expected: expected.to_string(),
    })
}

/// Partitions with the places of their entries in the table.
type Entries = Vec<(At, Partition)>;

/// Refuses partitions that end beyond the medium.
fn inside(table: &'static str, entries: &Entries, len: u64) -> Result<()> {
    if let Some((at, _)) = entries.get(PARTITIONS_MAX) {
        let expected = format!("at most {PARTITIONS_MAX} partitions");
        return wrong(table, *at, "one more partition", expected);
    }
    let beyond = entries.iter().find(|(_, one)| one.end() > len);
    match beyond {
        Some((at, one)) => wrong(table, *at, one, format!("an end at byte {len} or before")),
        None => Ok(()),
    }
}

/// Refuses partitions that share bytes. With `nested`, one may hold others whole: maps of flash
/// have names for the whole device, or for firmware and its parts.
fn apart(table: &'static str, entries: &Entries, nested: bool) -> Result<()> {
    let mut sorted: Vec<&(At, Partition)> = entries.iter().collect();
    sorted.sort_by_key(|(_, one)| (one.at, std::cmp::Reverse(one.end())));
    // Those that hold the present one.
    let mut outer: Vec<&Partition> = Vec::new();
    for (at, one) in sorted {
        while outer.last().is_some_and(|last| last.end() <= one.at) {
            outer.pop();
        }
        if let Some(last) = outer.last()
            && !(nested && one.end() <= last.end())
        {
            return wrong(table, *at, one, format!("no overlap with {last}"));
        }
        outer.push(one);
    }
    Ok(())
}

/// Checks the whole table.
fn checked(
    table: &'static str,
    entries: Entries,
    len: u64,
    nested: bool,
) -> Result<Vec<Partition>> {
    inside(table, &entries, len)?;
    apart(table, &entries, nested)?;
    Ok(entries.into_iter().map(|(_, one)| one).collect())
}

/// The partitions of the disk that an image is: by GPT, or else by its MBR. `None` if it begins
/// with neither.
pub fn in_image(bytes: &mut dyn Backing) -> error::Result<Option<Vec<Partition>>> {
    Ok(match known::recognise(bytes, 0).map(|known| known.name) {
        Some("GPT") => Some(gpt(bytes)?.partitions),
        // The header behind it is damaged.
        Some("MBR") if mbr::is_protective(bytes) => Some(gpt(bytes)?.partitions),
        Some("MBR") => Some(mbr(bytes)?),
        _ => None,
    })
}
