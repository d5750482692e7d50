//! Tables by the tools that make them, tables by hand, and damage.

use super::*;
use crate::file::ImageFile;
use crate::known::env::Environment;
use nandlab_sim::mix;
use nandlab_testkit::tools::{find, printed};
use proptest::prelude::*;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// The file `image` that a script makes.
fn made(package: &str, program: &str, script: &str) -> Vec<u8> {
    find(package, program);
    let dir = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(dir.path())
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}\n{}", printed(&output));
    let mut image = ImageFile::open(&dir.path().join("image")).unwrap();
    let mut bytes = vec![0; image.len() as usize];
    image.read_at(0, &mut bytes).unwrap();
    bytes
}

fn one(name: &str, at: u64, len: u64, read_only: bool) -> Partition {
    let name = name.into();
    Partition {
        name,
        at,
        len,
        read_only,
    }
}

/// The words of an error.
fn message<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_string_for_the_kernel_is_read_with_every_part_of_its_grammar() {
    let text = "mtdparts=spi0.0:256k(boot)ro,64K@0x40000(env)lk,,";
    assert_eq!(
        message(mtdparts_of(text, None, MIB)),
        "mtdparts, character 48: found \",\", expected a number, such as 512k or 0x20000"
    );
    let text = "console=ttyS0,115200 mtdparts=spi0.0:256k(boot)ro,64K@0x40000(env)lk,\
                010k,-(a name, with marks)rolkslc;brcm:nand.0:1m(all),0(none),1m@0(again) root=31:2";
    let expected = [
        one("boot", 0, 256 << 10, true),
        one("env", 256 << 10, 64 << 10, false),
        one("Partition_002", 320 << 10, 8 << 10, false),
        one("a name, with marks", 328 << 10, MIB - (328 << 10), true),
    ];
    assert_eq!(mtdparts_of(text, Some("spi0.0"), MIB).unwrap(), expected);
    assert_eq!(mtd_ids(text).unwrap(), ["spi0.0", "brcm:nand.0"]);
    let expected = [one("all", 0, MIB, false), one("again", 0, MIB, false)];
    assert_eq!(
        mtdparts_of(text, Some("brcm:nand.0"), MIB).unwrap(),
        expected
    );
    assert_eq!(
        message(mtdparts_of(text, None, MIB)),
        "mtdparts, character 30: found devices spi0.0, brcm:nand.0, expected the name of one of them"
    );
    assert_eq!(
        message(mtdparts_of(text, Some("nand"), MIB)),
        "mtdparts, character 30: found devices spi0.0, brcm:nand.0, expected one named nand"
    );
}

#[test]
fn a_wrong_string_is_refused_at_its_character() {
    let cases = [
        (
            "",
            "character 0: found the end, expected the name of a device with a colon behind it",
        ),
        (
            "nand",
            "character 0: found \"nand\", expected the name of a device with a colon",
        ),
        (
            ":1m",
            "character 0: found \":1m\", expected the name of a device",
        ),
        (
            "n:1m(a",
            "character 5: found \"a\", expected a name that ends with )",
        ),
        (
            "n:1m(a)x",
            "character 7: found \"x\", expected a comma, a semicolon or the end",
        ),
        (
            "n:-,1m",
            "character 4: found \"1m\", expected nothing behind the partition that takes",
        ),
        (
            "n:16e(a)",
            "character 2: found \"16e(a)\", expected a number below 16 EiB",
        ),
        ("n:09(a)", "character 3: found \"9(a)\", expected a comma"),
        (
            "n:1m@-(a)",
            "character 5: found \"-(a)\", expected a number",
        ),
        (
            "n:512k(a),1m(b)",
            "character 10: found b (bytes 524288 to 1572864), expected an end at byte 1048576",
        ),
        (
            "n:512k(a),512k@256k(b)",
            "character 10: found b (bytes 262144 to 786432), expected no overlap with a (bytes 0 to 524288)",
        ),
        (
            "n:-@2m(a)",
            "character 2: found a partition at byte 2097152, expected a device of more",
        ),
        (
            "n:16777215t@16777215t(a)",
            "expected an end at byte 1048576 or before",
        ),
    ];
    for (text, expected) in cases {
        let message = message(mtdparts_of(text, None, MIB));
        assert!(message.contains(expected), "{text}: {message}");
    }
}

