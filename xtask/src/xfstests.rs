//! `xfstests`: the generic group of a checkout of xfstests on mounted stacks, held against the list
//! of what passes.
//!
//! The tests run in a mount and process namespace of their own (`enter.sh`), where `mount`
//! (`mount.sh`) starts `nandlab mount` for a description; both go with the run, and so does a test
//! that takes too long. The list, `crates/nandlab/tests/xfstests/verdicts.txt`, says why what does
//! not pass cannot.

mod verdicts;

use crate::{Outcome, cargo, packages, root};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use verdicts::{Found, List, Verdict};

/// The packages that xfstests takes and looks for, beyond those of our tests.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/autoconf", "autoconf"),
    ("/usr/bin/automake", "automake"),
    ("/usr/bin/libtoolize", "libtool"),
    ("/usr/bin/libtool", "libtool-bin"),
    ("/usr/bin/make", "make"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/bin/pkg-config", "pkg-config"),
    ("/usr/include/xfs/xfs.h", "xfslibs-dev"),
    ("/usr/include/uuid/uuid.h", "uuid-dev"),
    ("/usr/include/attr/libattr.h", "libattr1-dev"),
    ("/usr/include/sys/acl.h", "libacl1-dev"),
    ("/usr/include/libaio.h", "libaio-dev"),
    ("/usr/include/sys/capability.h", "libcap-dev"),
    ("/usr/include/gdbm.h", "libgdbm-dev"),
    ("/usr/include/gdbm-ndbm.h", "libgdbm-compat-dev"),
    ("/usr/include/liburing.h", "liburing-dev"),
    ("/usr/sbin/xfs_io", "xfsprogs"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/bin/attr", "attr"),
    ("/usr/bin/getfacl", "acl"),
    ("/usr/sbin/setcap", "libcap2-bin"),
    ("/usr/bin/bc", "bc"),
    ("/usr/bin/dbench", "dbench"),
    ("/usr/bin/fio", "fio"),
    ("/usr/bin/gawk", "gawk"),
    ("/usr/sbin/quotaon", "quota"),
    ("/usr/bin/killall", "psmisc"),
    ("/usr/bin/uuidgen", "uuid-runtime"),
    ("/usr/bin/sqlite3", "sqlite3"),
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/perl", "perl"),
];

/// The stacks: each file system on what it was made for, in 512 MiB, as much as some tests ask for.
const STACKS: [(&str, &str); 5] = [
    ("ext3", "[ftl]\nscheme = \"page\"\n[fs]\ntype = \"ext3\"\n"),
    ("ext4", "[ftl]\nscheme = \"page\"\n[fs]\ntype = \"ext4\"\n"),
    ("f2fs", "[ftl]\nscheme = \"page\"\n[fs]\ntype = \"f2fs\"\n"),
    (
        "jffs2",
        "[ftl]\nscheme = \"none\"\n[fs]\ntype = \"jffs2\"\n",
    ),
    (
        "ubifs",
        "[ubi]\nattach = \"scan\"\n[fs]\ntype = \"ubifs\"\n",
    ),
];
const CHIP: &str = "[chip]\npreset = \"slc-2k\"\nsize = \"512 MiB\"\n";
/// The longest that a test may take.
const LIMIT: Duration = Duration::from_secs(120);
/// The group of tests that can harm the machine.
const DANGEROUS: &str = "dangerous";

pub fn run(words: &[String]) -> Outcome {
    let [checkout, asked @ ..] = words else {
        return Err("expected CHECKOUT [STACK] [TEST...]".into());
    };
    let checkout = fs::canonicalize(checkout).map_err(|why| format!("{checkout}: {why}"))?;
    let one = asked
        .first()
        .and_then(|word| STACKS.iter().find(|(name, _)| name == word));
    let (stacks, asked) = one.map_or((&STACKS[..], asked), |one| {
        (std::slice::from_ref(one), &asked[1..])
    });
    packages::install(NEEDED)?;
    if !checkout.join("ltp/fsstress").exists() {
        crate::run(Command::new("make").current_dir(&checkout))?;
    }
    crate::run(
        cargo()
            .current_dir(root())
            .args(["build", "--package", "nandlab"]),
    )?;
    let path = root().join("crates/nandlab/tests/xfstests/verdicts.txt");
    let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let list = List::parse(&text, &STACKS.map(|(name, _)| name))?;
    let asked = if asked.is_empty() {
        generic(&checkout, &list)?
    } else {
        asked.to_vec()
    };
    judge(&checkout, stacks, &list, &asked)
}

/// Runs the tests on each stack, and writes the list that would be right beside xfstests' own
/// results.
fn judge(
    checkout: &Path,
    stacks: &[(&'static str, &str)],
    list: &List,
    asked: &[String],
) -> Outcome {
    let mut right = list.clone();
    let mut wrong = Vec::new();
    for &(stack, layers) in stacks {
        let place = Place::new(stack, layers)?;
        let found = place.judge(
            checkout,
            asked
                .iter()
                .filter(|test| !list.left_out(stack, test))
                .cloned()
                .collect(),
        )?;
        eprintln!("{stack}: {}", verdicts::counts(&found));
        wrong.extend(list.differences(stack, &found));
        wrong.extend(place.failures());
        right.update(stack, &found);
        let path = target().join("xfstests/verdicts.txt");
        fs::write(&path, right.text(&STACKS.map(|(name, _)| name)))
            .map_err(|why| format!("{}: {why}", path.display()))?;
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} differences\n  {}",
            wrong.len(),
            wrong.join("\n  ")
        ))
    }
}

