//! The real kernel's nftl on our media, and ours on its; and what the kernel's paths cost in
//! instructions.
//!
//! Needs the tools of `nandlab-oracle`, and mtd-utils, dosfstools, e2fsprogs, gcc and make; fails
//! naming the Debian package that is missing. The kernel has no simulated flash that nftl could use
//! (the first test says why), so that a module of ours, built for the guest's kernel, is one.

use crate::guest;
use crate::guest::{
    costs,
    media::{self, Shape},
    published,
};
use nandlab_ftl::nftl::{NftlOptions, Ordering};
use nandlab_oracle::{Disk, Report, manifest};
use nandlab_testkit::share::whole_or;
use std::{collections::BTreeMap, fs, path::Path};

/// nftl takes only devices whose name begins with "DiskOnChip" (`nftl_add_mtd`,
/// drivers/mtd/nftlcore.c:43). nandsim's have other names, and user space cannot give them one:
/// nandsim registers none but its own partitions (nand/raw/nandsim.c:2367), of which BLKPG makes no
/// further ones (`mtdchar_blkpg_ioctl`, mtdchar.c:556), and Debian has no cmdlinepart.
///
/// Under a name that a module gives, nftl attaches what nftl_format made, and loses what it writes:
/// it keeps a sector's status in spare bytes 6 and 7 (`struct nftl_bci`,
/// include/uapi/mtd/nftl-user.h; written with the page by `nftl_write`, nftlcore.c:167), where the
/// error correction of nandsim's small pages puts its own bytes (`nand_ooblayout_ecc_sp`,
/// nand/ecc.c:163: bytes 0 to 3, and from 6 on) over what was given. All data are on the flash and
/// no error is reported, but no sector is found again.
#[test]
#[ignore = "tests the kernel, not our layer: `cargo xtask test whole` runs it"]
fn nandsim_cannot_carry_nftl_since_its_ecc_lies_where_nftl_keeps_its_status() {
    let oracle = guest::oracle();
    let script = r#"
        mp nandsim id_bytes=0x98,0x73 && mp nftl || exit 1
        say name $(cat /sys/class/mtd/mtd0/name)
        /usr/sbin/mtdpart add /dev/mtd0 "DiskOnChip" 0 4194304 2>/dev/null; say refused $?
        insmod /docname.ko && /usr/sbin/flash_erase -q /dev/mtd1 0 0 && rmmod nftl && /usr/sbin/nftl_format /dev/mtd1 >/dev/null && attach || exit 1
        dd if=/noise of=/dev/nftla bs=4k count=1 conv=fsync status=none; say written $?
        echo 3 >/proc/sys/vm/drop_caches
        dd if=/dev/nftla of=/tmp/back bs=4k count=1 status=none; say read $?
        send back /tmp/back
        rmmod nftl && /usr/sbin/nanddump -q -o -n -f /tmp/raw /dev/mtd1 && send raw /tmp/raw
    "#;
    let noise = guest::noise(4096);
    let guest = guest::guest(&oracle, script)
        .program("/usr/sbin/mtdpart")
        .file("/noise", noise.clone());
    let report = guest::boot(guest);
    assert_eq!(report.value("name"), Some("NAND simulator partition 0"));
    assert_ne!(report.value("refused"), Some("0"));
    assert_eq!(
        [report.value("written"), report.value("read")],
        [Some("0"); 2],
        "no error"
    );
    assert_eq!(report.files["back"].len(), 4096);
    for (number, sector) in noise.chunks(512).enumerate() {
        assert_eq!(
            report.files["back"][number * 512..][..512],
            [0; 512],
            "sector {number} is found"
        );
        let page = report.files["raw"]
            .chunks(528)
            .find(|page| page[..512] == *sector);
        let page = page.unwrap_or_else(|| panic!("sector {number} is not on the flash"));
        assert_ne!(page[518..520], [0x55; 2], "the status of sector {number}");
        assert_eq!(
            page[512 + 4..][..2],
            [0xFF; 2],
            "what lies between the two parts of the ECC"
        );
    }
}

