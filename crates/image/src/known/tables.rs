//! Partition tables of disks: MBR and GPT, by name; [`crate::partitions`] reads them.

use super::{Format, Known, Sign, View};
use crate::words::counted;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(512, b"EFI PART"), Sign::new(4096, b"EFI PART")],
        look: gpt,
    },
    Format {
        signs: &[Sign {
            at: 510,
            magic: &[0x55, 0xAA],
            fits: is_mbr,
        }],
        look: mbr,
    },
];

/// GPT with its header in the second sector.
fn gpt(view: &mut View<'_>) -> Option<Known> {
    [512, 4096]
        .into_iter()
        .find_map(|sector| gpt_of(view, sector))
}

fn gpt_of(view: &mut View<'_>, sector: u64) -> Option<Known> {
    let sign: [u8; 8] = view.get(sector)?;
    let len = u64::from(view.le32(sector + 12)?);
    let is_header = &sign == b"EFI PART" && (92..=512).contains(&len);
    if !is_header || view.le64(sector + 24)? != 1 {
        return None;
    }
    let expected = view.le32(sector + 16)?;
    let mut head = vec![0; len as usize];
    view.read(sector, &mut head)?;
    head[16..20].fill(0);
    let is_whole = crc32fast::hash(&head) == expected;
    let table = view.le64(sector + 72)?.checked_mul(sector)?;
    let count = view.le32(sector + 80)?;
    let bytes = u64::from(count).checked_mul(view.le32(sector + 84)?.into())?;
    let expected = view.le32(sector + 88)?;
    let entries = view.crc32(table, bytes);
    let state = match (is_whole, entries == Some(expected)) {
        (true, true) => "",
        (true, false) => ", checksum of the entries does not match",
        (false, _) => ", checksum of the header does not match",
    };
    Some(Known {
        name: "GPT",
        len: table.checked_add(bytes.max(sector)),
        says: format!(
            "GPT, sectors of {sector} bytes, up to {}{state}",
            counted(count, "entry")
        ),
        proven: is_whole && entries == Some(expected),
    })
}

/// Entries that are empty or plausible, and one that is not empty.
fn is_mbr(head: &[u8]) -> bool {
    let Some(table) = head.get(446..510) else {
        return false;
    };
    let entries = table.chunks_exact(16);
    let is_empty = |entry: &[u8]| entry.iter().all(|byte| *byte == 0);
    let is_used = |entry: &[u8]| {
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| entry[at + byte]));
        entry[0] & 0x7F == 0 && entry[4] != 0 && field(8) > 0 && field(12) > 0
    };
    entries
        .clone()
        .all(|entry| is_empty(entry) || is_used(entry))
        && entries.clone().any(is_used)
}

fn mbr(view: &mut View<'_>) -> Option<Known> {
    if view.le16(510)? != 0xAA55 || !is_mbr(view.head()) {
        return None;
    }
    let kinds: Vec<String> = (view.head()[446..510].chunks_exact(16))
        .filter(|entry| entry[4] != 0)
        .map(|entry| format!("{:02x}", entry[4]))
        .collect();
    Some(Known {
        name: "MBR",
        len: Some(512),
        says: format!("MBR, types of its partitions: {}", kinds.join(", ")),
        proven: false,
    })
}
