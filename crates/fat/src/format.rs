//! The bytes on the medium: boot sector, file system information, directory slots. All numbers are
//! little-endian.
//!
//! *Knows nothing of* how they are read or written, and judges only what would make the volume
//! unreadable.

use crate::FatError;
pub(crate) use nandlab_block::bytes::{le16, le32, put16, put32};

/// Bytes of a directory slot.
pub(crate) const SLOT: usize = 32;
/// The longest directory, in slots: what Linux and Windows accept.
pub(crate) const DIR_SLOTS_MAX: u32 = 65_536;
/// The most clusters that make a volume FAT12, and FAT16.
pub(crate) const FAT12_MAX: u32 = 4084;
pub(crate) const FAT16_MAX: u32 = 65_524;
/// The most clusters of FAT32.
pub(crate) const FAT32_MAX: u32 = 0x0FFF_FFF6 - 2;
/// A boot sector's first 512 bytes, and those of a file system information sector, end so.
pub(crate) const SIGNATURE: [u8; 2] = [0x55, 0xAA];
/// What ends the file system information sector.
pub(crate) const INFO_END: [u8; 4] = [0, 0, 0x55, 0xAA];
/// The value of "not known" in the file system information.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Attribute bits of a directory slot.
pub(crate) mod attr {
    pub const READ_ONLY: u8 = 0x01;
    pub const VOLUME: u8 = 0x08;
    pub const DIRECTORY: u8 = 0x10;
    pub const ARCHIVE: u8 = 0x20;
    /// All four of read-only, hidden, system and volume: part of a long name.
    pub const LONG_NAME: u8 = 0x0F;
}

/// Bits of a table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bits {
    /// 12 bits; two entries share three bytes.
    Fat12,
    /// Table entries of 16 bits.
    Fat16,
    /// 32 bits, of which 28 count.
    Fat32,
}

impl Bits {
    /// Returns the number of bits.
    pub fn count(self) -> u32 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }
}

/// Where everything lies on a volume. Sectors are the volume's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bits of a table entry.
    pub bits: Bits,
    /// Bytes of a sector: 512 to 4096, a power of two.
    pub sector: u32,
    /// Sectors of a cluster: 1 to 128, a power of two.
    pub cluster_sectors: u32,
    /// First sector of the first table; what lies before is reserved.
    pub fat_start: u32,
    /// Copies of the table.
    pub fats: u32,
    /// Sectors of one table.
    pub fat_sectors: u32,
    /// The only copy that is used, where they are not kept alike.
    pub active: Option<u32>,
    /// First sector of the root directory of FAT12 and FAT16.
    pub root_start: u32,
    /// Slots of the root directory of FAT12 and FAT16; 0 on FAT32.
    pub root_slots: u32,
    /// First cluster of the root directory of FAT32; otherwise 0.
    pub root_cluster: u32,
    /// Sector of cluster 2.
    pub data_start: u32,
    /// Clusters; the last is this number plus one.
    pub clusters: u32,
    /// Sectors of the volume.
    pub sectors: u32,
    /// Sector of the file system information.
    pub info: Option<u32>,
    /// Sector of the copy of the boot sector.
    pub backup: Option<u32>,
    /// The serial number of the volume.
    pub volume_id: u32,
    /// What the first byte of a table must be.
    pub media: u8,
}

fn bad(
    offset: u16,
    field: &'static str,
    found: impl Into<u64>,
    expected: &'static str,
) -> FatError {
    FatError::Boot {
        offset,
        field,
        found: found.into(),
        expected,
    }
}

/// The bytes that a volume takes by its own boot sector, with which `head`, the first 512 bytes of
/// the device or more, begins; none where that is not understood.
pub fn declared_bytes(head: &[u8]) -> Option<u64> {
    let layout = Layout::parse(head.get(..512)?).ok()?;
    Some(u64::from(layout.sectors) * u64::from(layout.sector))
}