/// The tests of the generic group that are meant to be run unattended and soon end, and those that
/// are listed.
fn generic(checkout: &Path, list: &List) -> Result<Vec<String>, String> {
    let directory = checkout.join("tests/generic");
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory)
        .map_err(|why| format!("{}: {why}", directory.display()))?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.len() < 3 || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let text = fs::read(entry.path()).map_err(|why| why.to_string())?;
        let text = String::from_utf8_lossy(&text);
        let groups = text
            .lines()
            .find_map(|line| line.strip_prefix("_begin_fstest "))
            .unwrap_or_default();
        let has = |group: &str| groups.split_whitespace().any(|word| word == group);
        let test = format!("generic/{name}");
        if list.names(&test) || has("auto") && has("quick") && !has(DANGEROUS) {
            found.push(test);
        }
    }
    found.sort();
    Ok(found)
}

/// The place of one stack's run.
struct Place {
    stack: &'static str,
    /// Files that go with the run: media, mount points, the programs.
    work: tempfile::TempDir,
    /// Files that stay: xfstests' own results.
    kept: PathBuf,
}

impl Place {
    fn new(stack: &'static str, layers: &str) -> Result<Self, String> {
        let failed = |why: std::io::Error| why.to_string();
        // Other users go through here.
        let work = tempfile::Builder::new()
            .prefix("xfstests")
            .permissions(mode(0o755))
            .tempdir()
            .map_err(failed)?;
        let kept = target().join("xfstests").join(stack);
        _ = fs::remove_dir_all(&kept);
        for directory in [
            &kept,
            &work.path().join("bin"),
            &work.path().join("test"),
            &work.path().join("scratch"),
        ] {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        for device in ["test.toml", "scratch.toml"] {
            fs::write(work.path().join(device), format!("{CHIP}{layers}")).map_err(failed)?;
        }
        let program = work.path().join("bin/mount");
        fs::write(&program, include_str!("xfstests/mount.sh")).map_err(failed)?;
        fs::set_permissions(&program, mode(0o755)).map_err(failed)?;
        fs::write(work.path().join("enter"), include_str!("xfstests/enter.sh")).map_err(failed)?;
        Ok(Self { stack, work, kept })
    }

    /// Runs these tests, each within the limit.
    fn judge(
        &self,
        checkout: &Path,
        mut tests: Vec<String>,
    ) -> Result<Vec<(String, Found)>, String> {
        let mut found = Vec::new();
        while !tests.is_empty() {
            let mut child = self.check(checkout, &tests)?;
            let lines = lines_of(&mut child);
            let mut watch = Watch::new(LIMIT);
            let hung = watch.follow(self.stack, &lines);
            if hung.is_some() {
                // The namespace goes with its first process, and everything in it.
                child.kill().map_err(|why| why.to_string())?;
            }
            child.wait().map_err(|why| why.to_string())?;
            found.append(&mut watch.found);
            if let Some(test) = hung {
                let hung = Found {
                    verdict: Verdict::Hung,
                    reason: format!("nothing said for {} s", LIMIT.as_secs()),
                };
                eprintln!("{} {test} {hung}", self.stack);
                found.push((test, hung));
            }
            let before = tests.len();
            tests.retain(|test| !found.iter().any(|(of, _)| of == test));
            if tests.len() == before {
                return Err(format!(
                    "{}: xfstests says nothing of {tests:?}",
                    self.stack
                ));
            }
        }
        // Where media lie is of no interest.
        let own = format!("{}/", self.work.path().display());
        found
            .iter_mut()
            .for_each(|(_, found)| found.reason = found.reason.replace(&own, ""));
        Ok(found)
    }

    fn check(&self, checkout: &Path, tests: &[String]) -> Result<Child, String> {
        let at = |name: &str| self.work.path().join(name);
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "bash",
            ])
            .arg(at("enter"));
        let program = target().join("debug/nandlab");
        command
            .args([self.work.path(), checkout, &self.kept, &program])
            .arg("./check")
            .args(tests);
        command
            .env("NANDLAB", &program)
            .env("NANDLAB_FAILURES", self.kept.join("failures"));
        command
            .env("FSTYP", "fuse")
            .env("FUSE_SUBTYP", ".nandlab")
            .env("HOST_OPTIONS", "/nonexistent");
        command
            .env("TEST_DEV", at("test.toml"))
            .env("TEST_DIR", at("test"));
        command
            .env("SCRATCH_DEV", at("scratch.toml"))
            .env("SCRATCH_MNT", at("scratch"));
        command.env("RESULT_BASE", &self.kept).env("LC_ALL", "C");
        let reported = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        reported.map_err(|why| format!("unshare (as root): {why}"))
    }

    /// What ended otherwise than by being unmounted.
    fn failures(&self) -> Vec<String> {
        let text = fs::read(self.kept.join("failures")).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .map(|line| format!("{}: {line}", self.stack))
            .collect()
    }
}

