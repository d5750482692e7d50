//! Whatever the bytes of a volume: no panic, no endless loop, no memory beyond what is stated; and
//! both judges see what is wrong.

use crate::common::{bytes, fsck, mkdir, mount, put, ram, read_only};
use nandlab_block::{BlockDevice, Lba, Nvram, Ram};
use nandlab_fat::{Bits, Fat, FatError, Finding, Format, Options, Severity, format};
use nandlab_sim::{Rail, mix};
use nandlab_testkit::disk::{poke, word as disk_word};
use nandlab_testkit::host::names;
use nandlab_testkit::hostile::use_up;
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{FileSystem, Ino};
use proptest::prelude::*;

/// A volume with something of everything, and where its first parts end.
fn volume(bits: Bits) -> (Ram, u64) {
    let mut disk = ram(2500);
    let cluster = if bits == Bits::Fat16 { 1 } else { 2 };
    let choices = Format {
        bits: Some(bits),
        cluster_sectors: Some(cluster),
        label: Some(b"HOSTILE".to_vec()),
        ..Format::default()
    };
    let layout = format(&mut disk, &choices).unwrap();
    let mut fat = mount(&mut disk);
    let dir = mkdir(&mut fat, Ino::ROOT, "directory with a long name");
    let below = mkdir(&mut fat, dir, "below");
    for number in 0..20 {
        put(
            &mut fat,
            below,
            &format!("file number {number}"),
            &bytes(number, 300 * number as usize),
        );
    }
    put(&mut fat, Ino::ROOT, "LARGE", &bytes(1, 60_000));
    fat.unmount().unwrap();
    (disk, u64::from(layout.data_start) + 60)
}

/// Mounts, checks, uses and unmounts; gives what the check found.
fn survive(disk: &mut Ram) -> Option<Vec<Finding>> {
    let findings = Fat::mount(
        &mut *disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .ok()?
    .check()
    .ok()
    .map(|report| report.findings);
    let mut fat = Fat::mount(
        &mut *disk,
        Options {
            cache_bytes: 16 * 1024,
            ..Options::default()
        },
    )
    .ok()?;
    use_up(&mut fat, 120);
    findings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_volume_breaks_anything(seed: u64, pokes in 1..40u64, kind in 0..3usize, boot: bool) {
        let (mut disk, end) = volume([Bits::Fat12, Bits::Fat16, Bits::Fat32][kind]);
        for number in 0..pokes {
            let word = mix(seed, number);
            // Tables and directories are worth more attention than the boot sector, which mostly
            // fails to mount.
            let at = if boot && number == 0 { word % 90 } else { 512 + word % ((end - 1) * 512) };
            let value = [0, 1, 0xFF, 0x0F, 0xE5, 0x40, (word >> 50) as u8, (word >> 40) as u8][(word >> 60) as usize % 8];
            poke(&mut disk, at, &[value, (word >> 32) as u8][..1 + (word >> 20) as usize % 2]);
        }
        survive(&mut disk);
    }

    #[test]
    fn no_noise_breaks_anything(seed: u64, keep in 0..3u64) {
        let (mut disk, end) = volume(Bits::Fat32);
        // A good boot sector and nothing but noise after it, or noise here and there.
        for sector in 1..end {
            if keep == 0 || mix(seed, sector) % 4 < keep {
                let data = bytes(mix(seed, sector), 512);
                disk.write(Lba(sector), &data).unwrap();
            }
        }
        survive(&mut disk);
    }

    #[test]
    fn no_contents_of_the_memory_break_anything(seed: u64, pokes in 1..60u64) {
        let (mut disk, _) = volume(Bits::Fat16);
        let mut memory = Nvram::new(512, 64, Rail::new());
        let mut fat = Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()).unwrap();
        put(&mut fat, Ino::ROOT, "new", &bytes(2, 20_000));
        fat.sync().unwrap();
        drop(fat);
        for number in 0..pokes {
            let word = mix(seed, number);
            let mut sector = [0; 512];
            memory.read(Lba(word % 64), &mut sector).unwrap();
            sector[(word >> 8) as usize % 512] ^= 1 << (word >> 20 & 7);
            memory.write(Lba(word % 64), &sector).unwrap();
        }
        if let Ok(mut fat) = Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()) {
            _ = fat.check();
            use_up(&mut fat, 60);
        }
    }
}

/// First byte of the first table, and of the root directory.
fn places(disk: &mut Ram) -> (u64, u64) {
    let layout = *read_only(disk).layout();
    (
        u64::from(layout.fat_start) * 512,
        u64::from(layout.root_start) * 512,
    )
}

/// The place of the root's slot whose short name begins so.
fn slot_of(disk: &mut Ram, name: &[u8]) -> u64 {
    let (_, root) = places(disk);
    let mut sectors = vec![0; 32 * 512];
    disk.read(Lba(root / 512), &mut sectors).unwrap();
    root + 32
        * sectors
            .chunks(32)
            .position(|slot| slot.starts_with(name) && slot[11] != 0x0F)
            .unwrap() as u64
}

