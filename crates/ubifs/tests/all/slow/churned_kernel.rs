//! The real kernel writes nearly full volumes at random, and we read what it leaves: after an
//! unmount, after a power cut that UBIFS itself emulates, and after the recovery. A cut may tear a
//! write. Our tree is the kernel's, which mounts the same bytes.
//!
//! A plain run takes one form of each page size, a sample one form. `NANDLAB_UBIFS_CALLS=COUNT`
//! takes every form with `COUNT` operations, half of them before the unmount;
//! `NANDLAB_UBIFS_FORMS=TEXT` only those whose names contain `TEXT`.
//!
//! Needs the tools of `nandlab-oracle`, mtd-utils, and gcc with libc6-dev; fails naming the Debian
//! package that is missing.

use super::forms::{self, Form, calls, first_lines};
use super::ubifs_kernel::guest;
use crate::chips::{Dump, mounted};
use nandlab_oracle::Report;
use nandlab_oracle::manifest::differences;
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::{kernel, tools, xattrs};
use nandlab_ubifs::{UbiLebs, Ubifs};
use nandlab_vfs::{Caller, Errno, FileSystem as _, Ino, NewNode, Time};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

const STATES: [&str; 3] = ["clean", "cut", "after"];
/// Operations on a volume in a plain run.
const USUAL: u64 = 1200;
/// Dumps lie at multiples of this.
const UNIT: usize = 64 << 10;
/// The limit of a boot: a guest without hardware support is slow.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

#[test]
fn nearly_full_volumes_of_the_kernel_are_read_after_every_end() {
    match calls() {
        Some(calls) => forms::chosen().chunks(1).for_each(|one| judge(one, calls)),
        None => judge(&forms::few(), USUAL),
    }
}

