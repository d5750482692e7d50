//! The disk file through the host's own system calls, and under the host's own ext4. Needs root,
//! `/dev/fuse` and loop devices.

use crate::common;
use crate::common::{MIB, expect_success, pattern, ram::Probe, ram_disk, text};
use nandlab_block::BlockError;
use nandlab_host::{
    HostError, SharedDisk,
    disk::{DiskFile, Options},
};
use rustix::fs::{FallocateFlags, fallocate};
use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

struct Bench {
    mount: DiskFile,
    disk: SharedDisk,
    probe: Arc<Probe>,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(bytes: u64, options: Options) -> Self {
        let fuse = Path::new("/dev/fuse").exists();
        assert!(
            rustix::process::geteuid().is_root() && fuse,
            "this test must run as root (with /dev/fuse, which is there: {fuse})"
        );
        let (disk, probe) = ram_disk(512, bytes);
        let dir = tempfile::tempdir().unwrap();
        let mount = DiskFile::mount(disk.clone(), dir.path(), options).unwrap();
        Self {
            mount,
            disk,
            probe,
            dir,
        }
    }

    fn open(&self) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.mount.path())
            .unwrap()
    }
}

#[test]
fn the_file_is_as_large_as_the_disk_and_keeps_what_is_written_anywhere() {
    let bench = Bench::new(MIB, Options::default());
    assert_eq!(fs::metadata(bench.mount.path()).unwrap().len(), MIB);
    let file = bench.open();
    let mut model = vec![0; MIB as usize];
    for (offset, length) in [
        (0, 1),
        (511, 2),
        (4096, 8192),
        (100_001, 300_000),
        (MIB - 3, 3),
    ] {
        let data = pattern(offset, length);
        file.write_all_at(&data, offset).unwrap();
        model[offset as usize..][..length].copy_from_slice(&data);
    }
    assert!(fs::read(bench.mount.path()).unwrap() == model);
    // Past the page cache, from the device itself.
    let mut stored = vec![0; MIB as usize];
    bench.disk.with(|disk| disk.read(0, &mut stored)).unwrap();
    assert!(stored == model);
}

#[test]
fn fsync_flushes_and_nothing_else_does() {
    let bench = Bench::new(MIB, Options::default());
    let file = bench.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(bench.probe.flushes(), 0);
    file.sync_all().unwrap();
    assert_eq!(bench.probe.flushes(), 1);
    file.sync_data().unwrap();
    drop(file);
    assert_eq!(bench.probe.flushes(), 2);
}

#[test]
fn a_punched_hole_is_discarded_and_a_zeroed_range_written() {
    let bench = Bench::new(MIB, Options::default());
    let file = bench.open();
    let mut model = pattern(1, MIB as usize);
    file.write_all_at(&model, 0).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 1000, 10_000).unwrap();
    model[1000..11_000].fill(0);
    assert_eq!(bench.probe.discards(), 1);
    fallocate(&file, FallocateFlags::ZERO_RANGE | keep, 65_536, 65_536).unwrap();
    model[65_536..131_072].fill(0);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, MIB - 512, 1 << 40).unwrap();
    model[MIB as usize - 512..].fill(0);
    assert_eq!(bench.probe.discards(), 2);
    assert!(fs::read(bench.mount.path()).unwrap() == model);
    for mode in [
        FallocateFlags::empty(),
        keep,
        FallocateFlags::COLLAPSE_RANGE,
    ] {
        assert_eq!(
            fallocate(&file, mode, 0, 4096).unwrap_err(),
            rustix::io::Errno::OPNOTSUPP,
            "{mode:?}"
        );
    }
}

#[test]
fn the_file_cannot_grow_shrink_or_get_company() {
    let bench = Bench::new(MIB, Options::default());
    let file = bench.open();
    assert_eq!(file.write_at(&[1; 8], MIB - 4).unwrap(), 4);
    assert_eq!(
        file.write_at(&[1; 8], MIB).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(file.read_at(&mut [0; 8], MIB).unwrap(), 0);
    for size in [0, MIB + 1] {
        assert_eq!(
            file.set_len(size).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
    }
    file.set_len(MIB).unwrap();
    assert!(File::create(bench.dir.path().join("other")).is_err());
    assert!(fs::remove_file(bench.mount.path()).is_err());
    let names: Vec<_> = fs::read_dir(bench.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["disk.img"]);
}

#[test]
fn statistics_are_made_afresh_for_each_opener() {
    let count = AtomicU64::new(0);
    let stats = Box::new(move || format!("{{\"asked\":{}}}", count.fetch_add(1, SeqCst) + 1));
    let bench = Bench::new(
        MIB,
        Options {
            stats: Some(stats),
            ..Options::default()
        },
    );
    let path = bench.dir.path().join("stats.json");
    let mut held = File::open(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"asked\":2}");
    let mut text = String::new();
    held.read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"asked\":1}");
    assert!(OpenOptions::new().write(true).open(&path).is_err());
}

#[test]
fn a_device_error_is_an_input_output_error_and_the_mount_goes_on() {
    let bench = Bench::new(MIB, Options::default());
    let file = bench.open();
    bench.probe.fail_with(Some(BlockError::PowerCut));
    let eio =
        |error: std::io::Error| error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    assert!(eio(file.write_at(&[1; 4096], 0).unwrap_err()));
    assert!(eio(file.read_at(&mut [0; 4096], 65_536).unwrap_err()));
    assert!(eio(file.sync_all().unwrap_err()));
    bench.probe.fail_with(None);
    file.write_all_at(&[1; 4096], 0).unwrap();
}

#[test]
fn a_read_only_disk_cannot_be_opened_for_writing() {
    let bench = Bench::new(
        MIB,
        Options {
            read_only: true,
            ..Options::default()
        },
    );
    let error = OpenOptions::new()
        .write(true)
        .open(bench.mount.path())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(bench.mount.path()).unwrap().len() as u64, MIB);
    assert_eq!(bench.probe.writes(), 0);
}