impl Layout {
    /// Reads a boot sector of at least 512 bytes.
    pub fn parse(boot: &[u8]) -> Result<Self, FatError> {
        let sector = u32::from(le16(boot, 11));
        let cluster_sectors = u32::from(boot[13]);
        let reserved = u32::from(le16(boot, 14));
        let fats = u32::from(boot[16]);
        let root_slots = u32::from(le16(boot, 17));
        let media = boot[21];
        let short_fat = u32::from(le16(boot, 22));
        let long_fat = le32(boot, 36);
        if !(512..=4096).contains(&sector) || !sector.is_power_of_two() {
            return Err(bad(
                11,
                "bytes per sector",
                sector,
                "512, 1024, 2048 or 4096",
            ));
        }
        if !cluster_sectors.is_power_of_two() {
            return Err(bad(
                13,
                "sectors per cluster",
                cluster_sectors,
                "a power of two",
            ));
        }
        if reserved == 0 {
            return Err(bad(14, "reserved sectors", reserved, "at least 1"));
        }
        if fats == 0 {
            return Err(bad(16, "number of tables", fats, "at least 1"));
        }
        if media != 0xF0 && media < 0xF8 {
            return Err(bad(21, "media", media, "0xf0 or 0xf8 to 0xff"));
        }
        let wide = short_fat == 0;
        let fat_sectors = if wide { long_fat } else { short_fat };
        if fat_sectors == 0 {
            return Err(bad(36, "sectors per table", fat_sectors, "at least 1"));
        }
        let mut layout = Self {
            bits: if wide { Bits::Fat32 } else { Bits::Fat16 },
            sector,
            cluster_sectors,
            fat_start: reserved,
            fats,
            fat_sectors,
            active: None,
            root_start: 0,
            root_slots,
            root_cluster: 0,
            data_start: 0,
            clusters: 0,
            sectors: match le16(boot, 19) {
                0 => le32(boot, 32),
                short => u32::from(short),
            },
            info: None,
            backup: None,
            volume_id: le32(boot, if wide { 67 } else { 39 }),
            media,
        };
        // Linux takes the data of FAT32 to begin behind such a directory, others do not.
        if wide && root_slots != 0 {
            let expected = "0: the root directory of FAT32 has clusters";
            return Err(bad(17, "root directory entries", root_slots, expected));
        }
        layout.measure()?;
        if wide {
            layout.widen(boot)?
        }
        Ok(layout)
    }

    /// Finds what follows from the lengths of the parts.
    fn measure(&mut self) -> Result<(), FatError> {
        let slots = self.sector / SLOT as u32;
        let rooted = self.bits == Bits::Fat32 || self.root_slots > 0;
        if !rooted || !self.root_slots.is_multiple_of(slots) {
            return Err(bad(
                17,
                "root directory entries",
                self.root_slots,
                "whole sectors, at least one",
            ));
        }
        let root_start =
            u64::from(self.fat_start) + u64::from(self.fats) * u64::from(self.fat_sectors);
        let data_start = root_start + u64::from(self.root_slots / slots);
        let data = u64::from(self.sectors)
            .checked_sub(data_start)
            .filter(|data| *data >= u64::from(self.cluster_sectors));
        let Some(data) = data else {
            return Err(bad(
                19,
                "sectors",
                self.sectors,
                "space for the tables and a cluster",
            ));
        };
        // What lies before the data is no longer than the volume, which fits 32 bits.
        (self.root_start, self.data_start) = (root_start as u32, data_start as u32);
        let clusters = (data / u64::from(self.cluster_sectors)) as u32;
        if self.bits != Bits::Fat32 {
            self.bits = if clusters <= FAT12_MAX {
                Bits::Fat12
            } else {
                Bits::Fat16
            };
        }
        let entries =
            u64::from(self.fat_sectors) * u64::from(self.sector) * 8 / u64::from(self.bits.count());
        let most = match self.bits {
            Bits::Fat32 => FAT32_MAX,
            _ => FAT16_MAX,
        };
        self.clusters = clusters.min(entries.saturating_sub(2).min(u64::from(u32::MAX)) as u32);
        if self.clusters == 0 || self.clusters > most {
            return Err(bad(
                19,
                "clusters",
                self.clusters,
                "1 to 65524, on FAT32 to 268435444",
            ));
        }
        Ok(())
    }

    /// The fields that only FAT32 has.
    fn widen(&mut self, boot: &[u8]) -> Result<(), FatError> {
        let flags = le16(boot, 40);
        let version = le16(boot, 42);
        if version != 0 {
            return Err(bad(42, "version", version, "0"));
        }
        self.take_active(flags)?;
        self.root_cluster = le32(boot, 44);
        if !self.is_cluster(self.root_cluster) {
            return Err(bad(44, "root cluster", self.root_cluster, "a cluster"));
        }
        let reserved = |at| {
            Some(u32::from(le16(boot, at))).filter(|sector| (1..self.fat_start).contains(sector))
        };
        (self.info, self.backup) = (reserved(48), reserved(50));
        Ok(())
    }

