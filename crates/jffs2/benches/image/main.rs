//! JFFS2 images of a tree of 17,000 entries and 215 MB: made beside `mkfs.jffs2`, extracted beside
//! jefferson, mounted beside the kernel.
//!
//! All tools get the same tree, the same erase block and the same compressors, and end when their
//! output is in files; images are compared by their length, extracted trees with the source, entry
//! by entry. Seconds on the wall are the best of some rounds, and count as far as nothing else
//! runs; processor seconds are those of the same round, of all threads and children. Needs
//! mtd-utils, python3 with venv and pip (for jefferson, which it installs below the target
//! directory), and for the kernel what `nandlab-oracle` needs.

mod compare;
mod cost;
mod extract;
mod make;
mod mounts;
mod tree;

use cost::{Cost, cost, cost_after};
use nandlab_jffs2::{Choice, Compression};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const ROUNDS: u32 = 3;
/// Of the slow tools.
const ROUNDS_SLOW: u32 = 2;
/// Bytes of an erase block.
pub const BLOCK: u32 = 128 * 1024;
const JEFFERSON: &str = "jefferson==0.4.8";

fn only(lzo: bool, zlib: bool) -> Compression {
    Compression {
        choice: if lzo || zlib {
            Choice::Priority
        } else {
            Choice::None
        },
        lzo,
        zlib,
        rtime: false,
    }
}

/// Name, our compressors, the arguments that make mkfs.jffs2 use the same.
const WAYS: [(&str, bool, bool, &[&str]); 3] = [
    ("none", false, false, &["-m", "none"]),
    ("zlib", false, true, &["-x", "rtime"]),
    (
        "lzo",
        true,
        false,
        &["-X", "lzo", "-x", "zlib", "-x", "rtime"],
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [verb, image] = &words[..]
        && verb == mounts::IN_GUEST
    {
        mounts::in_guest(Path::new(image));
        return ExitCode::SUCCESS;
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let scratch = in_memory();
    let source = scratch.path().join("tree");
    fs::create_dir(&source)
        .and_then(|()| tree::make(&source))
        .expect("space for the tree, 225 MB");
    let image = scratch.path().join("ours.jffs2");
    if wanted("make") {
        println!(
            "\n| compressor | tool | wall s | processor s | image bytes |\n|---|---|---:|---:|---:|"
        );
        WAYS.iter().for_each(|way| images(way, &source, &image));
    }
    if wanted("extract") {
        make::image(&source, only(false, true), threads(), &image);
        extracts(&source, &image, scratch.path());
    }
    if wanted("mount") {
        mounts::tables(&source, scratch.path());
    }
    ExitCode::SUCCESS
}

/// A directory in memory, where there is one: a disk's file system has its own mind about inodes
/// that were given back a moment ago.
fn in_memory() -> tempfile::TempDir {
    let place = Path::new("/dev/shm");
    let place = if place.is_dir() {
        place.into()
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(place).expect("a directory for images")
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn line(name: &str, tool: &str, cost: Cost, bytes: u64) {
    println!(
        "| {name} | {tool} | {:.2} | {:.2} | {bytes} |",
        cost.wall, cost.processor
    );
}

fn ratio(name: &str, theirs: Cost, ours: Cost, bytes: [u64; 2]) {
    let wall = theirs.wall / ours.wall;
    let processor = theirs.processor / ours.processor;
    println!(
        "| {name} | theirs : ours | **{wall:.1}** | {processor:.1} | {:.3} |",
        bytes[0] as f64 / bytes[1] as f64
    );
}

fn images((name, lzo, zlib, arguments): &(&str, bool, bool, &[&str]), source: &Path, image: &Path) {
    let other = image.with_extension("theirs");
    let theirs = cost(ROUNDS_SLOW, || {
        let mut mkfs = Command::new(tool("mkfs.jffs2", "mtd-utils"));
        mkfs.args(["-l", "-e", &format!("{BLOCK}"), "-r"])
            .arg(source)
            .args(*arguments)
            .arg("-o")
            .arg(&other);
        succeed(&mut mkfs);
    });
    let mut alone = Vec::new();
    for threads in [threads(), 1] {
        let ours = cost(ROUNDS, || {
            make::image(source, only(*lzo, *zlib), threads, image)
        });
        if alone.is_empty() {
            let bytes = [&other, image].map(length);
            line(name, "mkfs.jffs2", theirs, bytes[0]);
            line(name, &format!("ours, {threads} threads"), ours, bytes[1]);
            ratio(name, theirs, ours, bytes);
            alone = fs::read(image).expect("our image");
        } else {
            line(name, "ours, 1 thread", ours, length(image));
            assert!(
                alone == fs::read(image).expect("our image"),
                "the number of threads is in the image"
            );
        }
    }
}

fn extracts(source: &Path, image: &Path, scratch: &Path) {
    let jefferson = jefferson();
    let [ours, theirs] = ["ours", "jefferson"].map(|name| scratch.join(format!("{name}.tree")));
    let clear = |dir: &Path| {
        if dir.exists() {
            fs::remove_dir_all(dir).expect("a directory of ours")
        }
    };
    println!("\n| extracting the zlib image | wall s | processor s |\n|---|---:|---:|");
    let fast = cost_after(ROUNDS, || clear(&ours), || extract::tree(image, &ours));
    let slow = cost_after(
        ROUNDS_SLOW,
        || clear(&theirs),
        || succeed(Command::new(&jefferson).arg(image).arg("-d").arg(&theirs)),
    );
    println!(
        "| jefferson 0.4.8 | {:.2} | {:.2} |\n| ours | {:.2} | {:.2} |",
        slow.wall, slow.processor, fast.wall, fast.processor
    );
    println!(
        "| jefferson : ours | **{:.1}** | {:.1} |",
        slow.wall / fast.wall,
        slow.processor / fast.processor
    );
    println!(
        "\nours differs from the source in: {}",
        compare::differences(source, &ours)
    );
    println!(
        "jefferson differs from the source in: {}",
        compare::differences(source, &theirs)
    );
    // A medium that has been in use: names removed, files overwritten, cut and renamed.
    let lived = scratch.join("lived.jffs2");
    let expected = scratch.join("lived.expected");
    extract::lived_in(&lived, &expected);
    clear(&ours);
    clear(&theirs);
    extract::tree(&lived, &ours);
    let done = Command::new(&jefferson)
        .arg(&lived)
        .arg("-d")
        .arg(&theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    println!(
        "\nof a medium that was in use, ours differs in: {}",
        compare::differences(&expected, &ours)
    );
    println!(
        "of a medium that was in use, jefferson ({}) differs in: {}",
        done.expect("it ran before"),
        compare::differences(&expected, &theirs)
    );
}

fn length(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).expect("an image was made").len()
}

/// A program, wherever Debian puts it.
fn tool(program: &str, package: &str) -> PathBuf {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|dir| Path::new(dir).join(program));
    places
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"))
}

fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{}: {why}", command.get_program().display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {} {said}",
        command.get_program().display(),
        output.status
    );
}

/// Installs it once, in a directory of its own.
fn jefferson() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jefferson");
    let program = place.join("bin/jefferson");
    if !program.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&place));
        succeed(Command::new(place.join("bin/pip")).args(["install", "--quiet", JEFFERSON]));
    }
    program
}
