//! `nandlab image ls`, `cat`, `stat`: what looks into an image and changes nothing.

use super::options::{Image, bytes, json, tell};
use crate::failure::{Failure, Status};
use crate::output::{failed, print};
use nandlab_image::check::unlisted;
use nandlab_image::sink::{Bytes, Sink};
use nandlab_image::tree::{Entry, Node};
use nandlab_image::volume::{Layer, UbiVolume, Volume};
use nandlab_image::walk::{self, Losses};
use nandlab_image::words::{counted, visible};
use nandlab_image::{ImageError, Shown};
use nandlab_vfs::{Attr, FileType, Ino};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;

/// List the entries of a directory
#[derive(Debug, clap::Args)]
pub struct Ls {
    #[command(flatten)]
    image: Image,
    /// Directory or entry to list
    #[arg(value_name = "PATH", default_value = "/")]
    path: OsString,
    /// With owner, permissions, length and time
    #[arg(short)]
    long: bool,
    /// List directories with everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The volumes of UBI instead
    #[arg(long)]
    volumes: bool,
    /// Print a list of entries as JSON
    #[arg(long)]
    json: bool,
}

/// An entry for machines.
#[derive(Debug, Serialize)]
struct Described {
    path: String,
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    mtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<(String, String)>,
}

fn kind(node: &Node) -> (&'static str, char) {
    match node {
        Node::Directory => ("directory", 'd'),
        Node::File { .. } => ("file", '-'),
        Node::Symlink { .. } => ("symlink", 'l'),
        Node::Link { .. } => ("link", 'h'),
        Node::Fifo => ("fifo", 'p'),
        Node::Socket => ("socket", 's'),
        Node::Character { .. } => ("character", 'c'),
        Node::Block { .. } => ("block", 'b'),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn described(entry: &Entry) -> Described {
    let text = |bytes: &[u8]| Shown(bytes.to_vec()).to_string();
    let target = target(&entry.node);
    let device = device(&entry.node);
    Described {
        path: Shown::path(&entry.path).to_string(),
        kind: kind(&entry.node).0,
        mode: format!("{:04o}", entry.mode),
        uid: entry.uid,
        gid: entry.gid,
        size: entry.size(),
        mtime: format!("{}.{:09}", entry.mtime.secs, entry.mtime.nanos),
        target,
        device,
        xattrs: entry
            .xattrs
            .iter()
            .map(|(name, value)| (text(name), hex(value)))
            .collect(),
    }
}

fn target(node: &Node) -> Option<String> {
    match node {
        Node::Symlink { target } => Some(Shown(target.to_vec()).to_string()),
        Node::Link { to } => Some(Shown::path(to).to_string()),
        _ => None,
    }
}

fn device(node: &Node) -> Option<(u32, u32)> {
    match *node {
        Node::Character { device } | Node::Block { device } => Some(device),
        _ => None,
    }
}

fn long(entry: &Entry) -> String {
    let mut mode: Vec<char> = "rwxrwxrwx"
        .chars()
        .enumerate()
        .map(|(at, letter)| {
            if entry.mode >> (8 - at) & 1 == 1 {
                letter
            } else {
                '-'
            }
        })
        .collect();
    for (bit, at, set, unset) in [
        (0o4000, 2, 's', 'S'),
        (0o2000, 5, 's', 'S'),
        (0o1000, 8, 't', 'T'),
    ] {
        if entry.mode & bit != 0 {
            mode[at] = if mode[at] == 'x' { set } else { unset };
        }
    }
    let mode: String = mode.into_iter().collect();
    let size = match entry.node {
        Node::Character { device } | Node::Block { device } => format!("{}:{}", device.0, device.1),
        _ => entry.size().to_string(),
    };
    let arrow = match &entry.node {
        Node::Symlink { target } => format!(" -> {}", Shown(target.clone())),
        Node::Link { to } => format!(" link to {}", Shown::path(to)),
        _ => String::new(),
    };
    let plus = if entry.xattrs.is_empty() { ' ' } else { '@' };
    let kind = kind(&entry.node).1;
    let mtime = nandlab_image::manifest::date(entry.mtime);
    format!(
        "{kind}{mode}{plus} {:>5} {:>5} {size:>10} {mtime} ",
        entry.uid, entry.gid
    ) + &arrow_name(entry, &arrow)
}

fn arrow_name(entry: &Entry, arrow: &str) -> String {
    format!("{}{arrow}\n", Shown(entry.path.clone()))
}

/// Prints entries as they come.
struct Printing<'a> {
    out: io::StdoutLock<'a>,
    ls: &'a Ls,
    listed: Vec<Described>,
}

impl Sink for Printing<'_> {
    fn put(&mut self, entry: &Entry, _: &mut dyn Bytes) -> nandlab_image::Result<()> {
        if entry.path.is_empty() && entry.node == Node::Directory {
            return Ok(());
        }
        if self.ls.json {
            self.listed.push(described(entry));
            return Ok(());
        }
        let text = if self.ls.long {
            long(entry)
        } else {
            arrow_name(entry, "")
        };
        self.out
            .write_all(visible(&text).as_bytes())
            .map_err(ImageError::file("standard output"))
    }

    fn finish(&mut self) -> nandlab_image::Result<()> {
        self.out
            .flush()
            .map_err(ImageError::file("standard output"))
    }
}