    /// Takes the one table that is in use, if the others are not mirrored.
    fn take_active(&mut self, flags: u16) -> Result<(), FatError> {
        if flags & 0x80 != 0 {
            let active = u32::from(flags & 0x0F);
            if active >= self.fats {
                return Err(bad(40, "active table", active, "one of the tables"));
            }
            self.active = Some(active);
        }
        Ok(())
    }

    /// Whether it is a number that a cluster has.
    pub fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= 2 && cluster - 2 < self.clusters
    }

    /// The first sector of a cluster.
    pub fn cluster_sector(&self, cluster: u32) -> u32 {
        self.data_start + (cluster - 2) * self.cluster_sectors
    }

    /// The cluster that a sector lies in, if it lies in one.
    pub fn sector_cluster(&self, sector: u32) -> Option<u32> {
        let cluster = sector.checked_sub(self.data_start)? / self.cluster_sectors + 2;
        self.is_cluster(cluster).then_some(cluster)
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> u32 {
        self.sector * self.cluster_sectors
    }

    /// Where in the boot sector the mark "in use" is: bit 0 of that byte.
    pub(crate) fn state_offset(&self) -> usize {
        if self.bits == Bits::Fat32 { 65 } else { 37 }
    }
}

/// What the file system information sector of FAT32 says; hints only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Free clusters, or [`UNKNOWN`].
    pub free: u32,
    /// The cluster that was allocated last, or [`UNKNOWN`].
    pub last: u32,
}

impl Info {
    /// None where the sector is something else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let known =
            bytes[..4] == *b"RRaA" && bytes[484..488] == *b"rrAa" && bytes[508..512] == INFO_END;
        known.then(|| Self {
            free: le32(bytes, 488),
            last: le32(bytes, 492),
        })
    }

    pub fn put(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(b"RRaA");
        bytes[484..488].copy_from_slice(b"rrAa");
        put32(bytes, 488, self.free);
        put32(bytes, 492, self.last);
        bytes[508..512].copy_from_slice(&INFO_END);
    }
}

/// A directory slot that is no part of a long name.
pub(crate) type Slot = [u8; SLOT];

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// Nothing, and nothing after it either.
    End,
    /// The slot of a removed entry.
    Deleted,
    /// Part of a long name.
    LongName,
    /// The slot of the volume label.
    Label,
    /// The entry `.` or the entry `..`.
    Dot,
    /// A file or directory.
    Entry,
}

pub(crate) fn slot_kind(slot: &Slot) -> SlotKind {
    match (slot[0], slot[11]) {
        (0, _) => SlotKind::End,
        (0xE5, _) => SlotKind::Deleted,
        (_, mode) if mode & 0x3F == attr::LONG_NAME => SlotKind::LongName,
        (_, mode) if mode & attr::VOLUME != 0 => SlotKind::Label,
        (b'.', _)
            if slot[1..11].iter().all(|b| *b == b' ')
                || slot[1] == b'.' && slot[2..11].iter().all(|b| *b == b' ') =>
        {
            SlotKind::Dot
        }
        _ => SlotKind::Entry,
    }
}

/// The first cluster that a slot names; 0 for none.
pub(crate) fn slot_start(slot: &Slot, bits: Bits) -> u32 {
    let high = if bits == Bits::Fat32 {
        u32::from(le16(slot, 20)) << 16
    } else {
        0
    };
    high | u32::from(le16(slot, 26))
}

pub(crate) fn put_slot_start(slot: &mut [u8], bits: Bits, start: u32) {
    if bits == Bits::Fat32 {
        put16(slot, 20, (start >> 16) as u16);
    }
    put16(slot, 26, start as u16);
}

