//! The test images of fsck.ubifs: our check finds each defect, our repair gives the tree that the
//! list says, and the real kernel mounts each repaired volume with all of its own checks at work.
//!
//! The images come from Debian's source package of mtd-utils. `images.txt` lists each of them.
//! Needs the tools of `nandlab-oracle`, mtd-utils, gzip, tar and xz; fails naming the Debian
//! package that is missing.

mod images;

use crate::salvage::contents;
use images::Image;
use nandlab_image::Result;
use nandlab_image::check::{Checked, Severity, Verdict, check};
use nandlab_image::repair::{Repaired, repair};
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::tree::Entry;
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_oracle::manifest::{Manifest, differences};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::kernel;
use nandlab_testkit::manifest::manifest;
use nandlab_testkit::share::whole_or;
use nandlab_vfs::Time;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The list of expectations.
const LIST: &str = include_str!("images.txt");
/// Volumes lie at multiples of this.
const STEP: u64 = 1 << 20;
const UNIT: u64 = 64 << 10;

/// A tree without times: contents and all else by path.
type Tree = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

#[derive(Default)]
struct Keep(Tree);

impl Sink for Keep {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<()> {
        let contents = contents(entry, bytes)?;
        let words = format!(
            "{:?} {:o} {} {} {:?}",
            entry.node, entry.mode, entry.uid, entry.gid, entry.xattrs
        );
        self.0.insert(entry.path.clone(), (words, contents));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn opened(path: &Path, salvage: bool) -> Result<Volume> {
    let opening = Opening {
        salvage,
        ..Opening::default()
    };
    Volume::open(path, &opening, Access::Read)
}

fn tree(path: &Path) -> Result<Tree> {
    let mut volume = opened(path, false)?;
    let mut keep = Keep::default();
    volume.walk(false, &mut |_| {})?.run(b"", &mut keep)?;
    Ok(keep.0)
}

/// The verdict of our check.
fn verdict(checked: &Checked) -> &'static str {
    match (checked.verdict(), checked.worst()) {
        (Verdict::NotSupported, _) => "refused",
        (Verdict::Damaged, _) => "damaged",
        (_, Some(Severity::Waste)) => "waste",
        _ => "sound",
    }
}

/// The outcome of our repair.
fn outcome(repaired: &Repaired) -> &'static str {
    match (repaired.replaced, repaired.lost.is_empty()) {
        (true, true) => "whole",
        (true, false) => "lossy",
        _ if verdict(&repaired.before) == "sound" => "-",
        _ => "not",
    }
}

/// The row of an image in the list. Leaves the repaired volume at `path`.
fn row(image: &Image, path: &Path, good: &Tree) -> String {
    fs::write(path, image.volume()).unwrap();
    let checked = check(&mut opened(path, true).unwrap()).unwrap();
    let repaired = repair(path, &Opening::default(), Time::new(1_700_000_000)).unwrap();
    let tree = tree(path);
    let tree = match &tree {
        Ok(tree) if tree == good => "same",
        Ok(_) => "other",
        Err(_) => "-",
    };
    println!(
        "{}: {:?} {:?}",
        image.name, checked.findings, repaired.lost.list
    );
    let verdict = verdict(&checked);
    format!("{} {verdict} {} {tree}", image.name, outcome(&repaired))
}

/// Lines of the list by the name of the image: name, verdict, repair and tree.
fn expected() -> BTreeMap<&'static str, &'static str> {
    let lines = LIST
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows = lines.map(|line| line.split('|').next().unwrap_or_default().trim());
    rows.map(|row| (row.split(' ').next().unwrap_or_default(), row))
        .collect()
}

#[test]
fn each_defect_is_found_and_what_is_repaired_is_the_kernels() {
    let scratch = tempfile::tempdir().unwrap();
    let images = images::unpacked(scratch.path());
    let good = scratch.path().join("the good one");
    fs::write(
        &good,
        images
            .iter()
            .find(|one| one.name == "good")
            .unwrap()
            .volume(),
    )
    .unwrap();
    let good = tree(&good).unwrap();
    assert_eq!(good.len(), 9);
    let expected = expected();
    let mut wrong = Vec::new();
    let mut mounted = Vec::new();
    for image in &images {
        let path = scratch.path().join(format!("{}.ubifs", image.name));
        let row = row(image, &path, &good);
        if expected.get(&*image.name).copied() != Some(&*row) {
            wrong.push(format!("{row}, expected {:?}", expected.get(&*image.name)));
        }
        if let Ok(mut volume) = opened(&path, false) {
            let seen = manifest(volume.fs().unwrap());
            mounted.push((image.name.clone(), path, seen));
        }
    }
    let missing = expected.len().abs_diff(images.len());
    assert!(
        wrong.is_empty() && missing == 0,
        "{missing} {}",
        wrong.join("\n")
    );
    let judged: Vec<_> = mounted.into_iter().step_by(whole_or(1, 4)).collect();
    judge(scratch.path(), &judged);
}

/// Lets the kernel mount the volumes and write to them.
fn judge(scratch: &Path, volumes: &[(String, std::path::PathBuf, Manifest)]) {
    let path = scratch.join("disk");
    let disk = File::create(&path).unwrap();
    disk.set_len(STEP * volumes.len() as u64).unwrap();
    let mut script = String::from(include_str!("mount.sh"));
    script += "begun || exit 1\n";
    for (number, (name, volume, _)) in (0..).zip(volumes) {
        let bytes = fs::read(volume).unwrap();
        assert!((bytes.len() as u64) < STEP);
        disk.write_all_at(&bytes, number * STEP).unwrap();
        let place = number * (STEP / UNIT);
        let lebs = bytes.len() / images::LEB;
        script += &format!(
            "mounted {name} {place} {lebs} {} || {{ \
             echo {name} failed; dmesg | tail -20; exit 1; }}\n",
            bytes.len()
        );
    }
    let programs = ["ubiattach", "ubimkvol", "ubirmvol", "ubiupdatevol"];
    let guest = programs.iter().fold(kernel::guest(), |guest, program| {
        guest.program(Path::new("/usr/sbin").join(program))
    });
    let guest = guest.memory(700).disk(Disk::File(path));
    let report: Report = kernel::boot(guest.script(script));
    for (name, _, seen) in volumes {
        let differ = differences(&report.manifests[name], seen);
        assert_eq!(differ, "", "{name}");
    }
    println!("{} volumes mounted by the kernel", volumes.len());
}