/// Shell: a file system of the kernel's on nftl; TYPE UNITS PAGES, then erase blocks that are bad
/// from the beginning.
const LIFE: &str = r#"
    mp vfat; mp ext4; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii
    rewritten() { for n in 1 2 3 4; do dd if=/noise of=/mnt/again bs=64k skip=$n count=12 conv=notrunc,fsync status=none || return 1; done; }
    life() {
        local type=$1 units=$2 pages=$3 options=
        shift 3
        [ $type = vfat ] && options=utf8,tz=UTC
        formatted $units $pages "$@" && attach && /usr/sbin/mkfs.$type /dev/nftla >/dev/null 2>&1 && mount -t $type -o "$options" /dev/nftla /mnt &&
            tree 50 && change 50 && rewritten && manifest /mnt $type && umount /mnt && disk $type && detach $type && judged $type && gone ||
            { echo "$type failed"; exit 1; }
    }
"#;

#[test]
fn every_sector_that_the_kernel_wrote_is_found_by_our_layer() {
    let vfat = Shape {
        units: 1024,
        pages: 16,
    };
    let ext2 = Shape {
        units: 512,
        pages: 32,
    };
    let script = format!(
        "{}{LIFE}life vfat 1024 16 5 77 1000\nlife ext2 512 32\n",
        include_str!("../common/tree.sh")
    );
    let report =
        guest::boot(guest::guest(&guest::oracle(), &script).file("/noise", guest::noise(8 << 20)));
    println!("{:?}", report.values);
    assert_eq!(
        report.values["raised"], ["0"; 2],
        "a program of a bit from zero to one"
    );
    for (name, shape) in [("vfat", vfat), ("ext2", ext2)] {
        let [medium, theirs, chains] =
            ["medium", "disk", "chains"].map(|what| &report.files[&format!("{name}-{what}")]);
        let chains = media::listed_chains(chains);
        assert!(
            chains.iter().any(|(_, units)| *units > 1),
            "{name}: no chain has a replacement unit"
        );
        let mut disk = shape.attach(medium);
        let ours = media::read_out(&mut disk);
        assert!(
            theirs.len() > 4 << 20 && theirs.chunks(512).any(|sector| sector != [0; 512]),
            "{name}: a disk worth comparing"
        );
        assert_eq!(media::differences(&ours, theirs), [0; 0], "{name}");
        if name == "vfat" {
            let tree = media::without_root_time(&report.manifests[name]);
            assert!(tree.len() > 40, "{} entries", tree.len());
            assert_eq!(
                manifest::differences(&tree, &media::fat_manifest(&mut disk)),
                ""
            );
            assert_eq!(
                media::differences(
                    &media::as_dumped(&ours, shape, &chains),
                    &report.files["vfat-nftldump"]
                ),
                [0; 0],
                "nftldump"
            );
        }
    }
}

