//! Images made and extracted beside the tools that do so today: mkfs.jffs2, sload.f2fs and dump.f2fs, mke2fs -d and debugfs rdump, of a tree of 17,000 entries and 215 MB.
//!
//! All get the same tree and end when their output is in files. Seconds on the wall are the best of some rounds, and count as far as nothing else runs; processor seconds are those of the same round, of all
//! threads and children; memory is the largest that one process held. (jefferson is in the benchmark of `jffs2`.) Needs mtd-utils, f2fs-tools and e2fsprogs. Words choose formats: jffs2, f2fs, ext3.

#[path = "../../../jffs2/benches/image/cost.rs"]
mod cost;
#[path = "../../../jffs2/benches/image/tree.rs"]
mod tree;

use cost::{Cost, cost, cost_after};
use nandlab_image::dir_in;
use nandlab_image::dir_out::DirOut;
use nandlab_image::make::{Format, Making, make};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_image::walk::Walk;
use nandlab_jffs2::Compression;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const ROUNDS: u32 = 3;
const BLOCK: u32 = 128 * 1024;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let scratch = tempfile::tempdir().expect("a directory for images");
    let source = scratch.path().join("tree");
    fs::create_dir(&source).and_then(|()| tree::make(&source)).expect("room for the tree, 225 MB");
    println!("| what | tool | wall s | processor s |\n|---|---|---:|---:|");
    let at = scratch.path();
    if wanted("jffs2") {
        let theirs = |image: &Path| shell(&format!("mkfs.jffs2 -l -e {BLOCK} -x rtime -r {} -o {}", source.display(), image.display()));
        let zlib = Compression { zlib: true, ..Compression { choice: nandlab_jffs2::Choice::Priority, ..Compression::NONE } };
        formats(at, &source, ("jffs2", "mkfs.jffs2"), Format::jffs2(BLOCK, zlib), &theirs, None);
    }
    if wanted("f2fs") {
        let theirs = |image: &Path| {
            let image = image.display();
            shell(&format!("rm -f {image}; truncate -s 600M {image}; mkfs.f2fs -q {image} && sload.f2fs -f {} {image}", source.display()));
        };
        let out =
            |image: &Path, to: &Path| shell(&format!("mkdir {0}; yes | dump.f2fs -r -f -P -L -o {0} {1}", to.display(), image.display()));
        formats(at, &source, ("f2fs", "sload.f2fs"), Format::F2fs(nandlab_f2fs::Format::default()), &theirs, Some(("dump.f2fs", &out)));
    }
    if wanted("ext3") {
        let theirs = |image: &Path| {
            let image = image.display();
            shell(&format!("rm -f {image}; mke2fs -q -t ext3 -b 4096 -N 20000 -d {} {image} 400M", source.display()));
        };
        let out = |image: &Path, to: &Path| shell(&format!("mkdir {0}; debugfs -R 'rdump / {0}' {1}", to.display(), image.display()));
        let choices = nandlab_ext::Format { journal: true, block: Some(4096), ..Default::default() };
        formats(at, &source, ("ext3", "mke2fs -d"), Format::Ext(choices), &theirs, Some(("debugfs rdump", &out)));
    }
    println!("\npeak memory of this process: {} MB", peak_mb());
}

type Extract<'a> = (&'a str, &'a dyn Fn(&Path, &Path));

fn formats(at: &Path, source: &Path, names: (&str, &str), format: Format, theirs: &dyn Fn(&Path), out: Option<Extract<'_>>) {
    let (ours_image, their_image, dir) = (at.join("ours"), at.join("theirs"), at.join("out"));
    let slow = cost(ROUNDS, || theirs(&their_image));
    let fast = cost(ROUNDS, || create(source, format.clone(), &ours_image));
    line(&format!("create {}", names.0), names.1, slow, fast);
    let clear = || {
        if dir.exists() {
            fs::remove_dir_all(&dir).expect("a directory of ours");
        }
    };
    let fast = cost_after(ROUNDS, clear, || extract(&ours_image, &dir));
    let slow = out.map(|(name, out)| {
        let slow = cost_after(ROUNDS, clear, || out(&their_image, &dir));
        // An old dump.f2fs takes one file at a time.
        let count = fs::read_dir(&dir).map_or(0, Iterator::count);
        (name, (count > 0).then_some(slow))
    });
    match slow {
        Some((name, Some(slow))) => line(&format!("extract {}", names.0), name, slow, fast),
        Some((name, None)) => {
            println!("| extract {0} | {name} | not able | |\n| extract {0} | ours | {1:.2} | {2:.2} |", names.0, fast.wall, fast.processor)
        }
        None => println!("| extract {} | ours | {:.2} | {:.2} |", names.0, fast.wall, fast.processor),
    }
    clear();
}

fn line(what: &str, tool: &str, theirs: Cost, ours: Cost) {
    println!(
        "| {what} | {tool} | {:.2} | {:.2} |\n| {what} | ours | {:.2} | {:.2} |",
        theirs.wall, theirs.processor, ours.wall, ours.processor
    );
    println!("| {what} | theirs : ours | **{:.1}** | {:.1} |", theirs.wall / ours.wall, theirs.processor / ours.processor);
}

fn create(source: &Path, format: Format, to: &Path) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let making = Making { format, size: None, lossy: true, threads, progress: &mut |_| {} };
    make(dir_in::read(source).expect("the tree"), making, to).expect("room for the image");
}

fn extract(image: &Path, to: &Path) {
    let mut volume = Volume::open(image, &Opening::default(), Access::Read).expect("a good image");
    let mut sink = DirOut::new(to).expect("room for the tree");
    Walk::new(volume.fs().expect("a file system"), false, &mut |_| {}).run(b"", &mut sink).expect("a good image");
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("sh");
    // dump.f2fs ends with what its last question returned.
    assert!(status.success() || script.contains("dump.f2fs"), "{script}: {status}: are mtd-utils, f2fs-tools and e2fsprogs installed?");
}

/// `VmHWM` of proc(5).
fn peak_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}
