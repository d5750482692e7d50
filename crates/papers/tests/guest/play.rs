//! Plays a workload on a directory of the operating system: what a guest runs on the real kernel's
//! file system. The calls come from the same generators as everywhere.
//!
//! - `play-files DIRECTORY camera SHORTEST LONGEST TOTAL`: bytes of the shortest photo, of the
//!   longest, of all; the rest is the default.
//! - `play-files DIRECTORY f2fs WORK DEVICE`: a work of the F2FS paper; where a phase begins, a
//!   read behind the partition on the device says so, and what is clean leaves memory.
//! - `play-files DIRECTORY f2fs-counted WORK`: the same without a device; a line `TIME PHASE` for
//!   each phase, the nanoseconds for which the only processor was not idle. With `-` for a
//!   DIRECTORY, it makes the data and no call.
//! - `play-files DIRECTORY iozone BYTES RECORD`: bytes of the file and of a record; the rest is the
//!   default.

use nandlab_papers::f2fs_rival::{Work, place_of_mark};
use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::{FileCall, FileCalls, FileId};
use nandlab_workload::iozone::{Iozone, IozoneSpec};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

struct Player {
    dir: PathBuf,
    open: BTreeMap<FileId, File>,
    /// It makes no call.
    dry: bool,
}

impl Player {
    fn path(&self, calls: &dyn FileCalls, file: FileId) -> PathBuf {
        self.dir.join(calls.name(file))
    }

    fn file(&self, file: FileId) -> Result<&File, Box<dyn Error>> {
        Ok(self.open.get(&file).ok_or("the file is not open")?)
    }

    fn play(&mut self, calls: &dyn FileCalls, call: FileCall) -> Result<(), Box<dyn Error>> {
        if self.dry {
            match call {
                FileCall::Read { length, .. } => drop(std::hint::black_box(buffer(length))),
                FileCall::Write { .. } => drop(std::hint::black_box(data(calls, call))),
                _ => {}
            }
            return Ok(());
        }
        let options = || OpenOptions::new().read(true).write(true).clone();
        match call {
            FileCall::Create { file } => {
                let made = options().create_new(true).open(self.path(calls, file))?;
                self.open.insert(file, made);
            }
            FileCall::Open { file } => {
                let found = options().open(self.path(calls, file))?;
                self.open.insert(file, found);
            }
            FileCall::Close { file } => drop(self.open.remove(&file)),
            FileCall::Read {
                file,
                offset,
                length,
            } => self
                .file(file)?
                .read_exact_at(&mut buffer(length), offset)?,
            FileCall::Write { file, offset, .. } => {
                self.file(file)?.write_all_at(&data(calls, call), offset)?;
            }
            FileCall::Truncate { file, length } => self.file(file)?.set_len(length)?,
            FileCall::Fsync { file } => self.file(file)?.sync_all()?,
            FileCall::Fdatasync { file } => self.file(file)?.sync_data()?,
            FileCall::Remove { file } => fs::remove_file(self.path(calls, file))?,
            FileCall::Sync => File::open(&self.dir)?.sync_all()?,
            FileCall::Compute { .. } => {}
        }
        Ok(())
    }
}

fn buffer(length: u64) -> Vec<u8> {
    vec![0; length as usize]
}

/// The data of a write.
fn data(calls: &dyn FileCalls, call: FileCall) -> Vec<u8> {
    let FileCall::Write {
        file,
        offset,
        length,
        version,
    } = call
    else {
        return Vec::new();
    };
    let mut data = buffer(length);
    calls.contents().fill(file, version, offset, &mut data);
    data
}

/// The stream that the words describe.
fn stream(words: &[String]) -> Result<Box<dyn FileCalls>, Box<dyn Error>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["camera", shortest, longest, total] => {
            let photo_bytes_min = shortest.parse()?;
            let photo_bytes_max = longest.parse()?;
            let total = Some(total.parse()?);
            Box::new(CameraMs500::new(CameraSpec {
                photo_bytes_min,
                photo_bytes_max,
                total,
                ..CameraSpec::default()
            })?)
        }
        ["iozone", bytes, record] => Box::new(Iozone::new(IozoneSpec {
            bytes: bytes.parse()?,
            record: record.parse()?,
            ..IozoneSpec::default()
        })?),
        _ => {
            return Err(
                "expected a directory, then camera and three numbers, or iozone and two".into(),
            );
        }
    })
}

/// The player's marks, where a phase begins and at the end.
enum Marks {
    None,
    /// A read on this device says it.
    Device(PathBuf, Work),
    /// It prints the processor's time, which was this when the phase began.
    Counted(u64),
}

impl Marks {
    /// A phase has ended, if it has a name; the one of this number begins.
    fn mark(&mut self, ended: &str, number: u64) -> Result<(), Box<dyn Error>> {
        match self {
            Self::None => {}
            Self::Device(device, work) => {
                let place = place_of_mark(work, number);
                File::open(device)?.read_exact_at(&mut [0; 512], place)?;
                empty_caches()?;
            }
            Self::Counted(began) => {
                if !ended.is_empty() {
                    println!("{} {ended}", busy()? - *began);
                }
                empty_caches()?;
                *began = busy()?;
            }
        }
        Ok(())
    }
}

fn empty_caches() -> std::io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Nanoseconds for which the first processor has run processes and threads.
fn busy() -> Result<u64, Box<dyn Error>> {
    // The kernel adds the time of a process when it leaves the processor.
    sleep(Duration::from_millis(1));
    let text = fs::read_to_string("/proc/schedstat")?;
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with("cpu0 "));
    let time = line.and_then(|line| line.split(' ').nth(7));
    Ok(time.ok_or("no times in /proc/schedstat")?.parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, what @ ..] = &words[..] else {
        return Err("expected a directory and a workload".into());
    };
    let found = |work: &str| Work::find(work).ok_or_else(|| format!("no work {work}"));
    let (mut calls, mut marks) = match what {
        [paper, work, device] if paper == "f2fs" => {
            let work = found(work)?;
            (work.open()?, Marks::Device(device.into(), work))
        }
        [paper, work] if paper == "f2fs-counted" => (found(work)?.open()?, Marks::Counted(0)),
        _ => (stream(what)?, Marks::None),
    };
    let mut phase = "";
    let mut begun = 0;
    let mut player = Player {
        dir: Path::new(dir).into(),
        open: BTreeMap::new(),
        dry: dir == "-",
    };
    while let Some(call) = calls.next() {
        if calls.phase() != phase {
            marks.mark(phase, begun)?;
            (phase, begun) = (calls.phase(), begun + 1);
        }
        player.play(&*calls, call).map_err(|error| {
            format!(
                "{call} of {:?}: {error}",
                call.file().map(|file| calls.name(file))
            )
        })?;
    }
    marks.mark(phase, begun)
}
