//! A stack, mounted by the command.

use rustix::mount::{UnmountFlags, unmount};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

/// A stack that is judged.
#[derive(Clone, Copy)]
pub struct StackUnderTest {
    pub name: &'static str,
    description: &'static str,
    options: &'static [&'static str],
    /// Seconds by which times of two changes surely differ.
    pub nap: f64,
}

const EXT3: &str = "[chip]
preset = \"slc-2k\"
size = \"256 MiB\"
[ftl]
scheme = \"page\"
[fs]
type = \"ext3\"
";

/// Each file system on what it was made for, and one whose writes the kernel keeps.
pub const STACKS: [StackUnderTest; 6] = [
    StackUnderTest {
        name: "ext3",
        description: EXT3,
        options: &[],
        nap: 0.01,
    },
    StackUnderTest {
        name: "ext3",
        description: EXT3,
        options: &["--write-back"],
        nap: 0.01,
    },
    StackUnderTest {
        name: "ext4",
        description: "[chip]\npreset = \"slc-2k\"\nsize = \"256 MiB\"\n[ftl]\nscheme = \"page\"\n[fs]\ntype = \"ext4\"\n",
        options: &[],
        nap: 0.01,
    },
    StackUnderTest {
        name: "f2fs",
        description: "[chip]\npreset = \"slc-2k\"\nsize = \"256 MiB\"\n[ftl]\nscheme = \"page\"\n[fs]\ntype = \"f2fs\"\n",
        options: &[],
        nap: 0.01,
    },
    StackUnderTest {
        name: "jffs2",
        description: "[chip]\npreset = \"slc-2k\"\nsize = \"256 MiB\"\n[ftl]\nscheme = \"none\"\n[fs]\ntype = \"jffs2\"\n",
        options: &[],
        nap: 1.05,
    },
    StackUnderTest {
        name: "ubifs",
        description: "[chip]\npreset = \"slc-2k\"\nsize = \"256 MiB\"\n[ubi]\nattach = \"scan\"\n[fs]\ntype = \"ubifs\"\n",
        options: &[],
        nap: 0.01,
    },
];

/// A mounted stack; let go when dropped.
pub struct Mount {
    command: Child,
    dir: tempfile::TempDir,
    at: PathBuf,
}

impl Mount {
    pub fn new(stack: StackUnderTest) -> Self {
        let fuse = Path::new("/dev/fuse").exists();
        assert!(
            rustix::process::geteuid().is_root() && fuse,
            "this test must run as root (with /dev/fuse, which is there: {fuse})"
        );
        // pjdfstest 0.2.2 subtracts too much from some lengths of path: this one suits it.
        let dir = tempfile::Builder::new()
            .prefix("posix")
            .rand_bytes(6)
            .tempdir_in("/tmp")
            .unwrap();
        let at = dir.path().join("mnt");
        let description = dir.path().join("stack.toml");
        fs::create_dir(&at).unwrap();
        // Other users come through here.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&description, stack.description).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command
            .arg("mount")
            .arg(&description)
            .arg(&at)
            .arg("--everybody")
            .args(stack.options)
            .stdout(Stdio::piped());
        let mut command = command.spawn().expect("the command was built");
        let mut said = String::new();
        BufReader::new(command.stdout.as_mut().expect("it is a pipe"))
            .read_line(&mut said)
            .unwrap();
        assert!(said.contains("until Ctrl-C"), "{said:?}");
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        Self { command, dir, at }
    }

    pub fn dir(&self) -> &Path {
        &self.at
    }

    pub fn end(mut self) {
        unmount(&self.at, UnmountFlags::empty()).unwrap();
        assert!(self.command.wait().unwrap().success());
        assert!(self.dir.path().exists());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        _ = unmount(&self.at, UnmountFlags::DETACH);
        _ = self.command.kill();
        _ = self.command.wait();
    }
}
