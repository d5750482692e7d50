//! Making a volume: as mkfs.f2fs 1.15 makes it, byte by byte but for its name of the running kernel
//! (`mkfs/f2fs_format.c`).
//!
//! *Knows nothing of* what will be on the volume.

use crate::{
    F2fsError,
    dentry::{Entry, View},
    disk::{Block, Disk, zeros},
    format::{
        BLOCK, MAGIC, NAT_ENTRIES, NULL, SEGMENT, SIT_ENTRIES, footer, inode, log, put16, put32,
        put64, set_bit,
    },
    node::{put_time, touch},
    pack::{Checkpoint, LogState, flag},
    summary::{self, Journals, NatEntry, Owner, SitEntry},
    superblock::{BYTES, Layout, OFFSET, at},
};
use alloc::{string::String, vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{FileType, Time, with_defaults};

/// Bytes of a checkpoint block for bitmaps.
const BITMAPS: u32 = 4092 - 192;
const ROOT: u32 = 3;
/// Beginnings of name extensions whose files are written once: media, archives.
const COLD: [&str; 36] = [
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus",
    "flac", "gif", "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc",
    "ttc", "ttf", "exe", "apk", "cnt", "exo", "odex", "vdex", "so",
];
/// Of files that are rewritten often: databases, virtual disks.
const HOT: [&str; 4] = ["db", "vmdk", "vdi", "qcow2"];

with_defaults! {
    /// Choices for a new volume.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Format {
        /// Segments of a section, the unit of cleaning (`-s`).
        pub segs_per_sec: u32 = 1,
        /// Sections of a zone (`-z`).
        pub secs_per_zone: u32 = 1,
        /// Percent of the main area that is kept back; computed if none (`-o`).
        pub overprovision: Option<f64> = None,
        /// The volume's name, at most 511 characters (`-l`).
        pub label: String = String::new(),
        /// The volume's identity (`-U`).
        pub uuid: [u8; 16] = *b"nandlab\0f2fs\0vol",
        /// Number of the first checkpoint; mkfs.f2fs draws one. Should differ from those that the
        /// device has had.
        pub checkpoint: u64 = 1,
        /// What made the volume, at most 255 bytes.
        pub maker: String = "nandlab".into(),
        /// The root directory's times.
        pub now: Time = Time::new(0),
    }
}

