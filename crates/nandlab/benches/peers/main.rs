//! `nandlab image create` and `extract` beside the tools that do so today, of a tree of 17,000
//! entries and 215 MB: time and memory of whole commands, in one run.
//!
//! All get the same tree, in memory, and end when their output is in files there. Seconds on the
//! wall are the best of some rounds, and count as far as nothing else runs; processor seconds are
//! those of the same round, of all threads and children; memory is the largest that one process
//! held. Needs mtd-utils, f2fs-tools, e2fsprogs, dosfstools, mtools, time, and python3 with venv
//! and pip for jefferson and ubi_reader, which it installs below the target directory. Words choose
//! formats: jffs2, ubifs, f2fs, ext3, ext4, fat. `$DUMP_F2FS` names a dump.f2fs that takes trees
//! out, as its source does since the release of 1.16.0; an older one takes single files only.

mod measure;
#[path = "../../../jffs2/benches/image/tree.rs"]
mod tree;

use measure::{Cost, Side, in_turn, length, script, words};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rounds of what takes seconds, and of what takes less than one.
const SLOW: u32 = 3;
const QUICK: u32 = 9;
/// What all promise of memory: so much, and a hundredth of the image.
const MEMORY: (f64, f64) = (100.0, 0.01);
/// Programs in Python, with the package of each.
const JEFFERSON: [&str; 2] = ["jefferson", "jefferson==0.4.8"];
const UBI_READER: [&str; 2] = ["ubireader_extract_files", "ubi_reader==0.8.10"];

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let place = Path::new("/dev/shm");
    let place = if place.is_dir() {
        place.into()
    } else {
        std::env::temp_dir()
    };
    let scratch = tempfile::tempdir_in(place).expect("a directory for images");
    let bench = Bench {
        at: scratch.path().into(),
    };
    let source = bench.source();
    fs::create_dir(&source)
        .and_then(|()| tree::make(&source))
        .expect("space for the tree, 225 MB");
    println!(
        "| what | tool | wall s | processor s | memory MB | image MB | |\n|---|---|---:|---:|---:|---:|---:|"
    );
    for (name, run) in [
        ("jffs2", jffs2 as fn(&Bench)),
        ("ubifs", ubifs),
        ("f2fs", f2fs),
        ("ext3", |bench| ext(bench, "ext3", 4)),
        ("ext4", |bench| {
            // The first is what mke2fs takes for a disk of this size by default.
            ext(bench, "ext4", 1);
            ext(bench, "ext4", 4);
        }),
        ("fat", fat),
    ] {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            run(&bench);
        }
    }
}

struct Bench {
    at: PathBuf,
}

impl Bench {
    fn source(&self) -> PathBuf {
        self.at.join("tree")
    }

    fn image(&self, whose: &str) -> PathBuf {
        self.at.join(whose)
    }

    fn clear(&self) {
        for name in ["out", "list"] {
            let dir = self.at.join(name);
            if dir.exists() {
                fs::remove_dir_all(&dir).expect("a directory of ours");
            }
        }
    }

    /// Two tools that make images of the tree, ours with these options.
    fn create(
        &self,
        what: &str,
        tool: &str,
        rounds: u32,
        options: &[&str],
        theirs: &dyn Fn(&Path) -> Vec<String>,
    ) {
        let [other, image] = ["theirs", "ours"].map(|whose| self.image(whose));
        let ours = || {
            let mut command = words([&env!("CARGO_BIN_EXE_nandlab"), &"image", &"create"]);
            command.extend(options.iter().map(ToString::to_string));
            command.extend(words([&image, &self.source()]));
            command
        };
        let costs = in_turn([
            Side {
                rounds,
                ready: &|| _ = fs::remove_file(&other),
                command: &|| theirs(&other),
            },
            Side {
                rounds,
                ready: &|| _ = fs::remove_file(&image),
                command: &ours,
            },
        ]);
        lines(
            &format!("create {what}"),
            tool,
            (costs[0], length(&other)),
            (costs[1], length(&image)),
        );
    }

