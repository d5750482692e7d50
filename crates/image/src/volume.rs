//! An image opened: its layers from the file upwards, and the file system in them if there is one.
//!
//! *Promises.* [`Access::Read`] never changes the file: what a journal, a log or a volume table wants to have written goes to an [`Overlay`](crate::overlay). [`Access::Write`] changes the file it is given,
//! which [`edit`](crate::edit) makes a copy. Each layer that fails to open says why. *Knows nothing of* trees.

use crate::detect::{self, Detected, DiskKind, FlashKind, Hints};
use crate::error::{ImageError, Result, Shown};
use crate::file::ImageFile;
use crate::overlay::Overlay;
use nandlab_block::{BlockDevice, Image as Disk, Lba};
use nandlab_ext::Ext;
use nandlab_f2fs::F2fs;
use nandlab_fat::{Bits, Fat};
use nandlab_ftl::nftl::{Nftl, NftlOptions};
use nandlab_jffs2::{Endian, Jffs2, Medium};
use nandlab_mtd::{Image, ImageFormat, Layout, Mtd};
use nandlab_sim::Backing;
use nandlab_ubi::format::VolumeKind;
use nandlab_ubi::{Headers, Ubi, UbiError, VolumeDisk, VolumeMtd};
use nandlab_vfs::FileSystem;
use serde::Serialize;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

type AnyMtd = Box<dyn Mtd>;
type AnyDisk = Box<dyn BlockDevice>;
/// Blocks without which JFFS2 is not mounted; a shorter image gets erased ones behind it.
const JFFS2_BLOCKS_MIN: u64 = 5;

/// Blocks for UBI's own work.
const UBI_BLOCKS_SPARE: u64 = 8;

/// What may be done to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Read,
    /// Changes.
    Write,
}

/// How an image is opened.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// What is known of its shape.
    pub hints: Hints,
    /// Name or number of the UBI volume to look into; by default the first in which there is a file system.
    pub volume: Option<String>,
}

/// One layer of an image.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "layer", rename_all = "lowercase")]
pub enum Layer {
    /// Raw flash, as a dump of it.
    Flash {
        /// Data bytes of a page.
        page: u32,
        /// Spare bytes of a page in the image.
        oob: u32,
        /// Data bytes of an erase block.
        block: u32,
        /// Erase blocks.
        blocks: u32,
        /// Who owns which spare bytes.
        oob_layout: Option<&'static str>,
        /// Blocks marked bad.
        bad: Vec<u32>,
    },
    /// UBI with its volumes.
    Ubi {
        /// Bytes of a logical erase block.
        leb: u32,
        /// Its number for the device, the same in every block.
        image_seq: u32,
        /// Erase counters: least and greatest.
        erases: (u32, u32),
        /// Its volumes.
        volumes: Vec<UbiVolume>,
    },
    /// NFTL as a disk.
    Nftl {
        /// Bytes of the disk.
        bytes: u64,
    },
    /// JFFS2.
    Jffs2 {
        /// The byte order.
        endian: &'static str,
        /// How bytes get onto it.
        medium: &'static str,
    },
    /// ext2 or ext3.
    Ext {
        /// Whether there is a journal.
        journal: bool,
        /// Bytes of a block.
        block: u32,
        /// Blocks.
        blocks: u32,
        /// Inodes.
        inodes: u32,
    },
    /// F2FS.
    F2fs {
        /// Segments of 2 MiB for contents.
        segments: u32,
    },
    /// FAT.
    Fat {
        /// Bits of a table entry.
        bits: u8,
        /// Bytes of a cluster.
        cluster: u32,
        /// Clusters.
        clusters: u32,
    },
}

/// A volume of UBI.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UbiVolume {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Static or dynamic.
    pub kind: &'static str,
    /// Logical erase blocks that are kept for it, and how many of them have contents.
    pub lebs: (u32, u32),
    /// Bytes of its contents.
    pub bytes: u64,
    /// Blocks of a static volume are missing.
    pub corrupted: bool,
    /// What lies in it, if that is known.
    pub holds: Option<&'static str>,
}

/// A mounted file system of any format.
pub enum Mounted {
    /// JFFS2.
    Jffs2(Box<Jffs2<AnyMtd>>),
    /// ext2 and ext3.
    Ext(Box<Ext<AnyDisk>>),
    /// F2FS.
    F2fs(Box<F2fs<AnyDisk>>),
    /// FAT.
    Fat(Box<Fat<AnyDisk>>),
}

/// An image opened.
pub struct Volume {
    /// From the file upwards.
    pub layers: Vec<Layer>,
    /// The file system, if there is one that is known.
    pub mounted: Option<Mounted>,
    /// What the image is by itself.
    pub detected: Detected,
    /// Why a journal that should have been recovered was not.
    pub unrecovered: Option<String>,
    path: PathBuf,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("path", &self.path).field("layers", &self.layers).finish_non_exhaustive()
    }
}

