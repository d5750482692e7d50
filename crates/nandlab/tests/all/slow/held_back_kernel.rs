//! The cost model on workloads that gave it no cost: instructions on the real kernel's JFFS2, ext3
//! and UBI, and on ours.
//!
//! The costs come from the workloads of `jffs2_costs.sh` and `model_costs.sh`. Never
//! choose one by these rows. Needs the tools of `nandlab-oracle`, and mtd-utils, e2fsprogs, gcc
//! and make; fails naming the Debian package that is missing.

use crate::guest;
use crate::guest::costs::Measured;
use crate::guest::held_back::{self, Kind, On, Workload};
use crate::guest::published;
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_ubi::{Headers, Options, Ubi, VolumeSpec};
use nandlab_workload::files::Look;
use std::collections::BTreeMap;

/// The heading in `docs/kernel-costs.md` under which the table is.
const HEADING: &str = "## Ours beside the kernel";
const UBI_HEADING: &str = "## UBI";
/// Ours and the kernel's are near if one is so many times the other.
const NEAR: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// Rows that are not near, with a reason on the page.
const MISSES: [&str; 1] = ["jffs2-read-2k-linux-text"];

const fn jffs2(
    key: &'static str,
    compression: &'static str,
    kind: Kind,
    [count, bytes]: [u64; 2],
    look: Look,
) -> Workload {
    Workload {
        look,
        ..ext3(key, On::Jffs2(compression), kind, count, bytes)
    }
}

const fn ext3(key: &'static str, on: On, kind: Kind, count: u64, bytes: u64) -> Workload {
    let look = Look::Random;
    Workload {
        key,
        on,
        kind,
        count,
        bytes,
        look,
    }
}

/// On JFFS2, by compression, size and contents.
const JFFS2: [(Workload, &str); 13] = {
    use Kind::{Append, Overwrite, Read};
    use Look::{Random, Text, Zero};
    [
        (
            jffs2(
                "jffs2-append-512-zlib-text",
                "zlib",
                Append,
                [400, 512],
                Text,
            ),
            "write(2) of 512 bytes of text, zlib",
        ),
        (
            jffs2("jffs2-append-512", "none", Append, [400, 512], Random),
            "write(2) of 512 bytes, uncompressed",
        ),
        (
            jffs2("jffs2-append-1k", "none", Append, [400, 1024], Zero),
            "write(2) of 1 KiB, uncompressed",
        ),
        (
            jffs2("jffs2-append-1536", "none", Append, [256, 1536], Random),
            "write(2) of 1536 bytes, uncompressed",
        ),
        (
            jffs2(
                "jffs2-append-16k-zlib-text",
                "zlib",
                Append,
                [40, 16384],
                Text,
            ),
            "write(2) of 16 KiB of text, zlib",
        ),
        (
            jffs2(
                "jffs2-append-16k-linux-text",
                "linux",
                Append,
                [40, 16384],
                Text,
            ),
            "write(2) of 16 KiB of text, by priority",
        ),
        (
            jffs2(
                "jffs2-append-8k-linux-zeros",
                "linux",
                Append,
                [60, 8192],
                Zero,
            ),
            "write(2) of 8 KiB of zeros, by priority",
        ),
        (
            jffs2("jffs2-append-32k", "none", Append, [40, 32768], Random),
            "write(2) of 32 KiB, uncompressed",
        ),
        (
            jffs2("jffs2-read-16k", "none", Read(4096), [30, 16384], Random),
            "read(2) of 16 KiB that the page cache has not, uncompressed",
        ),
        (
            jffs2(
                "jffs2-read-8k-zlib-text",
                "zlib",
                Read(4096),
                [60, 8192],
                Text,
            ),
            "the same of 8 KiB of text, zlib",
        ),
        (
            jffs2(
                "jffs2-read-2k-linux-text",
                "linux",
                Read(4096),
                [200, 2048],
                Text,
            ),
            "the same of 2 KiB of text, by priority",
        ),
        (
            jffs2(
                "jffs2-read-8k-of-1k",
                "none",
                Read(1024),
                [40, 8192],
                Random,
            ),
            "the same of 8 KiB that calls of 1 KiB wrote, uncompressed",
        ),
        (
            jffs2("jffs2-overwrite-2k", "none", Overwrite, [200, 2048], Random),
            "write(2) of 2 KiB over others, uncompressed",
        ),
    ]
};

