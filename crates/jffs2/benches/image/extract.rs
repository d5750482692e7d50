//! The tree of an image, as files.

use crate::make::NOR;
use nandlab_jffs2::{Jffs2, Options};
use nandlab_mtd::{Image, ImageFormat};
use nandlab_sim::{Backing, BackingError};
use nandlab_vfs::{Attr, Caller, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

type Fs<'a> = Jffs2<Image<Shared<'a>>>;

/// An image that several threads read.
struct Shared<'a>(&'a [u8]);

impl Backing for Shared<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        let at = offset as usize;
        let count = buf.len() as u64;
        let len = self.len();
        buf.copy_from_slice(
            self.0
                .get(at..at + buf.len())
                .ok_or(BackingError::OutOfRange { offset, count, len })?,
        );
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        unreachable!("the volume is mounted read-only")
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

/// Writes an image's tree to a directory that is not there yet. Each thread has the volume mounted
/// for itself and takes its share of the files.
pub fn tree(image: &Path, to: &Path) {
    let bytes = fs::read(image).expect("an image");
    let threads = crate::threads();
    let steps = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let bytes = &bytes;
            let steps = &steps;
            scope.spawn(move || Worker::new(bytes, number, threads).run(to, steps));
        }
    });
}

/// What a walk through the tree is for.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Directories,
    Files,
    /// Second names, and what directories are like when all is in them.
    Rest,
}

struct Worker<'a> {
    fs: Fs<'a>,
    /// Which of how many.
    share: (usize, usize),
    files: usize,
    buffer: Vec<u8>,
    first_names: BTreeMap<Ino, PathBuf>,
}

impl<'a> Worker<'a> {
    fn new(bytes: &'a [u8], number: usize, of: usize) -> Self {
        let medium = Image::new(Shared(bytes), NOR).expect("whole blocks");
        let fs = Jffs2::mount(
            medium,
            Options {
                read_only: true,
                ..Options::default()
            },
        )
        .expect("a good image");
        Self {
            fs,
            share: (number, of),
            files: 0,
            buffer: vec![0; 1 << 20],
            first_names: BTreeMap::new(),
        }
    }

    fn run(mut self, to: &Path, steps: &Barrier) {
        let root = self.fs.getattr(Ino::ROOT).expect("a root");
        for pass in [Pass::Directories, Pass::Files, Pass::Rest] {
            if pass == Pass::Files || self.share.0 == 0 {
                self.first_names.clear();
                self.directory(&root, to, pass);
            }
            steps.wait();
        }
    }

    fn directory(&mut self, dir: &Attr, to: &Path, pass: Pass) {
        if pass == Pass::Directories {
            fs::create_dir(to).expect("space for a directory");
        }
        let mut names = Vec::new();
        let listed = self.fs.readdir(dir.ino, 0, &mut |entry| {
            if entry.kind == FileType::Directory || pass != Pass::Directories {
                names.push(entry.name.to_vec());
            }
            true
        });
        listed.expect("a good directory");
        for name in names {
            let attr = self.fs.lookup(dir.ino, &name).expect("a good entry");
            let to = to.join(OsStr::from_bytes(&name));
            match attr.kind {
                FileType::Directory => self.directory(&attr, &to, pass),
                FileType::Symlink if pass == Pass::Rest => {
                    symlink(
                        OsStr::from_bytes(&self.fs.readlink(attr.ino).expect("a good link")),
                        &to,
                    )
                    .expect("space for a link");
                }
                FileType::Symlink => {}
                FileType::File => self.file(&attr, to, pass),
                kind => panic!(
                    "{}: {kind:?}: the trees of this benchmark have no devices",
                    to.display()
                ),
            }
            self.fs.forget(attr.ino, 1);
        }
        if pass == Pass::Rest {
            finish(&File::open(to).expect("our directory"), dir);
        }
    }

    fn file(&mut self, attr: &Attr, to: PathBuf, pass: Pass) {
        if attr.links > 1 {
            if let Some(first) = self.first_names.get(&attr.ino) {
                if pass == Pass::Rest {
                    fs::hard_link(first, &to).expect("space for a name");
                }
                return;
            }
            self.first_names.insert(attr.ino, to.clone());
        }
        self.files += 1;
        if pass == Pass::Files && self.files % self.share.1 == self.share.0 {
            self.contents(attr, &to);
        }
    }

