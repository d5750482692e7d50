//! What the tests share: disks, and the tools of f2fs-tools as judges.

pub mod chain;
pub mod full;

use nandlab_block::{BlockDevice, Ram};
use nandlab_f2fs::{F2fs, Options};
use nandlab_testkit::{disk, tools};
use std::process::Command;

pub use nandlab_testkit::disk::ram;
pub use nandlab_testkit::files::{NOW, bytes, mkdir, put};
pub use nandlab_testkit::manifest::manifest;

fn command(program: &str) -> Command {
    tools::command("f2fs-tools", program)
}

/// What fsck.f2fs, changing nothing, says of a disk, and whether it is content.
pub fn fsck<D: BlockDevice>(disk: &mut D) -> (bool, String) {
    disk::judged_by(disk, command("fsck.f2fs").arg("--dry-run"))
}

/// Both judges, theirs and ours, find nothing wrong.
pub fn assert_clean<D: BlockDevice>(disk: &mut D, what: &str) {
    let report = read_only(&mut *disk).check().unwrap();
    assert_eq!(
        (report.findings.as_slice(), report.more),
        (&[][..], 0),
        "{what}"
    );
    let (content, text) = fsck(disk);
    assert!(content, "{what}: {text}");
}

/// A volume made by mkfs.f2fs.
pub fn made_by_mkfs(mib: u64, options: &[&str]) -> Ram {
    disk::made_by(command("mkfs.f2fs").arg("-f").args(options), mib << 20)
}

pub fn mount<D: BlockDevice>(disk: D) -> F2fs<D> {
    F2fs::mount(disk, Options::default()).unwrap()
}

/// The disk as it is, without a write.
pub fn read_only<D: BlockDevice>(disk: D) -> F2fs<D> {
    F2fs::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}
