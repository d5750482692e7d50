//! `nandlab mount`: real programs in the directory, and what is there when the saved chip is
//! mounted again. Needs root and `/dev/fuse`.

use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mounted stack; let go when dropped.
struct Mount<'a> {
    command: Child,
    dir: &'a Path,
}

impl<'a> Mount<'a> {
    fn new(stack: &Path, dir: &'a Path, options: &[&str]) -> Self {
        let fuse = Path::new("/dev/fuse").exists();
        assert!(
            rustix::process::geteuid().is_root() && fuse,
            "this test must run as root (with /dev/fuse, which is there: {fuse})"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command
            .arg("mount")
            .arg(stack)
            .arg(dir)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = command.spawn().expect("the command was built");
        let mut said = String::new();
        BufReader::new(command.stdout.as_mut().expect("it is a pipe"))
            .read_line(&mut said)
            .unwrap();
        assert!(said.contains("until Ctrl-C"), "{said:?}");
        Self { command, dir }
    }

    fn end(self) {
        let (status, reported) = self.ended();
        assert_eq!(status, Some(0), "{reported}");
    }

    /// Unmounts; gives the exit status and the text on standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        unmount(self.dir, UnmountFlags::empty()).unwrap();
        let status = self.command.wait().unwrap();
        let mut reported = String::new();
        let stderr = self.command.stderr.as_mut().expect("it is a pipe");
        stderr.read_to_string(&mut reported).unwrap();
        (status.code(), reported)
    }

    fn kill(mut self) {
        self.command.kill().unwrap();
        self.command.wait().unwrap();
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        _ = unmount(self.dir, UnmountFlags::DETACH);
        _ = self.command.kill();
        _ = self.command.wait();
    }
}

/// Stacks of 64 MiB that are saved, and what brings them back.
fn stacks(dir: &Path) -> [(&'static str, std::path::PathBuf, String, String); 4] {
    let page = "[ftl]\nscheme = \"page\"\n";
    let bare = "[ftl]\nscheme = \"none\"\n";
    [
        ("ext3", page),
        ("f2fs", page),
        ("fat", page),
        ("jffs2", bare),
    ]
    .map(|(fs, ftl)| {
        let stack = dir.join(format!("{fs}.toml"));
        let chip = "[chip]\npreset = \"slc-2k\"\nsize = \"128 MiB\"\n";
        fs::write(&stack, format!("{chip}{ftl}[fs]\ntype = \"{fs}\"\n")).unwrap();
        let saved = dir.join(format!("{fs}.chip"));
        (
            fs,
            stack,
            format!("chip.save={:?}", saved.display().to_string()),
            format!("chip.load={:?}", saved.display().to_string()),
        )
    })
}

fn fill(dir: &Path, links: bool) {
    fs::create_dir_all(dir.join("a/b")).unwrap();
    for number in 0..60_u32 {
        let contents: Vec<u8> = (0..number * 700)
            .map(|at| ((at * number) >> 3) as u8)
            .collect();
        fs::write(dir.join(format!("a/b/{number}")), contents).unwrap();
    }
    for number in (0..60).step_by(3) {
        fs::rename(
            dir.join(format!("a/b/{number}")),
            dir.join(format!("a/a long name for number {number}")),
        )
        .unwrap();
    }
    fs::remove_file(dir.join("a/b/1")).unwrap();
    if links {
        symlink("a/b", dir.join("symbolic")).unwrap();
        fs::hard_link(dir.join("a/b/2"), dir.join("hard")).unwrap();
    }
}

/// `diff -r` finds nothing.
fn assert_same(one: &Path, other: &Path) {
    let reported = Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([one, other])
        .output()
        .expect("diffutils is essential in Debian");
    assert!(
        reported.status.success(),
        "{}",
        String::from_utf8_lossy(&reported.stdout)
    );
}

#[test]
fn what_programs_leave_in_each_stack_is_there_when_the_saved_chip_is_mounted_again() {
    is_there_when_mounted_again(&[]);
}

#[test]
fn so_it_is_where_the_kernel_keeps_what_they_write() {
    is_there_when_mounted_again(&["--write-back"]);
}

fn is_there_when_mounted_again(options: &[&str]) {
    let scratch = tempfile::tempdir().unwrap();
    for (fs, stack, save, load) in stacks(scratch.path()) {
        let dir = scratch.path().join(format!("{fs}.dir"));
        let model = scratch.path().join(format!("{fs}.model"));
        [&dir, &model]
            .iter()
            .for_each(|dir| fs::create_dir(dir).unwrap());
        fill(&model, fs != "fat");
        if fs.starts_with("ext") {
            fs::create_dir(model.join("lost+found")).unwrap();
        }
        let mount = Mount::new(&stack, &dir, &[options, &["--set", &save]].concat());
        fill(&dir, fs != "fat");
        assert_same(&model, &dir);
        let stats = fs::read_to_string(dir.join(".nandlab.json")).unwrap();
        assert!(stats.contains("\"device_ns\""), "{stats}");
        mount.end();
        let mount = Mount::new(&stack, &dir, &["--set", &load, "--read-only"]);
        assert_same(&model, &dir);
        assert!(
            fs::write(dir.join("new"), "").is_err(),
            "{fs} is mounted read-only"
        );
        mount.end();
    }
}

#[test]
fn with_a_pace_the_directory_is_as_slow_as_the_device() {
    let scratch = tempfile::tempdir().unwrap();
    let (fs, stack, ..) = stacks(scratch.path())[3].clone();
    let dir = scratch.path().join(fs);
    fs::create_dir(&dir).unwrap();
    let mount = Mount::new(
        &stack,
        &dir,
        &["--pace", "real", "--set", "fs.compression=\"none\""],
    );
    let began = std::time::Instant::now();
    // 1000 pages of 2 KiB at 200 us and more: a lower bound of the wall's time is all that is asked
    // for.
    fs::write(dir.join("file"), vec![7; 2048 * 1000]).unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_millis(200));
    mount.end();
}

