//! The wall time of an attach of a device of 1 GiB, by a scan and by UBIL, and that of
//! `ubireader_display_info` (ubi_reader) for an image of the same device.
//!
//! Ours reads the image from a file that the page cache holds, opened anew in each round, through
//! the whole of `Ubi::attach`: both headers of each block, or a commit, tables, everything checked;
//! the number of volumes is printed. ubi_reader is a Python program: its time has the start of the
//! interpreter, and it reads each block whole and sums it; it has no UBIL. Best of three rounds.
//! The device has 8,192 blocks of 128 KiB, three quarters of them mapped. Needs `python3 -m venv`
//! and, once, PyPI.

#[path = "../tests/all/reader/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod reader;

use nandlab_mtd::{Image, ImageFormat, Layout, Mtd};
use nandlab_sim::{Backing, BackingError};
use nandlab_ubi::{Attached, Commit, LogOptions, Memory, Options, Superblock, Ubi};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 3;
const BLOCKS: u32 = 8192;
const FORMAT: ImageFormat = ImageFormat {
    page: 2048,
    oob: 0,
    pages_per_block: 64,
    layout: Layout::Raw,
    ecc: None,
};

/// A file as the bytes of an image.
#[derive(Debug)]
struct InFile {
    file: File,
    bytes: u64,
}

impl Backing for InFile {
    fn len(&self) -> u64 {
        self.bytes
    }
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|_| BackingError::Io("a read failed"))
    }
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.file
            .write_all_at(data, offset)
            .map_err(|_| BackingError::Io("a write failed"))
    }
    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

fn open(path: &Path) -> Image<InFile> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    Image::new(
        InFile {
            file,
            bytes: FORMAT.bytes(BLOCKS),
        },
        FORMAT,
    )
    .unwrap()
}

fn options(memory: Memory) -> Options {
    Options {
        memory,
        ..Options::default()
    }
}

/// A device in a file.
fn make(path: &Path, memory: Memory) {
    let erased = vec![0xFF; 1 << 20];
    let file = File::create(path).unwrap();
    for offset in (0..FORMAT.bytes(BLOCKS)).step_by(erased.len()) {
        file.write_all_at(&erased, offset).unwrap();
    }
    let (ubi, _) = Ubi::furnished(open(path), options(memory), 768, &[0x5A; 2048]).unwrap();
    ubi.detach().unwrap();
}

fn best(mut round: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

fn ours(path: &Path, memory: Memory, expected: Attached) -> Duration {
    best(|| {
        let begun = Instant::now();
        let ubi = Ubi::attach(open(path), options(memory)).unwrap();
        let taken = begun.elapsed();
        assert_eq!(
            (
                ubi.info().attached,
                ubi.volumes().len(),
                ubi.medium().geometry().blocks
            ),
            (expected, 1, BLOCKS)
        );
        taken
    })
}

fn theirs(program: &Path, image: &Path) -> Duration {
    best(|| {
        let begun = Instant::now();
        let output = Command::new(program)
            .args(["--peb-size", "131072"])
            .arg(image)
            .output()
            .unwrap();
        let taken = begun.elapsed();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("furnished"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        taken
    })
}

fn main() {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let image = target.join("ubi-attach-1GiB");
    let log = |superblock, commit, compress| {
        Memory::Log(LogOptions {
            superblock,
            commit,
            compress,
            ..LogOptions::default()
        })
    };
    make(&image, Memory::Scan);
    let scan = ours(&image, Memory::Scan, Attached::Scan);
    let python = theirs(&reader::program("ubireader_display_info"), &image);
    println!(
        "1 GiB, 8,192 blocks, three quarters mapped; best of {ROUNDS}; the file is in the page cache; reading it is in all times"
    );
    let show = |name: &str, time: Duration| {
        println!(
            "{name:50} {:9.1} ms, ubi_reader takes {:8.1} times as long",
            time.as_secs_f64() * 1e3,
            python.as_secs_f64() / time.as_secs_f64()
        );
    };
    show("ubireader_display_info (Python's start included)", python);
    show("attach by a scan", scan);
    for (name, memory) in [
        ("attach by UBIL", log(Superblock::Pair, Commit::Full, false)),
        (
            "attach by UBIL, compressed",
            log(Superblock::Pair, Commit::Full, true),
        ),
        (
            "attach by UBIL, chain and incremental commit",
            log(Superblock::Chain, Commit::Incremental, false),
        ),
    ] {
        make(&image, memory);
        show(name, ours(&image, memory, Attached::Log));
    }
    fs::remove_file(&image).unwrap();
}
