//! File systems and containers of disks that are not opened here.

use super::{Format, Known, Sign, View, date};
use crate::words::counted;
use crc::{CRC_32_ISCSI, Crc};

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(3, b"EXFAT   ")],
        look: exfat,
    },
    Format {
        signs: &[Sign::new(3, b"NTFS    ")],
        look: ntfs,
    },
    Format {
        signs: &[Sign::new(0, b"XFSB")],
        look: xfs,
    },
    Format {
        signs: &[Sign::new(0, b"LUKS\xBA\xBE")],
        look: luks,
    },
    Format {
        signs: &[Sign::new(1024, &[0xE2, 0xE1, 0xF5, 0xE0])],
        look: erofs,
    },
    Format {
        signs: &[Sign::new(0x1_0040, b"_BHRfS_M")],
        look: btrfs,
    },
    Format {
        signs: &[Sign::new(32_769, b"CD001\x01")],
        look: iso,
    },
    Format {
        signs: &[
            Sign::new(4096 - 10, b"SWAPSPACE2"),
            Sign::new(8192 - 10, b"SWAPSPACE2"),
            Sign::new(16_384 - 10, b"SWAPSPACE2"),
            Sign::new(65_536 - 10, b"SWAPSPACE2"),
        ],
        look: swap,
    },
    Format {
        signs: &[
            Sign::new(1024 + 16, &[0x7F, 0x13]),
            Sign::new(1024 + 16, &[0x8F, 0x13]),
            Sign::new(1024 + 16, &[0x68, 0x24]),
            Sign::new(1024 + 16, &[0x78, 0x24]),
            Sign::new(1024 + 24, &[0x5A, 0x4D]),
        ],
        look: minix,
    },
];

static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// CRC-32C of an extent, in which `hole` reads as zeros.
fn crc32c(view: &mut View<'_>, from: u64, len: u64, hole: Option<(u64, u64)>) -> Option<u32> {
    let mut digest = CRC32C.digest();
    let Some((at, gap)) = hole else {
        view.each(from, len, |part| digest.update(part))?;
        return Some(digest.finalize());
    };
    view.each(from, at, |part| digest.update(part))?;
    digest.update(&vec![0; gap as usize]);
    let after = len.checked_sub(at + gap)?;
    view.each(from + at + gap, after, |part| digest.update(part))?;
    Some(digest.finalize())
}

fn exfat(view: &mut View<'_>) -> Option<Known> {
    let sectors = view.le64(72)?;
    let shift = u32::from(view.byte(108)?);
    let cluster = u32::from(view.byte(109)?);
    let head = view.head();
    if head[11..64].iter().any(|byte| *byte != 0) || !(9..=12).contains(&shift) || cluster > 25 {
        return None;
    }
    let sector = 1u64 << shift;
    let expected = view.le32(11 * sector)?;
    let mut sum = 0u32;
    let mut at = 0u64;
    view.each(0, 11 * sector, |part| {
        for byte in part {
            // The flags and the share in use change without the sum.
            if !matches!(at, 106 | 107 | 112) {
                sum = sum.rotate_right(1).wrapping_add(u32::from(*byte));
            }
            at += 1;
        }
    })?;
    let serial = view.le32(100)?;
    Some(Known {
        name: "exFAT",
        len: sectors.checked_mul(sector),
        says: format!(
            "exFAT, serial number {serial:08x}, clusters of {} bytes",
            sector << cluster
        ),
        proven: sum == expected,
    })
}

fn ntfs(view: &mut View<'_>) -> Option<Known> {
    let sector = u64::from(view.le16(11)?);
    let sectors = view.le64(40)?;
    let serial = view.le64(72)?;
    let end = view.le16(510)?;
    if !sector.is_power_of_two() || !(256..=4096).contains(&sector) || end != 0xAA55 {
        return None;
    }
    Some(Known {
        name: "NTFS",
        // A copy of the boot sector follows.
        len: sectors.checked_add(1)?.checked_mul(sector),
        says: format!("NTFS, serial number {serial:016x}"),
        proven: false,
    })
}

fn xfs(view: &mut View<'_>) -> Option<Known> {
    let block = view.be32(4)?;
    let blocks = view.be64(8)?;
    let version = view.be16(100)? & 0xF;
    let sector = view.be16(102)?;
    let label = view.shown(108, 12)?;
    let is_block = block.is_power_of_two() && (512..=65_536).contains(&block);
    let is_sector = sector.is_power_of_two() && (512..=32_768).contains(&sector);
    if !is_block || !is_sector || !(1..=5).contains(&version) {
        return None;
    }
    let proven =
        version == 5 && crc32c(view, 0, sector.into(), Some((224, 4))) == Some(view.le32(224)?);
    Some(Known {
        name: "XFS",
        len: blocks.checked_mul(block.into()),
        says: format!("XFS version {version}, blocks of {block} bytes, label \"{label}\""),
        proven,
    })
}

fn luks(view: &mut View<'_>) -> Option<Known> {
    let says = match view.be16(6)? {
        1 => {
            let cipher = view.shown(8, 32)?;
            let mode = view.shown(40, 32)?;
            format!(
                "LUKS version 1, {cipher}-{mode}, UUID {}",
                view.shown(168, 40)?
            )
        }
        2 => format!(
            "LUKS version 2, label \"{}\", UUID {}",
            view.shown(24, 48)?,
            view.shown(168, 40)?
        ),
        _ => return None,
    };
    Some(Known {
        name: "LUKS",
        len: None,
        says,
        proven: false,
    })
}

