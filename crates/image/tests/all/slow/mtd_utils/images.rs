//! Takes the images out of Debian's source package. Each is a NOR flash with UBI in it.

use nandlab_testkit::mtd_utils;
use nandlab_testkit::tools::{self, text};
use nandlab_ubi::format::{Parsed, VidHeader};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of an erase block, and where headers and data begin in it.
const PEB: usize = 16 << 10;
const VID: usize = 64;
const DATA: usize = 128;
/// Bytes of a logical block.
pub const LEB: usize = PEB - DATA;
/// Volumes from here on are UBI's own.
const OWN: u32 = 0x7FFF_EFFF;

/// An image, unpacked.
pub struct Image {
    pub name: String,
    path: PathBuf,
}

/// Unpacks the images into an empty directory, sorted by name.
pub fn unpacked(into: &Path) -> Vec<Image> {
    mtd_utils::unpack(into, 4, "*/ubifs_tools-tests/images/*.gz");
    let entries = fs::read_dir(into)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let packed: Vec<PathBuf> = entries.filter(|path| path.extension().is_some()).collect();
    let mut images: Vec<Image> = packed.iter().map(|path| one(path)).collect();
    images.sort_by(|one, other| one.name.cmp(&other.name));
    images
}

fn one(packed: &Path) -> Image {
    tools::succeed("gzip", "gzip", &["-d", text(packed)]);
    let path = packed.with_extension("");
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    Image { name, path }
}

impl Image {
    /// The bytes of its only volume. Of several blocks for one the newest counts.
    pub fn volume(&self) -> Vec<u8> {
        let bytes = fs::read(&self.path).unwrap();
        let mut newest: BTreeMap<u32, (u64, &[u8])> = BTreeMap::new();
        let mut lebs = 0;
        for peb in bytes.chunks(PEB) {
            let Parsed::Good(vid) = VidHeader::parse(&peb[VID..DATA], LEB as u32) else {
                continue;
            };
            if vid.volume >= OWN {
                // The first field of the first record of the table.
                lebs = u32::from_be_bytes(peb[DATA..DATA + 4].try_into().unwrap());
                continue;
            }
            let known = newest.get(&vid.lnum).map_or(0, |(sqnum, _)| *sqnum);
            if vid.sqnum >= known {
                newest.insert(vid.lnum, (vid.sqnum, &peb[DATA..]));
            }
        }
        let mut volume = vec![0xFF; LEB * lebs as usize];
        for (lnum, (_, data)) in newest {
            volume[lnum as usize * LEB..][..LEB].copy_from_slice(data);
        }
        volume
    }
}