    /// Two tools that take the tree out of their own images, theirs so many times.
    fn extract(
        &self,
        what: &str,
        tool: &str,
        rounds: u32,
        from: &str,
        theirs: &dyn Fn(&Path, &Path) -> Vec<String>,
    ) {
        let other = self.image(from);
        let image = self.image("ours");
        let out = self.at.join("out");
        let ours = || {
            words([
                &env!("CARGO_BIN_EXE_nandlab"),
                &"image",
                &"extract",
                &image,
                &out,
            ])
        };
        let costs = in_turn([
            Side {
                rounds,
                ready: &|| self.clear(),
                command: &|| theirs(&other, &out),
            },
            Side {
                rounds: QUICK,
                ready: &|| self.clear(),
                command: &ours,
            },
        ]);
        lines(
            &format!("extract {what}"),
            tool,
            (costs[0], length(&other)),
            (costs[1], length(&image)),
        );
        self.clear();
    }
}

fn lines(what: &str, tool: &str, theirs: (Cost, u64), ours: (Cost, u64)) {
    for (name, (cost, bytes)) in [(tool, theirs), ("ours", ours)] {
        let image = bytes as f64 / 1e6;
        println!(
            "| {what} | {name} | {:.2} | {:.2} | {:.1} | {image:.1} | |",
            cost.wall, cost.processor, cost.memory
        );
    }
    let image = ours.1 as f64 / 1e6;
    let theirs = theirs.0;
    let ours = ours.0;
    let wall = theirs.wall / ours.wall;
    let processor = theirs.processor / ours.processor;
    let kept = if ours.memory < MEMORY.0 + MEMORY.1 * image {
        "memory within 100 MB + 1 %"
    } else {
        "**memory beyond 100 MB + 1 %**"
    };
    println!("| {what} | theirs : ours | **{wall:.1}** | {processor:.1} | | | {kept} |");
}

fn jffs2(bench: &Bench) {
    let ways = [
        ("none", QUICK, "-m none"),
        ("lzo", SLOW, "-X lzo -x zlib -x rtime"),
        ("zlib", SLOW, "-x rtime"),
    ];
    for (name, rounds, theirs) in ways {
        let options = ["--format", "jffs2", "--compress", name];
        bench.create(
            &format!("JFFS2, {name}"),
            "mkfs.jffs2",
            rounds,
            &options,
            &|image| {
                let mut command = words([
                    &"mkfs.jffs2",
                    &"-l",
                    &"-e",
                    &"131072",
                    &"-r",
                    &bench.source(),
                    &"-o",
                    &image,
                ]);
                command.extend(theirs.split(' ').map(String::from));
                command
            },
        );
    }
    let jefferson = from_pip(JEFFERSON);
    // It has to be shown the image whose time is quoted: its own matters little.
    bench.extract("JFFS2, zlib", "jefferson", 1, "ours", &|image, to| {
        words([&jefferson, &image, &"-d", &to])
    });
}

fn ubifs(bench: &Bench) {
    let reader = from_pip(UBI_READER);
    for (name, rounds) in [("none", QUICK), ("lzo", SLOW), ("zlib", SLOW)] {
        let options = ["--format", "ubifs", "--compressor", name];
        bench.create(
            &format!("UBIFS, {name}"),
            "mkfs.ubifs",
            rounds,
            &options,
            &|image| {
                let mut command = words([&"mkfs.ubifs", &"-x", &name, &"-r", &bench.source()]);
                let shape = ["-m", "2048", "-e", "126976", "-c", "4000", "-o"];
                command.extend(shape.map(String::from));
                command.extend(words([&image]));
                command
            },
        );
        let what = format!("UBIFS, {name}");
        // It ends with status 0 when it finds nothing.
        bench.extract(&what, "ubi_reader", SLOW, "theirs", &|image, to| {
            script(&format!(
                "{} -o {1} {2} && test -n \"$(ls {1})\"",
                reader.display(),
                to.display(),
                image.display()
            ))
        });
    }
}

