//! The GUID partition table: the primary one behind the protective MBR, or its backup at the end.
//!
//! A table counts only if the checksums of its header and of its entries match. Sectors have 512 or
//! 4096 bytes.

use super::{At, Entries, Partition, Result, checked, wrong};
use nandlab_sim::Backing;
use serde::Serialize;

const TABLE: &str = "GPT";
/// Lengths of sectors that are tried.
const SECTORS: [u64; 2] = [512, 4096];
/// Bytes of a header without what a later version may add.
const HEAD: u32 = 92;
/// Bytes of all entries.
const ENTRIES_MAX: u64 = 4 << 20;
/// The bit of an entry's attributes that forbids writes to a partition with plain data.
const READ_ONLY: u64 = 1 << 60;

/// A GUID partition table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpt {
    /// The partitions that the table lists.
    pub partitions: Vec<Partition>,
    /// Bytes of a sector.
    pub sector: u64,
    /// The primary table is damaged, and this is its backup.
    pub is_backup: bool,
    /// What is wrong with the other copy.
    pub troubles: Vec<String>,
}

/// A header and its entries.
struct Copy {
    entries: Entries,
    /// The bytes of the entries, for comparison.
    raw: Vec<u8>,
}

fn read(bytes: &mut dyn Backing, at: u64, len: u64) -> Result<Vec<u8>> {
    let mut part = vec![0; len as usize];
    match bytes.read_at(at, &mut part) {
        Ok(()) => Ok(part),
        Err(error) => wrong(TABLE, At::Byte(at), error, format!("{len} bytes")),
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// Refuses bytes that do not have the checksum that is stored at `at`.
fn check(at: u64, stored: u32, bytes: &[u8], what: &str) -> Result<()> {
    let computed = crc32fast::hash(bytes);
    if computed == stored {
        return Ok(());
    }
    let found = format!("checksum {stored:#010x}");
    let expected = format!("{computed:#010x}, computed of {what}");
    wrong(TABLE, At::Byte(at), found, expected)
}

/// Reads the copy with its header in sector `lba`.
fn copy(bytes: &mut dyn Backing, sector: u64, lba: u64) -> Result<Copy> {
    let place = lba * sector;
    let mut head = read(bytes, place, sector)?;
    if !head.starts_with(b"EFI PART") {
        let found = crate::known::printable(&head[..8]);
        return wrong(TABLE, At::Byte(place), format!("{found:?}"), "\"EFI PART\"");
    }
    let len = le32(&head, 12);
    if len < HEAD || u64::from(len) > sector {
        let expected = format!("{HEAD} to {sector}");
        return wrong(
            TABLE,
            At::Byte(place + 12),
            format!("a header of {len} bytes"),
            expected,
        );
    }
    head.truncate(len as usize);
    let stored = le32(&head, 16);
    head[16..20].fill(0);
    check(place + 16, stored, &head, "the header")?;
    let this = le64(&head, 24);
    if this != lba {
        return wrong(TABLE, At::Byte(place + 24), format!("sector {this}"), lba);
    }
    let count = le32(&head, 80);
    let size = le32(&head, 84);
    let total = u64::from(count) * u64::from(size);
    if !size.is_power_of_two() || !(128..=4096).contains(&size) || total > ENTRIES_MAX {
        let found = format!("{count} entries of {size} bytes");
        let expected = "entries of 128 to 4096 bytes, a power of two, 4 MiB of them at most";
        return wrong(TABLE, At::Byte(place + 80), found, expected);
    }
    let first = le64(&head, 72);
    let Some(table) = first.checked_mul(sector) else {
        let found = format!("entries in sector {first}");
        return wrong(TABLE, At::Byte(place + 72), found, "a sector of the medium");
    };
    let raw = read(bytes, table, total)?;
    check(place + 88, le32(&head, 88), &raw, "the entries")?;
    let usable = (le64(&head, 40), le64(&head, 48));
    let entries = entries(&raw, size as usize, table, sector, usable)?;
    Ok(Copy { entries, raw })
}

/// The entries that are in use.
fn entries(
    raw: &[u8],
    size: usize,
    table: u64,
    sector: u64,
    usable: (u64, u64),
) -> Result<Entries> {
    let mut entries = Entries::new();
    for (index, entry) in raw.chunks_exact(size).enumerate() {
        if entry[..16] == [0; 16] {
            continue;
        }
        let place = At::Byte(table + (index * size) as u64);
        let first = le64(entry, 32);
        let last = le64(entry, 40);
        let is_usable = first >= usable.0 && first <= last && last <= usable.1;
        // An end that does not fit a number of bytes lies beyond every medium.
        let Some(end) = last.checked_add(1).and_then(|end| end.checked_mul(sector)) else {
            return wrong(
                TABLE,
                place,
                format!("last sector {last}"),
                "a sector of the medium",
            );
        };
        if !is_usable {
            let found = format!("sectors {first} to {last}");
            let expected = format!("some of sectors {} to {}", usable.0, usable.1);
            return wrong(TABLE, place, found, expected);
        }
        let one = Partition {
            name: name(&entry[56..128]).unwrap_or_else(|| format!("p{}", index + 1)),
            at: first * sector,
            len: end - first * sector,
            read_only: le64(entry, 48) & READ_ONLY != 0,
        };
        entries.push((place, one));
    }
    Ok(entries)
}

/// A name in UTF-16 that ends with a NUL or with its field.
fn name(field: &[u8]) -> Option<String> {
    let units = field.chunks_exact(2);
    let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    (!units.is_empty()).then(|| String::from_utf16_lossy(&units))
}

/// The partitions of the table on a medium: the primary one, or its backup where that is damaged.
pub fn gpt(bytes: &mut dyn Backing) -> Result<Gpt> {
    let mut first_error = None;
    for sector in SECTORS {
        let primary = copy(bytes, sector, 1);
        let last = (bytes.len() / sector).saturating_sub(1);
        let backup = copy(bytes, sector, last);
        let troubles = troubles(&primary, &backup);
        let is_backup = primary.is_err();
        match primary.or_else(|error| backup.map_err(|_| error)) {
            Ok(found) => {
                let partitions = checked(TABLE, found.entries, bytes.len(), false)?;
                return Ok(Gpt {
                    partitions,
                    sector,
                    is_backup,
                    troubles,
                });
            }
            // Where there is a header, its damage is what counts.
            Err(error) if error.expected.contains("EFI PART") => {
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(first_error.expect("each length of a sector was tried"))
}

fn troubles(primary: &Result<Copy>, backup: &Result<Copy>) -> Vec<String> {
    match (primary, backup) {
        (Ok(primary), Ok(backup)) if primary.raw != backup.raw => {
            vec!["the backup has other entries than the primary table".into()]
        }
        (Ok(_), Ok(_)) => Vec::new(),
        (Ok(_), Err(error)) => vec![format!("the backup is damaged: {error}")],
        (Err(error), _) => vec![format!("the primary table is damaged: {error}")],
    }
}
