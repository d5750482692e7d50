//! Images that real programs have lived in, mounted by the command: whole for the real checker and
//! for the real kernel, also when the command was killed. Needs root, `/dev/fuse` and git.

use nandlab_oracle::{Disk, Oracle};
use nandlab_testkit::share::whole_or;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NANDLAB: &str = env!("CARGO_BIN_EXE_nandlab");

fn run(command: &mut Command) -> String {
    let shown = command
        .output()
        .unwrap_or_else(|why| panic!("{}: {why}", command.get_program().display()));
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success(),
        "{command:?}: {}\n{said}{}",
        shown.status,
        String::from_utf8_lossy(&shown.stderr)
    );
    said
}

/// An image, mounted; let go when dropped.
struct Mount {
    command: Child,
    dir: PathBuf,
}

impl Mount {
    fn new(image: &Path, dir: &Path) -> Self {
        let fuse = Path::new("/dev/fuse").exists();
        assert!(
            rustix::process::geteuid().is_root() && fuse,
            "this test must run as root (with /dev/fuse, which is there: {fuse})"
        );
        let mut command = Command::new(NANDLAB)
            .arg("mount")
            .arg(image)
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command was built");
        let mut said = String::new();
        BufReader::new(command.stdout.as_mut().expect("it is a pipe"))
            .read_line(&mut said)
            .unwrap();
        assert!(said.contains("until Ctrl-C"), "{said:?}");
        Self {
            command,
            dir: dir.into(),
        }
    }

    fn end(mut self) {
        unmount(&self.dir, UnmountFlags::empty()).unwrap();
        assert!(self.command.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.command.kill().unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        _ = unmount(&self.dir, UnmountFlags::DETACH);
        _ = self.command.kill();
        _ = self.command.wait();
    }
}

/// Format, its checker, how the guest mounts it.
const FORMATS: [(&str, &[&str], &str); 3] = [
    (
        "ext3",
        &["e2fsck", "-fn"],
        "mp ext4 && mount -r -t ext3 /dev/vda /mnt",
    ),
    (
        "f2fs",
        &["fsck.f2fs", "--dry-run"],
        "mp f2fs && mount -r -t f2fs /dev/vda /mnt",
    ),
    (
        "jffs2",
        &[NANDLAB, "image", "check"],
        "mp mtdblock && mp block2mtd block2mtd=/dev/vda,131072 && mp jffs2 && mount -r -t jffs2 mtd0 /mnt",
    ),
];

/// A repository to be cloned: some hundred files in two commits.
fn repository(at: &Path) {
    fs::create_dir(at).unwrap();
    let git = |words: &[&str]| {
        run(Command::new("git")
            .arg("-C")
            .arg(at)
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words))
    };
    git(&["init", "-q"]);
    for number in 0..300_u32 {
        let dir = at.join(format!("dir{}", number % 12));
        fs::create_dir_all(&dir).unwrap();
        let text: String = (0..number * 3)
            .map(|line| format!("line {line} of file {number}\n"))
            .collect();
        fs::write(dir.join(format!("file{number}")), text).unwrap();
    }
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    fs::write(at.join("dir3/file3"), "changed").unwrap();
    git(&["commit", "-qam", "two"]);
}

fn assert_whole(image: &Path, (format, checker, _): &(&str, &[&str], &str)) {
    let said = run(Command::new(checker[0]).args(&checker[1..]).arg(image));
    assert!(!said.contains("[Fail]"), "{format}: {said}");
}

/// SHA-256 of every file as the kernel reads it, in the order of the names.
fn read_by_the_kernel(image: &Path, mount: &str) -> String {
    let script = format!(
        "{mount} && cd /mnt && find . -type f | sort | xargs -n 50 sha256sum > /sums && send sums /sums"
    );
    let report = Oracle::ready()
        .unwrap()
        .guest()
        .disk(Disk::File(image.into()))
        .script(script)
        .run()
        .unwrap();
    let sums = report
        .files
        .get("sums")
        .unwrap_or_else(|| panic!("{}", report.console));
    String::from_utf8_lossy(sums).into_owned()
}

fn read_here(dir: &Path) -> String {
    run(Command::new("sh")
        .arg("-c")
        .arg("cd \"$0\" && find . -type f | LC_ALL=C sort | xargs -n 50 sha256sum")
        .arg(dir))
}

