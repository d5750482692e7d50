//! The structures of an image where they lie, one after the other.
//!
//! *Promises.* Every structure is reported, sound or not, whether it counts or not; memory is one
//! erase block. *Knows nothing of* what it means for the tree: that is a mount's business.

use crate::detect::{Detected, FlashKind};
use crate::error::{ImageError, Result, Shown};
use crate::history::block_of;
use crate::locate::{Located, locate};
use crate::overlay::Overlay;
use crate::place::Place;
use crate::volume::{Access, Mounted, Opening, Volume};
use nandlab_jffs2::{Endian, What, survey};
use nandlab_mtd::{Block, Image, Mtd};
use nandlab_sim::Backing as _;
use nandlab_ubi::format::{EcHeader, HEADER_BYTES, Parsed, VidHeader};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// One structure of a dump, such as a node or a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Where it is in the data of the flash or disk, in bytes.
    pub at: u64,
    /// Bytes of it; 0 where that has no meaning.
    pub len: u64,
    /// The type of the structure.
    pub kind: &'static str,
    /// Whether its checksums are right.
    pub sound: bool,
    /// The fields of the structure, as text.
    pub says: String,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let damaged = if self.sound { "" } else { " DAMAGED" };
        write!(
            f,
            "{:#010x} {:>6} {}{damaged} {}",
            self.at, self.len, self.kind, self.says
        )
    }
}