    fn contents(&mut self, attr: &Attr, to: &Path) {
        let mut file = File::create(to).expect("space for a file");
        let mut done = 0;
        while done < attr.size {
            let count = self
                .fs
                .read(attr.ino, done, &mut self.buffer)
                .expect("a good file");
            file.write_all(&self.buffer[..count])
                .expect("space for a file");
            done += count as u64;
        }
        finish(&file, attr);
    }
}

fn finish(file: &File, attr: &Attr) {
    file.set_permissions(Permissions::from_mode(attr.mode.into()))
        .expect("our file");
    let time = UNIX_EPOCH + Duration::from_secs(attr.mtime.secs as u64);
    file.set_times(FileTimes::new().set_modified(time))
        .expect("our file");
}

/// Makes the image of a medium that has been in use, and the tree that is on it.
pub fn lived_in(image: &Path, expected: &Path) {
    let now = Time::new(1_000_000_000);
    let by = Caller::root(now);
    let medium = Image::new(
        vec![0xFF; 24 * NOR.bytes(1) as usize],
        ImageFormat { ..NOR },
    )
    .expect("whole blocks");
    let mut fs = Jffs2::mount(medium, Options::default()).expect("an empty medium");
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let data = |seed: u64, len: usize| -> Vec<u8> {
        (0..len as u64)
            .map(|at| (nandlab_sim::mix(seed, at / 5) >> 9) as u8)
            .collect()
    };
    let dir = fs.mkdir(Ino::ROOT, b"d", 0o755, by).expect("room").ino;
    for number in 0..120u64 {
        let name = format!("file{number}");
        let ino = fs
            .create(dir, name.as_bytes(), NewNode::File, 0o644, by)
            .expect("room")
            .ino;
        let mut all = data(number, 9000 + number as usize * 100);
        fs.write(ino, 0, &all, now).expect("room");
        let patch = data(number + 1000, 700);
        match number % 6 {
            0 => {
                fs.write(ino, 3000, &patch, now).expect("room");
                all[3000..3700].copy_from_slice(&patch);
            }
            1 => {
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(4321),
                        ..SetAttr::default()
                    },
                    now,
                )
                .expect("room");
                all.truncate(4321);
            }
            2 => {
                all.resize(30_000, 0);
                fs.write(ino, 30_000, &patch, now).expect("room");
                all.extend(&patch);
            }
            3 => {
                fs.unlink(dir, name.as_bytes(), now).expect("it is there");
                continue;
            }
            4 => {
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(5000),
                        ..SetAttr::default()
                    },
                    now,
                )
                .expect("room");
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(8000),
                        ..SetAttr::default()
                    },
                    now,
                )
                .expect("room");
                all.truncate(5000);
                all.resize(8000, 0);
            }
            _ => {
                let to = format!("moved{number}");
                fs.rename(
                    (dir, name.as_bytes()),
                    (Ino::ROOT, to.as_bytes()),
                    Rename::Replace,
                    now,
                )
                .expect("room");
                files.insert(to, all);
                continue;
            }
        }
        files.insert(format!("d/{name}"), all);
    }
    fs.unmount().expect("a medium without faults");
    fs::write(image, fs.into_mtd().into_backing()).expect("space for the image");
    fs::create_dir_all(expected.join("d")).expect("space for the tree");
    for (name, data) in files {
        let path = expected.join(name);
        fs::write(&path, data).expect("space for the tree");
        let file = File::open(&path).expect("it was written");
        file.set_permissions(Permissions::from_mode(0o644))
            .expect("our file");
        file.set_times(
            FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
        )
        .expect("our file");
    }
    for dir in [expected.join("d"), expected.to_path_buf()] {
        let file = File::open(dir).expect("it was made");
        file.set_permissions(Permissions::from_mode(0o755))
            .expect("our directory");
        file.set_times(
            FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
        )
        .expect("our directory");
    }
}