/// A layout as text and as partitions: sizes, gaps, names, flags.
fn layouts() -> impl Strategy<Value = (String, Vec<Partition>)> {
    let part = (
        1..4096u64,
        0..64u64,
        "[a-zA-Z0-9 _.,;:@-]{1,12}",
        any::<bool>(),
        0..3usize,
    );
    prop::collection::vec(part, 1..12).prop_map(|parts| {
        let mut text = String::from("mtdparts=dev:0:");
        let mut expected = Vec::new();
        let mut next = 0;
        for (index, (kib, gap, name, read_only, radix)) in parts.into_iter().enumerate() {
            let at = next + gap * 512;
            let len = kib << 10;
            text += if index > 0 { "," } else { "" };
            text += &[format!("{kib}k"), format!("{len:#x}"), format!("0{len:o}")][radix];
            text += &if gap > 0 {
                format!("@{at}")
            } else {
                String::new()
            };
            text += &format!("({name}){}", if read_only { "ro" } else { "" });
            expected.push(one(&name, at, len, read_only));
            next = at + len;
        }
        (text, expected)
    })
}

proptest! {
    #[test]
    fn every_layout_that_is_written_is_read_back((text, expected) in layouts()) {
        let len = expected.last().unwrap().end();
        prop_assert_eq!(mtdparts_of(&text, Some("dev:0"), len).unwrap(), expected);
        let message = message(mtdparts_of(&text, Some("dev:0"), len - 1));
        let expected = format!("an end at byte {} or before", len - 1);
        prop_assert!(message.contains(&expected));
    }

    #[test]
    fn no_text_is_read_beyond_the_device(text in "(mtdparts=)?[a-z:;,@()0-9kmx\" é-]{0,60}") {
        for one in mtdparts_of(&text, None, MIB).unwrap_or_default() {
            prop_assert!(one.len > 0 && one.end() <= MIB);
        }
    }

    #[test]
    fn overlaps_are_found_as_by_comparing_all_pairs(
        parts in prop::collection::vec((0..40u64, 1..12u64), 0..8),
        nested: bool,
    ) {
        let entries: Entries = parts
            .iter()
            .map(|(at, len)| (At::Byte(0), one("a", *at, *len, false)))
            .collect();
        let holds = |a: &Partition, b: &Partition| a.at <= b.at && b.end() <= a.end();
        let is_wrong = |a: &Partition, b: &Partition| {
            a.at < b.end() && b.at < a.end() && !(nested && (holds(a, b) || holds(b, a)))
        };
        let mut pairs = (0..entries.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let expected = pairs.any(|(i, j)| is_wrong(&entries[i].1, &entries[j].1));
        prop_assert_eq!(apart("a", &entries, nested).is_err(), expected);
    }
}

#[test]
fn primary_and_logical_partitions_of_sfdisk_are_read() {
    let script = "truncate -s 32M image\n\
                  printf '2048,4096,c\n8192,40960,5\n49152,,83\n10240,2048,83\n14336,2048\n18432,2048\n' \
                  | sfdisk image";
    let mut image = made("fdisk", "sfdisk", script);
    let expected = [
        one("p1", MIB, 2 * MIB, false),
        one("p3", 24 * MIB, 8 * MIB, false),
        one("p5", 5 * MIB, MIB, false),
        one("p6", 7 * MIB, MIB, false),
        one("p7", 9 * MIB, MIB, false),
    ];
    assert_eq!(mbr(&mut image).unwrap(), expected);
    assert_eq!(in_image(&mut image).unwrap().unwrap(), expected);
    let len = 30 * MIB;
    image.truncate(len as usize);
    assert_eq!(
        message(mbr(&mut image)),
        format!(
            "MBR, byte 478: found p3 (bytes {} to {}), expected an end at byte {len} or before",
            24 * MIB,
            32 * MIB
        )
    );
}

/// A record with entries: the kind, the first sector and the sectors of each.
fn record(entries: &[(u8, u32, u32)]) -> [u8; 512] {
    let mut record = [0; 512];
    for (entry, (kind, first, count)) in record[446..].chunks_mut(16).zip(entries) {
        entry[4] = *kind;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..16].copy_from_slice(&count.to_le_bytes());
    }
    record[510..].copy_from_slice(&[0x55, 0xAA]);
    record
}