fn judge(forms: &[Form], calls: u64) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("disk");
    let disk = File::create(&path).unwrap();
    let mut script = String::from(include_str!("life.sh"));
    script += include_str!("churn.sh");
    script += "mp ubi && mp ubifs && mount -t debugfs d /sys/kernel/debug && traced || exit 1\n";
    let mut places = Vec::new();
    let mut place = 0;
    for form in forms {
        let step = form.chip.bytes() / UNIT;
        if form.is_big {
            disk.write_all_at(&form.empty(), (place * UNIT) as u64)
                .unwrap();
        }
        script += &line(form, place, step, calls / 2);
        places.push(place * UNIT);
        place += step * STATES.len();
    }
    disk.set_len((place * UNIT) as u64).unwrap();
    let guest = guest(&path).file("/churn", tools::compiled(include_str!("churn.c")));
    let report = kernel::boot(guest.timeout(PATIENCE).script(script));
    let disk = File::open(path).unwrap();
    let mut wrong = Vec::new();
    for (form, place) in forms.iter().zip(places) {
        println!("{}", said(&report, &form.key(), calls));
        for (state, name) in STATES.iter().enumerate() {
            let mut dump = vec![0; form.chip.bytes()];
            let at = place + state * dump.len();
            disk.read_exact_at(&mut dump, at as u64).unwrap();
            let key = format!("{}-{name}", form.key());
            forms::keep(&key, &dump);
            if let Err(why) = same(&report, form, &key, dump) {
                wrong.push(format!("{key}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The part of the script for one form.
fn line(form: &Form, place: usize, step: usize, calls: u64) -> String {
    let key = form.key();
    let lpt = form.lpt();
    let compressor = form.compressor_name();
    let page = form.chip.page;
    let blocks = form.chip.blocks;
    let nandsim = form.chip.nandsim;
    format!(
        "churned {key} {place} {step} {lpt} {compressor} {calls} {page} {nandsim} parts={blocks} \
         || {{ echo {key} failed; dmesg | tail -20; exit 1; }}\n"
    )
}

/// The kernel's counters of a form, which must show that its mechanisms were at work.
fn said(report: &Report, key: &str, calls: u64) -> String {
    let value = |name: &str| report.value(&format!("{key}-{name}")).unwrap_or("nothing");
    let number = |name: &str| value(name).parse::<u64>().unwrap();
    let text = format!(
        "{key}: {}; {}; until the cut {}; {} commits, {} blocks collected",
        value("first"),
        value("second"),
        value("third"),
        value("commits"),
        value("collected"),
    );
    let counters = [number("commits"), number("collected")];
    assert!(
        counters.iter().all(|count| *count > calls / 100),
        "{text}, expected more than {}",
        calls / 100
    );
    text
}

/// Compares what we see in a dump with what the kernel saw.
fn same(report: &Report, form: &Form, key: &str, dump: Vec<u8>) -> Result<(), String> {
    let mut fs = mounted(form.chip, dump).map_err(|error| error.to_string())?;
    if fs.head().has_big_lpt() != form.is_big {
        return Err("the properties tree has the other form".into());
    }
    if fs.journal().in_use != key.ends_with("cut") {
        return Err(format!("{:?}", fs.journal()));
    }
    compared(report, key, &mut fs)?;
    let mut fs = Ubifs::mount_writable(fs.into_lebs()).map_err(|error| error.to_string())?;
    compared(report, key, &mut fs).map_err(|why| format!("mounted to write: {why}"))?;
    changed(fs).map_err(|why| format!("changed: {why}"))
}

/// Writes as many bytes to a volume of the kernel as it has, and removes them again.
fn changed(mut fs: Ubifs<UbiLebs<Dump>>) -> Result<(), String> {
    let by = Caller::root(Time::new(1_700_000_000));
    let bytes = nandlab_testkit::files::bytes(1, 30_000);
    let main = fs.head().geometry.main_bytes() as usize;
    let name = b"a file of ours";
    make_space(&mut fs, 3 * bytes.len() as u64)?;
    for round in 0..main / bytes.len() {
        let error = |why: Errno| format!("round {round}: {why}");
        let made = fs.create(Ino::ROOT, name, NewNode::File, 0o644, by);
        let made = made.map_err(error)?;
        let done = fs.write(made.ino, 0, &bytes, by.now).map_err(error)?;
        fs.forget(made.ino, 1);
        if done < bytes.len() {
            return Err(format!("round {round}: only {done} bytes found space"));
        }
        fs.unlink(Ino::ROOT, name, by.now).map_err(error)?;
    }
    println!("{:?}", fs.counts());
    fs.unmount().map_err(|why| why.to_string())?;
    let mut fs = Ubifs::mount(fs.into_lebs()).map_err(|error| error.to_string())?;
    sound(&mut fs)
}

fn compared(report: &Report, key: &str, fs: &mut Ubifs<UbiLebs<Dump>>) -> Result<(), String> {
    first_lines(&differences(&report.manifests[key], &manifest(fs)))?;
    let attributes = xattrs::sent(&report.files[&format!("{key}-attributes")]);
    first_lines(&xattrs::differences(&attributes, &xattrs::seen(fs)))?;
    sound(fs)
}

/// Removes files until so many bytes are free to us. We keep more spare blocks than Linux does.
fn make_space(fs: &mut Ubifs<UbiLebs<Dump>>, bytes: u64) -> Result<(), String> {
    for number in 0..400 {
        let space = fs.statfs().map_err(|why| why.to_string())?;
        if space.available * u64::from(space.block_bytes) >= bytes {
            return Ok(());
        }
        let name = format!("ballast {number}");
        match fs.unlink(Ino::ROOT, name.as_bytes(), Time::new(1_700_000_000)) {
            Ok(()) | Err(Errno::NoEntry) => {}
            Err(why) => return Err(format!("{name}: {why}")),
        }
    }
    Err(format!(
        "the files were removed, expected {bytes} bytes free"
    ))
}

fn sound(fs: &mut Ubifs<UbiLebs<Dump>>) -> Result<(), String> {
    let findings = fs.check().findings;
    let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
    first_lines(&said.join("\n"))
}