#[test]
fn a_command_that_is_killed_leaves_a_directory_that_can_be_released() {
    let scratch = tempfile::tempdir().unwrap();
    let (_, stack, ..) = stacks(scratch.path())[0].clone();
    let dir = scratch.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let mount = Mount::new(&stack, &dir, &[]);
    fs::write(dir.join("file"), "contents").unwrap();
    mount.kill();
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        0,
        "nothing is mounted now"
    );
}

#[test]
fn a_stack_without_a_file_system_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let stack = scratch.path().join("stack.toml");
    fs::write(&stack, "[chip]\npreset = \"slc-2k\"\n").unwrap();
    let reported = Command::new(env!("CARGO_BIN_EXE_nandlab"))
        .arg("mount")
        .arg(&stack)
        .arg(scratch.path())
        .output()
        .unwrap();
    assert_eq!(reported.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&reported.stderr).contains("fs.type"),
        "{reported:?}"
    );
}

#[test]
fn an_image_is_mounted_for_writing_once_and_edited_by_nobody_else() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let dir = scratch.path().join("dir");
    let other = scratch.path().join("other");
    [&dir, &other]
        .iter()
        .for_each(|dir| fs::create_dir(dir).unwrap());
    let nandlab = |words: &[&str], paths: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        let reported = command.args(words).args(paths).output().unwrap();
        (
            reported.status.code(),
            String::from_utf8_lossy(&reported.stderr).into_owned(),
        )
    };
    let create = ["image", "create", "-f", "ext2"];
    assert_eq!(nandlab(&create, &[&image]).0, Some(0));
    let refused = |(status, reported): (Option<i32>, String)| {
        let words = "image: another program is writing this image or has it mounted";
        assert!(status == Some(2) && reported.contains(words), "{reported}");
    };
    let put = |path: &str| nandlab(&["image", "put"], &[&image, &image, Path::new(path)]);
    let mount = Mount::new(&image, &dir, &[]);
    fs::write(dir.join("file"), "contents").unwrap();
    refused(nandlab(&["mount"], &[&image, &other]));
    refused(nandlab(&["mount", "--read-only"], &[&image, &other]));
    refused(put("/new"));
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "contents");
    mount.end();
    // Several mounts may read.
    let mount = Mount::new(&image, &dir, &["--read-only"]);
    let second = Mount::new(&image, &other, &["--read-only"]);
    assert_same(&dir, &other);
    refused(nandlab(&["mount"], &[&image, scratch.path()]));
    second.end();
    mount.end();
    assert_eq!(
        nandlab(&["image", "mkdir"], &[&image, Path::new("/new")]).0,
        Some(0)
    );
}