/// A disk with these records.
fn disk(records: &[(usize, [u8; 512])]) -> Vec<u8> {
    let mut disk = vec![0; MIB as usize];
    for (sector, record) in records {
        disk[sector * 512..][..512].copy_from_slice(record);
    }
    disk
}

#[test]
fn a_chain_that_comes_back_or_leaves_its_partition_is_refused() {
    let first = record(&[(5, 100, 1000)]);
    let cases = [
        (
            vec![
                (0, first),
                (100, record(&[(5, 200, 100)])),
                (300, record(&[(5, 0, 100)])),
            ],
            "MBR, byte 51200: found a chain that leads to sector 100",
        ),
        (
            vec![(0, first), (100, record(&[(5, 1000, 1)]))],
            "MBR, byte 51654: found the next record at sector 1000, expected less than 1000",
        ),
        (
            vec![(0, first), (100, record(&[(0x83, 1, 1200)]))],
            "MBR, byte 51646: found p5 (bytes 51712 to 666112), expected a place in the extended p1",
        ),
        (
            vec![(0, first)],
            "MBR, byte 51710: found 0000, expected 55aa",
        ),
        (
            vec![(0, record(&[(0x83, 10, 20), (0x83, 29, 5)]))],
            "MBR, byte 462: found p2 (bytes 14848 to 17408), expected no overlap with p1",
        ),
        (
            vec![
                (0, record(&[(0x83, 10, 20), (5, 20, 20)])),
                (20, record(&[(0x83, 1, 1)])),
            ],
            "MBR, byte 462: found p2 (bytes 10240 to 20480), expected no overlap with p1",
        ),
        (
            vec![(0, record(&[(0x83, u32::MAX, u32::MAX)]))],
            "expected an end at byte 1048576 or before",
        ),
        (
            vec![(0, record(&[(0xEE, 1, 100)]))],
            "MBR, byte 450: found type ee, expected a table",
        ),
    ];
    for (records, expected) in cases {
        let message = message(mbr(&mut disk(&records)));
        assert!(message.contains(expected), "{message}\nexpected {expected}");
    }
    let long: Vec<(usize, [u8; 512])> = (0..200)
        .map(|link| {
            (
                100 + link,
                record(&[(0x83, 300, 1), (5, link as u32 + 1, 1)]),
            )
        })
        .chain([(0, record(&[(5, 100, 1900)]))])
        .collect();
    let message = message(mbr(&mut disk(&long)));
    assert!(message.contains("at most 100 records"), "{message}");
}

/// Two partitions, with names of other scripts.
fn gpt_image() -> Vec<u8> {
    let script = "truncate -s 8M image\n\
                  sgdisk -n 1:2048:4095 -c 1:größer -n 3:6144:8191 -A 3:set:60 image";
    made("gdisk", "sgdisk", script)
}

#[test]
fn a_table_of_sgdisk_is_read_from_either_copy() {
    let expected = [
        one("größer", MIB, MIB, false),
        one("p3", 3 * MIB, MIB, true),
    ];
    let mut image = gpt_image();
    let found = gpt(&mut image).unwrap();
    assert_eq!((&found.partitions[..], found.sector), (&expected[..], 512));
    assert!(!found.is_backup && found.troubles.is_empty(), "{found:?}");
    // The primary header, its entries, its disk's GUID: the backup takes over.
    for at in [512, 1024, 512 + 60] {
        let mut damaged = image.clone();
        damaged[at] ^= 1;
        let found = gpt(&mut damaged).unwrap();
        assert_eq!(
            (&found.partitions[..], found.is_backup),
            (&expected[..], true)
        );
        assert!(found.troubles[0].starts_with("the primary table is damaged: GPT, byte"));
        assert_eq!(in_image(&mut damaged).unwrap().unwrap(), expected);
    }
    image.truncate(5 << 20);
    let found = gpt(&mut image).unwrap();
    assert_eq!(found.partitions, expected);
    assert!(found.troubles[0].starts_with("the backup is damaged: GPT, byte 5242368"));
    image.truncate(7 << 19);
    assert_eq!(
        message(gpt(&mut image)),
        "GPT, byte 1280: found p3 (bytes 3145728 to 4194304), expected an end at byte 3670016 or before"
    );
}

