//! `nandlab image put`, `mkdir`, `rm`, `mv`: what changes an image, through its own file system.

use super::options::{Image, bytes, source_date};
use crate::failure::{Failure, Status};
use nandlab_image::edit::edit;
use nandlab_image::remove::remove;
use nandlab_image::sink::{Reading, Stored};
use nandlab_image::volume::Opening;
use nandlab_image::{ImageError, Shown, dir_in};
use nandlab_vfs::{Caller, Errno, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, Time, path};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

fn failed(path: &[u8], error: Errno) -> ImageError {
    let why = match error {
        Errno::Invalid => "expected a name and attributes that the format can hold",
        _ => "",
    };
    ImageError::Call {
        path: Shown::path(path.strip_prefix(b"/").unwrap_or(path)),
        error,
        why: why.into(),
    }
}

/// SOURCE_DATE_EPOCH, or the clock.
pub(super) fn now() -> Result<Time, Failure> {
    let clock = || {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Time {
            secs: since.as_secs() as i64,
            nanos: since.subsec_nanos(),
        }
    };
    Ok(source_date()?.unwrap_or_else(clock))
}

/// An image that is changed.
#[derive(Debug, clap::Args)]
struct Changed {
    #[command(flatten)]
    image: Image,
    /// Let an image of JFFS2 or UBIFS that has no space become longer, by whole erase blocks
    #[arg(long)]
    grow: bool,
}

impl Changed {
    fn opening(&self) -> Opening {
        Opening {
            grow: self.grow,
            ..self.image.shape.opening()
        }
    }
}

/// Copy a file into an image, over what is there
#[derive(Debug, clap::Args)]
pub struct Put {
    #[command(flatten)]
    image: Changed,
    /// File of the host to copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where it goes; into a directory under its own name
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Permissions, in octal [default: those of the file]
    #[arg(long, value_parser = octal)]
    mode: Option<u16>,
    /// Owner and group [default: root's]
    #[arg(long, default_value_t = 0)]
    uid: u32,
    /// Group id of the new file
    #[arg(long, default_value_t = 0)]
    gid: u32,
}

fn octal(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| "expected permissions in octal, such as 0644".into())
}

impl Put {
    pub fn execute(self) -> Result<Status, Failure> {
        let metadata = std::fs::metadata(&self.file).map_err(ImageError::file(&self.file))?;
        if !metadata.is_file() {
            return Err(ImageError::Choice {
                what: "source",
                found: self.file.display().to_string(),
                expected: "a file".into(),
            }
            .into());
        }
        let data = dir_in::contents(&self.file, &metadata)?;
        let mtime = Time {
            secs: metadata.mtime(),
            nanos: metadata.mtime_nsec() as u32,
        };
        let mtime = source_date()?.map_or(mtime, |latest| mtime.min(latest));
        let by = Caller {
            uid: self.uid,
            gid: self.gid,
            now: mtime,
        };
        let mode = self.mode.unwrap_or((metadata.mode() & 0o7777) as u16);
        let size = metadata.len();
        edit(
            &self.image.image.image,
            &self.image.opening(),
            size,
            |volume| {
                let fs = volume.fs()?;
                let at = self.place(fs, bytes(&self.path))?;
                let ino = new_file(fs, &at, mode, by).map_err(|error| failed(&at, error))?;
                let mut contents = Reading::new(Stored { data: &data, size });
                fill(fs, ino, &mut contents, size, mtime, &at)
            },
        )?;
        Ok(Status::Done)
    }

    fn place(&self, fs: &mut dyn FileSystem, at: &[u8]) -> nandlab_image::Result<Vec<u8>> {
        let name = self.file.file_name().map(bytes).unwrap_or_default();
        match path::resolve(fs, at) {
            Ok(attr) if attr.kind == FileType::Directory => {
                fs.forget(attr.ino, 1);
                Ok([at, b"/", name].concat())
            }
            Ok(attr) => {
                fs.forget(attr.ino, 1);
                Ok(at.to_vec())
            }
            Err(Errno::NoEntry) => Ok(at.to_vec()),
            Err(error) => Err(failed(at, error)),
        }
    }
}

/// An empty file at a path, where a file may be already.
fn new_file(fs: &mut dyn FileSystem, at: &[u8], mode: u16, by: Caller) -> Result<Ino, Errno> {
    let (dir, name) = path::parent(fs, at)?;
    let ino = match fs.lookup(dir, name) {
        Ok(attr) if attr.kind == FileType::File => {
            empty(fs, attr.ino, mode, by)?;
            attr.ino
        }
        Ok(_) => return Err(Errno::Exists),
        Err(Errno::NoEntry) => fs.create(dir, name, NewNode::File, mode, by)?.ino,
        Err(error) => return Err(error),
    };
    fs.forget(dir, 1);
    Ok(ino)
}

