//! `record`: the block traces of `traces/`, recorded from the real kernel.
//!
//! A guest makes a file system on an exported disk and works on it (`record.sh`); the export writes
//! every request down. The README beside the traces is written from the same run, so that what it
//! says of them is true.

use crate::{Outcome, root};
use nandlab_block::Ram;
use nandlab_host::{
    SharedDisk,
    nbd::{Address, Options, Server},
    record::record,
};
use nandlab_oracle::{Disk, Oracle, Report};
use nandlab_sim::mix;
use nandlab_workload::{
    Survey,
    trace::{self, Format, Reader},
};
use std::{fmt::Write as _, fs, path::PathBuf, time::Instant};

/// A file system and how the guest makes it.
const KINDS: [(&str, &str); 3] = [
    ("ext4", "mkfs.ext4 -qF -b 4096"),
    ("f2fs", "mkfs.f2fs -q"),
    ("vfat", "mkfs.vfat"),
];
/// Bytes of each disk.
const DISK_BYTES: u64 = 96 << 20;
/// Bytes of a sector.
const SECTOR: u32 = 512;
/// Bytes of the noise that fills files, and of the whole source tree at most.
const NOISE: usize = 8 << 20;
/// Files of the source tree.
const FILES: u64 = 300;
/// Lines of a trace without a request: the heading, `add`, `open`, `close`.
const IDLE_LINES: u64 = 4;

pub fn run(words: &[String]) -> Outcome {
    match words {
        [] => {}
        [what, works @ ..] if what == "rival" => return rival(works),
        _ => return Err("expected nothing, or \"rival\" and works of it".into()),
    }
    let oracle = Oracle::ready().map_err(|missing| missing.to_string())?;
    fs::create_dir_all(directory()).map_err(|why| why.to_string())?;
    let mut rows = String::new();
    for (name, make) in KINDS {
        eprintln!("{name} ...");
        let lines = record_one(&oracle, name, make)?;
        let (row, found) = row(name)?;
        if found != lines {
            return Err(format!(
                "{name}: {found} lines in the file, {lines} were written"
            ));
        }
        rows += &row;
    }
    print!("{rows}");
    fs::write(directory().join("README.md"), readme(&oracle, &rows)).map_err(|why| why.to_string())
}

/// ext4's requests for the works of the F2FS paper, into `traces/f2fs-paper/`.
fn rival(works: &[String]) -> Outcome {
    let player = |words: &[&str]| crate::run(crate::cargo().args(words));
    player(&["build", "-p", "nandlab-papers", "--bin", "play-files"])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = crate::cargo();
    command.args([
        "run",
        "-p",
        "nandlab-papers",
        "--example",
        "record_rival",
        "--",
    ]);
    crate::run(
        command
            .arg(directory().join("f2fs-paper"))
            .arg(target.join("debug/play-files"))
            .args(works),
    )
}

fn directory() -> PathBuf {
    root().join("traces")
}

fn path(name: &str) -> PathBuf {
    directory().join(format!("{name}.iolog"))
}

/// Boots, works, and gives the number of lines written.
fn record_one(oracle: &Oracle, name: &str, make: &str) -> Result<u64, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{name}: {why}");
    let file = fs::File::create(path(name)).map_err(|why| failed(&why))?;
    let start = Instant::now();
    let clock = move || start.elapsed().as_nanos() as u64;
    let ram = Ram::new(SECTOR, DISK_BYTES / u64::from(SECTOR));
    let (disk, recording) =
        record(ram, file, &format!("{name}.img"), clock).map_err(|why| failed(&why))?;
    let sockets = tempfile::tempdir().map_err(|why| failed(&why))?;
    let socket = sockets.path().join("disk");
    let server = Server::start(
        SharedDisk::new(Box::new(disk)),
        &Address::Unix(socket.clone()),
        Options::default(),
    )
    .map_err(|why| failed(&why))?;
    let program = format!("/usr/sbin/{}", make.split(' ').next().unwrap_or_default());
    let script = include_str!("record.sh");
    let mut guest = oracle
        .guest()
        .disk(Disk::Nbd { socket })
        .program(program)
        .file("/noise", noise(0, NOISE));
    for i in 0..FILES {
        guest = guest.file(
            format!("/tree/d{}/file{i}", i % 15),
            noise(i + 1, file_bytes(i)),
        );
    }
    let report = guest
        .script(format!("type={name} make='/usr/sbin/{make}'\n{script}"))
        .run()
        .and_then(Report::success);
    let report = report.map_err(|why| failed(&why))?;
    eprintln!("{name}: {:.1} s", report.wall.as_secs_f64());
    server.stop().map_err(|why| failed(&why))?;
    recording.finish().map_err(|why| failed(&why))
}

