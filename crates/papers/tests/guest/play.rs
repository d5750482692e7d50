//! Plays a workload on a directory of the operating system: what a guest runs on the real kernel's
//! file system. The calls come from the same generators as everywhere.
//!
//! - `play-files DIRECTORY camera SHORTEST LONGEST TOTAL`: bytes of the shortest photo, of the
//!   longest, of all; the rest is the default.
//! - `play-files DIRECTORY f2fs WORK DEVICE`: a work of the F2FS paper; where a phase begins, a
//!   read behind the partition on the device says so, and what is clean leaves memory.
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

struct Player {
    dir: PathBuf,
    open: BTreeMap<FileId, File>,
}

impl Player {
    fn path(&self, calls: &dyn FileCalls, file: FileId) -> PathBuf {
        self.dir.join(calls.name(file))
    }

    fn file(&self, file: FileId) -> Result<&File, Box<dyn Error>> {
        Ok(self.open.get(&file).ok_or("the file is not open")?)
    }

    fn play(&mut self, calls: &dyn FileCalls, call: FileCall) -> Result<(), Box<dyn Error>> {
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
                .read_exact_at(&mut vec![0; length as usize], offset)?,
            FileCall::Write {
                file,
                offset,
                length,
                version,
            } => {
                let mut data = vec![0; length as usize];
                calls.contents().fill(file, version, offset, &mut data);
                self.file(file)?.write_all_at(&data, offset)?;
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

/// Says on the device that a phase begins.
fn mark((device, work): (&Path, &Work), number: u64) -> Result<(), Box<dyn Error>> {
    File::open(device)?.read_exact_at(&mut [0; 512], place_of_mark(work, number))?;
    Ok(fs::write("/proc/sys/vm/drop_caches", "3")?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, what @ ..] = &words[..] else {
        return Err("expected a directory and a workload".into());
    };
    let (mut calls, device) = match what {
        [paper, work, device] if paper == "f2fs" => {
            let work = Work::find(work).ok_or_else(|| format!("no work {work}"))?;
            (work.open()?, Some((Path::new(device), work)))
        }
        _ => (stream(what)?, None),
    };
    let mut phase = "";
    let mut begun = 0;
    let mut player = Player {
        dir: Path::new(dir).into(),
        open: BTreeMap::new(),
    };
    while let Some(call) = calls.next() {
        if let Some((device, work)) = device.as_ref().filter(|_| calls.phase() != phase) {
            mark((device, work), begun)?;
            (phase, begun) = (calls.phase(), begun + 1);
        }
        player.play(&*calls, call).map_err(|error| {
            format!(
                "{call} of {:?}: {error}",
                call.file().map(|file| calls.name(file))
            )
        })?;
    }
    device.map_or(Ok(()), |(device, work)| mark((device, &work), begun))
}