/// Shell: the kernel looks at a medium of ours; KEY UNITS PAGES DISK, and `vfat` if it is to go on
/// with a FAT volume, `write` with sectors, `nftldump` if that is to read the medium before.
const LOOK: &str = r#"
    mp vfat; mp nls_cp437; mp nls_iso8859-1; mp nls_ascii
    look() {
        local key=$1
        flash $2 $3 $4 || return 1
        shift 4
        case "$*" in *nftldump*) judged $key || return 1 ;; esac
        dmesg -c >/dev/null && attach && dmesg -c >/tmp/dmesg && send $key-attached /tmp/dmesg && disk $key || return 1
        case "$*" in *vfat*) go_on $key || return 1 ;; esac
        case "$*" in *write*) write_on && disk $key-more || return 1 ;; esac
        detach $key && gone
    }
    # The first sector of every unit of 16, so that chains get units that were free. Not in order: what is left of a fold must not come back to where it was right.
    write_on() {
        local units=$(($(cat /sys/block/nftla/size) / 16))
        local half=$((units / 2))
        echo "nftl-write $((units - half)) $((half * 16)) 16" >/dev/costs && echo "nftl-write $half 0 16" >/dev/costs
    }
    go_on() {
        /usr/sbin/fsck.vfat -n /dev/nftla >/tmp/fsck; say $1-fsck $? $(tr '\n' ' ' </tmp/fsck)
        mount -t vfat -o utf8,tz=UTC /dev/nftla /mnt && manifest /mnt $1-found && rm "/mnt/file number 1" &&
            dd if=/noise of="/mnt/file number 3" bs=30000 count=1 conv=notrunc,fsync status=none && mkdir "/mnt/made by the kernel" &&
            for n in 1 2 3 4 5 6; do dd if=/noise of="/mnt/made by the kernel/again" bs=64k skip=$n count=4 conv=notrunc,fsync status=none || return 1; done &&
            manifest /mnt $1-left && umount /mnt && disk $1-left
    }
"#;

