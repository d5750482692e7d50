//! The partition table of the master boot record, with logical partitions.
//!
//! Numbers are Linux's: 1 to 4 for the entries of the record, 5 and more along the chain of
//! extended records. Sectors have 512 bytes.

use super::{At, Entries, Partition, Result, checked, wrong};
use nandlab_sim::Backing;
use std::collections::BTreeSet;

const TABLE: &str = "MBR";
const SECTOR: u64 = 512;
/// The entries begin here.
const ENTRIES: u64 = 446;
const ENTRY: u64 = 16;
/// The number of the first logical partition.
const LOGICAL: usize = 5;
/// Extended records of a chain, as in Linux.
const CHAIN_MAX: usize = 100;

/// An entry that is in use.
#[derive(Clone, Copy)]
struct Entry {
    /// Its place on the medium.
    place: u64,
    number: usize,
    kind: u8,
    /// The first sector of the partition.
    first: u64,
    count: u64,
}

impl Entry {
    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }

    fn partition(&self, number: usize, base: u64) -> (At, Partition) {
        let one = Partition {
            name: format!("p{number}"),
            at: (base + self.first) * SECTOR,
            len: self.count * SECTOR,
            read_only: false,
        };
        (At::Byte(self.place), one)
    }
}

/// The used entries of the record in a sector.
fn record(bytes: &mut dyn Backing, sector: u64) -> Result<Vec<Entry>> {
    let at = sector * SECTOR;
    let mut record = [0; SECTOR as usize];
    if let Err(error) = bytes.read_at(at, &mut record) {
        return wrong(TABLE, At::Byte(at), error, "a record of 512 bytes");
    }
    if record[510..] != [0x55, 0xAA] {
        let found = format!("{:02x}{:02x}", record[510], record[511]);
        return wrong(TABLE, At::Byte(at + 510), found, "55aa");
    }
    let mut entries = Vec::new();
    let table = record[ENTRIES as usize..510].chunks_exact(ENTRY as usize);
    for (index, entry) in table.enumerate() {
        let place = at + ENTRIES + index as u64 * ENTRY;
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| entry[at + byte]));
        if entry[0] & 0x7F != 0 {
            let found = format!("state {:02x}", entry[0]);
            return wrong(TABLE, At::Byte(place), found, "00 or 80");
        }
        let one = Entry {
            place,
            number: index + 1,
            kind: entry[4],
            first: field(8).into(),
            count: field(12).into(),
        };
        entries.extend((one.kind != 0 && one.count > 0).then_some(one));
    }
    Ok(entries)
}

/// Follows the chain of an extended partition; logical partitions are added.
fn chain(bytes: &mut dyn Backing, extended: Entry, found: &mut Entries) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut sector = extended.first;
    let mut number = LOGICAL;
    loop {
        if !seen.insert(sector) || seen.len() > CHAIN_MAX {
            let found = format!("a chain that leads to sector {sector}");
            let expected = format!("at most {CHAIN_MAX} records, each of them once");
            return wrong(TABLE, At::Byte(sector * SECTOR), found, expected);
        }
        let mut next = None;
        for entry in record(bytes, sector)? {
            if entry.is_extended() {
                next = next.or(Some(entry));
            } else {
                found.push(entry.partition(number, sector));
                inside_extended(extended, found.last())?;
                number += 1;
            }
        }
        match next {
            Some(entry) if entry.first < extended.count => sector = extended.first + entry.first,
            Some(entry) => {
                let found = format!("the next record at sector {}", entry.first);
                let expected = format!("less than {}", extended.count);
                return wrong(TABLE, At::Byte(entry.place + 8), found, expected);
            }
            None => return Ok(()),
        }
    }
}

/// A logical partition lies in the extended one.
fn inside_extended(extended: Entry, one: Option<&(At, Partition)>) -> Result<()> {
    let (_, outer) = extended.partition(extended.number, 0);
    match one {
        Some((at, one)) if one.at < outer.at || one.end() > outer.end() => {
            wrong(TABLE, *at, one, format!("a place in the extended {outer}"))
        }
        _ => Ok(()),
    }
}

/// The table only keeps others off a disk with GPT.
pub(super) fn is_protective(bytes: &mut dyn Backing) -> bool {
    let entries = record(bytes, 0).unwrap_or_default();
    entries.iter().any(|entry| entry.kind == 0xEE)
}

/// The partitions in the table at the medium's beginning. An extended partition is none itself.
pub fn mbr(bytes: &mut dyn Backing) -> Result<Vec<Partition>> {
    let primary = record(bytes, 0)?;
    if let Some(entry) = primary.iter().find(|entry| entry.kind == 0xEE) {
        let expected = "a table of its own; GPT has the partitions";
        return wrong(TABLE, At::Byte(entry.place + 4), "type ee", expected);
    }
    let mut found = Entries::new();
    let mut extended = None;
    for entry in primary {
        if entry.is_extended() {
            extended = extended.or(Some(entry));
        } else {
            found.push(entry.partition(entry.number, 0));
        }
    }
    if let Some(extended) = extended {
        let mut logical = Entries::new();
        chain(bytes, extended, &mut logical)?;
        // Primary partitions must not lie in the extended one.
        let (at, outer) = extended.partition(extended.number, 0);
        let mut all = found.clone();
        all.push((at, outer));
        checked(TABLE, all, bytes.len(), false)?;
        found.extend(logical);
    }
    checked(TABLE, found, bytes.len(), false)
}