#[test]
fn a_busy_mount_stays_and_a_free_one_gives_the_device_back() {
    let mut bench = Bench::new(MIB, Options::default());
    let file = bench.open();
    let error = bench.mount.unmount().unwrap_err();
    assert!(
        matches!(&error, HostError::Unmount { source, .. } if source.kind() == ErrorKind::ResourceBusy),
        "{error}"
    );
    file.write_all_at(&[9; 512], 0).unwrap();
    drop(file);
    bench.mount.unmount().unwrap();
    assert!(!bench.mount.path().exists());
    bench.mount.unmount().unwrap();
    let Bench { mount, disk, .. } = bench;
    drop(mount);
    let mut sector = [0; 512];
    disk.into_inner()
        .unwrap()
        .read(nandlab_block::Lba(0), &mut sector)
        .unwrap();
    assert_eq!(sector, [9; 512]);
}

#[test]
fn unmounting_from_outside_ends_the_wait() {
    let mut bench = Bench::new(MIB, Options::default());
    expect_success("mount", "umount", &[text(bench.dir.path())]);
    bench.mount.wait().unwrap();
}

/// A loop device; detached when dropped.
struct Loop(String);

impl Loop {
    fn attach(file: &Path) -> Self {
        let printed = expect_success(
            "mount",
            "losetup",
            &["--find", "--show", "--direct-io=on", text(file)],
        );
        Self(printed.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Best effort: this may run while a failed assertion unwinds.
        let _ = common::run("mount", "losetup", &["--detach", &self.0]);
    }
}

/// A mounted ext4; unmounted when dropped.
struct Ext4(PathBuf);

impl Ext4 {
    fn mount(device: &Loop, dir: &Path) -> Self {
        expect_success(
            "mount",
            "mount",
            &["-t", "ext4", "-o", "discard", &device.0, text(dir)],
        );
        Self(dir.into())
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // Best effort, as above.
        let _ = common::run("mount", "umount", &[text(&self.0)]);
    }
}

#[test]
fn the_hosts_ext4_lives_on_the_disk_across_loop_devices() {
    let mut bench = Bench::new(64 * MIB, Options::default());
    let at = tempfile::tempdir().unwrap();
    let file = |id: u64| {
        (
            at.path().join(format!("d{}/f{id}", id % 7)),
            pattern(id, 1000 + 3001 * id as usize),
        )
    };
    {
        let device = Loop::attach(&bench.mount.path());
        expect_success("e2fsprogs", "mkfs.ext4", &["-q", "-F", &device.0]);
        assert!(bench.probe.discards() > 0, "mkfs discards the device");
        let _ext4 = Ext4::mount(&device, at.path());
        (0..7).for_each(|id| fs::create_dir(at.path().join(format!("d{id}"))).unwrap());
        for id in 0..100 {
            let (path, content) = file(id);
            fs::write(&path, content).unwrap();
            let flushes = bench.probe.flushes();
            File::open(&path).unwrap().sync_all().unwrap();
            assert!(
                bench.probe.flushes() > flushes,
                "fsync on ext4 reaches the device"
            );
        }
        (0..100)
            .step_by(3)
            .for_each(|id| fs::remove_file(file(id).0).unwrap());
    }
    let device = Loop::attach(&bench.mount.path());
    {
        let _ext4 = Ext4::mount(&device, at.path());
        for id in 0..100 {
            let (path, content) = file(id);
            if id % 3 == 0 {
                assert!(!path.exists());
            } else {
                assert!(fs::read(&path).unwrap() == content, "{}", path.display());
            }
        }
    }
    expect_success("e2fsprogs", "e2fsck", &["-f", "-n", &device.0]);
    drop(device);
    bench.mount.unmount().unwrap();
}
