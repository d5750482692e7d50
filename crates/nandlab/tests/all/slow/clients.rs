//! Clients outside a guest: the host's own ext4 on a file that we serve, and programs that talk to
//! `nandlab export`.
//!
//! Needs e2fsprogs, mount, procps and qemu-utils; fails naming the Debian package that is missing.
//! The test of the host's own kernel needs root, FUSE and loop devices, and names what it lacks.

use crate::common::{self, Flash, tools};
use nandlab_host::disk::{self, DiskFile};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

/// Bytes from which files take their contents.
const NOISE: usize = 8 << 20;

/// A loop device of the host; detached when dropped.
struct Loop(String);

impl Loop {
    fn attach(file: &Path) -> Self {
        let printed = tools::succeed(
            "mount",
            "losetup",
            &["--find", "--show", "--direct-io=on", tools::text(file)],
        );
        Self(printed.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Best effort: this may run while a failed assertion unwinds.
        _ = tools::run("mount", "losetup", &["--detach", &self.0]);
    }
}

/// The host's ext4 on a loop device; unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Loop, dir: &Path) -> Self {
        tools::succeed(
            "mount",
            "mount",
            &["-t", "ext4", "-o", "discard", &device.0, tools::text(dir)],
        );
        Self(dir.into())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Best effort, as above.
        _ = tools::run("mount", "umount", &[tools::text(&self.0)]);
    }
}

fn require_host() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test mounts: it must run as root"
    );
    for (path, remedy) in [
        ("/dev/fuse", "modprobe fuse"),
        ("/dev/loop-control", "modprobe loop"),
    ] {
        assert!(
            Path::new(path).exists(),
            "{path} is missing: {remedy}, or give the container this device"
        );
    }
    for (package, program) in [
        ("e2fsprogs", "mkfs.ext4"),
        ("e2fsprogs", "e2fsck"),
        ("mount", "losetup"),
        ("mount", "mount"),
    ] {
        tools::find(package, program);
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    assert!(
        known.lines().any(|line| line.trim() == "ext4"),
        "the running kernel has no ext4: modprobe ext4"
    );
}

/// Serves `disk` as a file and gives a loop device of it to `work`.
fn with_loop(disk: &Flash, work: impl FnOnce(&Loop)) {
    let dir = tempfile::tempdir().unwrap();
    let shared = nandlab_host::SharedDisk::new(Box::new(disk.clone()));
    let mut file = DiskFile::mount(shared, dir.path(), disk::Options::default()).unwrap();
    let device = Loop::attach(&file.path());
    work(&device);
    drop(device);
    file.unmount().unwrap();
}

#[test]
fn the_hosts_own_ext4_finds_its_files_on_the_layer_attached_again() {
    require_host();
    let disk = Flash::format(384);
    let at = tempfile::tempdir().unwrap();
    let noise = common::noise(NOISE);
    let file = |n: usize| {
        (
            at.path().join(format!("d{}/file {n}", n % 7)),
            &noise[n * 1000..][..n * n * 7],
        )
    };
    with_loop(&disk, |device| {
        tools::succeed("e2fsprogs", "mkfs.ext4", &["-q", "-F", &device.0]);
        let _mounted = Mounted::new(device, at.path());
        (0..7).for_each(|n| fs::create_dir(at.path().join(format!("d{n}"))).unwrap());
        for n in 0..300 {
            fs::write(file(n).0, file(n).1).unwrap();
        }
        let flushes = disk.counts().flushes.requests;
        fs::File::open(file(299).0).unwrap().sync_all().unwrap();
        assert!(
            disk.counts().flushes.requests > flushes,
            "fsync reaches the layer"
        );
        (0..300)
            .step_by(3)
            .for_each(|n| fs::remove_file(file(n).0).unwrap());
    });
    assert!(
        disk.counts().discards.requests > 0,
        "discards reach the layer"
    );
    let cycled = disk.power_cycled();
    with_loop(&cycled, |device| {
        let mounted = Mounted::new(device, at.path());
        for n in 0..300 {
            match fs::read(file(n).0) {
                Ok(found) => assert!(n % 3 != 0 && found == file(n).1, "file {n}"),
                Err(error) => assert!(n % 3 == 0, "file {n}: {error}"),
            }
        }
        drop(mounted);
        tools::succeed("e2fsprogs", "e2fsck", &["-fn", &device.0]);
    });
}

/// `nandlab export` of the stack in `dir`, listening on the socket there.
struct Export {
    child: Child,
    uri: String,
    printed: BufReader<ChildStdout>,
}

impl Export {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command
            .current_dir(dir)
            .args(["export", "stack.toml", "--nbd"])
            .arg(format!("unix:{}/socket", dir.display()))
            .args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut uri = String::new();
        printed.read_line(&mut uri).unwrap();
        Self {
            child,
            uri: uri.trim().into(),
            printed,
        }
    }

    fn client(&self, commands: &[&str]) {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let arguments: Vec<&str> = ["-f", "raw"]
            .into_iter()
            .chain(commands)
            .chain([self.uri.as_str()])
            .collect();
        let printed = tools::succeed("qemu-utils", "qemu-io", &arguments);
        assert!(!printed.contains("verification failed"), "{printed}");
    }

    /// What it prints until it ends, with status zero.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.printed.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// A test that fails leaves no server behind.
impl Drop for Export {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn what_a_client_writes_to_an_export_is_there_when_the_saved_chip_is_exported_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("stack.toml"),
        "[chip]\npreset = \"slc-2k\"\nsize = \"64 MiB\"\nsave = \"chip\"\n",
    )
    .unwrap();
    let first = Export::start(dir.path(), &["--once", "--record", "trace", "--stats"]);
    first.client(&["write -P 0x5a 1M 300k", "discard 1M 64k", "flush"]);
    let printed = first.end();
    assert!(printed.contains("write amplification 1."), "{printed}");
    let trace = fs::read_to_string(dir.path().join("trace")).unwrap();
    assert!(
        trace.starts_with("fio version 3 iolog\n") && trace.contains(" write 1048576 307200\n"),
        "{trace}"
    );
    assert!(
        trace.contains(" trim 1048576 65536\n") && trace.contains(" sync 0 0\n"),
        "{trace}"
    );

    let second = Export::start(dir.path(), &["--set", "chip.load=chip"]);
    second.client(&[
        "read -P 0 1M 64k",
        "read -P 0x5a 1088k 236k",
        "read -P 0 1324k 100k",
    ]);
    tools::succeed("procps", "kill", &["-TERM", &second.child.id().to_string()]);
    let printed = second.end();
    assert!(printed.contains("attach"), "{printed}");
    assert!(!dir.path().join("socket").exists());
}
