//! What the tests share: media of all kinds, trees, and the tools of mtd-utils as judges.

use nandlab_jffs2::{Jffs2, Medium, Options};
use nandlab_mtd::{Image, ImageFormat, Layout, Mtd};
use nandlab_nand::{Chip, ChipSpec, preset};
use nandlab_oracle::manifest::{Kind, Manifest};
use nandlab_testkit::tools;
use nandlab_vfs::FileSystem;
use nandlab_vfs::model::Rules;
use std::process::Output;

pub use nandlab_testkit::files::{NOW, bytes, mkdir, put};
pub use nandlab_testkit::manifest::manifest;
pub use nandlab_testkit::tools::printed;

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
        ecc: None,
    };
    Image::new(bytes, format).unwrap()
}

/// The large pages of nandsim, with spare areas as Linux lays them out.
pub const NAND: ImageFormat = ImageFormat {
    page: 2048,
    oob: 64,
    pages_per_block: 64,
    layout: Layout::LinuxLargePage64,
    ecc: None,
};
pub const SMALL: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 32,
    layout: Layout::LinuxSmallPage,
    ecc: None,
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

/// Bytes that can be compressed.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let word = |at: u64| {
        ["flash ", "node ", "erase ", "block ", "\n"][(nandlab_sim::mix(seed, at) % 5) as usize]
    };
    (0..).flat_map(|at| word(at).bytes()).take(length).collect()
}

/// The kernel drops a removed name's entry with the time of its directory that is in it (a FIXME in
/// `jffs2_garbage_collect_deletion_dirent`).
pub fn without_directory_times(mut tree: Manifest) -> Manifest {
    tree.values_mut()
        .filter(|entry| entry.kind == Kind::Directory)
        .for_each(|entry| entry.mtime = 0);
    tree
}

/// Runs a tool of mtd-utils to its end; a missing one fails the test.
pub fn tool(program: &str, arguments: &[&str]) -> Output {
    tools::run("mtd-utils", program, arguments)
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
