//! The kernel's instructions for the works of the F2FS paper, on ext4 and on F2FS: what
//! `traces/f2fs-paper/processor.txt` says is counted again. `NANDLAB_RESULTS=1` writes it anew.
//!
//! Needs the tools of `nandlab-oracle`, e2fsprogs and f2fs-tools.

use nandlab_oracle::{Oracle, Report};
use nandlab_papers::f2fs_rival::{SET_UP, Work, counted};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A guest without hardware support is slow.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Two nanoseconds for an instruction, much as on the paper's boards: what a timer starts, it
/// starts about as often.
const SHIFT: u8 = 1;
/// How far a count may be from the kept one. Reads moved by 3 % between boots, the
/// rest by less than 1 %.
const TOLERANCE: f64 = 0.05;
/// Instructions below which a difference does not count: 0.8 ms on the paper's boards.
const LEAST: f64 = 500_000.0;

const KEPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../traces/f2fs-paper/processor.txt"
);

const HEADING: &str =
    "# The kernel's instructions for the works of the F2FS paper: WORK EXT4 F2FS PHASE.\n";

/// Each file system, and the command that makes it on the RAM disk.
const SYSTEMS: [(&str, &str); 2] = [
    (
        "ext4",
        "/usr/sbin/mkfs.ext4 -qF -b 4096 -E lazy_itable_init=0,lazy_journal_init=0",
    ),
    ("f2fs", "/usr/sbin/mkfs.f2fs -q -f"),
];

fn works() -> impl Iterator<Item = Work> {
    Work::compared().filter(|work| !work.aged)
}

/// All works in one boot, on a RAM disk that takes no time beside its copies.
fn boot() -> Report {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let player = env!("CARGO_BIN_EXE_play-files");
    let kib = works().map(|work| work.partition()).max().unwrap() / 1024;
    let mut script = String::from("mp ext4 && mp f2fs || exit 1\n");
    for work in works() {
        let key = work.key;
        script +=
            &format!("{player} - f2fs-counted {key} >/dry && send dry-{key} /dry || exit 1\n");
        for (system, make) in SYSTEMS {
            script += &format!(
                "mp brd rd_nr=1 rd_size={kib} && {make} /dev/ram0 >/dev/null && mount -t {system} /dev/ram0 /mnt \
                 && {player} /mnt f2fs-counted {key} >/counted && umount /mnt && rmmod brd \
                 && send {system}-{key} /counted || exit 1\n"
            );
        }
    }
    let guest = oracle
        .guest()
        .program(player)
        .program("/usr/sbin/mkfs.ext4")
        .program("/usr/sbin/mkfs.f2fs")
        .icount(SHIFT)
        .memory(1500)
        .timeout(PATIENCE)
        .script(script);
    let report = guest.run().and_then(Report::success);
    report.unwrap_or_else(|error| panic!("{error}"))
}

/// Instructions by phase, of phases of one name together. No result has the set-up: it is short,
/// and a thread of the kernel that wakes up in it has added as much as 2.5 million.
fn phases(report: &Report, key: &str) -> BTreeMap<String, f64> {
    let text = String::from_utf8(report.files[key].clone()).unwrap();
    let mut phases = BTreeMap::new();
    for line in text.lines() {
        let (time, phase) = line.split_once(' ').expect("`TIME PHASE`");
        let instructions = time.parse::<f64>().unwrap() / f64::from(1 << SHIFT);
        *phases.entry(phase.into()).or_default() += instructions;
    }
    phases.remove(SET_UP);
    phases
}

#[test]
#[ignore = "counts paths of the kernel, not of ours: `cargo xtask test whole` runs it"]
fn the_works_of_the_paper_take_the_kept_instructions_on_both_file_systems() {
    let report = boot();
    println!("guest: {:?}", report.wall);
    let mut text = HEADING.to_string();
    let mut wrong = Vec::new();
    for work in works() {
        let dry = phases(&report, &format!("dry-{}", work.key));
        let both = SYSTEMS.map(|(system, _)| phases(&report, &format!("{system}-{}", work.key)));
        for (phase, dry) in &dry {
            let [ext4, f2fs] = both.each_ref().map(|found| found[phase] - dry);
            writeln!(text, "{} {ext4:.0} {f2fs:.0} {phase}", work.key).unwrap();
            let kept = counted(&work, phase);
            let is_near =
                |found: f64, kept: f64| (found - kept).abs() <= LEAST.max(kept * TOLERANCE);
            if !kept.is_some_and(|[a, b]| is_near(ext4, a) && is_near(f2fs, b)) {
                wrong.push(format!(
                    "{} {phase}: {ext4:.0} {f2fs:.0}, kept {kept:?}",
                    work.key
                ));
            }
        }
    }
    if std::env::var_os("NANDLAB_RESULTS").is_some() {
        std::fs::write(KEPT, text).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
