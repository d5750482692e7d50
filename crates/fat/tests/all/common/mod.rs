//! What the tests share: disks, and the tools of dosfstools as judges.

use nandlab_block::{BlockDevice, Ram};
use nandlab_fat::{Fat, Options};
use nandlab_testkit::{disk, tools};
use std::process::Command;

pub use nandlab_testkit::disk::{load, ram, save};
pub use nandlab_testkit::files::{NOW, bytes, mkdir, put};

fn command(program: &str) -> Command {
    tools::command("dosfstools", program)
}

/// What fsck.vfat, changing nothing, says of a disk, and whether it is content.
pub fn fsck(disk: &mut Ram) -> (bool, String) {
    disk::judged_by(disk, command("fsck.vfat").args(["-n", "-V"]))
}

/// Both judges, theirs and ours, find nothing wrong.
pub fn assert_clean(disk: &mut Ram, what: &str) {
    let report = read_only(disk).check().unwrap();
    assert_eq!(
        (report.findings.as_slice(), report.more),
        (&[][..], 0),
        "{what}"
    );
    let (content, text) = fsck(disk);
    assert!(content, "{what}: {text}");
}

/// A volume made by mkfs.vfat.
pub fn made_by_mkfs(kib: u64, options: &[&str]) -> Ram {
    let mut mkfs = command("mkfs.vfat");
    mkfs.args(["-i", "12345678", "--invariant"]).args(options);
    disk::made_by(&mut mkfs, kib * 1024)
}

pub fn mount<D: BlockDevice>(disk: D) -> Fat<D> {
    Fat::mount(disk, Options::default()).unwrap()
}

/// The disk as it is, without a write.
pub fn read_only(disk: &mut Ram) -> Fat<&mut Ram> {
    Fat::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}
