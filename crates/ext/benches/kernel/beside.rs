//! The same calls on a file system here and on one of the kernel's, timed.
//!
//! Each part ends with what makes it durable. The kernel pays for its system calls and its loop
//! device, and has its threads on other processors; ours is one thread. Seconds are those of a
//! clock on the wall, best of five rounds, ours and the kernel's in turn: another guest of the
//! machine slows both. A round reads a file five times, since that is soon done. Our heap keeps
//! the memory that it once had, as the kernel does with its pages: otherwise a round would mostly
//! wait for fresh ones.

use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 5;
/// Readings of a file in a round.
const READINGS: usize = 5;
/// Bytes of a volume.
pub const VOLUME: u64 = 1 << 30;
const FILES: usize = 20_000;
const DIRECTORIES: usize = 100;
const LARGE: usize = 256 << 20;
const PIECE: usize = 64 << 10;
const PAGE: usize = 4096;
const OVERWRITES: usize = 40_000;
const FSYNCS: usize = 2000;

/// A mounted volume, by calls.
trait Volume {
    type Open;
    fn mkdir(&mut self, dir: usize);
    fn create(&mut self, dir: usize, file: usize) -> Self::Open;
    fn write(&mut self, file: &mut Self::Open, at: usize, data: &[u8]);
    fn read(&mut self, file: &mut Self::Open, at: usize, data: &mut [u8]);
    fn fsync(&mut self, file: &mut Self::Open);
    fn close(&mut self, file: Self::Open);
    fn size(&mut self, dir: usize, file: usize) -> u64;
    fn remove(&mut self, dir: usize, file: usize);
    fn sync(&mut self);
}

struct Ours<F> {
    fs: F,
    dirs: Vec<Ino>,
}

const NOW: Time = Time::new(1_000_000_000);

fn name(file: usize) -> String {
    format!("file number {file}")
}

impl<F: FileSystem> Volume for Ours<F> {
    type Open = Ino;

    fn mkdir(&mut self, dir: usize) {
        self.dirs.push(
            self.fs
                .mkdir(
                    Ino::ROOT,
                    format!("{dir}").as_bytes(),
                    0o755,
                    Caller::root(NOW),
                )
                .unwrap()
                .ino,
        );
    }
    fn create(&mut self, dir: usize, file: usize) -> Ino {
        self.fs
            .create(
                self.dirs[dir],
                name(file).as_bytes(),
                NewNode::File,
                0o644,
                Caller::root(NOW),
            )
            .unwrap()
            .ino
    }
    fn write(&mut self, file: &mut Ino, at: usize, data: &[u8]) {
        assert_eq!(self.fs.write(*file, at as u64, data, NOW), Ok(data.len()));
    }
    fn read(&mut self, file: &mut Ino, at: usize, data: &mut [u8]) {
        assert_eq!(self.fs.read(*file, at as u64, data), Ok(data.len()));
    }
    fn fsync(&mut self, file: &mut Ino) {
        self.fs.fsync(*file, Sync::All).unwrap();
    }
    fn close(&mut self, file: Ino) {
        self.fs.forget(file, 1);
    }
    fn size(&mut self, dir: usize, file: usize) -> u64 {
        let found = self
            .fs
            .lookup(self.dirs[dir], name(file).as_bytes())
            .unwrap();
        self.fs.forget(found.ino, 1);
        found.size
    }
    fn remove(&mut self, dir: usize, file: usize) {
        self.fs
            .unlink(self.dirs[dir], name(file).as_bytes(), NOW)
            .unwrap();
    }
    fn sync(&mut self) {
        self.fs.sync().unwrap();
    }
}

/// Unmounted and removed at the end.
struct Kernels {
    dir: PathBuf,
    image: PathBuf,
}

impl Kernels {
    fn path(&self, dir: usize, file: usize) -> PathBuf {
        self.dir.join(format!("{dir}/{}", name(file)))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).status();
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Volume for Kernels {
    type Open = File;

    fn mkdir(&mut self, dir: usize) {
        fs::create_dir(self.dir.join(dir.to_string())).unwrap();
    }
    fn create(&mut self, dir: usize, file: usize) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path(dir, file))
            .unwrap()
    }
    fn write(&mut self, file: &mut File, at: usize, data: &[u8]) {
        file.write_all_at(data, at as u64).unwrap();
    }
    fn read(&mut self, file: &mut File, at: usize, data: &mut [u8]) {
        file.read_exact_at(data, at as u64).unwrap();
    }
    fn fsync(&mut self, file: &mut File) {
        file.sync_all().unwrap();
    }
    fn close(&mut self, file: File) {
        drop(file);
    }
    fn size(&mut self, dir: usize, file: usize) -> u64 {
        fs::metadata(self.path(dir, file)).unwrap().len()
    }
    fn remove(&mut self, dir: usize, file: usize) {
        fs::remove_file(self.path(dir, file)).unwrap();
    }
    fn sync(&mut self) {
        let dir = File::open(&self.dir).unwrap();
        rustix::fs::syncfs(&dir).unwrap();
    }
}