/// The output as it comes: a piece may end within a line.
fn lines_of(child: &mut Child) -> Receiver<Vec<u8>> {
    let (said, pieces) = channel();
    let mut from = BufReader::new(child.stdout.take().expect("it is a pipe"));
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if said.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

/// Follows what xfstests says.
struct Watch {
    limit: Duration,
    /// The output since the last end of a line.
    line: String,
    found: Vec<(String, Found)>,
}

impl Watch {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            line: String::new(),
            found: Vec::new(),
        }
    }

    /// To the end, or to the limit of a test, which it then names.
    fn follow(&mut self, stack: &str, pieces: &Receiver<Vec<u8>>) -> Option<String> {
        let mut since = Instant::now();
        loop {
            match pieces.recv_timeout(self.limit.saturating_sub(since.elapsed())) {
                Ok(piece) => self.hear(stack, &String::from_utf8_lossy(&piece)),
                Err(RecvTimeoutError::Timeout) => {
                    return verdicts::test_of(&self.line).map(str::to_string);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            since = Instant::now();
        }
    }

    fn hear(&mut self, stack: &str, piece: &str) {
        self.line.push_str(piece);
        while let Some(end) = self.line.find('\n') {
            let line: String = self.line.drain(..=end).collect();
            if let Some((test, found)) = verdicts::of_line(&line) {
                eprintln!("{stack} {test} {found}");
                self.found.push((test.to_string(), found));
            }
        }
    }
}

fn mode(bits: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(bits)
}

fn target() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").and_then(|named| std::path::absolute(named).ok());
    named.unwrap_or_else(|| root().join("target"))
}
