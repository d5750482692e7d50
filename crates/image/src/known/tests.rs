//! Every recogniser against images that the format's own tools made, and against damage.

use super::*;
use crate::file::ImageFile;
use nandlab_sim::mix;
use nandlab_testkit::tools::{find, printed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The length that is expected of an image.
#[derive(Clone, Copy, Debug)]
enum Len {
    /// That of the file.
    File,
    /// Up to so many bytes of padding less.
    Padded(u64),
    /// The format has a length of so many bytes.
    Is(u64),
    /// The format does not say.
    Open,
}

/// An image made by a tool.
struct Made {
    package: &'static str,
    program: &'static str,
    /// Lines of a shell that make `image` of the directory `tree` and the file `data`.
    script: &'static str,
    name: &'static str,
    len: Len,
    proven: bool,
    says: &'static str,
}

macro_rules! made {
    ($($name:literal $len:ident $(($bytes:expr))? $proven:ident $says:literal
        by $package:literal $program:literal: $script:literal)*) => {
        &[$(Made {
            package: $package,
            program: $program,
            script: $script,
            name: $name,
            len: Len::$len $(($bytes))?,
            proven: $proven,
            says: $says,
        }),*]
    };
}

const MADE: &[Made] = made! {
    "squashfs" Padded(4096) false "squashfs 4.0, xz, blocks of 65536 bytes, 4 inodes, made 2001-"
        by "squashfs-tools" "mksquashfs":
        "mksquashfs tree image -comp xz -b 65536 -mkfs-time 1000000000 -quiet"
    "squashfs" Padded(4096) false "squashfs 4.0, lzo"
        by "squashfs-tools" "mksquashfs": "mksquashfs tree image -comp lzo -quiet"
    "U-Boot image" File true
        "Linux ARM kernel, \"a name\", lzma, made 2001-09-09 01:46:40, data checksum matches"
        by "u-boot-tools" "mkimage":
        "SOURCE_DATE_EPOCH=1000000000 mkimage -A arm -O linux -T kernel -C lzma -n 'a name' -d data image"
    "U-Boot image" File true "U-Boot MIPS firmware, \"\", not compressed"
        by "u-boot-tools" "mkimage": "mkimage -A mips -O u-boot -T firmware -C none -d data image"
    "device tree" File false "for \"a model\""
        by "device-tree-compiler" "dtc":
        "echo '/dts-v1/; / { model = \"a model\"; compatible = \"a,b\"; c { d = <1>; }; };' | dtc -o image"
    "device tree" File false "for \"a,b\""
        by "device-tree-compiler" "dtc":
        "echo '/dts-v1/; / { compatible = \"a,b\"; };' | dtc -o image"
    "FIT image" File false "\"a text\", 1 image"
        by "u-boot-tools device-tree-compiler" "mkimage": "mkimage -f fit image"
    "FIT image" File false "\"a text\", 1 image"
        by "u-boot-tools device-tree-compiler" "mkimage": "mkimage -E -f fit image"
    "U-Boot environment" File true "3 variables"
        by "u-boot-tools" "mkenvimage": "mkenvimage -s 0x4000 -o image variables"
    "U-Boot environment" File true "3 variables, redundant copy, flag 1"
        by "u-boot-tools" "mkenvimage": "mkenvimage -r -s 0x20000 -o image variables"
    "U-Boot environment" File true "3 variables"
        by "u-boot-tools" "mkenvimage": "mkenvimage -b -p 0 -s 0x40000 -o image variables"
    "Allwinner boot loader" File true "eGON.BT0, U-Boot SPL 2023.01 (for a test)"
        by "u-boot-tools" "mkimage": "mkimage -T sunxi_egon -d data image"
    "Rockchip boot loader" File false "loader at byte 2048, U-Boot SPL 2023.01"
        by "u-boot-tools" "mkimage": "mkimage -n rk3288 -T rksd -d small image"
    "Rockchip boot loader" File false "RKNS, parts: 2, U-Boot SPL 2023.01"
        by "u-boot-tools" "mkimage": "mkimage -n rk3568 -T rksd -d small image"
    "i.MX boot image" Padded(4096) false "loaded at 0x877ff400, 1024 bytes behind"
        by "u-boot-tools" "mkimage":
        "printf 'IMAGE_VERSION 2\nBOOT_FROM sd\nDATA 4 0x30340004 0x4F400005\n' > cfg\n\
         mkimage -n cfg -T imximage -e 0x87800000 -d data image"
    "TI boot loader" Padded(4096) false "CHSETTINGS, to be loaded at 0x402f0400, U-Boot SPL 2023.01"
        by "u-boot-tools" "mkimage": "mkimage -T omapimage -a 0x402F0400 -d data image"
    "UBIFS" File true "logical blocks of 126976 bytes, at most 100, compression zlib"
        by "mtd-utils" "mkfs.ubifs": "mkfs.ubifs -r tree -m 2048 -e 126976 -c 100 -x zlib -o image"
    "cramfs" File true "cramfs \"a name\", little-endian, 4 files"
        by "util-linux" "mkfs.cramfs": "mkfs.cramfs -N little -n 'a name' tree image"
    "cramfs" File true "big-endian, 4 files"
        by "util-linux" "mkfs.cramfs": "mkfs.cramfs -N big tree image"
    "romfs" Padded(1024) true "romfs \"a name\""
        by "genromfs" "genromfs": "genromfs -d tree -f image -V 'a name'"
    "Android boot image" File false "version 0, \"a name\", pages of 4096 bytes, kernel of 100000 bytes"
        by "mkbootimg" "mkbootimg":
        "mkbootimg --kernel data --ramdisk fit --pagesize 4096 --board 'a name' -o image"
    "Android boot image" File false "version 2"
        by "mkbootimg" "mkbootimg":
        "mkbootimg --header_version 2 --kernel data --ramdisk fit --dtb data --cmdline 'a=b' -o image"
    "Android boot image" File false "version 3, kernel of 100000 bytes, ramdisk of 600 bytes, \"a=b\""
        by "mkbootimg" "mkbootimg":
        "head -c 600 data > disk\n\
         mkbootimg --header_version 3 --kernel data --ramdisk disk --cmdline 'a=b' -o image"
    "Android sparse image" File false "an image of 1048576 bytes in "
        by "android-sdk-libsparse-utils" "img2simg":
        "truncate -s 1M data\nimg2simg data image"
    "gzip" Open false "a gzip stream of \"data\", made " by "gzip" "gzip": "gzip -c data > image"
    "gzip" Open false "a gzip stream" by "gzip" "gzip": "gzip -n < data > image"
    "xz" Open true "an xz stream, CRC-32" by "xz-utils" "xz": "xz -C crc32 < data > image"
    "lzma" Open false "an lzma stream" by "xz-utils" "xz": "xz --format=lzma < data > image"
    "zstd" Open false "a zstd frame of 100000 bytes" by "zstd" "zstd": "zstd data -o image"
    "zstd" Open false "a zstd frame" by "zstd" "zstd": "zstd < data > image"
    "cpio" Padded(512) false "an archive of 4 entries"
        by "cpio" "cpio": "find tree | cpio -o -H newc > image"
    "cpio" Padded(512) false "an archive of 4 entries"
        by "cpio" "cpio": "find tree | cpio -o -H crc > image"
    "ELF" File false "bits, little-endian" by "coreutils" "true": "cp $(readlink -f /bin/true) image"
    "exFAT" File true "clusters of 4096 bytes"
        by "exfatprogs" "mkfs.exfat": "truncate -s 8M image\nmkfs.exfat image"
    "NTFS" Padded(4096) false "NTFS, serial number "
        by "ntfs-3g" "mkntfs": "truncate -s 8M image\nmkntfs -F -q image"
    "XFS" File true "XFS version 5, blocks of 4096 bytes, label \"a-name\""
        by "xfsprogs" "mkfs.xfs": "truncate -s 300M image\nmkfs.xfs -q -L a-name image"
    "XFS" File false "XFS version 4, blocks of 4096 bytes"
        by "xfsprogs" "mkfs.xfs": "truncate -s 300M image\nmkfs.xfs -q -m crc=0 image"
    "LUKS" Open false "LUKS version 1, aes-xts-plain64, UUID "
        by "cryptsetup-bin" "cryptsetup":
        "truncate -s 20M image\n\
         echo p | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 image -"
    "LUKS" Open false "LUKS version 2, label \"a name\", UUID "
        by "cryptsetup-bin" "cryptsetup":
        "truncate -s 20M image\n\
         echo p | cryptsetup luksFormat -q --type luks2 --label 'a name' --pbkdf pbkdf2 \
         --pbkdf-force-iterations 1000 image -"
    "EROFS" File true "EROFS \"\", blocks of 4096 bytes, 4 inodes"
        by "erofs-utils" "mkfs.erofs": "mkfs.erofs image tree"
    "btrfs" File true "btrfs, label \"a name\", 1 device"
        by "btrfs-progs" "mkfs.btrfs": "truncate -s 200M image\nmkfs.btrfs -L 'a name' image"
    "ISO 9660" File false "ISO 9660, volume \"A_NAME\""
        by "genisoimage" "genisoimage": "genisoimage -quiet -V A_NAME -o image tree"
    "swap" File false "Linux swap, pages of 4096 bytes, label \"a name\""
        by "util-linux" "mkswap": "truncate -s 1M image\nmkswap -p 4096 -L 'a name' image"
    "swap" File false "pages of 65536 bytes"
        by "util-linux" "mkswap": "truncate -s 4M image\nmkswap -p 65536 image"
    "Minix" File false "Minix version 1, names of 14 bytes"
        by "util-linux" "mkfs.minix": "truncate -s 4M image\nmkfs.minix -1 -n 14 image"
    "Minix" File false "Minix version 2, names of 30 bytes"
        by "util-linux" "mkfs.minix": "truncate -s 9M image\nmkfs.minix -2 -n 30 image"
    "Minix" File false "Minix version 3, names of 60 bytes"
        by "util-linux" "mkfs.minix": "truncate -s 9M image\nmkfs.minix -3 image"
    "GPT" Is(34 * 512) true "GPT, sectors of 512 bytes, up to 128 entries"
        by "gdisk" "sgdisk": "truncate -s 8M image\nsgdisk -n 1:2048:4095 image"
    "MBR" Is(512) false "types of its partitions: 0c, 83"
        by "fdisk" "sfdisk": "truncate -s 8M image\nprintf '2048,2048,c\n4096,,83\n' | sfdisk image"
};

/// What scripts work on.
fn inputs(dir: &Path) {
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("directory")).unwrap();
    fs::write(tree.join("a file"), b"contents").unwrap();
    let mut data: Vec<u8> = (0..100_000).map(|at| mix(1, at / 3) as u8).collect();
    fs::write(tree.join("directory/b"), &data[..9000]).unwrap();
    let version = b"\nU-Boot SPL 2023.01 (for a test)\0";
    data[5000..5000 + version.len()].copy_from_slice(version);
    fs::write(dir.join("small"), &data[..20_000]).unwrap();
    fs::write(dir.join("data"), data).unwrap();
    fs::write(
        dir.join("variables"),
        "bootdelay=3\nbootcmd=run a; b\nc=d\n",
    )
    .unwrap();
    let fit = "/dts-v1/; / { description = \"a text\"; images { kernel { type = \"kernel\"; \
               data = /incbin/(\"data\"); arch = \"arm\"; os = \"linux\"; \
               compression = \"none\"; load = <0>; entry = <0>; hash { algo = \"crc32\"; }; }; }; \
               configurations { default = \"one\"; one { kernel = \"kernel\"; }; }; };";
    fs::write(dir.join("fit"), fit).unwrap();
}