fn failed(layer: &'static str, why: impl ToString) -> ImageError {
    ImageError::Open { layer, why: why.to_string() }
}

/// What an image is.
pub fn detected(path: &Path, hints: &Hints) -> Result<Detected> {
    let mut file = ImageFile::open(path).map_err(ImageError::file(path))?;
    detect::detect(&mut file, hints).ok_or_else(|| {
        let tried = "neither ext2, ext3, F2FS nor FAT at its beginning, nor UBI, JFFS2 or NFTL with or without spare bytes".into();
        ImageError::Unknown { path: path.into(), tried }
    })
}

impl Volume {
    /// Opens an image.
    pub fn open(path: &Path, opening: &Opening, access: Access) -> Result<Self> {
        let detected = detected(path, &opening.hints)?;
        let mut volume = Self { layers: Vec::new(), mounted: None, detected, unrecovered: None, path: path.into() };
        match detected {
            Detected::Disk(kind) => {
                let backing = volume.backing(access, 0)?;
                let disk = Disk::new(backing, 512).map_err(|error| failed("disk", error))?;
                volume.disk(Box::new(disk), kind, access)?;
            }
            Detected::Flash(format, kind) => volume.flash(format, kind, opening, access)?,
        }
        Ok(volume)
    }

    /// The file system.
    pub fn fs(&mut self) -> Result<&mut dyn FileSystem> {
        let path = &self.path;
        match &mut self.mounted {
            Some(Mounted::Jffs2(fs)) => Ok(&mut **fs),
            Some(Mounted::Ext(fs)) => Ok(&mut **fs),
            Some(Mounted::F2fs(fs)) => Ok(&mut **fs),
            Some(Mounted::Fat(fs)) => Ok(&mut **fs),
            None => Err(ImageError::Unknown { path: path.clone(), tried: "there is no file system in it that is known".into() }),
        }
    }

    /// Adds to an error what the file system knows of it.
    pub fn explain(&self, error: ImageError) -> ImageError {
        let ImageError::Call { path, error, why } = error else { return error };
        let fault = match &self.mounted {
            Some(Mounted::Jffs2(fs)) => fs.fault().map(|fault| fault.to_string()),
            Some(Mounted::Ext(fs)) => fs.fault().map(|fault| fault.to_string()),
            Some(Mounted::F2fs(fs)) => fs.fault().map(|fault| fault.to_string()),
            Some(Mounted::Fat(fs)) => fs.fault().map(|fault| fault.to_string()),
            None => None,
        };
        let why = [Some(why).filter(|why| !why.is_empty()), fault].into_iter().flatten().collect::<Vec<_>>().join(": ");
        ImageError::Call { path, error, why }
    }

