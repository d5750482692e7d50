//! The tree of an image, as files.

use crate::make::NOR;
use nandlab_jffs2::{Jffs2, Options};
use nandlab_mtd::{Image, ImageFormat};
use nandlab_vfs::{Attr, Caller, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

type Fs = Jffs2<Image<Vec<u8>>>;

/// Writes an image's tree to a directory that is not there yet.
pub fn tree(image: &Path, to: &Path) {
    let bytes = fs::read(image).expect("an image");
    let medium = Image::new(bytes, NOR).expect("whole blocks");
    let mut fs = Jffs2::mount(medium, Options { read_only: true, ..Options::default() }).expect("a good image");
    let root = fs.getattr(Ino::ROOT).expect("a root");
    directory(&mut fs, &root, to, &mut vec![0; 1 << 20], &mut BTreeMap::new());
}

fn directory(fs: &mut Fs, dir: &Attr, to: &Path, buffer: &mut [u8], first_names: &mut BTreeMap<Ino, PathBuf>) {
    fs::create_dir(to).expect("room for a directory");
    let mut names = Vec::new();
    let listed = fs.readdir(dir.ino, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    listed.expect("a good directory");
    for name in names {
        let (attr, to) = (fs.lookup(dir.ino, &name).expect("a good entry"), to.join(OsStr::from_bytes(&name)));
        match attr.kind {
            FileType::Directory => directory(fs, &attr, &to, buffer, first_names),
            FileType::Symlink => symlink(OsStr::from_bytes(&fs.readlink(attr.ino).expect("a good link")), &to).expect("room for a link"),
            FileType::File => match first_names.get(&attr.ino) {
                Some(first) => fs::hard_link(first, &to).expect("room for a name"),
                None => {
                    contents(fs, &attr, &to, buffer);
                    if attr.links > 1 {
                        first_names.insert(attr.ino, to);
                    }
                }
            },
            kind => panic!("{}: {kind:?}: the trees of this benchmark have no devices", to.display()),
        }
        fs.forget(attr.ino, 1);
    }
    finish(&File::open(to).expect("our directory"), dir);
}

fn contents(fs: &mut Fs, attr: &Attr, to: &Path, buffer: &mut [u8]) {
    let mut file = File::create(to).expect("room for a file");
    let mut done = 0;
    while done < attr.size {
        let count = fs.read(attr.ino, done, buffer).expect("a good file");
        file.write_all(&buffer[..count]).expect("room for a file");
        done += count as u64;
    }
    finish(&file, attr);
}

fn finish(file: &File, attr: &Attr) {
    file.set_permissions(Permissions::from_mode(attr.mode.into())).expect("our file");
    let time = UNIX_EPOCH + Duration::from_secs(attr.mtime.secs as u64);
    file.set_times(FileTimes::new().set_modified(time)).expect("our file");
}

/// Makes the image of a medium that has been in use, and the tree that is on it.
pub fn lived_in(image: &Path, expected: &Path) {
    let now = Time::new(1_000_000_000);
    let by = Caller::root(now);
    let medium = Image::new(vec![0xFF; 24 * NOR.bytes(1) as usize], ImageFormat { ..NOR }).expect("whole blocks");
    let mut fs = Jffs2::mount(medium, Options::default()).expect("an empty medium");
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let data = |seed: u64, len: usize| -> Vec<u8> { (0..len as u64).map(|at| (nandlab_sim::mix(seed, at / 5) >> 9) as u8).collect() };
    let dir = fs.mkdir(Ino::ROOT, b"d", 0o755, by).expect("room").ino;
    for number in 0..120u64 {
        let name = format!("file{number}");
        let ino = fs.create(dir, name.as_bytes(), NewNode::File, 0o644, by).expect("room").ino;
        let mut all = data(number, 9000 + number as usize * 100);
        fs.write(ino, 0, &all, now).expect("room");
        let patch = data(number + 1000, 700);
        match number % 6 {
            0 => {
                fs.write(ino, 3000, &patch, now).expect("room");
                all[3000..3700].copy_from_slice(&patch);
            }
            1 => {
                fs.setattr(ino, &SetAttr { size: Some(4321), ..SetAttr::default() }, now).expect("room");
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
                fs.setattr(ino, &SetAttr { size: Some(5000), ..SetAttr::default() }, now).expect("room");
                fs.setattr(ino, &SetAttr { size: Some(8000), ..SetAttr::default() }, now).expect("room");
                all.truncate(5000);
                all.resize(8000, 0);
            }
            _ => {
                let to = format!("moved{number}");
                fs.rename((dir, name.as_bytes()), (Ino::ROOT, to.as_bytes()), Rename::Replace, now).expect("room");
                files.insert(to, all);
                continue;
            }
        }
        files.insert(format!("d/{name}"), all);
    }
    fs.unmount().expect("a medium without faults");
    fs::write(image, fs.into_mtd().into_backing()).expect("room for the image");
    fs::create_dir_all(expected.join("d")).expect("room for the tree");
    for (name, data) in files {
        let path = expected.join(name);
        fs::write(&path, data).expect("room for the tree");
        let file = File::open(&path).expect("it was written");
        file.set_permissions(Permissions::from_mode(0o644)).expect("our file");
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000))).expect("our file");
    }
    for dir in [expected.join("d"), expected.to_path_buf()] {
        let file = File::open(dir).expect("it was made");
        file.set_permissions(Permissions::from_mode(0o755)).expect("our directory");
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000))).expect("our directory");
    }
}