fn erofs(view: &mut View<'_>) -> Option<Known> {
    let bits = view.byte(1024 + 12)?;
    if !(9..=16).contains(&bits) {
        return None;
    }
    let block = 1u64 << bits;
    let features = view.le32(1024 + 8)?;
    let inodes = view.le64(1024 + 16)?;
    let made = date(view.le64(1024 + 24)?);
    let blocks = u64::from(view.le32(1024 + 36)?);
    // To the end of the block in which the superblock begins, without the last inversion.
    let covered = block.checked_sub(1024).filter(|covered| *covered > 0);
    let found = covered.and_then(|len| crc32c(view, 1024, len, Some((4, 4))));
    let proven = features & 1 != 0 && found.map(|crc| !crc) == Some(view.le32(1024 + 4)?);
    let name = view.shown(1024 + 64, 16)?;
    Some(Known {
        name: "EROFS",
        len: blocks.checked_mul(block),
        says: format!(
            "EROFS \"{name}\", blocks of {block} bytes, {}, made {made}",
            counted(inodes, "inode")
        ),
        proven,
    })
}

fn btrfs(view: &mut View<'_>) -> Option<Known> {
    const AT: u64 = 0x1_0000;
    if view.le64(AT + 48)? != AT {
        return None;
    }
    let bytes = view.le64(AT + 112)?;
    let devices = view.le64(AT + 136)?;
    let label = view.shown(AT + 299, 256)?;
    let is_crc32c = view.le16(AT + 196)? == 0;
    let proven = is_crc32c && crc32c(view, AT + 32, 4096 - 32, None) == Some(view.le32(AT)?);
    Some(Known {
        name: "btrfs",
        // Of several devices this one is not known by the total.
        len: (devices == 1).then_some(bytes),
        says: format!("btrfs, label \"{label}\", {}", counted(devices, "device")),
        proven,
    })
}

fn iso(view: &mut View<'_>) -> Option<Known> {
    const AT: u64 = 32_768;
    let blocks = view.le32(AT + 80)?;
    let block = view.le16(AT + 128)?;
    let agrees = view.be32(AT + 84)? == blocks && view.be16(AT + 130)? == block;
    if !agrees || !block.is_power_of_two() || block < 512 {
        return None;
    }
    let name = view.shown(AT + 40, 32)?;
    Some(Known {
        name: "ISO 9660",
        len: Some(u64::from(blocks) * u64::from(block)),
        says: format!("ISO 9660, volume \"{name}\""),
        proven: false,
    })
}

fn swap(view: &mut View<'_>) -> Option<Known> {
    let pages = [4096u64, 8192, 16_384, 65_536];
    let page = pages.into_iter().find(|page| {
        let sign: Option<[u8; 10]> = view.get(*page - 10);
        sign.as_ref() == Some(b"SWAPSPACE2")
    })?;
    let little = view.le32(1024)? == 1;
    let last = if little {
        view.le32(1028)?
    } else {
        view.be32(1028)?
    };
    if !little && view.be32(1024)? != 1 || last == 0 {
        return None;
    }
    let label = view.shown(1052, 16)?;
    Some(Known {
        name: "swap",
        len: Some((u64::from(last) + 1) * page),
        says: format!("Linux swap, pages of {page} bytes, label \"{label}\""),
        proven: false,
    })
}

/// What a superblock of Minix says, whichever its version.
struct Minix {
    version: u8,
    inodes: u64,
    zones: u64,
    bitmaps: [u64; 2],
    first: u64,
    block: u64,
    inode: u64,
}

impl Minix {
    /// The magic number has two bytes only: all else must fit.
    fn is_plausible(&self) -> bool {
        let [of_inodes, of_zones] = self.bitmaps;
        let bits = self.block * 8;
        let tables = 2 + of_inodes + of_zones + (self.inodes * self.inode).div_ceil(self.block);
        self.inodes > 0
            && self.block.is_power_of_two()
            && (1024..=32_768).contains(&self.block)
            && of_inodes == (self.inodes + 1).div_ceil(bits)
            && of_zones >= self.zones.saturating_sub(self.first).div_ceil(bits)
            && of_zones <= self.zones.div_ceil(bits) + 1
            && self.first >= tables
            && self.first < self.zones
    }
}

fn minix(view: &mut View<'_>) -> Option<Known> {
    const AT: u64 = 1024;
    let (version, names) = match (view.le16(AT + 16)?, view.le16(AT + 24)?) {
        (0x137F, _) => (1, 14),
        (0x138F, _) => (1, 30),
        (0x2468, _) => (2, 14),
        (0x2478, _) => (2, 30),
        (_, 0x4D5A) => (3, 60),
        _ => return None,
    };
    let is_3 = version == 3;
    let shift = if is_3 { 2 } else { 0 };
    let found = Minix {
        version,
        inodes: if is_3 {
            view.le32(AT)?.into()
        } else {
            view.le16(AT)?.into()
        },
        zones: match version {
            1 => view.le16(AT + 2)?.into(),
            _ => view.le32(AT + 20)?.into(),
        },
        bitmaps: [
            view.le16(AT + 4 + shift)?.into(),
            view.le16(AT + 6 + shift)?.into(),
        ],
        first: view.le16(AT + 8 + shift)?.into(),
        block: if is_3 {
            view.le16(AT + 28)?.into()
        } else {
            1024
        },
        inode: if version == 1 { 32 } else { 64 },
    };
    let zone_shift = view.le16(AT + 10 + shift)?;
    (zone_shift == 0 && found.is_plausible()).then(|| Known {
        name: "Minix",
        len: Some(found.zones * found.block),
        says: format!(
            "Minix version {}, names of {names} bytes, {}",
            found.version,
            counted(found.inodes, "inode")
        ),
        proven: false,
    })
}
