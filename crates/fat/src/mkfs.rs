//! Makes an empty volume, with the choices of mkfs.vfat 4.2 wherever none is given.
//!
//! *Promises.* The same geometry, boot sector fields, tables and hints as mkfs.vfat for an image
//! file. There is no boot code, and the number of root entries always fills whole sectors (Linux
//! mounts no other). *Needs* a device whose sectors divide the volume's.

use crate::{
    format::{
        Bits, FAT12_MAX, FAT16_MAX, FAT32_MAX, Info, Layout, SIGNATURE, SLOT, attr, put16, put32,
    },
    table::{end, first_entry},
    time,
};
use alloc::{vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_vfs::{Time, with_defaults};

/// Volumes of FAT16 have at least so many clusters: Windows takes those with 4085 and 4086 for
/// FAT12.
const FAT16_MIN: u64 = 4087;
const FAT32_MIN: u64 = 65_525;
const MIB: u64 = 1 << 20;

with_defaults! {
    /// What is to be made; what is none is chosen by the size.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Format {
        /// Bits of a table entry: FAT32 from 512 MiB on, otherwise what gives more clusters.
        pub bits: Option<Bits> = None,
        /// Bytes of a sector: 512, 1024, 2048 or 4096.
        pub sector: u32 = 512,
        /// Sectors of a cluster: 4 or more, on FAT32 by size.
        pub cluster_sectors: Option<u32> = None,
        /// Reserved sectors: 1, on FAT32 32.
        pub reserved: Option<u32> = None,
        /// Copies of the table.
        pub fats: u32 = 2,
        /// Entries of the root directory of FAT12 and FAT16: 512, on a floppy 112 or 224.
        pub root_entries: Option<u32> = None,
        /// The media byte: 0xf8, on a floppy its own.
        pub media: Option<u8> = None,
        /// The serial number of the volume.
        pub volume_id: u32 = 0x1234_5678,
        /// The volume's name, up to 11 characters of upper-case ASCII.
        pub label: Option<Vec<u8>> = None,
        /// Sectors before the volume on its disk.
        pub hidden_sectors: u32 = 0,
        /// Whether tables and clusters begin at multiples of the cluster's length, and the volume
        /// ends at one of the track's.
        pub align: bool = true,
        /// When the label is made.
        pub now: Time = Time::new(315_532_800),
    }
}

/// Why no volume was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A choice makes no sense.
    #[error("{field} is {found}, expected {expected}")]
    Choice {
        /// The setting that was chosen.
        field: &'static str,
        /// The value that was given.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// There is no volume of this size with these choices.
    #[error(
        "no FAT volume of {sectors} sectors has {found} clusters of {cluster_sectors} sectors with these choices"
    )]
    Size {
        /// Sectors of the device.
        sectors: u64,
        /// Clusters that it would have.
        found: u64,
        /// Sectors of a cluster.
        cluster_sectors: u32,
    },
}

/// What follows from the size alone.
struct Defaults {
    track: u32,
    heads: u32,
    media: u8,
    cluster_sectors: u32,
    root_entries: u32,
}

fn defaults(bytes: u64, sector: u32) -> Defaults {
    let sectors = bytes / u64::from(sector);
    let (track, heads) = match sectors {
        0..=4096 => (16, 2),
        4097..=32_768 => (32, 2),
        32_769..=65_536 => (32, 4),
        65_537..=262_144 => (32, 8),
        262_145..=524_288 => (32, 16),
        524_289..=1_032_192 => (63, 16),
        1_032_193..=2_064_384 => (63, 32),
        2_064_385..=4_128_768 => (63, 64),
        4_128_769..=8_257_536 => (63, 128),
        _ => (63, 255),
    };
    let floppy = |track, media, cluster_sectors, root_entries| Defaults {
        track,
        heads: 2,
        media,
        cluster_sectors,
        root_entries,
    };
    match bytes / 1024 {
        360 => floppy(9, 0xFD, 2, 112),
        720 => floppy(9, 0xF9, 2, 112),
        1200 => floppy(15, 0xF9, 1, 224),
        1440 => floppy(18, 0xF0, 1, 224),
        2880 => floppy(36, 0xF0, 2, 224),
        _ => Defaults {
            track,
            heads,
            media: 0xF8,
            cluster_sectors: 4,
            root_entries: 512,
        },
    }
}