impl Ls {
    pub fn execute(self) -> Result<Status, Failure> {
        if self.volumes {
            return self.list_volumes();
        }
        let mut volume = self.image.open()?;
        let mut sink = Printing {
            out: io::stdout().lock(),
            ls: &self,
            listed: Vec::new(),
        };
        let outcome = if self.recursive {
            all(&mut volume, bytes(&self.path), &mut sink)
        } else {
            one_level(&mut volume, bytes(&self.path), &mut sink)
        };
        let listed = std::mem::take(&mut sink.listed);
        drop(sink);
        let mut losses = match outcome {
            // A reader that has gone away is no failure.
            Err(ImageError::File { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Status::Done);
            }
            outcome => outcome.map_err(|error| volume.explain(error))?,
        };
        if self.json {
            json(&listed)?;
        }
        losses.merge(unlisted(&volume));
        tell(&losses);
        let done = losses.is_empty().then_some(Status::Done);
        Ok(done.unwrap_or(Status::Lost))
    }
}

impl Ls {
    fn list_volumes(&self) -> Result<Status, Failure> {
        let volume = self.image.open_damaged()?;
        let found = volume.layers.iter().find_map(|layer| {
            if let Layer::Ubi { volumes, .. } = layer {
                Some(volumes)
            } else {
                None
            }
        });
        let Some(volumes) = found else {
            let found = format!("{:?}", volume.detected);
            return Err(ImageError::Choice {
                what: "image",
                found,
                expected: "UBI, which has volumes".into(),
            }
            .into());
        };
        if self.json {
            json(volumes)?;
            return Ok(Status::Done);
        }
        let line = |one| volume_line(one, self.long);
        print(&volumes.iter().map(line).collect::<String>())?;
        Ok(Status::Done)
    }
}

fn volume_line(one: &UbiVolume, long: bool) -> String {
    if !long {
        return format!("{}\n", one.name);
    }
    format!(
        "{:>3} {:<7} {:>6} {:>12} {:<8} {}\n",
        one.id,
        one.kind,
        one.lebs.1,
        one.bytes,
        one.holds.unwrap_or("-"),
        one.name
    )
}

/// Lists everything below a path; gives what could not be listed.
fn all(volume: &mut Volume, path: &[u8], sink: &mut dyn Sink) -> nandlab_image::Result<Losses> {
    let mut nothing = |_| {};
    let mut walk = volume.walk(true, &mut nothing)?;
    walk.run(path, sink)?;
    Ok(walk.losses)
}

/// Lists a directory; gives what could not be listed.
fn one_level(
    volume: &mut Volume,
    path: &[u8],
    sink: &mut dyn Sink,
) -> nandlab_image::Result<Losses> {
    let fs = volume.fs()?;
    let (attr, entry) = walk::one(fs, path)?;
    if entry.node != Node::Directory {
        let name = entry.name().to_vec();
        sink.put(
            &Entry {
                path: name,
                ..entry
            },
            &mut nandlab_image::sink::Nothing,
        )?;
        sink.finish()?;
        return Ok(Losses::default());
    }
    let dir = match attr.ino {
        Ino::ROOT => Ino::ROOT,
        _ => {
            nandlab_vfs::path::resolve(fs, path)
                .map_err(|error| call(path, error))?
                .ino
        }
    };
    let losses = walk::each_in(fs, dir, path, &mut |entry| {
        sink.put(&entry, &mut nandlab_image::sink::Nothing)
    })?;
    fs.forget(dir, 1);
    sink.finish()?;
    Ok(losses)
}

fn call(path: &[u8], error: nandlab_vfs::Errno) -> ImageError {
    ImageError::Call {
        path: Shown::path(path.strip_prefix(b"/").unwrap_or(path)),
        error,
        why: String::new(),
    }
}

