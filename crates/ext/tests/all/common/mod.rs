//! What the tests share: disks, and the tools of e2fsprogs as judges.

pub mod fast;

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, Options};
use nandlab_testkit::disk;
use nandlab_testkit::tools;
use std::process::{Command, Output};

pub use nandlab_testkit::disk::{load, ram, save};
pub use nandlab_testkit::files::{NOW, bytes, mkdir, put};
pub use nandlab_testkit::manifest::manifest;
pub use nandlab_testkit::tools::printed;

/// A tool of e2fsprogs.
fn command(program: &str) -> Command {
    let mut command = tools::command("e2fsprogs", program);
    // The choices compared with are those that mke2fs has without a file of its own.
    command.env("MKE2FS_CONFIG", "/etc/mke2fs.conf");
    command
}

/// Runs a tool to its end; a missing tool fails the test and names its package.
pub fn tool(program: &str, arguments: &[&str]) -> Output {
    command(program).args(arguments).output().unwrap()
}

/// Whether the volume says that its journal is to be recovered.
pub fn needs_recovery<D: BlockDevice>(disk: &mut D) -> bool {
    let mut sector = [0; 512];
    disk.read(Lba(2), &mut sector).unwrap();
    sector[96] & 4 != 0
}

/// What e2fsck, changing nothing, says of a disk, and whether it is content.
pub fn fsck<D: BlockDevice>(disk: &mut D) -> (bool, String) {
    disk::judged_by(disk, command("e2fsck").arg("-fn"))
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

/// The identity of all test volumes, as mke2fs takes it.
pub const UUID: &str = "6e616e64-6c61-4062-8065-787400000001";
pub const HASH_SEED: &str = "6e616e64-6c61-4062-8068-617368000001";

/// A volume made by mke2fs.
pub fn made_by_mke2fs(kib: u64, options: &[&str]) -> Ram {
    let seed = format!("hash_seed={HASH_SEED}");
    let mut mke2fs = command("mke2fs");
    mke2fs.args(["-q", "-U", UUID, "-E", &seed]).args(options);
    disk::made_by(&mut mke2fs, kib * 1024)
}

pub fn mount<D: BlockDevice>(disk: D) -> Ext<D> {
    Ext::mount(disk, Options::default()).unwrap()
}

/// The disk as it is, without a write.
pub fn read_only<D: BlockDevice>(disk: D) -> Ext<D> {
    Ext::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}