/// FAT32's clusters by the number of sectors, as Microsoft's format has them.
fn wide_cluster(sectors: u64) -> u32 {
    let mib = 2048;
    match sectors {
        _ if sectors > 32 * 1024 * mib => 64,
        _ if sectors > 16 * 1024 * mib => 32,
        _ if sectors > 8 * 1024 * mib => 16,
        _ if sectors > 260 * mib => 8,
        _ => 1,
    }
}

/// One division of the sectors into tables and clusters.
#[derive(Clone, Copy)]
struct Division {
    bits: Bits,
    clusters: u64,
    fat_sectors: u64,
}

/// The sectors to be divided.
struct Plan {
    sectors: u64,
    sector: u64,
    reserved: u64,
    root_sectors: u64,
    fats: u64,
    align: bool,
}

impl Plan {
    fn align(&self, sectors: u64, cluster: u64) -> u64 {
        if self.align {
            sectors.next_multiple_of(cluster)
        } else {
            sectors
        }
    }

    /// The division for these bits and this cluster, if the format allows it.
    fn divide(&self, bits: Bits, cluster: u64, forced: bool) -> Result<Division, u64> {
        let root = if bits == Bits::Fat32 {
            0
        } else {
            self.align(self.root_sectors, cluster)
        };
        let data = self
            .sectors
            .saturating_sub(self.align(self.reserved, cluster) + root);
        let cluster_bytes = cluster * self.sector;
        let bits_count = u64::from(bits.count());
        // The two entries that name no cluster take space too.
        let reserved = self.fats * 2 * bits_count;
        let most =
            (data * self.sector * 8 + reserved) / (cluster_bytes * 8 + self.fats * bits_count);
        let fat_sectors = self.align(
            ((most + 2) * bits_count).div_ceil(8).div_ceil(self.sector),
            cluster,
        );
        let clusters = data.saturating_sub(self.fats * fat_sectors) / cluster;
        let (least, limit) = match bits {
            Bits::Fat12 => (1, u64::from(FAT12_MAX)),
            Bits::Fat16 => (FAT16_MIN, u64::from(FAT16_MAX)),
            Bits::Fat32 => (if forced { 1 } else { FAT32_MIN }, u64::from(FAT32_MAX)),
        };
        let held = (fat_sectors * self.sector * 8 / bits_count).saturating_sub(2);
        if (least..=limit.min(held)).contains(&clusters) {
            Ok(Division {
                bits,
                clusters,
                fat_sectors,
            })
        } else {
            Err(clusters)
        }
    }

    /// The best division, with clusters as small as can be.
    fn choose(
        &self,
        bits: Option<Bits>,
        mut cluster: u32,
        fixed: bool,
    ) -> Result<(Division, u32), FormatError> {
        let candidates = match bits {
            Some(bits) => vec![bits],
            None => vec![Bits::Fat12, Bits::Fat16],
        };
        loop {
            let divisions: Vec<_> = candidates
                .iter()
                .map(|one| self.divide(*one, u64::from(cluster), bits.is_some()))
                .collect();
            if let Some(best) = divisions
                .iter()
                .flatten()
                .reduce(|a, b| if b.clusters > a.clusters { b } else { a })
            {
                return Ok((*best, cluster));
            }
            if fixed || cluster >= 128 {
                let found = divisions
                    .into_iter()
                    .filter_map(Result::err)
                    .max()
                    .unwrap_or(0);
                return Err(FormatError::Size {
                    sectors: self.sectors,
                    found,
                    cluster_sectors: cluster,
                });
            }
            cluster *= 2;
        }
    }
}