/// Sizes as in a source tree: half of the files below 4 KiB, one in sixteen up to 128 KiB.
fn file_bytes(i: u64) -> usize {
    let word = mix(1, i);
    (word >> 32) as usize % (4096 << (word & 15).trailing_zeros().min(5))
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8 + 1)
        .flat_map(|word| mix(seed, word).to_le_bytes())
        .take(bytes)
        .collect()
}

/// The contents of a trace, as a row of the README, and its number of lines. Fails if a line does
/// not parse or a request leaves the disk.
fn row(name: &str) -> Result<(String, u64), String> {
    let text = fs::read(path(name)).map_err(|why| format!("{}: {why}", path(name).display()))?;
    let mut reader = Reader::new(&text, Format::Fio, trace::Options::default());
    let survey = Survey::of(&mut reader).map_err(|why| format!("{name}: {why}"))?;
    let counts = *reader.counts();
    let expected = trace::Counts {
        lines: counts.lines,
        requests: counts.lines - IDLE_LINES,
        ignored: IDLE_LINES,
        ..trace::Counts::default()
    };
    if counts != expected {
        return Err(format!("{name}: found {counts:?}, expected {expected:?}"));
    }
    if survey.end > DISK_BYTES {
        return Err(format!(
            "{name}: requests up to byte {}, expected at most {DISK_BYTES}",
            survey.end
        ));
    }
    let [reads, writes, flushes, discards] = survey.requests;
    let [read, written, _, discarded] = survey.bytes;
    let seconds = survey.duration as f64 / 1e9;
    let mut row = format!(
        "| [{name}.iolog]({name}.iolog) | {} | {reads} | {writes} | {flushes} | {discards} ",
        counts.lines
    );
    // Writing to a string cannot fail.
    _ = writeln!(row, "| {read} | {written} | {discarded} | {seconds:.1} |");
    Ok((row, counts.lines))
}

fn readme(oracle: &Oracle, rows: &str) -> String {
    let made: String = KINDS
        .iter()
        .map(|(_, make)| format!("- `{make} /dev/vda`\n"))
        .collect();
    format!(
        "# Block traces of real file systems\n\n\
         Every request that Linux {release} sent to a disk of {DISK_BYTES} bytes (sectors of {SECTOR} bytes) while it did the same work on three file\n\
         systems. Recorded, and this page written, by `cargo xtask record`; the work is `xtask/src/record.sh`: a tree of {FILES} files is copied in, a log\n\
         is appended to with an fsync each time, pages of a table are overwritten with an fsync each time, files are saved by rename, half of the\n\
         tree is deleted, the rest read, the free space trimmed. Mounted with `-o discard`, otherwise with what is usual, after\n\n\
         {made}\n\
         | trace | lines | reads | writes | flushes | discards | bytes read | bytes written | bytes discarded | seconds |\n\
         |---|---|---|---|---|---|---|---|---|---|\n\
         {rows}\n\
         Format: fio iolog version 3 (`docs/formats/traces.md`). A line is a request as it arrived at the disk; requests were served one after the\n\
         other. The disk reported the kernel of a volatile write cache and of discard, and of no forced writes (FUA), so that the kernel sends a write\n\
         and a flush instead.\n\n\
         Times are wall time in microseconds since the recording began, with the guest's processor translated by QEMU and a disk in memory that\n\
         answers at once. So the gaps are the guest's own work, stretched by translation and by what else the recording machine did; device time is\n\
         not in them. A recording made again has the same work in it, but neither the same times nor exactly the same requests.\n",
        release = oracle.kernel_release(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trace_lies_in_its_disk_and_is_what_the_readme_says() {
        let readme = fs::read_to_string(directory().join("README.md")).unwrap();
        assert!(readme.contains(&format!("a disk of {DISK_BYTES} bytes")));
        for (name, _) in KINDS {
            let (row, lines) = row(name).unwrap();
            assert!(readme.contains(&row), "{name}: the README lacks\n{row}");
            assert!((4_000..20_000).contains(&lines), "{name}: {lines} lines");
            assert!(
                fs::metadata(path(name)).unwrap().len() <= 600 << 10,
                "{name}"
            );
        }
    }
}