/// Print what files hold
#[derive(Debug, clap::Args)]
pub struct Cat {
    #[command(flatten)]
    image: Image,
    /// Files to print, by their paths
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Cat {
    pub fn execute(self) -> Result<Status, Failure> {
        let mut volume = self.image.open()?;
        let mut out = io::stdout().lock();
        let mut buffer = vec![0; nandlab_image::sink::STEP];
        for path in &self.paths {
            let path = bytes(path);
            let outcome = cat(&mut volume, path, &mut buffer, &mut |data| {
                out.write_all(data)
                    .map_err(ImageError::file("standard output"))
            });
            match outcome {
                Err(ImageError::File { error, .. })
                    if error.kind() == io::ErrorKind::BrokenPipe =>
                {
                    return Ok(Status::Done);
                }
                outcome => outcome.map_err(|error| volume.explain(error))?,
            }
        }
        out.flush()
            .map_err(|error| failed(Path::new("standard output"), error))?;
        Ok(Status::Done)
    }
}

fn cat(
    volume: &mut Volume,
    path: &[u8],
    buffer: &mut [u8],
    take: &mut dyn FnMut(&[u8]) -> nandlab_image::Result<()>,
) -> nandlab_image::Result<()> {
    let fs = volume.fs()?;
    let attr = nandlab_vfs::path::resolve(fs, path).map_err(|error| call(path, error))?;
    if attr.kind != FileType::File {
        let error = if attr.kind == FileType::Directory {
            nandlab_vfs::Errno::IsDirectory
        } else {
            nandlab_vfs::Errno::Invalid
        };
        return Err(call(path, error));
    }
    let mut at = 0;
    while at < attr.size {
        let count = fs
            .read(attr.ino, at, buffer)
            .map_err(|error| call(path, error))?;
        if count == 0 {
            break;
        }
        take(&buffer[..count])?;
        at += count as u64;
    }
    fs.forget(attr.ino, 1);
    Ok(())
}

/// Show everything that is known about an entry
#[derive(Debug, clap::Args)]
pub struct Stat {
    #[command(flatten)]
    image: Image,
    /// Entries to describe, by their paths
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Print a list of them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Stated {
    ino: u64,
    links: u32,
    blocks: u64,
    atime: String,
    ctime: String,
    #[serde(flatten)]
    entry: Described,
}

impl Stat {
    pub fn execute(self) -> Result<Status, Failure> {
        let mut volume = self.image.open()?;
        let mut all = Vec::new();
        for path in &self.paths {
            let normal =
                nandlab_image::tree::normal(bytes(path)).map_err(|why| ImageError::Choice {
                    what: "path",
                    found: path.to_string_lossy().into_owned(),
                    expected: format!("not {why}"),
                })?;
            let outcome = volume.fs().and_then(|fs| walk::one(fs, &normal));
            let (attr, entry) = outcome.map_err(|error| volume.explain(error))?;
            all.push(stated(&attr, &entry));
        }
        if self.json {
            json(&all)?;
            return Ok(Status::Done);
        }
        let mut text = String::new();
        for one in &all {
            let entry = &one.entry;
            text += &format!(
                "{}: {}, {} in {} of 512, inode {}, {}\n",
                entry.path,
                entry.kind,
                counted(entry.size, "byte"),
                counted(one.blocks, "unit"),
                one.ino,
                counted(one.links, "name")
            );
            text += &format!(
                "  mode {} owner {} group {}\n",
                entry.mode, entry.uid, entry.gid
            );
            text += &format!(
                "  modified {}, changed {}, accessed {}\n",
                entry.mtime, one.ctime, one.atime
            );
            entry
                .target
                .iter()
                .for_each(|target| text += &format!("  target {target}\n"));
            entry
                .device
                .iter()
                .for_each(|device| text += &format!("  device {}:{}\n", device.0, device.1));
            entry
                .xattrs
                .iter()
                .for_each(|(name, value)| text += &format!("  {name} = 0x{value}\n"));
        }
        print(&text)?;
        Ok(Status::Done)
    }
}

fn stated(attr: &Attr, entry: &Entry) -> Stated {
    let time = |time: nandlab_vfs::Time| format!("{}.{:09}", time.secs, time.nanos);
    Stated {
        ino: attr.ino.0,
        links: attr.links,
        blocks: attr.blocks,
        atime: time(attr.atime),
        ctime: time(attr.ctime),
        entry: described(entry),
    }
}