fn check(format: &Format) -> Result<(), FormatError> {
    let rule = |field, found: u64, holds: bool, expected| {
        if holds {
            Ok(())
        } else {
            Err(FormatError::Choice {
                field,
                found,
                expected,
            })
        }
    };
    let sector = u64::from(format.sector);
    rule(
        "bytes per sector",
        sector,
        matches!(sector, 512 | 1024 | 2048 | 4096),
        "512, 1024, 2048 or 4096",
    )?;
    rule(
        "number of tables",
        u64::from(format.fats),
        (1..=4).contains(&format.fats),
        "1 to 4",
    )?;
    if let Some(sectors) = format.cluster_sectors {
        rule(
            "sectors per cluster",
            u64::from(sectors),
            sectors.is_power_of_two() && sectors <= 128,
            "a power of two up to 128",
        )?;
    }
    if let Some(reserved) = format.reserved {
        let least = if format.bits == Some(Bits::Fat32) {
            2
        } else {
            1
        };
        rule(
            "reserved sectors",
            u64::from(reserved),
            (least..65_000).contains(&reserved),
            "1 (FAT32: 2) to 65000",
        )?;
    }
    if let Some(entries) = format.root_entries {
        rule(
            "root directory entries",
            u64::from(entries),
            (1..=32_768).contains(&entries),
            "1 to 32768",
        )?;
    }
    if let Some(media) = format.media {
        rule(
            "media",
            u64::from(media),
            media == 0xF0 || media >= 0xF8,
            "0xf0 or 0xf8 to 0xff",
        )?;
    }
    let label = format.label.as_deref().unwrap_or(b"X");
    let plain = |byte: &u8| {
        matches!(byte, b' '..=b'~')
            && !byte.is_ascii_lowercase()
            && !br#"*?.,;:/\|+=<>[]""#.contains(byte)
    };
    let good = (1..=11).contains(&label.len()) && label.iter().all(plain) && label[0] != b' ';
    rule(
        "length of the label",
        label.len() as u64,
        good,
        "1 to 11 characters of upper-case ASCII that names may have",
    )
}

/// Makes an empty volume on the whole device. Every sector before the data, and the root directory,
/// is written; the rest is not touched.
pub fn format<D: BlockDevice>(device: &mut D, format: &Format) -> Result<Layout, FormatError> {
    check(format)?;
    let bytes = device.geometry().bytes();
    let unit = device.geometry().sector;
    if !format.sector.is_multiple_of(unit) {
        return Err(FormatError::Choice {
            field: "bytes per sector",
            found: u64::from(format.sector),
            expected: "a multiple of the device's",
        });
    }
    let boot = boot_sector(bytes, format)?;
    let size = bytes / u64::from(format.sector);
    // What was just made of valid choices is valid.
    let layout = Layout::parse(&boot).map_err(|_| FormatError::Size {
        sectors: size,
        found: 0,
        cluster_sectors: u32::from(boot[13]),
    })?;
    write_volume(device, &layout, &boot, format)?;
    Ok(layout)
}

fn boot_sector(bytes: u64, format: &Format) -> Result<Vec<u8>, FormatError> {
    let sector = u64::from(format.sector);
    let default = defaults(bytes, format.sector);
    let bits = format.bits.or((bytes >= 512 * MIB).then_some(Bits::Fat32));
    let wide = bits == Some(Bits::Fat32);
    let cluster = format.cluster_sectors.unwrap_or(if wide {
        wide_cluster(bytes / sector)
    } else {
        default.cluster_sectors
    });
    let mut sectors = (bytes / sector).min(u64::from(u32::MAX));
    if format.align {
        sectors = sectors / u64::from(default.track) * u64::from(default.track);
    }
    let plan = Plan {
        sectors,
        sector,
        reserved: u64::from(format.reserved.unwrap_or(if wide { 32 } else { 1 })),
        root_sectors: (u64::from(format.root_entries.unwrap_or(default.root_entries))
            * SLOT as u64)
            .div_ceil(sector),
        fats: u64::from(format.fats),
        // A floppy has no space to lose.
        align: format.align && sectors > 8192,
    };
    let (division, cluster) = plan.choose(bits, cluster, format.cluster_sectors.is_some())?;
    Ok(fields(&plan, division, cluster, &default, format))
}