/// Changes the header of the primary table, makes its checksums right, and drops the backup.
fn forged(image: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut image = image[..7 << 20].to_vec();
    change(&mut image);
    let entries = crc32fast::hash(&image[1024..1024 + 128 * 128]);
    image[512 + 88..512 + 92].copy_from_slice(&entries.to_le_bytes());
    image[512 + 16..512 + 20].fill(0);
    let header = crc32fast::hash(&image[512..512 + 92]);
    image[512 + 16..512 + 20].copy_from_slice(&header.to_le_bytes());
    image
}

#[test]
fn a_forged_table_with_right_checksums_is_refused_at_its_byte() {
    let image = gpt_image();
    let mut same = forged(&image, |_| {});
    assert_eq!(gpt(&mut same).unwrap().partitions.len(), 2);
    let put = |at: usize, value: u64| {
        move |image: &mut [u8]| image[at..at + 8].copy_from_slice(&value.to_le_bytes())
    };
    let cases = [
        (
            put(1024 + 40, 6200),
            "GPT, byte 1280: found p3 (bytes 3145728 to 4194304), expected no overlap",
        ),
        (
            put(1024 + 32, 9),
            "GPT, byte 1024: found sectors 9 to 4095, expected some of sectors 2048 to",
        ),
        (
            put(1024 + 32, 4096),
            "GPT, byte 1024: found sectors 4096 to 4095",
        ),
        (
            put(1024 + 40, u64::MAX),
            "GPT, byte 1024: found last sector 18446744073709551615",
        ),
        (
            put(512 + 80, u64::MAX),
            "GPT, byte 592: found 4294967295 entries of 4294967295 bytes",
        ),
        (
            put(512 + 80, 128 << 32 | 1 << 20),
            "GPT, byte 592: found 1048576 entries of 128 bytes",
        ),
        (
            put(512 + 72, u64::MAX),
            "GPT, byte 584: found entries in sector 18446744073709551615",
        ),
        (
            put(512 + 24, 2),
            "GPT, byte 536: found sector 2, expected 1",
        ),
    ];
    for (change, expected) in cases {
        let message = message(gpt(&mut forged(&image, change)));
        let expected = expected.replace("2048 to", "34 to");
        assert!(
            message.contains(&expected),
            "{message}\nexpected {expected}"
        );
    }
    assert!(message(gpt(&mut vec![])).starts_with("GPT, byte 512: found 512 bytes at offset 512"));
}

#[test]
fn damaged_tables_never_panic_and_keep_partitions_inside() {
    let script =
        "truncate -s 2M image\nprintf '64,64,c\n128,512,5\n130,10\n200,10\n' | sfdisk image";
    let disks = [gpt_image(), made("fdisk", "sfdisk", script)];
    for seed in 0..2000 {
        let mut image = disks[(seed % 2) as usize].clone();
        for number in 0..1 + seed % 7 {
            let at = mix(seed, number) % 1300;
            image[at as usize] = mix(seed, 50 + number) as u8;
        }
        let len = image.len() as u64;
        let found = [
            mbr(&mut image),
            gpt(&mut image).map(|table| table.partitions),
        ];
        let found = found.into_iter().flatten().flatten();
        assert!(found.into_iter().all(|one| one.end() <= len && one.len > 0));
    }
}

const SOURCE: &str = r#"/dts-v1/; / { #address-cells = <2>; #size-cells = <2>;
    soc { spi@1000 { #address-cells = <1>; #size-cells = <0>;
        flash@0 { reg = <0>; compatible = "jedec,spi-nor"; partitions {
            compatible = "fixed-partitions"; #address-cells = <1>; #size-cells = <1>;
            partition@0 { label = "u-boot"; reg = <0x0 0x40000>; read-only; };
            env: partition@40000 { reg = <0x40000 0x10000>; };
            firmware@50000 { label = "firmware"; reg = <0x50000 0xb0000>; };
            nothing { label = "dynamic"; };
        }; }; };
        nand@2000 { partitions { compatible = "a,b", "fixed-partitions";
            #address-cells = <2>; #size-cells = <2>;
            partition@0 { label = "all"; reg = <0 0 0x1 0x0>; };
            partition@1 { label = "high"; reg = <0 0x80000000 0 0x80000000>; };
        }; }; }; };"#;