/// Truncates a file to nothing, and gives it new permissions.
fn empty(fs: &mut dyn FileSystem, ino: Ino, mode: u16, by: Caller) -> Result<(), Errno> {
    fs.setattr(
        ino,
        &SetAttr {
            size: Some(0),
            ..SetAttr::default()
        },
        by.now,
    )?;
    match fs.setattr(
        ino,
        &SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        },
        by.now,
    ) {
        // FAT has no permissions; those of a new file are not kept either.
        Ok(_) | Err(Errno::NotPermitted) => Ok(()),
        Err(error) => Err(error),
    }
}

fn fill(
    fs: &mut dyn FileSystem,
    ino: Ino,
    contents: &mut dyn nandlab_image::sink::Bytes,
    size: u64,
    now: Time,
    at: &[u8],
) -> nandlab_image::Result<()> {
    let mut end = 0;
    contents.each(&mut |from, data| {
        let mut done = 0;
        while done < data.len() {
            match fs
                .write(ino, from + done as u64, &data[done..], now)
                .map_err(|error| failed(at, error))?
            {
                0 => return Err(failed(at, Errno::NoSpace)),
                count => done += count,
            }
        }
        end = from + data.len() as u64;
        Ok(())
    })?;
    if end < size {
        let change = SetAttr {
            size: Some(size),
            mtime: Some(now),
            ..SetAttr::default()
        };
        fs.setattr(ino, &change, now)
            .map_err(|error| failed(at, error))?;
    }
    fs.forget(ino, 1);
    Ok(())
}

/// Make directories in an image
#[derive(Debug, clap::Args)]
pub struct Mkdir {
    #[command(flatten)]
    image: Changed,
    /// Directories to make in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// And those above them, as far as they are missing
    #[arg(short, long)]
    parents: bool,
    /// Permissions of the new directories, in octal
    #[arg(long, value_parser = octal, default_value = "0755")]
    mode: u16,
}

impl Mkdir {
    pub fn execute(self) -> Result<Status, Failure> {
        let by = Caller::root(now()?);
        edit(
            &self.image.image.image,
            &self.image.opening(),
            self.paths.len() as u64 * 4096,
            |volume| {
                let fs = volume.fs()?;
                self.paths.iter().try_for_each(|path| {
                    self.make(fs, bytes(path), by)
                        .map_err(|error| failed(bytes(path), error))
                })
            },
        )?;
        Ok(Status::Done)
    }

    fn make(&self, fs: &mut dyn FileSystem, at: &[u8], by: Caller) -> Result<(), Errno> {
        if self.parents {
            let above = at
                .iter()
                .enumerate()
                .filter(|(place, byte)| **byte == b'/' && *place > 0)
                .map(|(place, _)| &at[..place]);
            for dir in above {
                match self.one(fs, dir, by) {
                    Ok(()) | Err(Errno::Exists) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.one(fs, at, by)
    }

    fn one(&self, fs: &mut dyn FileSystem, at: &[u8], by: Caller) -> Result<(), Errno> {
        let (dir, name) = path::parent(fs, at)?;
        let made = fs.mkdir(dir, name, self.mode, by)?;
        fs.forget(made.ino, 1);
        fs.forget(dir, 1);
        Ok(())
    }
}

/// Remove entries from an image
#[derive(Debug, clap::Args)]
pub struct Rm {
    #[command(flatten)]
    image: Changed,
    /// Entries to remove, by their paths
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
}

impl Rm {
    pub fn execute(self) -> Result<Status, Failure> {
        let now = now()?;
        edit(
            &self.image.image.image,
            &self.image.opening(),
            0,
            |volume| {
                let fs = volume.fs()?;
                self.paths
                    .iter()
                    .try_for_each(|path| remove(fs, bytes(path), self.recursive, now))
            },
        )?;
        Ok(Status::Done)
    }
}

/// Move or rename an entry of an image, over what is there
#[derive(Debug, clap::Args)]
pub struct Mv {
    #[command(flatten)]
    image: Changed,
    /// Entry to rename or move
    #[arg(value_name = "FROM")]
    from: OsString,
    /// New path of the entry
    #[arg(value_name = "TO")]
    to: OsString,
}

impl Mv {
    pub fn execute(self) -> Result<Status, Failure> {
        let now = now()?;
        edit(
            &self.image.image.image,
            &self.image.opening(),
            4096,
            |volume| {
                let fs = volume.fs()?;
                let from = bytes(&self.from);
                let to = bytes(&self.to);
                let mut rename = || {
                    let (from_dir, from_name) = path::parent(fs, from)?;
                    let (to_dir, to_name) = path::parent(fs, to)?;
                    fs.rename(
                        (from_dir, from_name),
                        (to_dir, to_name),
                        Rename::Replace,
                        now,
                    )?;
                    fs.forget(from_dir, 1);
                    fs.forget(to_dir, 1);
                    Ok(())
                };
                rename().map_err(|error| failed(from, error))
            },
        )?;
        Ok(Status::Done)
    }
}