impl Made {
    /// Makes the image, and returns its path.
    fn make(&self, dir: &Path) -> std::path::PathBuf {
        find(self.package, self.program);
        inputs(dir);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", self.script]).current_dir(dir);
        let shell = shell.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let output = shell.env("LC_ALL", "C.UTF-8").output().unwrap();
        let script = self.script;
        let status = output.status;
        assert!(status.success(), "{script}: {status}\n{}", printed(&output));
        dir.join("image")
    }
}

/// Bytes of an image, with a few more in front and behind.
fn inside(image: &mut dyn Backing, before: usize) -> Vec<u8> {
    let len = image.len().min(1 << 20) as usize;
    let mut bytes = vec![0xFF; before + len + 100];
    image.read_at(0, &mut bytes[before..before + len]).unwrap();
    bytes
}

/// What is wrong with the answer for an image.
fn wrong(made: &Made, image: &mut dyn Backing) -> Option<String> {
    let file = image.len();
    let found = recognise(image, 0);
    let report = format!(
        "{}\n{found:?}, {:?} of a file of {file}",
        made.script, made.len
    );
    let Some(found) = found else {
        return Some(report);
    };
    let is_long = match made.len {
        Len::File => found.len == Some(file),
        Len::Padded(pad) => found.len.is_some_and(|len| len <= file && len + pad > file),
        Len::Is(len) => found.len == Some(len),
        Len::Open => found.len.is_none(),
    };
    let is_named = found.name == made.name && found.says.contains(made.says);
    let is_right = is_long && is_named && found.proven == made.proven;
    (!is_right).then_some(report)
}