fn fields(
    plan: &Plan,
    division: Division,
    cluster: u32,
    default: &Defaults,
    format: &Format,
) -> Vec<u8> {
    let wide = division.bits == Bits::Fat32;
    let sectors = plan.sectors as u32;
    let reserved = plan.align(plan.reserved, u64::from(cluster)) as u16;
    let root_sectors = plan.align(plan.root_sectors, u64::from(cluster));
    let media = format.media.unwrap_or(default.media);
    let mut boot = vec![0; format.sector as usize];
    boot[..3].copy_from_slice(&[0xEB, if wide { 0x58 } else { 0x3C }, 0x90]);
    boot[3..11].copy_from_slice(b"NANDLAB ");
    put16(&mut boot, 11, format.sector as u16);
    (boot[13], boot[16], boot[21]) = (cluster as u8, format.fats as u8, media);
    put16(&mut boot, 14, reserved);
    put16(
        &mut boot,
        17,
        if wide {
            0
        } else {
            (root_sectors * plan.sector / SLOT as u64) as u16
        },
    );
    match u16::try_from(sectors) {
        Ok(short) => put16(&mut boot, 19, short),
        Err(_) => put32(&mut boot, 32, sectors),
    }
    put16(&mut boot, 24, default.track as u16);
    put16(&mut boot, 26, default.heads as u16);
    put32(&mut boot, 28, format.hidden_sectors);
    let at = if wide { 64 } else { 36 };
    if wide {
        put32(&mut boot, 36, division.fat_sectors as u32);
        put32(&mut boot, 44, 2);
        put16(&mut boot, 48, 1);
        let backup = match reserved {
            7.. => 6,
            3.. => reserved - 1,
            _ => 0,
        };
        put16(&mut boot, 50, backup);
    } else {
        put16(&mut boot, 22, division.fat_sectors as u16);
    }
    boot[at] = if media == 0xF8 { 0x80 } else { 0 };
    boot[at + 2] = 0x29;
    put32(&mut boot, at + 3, format.volume_id);
    boot[at + 7..at + 18].copy_from_slice(&padded(format.label.as_deref().unwrap_or(b"NO NAME")));
    boot[at + 18..at + 26].copy_from_slice(match division.bits {
        Bits::Fat12 => b"FAT12   ",
        Bits::Fat16 => b"FAT16   ",
        Bits::Fat32 => b"FAT32   ",
    });
    boot[510..512].copy_from_slice(&SIGNATURE);
    boot
}

fn padded(label: &[u8]) -> [u8; 11] {
    core::array::from_fn(|at| label.get(at).copied().unwrap_or(b' '))
}

fn write_volume<D: BlockDevice>(
    device: &mut D,
    layout: &Layout,
    boot: &[u8],
    format: &Format,
) -> Result<(), FormatError> {
    let size = layout.sector as usize;
    let ratio = u64::from(layout.sector / device.geometry().sector);
    let root = if layout.root_cluster == 0 {
        0
    } else {
        layout.cluster_sectors
    };
    let end = layout.data_start + root;
    let special = special_sectors(layout, boot, format);
    let blank = vec![0; size];
    for sector in 0..end {
        let data = special
            .iter()
            .find(|(at, _)| *at == sector)
            .map_or(&blank, |(_, data)| data);
        device.write(Lba(u64::from(sector) * ratio), data)?;
    }
    Ok(device.flush()?)
}

/// The sectors that are not all zeros.
fn special_sectors(layout: &Layout, boot: &[u8], format: &Format) -> Vec<(u32, Vec<u8>)> {
    let size = layout.sector as usize;
    let mut special = vec![(0, boot.to_vec())];
    special.extend(layout.backup.map(|sector| (sector, boot.to_vec())));
    if let Some(sector) = layout.info {
        let mut info = vec![0; size];
        Info {
            free: layout.clusters - 1,
            last: 2,
        }
        .put(&mut info);
        special.extend(
            layout
                .backup
                .map(|backup| (backup + sector, info.clone()))
                .filter(|(at, _)| *at < layout.fat_start),
        );
        special.push((sector, info));
    }
    let mut table = vec![0; size];
    match layout.bits {
        Bits::Fat12 => table[..3].copy_from_slice(&[layout.media, 0xFF, 0xFF]),
        Bits::Fat16 => table[..4].copy_from_slice(&[layout.media, 0xFF, 0xFF, 0xFF]),
        Bits::Fat32 => {
            put32(&mut table, 0, first_entry(layout));
            put32(&mut table, 4, end(layout));
            put32(&mut table, 8, 0x0FFF_FFF8);
        }
    }
    special.extend(
        (0..layout.fats).map(|copy| (layout.fat_start + copy * layout.fat_sectors, table.clone())),
    );
    if let Some(label) = &format.label {
        let mut root = vec![0; size];
        let stamp = time::encode(format.now, 0);
        root[..11].copy_from_slice(&padded(label));
        root[11] = attr::VOLUME;
        for (at, value) in [
            (14, stamp.time),
            (16, stamp.date),
            (18, stamp.date),
            (22, stamp.time),
            (24, stamp.date),
        ] {
            put16(&mut root, at, value);
        }
        special.push((
            layout.data_start - layout.root_slots * SLOT as u32 / layout.sector,
            root,
        ));
    }
    special
}