    /// Ends the mount, with everything in the file.
    pub fn close(&mut self) -> Result<()> {
        match self.fs()?.unmount() {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(ImageError::Call { path: Shown::path(b""), error, why: String::new() })),
        }
    }

    /// The file, with an overlay where it must not change; at least `len` bytes.
    fn backing(&self, access: Access, len: u64) -> Result<Box<dyn Backing>> {
        let failed = |error| ImageError::File { path: self.path.clone(), error };
        Ok(match access {
            Access::Read => Box::new(Overlay::new(ImageFile::open(&self.path).map_err(failed)?, len)),
            Access::Write => Box::new(ImageFile::open_writable(&self.path).map_err(failed)?),
        })
    }

    fn flash(&mut self, format: ImageFormat, kind: FlashKind, opening: &Opening, access: Access) -> Result<()> {
        let found = std::fs::metadata(&self.path).map_err(ImageError::file(&self.path))?.len();
        let block = format.bytes(1);
        let least = if matches!(kind, FlashKind::Jffs2 { .. }) { JFFS2_BLOCKS_MIN } else { 1 };
        // An image may end where its last node does.
        let mut len = found.div_ceil(block).max(least) * block;
        if let FlashKind::Ubi { vid } = kind {
            len += self.ubi_lacks(format, vid, access, len)? * block;
        }
        let mut medium = self.medium(format, access, len)?;
        let geometry = medium.geometry().clone();
        let bad = (0..geometry.blocks).filter(|block| medium.is_bad(nandlab_mtd::Block(*block)) == Ok(true)).collect();
        self.layers.push(Layer::Flash {
            page: format.page,
            oob: format.oob,
            block: geometry.block_bytes(),
            blocks: found.div_ceil(block) as u32,
            oob_layout: (format.oob > 0).then(|| layout_name(format.layout)),
            bad,
        });
        match kind {
            FlashKind::Jffs2 { endian, markers } => {
                let kept = if format.oob > 0 {
                    Medium::Nand
                } else if markers {
                    Medium::Nor
                } else {
                    Medium::Unmarked
                };
                self.jffs2(medium, endian, kept, access)
            }
            FlashKind::Ubi { vid } => self.ubi(medium, vid, opening, access),
            FlashKind::Nftl => {
                let disk = Nftl::attach(medium, NftlOptions::default()).map_err(|error| failed("NFTL", error))?;
                self.layers.push(Layer::Nftl { bytes: disk.geometry().bytes() });
                self.any_disk(Box::new(disk), access)
            }
        }
    }

    fn medium(&self, format: ImageFormat, access: Access, len: u64) -> Result<AnyMtd> {
        let medium = Image::new(self.backing(access, len)?, format).map_err(|error| failed("flash", error))?;
        Ok(Box::new(medium))
    }

    /// Erased blocks without which the volumes that an image promises do not fit: it may be shorter than the flash that it is meant for.
    fn ubi_lacks(&self, format: ImageFormat, vid: u32, access: Access, len: u64) -> Result<u64> {
        let options = nandlab_ubi::Options { headers: Headers::At(vid), ..nandlab_ubi::Options::default() };
        // In an overlay, whatever is to come.
        let lacks = match Ubi::attach(self.medium(format, Access::Read, len)?, options) {
            Err(UbiError::NoSpace { needed, available }) => u64::from(needed.saturating_sub(available)) + UBI_BLOCKS_SPARE,
            _ => 0,
        };
        if access == Access::Write && lacks > 0 {
            let failed = |error| ImageError::File { path: self.path.clone(), error };
            let file = OpenOptions::new().write(true).open(&self.path).map_err(failed)?;
            let erased = vec![0xFF; format.bytes(1) as usize];
            (0..lacks).try_for_each(|number| file.write_all_at(&erased, len + number * format.bytes(1))).map_err(failed)?;
        }
        Ok(lacks)
    }

    fn jffs2(&mut self, medium: AnyMtd, endian: Endian, kept: Medium, access: Access) -> Result<()> {
        let options = nandlab_jffs2::Options {
            medium: Some(kept),
            endian: Some(endian),
            read_only: access == Access::Read,
            ..nandlab_jffs2::Options::default()
        };
        let fs = Jffs2::mount(medium, options).map_err(|error| failed("JFFS2", error))?;
        self.layers.push(Layer::Jffs2 {
            endian: if endian == Endian::Little { "little" } else { "big" },
            medium: match kept {
                Medium::Nor => "nor",
                Medium::Nand => "nand",
                Medium::Unmarked => "unmarked",
            },
        });
        self.mounted = Some(Mounted::Jffs2(Box::new(fs)));
        Ok(())
    }

    fn ubi(&mut self, medium: AnyMtd, vid: u32, opening: &Opening, access: Access) -> Result<()> {
        let options = nandlab_ubi::Options { headers: Headers::At(vid), ..nandlab_ubi::Options::default() };
        let mut ubi = Ubi::attach(medium, options).map_err(|error| failed("UBI", error))?;
        let info = ubi.info();
        let mut volumes = Vec::new();
        let mut chosen = None;
        for volume in ubi.volumes() {
            let (held, known) = look_into(&mut ubi, volume.id, volume.leb_bytes);
            let wanted = match &opening.volume {
                Some(wanted) => *wanted == volume.record.name || *wanted == volume.id.to_string(),
                None => known.is_some() && chosen.is_none(),
            };
            if wanted {
                chosen = Some((volume.id, volume.record.kind, known));
            }
            volumes.push(UbiVolume {
                id: volume.id,
                name: volume.record.name.clone(),
                kind: if volume.record.kind == VolumeKind::Static { "static" } else { "dynamic" },
                lebs: (volume.record.reserved, volume.mapped),
                bytes: volume.used_bytes,
                corrupted: volume.corrupted,
                holds: held,
            });
        }
        if let (Some(wanted), None) = (&opening.volume, &chosen) {
            let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
            return Err(ImageError::Choice { what: "volume", found: wanted.clone(), expected: format!("one of {}", names.join(", ")) });
        }
        let (leb, erases) = (info.shape.leb_bytes, (info.erases[0], info.erases[2]));
        self.layers.push(Layer::Ubi { leb, image_seq: info.image_seq, erases, volumes });
        match chosen {
            Some((id, kind, Some(Inside::Disk(disk_kind)))) => {
                let writable = access == Access::Write && kind == VolumeKind::Dynamic;
                let disk = if writable { VolumeDisk::new(ubi, id) } else { VolumeDisk::read_only(ubi, id) };
                self.disk(Box::new(disk.map_err(|error| failed("UBI", error))?), disk_kind, access)
            }
            Some((id, _, Some(Inside::Jffs2(endian)))) => {
                let medium = VolumeMtd::new(ubi, id).map_err(|error| failed("UBI", error))?;
                self.jffs2(Box::new(medium), endian, Medium::Unmarked, access)
            }
            _ => Ok(()),
        }
    }

    /// A disk with whatever is on it, which may be nothing that is known.
    fn any_disk(&mut self, mut disk: AnyDisk, access: Access) -> Result<()> {
        let mut head = vec![0; 8192.min(disk.geometry().bytes() as usize) / 512 * 512];
        disk.read(Lba(0), &mut head).map_err(|error| failed("disk", error))?;
        match detect::disk(&head) {
            Some(kind) => self.disk(disk, kind, access),
            None => Ok(()),
        }
    }

    fn disk(&mut self, disk: AnyDisk, kind: DiskKind, access: Access) -> Result<()> {
        let read_only = access == Access::Read;
        let (layer, mounted) = match kind {
            DiskKind::Ext => {
                let mut disk = disk;
                if read_only && needs_recovery(&mut disk) {
                    // In the overlay. Where that fails the volume is shown as it is.
                    let recovered = Ext::mount(&mut disk, nandlab_ext::Options::default());
                    self.unrecovered = recovered
                        .map_err(|error| error.to_string())
                        .and_then(|mut fs| fs.unmount().map_err(|error| error.to_string()))
                        .err();
                }
                let options = nandlab_ext::Options { read_only, once: read_only, ..Default::default() };
                let fs = Ext::mount(disk, options).map_err(|error| failed("ext", error))?;
                let layout = fs.layout();
                let layer = Layer::Ext {
                    journal: layout.compat & HAS_JOURNAL != 0,
                    block: layout.block,
                    blocks: layout.blocks,
                    inodes: layout.inodes,
                };
                (layer, Mounted::Ext(Box::new(fs)))
            }
            DiskKind::F2fs => {
                let options = nandlab_f2fs::Options { read_only, ..Default::default() };
                let fs = F2fs::mount(disk, options).map_err(|error| failed("F2FS", error))?;
                (Layer::F2fs { segments: fs.valid_blocks().count() as u32 }, Mounted::F2fs(Box::new(fs)))
            }
            DiskKind::Fat => {
                let options = nandlab_fat::Options { read_only, ..Default::default() };
                let fs = Fat::mount(disk, options).map_err(|error| failed("FAT", error))?;
                let layout = fs.layout();
                let bits = match layout.bits {
                    Bits::Fat12 => 12,
                    Bits::Fat16 => 16,
                    Bits::Fat32 => 32,
                };
                (Layer::Fat { bits, cluster: layout.cluster_bytes(), clusters: layout.clusters }, Mounted::Fat(Box::new(fs)))
            }
        };
        self.layers.push(layer);
        self.mounted = Some(mounted);
        Ok(())
    }
}