#[test]
fn what_a_tool_made_is_recognised_with_its_length_and_is_a_candidate() {
    let mut failures = Vec::new();
    for made in MADE {
        let dir = tempfile::tempdir().unwrap();
        let mut image = ImageFile::open(&made.make(dir.path())).unwrap();
        failures.extend(wrong(made, &mut image));
        for before in [0, 512, 7 * 4096] {
            let bytes = inside(&mut image, before);
            let is_found = |step| candidates(&bytes, step).contains(&before);
            if !is_found(4) || !is_found(512) {
                failures.push(format!("{}: no candidate at {before}", made.script));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn an_image_is_recognised_at_its_offset_and_nowhere_near() {
    let small = |made: &&Made| !made.script.contains("00M");
    for made in MADE.iter().filter(small) {
        let dir = tempfile::tempdir().unwrap();
        let mut image = ImageFile::open(&made.make(dir.path())).unwrap();
        let before = 3 * 4096;
        let mut bytes = vec![0xFF; before + image.len() as usize];
        image.read_at(0, &mut bytes[before..]).unwrap();
        let found = recognise(&mut bytes, before as u64).map(|found| found.name);
        assert_eq!(found, Some(made.name), "{}", made.script);
        for near in [before - 512, before + 4, before - 4] {
            let found = recognise(&mut bytes, near as u64);
            let found = found.filter(|found| found.name == made.name);
            assert_eq!(found, None, "{} at {near}", made.script);
        }
    }
}

#[test]
fn damaged_images_are_never_proven_by_chance_and_never_panic() {
    let proven = |made: &&Made| !made.script.contains("00M");
    for made in MADE.iter().filter(proven) {
        let dir = tempfile::tempdir().unwrap();
        let mut image = ImageFile::open(&made.make(dir.path())).unwrap();
        let bytes = inside(&mut image, 0);
        for seed in 0..60 {
            let mut damaged = bytes.clone();
            let head = damaged.len().min(2048) as u64;
            for number in 0..1 + seed % 5 {
                let at = mix(seed, number) % head;
                damaged[at as usize] ^= (mix(seed, 100 + number) as u8).max(1);
            }
            let len = damaged.len() as u64;
            damaged.truncate((len - mix(seed, 200) % len * (seed % 2)) as usize);
            let _ = recognise(&mut damaged, 0);
            candidates(&damaged, 1);
        }
    }
}

#[test]
fn a_header_whose_checksum_is_wrong_is_not_proven() {
    let checked = [
        ("U-Boot image", 40),
        ("U-Boot environment", 9),
        ("Allwinner boot loader", 9000),
        ("UBIFS", 100),
        ("cramfs", 5000),
        ("romfs", 100),
        ("xz", 7),
        ("exFAT", 200),
        ("EROFS", 1500),
        ("GPT", 600),
        ("GPT", 1040),
    ];
    for (name, at) in checked {
        let dir = tempfile::tempdir().unwrap();
        let made = MADE.iter().find(|made| made.name == name).unwrap();
        let mut image = ImageFile::open(&made.make(dir.path())).unwrap();
        let mut bytes = vec![0; image.len() as usize];
        image.read_at(0, &mut bytes).unwrap();
        assert!(recognise(&mut bytes, 0).unwrap().proven, "{name}");
        bytes[at] ^= 1;
        let found = recognise(&mut bytes, 0).filter(|found| found.proven);
        assert_eq!(found, None, "{name}");
    }
}

#[test]
fn a_legacy_image_tells_whether_its_data_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let made = MADE.iter().find(|made| made.name == "U-Boot image");
    let mut bytes = fs::read(made.unwrap().make(dir.path())).unwrap();
    bytes[50_000] ^= 1;
    let found = recognise(&mut bytes, 0).unwrap();
    assert!(
        found.says.ends_with("data checksum does not match"),
        "{}",
        found.says
    );
    bytes.truncate(60_000);
    let found = recognise(&mut bytes, 0).unwrap();
    assert!(
        found.says.ends_with("cut short by the end of the image"),
        "{}",
        found.says
    );
}

/// A header by its fields: no tool of Debian makes it.
fn header(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

#[test]
fn squashfs_of_older_versions_and_vendors_is_named() {
    let used = 70_000u64;
    let little = [(28, &[3, 0, 1, 0][..]), (63, &used.to_le_bytes())];
    let big = [(28, &[0, 3, 0, 1][..]), (63, &used.to_be_bytes())];
    let cases = [
        (&b"hsqs"[..], little, "squashfs 3.1, little-endian"),
        (
            b"shsq",
            little,
            "squashfs 3.1, little-endian, a vendor's magic number",
        ),
        (b"sqsh", big, "squashfs 3.1, big-endian"),
        (
            b"qshs",
            big,
            "squashfs 3.1, big-endian, a vendor's magic number",
        ),
    ];
    for (magic, fields, says) in cases {
        let mut bytes = header(4096, &fields);
        bytes[..4].copy_from_slice(magic);
        let found = recognise(&mut bytes, 0).unwrap();
        assert_eq!((found.len, &found.says[..]), (Some(used), says));
    }
}

#[test]
fn a_trx_image_is_proven_by_its_checksum_over_all_that_follows() {
    let len = 5000u32;
    let fields = [
        (0, &b"HDR0"[..]),
        (4, &len.to_le_bytes()),
        (14, &[1, 0]),
        (16, &28u32.to_le_bytes()),
        (20, &2000u32.to_le_bytes()),
    ];
    let mut bytes = header(6000, &fields);
    bytes[28..5000]
        .iter_mut()
        .enumerate()
        .for_each(|(at, byte)| *byte = mix(3, at as u64) as u8);
    let crc = !crc32fast::hash(&bytes[12..5000]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    let says = "TRX version 1, parts at bytes 28, 2000, checksum matches";
    let found = recognise(&mut bytes, 0).unwrap();
    assert_eq!(
        (found.len, &found.says[..], found.proven),
        (Some(5000), says, true)
    );
    bytes[4999] ^= 1;
    let found = recognise(&mut bytes, 0).unwrap();
    assert!(
        !found.proven && found.says.ends_with("does not match"),
        "{}",
        found.says
    );
}

#[test]
fn a_bad_block_table_is_named_in_its_page_and_in_spare_bytes() {
    let mut page = vec![0xFF; 2112];
    page[2056..2061].copy_from_slice(b"1tbB\x05");
    page[3] = 0xFC;
    let says = "Linux's mirror table, version 5, sign 1tbB in the spare bytes of a page of 2048";
    assert_eq!(recognise(&mut page, 0).unwrap().says, says);
    assert_eq!(candidates(&page, 2112), [0]);
    let mut page = vec![0xFF; 2048];
    page[..5].copy_from_slice(b"Bbt0\x01");
    let says = "Linux's main table, version 1, sign Bbt0 in its page";
    assert_eq!(recognise(&mut page, 0).unwrap().says, says);
    page[5..].fill(0);
    assert_eq!(recognise(&mut page, 0), None);
}

#[test]
fn forged_lengths_and_counts_read_no_more_than_there_is() {
    // An archive whose entries never end, a sparse image of four billion chunks, a tree of names.
    let entry = format!(
        "070701{}{:08x}{}{:08x}{:08x}a\0",
        "0".repeat(48),
        0,
        "0".repeat(32),
        2,
        0
    );
    let mut archive = entry.into_bytes().repeat(20_000);
    assert_eq!(
        recognise(&mut archive, 0).map(|found| found.len),
        Some(None)
    );
    let mut sparse = [
        &[
            0x3A, 0xFF, 0x26, 0xED, 1, 0, 0, 0, 28, 0, 12, 0, 0, 16, 0, 0,
        ][..],
        &[0xFF; 12],
    ]
    .concat();
    sparse.extend([0xC3, 0xCA, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0].repeat(90_000));
    assert_eq!(recognise(&mut sparse, 0).unwrap().len, None);
    let mut tree = [0xD00D_FEEDu32, 1 << 30, 56, 1 << 20, 40, 17, 16, 0, 0, 0]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect::<Vec<u8>>();
    tree.resize(56, 0);
    tree.extend([0, 0, 0, 1, b'a', 0, 0, 0].repeat(200_000));
    let found = recognise(&mut tree, 0).unwrap();
    assert!(
        found.says.ends_with("damaged or cut short"),
        "{}",
        found.says
    );
}

#[test]
fn random_bytes_are_hardly_ever_candidates_and_almost_never_recognised() {
    let mut bytes: Vec<u8> = (0..1u64 << 18)
        .flat_map(|at| mix(9, at).to_le_bytes())
        .collect();
    let found = candidates(&bytes, 4);
    assert!(found.len() < 40, "{}", found.len());
    let known: Vec<_> = found
        .iter()
        .filter_map(|at| recognise(&mut bytes, *at as u64))
        .collect();
    assert!(known.iter().all(|known| !known.proven), "{known:?}");
}

#[test]
fn erased_and_zeroed_bytes_have_no_candidates() {
    for byte in [0xFF, 0] {
        let bytes = vec![byte; 1 << 20];
        assert_eq!(candidates(&bytes, 1), []);
        assert_eq!(candidates(&bytes, 0), []);
    }
    assert_eq!(candidates(&[], 512), []);
    assert_eq!(candidates(b"h", 1), []);
}