#[test]
fn a_clone_a_build_and_a_package_in_each_image_are_read_equal_by_the_kernel() {
    let scratch = tempfile::tempdir().unwrap();
    let origin = scratch.path().join("origin");
    repository(&origin);
    let package = package(scratch.path());
    for format in &FORMATS[..whole_or(3, 1)] {
        let image = scratch.path().join(format.0);
        let dir = scratch.path().join(format!("{}.dir", format.0));
        fs::create_dir(&dir).unwrap();
        run(Command::new(NANDLAB)
            .args(["image", "create", "--format", format.0, "--size", "160MiB"])
            .arg(&image));
        let mount = Mount::new(&image, &dir);
        run(Command::new("git")
            .args(["clone", "-q", "--no-hardlinks"])
            .arg(&origin)
            .arg(dir.join("clone")));
        assert_eq!(
            run(Command::new("git")
                .arg("-C")
                .arg(dir.join("clone"))
                .args(["status", "--short"])),
            ""
        );
        run(Command::new("git").arg("-C").arg(dir.join("clone")).args([
            "fsck",
            "--strict",
            "--no-dangling",
        ]));
        build(&dir);
        run(Command::new("dpkg-deb")
            .arg("-x")
            .arg(&package)
            .arg(dir.join("package")));
        let here = read_here(&dir);
        mount.end();
        assert_whole(&image, format);
        assert_eq!(read_by_the_kernel(&image, format.2), here, "{}", format.0);
    }
}

/// A crate with a dependency between two modules and a test is built and run.
fn build(dir: &Path) {
    let at = dir.join("crate");
    fs::create_dir_all(at.join("src")).unwrap();
    fs::write(
        at.join("Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(at.join("src/other.rs"), "pub fn answer() -> u32 { 42 }\n").unwrap();
    fs::write(
        at.join("src/main.rs"),
        "mod other;\nfn main() { println!(\"{}\", other::answer()); }\n",
    )
    .unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "-q", "--offline"])
        .current_dir(&at)
        .env("CARGO_TARGET_DIR", at.join("target"))
        .env_remove("RUSTFLAGS");
    assert_eq!(run(&mut cargo), "42\n");
}

/// A package of Debian's with thousands of entries.
fn package(dir: &Path) -> PathBuf {
    run(Command::new("sh")
        .arg("-c")
        .arg("chown _apt \"$0\" 2>/dev/null; cd \"$0\" && apt-get download -q perl-modules-5.36 || apt-get download -q tzdata")
        .arg(dir));
    let packages = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    packages
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .expect("it was downloaded")
}

/// Commits transactions until it is killed; each is reported on standard output when SQLite says
/// that it is durable: with less than `extra` it does not wait for the removal of its journal.
const WRITER: &str = "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
base.execute('pragma synchronous=extra')
base.execute('create table if not exists t (number integer primary key, text)')
number = base.execute('select coalesce(max(number), 0) from t').fetchone()[0]
while True:
    number += 1
    base.execute('insert into t values (?, ?)', (number, 'x' * (number % 3000)))
    base.commit()
    print(number, flush=True)
";

/// What is in a database, after SQLite has recovered it.
const READER: &str = "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
print(base.execute('pragma integrity_check').fetchone()[0], base.execute('select count(*), coalesce(max(number), 0) from t').fetchone())
";

#[test]
fn transactions_that_sqlite_has_committed_are_there_when_writer_and_command_are_killed() {
    let scratch = tempfile::tempdir().unwrap();
    for format in &FORMATS {
        let image = scratch.path().join(format.0);
        let dir = scratch.path().join(format!("{}.dir", format.0));
        fs::create_dir(&dir).unwrap();
        run(Command::new(NANDLAB)
            .args(["image", "create", "--format", format.0, "--size", "64MiB"])
            .arg(&image));
        let mut committed = 0_u64;
        let mut most = 0;
        for round in 0..4 {
            let mount = Mount::new(&image, &dir);
            let base = dir.join("base.db");
            if round > 0 {
                let said = run(Command::new("python3").args(["-c", READER]).arg(&base));
                let (verdict, counts) = said.trim().split_once(' ').unwrap();
                assert_eq!(verdict, "ok", "{} round {round}", format.0);
                let last: u64 = counts
                    .trim_matches(['(', ')'])
                    .split(", ")
                    .nth(1)
                    .unwrap()
                    .parse()
                    .unwrap();
                assert!(
                    (committed..=most + 1).contains(&last),
                    "{} round {round}: {last}, expected {committed} to {most} or one more",
                    format.0
                );
            }
            let mut writer = Command::new("python3")
                .args(["-c", WRITER])
                .arg(&base)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut shown = BufReader::new(writer.stdout.take().unwrap()).lines();
            for _ in 0..60 {
                committed = shown
                    .next()
                    .expect("it goes on for ever")
                    .unwrap()
                    .parse()
                    .unwrap();
            }
            if round % 2 == 0 {
                // While transactions are under way. A report from now on is not certain: SQLite
                // takes a directory that it cannot open any more for a synced one.
                mount.kill();
                _ = writer.kill();
            } else {
                writer.kill().unwrap();
            }
            most = shown
                .map_while(Result::ok)
                .filter_map(|line| line.parse().ok())
                .last()
                .unwrap_or(committed);
            committed = if round % 2 == 0 { committed } else { most };
            writer.wait().unwrap();
        }
        let mount = Mount::new(&image, &dir);
        mount.end();
        assert_whole(&image, format);
    }
}
