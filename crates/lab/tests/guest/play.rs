//! Plays the camera on a directory of the operating system: what a guest runs on the real kernel's file system.
//!
//! `play-camera DIRECTORY SHORTEST LONGEST TOTAL`: bytes of the shortest photo, of the longest, of all; the rest is the default. The calls come from the same generator as everywhere.

use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::{FileCall, FileCalls, FileId};
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
    fn path(&self, camera: &CameraMs500, file: FileId) -> PathBuf {
        self.dir.join(camera.name(file))
    }

    fn file(&self, file: FileId) -> Result<&File, Box<dyn Error>> {
        Ok(self.open.get(&file).ok_or("the file is not open")?)
    }

    fn play(&mut self, camera: &CameraMs500, call: FileCall) -> Result<(), Box<dyn Error>> {
        let options = || OpenOptions::new().read(true).write(true).clone();
        match call {
            FileCall::Create { file } => {
                let made = options().create_new(true).open(self.path(camera, file))?;
                self.open.insert(file, made);
            }
            FileCall::Open { file } => {
                let found = options().open(self.path(camera, file))?;
                self.open.insert(file, found);
            }
            FileCall::Close { file } => drop(self.open.remove(&file)),
            FileCall::Read { file, offset, length } => self.file(file)?.read_exact_at(&mut vec![0; length as usize], offset)?,
            FileCall::Write { file, offset, length, version } => {
                let mut data = vec![0; length as usize];
                camera.contents().fill(file, version, offset, &mut data);
                self.file(file)?.write_all_at(&data, offset)?;
            }
            FileCall::Truncate { file, length } => self.file(file)?.set_len(length)?,
            FileCall::Fsync { file } => self.file(file)?.sync_all()?,
            FileCall::Remove { file } => fs::remove_file(self.path(camera, file))?,
            FileCall::Sync => File::open(&self.dir)?.sync_all()?,
            FileCall::Compute { .. } => {}
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, shortest, longest, total] = &words[..] else {
        return Err("expected a directory, and bytes of the shortest photo, of the longest, of all".into());
    };
    let (photo_bytes_min, photo_bytes_max, total) = (shortest.parse()?, longest.parse()?, Some(total.parse()?));
    let mut camera = CameraMs500::new(CameraSpec { photo_bytes_min, photo_bytes_max, total, ..CameraSpec::default() })?;
    let mut player = Player { dir: Path::new(dir).into(), open: BTreeMap::new() };
    while let Some(call) = camera.next() {
        player.play(&camera, call).map_err(|error| format!("{call} of {:?}: {error}", call.file().map(|file| camera.name(file))))?;
    }
    Ok(())
}