/// Gives every structure to `take`.
pub fn dump(
    path: &Path,
    opening: &Opening,
    take: &mut dyn FnMut(&Item) -> Result<()>,
) -> Result<()> {
    let located = locate(&Place::file(path), opening)?;
    let Detected::Flash(format, kind) = located.detected else {
        return disk(located, opening, take);
    };
    let bytes = located.place.raw()?;
    let block = format.bytes(1);
    let whole = bytes.len().div_ceil(block) * block;
    let mut medium =
        Image::new(Overlay::new(bytes, whole), format).map_err(|error| ImageError::Open {
            layer: "flash",
            why: error.to_string(),
        })?;
    let geometry = medium.geometry().clone();
    let mut bytes = Vec::new();
    for number in 0..geometry.blocks {
        let start = u64::from(number) * u64::from(geometry.block_bytes());
        if medium.is_bad(Block(number)) == Ok(true) {
            take(&Item {
                at: start,
                len: geometry.block_bytes().into(),
                kind: "bad block",
                sound: true,
                says: String::new(),
            })?;
        }
        block_of(&mut medium, number, &mut bytes)?;
        match kind {
            FlashKind::Jffs2 { endian, .. } => jffs2(start, endian, &bytes, take)?,
            FlashKind::Ubi { vid, .. } => ubi(start, vid, &bytes, take)?,
            FlashKind::PageMap | FlashKind::LogBlock => layer(start, &bytes, take)?,
            FlashKind::Nftl => {
                if bytes.starts_with(b"ANAND\0") {
                    take(&Item {
                        at: start,
                        len: 512,
                        kind: "NFTL header",
                        sound: true,
                        says: String::new(),
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// The page in which a translation layer of this project says what it was formatted for.
fn layer(start: u64, bytes: &[u8], take: &mut dyn FnMut(&Item) -> Result<()>) -> Result<()> {
    let sizes = (8..=16).map(|shift| 1usize << shift);
    for page in sizes.filter(|page| *page <= bytes.len()) {
        for (number, data) in bytes.chunks_exact(page).enumerate() {
            let Some(medium) = nandlab_ftl::media::recognise(data) else {
                continue;
            };
            take(&Item {
                at: start + (number * page) as u64,
                len: page as u64,
                kind: "layer header",
                sound: true,
                says: format!("{medium:?}"),
            })?;
        }
    }
    Ok(())
}

fn jffs2(
    start: u64,
    endian: Endian,
    bytes: &[u8],
    take: &mut dyn FnMut(&Item) -> Result<()>,
) -> Result<()> {
    for seen in survey(endian, bytes) {
        let (kind, says) = match seen.what {
            What::Inode {
                ino,
                version,
                mode,
                owner,
                size,
                mtime,
                range,
                compr,
                ..
            } => {
                let (from, len) = range;
                let (uid, gid) = owner;
                let says = format!(
                    "inode {ino} version {version} mode {mode:o} owner {uid}:{gid} size {size} mtime {mtime} bytes {from}+{len} compressor {compr}"
                );
                ("inode", says)
            }
            What::Name {
                dir,
                version,
                ino,
                time,
                kind,
                name,
            } => {
                let name = Shown(bytes[name].to_vec());
                (
                    "name",
                    format!(
                        "directory {dir} version {version} inode {ino} type {kind} time {time} {name}"
                    ),
                )
            }
            What::Attribute { xid, version, data } => (
                "xattr",
                format!("number {xid} version {version}, {} bytes", data.len()),
            ),
            What::Reference { ino, xid, seqno } => (
                "xref",
                format!("inode {ino} attribute {xid} sequence {seqno}"),
            ),
            What::Summary => ("summary", String::new()),
            What::CleanMarker => ("clean marker", String::new()),
            What::Padding => ("padding", String::new()),
            What::Unknown => ("unknown", format!("kind {:#06x}", seen.kind)),
        };
        let says = if seen.obsolete {
            says + " (marked as not counting)"
        } else {
            says
        };
        take(&Item {
            at: start + seen.at as u64,
            len: seen.len as u64,
            kind,
            sound: seen.sound,
            says,
        })?;
    }
    Ok(())
}

fn ubi(
    start: u64,
    vid: u32,
    bytes: &[u8],
    take: &mut dyn FnMut(&Item) -> Result<()>,
) -> Result<()> {
    let len = HEADER_BYTES as u64;
    let (sound, says) = match EcHeader::parse(&bytes[..HEADER_BYTES.min(bytes.len())]) {
        Parsed::Good(header) => (
            true,
            format!("erased {} times, image {:#x}", header.ec, header.image_seq),
        ),
        Parsed::Empty => (true, "erased".into()),
        Parsed::Damaged(error) | Parsed::Refused(error) => (false, error.to_string()),
    };
    take(&Item {
        at: start,
        len,
        kind: "EC header",
        sound,
        says,
    })?;
    let Some(header) = bytes.get(vid as usize..vid as usize + HEADER_BYTES) else {
        return Ok(());
    };
    let (sound, says) = match VidHeader::parse(header, bytes.len() as u32) {
        Parsed::Good(header) => {
            let copy = if header.copy { ", a copy" } else { "" };
            (
                true,
                format!(
                    "volume {} block {} sequence {}{copy}",
                    header.volume, header.lnum, header.sqnum
                ),
            )
        }
        Parsed::Empty => return Ok(()),
        Parsed::Damaged(error) | Parsed::Refused(error) => (false, error.to_string()),
    };
    take(&Item {
        at: start + u64::from(vid),
        len,
        kind: "VID header",
        sound,
        says,
    })
}

fn disk(
    located: Located,
    opening: &Opening,
    take: &mut dyn FnMut(&Item) -> Result<()>,
) -> Result<()> {
    let volume = Volume::located(located, opening, Access::Read)?;
    let (kind, at, says) = match &volume.mounted {
        Some(Mounted::Ext(fs)) => ("ext superblock", 1024, format!("{:?}", fs.layout())),
        Some(Mounted::F2fs(fs)) => ("F2FS superblock", 1024, format!("{:?}", fs.layout())),
        Some(Mounted::Fat(fs)) => ("FAT boot sector", 0, format!("{:?}", fs.layout())),
        Some(Mounted::Squashfs(fs)) => ("squashfs superblock", 0, format!("{:?}", fs.head())),
        Some(Mounted::Ubifs(fs)) => ("UBIFS superblock", 0, format!("{:?}", fs.head())),
        Some(Mounted::Jffs2(_)) | None => return Ok(()),
    };
    take(&Item {
        at,
        len: 0,
        kind,
        sound: true,
        says,
    })
}
