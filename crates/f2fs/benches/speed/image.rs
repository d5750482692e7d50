//! A tree of files made an image and extracted again, beside `sload.f2fs` and `dump.f2fs`.

use crate::cost::{Cost, cost};
use crate::{compare, tree};
use nandlab_block::{BlockDevice, Image};
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_vfs::{Attr, Caller, FileSystem, FileType, Ino, NewNode, SetAttr, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

const ROUNDS: u32 = 2;
/// Bytes of the image.
const BYTES: u64 = 1 << 30;
const PIECE: usize = 1 << 20;
/// Files that dump.f2fs is asked for.
const DUMPED: usize = 100;

type Fs = F2fs<Image<Vec<u8>>>;

pub fn tables() {
    let scratch = tempfile::tempdir().expect("a directory for images");
    let place = |name: &str| scratch.path().join(name);
    let source = place("tree");
    fs::create_dir(&source)
        .and_then(|()| tree::make(&source))
        .expect("space for the tree, 225 MB");
    println!("\n| image of 17,000 entries, 215 MB | wall s | processor s |\n|---|---:|---:|");
    let ours = place("ours.f2fs");
    let theirs = place("theirs.f2fs");
    line(
        "mkfs.f2fs and sload.f2fs",
        cost(ROUNDS, || by_tools(&source, &theirs)),
    );
    line("ours", cost(ROUNDS, || by_us(&source, &ours)));
    succeed(Command::new(tool("fsck.f2fs")).arg("--dry-run").arg(&ours));
    println!("\n| extracting our image | wall s | processor s |\n|---|---:|---:|");
    let out = place("ours.tree");
    line("ours, all", cost(ROUNDS, || extract(&ours, &clear(&out))));
    let dumped = place("dumped");
    line(
        &format!("dump.f2fs, the {DUMPED} longest files, one a run as it does"),
        cost(ROUNDS, || dump(&ours, &clear(&dumped))),
    );
    println!(
        "\nours differs from the source in: {}",
        compare::differences(&source, &out)
    );
}

fn line(name: &str, cost: Cost) {
    println!("| {name} | {:.2} | {:.2} |", cost.wall, cost.processor);
}

fn clear(dir: &Path) -> PathBuf {
    if dir.exists() {
        fs::remove_dir_all(dir).expect("a directory of ours");
    }
    dir.into()
}

fn tool(program: &str) -> PathBuf {
    let places = ["/usr/sbin", "/sbin"].map(|dir| Path::new(dir).join(program));
    places
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: apt-get install f2fs-tools"))
}

fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{}: {why}", command.get_program().display()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {} {said}",
        command.get_program().display(),
        output.status
    );
}

fn by_tools(source: &Path, image: &Path) {
    File::create(image)
        .and_then(|file| file.set_len(BYTES))
        .expect("space for the image");
    succeed(Command::new(tool("mkfs.f2fs")).arg("-q").arg(image));
    // -P: with owners.
    succeed(
        Command::new(tool("sload.f2fs"))
            .arg("-P")
            .arg("-f")
            .arg(source)
            .arg(image),
    );
}

fn by_us(source: &Path, image: &Path) {
    let mut disk = Image::new(vec![0; BYTES as usize], 512).expect("whole sectors");
    format(&mut disk, &Format::default()).expect("room");
    let options = Options {
        cache_bytes: 64 << 20,
        dirty_bytes_max: 64 << 20,
        request_bytes: PIECE as u64,
        ..Options::default()
    };
    let mut fs = F2fs::mount(disk, options).expect("a new volume");
    load(&mut fs, Ino::ROOT, source, &mut BTreeMap::new());
    date(&mut fs, Ino::ROOT, source);
    fs.unmount().expect("room");
    let mut file = File::create(image).expect("space for the image");
    // Holes as the tools leave them.
    file.set_len(BYTES).expect("space for the image");
    let mut disk = fs.into_device();
    let mut piece = vec![0; PIECE];
    for at in (0..BYTES).step_by(PIECE) {
        disk.read(nandlab_block::Lba(at / 512), &mut piece)
            .expect("a disk in memory");
        if piece.iter().any(|byte| *byte != 0) {
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at))
                .and_then(|_| file.write_all(&piece))
                .expect("space for the image");
        }
    }
}

fn load(fs: &mut Fs, dir: Ino, from: &Path, first_names: &mut BTreeMap<u64, Ino>) {
    let now = Time::new(1_000_000_000);
    let mut entries: Vec<_> = fs::read_dir(from)
        .expect("a directory of the tree")
        .map(|entry| entry.expect("an entry of it"))
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let meta = fs::symlink_metadata(&path).expect("an entry of the tree");
        if let Some(first) = first_names.get(&meta.ino()).filter(|_| meta.is_file()) {
            fs.link(*first, dir, name.as_bytes(), now).expect("room");
            continue;
        }
        let target = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string()
        } else {
            Default::default()
        };
        let node = match meta.file_type() {
            kind if kind.is_dir() => NewNode::Directory,
            kind if kind.is_symlink() => NewNode::Symlink {
                target: target.as_bytes(),
            },
            _ => NewNode::File,
        };
        let mode = (meta.mode() & 0o7777) as u16;
        let ino = fs
            .create(
                dir,
                name.as_bytes(),
                node,
                mode,
                Caller {
                    uid: meta.uid(),
                    gid: meta.gid(),
                    ..Caller::root(now)
                },
            )
            .expect("room")
            .ino;
        if meta.is_dir() {
            load(fs, ino, &path, first_names);
        } else if meta.is_file() {
            if meta.nlink() > 1 {
                first_names.insert(meta.ino(), ino);
            }
            let data = fs::read(&path).expect("a file of the tree");
            data.chunks(PIECE).enumerate().for_each(|(number, piece)| {
                fs.write(ino, (number * PIECE) as u64, piece, now)
                    .expect("room");
            });
        }
        date(fs, ino, &path);
    }
}