fn findings(disk: &mut Ram) -> Vec<Finding> {
    read_only(disk).check().unwrap().findings
}

#[test]
fn each_kind_of_damage_is_found_and_fsck_is_not_content_either() {
    type Harm = fn(&mut Ram);
    type Seen = fn(&Finding) -> bool;
    let harms: [(&str, Harm, Seen); 10] = [
        (
            "ring",
            |d| ring(d),
            |f| matches!(f, Finding::CrossLink { .. }),
        ),
        (
            "two files on one chain",
            |d| share(d),
            |f| matches!(f, Finding::TwoNames { .. } | Finding::CrossLink { .. }),
        ),
        (
            "chain into a free cluster",
            |d| set_fat16(d, 3, 0),
            |f| matches!(f, Finding::Chain { within: true, .. }),
        ),
        (
            "too long",
            |d| resize(d, 99_000_000),
            |f| {
                matches!(
                    f,
                    Finding::TooLong {
                        size: 99_000_000,
                        ..
                    }
                )
            },
        ),
        (
            "too short",
            |d| resize(d, 10),
            |f| matches!(f, Finding::Excess { .. }),
        ),
        (
            "lost",
            |d| set_fat16(d, 3000, 0xFFFF),
            |f| matches!(f, Finding::Lost(1)),
        ),
        (
            "start beyond the end",
            |d| start(d, 0xFFF0),
            |f| matches!(f, Finding::Start { found: 0xFFF0, .. }),
        ),
        (
            "orphaned long name",
            |d| orphan(d),
            |f| matches!(f, Finding::LongName { .. }),
        ),
        (
            "copies",
            |d| copy(d),
            |f| matches!(f, Finding::Copies { copy: 1, sector: 2 }),
        ),
        ("in use", |d| poke(d, 37, &[1]), |f| *f == Finding::InUse),
    ];
    for (what, harm, seen) in harms {
        let (mut disk, _) = volume(Bits::Fat16);
        harm(&mut disk);
        let found = findings(&mut disk);
        assert!(found.iter().any(seen), "{what}: {found:?}");
        let (content, text) = fsck(&mut disk);
        assert!(!content, "{what}: {text}");
    }
}

fn set_fat16(disk: &mut Ram, cluster: u16, value: u16) {
    let layout = *read_only(disk).layout();
    for copy in 0..u64::from(layout.fats) {
        let table = (u64::from(layout.fat_start) + copy * u64::from(layout.fat_sectors)) * 512;
        poke(disk, table + u64::from(cluster) * 2, &value.to_le_bytes());
    }
}

fn large_start(disk: &mut Ram) -> u16 {
    let at = slot_of(disk, b"LARGE");
    let mut sector = [0; 512];
    disk.read(Lba(at / 512), &mut sector).unwrap();
    let at = (at % 512) as usize;
    u16::from_le_bytes([sector[at + 26], sector[at + 27]])
}

fn ring(disk: &mut Ram) {
    let start = large_start(disk);
    set_fat16(disk, start + 5, start + 1);
}

fn share(disk: &mut Ram) {
    let start = large_start(disk);
    let place = slot_of(disk, b"DIRECT");
    let mut slot = *b"OTHER      \x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0ss\0\x10\0\0";
    slot[24..26].copy_from_slice(&[0x21, 0]);
    slot[26..28].copy_from_slice(&start.to_le_bytes());
    poke(disk, place + 64, &slot);
}

fn resize(disk: &mut Ram, size: u32) {
    let place = slot_of(disk, b"LARGE");
    poke(disk, place + 28, &size.to_le_bytes());
}

fn start(disk: &mut Ram, cluster: u16) {
    let place = slot_of(disk, b"LARGE");
    poke(disk, place + 26, &cluster.to_le_bytes());
}

fn orphan(disk: &mut Ram) {
    let place = slot_of(disk, b"DIRECT");
    poke(disk, place, &[0xE5]);
}

fn copy(disk: &mut Ram) {
    let layout = *read_only(disk).layout();
    poke(
        disk,
        (u64::from(layout.fat_start + layout.fat_sectors) + 2) * 512 + 5,
        &[0x77],
    );
}

#[test]
fn a_ring_of_clusters_is_an_error_with_its_place_and_not_for_ever() {
    let (mut disk, _) = volume(Bits::Fat16);
    ring(&mut disk);
    resize(&mut disk, 99_000_000);
    let mut fat = mount(&mut disk);
    let large = fat.lookup(Ino::ROOT, b"LARGE").unwrap().ino;
    assert!(fat.read(large, 90_000_000, &mut [0; 512]).is_err());
    assert!(
        matches!(
            fat.fault(),
            Some(FatError::Chain {
                expected: "an end of the chain",
                ..
            })
        ),
        "{:?}",
        fat.fault()
    );
    assert_eq!(
        findings(&mut disk).iter().map(Finding::severity).max(),
        Some(Severity::Damage)
    );
}