fn tree(source: &str) -> Vec<u8> {
    let script = format!("cat > source <<'END'\n{source}\nEND\ndtc -q -o image source");
    made("device-tree-compiler", "dtc", &script)
}

#[test]
fn fixed_partitions_of_a_device_tree_are_read_for_their_device() {
    let tree = tree(SOURCE);
    let mut image = [&[0xFF; 4096][..], &tree].concat();
    let expected = [
        one("u-boot", 0, 0x40000, true),
        one("partition@40000", 0x40000, 0x10000, false),
        one("firmware", 0x50000, 0xB0000, false),
    ];
    let devices = ["/soc/spi@1000/flash@0", "/soc/nand@2000"];
    assert_eq!(tree_devices(&mut image, 4096).unwrap(), devices);
    for name in [devices[0], "flash@0", "spi@1000"] {
        assert_eq!(
            device_tree(&mut image, 4096, Some(name), MIB).unwrap(),
            expected
        );
    }
    let expected = [
        one("all", 0, 4 << 30, false),
        one("high", 2 << 30, 2 << 30, false),
    ];
    assert_eq!(
        device_tree(&mut image, 4096, Some("nand@2000"), 4 << 30).unwrap(),
        expected
    );
    let of_both =
        "device tree, byte 0: found partitions of /soc/spi@1000/flash@0, /soc/nand@2000, expected";
    assert_eq!(
        message(device_tree(&mut image, 4096, None, MIB)),
        format!("{of_both} the name of one of them")
    );
    assert_eq!(
        message(device_tree(&mut image, 4096, Some("nor"), MIB)),
        format!("{of_both} one device named nor")
    );
    assert!(
        message(device_tree(&mut image, 4096, Some("flash@0"), MIB - 1))
            .contains("found firmware (bytes 327680 to 1048576), expected an end at byte 1048575")
    );
    assert!(message(device_tree(&mut image, 4092, None, MIB)).contains("found 0xffffffff"));
}

#[test]
fn a_damaged_tree_never_panics() {
    let tree = tree(SOURCE);
    for seed in 0..2000 {
        let mut damaged = tree.clone();
        for number in 0..1 + seed % 5 {
            let at = mix(seed, number) % tree.len() as u64;
            damaged[at as usize] = mix(seed, 50 + number) as u8;
        }
        let devices = tree_devices(&mut damaged, 0).unwrap_or_default();
        for device in devices {
            let found = device_tree(&mut damaged, 0, Some(&device), MIB);
            assert!(found.unwrap_or_default().iter().all(|one| one.end() <= MIB));
        }
    }
}

#[test]
fn partitions_of_an_environment_are_in_its_variable_or_in_the_kernels_arguments() {
    let variable = "mtdids=nor0=spi0.0\nmtdparts=mtdparts=spi0.0:64k(u-boot)ro,-(rest)";
    let arguments = "bootargs=root=/dev/mtdblock1 mtdparts=spi0.0:64k(u-boot)ro,-(rest) quiet";
    let expected = [
        one("u-boot", 0, 65_536, true),
        one("rest", 65_536, MIB - 65_536, false),
    ];
    for text in [variable, arguments] {
        let script = format!("printf '%s\\n' '{text}' > text\nmkenvimage -s 8192 -o image text");
        let mut image = made("u-boot-tools", "mkenvimage", &script);
        let read = Environment::read(&mut image, 0).unwrap();
        assert_eq!(environment(&read, None, MIB).unwrap().unwrap(), expected);
    }
    let none = Environment {
        size: 1024,
        flag: None,
        variables: vec![(b"bootargs".into(), b"quiet".into())],
    };
    assert_eq!(environment(&none, None, MIB).unwrap(), None);
}
