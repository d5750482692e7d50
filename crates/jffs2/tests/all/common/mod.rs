//! What the tests share: media of all kinds, trees, and the tools of mtd-utils as judges.
use nandlab_jffs2::{Jffs2, Medium, Options};
use nandlab_mtd::{Image, ImageFormat, Layout, Mtd};
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_oracle::manifest::{Entry, Kind, Manifest};
use nandlab_vfs::model::Rules;
use nandlab_vfs::{Caller, FileSystem, FileType, Ino, NewNode, Time, tree};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub type Dump = Image<Vec<u8>>;

/// NOR flash in memory: any byte at any time.
pub fn nor(blocks: u32, block_bytes: u32) -> Dump {
    nor_of(vec![0xFF; (blocks * block_bytes) as usize], block_bytes)
}

/// NOR flash with these bytes.
pub fn nor_of(bytes: Vec<u8>, block_bytes: u32) -> Dump {
    let format = ImageFormat {
        page: 256,
        oob: 0,
        pages_per_block: block_bytes / 256,
        layout: Layout::Raw,
    };
    Image::new(bytes, format).unwrap()
}

/// The large pages of nandsim, with spare areas as Linux lays them out.
pub const NAND: ImageFormat = ImageFormat {
    page: 2048,
    oob: 64,
    pages_per_block: 64,
    layout: Layout::LinuxLargePage64,
};
/// Small pages.
pub const SMALL: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 32,
    layout: Layout::LinuxSmallPage,
};

/// NAND flash in memory.
pub fn nand(format: ImageFormat, blocks: u32) -> Dump {
    Image::new(vec![0xFF; format.bytes(blocks) as usize], format).unwrap()
}

/// A chip that refuses what a data sheet forbids.
pub fn chip(blocks: u32, pages_per_block: u32) -> Chip {
    Chip::new(chip_spec(blocks, pages_per_block)).unwrap()
}

pub fn chip_spec(blocks: u32, pages_per_block: u32) -> ChipSpec {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    (spec.geometry.blocks, spec.geometry.pages_per_block) = (blocks, pages_per_block);
    spec
}

pub fn mount<M: Mtd>(mtd: M) -> Jffs2<M> {
    Jffs2::mount(mtd, Options::default()).unwrap()
}

/// The medium as it is, without a write.
pub fn read_only<M: Mtd>(mtd: M) -> Jffs2<M> {
    Jffs2::mount(
        mtd,
        Options {
            read_only: true,
            ..Options::default()
        },
    )
    .unwrap()
}

/// As UBI volumes are.
pub fn unmarked() -> Options {
    Options {
        medium: Some(Medium::Unmarked),
        ..Options::default()
    }
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
        done += fs
            .write(file, done as u64, &data[done..], NOW)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    file
}

pub fn mkdir<F: FileSystem>(fs: &mut F, dir: Ino, name: &str) -> Ino {
    fs.mkdir(dir, name.as_bytes(), 0o755, Caller::root(NOW))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino
}

/// Bytes that are nowhere else and cannot be compressed.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| nandlab_sim::mix(seed, at / 8).to_le_bytes()[(at % 8) as usize])
        .collect()
}

/// Bytes that can be compressed.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let word = |at: u64| {
        ["flash ", "node ", "erase ", "block ", "\n"][(nandlab_sim::mix(seed, at) % 5) as usize]
    };
    (0..).flat_map(|at| word(at).bytes()).take(length).collect()
}

/// Runs a tool of mtd-utils to its end; a missing one fails the test.
pub fn tool(program: &str, arguments: &[&str]) -> Output {
    let path = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file());
    let path = path.unwrap_or_else(|| panic!("{program} is missing: apt-get install mtd-utils"));
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

/// The kernel drops a removed name's entry with the time of its directory that is in it (a FIXME in
/// `jffs2_garbage_collect_deletion_dirent`).
pub fn without_directory_times(mut tree: Manifest) -> Manifest {
    tree.values_mut()
        .filter(|entry| entry.kind == Kind::Directory)
        .for_each(|entry| entry.mtime = 0);
    tree
}

/// Owners have 16 bits, attributes of an inode change no times of it, links are at most 254 bytes
/// long.
pub fn rules() -> Rules {
    Rules {
        owners: false,
        ctimes: false,
        exchange: false,
        symlinks: false,
        ..Rules::unix()
    }
}

/// Few and small files, so that a small medium is nearly full of what counts.
pub fn small_rules() -> Rules {
    Rules {
        file_bytes_max: 30_000,
        inodes_max: 90,
        ..rules()
    }
}

/// How full a medium is of what counts, in percent: what is kept for collecting counts as full.
pub fn percent_full<M: Mtd>(fs: &mut Jffs2<M>) -> u64 {
    let stat = fs.statfs().unwrap();
    100 - 100 * stat.available / stat.blocks
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