/// Whether the superblock says that the journal holds what is not in its place yet.
fn needs_recovery(disk: &mut AnyDisk) -> bool {
    let mut head = [0; 2048];
    disk.read(Lba(0), &mut head).is_ok() && head[1024 + 96] & 4 != 0
}

/// The bit among ext's compatible features.
const HAS_JOURNAL: u32 = 4;

enum Inside {
    Disk(DiskKind),
    Jffs2(Endian),
}

/// What a volume begins with.
fn look_into(ubi: &mut Ubi<AnyMtd>, id: u32, leb: u32) -> (Option<&'static str>, Option<Inside>) {
    let mut head = vec![0; (leb as usize).min(64 << 10)];
    if ubi.read(id, 0, 0, &mut head).is_err() {
        return (None, None);
    }
    if let Some(kind) = detect::disk(&head) {
        let name = match kind {
            DiskKind::Ext => "ext",
            DiskKind::F2fs => "F2FS",
            DiskKind::Fat => "FAT",
        };
        return (Some(name), Some(Inside::Disk(kind)));
    }
    if head.starts_with(&0x0610_1831u32.to_le_bytes()) {
        return (Some("UBIFS"), None);
    }
    if head.starts_with(b"hsqs") {
        return (Some("squashfs"), None);
    }
    let endian = [Endian::Little, Endian::Big].into_iter().find(|endian| nandlab_jffs2::survey(*endian, &head).any(|node| node.sound));
    match endian {
        Some(endian) => (Some("JFFS2"), Some(Inside::Jffs2(endian))),
        None => (None, None),
    }
}

/// As options and results call a layout.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Raw => "raw",
        Layout::MarkerOnly => "marker-only",
        Layout::LinuxSmallPage => "linux-small-page",
        Layout::LinuxLargePage64 => "linux-large-page-64",
        Layout::DiskOnChip => "disk-on-chip",
    }
}