/// On ext3 on mtdblock: the write, and the fsync behind it.
const EXT3: [(Workload, &str); 12] = {
    use Kind::{OverwriteSynced, Synced};
    const SMALL: On = On::Ext3(1024, 1);
    const LARGE: On = On::Ext3(4096, 4);
    [
        (
            ext3("ext3-1k-2k", SMALL, Synced(0), 60, 2048),
            "write(2) of 2 KiB at the end of a file, blocks of 1 KiB",
        ),
        (
            ext3("ext3-1k-2k", SMALL, Synced(1), 60, 2048),
            "fsync(2) after that",
        ),
        (
            ext3("ext3-1k-8k", SMALL, Synced(0), 60, 8192),
            "write(2) of 8 KiB, blocks of 1 KiB",
        ),
        (
            ext3("ext3-1k-8k", SMALL, Synced(1), 60, 8192),
            "fsync(2) after that",
        ),
        (
            ext3("ext3-1k-over-2k", SMALL, OverwriteSynced(0), 60, 2048),
            "write(2) of 2 KiB over others, blocks of 1 KiB",
        ),
        (
            ext3("ext3-1k-over-2k", SMALL, OverwriteSynced(1), 60, 2048),
            "fsync(2) after that, in the same second",
        ),
        (
            ext3("ext3-4k-8k", LARGE, Synced(0), 60, 8192),
            "write(2) of 8 KiB at the end of a file, blocks of 4 KiB",
        ),
        (
            ext3("ext3-4k-8k", LARGE, Synced(1), 60, 8192),
            "fsync(2) after that",
        ),
        (
            ext3("ext3-4k-32k", LARGE, Synced(0), 40, 32768),
            "write(2) of 32 KiB, blocks of 4 KiB",
        ),
        (
            ext3("ext3-4k-32k", LARGE, Synced(1), 40, 32768),
            "fsync(2) after that",
        ),
        (
            ext3("ext3-4k-over-16k", LARGE, OverwriteSynced(0), 60, 16384),
            "write(2) of 16 KiB over others, blocks of 4 KiB",
        ),
        (
            ext3("ext3-4k-over-16k", LARGE, OverwriteSynced(1), 60, 16384),
            "fsync(2) after that, in the same second",
        ),
    ]
};

/// Attaches of UBI: key, blocks, and blocks of a volume that hold data.
const UBI: [(&str, u32, u32, &str); 3] = [
    (
        "ubi-attach-192",
        192,
        0,
        "an attach to 192 blocks just formatted",
    ),
    ("ubi-attach-256", 256, 0, "the same, 256 blocks"),
    (
        "ubi-attach-256-data",
        256,
        60,
        "the same, of which 60 hold a volume's data",
    ),
];

/// The end of the guest's script: UBI on partitions of its own.
const UBI_SCRIPT: &str = "
umount /mnt
rmmod mtdspy && rmmod nandsim || exit 1
mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts=96,192,256,320 && mp ubi || exit 1
spy 1
attached ubi-attach-96 1
attached ubi-attach-192 2
attached ubi-attach-256 3
attached ubi-attach-320 4
/usr/sbin/ubiattach -m 3 -O 2048 >/dev/null || exit 1
/usr/sbin/ubimkvol /dev/ubi0 -N data -S 60 >/dev/null || exit 1
head -c $((60 * 126976)) /dev/zero | tr '\\0' a >/tmp/data
/usr/sbin/ubiupdatevol /dev/ubi0_0 /tmp/data && /usr/sbin/ubidetach -m 3 >/dev/null || exit 1
user ubi-attach-256-data attach 15 /dev/ubi_ctrl 3
";

/// The first lines load the modules.
const MODULES: &str = "
mp nandcore && mp mtdram total_size=16384 erase_size=128 || exit 1
mp nandsim id_bytes=0xec,0xf1,0x00,0x15 parts=160 || exit 1
mp mtdblock && mp jffs2 && mp ext4 || exit 1
user call-nothing nothing 100 /
";

/// A row of the table.
struct Compared {
    name: String,
    what: &'static str,
    kernel: f64,
    ours: f64,
}

impl Compared {
    fn ratio(&self) -> f64 {
        self.ours / self.kernel
    }

    fn line(&self) -> String {
        let Self {
            name,
            what,
            kernel,
            ours,
        } = self;
        format!(
            "| {name} | {what} | {kernel:.0} | {ours:.0} | {:.2} |\n",
            self.ratio()
        )
    }
}