pub(crate) fn slot_size(slot: &Slot) -> u32 {
    le32(slot, 28)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec, vec::Vec};

    fn boot() -> Vec<u8> {
        let mut boot = vec![0; 512];
        put16(&mut boot, 11, 512);
        (boot[13], boot[16], boot[21]) = (4, 2, 0xF8);
        put16(&mut boot, 14, 1);
        put16(&mut boot, 17, 512);
        put32(&mut boot, 32, 65_536);
        put16(&mut boot, 22, 64);
        boot
    }

    #[test]
    fn the_parts_of_a_32_mib_volume_lie_where_the_arithmetic_says() {
        let layout = Layout::parse(&boot()).unwrap();
        let found = (
            layout.bits,
            layout.fat_start,
            layout.root_start,
            layout.data_start,
            layout.clusters,
        );
        assert_eq!(found, (Bits::Fat16, 1, 129, 161, 16_343));
        assert_eq!(
            (
                layout.cluster_sector(3),
                layout.sector_cluster(168),
                layout.sector_cluster(160)
            ),
            (165, Some(3), None)
        );
    }

    #[test]
    fn a_volume_has_at_most_as_many_clusters_as_its_entries_can_name() {
        let with = |clusters: u32| {
            let mut boot = vec![0; 512];
            put16(&mut boot, 11, 512);
            (boot[13], boot[16], boot[21]) = (1, 1, 0xF8);
            put16(&mut boot, 14, 32);
            let table = (clusters + 2).div_ceil(128);
            put32(&mut boot, 36, table);
            put32(&mut boot, 32, 32 + table + clusters);
            put32(&mut boot, 44, 2);
            Layout::parse(&boot).map(|layout| layout.clusters)
        };
        assert_eq!(with(0x0FFF_FFF4).unwrap(), 0x0FFF_FFF4);
        let text = with(0x0FFF_FFF5).unwrap_err().to_string();
        assert!(text.contains("clusters is 268435445"), "{text}");
    }

    #[test]
    fn a_field_that_makes_no_sense_is_named_with_its_place() {
        let mut wrong = boot();
        wrong[13] = 3;
        let text = Layout::parse(&wrong).unwrap_err().to_string();
        assert_eq!(
            text,
            "boot sector, byte 13: sectors per cluster is 3, expected a power of two"
        );
    }

    /// A FAT32 volume of 70,000 clusters with a sector each.
    fn wide() -> Vec<u8> {
        let mut boot = vec![0; 512];
        put16(&mut boot, 11, 512);
        (boot[13], boot[16], boot[21]) = (1, 2, 0xF8);
        put16(&mut boot, 14, 32);
        put32(&mut boot, 36, 547);
        put32(&mut boot, 32, 32 + 2 * 547 + 70_000);
        put32(&mut boot, 44, 2);
        boot
    }

    /// The field that the parser refuses with a number of one to four bytes at a place.
    fn refused(boot: &[u8], at: usize, len: usize, value: u32) -> Option<&'static str> {
        let mut boot = boot.to_vec();
        boot[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        match Layout::parse(&boot) {
            Ok(_) => None,
            Err(FatError::Boot { field, .. }) => Some(field),
            Err(error) => panic!("{error}"),
        }
    }

    /// Offset, bytes, values within the rule, values beyond, the field.
    type Rule = (usize, usize, &'static [u32], &'static [u32], &'static str);

    #[rustfmt::skip]
    const RULES: &[Rule] = &[
        (11, 2, &[512, 1024, 4096], &[0, 256, 1000, 8192], "bytes per sector"),
        (13, 1, &[1, 128], &[0, 3], "sectors per cluster"),
        (14, 2, &[1, 2], &[0], "reserved sectors"),
        (16, 1, &[1, 255], &[0], "number of tables"),
        (17, 2, &[16, 512], &[0, 15, 17], "root directory entries"),
        (21, 1, &[0xF0, 0xF8, 0xFF], &[0, 0xEF, 0xF1, 0xF7], "media"),
        (22, 2, &[1], &[0], "sectors per table"),
        (32, 4, &[165], &[0, 161, 164], "sectors"),
    ];

    #[rustfmt::skip]
    const WIDE_RULES: &[Rule] = &[
        (17, 2, &[0], &[16], "root directory entries"),
        (40, 2, &[0, 0x01, 0x80, 0x81], &[0x82, 0x8F], "active table"),
        (42, 2, &[0], &[1], "version"),
        (44, 4, &[2, 70_001], &[0, 1, 70_002], "root cluster"),
    ];

    #[test]
    fn each_rule_of_a_boot_sector_holds_from_its_bound_on() {
        for (boot, rules) in [(boot(), RULES), (wide(), WIDE_RULES)] {
            for &(at, len, within, beyond, field) in rules {
                for value in within {
                    let found = refused(&boot, at, len, *value);
                    assert_eq!(found, None, "byte {at}: {value}");
                }
                for value in beyond {
                    let found = refused(&boot, at, len, *value);
                    assert_eq!(found, Some(field), "byte {at}: {value}");
                }
            }
        }
    }

    #[test]
    fn the_fields_of_fat32_say_where_its_parts_lie() {
        let mut boot = wide();
        put16(&mut boot, 40, 0x81);
        put16(&mut boot, 48, 31);
        put16(&mut boot, 50, 32);
        put32(&mut boot, 67, 0x1234_5678);
        let layout = Layout::parse(&boot).unwrap();
        assert_eq!((layout.active, layout.volume_id), (Some(1), 0x1234_5678));
        // Sector 32 is the first of a table.
        assert_eq!((layout.info, layout.backup), (Some(31), None));
        assert_eq!((layout.data_start, layout.clusters), (1126, 70_000));
        assert_eq!((layout.cluster_bytes(), layout.state_offset()), (512, 65));
        let is = [1, 2, 70_001, 70_002].map(|cluster| layout.is_cluster(cluster));
        assert_eq!(is, [false, true, true, false]);
        let found = [1125, 1126, 71_125, 71_126].map(|sector| layout.sector_cluster(sector));
        assert_eq!(found, [None, Some(2), Some(70_001), None]);
    }

    #[test]
    fn clusters_make_the_width_of_an_entry_and_entries_bound_the_clusters() {
        let bits = |clusters: u32| {
            let mut boot = boot();
            boot[13] = 1;
            put16(&mut boot, 22, 256);
            put32(&mut boot, 32, 1 + 2 * 256 + 32 + clusters);
            Layout::parse(&boot).map(|layout| (layout.bits, layout.clusters))
        };
        assert_eq!(bits(4084).unwrap(), (Bits::Fat12, 4084));
        assert_eq!(bits(4085).unwrap(), (Bits::Fat16, 4085));
        assert_eq!(bits(65_524).unwrap(), (Bits::Fat16, 65_524));
        assert!(bits(65_525).is_err());
        // A sector of entries: 341 of 12 bits, of which the first two have no cluster.
        let mut small = boot();
        put16(&mut small, 22, 1);
        put32(&mut small, 32, 4 * 4000);
        let layout = Layout::parse(&small).unwrap();
        assert_eq!((layout.bits, layout.clusters), (Bits::Fat12, 339));
    }

    #[test]
    fn a_slot_is_what_its_first_byte_and_its_mode_say() {
        let kind = |name: &[u8; 11], mode: u8| {
            let mut slot = [0; SLOT];
            slot[..11].copy_from_slice(name);
            slot[11] = mode;
            slot_kind(&slot)
        };
        let name = b"NAME    TXT";
        assert_eq!(kind(b"\0AME    TXT", 0x20), SlotKind::End);
        assert_eq!(kind(b"\xE5AME    TXT", 0x20), SlotKind::Deleted);
        assert_eq!(kind(name, 0x0F), SlotKind::LongName);
        assert_eq!(kind(name, 0xCF), SlotKind::LongName);
        assert_eq!(kind(name, 0x08), SlotKind::Label);
        assert_eq!(kind(name, 0x1F), SlotKind::Label);
        assert_eq!(kind(name, 0x20), SlotKind::Entry);
        assert_eq!(kind(b".          ", 0x10), SlotKind::Dot);
        assert_eq!(kind(b"..         ", 0x10), SlotKind::Dot);
        for other in [
            b"..X        ",
            b".X         ",
            b"...        ",
            b".         X",
        ] {
            assert_eq!(kind(other, 0x10), SlotKind::Entry);
        }
        let mut slot = [0xFF; SLOT];
        put_slot_start(&mut slot, Bits::Fat32, 0x0123_4567);
        assert_eq!(slot_start(&slot, Bits::Fat32), 0x0123_4567);
        assert_eq!(slot_start(&slot, Bits::Fat16), 0x4567);
        put_slot_start(&mut slot, Bits::Fat16, 0x89AB);
        assert_eq!(slot_start(&slot, Bits::Fat32), 0x0123_89AB);
    }

    #[test]
    fn no_boot_sector_makes_arithmetic_overflow() {
        let extremes = [0u32, 1, 2, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, u32::MAX];
        for (a, b) in extremes
            .iter()
            .flat_map(|a| extremes.iter().map(move |b| (*a, *b)))
        {
            let mut wild = boot();
            put16(&mut wild, 22, 0);
            put32(&mut wild, 32, a);
            put32(&mut wild, 36, b);
            put16(&mut wild, 14, (a | 1) as u16);
            put32(&mut wild, 44, b);
            wild[16] = 255;
            if let Ok(layout) = Layout::parse(&wild) {
                assert!(
                    layout.cluster_sector(layout.clusters + 1) < layout.sectors,
                    "{layout:?}"
                );
            }
        }
    }
}