fn date(fs: &mut Fs, ino: Ino, path: &Path) {
    let meta = fs::symlink_metadata(path).expect("an entry of the tree");
    let [atime, mtime] = [meta.atime(), meta.mtime()].map(|secs| Some(Time::new(secs)));
    fs.setattr(
        ino,
        &SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        },
        Time::new(1_000_000_000),
    )
    .expect("room");
}

fn extract(image: &Path, to: &Path) {
    let disk = Image::new(fs::read(image).expect("an image"), 512).expect("whole sectors");
    let options = Options {
        read_only: true,
        cache_bytes: 16 << 20,
        ..Options::default()
    };
    let mut fs = F2fs::mount(disk, options).expect("a good image");
    let root = fs.getattr(Ino::ROOT).expect("a root");
    directory(
        &mut fs,
        &root,
        to,
        &mut vec![0; PIECE],
        &mut BTreeMap::new(),
    );
}

fn directory(
    fs: &mut Fs,
    dir: &Attr,
    to: &Path,
    buffer: &mut [u8],
    first_names: &mut BTreeMap<Ino, PathBuf>,
) {
    fs::create_dir(to).expect("space for a directory");
    let mut names = Vec::new();
    fs.readdir(dir.ino, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })
    .expect("a good directory");
    for name in names
        .iter()
        .filter(|name| ![&b"."[..], b".."].contains(&&name[..]))
    {
        let attr = fs.lookup(dir.ino, name).expect("a good entry");
        let to = to.join(OsStr::from_bytes(name));
        match attr.kind {
            FileType::Directory => directory(fs, &attr, &to, buffer, first_names),
            FileType::Symlink => symlink(
                OsStr::from_bytes(&fs.readlink(attr.ino).expect("a good link")),
                &to,
            )
            .expect("space for a link"),
            _ => match first_names.get(&attr.ino) {
                Some(first) => fs::hard_link(first, &to).expect("space for a name"),
                None => {
                    let mut file = File::create(&to).expect("space for a file");
                    let mut done = 0;
                    while done < attr.size {
                        let count = fs.read(attr.ino, done, buffer).expect("a good file");
                        file.write_all(&buffer[..count]).expect("space for a file");
                        done += count as u64;
                    }
                    finish(&file, &attr);
                    if attr.links > 1 {
                        first_names.insert(attr.ino, to);
                    }
                }
            },
        }
        fs.forget(attr.ino, 1);
    }
    finish(&File::open(to).expect("our directory"), dir);
}

fn finish(file: &File, attr: &Attr) {
    file.set_permissions(Permissions::from_mode(attr.mode.into()))
        .expect("our file");
    let time = UNIX_EPOCH + Duration::from_secs(attr.mtime.secs as u64);
    file.set_times(FileTimes::new().set_modified(time))
        .expect("our file");
}

/// dump.f2fs 1.15 knows no names: it restores one inode below its directory, and asks first.
fn dump(image: &Path, to: &Path) {
    fs::create_dir(to).expect("space for a directory");
    for ino in longest(image) {
        let mut child = Command::new(tool("dump.f2fs"))
            .args(["-i", &format!("0x{:x}", ino.0)])
            .arg(image)
            .current_dir(to)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("it was found");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(b"y\n")
            .expect("it asks");
        assert!(
            child.wait().expect("a child").success(),
            "dump.f2fs: inode {}",
            ino.0
        );
    }
}

/// The longest files of an image, by inode.
fn longest(image: &Path) -> Vec<Ino> {
    let disk = Image::new(fs::read(image).expect("an image"), 512).expect("whole sectors");
    let mut fs = F2fs::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .expect("a good image");
    let mut found = Vec::new();
    let mut dirs = vec![Ino::ROOT];
    while let Some(dir) = dirs.pop() {
        let mut names = Vec::new();
        fs.readdir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })
        .expect("a good directory");
        for name in names
            .iter()
            .filter(|name| ![&b"."[..], b".."].contains(&&name[..]))
        {
            let attr = fs.lookup(dir, name).expect("a good entry");
            match attr.kind {
                FileType::Directory => dirs.push(attr.ino),
                FileType::File => found.push((attr.size, attr.ino)),
                _ => {}
            }
        }
    }
    found.sort_unstable();
    found
        .into_iter()
        .rev()
        .take(DUMPED)
        .map(|(_, ino)| ino)
        .collect()
}