fn f2fs(bench: &Bench) {
    bench.create(
        "F2FS",
        "mkfs.f2fs, sload.f2fs",
        QUICK,
        &["--format", "f2fs"],
        &|image| {
            let image = image.display();
            let tree = bench.source();
            script(&format!(
                "truncate -s 600M {image} && mkfs.f2fs -q {image} && sload.f2fs -f {} {image}",
                tree.display()
            ))
        },
    );
    let dump = std::env::var("DUMP_F2FS").unwrap_or_else(|_| "dump.f2fs".into());
    if !takes_trees(&dump) {
        println!("| extract F2FS | {dump} | | | | | takes out single files by their inode only |");
        return;
    }
    // It ends with what its last question returned.
    bench.extract("F2FS", "dump.f2fs", QUICK, "theirs", &|image, to| {
        script(&format!(
            "mkdir {0}; {dump} -r -f -P -L -o {0} {1}; test -n \"$(ls {0})\"",
            to.display(),
            image.display()
        ))
    });
}

/// The release of 1.16.0 does not yet.
fn takes_trees(dump: &str) -> bool {
    let help = Command::new(dump)
        .arg("-h")
        .output()
        .unwrap_or_else(|error| panic!("{dump}: {error}: apt-get install f2fs-tools"));
    [help.stdout, help.stderr]
        .iter()
        .any(|text| String::from_utf8_lossy(text).contains("-r dump"))
}

/// Blocks of so many KiB on both sides.
fn ext(bench: &Bench, format: &str, block: u32) {
    let what = format!("{format}, {block} KiB");
    let block = (block * 1024).to_string();
    bench.create(
        &what,
        "mke2fs -d",
        QUICK,
        &["--format", format, "--block-size", &block],
        &|image| {
            let shape = ["-q", "-t", format, "-b", &block, "-N", "20000"];
            let mut command = words([&"mke2fs"]);
            command.extend(shape.map(String::from));
            command.extend(words([&"-d", &bench.source(), &image, &"400M"]));
            command
        },
    );
    bench.extract(&what, "debugfs rdump", QUICK, "theirs", &|image, to| {
        script(&format!(
            "mkdir {0} && debugfs -R 'rdump / {0}' {1}",
            to.display(),
            image.display()
        ))
    });
}

/// A tree that FAT holds: without symbolic links and second names.
fn fat(bench: &Bench) {
    let tree = bench.source();
    let unwanted = [
        "-type", "l", "-delete", "-o", "-type", "f", "-links", "+1", "-delete",
    ];
    let status = Command::new("find")
        .arg(&tree)
        .args(unwanted)
        .status()
        .expect("find");
    assert!(status.success(), "find: {status}");
    bench.create("FAT32", "mkfs.vfat, mcopy", QUICK, &["--format", "fat", "--lossy"], &|image| {
        let image = image.display();
        script(&format!("truncate -s 400M {image} && mkfs.vfat -F 32 {image} && mcopy -s -m -i {image} {}/* ::", tree.display()))
    });
    bench.extract("FAT32", "mcopy", QUICK, "theirs", &|image, to| {
        script(&format!(
            "mkdir {0} && mcopy -s -m -n -i {1} '::*' {0}",
            to.display(),
            image.display()
        ))
    });
}

/// Installs a program once, in a directory of its own.
fn from_pip([program, package]: [&str; 2]) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    let program = place.join("bin").join(program);
    if !program.exists() {
        let succeed = |command: &mut Command| {
            let status = command
                .status()
                .unwrap_or_else(|error| panic!("{error}: apt-get install python3-venv"));
            assert!(status.success(), "{status}");
        };
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&place));
        succeed(Command::new(place.join("bin/pip")).args(["install", "--quiet", package]));
    }
    program
}