/// What is timed: its name, how many, of what.
const PARTS: [(&str, f64, &str); 7] = [
    ("create files of 4 KiB", FILES as f64, "files/s"),
    ("look names up", FILES as f64, "names/s"),
    ("append 4 KiB and fsync", FSYNCS as f64, "calls/s"),
    ("write in order, 64 KiB calls", LARGE as f64 / 1e6, "MB/s"),
    ("overwrite 4 KiB at random", OVERWRITES as f64, "calls/s"),
    (
        "read in order, 64 KiB calls, cached",
        LARGE as f64 / 1e6,
        "MB/s",
    ),
    ("remove files", FILES as f64, "files/s"),
];

fn play<V: Volume>(volume: &mut V) -> Seconds {
    let page = vec![0x5a; PAGE];
    let mut piece = vec![0xa5; PIECE];
    (0..DIRECTORIES + 1).for_each(|dir| volume.mkdir(dir));
    volume.sync();
    let timed = |part: &mut dyn FnMut()| {
        let began = Instant::now();
        part();
        began.elapsed().as_secs_f64()
    };
    let create = timed(&mut || {
        for file in 0..FILES {
            let mut open = volume.create(file % DIRECTORIES, file);
            volume.write(&mut open, 0, &page);
            volume.close(open);
        }
        volume.sync();
    });
    let look = timed(&mut || {
        (0..FILES).for_each(|file| assert_eq!(volume.size(file % DIRECTORIES, file), PAGE as u64))
    });
    let mut log = volume.create(DIRECTORIES, 0);
    let append = timed(&mut || {
        for step in 0..FSYNCS {
            volume.write(&mut log, step * PAGE, &page);
            volume.fsync(&mut log);
        }
    });
    let mut large = volume.create(DIRECTORIES, 1);
    let write = timed(&mut || {
        (0..LARGE)
            .step_by(PIECE)
            .for_each(|at| volume.write(&mut large, at, &piece));
        volume.fsync(&mut large);
    });
    let overwrite = timed(&mut || {
        for step in 0..OVERWRITES {
            let at = nandlab_sim::mix(7, step as u64) as usize % (LARGE / PAGE) * PAGE;
            volume.write(&mut large, at, &page);
        }
        volume.fsync(&mut large);
    });
    let mut reading = || {
        timed(&mut || {
            (0..LARGE)
                .step_by(PIECE)
                .for_each(|at| volume.read(&mut large, at, &mut piece))
        })
    };
    let read = (0..READINGS).map(|_| reading()).fold(f64::MAX, f64::min);
    let remove = timed(&mut || {
        (0..FILES).for_each(|file| volume.remove(file % DIRECTORIES, file));
        volume.sync();
    });
    volume.close(log);
    volume.close(large);
    [create, look, append, write, overwrite, read, remove]
}

/// Seconds of each part.
pub type Seconds = [f64; PARTS.len()];

/// One round of ours.
pub fn ours(fs: impl FileSystem) -> Seconds {
    play(&mut Ours {
        fs,
        dirs: Vec::new(),
    })
}

/// One round of the kernel's, on an image in memory that `make` makes; nothing if the kernel does
/// not mount it.
pub fn kernels(kind: &str, options: &str, make: impl FnOnce(&Path)) -> Option<Seconds> {
    let name = format!("nandlab-bench-{}", std::process::id());
    let image = Path::new("/dev/shm").join(&name);
    let dir = std::env::temp_dir().join(&name);
    make(&image);
    fs::create_dir_all(&dir).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", kind, "-o", options])
        .arg(&image)
        .arg(&dir)
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        fs::remove_file(&image).unwrap();
        return None;
    }
    Some(play(&mut Kernels { dir, image }))
}

/// Runs a part of this program in a process whose heap gives nothing back; true in that process.
pub fn keeps_memory(part: &str) -> bool {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const KEEP: &str =
        "glibc.malloc.trim_threshold=1099511627776:glibc.malloc.mmap_threshold=1099511627776";
    let is_kept = std::env::var_os(TUNABLES).is_some();
    if !is_kept {
        let program = std::env::current_exe().unwrap();
        let run = Command::new(program).arg(part).env(TUNABLES, KEEP).status();
        assert!(run.is_ok_and(|status| status.success()), "{part} failed");
    }
    is_kept
}

/// The best of each part.
fn best<'a>(rounds: impl Iterator<Item = &'a Seconds>) -> Seconds {
    rounds.fold([f64::MAX; PARTS.len()], |best, round| {
        std::array::from_fn(|part| best[part].min(round[part]))
    })
}

/// Runs both, and prints a line for each part. The ratio is above 1 where ours is faster.
pub fn table(title: &str, ours: impl Fn() -> Seconds, kernels: impl Fn() -> Seconds) {
    let rounds: [_; ROUNDS] = std::array::from_fn(|_| (ours(), kernels()));
    let ours = best(rounds.iter().map(|(ours, _)| ours));
    let kernels = best(rounds.iter().map(|(_, kernels)| kernels));
    println!("{title}; 1 GiB in memory, best of {ROUNDS}");
    println!("{:38} {:>12} {:>12} {:>9}  ratio", "", "ours", "kernel", "");
    for (((what, amount, unit), ours), kernel) in PARTS.iter().zip(ours).zip(kernels) {
        println!(
            "{what:38} {:>12.0} {:>12.0} {unit:>9} {:>6.2}",
            amount / ours,
            amount / kernel,
            kernel / ours
        );
    }
}