#[test]
fn a_file_whose_clusters_are_free_is_damage_and_endangers_writes() {
    for within in [true, false] {
        let (mut disk, _) = volume(Bits::Fat16);
        let start = large_start(&mut disk);
        // 60,000 bytes are 118 clusters of 512; the last one may be free as well as any other.
        let cluster = if within { start } else { start + 117 };
        set_fat16(&mut disk, cluster, 0);
        let found = findings(&mut disk);
        let free = found
            .iter()
            .find(|finding| matches!(finding, Finding::Chain { found: 0, .. }))
            .unwrap();
        assert_eq!(free.severity(), Severity::Damage, "{free}");
        assert!(free.endangers_writes(), "{free}");
        assert_eq!(
            free.to_string(),
            format!("/LARGE: cluster {cluster} is in use and marked free in the table")
        );
        let (content, text) = fsck(&mut disk);
        assert!(!content, "{text}");
    }
}

#[test]
fn a_directory_that_leads_back_to_one_above_it_is_damage() {
    let (mut disk, _) = volume(Bits::Fat16);
    let layout = *read_only(&mut disk).layout();
    let place = slot_of(&mut disk, b"DIRECT");
    let dir = (disk_word(&mut disk, place + 26) & 0xFFFF) as u16;
    // The first slot behind `.` and `..` that holds a short name is the directory `below`.
    let slots = u64::from(layout.cluster_sector(dir.into())) * 512;
    let below = (2..16)
        .map(|slot| slots + slot * 32)
        .find(|at| disk_word(&mut disk, at + 8) >> 24 & 0x1F == 0x10)
        .unwrap();
    poke(&mut disk, below + 26, &dir.to_le_bytes());
    let found = findings(&mut disk);
    let cycle = found
        .iter()
        .find(|finding| matches!(finding, Finding::Cycle { .. }))
        .unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(cycle.severity(), Severity::Damage);
    assert!(cycle.to_string().starts_with(
        "/directory with a long name/below: leads back to /directory with a long name"
    ));
}

#[test]
fn a_memory_that_another_volume_needs_is_refused() {
    let (mut disk, _) = volume(Bits::Fat16);
    let mut memory = Nvram::new(512, 64, Rail::new());
    let mut fat = Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()).unwrap();
    put(&mut fat, Ino::ROOT, "new", b"data");
    fat.sync().unwrap();
    drop(fat);
    let mut other = ram(4000);
    format(
        &mut other,
        &Format {
            volume_id: 77,
            ..Format::default()
        },
    )
    .unwrap();
    let refused = Fat::mount_with_nvram(&mut other, &mut memory, Options::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            FatError::ForeignNvram {
                found: 0x1234_5678,
                expected: 77,
                ..
            }
        ),
        "{refused}"
    );
    let mut fat = Fat::mount_with_nvram(&mut disk, &mut memory, Options::default()).unwrap();
    fat.unmount().unwrap();
    drop(fat);
    // It needs nothing any more.
    Fat::mount_with_nvram(&mut other, &mut memory, Options::default()).unwrap();
    let small = Fat::mount_with_nvram(
        &mut disk,
        Nvram::new(512, 5, Rail::new()),
        Options::default(),
    )
    .unwrap_err();
    assert!(matches!(small, FatError::SmallNvram { .. }), "{small}");
}

#[test]
fn a_long_name_that_belongs_to_another_short_name_is_left_out() {
    let (mut disk, _) = volume(Bits::Fat16);
    let slot = slot_of(&mut disk, b"DIRECT~1");
    poke(&mut disk, slot, b"X");
    let names = names(&mut read_only(&mut disk), Ino::ROOT);
    assert!(names.contains(&"XIRECT~1".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("long")), "{names:?}");
}

#[test]
fn a_first_table_entry_without_its_ones_is_noted() {
    let (mut disk, _) = volume(Bits::Fat32);
    let table = 512 * u64::from(disk_word(&mut disk, 14) & 0xFFFF);
    assert_eq!(disk_word(&mut disk, table), 0x0FFF_FFF8);
    poke(&mut disk, table + 1, &[0xF7]);
    let expected = Finding::Media {
        found: 0x0FFF_F7F8,
        expected: 0x0FFF_FFF8,
    };
    assert!(findings(&mut disk).contains(&expected));
}

#[test]
fn a_volume_without_file_system_information_is_noted() {
    let (mut disk, _) = volume(Bits::Fat32);
    poke(&mut disk, 48, &[0, 0]);
    let found = findings(&mut disk);
    assert!(found.contains(&Finding::NoInfo(0)), "{found:?}");
}