/// What another program does to a mounted image, and what the command says of it.
type Meddling = (fn(&Path), &'static str);

const MEDDLING: [Meddling; 4] = [
    (
        |image| fs::remove_file(image).unwrap(),
        "deleted while it was mounted",
    ),
    (
        |image| {
            let other = image.with_extension("other");
            fs::write(&other, "another file").unwrap();
            fs::rename(other, image).unwrap();
        },
        "replaced by another file while it was mounted",
    ),
    (
        |image| {
            fs::File::options()
                .write(true)
                .open(image)
                .unwrap()
                .set_len(4096)
                .unwrap()
        },
        " to 4096 bytes while it was mounted",
    ),
    (
        |image| {
            let contents = fs::read(image).unwrap();
            // Not in the same tick of the clock as the mount's last write.
            std::thread::sleep(std::time::Duration::from_millis(50));
            fs::write(image, contents).unwrap();
        },
        "changed by another program",
    ),
];

#[test]
fn an_image_that_others_cut_replace_or_delete_below_its_mount_ends_it_with_a_message() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let dir = scratch.path().join("dir");
    let tree = scratch.path().join("tree");
    [&dir, &tree]
        .iter()
        .for_each(|dir| fs::create_dir(dir).unwrap());
    fs::write(tree.join("old"), vec![3; 200_000]).unwrap();
    for (format, read_only) in [
        ("ext3", false),
        ("f2fs", false),
        ("fat", false),
        ("jffs2", false),
        ("ext3", true),
    ] {
        for (meddle, expected) in MEDDLING {
            let what = format!("{format}, read-only {read_only}: {expected}");
            let made = Command::new(env!("CARGO_BIN_EXE_nandlab"))
                .args(["image", "create", "-f", format, "--size", "64M"])
                .args([&image, &tree])
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            let options: &[&str] = if read_only { &["--read-only"] } else { &[] };
            let mount = Mount::new(&image, &dir, options);
            if !read_only {
                fs::write(dir.join("before"), vec![5; 100_000]).unwrap();
            }
            meddle(&image);
            let left = fs::metadata(&image).map(|metadata| metadata.len()).ok();
            if !read_only {
                // It may succeed, since it waits in memory.
                _ = fs::write(dir.join("after"), vec![7; 100_000]);
            }
            let (status, reported) = mount.ended();
            assert_eq!(status, Some(1), "{what}: {reported}");
            assert_eq!(reported.lines().count(), 1, "{what}: {reported}");
            assert!(
                reported.contains("/image: ") && reported.contains(expected),
                "{what}: {reported}"
            );
            let lost = reported.contains("what was written to it is lost");
            let is_overwritten = expected.starts_with("changed");
            assert_eq!(lost, !read_only && !is_overwritten, "{what}: {reported}");
            // Nothing is written into a file that somebody else has made.
            assert_eq!(
                fs::metadata(&image).map(|metadata| metadata.len()).ok(),
                left,
                "{what}"
            );
            _ = fs::remove_file(&image);
        }
    }
}