/// Why no volume can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The device or its sectors.
    #[error(transparent)]
    Device(#[from] F2fsError),
    /// Too few segments for the tables, the logs and what is kept back.
    #[error("{segments} segments of 2 MiB, of which {main} for contents: too few")]
    Size {
        /// Segments that the device has.
        segments: u64,
        /// Those left for contents.
        main: u64,
    },
    /// A choice that cannot be.
    #[error("{field} is {found}, expected {expected}")]
    Choice {
        /// The name of the refused choice.
        field: &'static str,
        /// The value of that choice.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
}

/// Makes a volume of all of a device.
pub fn format<D: BlockDevice>(device: D, choices: &Format) -> Result<Layout, FormatError> {
    let mut disk = Disk::open(device)?;
    let plan = plan(disk.blocks(), choices)?;
    write(&mut disk, &plan, choices)?;
    Ok(plan.layout)
}

struct Plan {
    layout: Layout,
    reserved: u32,
    overprovision: u32,
    logs: [u32; log::COUNT],
}

fn plan(blocks: u64, choices: &Format) -> Result<Plan, FormatError> {
    let per_sec = choices.segs_per_sec;
    let per_zone = choices.segs_per_sec.saturating_mul(choices.secs_per_zone);
    for (field, found) in [
        ("segments of a section", per_sec),
        ("sections of a zone", choices.secs_per_zone),
    ] {
        if !(1..=1 << 14).contains(&found) {
            return Err(FormatError::Choice {
                field,
                found: found.into(),
                expected: "1 to 16384",
            });
        }
    }
    if choices.label.encode_utf16().count() > 511 || choices.maker.len() > 255 {
        return Err(FormatError::Choice {
            field: "length of a label",
            found: choices.label.len() as u64,
            expected: "at most 511",
        });
    }
    if choices
        .overprovision
        .is_some_and(|percent| !(0.01..100.0).contains(&percent))
    {
        return Err(FormatError::Choice {
            field: "overprovision",
            found: 0,
            expected: "0.01 to 99.99 percent",
        });
    }
    let zone_blocks = u64::from(per_zone) * u64::from(SEGMENT);
    let segment0 = 2u64.next_multiple_of(zone_blocks);
    let segments = blocks.saturating_sub(segment0) / u64::from(SEGMENT) / u64::from(per_zone)
        * u64::from(per_zone);
    let small = |main: u64| FormatError::Size { segments, main };
    if segments < 9 || segments > u64::from(u32::MAX / SEGMENT - per_zone) {
        return Err(small(0));
    }
    let total = segments as u32;
    let sit = 2 * total.div_ceil(SIT_ENTRIES).div_ceil(SEGMENT);
    let sit_map = sit / 2 * SEGMENT / 8;
    let (payload, nat_map) = match sit_map > BITMAPS - 64 {
        true => (sit_map.div_ceil(BLOCK as u32), BITMAPS),
        false => (0, BITMAPS - sit_map),
    };
    let nat_wanted = (total.saturating_sub(2 + sit) * SEGMENT)
        .div_ceil(NAT_ENTRIES)
        .div_ceil(SEGMENT);
    let nat = 2 * nat_wanted.min(nat_map * 8 / SEGMENT);
    let rest = total.checked_sub(2 + sit + nat).ok_or(small(0))?;
    let meta = 2 + sit + nat + rest.div_ceil(SEGMENT);
    let meta_zones = meta.div_ceil(per_zone);
    let ssa = meta_zones * per_zone - 2 - sit - nat;
    let zones = (total / per_zone).checked_sub(meta_zones).ok_or(small(0))?;
    let main = zones * per_zone;
    let (reserved, overprovision) =
        keep_back(main, per_sec, choices.overprovision).ok_or(small(main.into()))?;
    if zones <= 6 || overprovision >= main {
        return Err(small(main.into()));
    }
    let start = segment0 as u32;
    let layout = Layout {
        blocks,
        segs_per_sec: per_sec,
        secs_per_zone: choices.secs_per_zone,
        segments: total,
        segments_sit: sit,
        segments_nat: nat,
        segments_ssa: ssa,
        segments_main: main,
        cp: start,
        sit: start + 2 * SEGMENT,
        nat: start + (2 + sit) * SEGMENT,
        ssa: start + (2 + sit + nat) * SEGMENT,
        main: start + meta_zones * per_zone * SEGMENT,
        root: ROOT,
        payload,
        features: 0,
        quotas: [0; 3],
        uuid: choices.uuid,
        cold: Vec::new(),
        hot: Vec::new(),
    };
    Ok(Plan {
        layout,
        reserved,
        overprovision,
        logs: first_logs(zones, per_zone),
    })
}

/// The first segments of the logs: nodes and names at the beginning, contents further out.
fn first_logs(zones: u32, per_zone: u32) -> [u32; log::COUNT] {
    let last = |zones: u32| zones.saturating_sub(1) * per_zone;
    let hot = 3 * per_zone;
    let cold = last(zones / 4).max(hot + per_zone);
    let warm = last(zones / 2).max(cold + per_zone);
    [hot, warm, cold, 0, per_zone, 2 * per_zone]
}

/// Segments reserved for cleaning, and those kept back in all: where none are asked for, so that
/// most is left.
fn keep_back(main: u32, per_sec: u32, percent: Option<f64>) -> Option<(u32, u32)> {
    let reserved = |percent: f64| (2.0 * (100.0 / percent + 1.0) + 6.0) * f64::from(per_sec);
    let best = || {
        let (first, step, count) = if main < 256 {
            (10.0, 5.0, 18)
        } else {
            (0.01, 0.01, 1000)
        };
        let mut candidate = first;
        let mut best = (0.0, 0.0);
        for _ in 0..count {
            let kept = reserved(candidate);
            if kept < f64::from(main) {
                let left = f64::from(main) - kept;
                let space = left - left * candidate / 100.0;
                if space > best.0 {
                    best = (space, candidate);
                }
            }
            candidate += step;
        }
        best.1
    };
    let percent = percent.unwrap_or_else(best);
    if percent == 0.0 {
        return None;
    }
    let reserved = reserved(percent) as u32;
    let left = main
        .checked_sub(reserved)
        .filter(|_| main - 2 >= reserved)?;
    Some((
        reserved,
        (f64::from(left) * percent / 100.0) as u32 + reserved,
    ))
}

pub(crate) fn superblock(layout: &Layout, choices: &Format) -> Block {
    let mut block = zeros();
    let sb = &mut block[OFFSET..OFFSET + BYTES];
    let words = [
        (at::MAGIC, MAGIC),
        (at::LOG_SECTOR, 9),
        (at::LOG_SECTORS_PER_BLOCK, 3),
        (at::LOG_BLOCK, 12),
        (at::LOG_SEGMENT, 9),
        (at::SEGS_PER_SEC, layout.segs_per_sec),
        (at::SECS_PER_ZONE, layout.secs_per_zone),
        (at::CHECKSUM_OFFSET, 0),
        (at::SECTIONS, layout.sections()),
        (at::SEGMENTS, layout.segments),
        (at::SEGMENTS_CP, 2),
        (at::SEGMENTS_SIT, layout.segments_sit),
        (at::SEGMENTS_NAT, layout.segments_nat),
        (at::SEGMENTS_SSA, layout.segments_ssa),
        (at::SEGMENTS_MAIN, layout.segments_main),
        (at::SEGMENT0, layout.cp),
        (at::CP, layout.cp),
        (at::SIT, layout.sit),
        (at::NAT, layout.nat),
        (at::SSA, layout.ssa),
        (at::MAIN, layout.main),
        (at::ROOT, ROOT),
        (at::NODE, 1),
        (at::META, 2),
        (at::EXTENSION_COUNT, COLD.len() as u32),
        (at::CP_PAYLOAD, layout.payload),
        (at::FEATURE, layout.features),
    ];
    words.iter().for_each(|(at, value)| put32(sb, *at, *value));
    put16(sb, at::MAJOR, 1);
    put16(sb, at::MINOR, 15);
    put64(sb, at::BLOCKS, layout.blocks);
    sb[at::UUID..at::UUID + 16].copy_from_slice(&layout.uuid);
    choices
        .label
        .encode_utf16()
        .enumerate()
        .for_each(|(i, unit)| put16(sb, at::LABEL + 2 * i, unit));
    for (i, extension) in COLD.iter().chain(&HOT).enumerate() {
        let at = at::EXTENSIONS + 8 * i;
        sb[at..at + extension.len()].copy_from_slice(extension.as_bytes());
    }
    sb[at::HOT_EXTENSIONS] = HOT.len() as u8;
    for at in [at::VERSION, at::INIT_VERSION] {
        sb[at..at + choices.maker.len()].copy_from_slice(choices.maker.as_bytes());
    }
    block
}

/// The root directory: its inode, and the block with its two names.
fn root(addr: u32, contents: u32, now: Time) -> (Block, Block) {
    let mut node = zeros();
    let mut names = zeros();
    put16(&mut node, inode::MODE, 0o040_755);
    put32(&mut node, inode::LINKS, 2);
    put64(&mut node, inode::SIZE, BLOCK as u64);
    put64(&mut node, inode::BLOCKS, 2);
    touch(&mut node, now);
    put_time(&mut node, inode::ATIME, inode::ATIME_NANOS, now);
    put32(&mut node, inode::DEPTH, 1);
    put32(&mut node, inode::SLOTS, contents);
    put32(&mut node, footer::NID, ROOT);
    put32(&mut node, footer::INO, ROOT);
    put64(&mut node, footer::VERSION, 1);
    put32(&mut node, footer::NEXT, addr + 1);
    for (slot, name) in [(0, &b"."[..]), (1, b"..")] {
        let entry = Entry {
            slot,
            hash: 0,
            ino: ROOT,
            kind: FileType::Directory.number(),
            name: name.to_vec(),
        };
        View::BLOCK.put(&mut names, &entry);
    }
    (node, names)
}

fn write<D: BlockDevice>(
    disk: &mut Disk<D>,
    plan: &Plan,
    choices: &Format,
) -> Result<(), F2fsError> {
    let layout = &plan.layout;
    // What was there must not be taken for a part of this.
    disk.discard(0, layout.blocks as u32)?;
    let zero = zeros();
    (0..layout.sit_blocks()).try_for_each(|block| disk.write(layout.sit + block, &zero))?;
    for block in 0..layout.nat_blocks() {
        disk.write(layout.nat + 2 * block - block % SEGMENT, &zero)?;
    }
    let at = layout.start(plan.logs[log::HOT_NODE]);
    let contents = layout.start(plan.logs[log::HOT_DATA]);
    let mut nat = zeros();
    // The first two are never nodes; fsck.f2fs wants them taken.
    for (nid, addr) in [(1, 1), (2, 1), (ROOT, at)] {
        NatEntry {
            version: 0,
            ino: nid,
            addr,
        }
        .put(&mut nat, nid as usize * NatEntry::BYTES);
    }
    disk.write(layout.nat, &nat)?;
    let (node, names) = root(at, contents, choices.now);
    disk.write(contents, &names)?;
    disk.write(at, &node)?;
    disk.write(layout.start(plan.logs[log::WARM_NODE]), &zero)?;
    write_packs(disk, plan, choices, at)?;
    disk.flush()?;
    let superblock = superblock(layout, choices);
    disk.write(0, &superblock)?;
    disk.write(1, &superblock)?;
    disk.flush()
}

fn write_packs<D: BlockDevice>(
    disk: &mut Disk<D>,
    plan: &Plan,
    choices: &Format,
    root: u32,
) -> Result<(), F2fsError> {
    let layout = &plan.layout;
    let used = |number: usize| number == log::HOT_NODE || number == log::HOT_DATA;
    let mut pack = Checkpoint {
        version: choices.checkpoint,
        user_blocks: u64::from(layout.segments_main - plan.overprovision) * u64::from(SEGMENT),
        valid_blocks: 2,
        reserved: plan.reserved,
        overprovision: plan.overprovision,
        free: layout.segments_main - log::COUNT as u32,
        logs: core::array::from_fn(|number| LogState {
            segment: plan.logs[number],
            next: used(number).into(),
            threaded: false,
        }),
        flags: flag::UMOUNT | flag::COMPACT | flag::TRIMMED,
        blocks: 6 + layout.payload,
        start_sum: 1 + layout.payload,
        nodes: 1,
        inodes: 1,
        next_nid: ROOT + 1,
        elapsed: 0,
        sit_map: vec![0; layout.sit_blocks() as usize / 8],
        nat_map: vec![0; layout.nat_blocks() as usize / 8],
        second: false,
        crc: 0,
    };
    let mut owners = summary::nobody();
    owners[0] = Owner {
        nid: ROOT,
        version: 0,
        slot: 0,
    };
    let journals = Journals {
        nat: vec![(
            ROOT,
            NatEntry {
                version: 0,
                ino: ROOT,
                addr: root,
            },
        )],
        sit: first_segments(plan),
    };
    let (bits_bytes, bits_blocks) = nat_bits_size(layout);
    if pack.blocks + bits_blocks <= SEGMENT {
        pack.flags |= flag::NAT_BITS;
    }
    let head = pack.encode(layout);
    let mut blocks = vec![head.clone()];
    blocks.extend(pack.payload(layout));
    blocks.extend(summary::compact(&journals, &[&owners[..1]]));
    blocks.push(summary::block(&owners, true, None, None));
    blocks.extend([
        summary::block(&summary::nobody(), true, None, None),
        summary::block(&summary::nobody(), true, None, None),
        head,
    ]);
    for (addr, block) in (layout.cp..).zip(&blocks) {
        disk.write(addr, block)?;
    }
    if pack.flags & flag::NAT_BITS != 0 {
        let bits = nat_bits(
            u64::from(pack.crc) << 32 | pack.version,
            bits_bytes,
            bits_blocks,
        );
        for (addr, block) in (layout.cp + SEGMENT - bits_blocks..).zip(bits.chunks(BLOCK)) {
            disk.write(addr, block)?;
        }
    }
    pack.version = 0;
    let head = pack.encode(layout);
    disk.write(layout.cp + SEGMENT, &head)?;
    for block in 0..layout.payload {
        disk.write(layout.cp + SEGMENT + 1 + block, &zeros())?;
    }
    disk.write(layout.cp + SEGMENT + pack.blocks - 1, &head)
}

/// The logs' segments, as the journal has them.
fn first_segments(plan: &Plan) -> Vec<(u32, SitEntry)> {
    let entry = |number: usize| {
        let mut entry = SitEntry {
            kind: number as u8,
            valid: 0,
            map: [0; 64],
            mtime: 0,
        };
        if number == log::HOT_NODE || number == log::HOT_DATA {
            entry.valid = 1;
            set_bit(&mut entry.map, 0, true);
        }
        (plan.logs[number], entry)
    };
    [3, 4, 5, 0, 1, 2].into_iter().map(entry).collect()
}

/// Bytes of each of the two bitmaps that say which blocks of the table are full and which empty,
/// and blocks of both.
fn nat_bits_size(layout: &Layout) -> (usize, u32) {
    let bytes = layout.segments_nat as usize * 32;
    (bytes, (2 * bytes + 8).div_ceil(BLOCK) as u32)
}

fn nat_bits(mark: u64, bytes: usize, blocks: u32) -> Vec<u8> {
    let mut bits = vec![0; blocks as usize * BLOCK];
    put64(&mut bits, 0, mark);
    bits[8 + bytes..8 + 2 * bytes].fill(0xFF);
    bits[8 + bytes] &= !1;
    bits
}

const _: () = assert!(NULL == 0, "a block of zeros is a table of nothing");

#[cfg(test)]
pub(crate) fn test_layout() -> Layout {
    plan(16384, &Format::default())
        .map(|plan| plan.layout)
        .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_those_of_mkfs_f2fs() {
        // MiB; SIT, NAT, SSA, main, reserved, overprovision segments; logs of warm and cold data.
        let table = [
            (52, [2, 2, 1, 18, 12, 14, 8, 4]),
            (60, [2, 2, 1, 22, 13, 16, 10, 4]),
            (64, [2, 2, 1, 24, 13, 16, 11, 5]),
            (100, [2, 2, 1, 42, 16, 22, 20, 9]),
            (128, [2, 2, 1, 56, 18, 25, 27, 13]),
            (256, [2, 2, 1, 120, 21, 35, 59, 29]),
            (512, [2, 2, 1, 248, 28, 50, 123, 61]),
            (1024, [2, 4, 1, 502, 39, 68, 250, 124]),
            (4096, [2, 10, 4, 2029, 71, 132, 1013, 506]),
            (40_000, [2, 88, 39, 19868, 207, 403, 9933, 4966]),
        ];
        for (mib, expected) in table {
            let Plan {
                layout,
                reserved,
                overprovision,
                logs,
            } = plan(mib * 256, &Format::default()).unwrap();
            let areas = [
                layout.segments_sit,
                layout.segments_nat,
                layout.segments_ssa,
                layout.segments_main,
            ];
            let found = [
                areas[0],
                areas[1],
                areas[2],
                areas[3],
                reserved,
                overprovision,
                logs[log::WARM_DATA],
                logs[log::COLD_DATA],
            ];
            assert_eq!(found, expected, "{mib} MiB");
        }
    }

    #[test]
    fn devices_too_small_are_refused() {
        assert!(matches!(
            plan(30 * 256, &Format::default()),
            Err(FormatError::Size { .. })
        ));
        assert!(matches!(
            plan(0, &Format::default()),
            Err(FormatError::Size { .. })
        ));
        assert!(matches!(
            plan(
                65536,
                &Format {
                    segs_per_sec: 0,
                    ..Format::default()
                }
            ),
            Err(FormatError::Choice { .. })
        ));
    }
}