fn measured() -> Measured {
    let oracle = guest::oracle();
    let workloads = |rows: &[(Workload, &str)]| -> String {
        rows.iter().map(|(workload, _)| workload.script()).collect()
    };
    let script = [
        include_str!("../guest/measure.sh"),
        include_str!("../guest/volumes.sh"),
        MODULES,
        &workloads(&JFFS2),
        "umount /mnt\nspy 0\n",
        &workloads(&EXT3),
        UBI_SCRIPT,
    ]
    .concat();
    let most = 4 << 20;
    let guest = [
        "ubiformat",
        "ubiattach",
        "ubidetach",
        "ubimkvol",
        "ubiupdatevol",
    ]
    .iter()
    .fold(guest::guest(&oracle, &script), |guest, program| {
        guest.program(std::path::Path::new("/usr/sbin").join(program))
    })
    .file("/timed", guest::compiled(include_str!("../guest/timed.c")))
    .file("/words", held_back::contents(Look::Text, most))
    .file("/noise", held_back::contents(Look::Random, most));
    Measured::of(&guest::boot(guest.icount(0)))
}

/// Instructions of our attach, the flash left out.
fn our_attach(blocks: u32, written: u32) -> f64 {
    let spec = preset::find("slc-2k").unwrap().spec();
    let geometry = Geometry {
        blocks,
        ..spec.geometry
    };
    let chip = Chip::new(ChipSpec { geometry, ..spec }).unwrap();
    let options = Options {
        headers: Headers::At(2048),
        ..Options::default()
    };
    let mut ubi = Ubi::format(chip, options).unwrap();
    if written > 0 {
        let spec = VolumeSpec {
            name: "data".into(),
            lebs: written,
            ..VolumeSpec::default()
        };
        let volume = ubi.create_volume(&spec).unwrap();
        (0..written).for_each(|leb| ubi.write(volume, leb, 0, &[b'a'; 2048]).unwrap());
    }
    let ubi = Ubi::attach(ubi.detach().unwrap(), options).unwrap();
    held_back::host().ubi_attach(&ubi.attach_cost()) as f64
}

/// The name of a workload's row.
fn name(workload: &Workload) -> String {
    match workload.kind {
        Kind::Synced(1) | Kind::OverwriteSynced(1) => format!("{}-fsync", workload.key),
        _ => workload.key.to_owned(),
    }
}

/// The kernel's instructions of each row, as a boot counted them.
fn kernels(measured: &Measured) -> BTreeMap<String, f64> {
    let files = JFFS2.iter().chain(&EXT3);
    let calls = files.map(|(workload, _)| (name(workload), workload.kernel(measured)));
    let attach = |key: &str| (key.to_owned(), measured.outside_flash(key, 0));
    calls.chain(UBI.map(|(key, ..)| attach(key))).collect()
}

/// Our numbers beside the kernel's.
fn compared(kernels: &BTreeMap<String, f64>) -> Vec<Compared> {
    let kernel = |name: &str| match kernels.get(name) {
        Some(instructions) => *instructions,
        None => panic!("{HEADING} lacks {name}"),
    };
    let row = |(workload, what): &(Workload, &'static str)| {
        let name = name(workload);
        Compared {
            kernel: kernel(&name),
            name,
            what,
            ours: workload.ours(),
        }
    };
    let attach = |(key, blocks, written, what): &(&str, u32, u32, &'static str)| Compared {
        name: (*key).to_owned(),
        what,
        kernel: kernel(key),
        ours: our_attach(*blocks, *written),
    };
    let files = JFFS2.iter().chain(&EXT3).map(row);
    files.chain(UBI.iter().map(attach)).collect()
}

/// The attaches that gave UBI its costs, as the page has them.
fn assert_attaches(measured: &Measured) {
    let of = |key| measured.outside_flash(key, 0);
    let first = of("ubi-attach-96");
    let block = (of("ubi-attach-320") - first) / (320.0 - 96.0);
    println!("ubi-attach-96 {first:.0}, ubi-attach-block {block:.0}");
    published::assert_near(
        UBI_HEADING,
        &[("ubi-attach-96", first), ("ubi-attach-block", block)],
    );
}

/// Fails if a row is not near, or not as the page has it.
fn assert_near(rows: &[Compared]) {
    let head = "| name | workload | kernel | ours | ours / kernel |\n|---|---|---:|---:|---:|\n";
    let table = rows
        .iter()
        .fold(head.to_owned(), |text, row| text + &row.line());
    println!("{table}");
    for row in rows {
        let is_miss = MISSES.contains(&&row.name[..]);
        assert_eq!(NEAR.contains(&row.ratio()), !is_miss, "{}", row.line());
    }
    published::assert_compared(HEADING, &table);
}

#[test]
fn the_model_is_near_what_was_published_of_the_kernel() {
    assert_near(&compared(&published::kernels(HEADING)));
}

#[test]
#[ignore = "counts paths of the kernel once more: `cargo xtask test whole` runs it"]
fn the_model_is_near_the_kernel_where_nothing_was_calibrated() {
    let measured = measured();
    assert_near(&compared(&kernels(&measured)));
    assert_attaches(&measured);
}
