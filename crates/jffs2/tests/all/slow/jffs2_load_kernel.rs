//! Media that the kernel has used hard, unmounted or cut off: what we read of one is what the
//! kernel reads of it.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use crate::common::{NAND, manifest, nor_of, read_only};
use crate::guest;
use crate::guest::calls::{Call, Calls, Load, bytes};
use nandlab_jffs2::{Jffs2, Severity};
use nandlab_mtd::{Image, Mtd};
use nandlab_oracle::Report;
use nandlab_oracle::manifest::differences;
use nandlab_testkit::share::whole_or;
use std::collections::BTreeSet;
use std::path::Path;

/// Erase blocks of 128 KiB, on NOR and on NAND.
fn blocks() -> u32 {
    whole_or(32, 14)
}
const BLOCK: u32 = 128 * 1024;
/// The calls come in so many parts; after each the medium is taken as a cut would leave it.
fn parts() -> usize {
    whole_or(4, 2)
}

/// The calls of all parts.
fn call_count() -> usize {
    whole_or(6400, 2800)
}

/// A life of a medium, LIVE; COPY is another of the same kind, on which the kernel sees what is
/// left of it. Without writing: its collector may move the reference to a replaced attribute, which
/// then has a higher number than the one that replaced it, and counts again.
const LIFE: &str = r#"
    look() { # MTD KEY
        mount -t jffs2 -o ro $1 /copy && manifest /copy $2 && attributes /copy $2 && umount /copy
    }
    life() { # KIND LIVE COPY
        local kind=$1 live=$2 copy=$3 part
        mount -t jffs2 $live /mnt || return 1
        for part in PARTS; do
            /play calls /mnt /calls$part && stopped $live && : >/mnt/last$part && ${kind}_into $live /tmp/dump && going $live && passes $live 20 || return 1
            send $kind-cut$part /tmp/dump && ${kind}_from $copy /tmp/dump && look $copy $kind-cut$part || return 1
        done
        umount /mnt && ${kind}_into $live /tmp/dump && send $kind-clean /tmp/dump && look $live $kind-clean
    }
"#;

/// Linux takes the newest version of a value, and loses the attribute if a cut has torn it. We take
/// the version before, which is whole.
const TORN_VALUE: &str = "do_load_xattr_datum: node CRC failed";

fn load() -> Load {
    Load {
        seed: 11,
        files: 150,
        file_bytes: 120_000,
        live_bytes: whole_or(2_900_000, 900_000),
        fsync_each: 15,
        xattrs: true,
    }
}

/// What we read is what the kernel read.
fn compare<M: Mtd>(report: &Report, key: &str, mut fs: Jffs2<M>) {
    let theirs = &report.manifests[key];
    assert!(theirs.len() > 60, "{key}: a tree worth comparing");
    assert_eq!(differences(theirs, &manifest(&mut fs)), "", "{key}");
    let attributes = guest::attributes(&report.files[&format!("{key}-attributes")]);
    assert!(attributes.len() > 10, "{key}: attributes worth comparing");
    let mut ours = guest::attributes_of(&mut fs);
    let lost = ours
        .iter()
        .filter(|(key, _)| !attributes.contains_key(*key));
    let values: BTreeSet<_> = lost.map(|((_, name), value)| (name, value)).collect();
    // Linux warns of each value once; several files may share it.
    if values.len() <= report.console.matches(TORN_VALUE).count() {
        ours.retain(|key, _| attributes.contains_key(key));
    }
    assert_eq!(
        guest::attribute_differences(&attributes, &ours),
        "",
        "{key}"
    );
    let check = fs.check().unwrap();
    assert!(
        check.worst() <= Some(Severity::Waste),
        "{key}: {:?}",
        check.findings
    );
}

#[test]
fn what_the_kernel_left_after_much_work_reads_as_the_kernel_reads_it_cut_off_or_not() {
    let blocks = blocks();
    let parts = parts();
    let calls: Vec<Call> = Calls::new(load()).take(call_count()).collect();
    let noise: usize = calls
        .iter()
        .map(|call| {
            if let Call::Write { len, seed, .. } = call {
                len * usize::from(seed % 4 < 2)
            } else {
                0
            }
        })
        .sum();
    assert!(
        noise > (blocks * BLOCK) as usize * 3 / 2,
        "{noise} bytes that cannot be compressed: more than fit, so that much was collected"
    );
    assert!(bytes(3, 5000) != bytes(4, 5000));
    let mut machine = guest::guest("");
    for (part, calls) in calls.chunks(calls.len() / parts).enumerate() {
        machine = machine.file(
            format!("/calls{part}"),
            calls
                .iter()
                .map(|call| format!("{call}\n"))
                .collect::<String>(),
        );
    }
    let script = format!(
        "mkdir /copy; echo 360000 >/proc/sys/vm/dirty_writeback_centisecs
         mp brd rd_nr=1 rd_size={kib} && simulated {blocks},{blocks} erase && mp mtdram total_size={kib} erase_size=128 &&
            mp block2mtd block2mtd=/dev/ram0,128KiB && mp mtdblock && mp jffs2 && cat /proc/mtd || exit 1
         life nor mtd3 mtd4 || exit 1
         life nand mtd0 mtd1 || exit 1
         say erases $(erases)\n",
        kib = blocks * BLOCK / 1024
    );
    let numbers: Vec<String> = (0..parts).map(|part| part.to_string()).collect();
    let life = LIFE.replace("PARTS", &numbers.join(" "));
    let report = guest::boot(machine.script([guest::FUNCTIONS, &life, &script].concat()));
    let erases: u32 = report.value("erases").unwrap().parse().unwrap();
    println!(
        "{} calls, {noise} bytes of noise, {erases} erases of NAND",
        calls.len()
    );
    // Two media at least were written anew, and the copies erased for each dump.
    assert!(erases > blocks * (parts as u32 + 3), "{erases} erases");
    let cuts = numbers.iter().map(|number| format!("cut{number}"));
    for part in cuts.chain(["clean".into()]) {
        let [nor, nand] = ["nor", "nand"].map(|kind| format!("{kind}-{part}"));
        compare(
            &report,
            &nor,
            read_only(nor_of(report.files[&nor].clone(), BLOCK)),
        );
        compare(
            &report,
            &nand,
            read_only(Image::new(report.files[&nand].clone(), NAND).unwrap()),
        );
    }
    // The call before a cut: NOR has no buffer, on NAND its name waits for the rest of a page.
    for part in 0..parts {
        let last = format!("./last{part}");
        let has = |kind: &str, last: &str| {
            report.manifests[&format!("{kind}-cut{part}")].contains_key(Path::new(last))
        };
        assert!(has("nor", &last) && !has("nand", &last), "cut {part}");
    }
}
