//! The judges, and what they say.

use nandlab_oracle::Oracle;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

const JUDGES: [&str; 2] = ["pjdfstest@0.2.2", "fsx@0.3.2"];

/// What each test came to.
pub type Verdicts = BTreeMap<String, Verdict>;

/// The users that the guest knows.
const USERS: &str =
    "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\ndaemon:x:1:1::/:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\ndaemon:x:1:\n";

/// What a test came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// Where the judges are; installed the first time.
fn judges() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judges");
        if !place.join("bin/pjdfstest").exists() || !place.join("bin/fsx").exists() {
            let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo
                .args(["install", "--locked", "--debug", "--root"])
                .arg(&place)
                .args(JUDGES);
            let reported = cargo.output().expect("cargo runs this test");
            let said = String::from_utf8_lossy(&reported.stderr);
            assert!(
                reported.status.success(),
                "installing {JUDGES:?} (which need the Debian package libacl1-dev): {said}"
            );
        }
        place.join("bin")
    })
}

/// Users that Debian always has; features that Linux has.
fn configuration(nap: f64) -> String {
    format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nutimensat = {{}}\nutime_now = {{}}\n\
         [settings]\nnaptime = {nap}\nallow_remount = false\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
    )
}

/// Every test of pjdfstest in a directory.
pub fn pjdfstest(dir: &Path, nap: f64) -> Verdicts {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("pjdfstest.toml");
    fs::write(&file, configuration(nap)).unwrap();
    let reported = Command::new(judges().join("pjdfstest"))
        .arg("-c")
        .arg(&file)
        .arg("-p")
        .arg(dir)
        .output()
        .expect("it is installed");
    let verdicts = verdicts(&String::from_utf8_lossy(&reported.stdout));
    assert!(
        verdicts.len() > 300,
        "{}{}",
        String::from_utf8_lossy(&reported.stdout),
        String::from_utf8_lossy(&reported.stderr)
    );
    verdicts
}

/// Lines of `module::test   ok`.
fn verdicts(said: &str) -> Verdicts {
    let verdict = |line: &str| {
        let (name, word) = line.split_once(char::is_whitespace)?;
        let verdict = match word.trim() {
            "ok" => Verdict::Passed,
            "FAILED" => Verdict::Failed,
            "skipped" => Verdict::Skipped,
            _ => return None,
        };
        name.contains("::").then(|| (name.to_string(), verdict))
    };
    said.lines().filter_map(verdict).collect()
}

/// How often fsx makes each call.
const FSX_WEIGHTS: &str = "[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
sendfile = 3
posix_fadvise = 1
";

/// So many random operations on a file, which is long and short in turn: the calls of a short one
/// overlap more.
pub fn fsx(file: &Path, operations: u64, seed: u32) {
    let scratch = tempfile::tempdir().unwrap();
    let choices = scratch.path().join("fsx.toml");
    let longest = [64 << 10, 1 << 20][seed as usize % 2];
    fs::write(&choices, format!("flen = {longest}\n{FSX_WEIGHTS}")).unwrap();
    let mut fsx = Command::new(judges().join("fsx"));
    fsx.args([
        "-q",
        "-N",
        &operations.to_string(),
        "-S",
        &seed.to_string(),
        "-P",
    ])
    .arg(scratch.path())
    .arg("-f")
    .arg(&choices)
    .arg(file);
    let reported = fsx.output().expect("it is installed");
    let said = [reported.stdout, reported.stderr].concat();
    let end = &said[said.len().saturating_sub(4000)..];
    assert!(
        reported.status.success(),
        "{}: {}",
        reported.status,
        String::from_utf8_lossy(end)
    );
}

/// Every test in the kernel's own JFFS2, on flash in memory. The guest's clock counts instructions,
/// so that its naps take no time.
pub fn pjdfstest_in_the_kernels_jffs2() -> Verdicts {
    let judge = judges().join("pjdfstest");
    let script = format!(
        "mp mtdram total_size=32768 erase_size=64 && mp mtdblock && mp jffs2 && mount -t jffs2 mtd0 /mnt && chmod 777 /mnt
         {} -c /pjdfstest.toml -p /mnt > /out.txt 2>&1
         send out /out.txt",
        judge.display()
    );
    let guest = Oracle::ready()
        .unwrap()
        .guest()
        .program(&judge)
        .script(script)
        .icount(1)
        .memory(512);
    let guest = guest
        .file("/pjdfstest.toml", configuration(1.05))
        .file("/etc/passwd", USERS)
        .file("/etc/group", GROUPS);
    let report = guest.run().unwrap();
    let said = report
        .files
        .get("out")
        .unwrap_or_else(|| panic!("{}", report.console));
    verdicts(&String::from_utf8_lossy(said))
}