#[test]
fn every_sector_that_we_wrote_is_found_by_the_kernel_and_what_it_adds_by_us() {
    let shape = Shape {
        units: 256,
        pages: 16,
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut guest = guest::guest(&guest::oracle(), "").file("/noise", guest::noise(1 << 20));
    let mut script = LOOK.to_owned();
    let mut dumps = Vec::new();
    // nftldump reads the first copy of each field alone. That of a link holds the unit before, in a
    // chain's last unit of a guarded medium, which nftldump follows round and round.
    for (ordering, disk, judges) in [
        (Ordering::Guarded, "vda", "vfat"),
        (Ordering::Linux, "vdb", "vfat nftldump"),
    ] {
        let dump = media::fat_life(
            shape,
            NftlOptions {
                spare_units: 16,
                ordering,
                ..NftlOptions::default()
            },
        )
        .into_backing();
        fs::write(scratch.path().join(disk), &dump).unwrap();
        guest = guest.disk(Disk::File(scratch.path().join(disk)));
        script += &format!(
            "look {ordering:?} {} {} /dev/{disk} {judges} || exit 1\n",
            shape.units, shape.pages
        );
        dumps.push((ordering, dump));
    }
    let report = guest::boot(guest.script([guest::FUNCTIONS, &script].concat()));
    // The kernel links a further unit over the number of the unit before, in one of the two fields
    // of a link that holds; a reader takes both together.
    let raised: Vec<u32> = report.values["raised"]
        .iter()
        .map(|bytes| bytes.parse().unwrap())
        .collect();
    assert!(
        raised[0] < 100 && raised[1] == 0,
        "programs of a bit from zero to one: {raised:?}"
    );
    for (ordering, dump) in dumps {
        assert_seen_by_the_kernel(&report, &format!("{ordering:?}"), shape, &dump);
    }
    let chains = media::listed_chains(&report.files["Linux-chains"]);
    assert!(
        chains.iter().any(|(_, units)| *units > 1),
        "no chain has a replacement unit"
    );
    let disk = &report.files["Linux-disk"];
    assert_eq!(
        media::differences(
            &media::as_dumped(disk, shape, &chains),
            &report.files["Linux-nftldump"]
        ),
        [0; 0],
        "nftldump"
    );
}

fn assert_seen_by_the_kernel(report: &Report, key: &str, shape: Shape, dump: &[u8]) {
    let file = |what: &str| &report.files[&format!("{key}-{what}")];
    let mut disk = shape.attach(dump);
    let ours = media::read_out(&mut disk);
    let tree = media::fat_manifest(&mut disk);
    assert_eq!(
        media::differences(&ours, file("disk")),
        [0; 0],
        "{key}, as the kernel reads it"
    );
    assert_eq!(
        attach_messages(report, key),
        "",
        "{key}: the kernel had nothing to repair"
    );
    assert!(
        report
            .value(&format!("{key}-fsck"))
            .is_some_and(|said| said.starts_with("0 ")),
        "{key}: {:?}",
        report.values
    );
    assert!(tree.len() > 24);
    assert_eq!(
        manifest::differences(
            &tree,
            &media::without_root_time(&report.manifests[&format!("{key}-found")])
        ),
        "",
        "{key}"
    );
    let mut disk = shape.attach(file("medium"));
    assert_eq!(
        media::differences(&media::read_out(&mut disk), file("left-disk")),
        [0; 0],
        "{key}: what the kernel left"
    );
    let left = media::without_root_time(&report.manifests[&format!("{key}-left")]);
    assert!(
        left.contains_key(Path::new("./made by the kernel/again"))
            && !left.contains_key(Path::new("./file number 1"))
    );
    assert_eq!(
        manifest::differences(&left, &media::fat_manifest(&mut disk)),
        "",
        "{key}"
    );
}

/// What nftl said when it attached: what it found unfinished, and did about it.
fn attach_messages(report: &Report, key: &str) -> String {
    let said = String::from_utf8_lossy(&report.files[&format!("{key}-attached")]);
    let of_nftl = |line: &&str| {
        ["Block ", "block ", "chain", "ormat"]
            .iter()
            .any(|word| line.contains(word))
    };
    said.lines()
        .filter(of_nftl)
        .map(|line| line.split_once("] ").map_or(line, |(_, said)| said))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Cuts of each fold.
fn cuts_each() -> u64 {
    whole_or(10, 3)
}

#[test]
fn a_medium_cut_in_the_middle_of_a_fold_is_found_whole_by_the_kernel() {
    let shape = Shape {
        units: 64,
        pages: 16,
    };
    let mut cuts = Vec::new();
    for ordering in [Ordering::Guarded, Ordering::Linux] {
        let options = NftlOptions {
            spare_units: 8,
            ordering,
            ..NftlOptions::default()
        };
        let folds = media::random_life(shape, &options, None)
            .unwrap_or_else(|_| panic!("a cut that nobody made"));
        for in_place in [true, false] {
            let folds: Vec<_> = folds
                .iter()
                .filter(|fold| fold.in_place == in_place)
                .collect();
            let Some(fold) = folds.get(folds.len() / 2) else {
                continue;
            };
            // From the first operation to the last: while sectors are copied, while what is not
            // needed any more is erased, and what the write does then.
            for n in 0..cuts_each() {
                let step = fold.steps.start
                    + (fold.steps.end - 1 - fold.steps.start) * n / (cuts_each() - 1);
                let key = format!(
                    "{ordering:?}-{}-{n}",
                    if in_place { "place" } else { "elsewhere" }
                );
                cuts.push((
                    key,
                    media::random_life(shape, &options, Some(step)).expect_err("a cut"),
                ));
            }
        }
    }
    println!("{} cuts", cuts.len());
    assert_eq!(
        cuts.len() as u64,
        4 * cuts_each(),
        "folds of both kinds in both orders of operations"
    );
    let report = looked_at(shape, &cuts);
    for (key, cut) in &cuts {
        println!("{key}: {}", attach_messages(&report, key));
        assert_found_whole(&report, key, shape, cut);
    }
}

/// Whatever was flushed before the cut is found by the kernel and by us, also when the kernel goes
/// on writing.
fn assert_found_whole(report: &Report, key: &str, shape: Shape, cut: &media::Cut) {
    let theirs = &report.files[&format!("{key}-disk")];
    let ours = media::read_out(&mut shape.attach(&cut.dump));
    for (whose, found) in [("the kernel", theirs), ("our layer", &ours)] {
        let lost: Vec<usize> = media::differences(&cut.kept.concat(), found)
            .into_iter()
            .filter(|sector| *sector != cut.torn)
            .collect();
        assert_eq!(
            lost,
            [0; 0],
            "{key}, as {whose} reads it; the kernel said {}",
            attach_messages(report, key)
        );
    }
    // A fold to another unit has its copies in a unit without a name. Linux takes a unit that has
    // an erase mark and no name for free without a look (`check_and_mark_free_block`, nftlmount.c).
    // So these copies come back in the chain that gets it. Our layer erases such a unit first.
    if key.contains("elsewhere") {
        return;
    }
    let mut written = theirs.clone();
    written
        .chunks_mut(16 * 512)
        .for_each(|unit| unit[..512].fill(0xA5));
    let ours = media::read_out(&mut shape.attach(&report.files[&format!("{key}-medium")]));
    for (whose, found) in [
        ("the kernel", &report.files[&format!("{key}-more-disk")]),
        ("our layer", &ours),
    ] {
        assert_eq!(
            media::differences(&written, found),
            [0; 0],
            "{key}, after the kernel wrote on, as {whose} reads it"
        );
    }
}

/// The kernel attaches the medium of each cut; they lie one after the other on one disk.
fn looked_at(shape: Shape, cuts: &[(String, media::Cut)]) -> Report {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("media");
    fs::write(
        &file,
        cuts.iter()
            .flat_map(|(_, cut)| &cut.dump)
            .copied()
            .collect::<Vec<u8>>(),
    )
    .unwrap();
    let mut script = [LOOK, "mp nandcore && insmod /costs.ko\n"].concat();
    for (n, (key, cut)) in cuts.iter().enumerate() {
        script += &format!(
            "dd if=/dev/vda of=/tmp/one bs={} skip={n} count=1 status=none && look {key} {} {} /tmp/one write || exit 1\n",
            cut.dump.len(),
            shape.units,
            shape.pages
        );
    }
    guest::boot(guest::guest(&guest::oracle(), &script).disk(Disk::File(file)))
}

/// The heading in `docs/kernel-costs.md` under which the table is.
const HEADING: &str = "# What kernel paths cost, in instructions";

#[test]
#[ignore = "counts paths of the kernel, not of ours: `cargo xtask test whole` runs it"]
fn the_kernels_paths_take_the_published_instructions_in_every_boot() {
    let oracle = guest::oracle();
    let script = [
        include_str!("../guest/measure.sh"),
        include_str!("../guest/costs.sh"),
    ]
    .concat();
    let guest = guest::guest(&oracle, &script)
        .file("/timed", guest::compiled(include_str!("../guest/timed.c")));
    let reports = published::counted(&guest);
    println!("{}", oracle.kernel_release());
    assert_requests(&reports[0]);
    published::assert_published(HEADING, &reports, costs::table);
}

/// The table rows say how many requests a call makes: here is where that is looked at.
fn assert_requests(report: &Report) {
    let append = costs::requests(report, "append-requests");
    let overwrite = costs::requests(report, "overwrite-requests");
    // Sixteen appends, of which four take a cluster; the directory's sector is in each, both
    // tables' in four.
    let sector = |request: &str| request.split(' ').nth(1).unwrap().to_owned();
    let mut times = BTreeMap::new();
    append
        .iter()
        .filter(|request| request.starts_with("WS "))
        .for_each(|request| *times.entry(sector(request)).or_insert(0) += 1);
    let mut counts: Vec<i32> = times.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [vec![1; 16], vec![4, 4, 16]].concat(), "{append:?}");
    assert_eq!(
        overwrite
            .iter()
            .filter(|request| request.starts_with("WS "))
            .count(),
        32,
        "{overwrite:?}"
    );
    assert!(
        append
            .iter()
            .chain(&overwrite)
            .all(|request| request.ends_with(" + 1")),
        "{append:?} {overwrite:?}"
    );
    assert_eq!(costs::requests(report, "create-requests"), [""; 0]);
}
