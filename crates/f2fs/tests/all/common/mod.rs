//! What the tests share: disks, the tools of f2fs-tools as judges, and trees.
pub mod attributes;
pub mod chain;
pub mod full;

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{F2fs, Options};
use nandlab_oracle::manifest::{Entry, Kind, Manifest};
use nandlab_vfs::{Caller, FileSystem, FileType, Ino, NewNode, Time, tree};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A disk of zeros.
pub fn ram(kib: u64) -> Ram {
    Ram::new(512, kib * 2)
}

/// Runs a tool to its end; a missing tool fails the test and names its package.
pub fn tool(program: &str, arguments: &[&str]) -> Output {
    let path = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file());
    let path = path.unwrap_or_else(|| panic!("{program} is missing: apt-get install f2fs-tools"));
    Command::new(path)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What a tool printed.
pub fn printed(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

/// Puts a disk into a file; zeros take no space.
pub fn save<D: BlockDevice>(disk: &mut D, path: &Path) {
    const STEP: usize = 64 * 1024;
    let (bytes, unit) = (disk.geometry().bytes(), u64::from(disk.geometry().sector));
    let mut file = File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    for at in (0..bytes).step_by(STEP) {
        let mut data = vec![0; STEP.min((bytes - at) as usize)];
        disk.read(Lba(at / unit), &mut data).unwrap();
        if data.iter().any(|byte| *byte != 0) {
            file.seek(std::io::SeekFrom::Start(at)).unwrap();
            file.write_all(&data).unwrap();
        }
    }
}

/// Reads a disk from a file.
pub fn load(path: &Path) -> Ram {
    let mut file = File::open(path).unwrap();
    let mut disk = Ram::new(512, fs::metadata(path).unwrap().len() / 512);
    let mut data = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        let mut count = 0;
        while count < data.len() {
            match file.read(&mut data[count..]).unwrap() {
                0 => break,
                more => count += more,
            }
        }
        if data[..count].iter().any(|byte| *byte != 0) {
            disk.write(Lba(at / 512), &data[..count / 512 * 512])
                .unwrap();
        }
        at += count as u64;
        if count < data.len() {
            return disk;
        }
    }
}

/// What fsck.f2fs, changing nothing, says of a disk, and whether it is content.
pub fn fsck<D: BlockDevice>(disk: &mut D) -> (bool, String) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    save(disk, &path);
    let output = tool("fsck.f2fs", &["--dry-run", path.to_str().unwrap()]);
    (output.status.success(), printed(&output))
}

/// Both judges, theirs and ours, find nothing wrong.
pub fn assert_clean<D: BlockDevice>(disk: &mut D, what: &str) {
    let report = read_only(&mut *disk).check().unwrap();
    assert_eq!(
        (report.findings.as_slice(), report.more),
        (&[][..], 0),
        "{what}"
    );
    let (content, text) = fsck(disk);
    assert!(content, "{what}: {text}");
}

/// A volume made by mkfs.f2fs.
pub fn made_by_mkfs(mib: u64, options: &[&str]) -> Ram {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    let output = tool(
        "mkfs.f2fs",
        &[&["-f"], options, &[path.to_str().unwrap()]].concat(),
    );
    assert!(
        output.status.success(),
        "mkfs.f2fs {options:?}: {}",
        printed(&output)
    );
    load(&path)
}

pub fn mount<D: BlockDevice>(disk: D) -> F2fs<D> {
    F2fs::mount(disk, Options::default()).unwrap()
}

/// The disk as it is, without a write.
pub fn read_only<D: BlockDevice>(disk: D) -> F2fs<D> {
    F2fs::mount(
        disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}

pub const NOW: Time = Time::new(1_000_000_000);

/// Makes a file; its reference is the caller's.
pub fn put<F: FileSystem>(fs: &mut F, dir: Ino, name: &str, data: &[u8]) -> Ino {
    let file = fs
        .create(
            dir,
            name.as_bytes(),
            NewNode::File,
            0o644,
            Caller::root(NOW),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino;
    let mut done = 0;
    while done < data.len() {
        done += fs.write(file, done as u64, &data[done..], NOW).unwrap();
    }
    file
}

pub fn mkdir<F: FileSystem>(fs: &mut F, dir: Ino, name: &str) -> Ino {
    fs.mkdir(dir, name.as_bytes(), 0o755, Caller::root(NOW))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino
}

/// Bytes that are nowhere else.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| nandlab_sim::mix(seed, at / 8).to_le_bytes()[(at % 8) as usize])
        .collect()
}

/// What we see, in the form in which the kernel tells what it sees.
pub fn manifest(fs: &mut impl FileSystem) -> Manifest {
    let entry = |entry: tree::Entry| {
        let (attr, mtime, (major, minor)) = (entry.attr, entry.attr.mtime, entry.attr.device);
        let kind = match attr.kind {
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink {
                target: PathBuf::from(OsStr::from_bytes(&entry.contents)),
            },
            FileType::Character => Kind::Character { major, minor },
            FileType::Block => Kind::Block { major, minor },
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::File => {
                let sha256 = Sha256::digest(&entry.contents)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                Kind::File {
                    size: attr.size,
                    sha256,
                }
            }
        };
        let links = if attr.kind == FileType::Directory {
            1
        } else {
            attr.links
        };
        Entry {
            kind,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            links,
            mtime: mtime.secs,
            mtime_nanos: mtime.nanos,
        }
    };
    let path = |path: Vec<u8>| match path.is_empty() {
        true => PathBuf::from("."),
        false => Path::new(".").join(OsStr::from_bytes(&path)),
    };
    tree::snapshot(fs)
        .unwrap()
        .into_iter()
        .map(|(name, found)| (path(name), entry(found)))
        .collect()
}
