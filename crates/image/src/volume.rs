//! An image opened: its layers from the file upwards, and the file system in them if there is one.
//!
//! *Promises.* [`Access::Read`] never changes the file: what a journal, a log or a volume table
//! wants to have written goes to an [`Overlay`](crate::overlay). [`Access::Write`] changes the file
//! it is given, which [`edit`](crate::edit) makes a copy. Each layer that fails to open says why.
//! *Knows nothing of* trees.

use crate::copies;
use crate::detect::{self, Detected, DiskKind, Hints};
use crate::error::{ImageError, Result, Shown};
use crate::locate::{Located, Selection, locate};
use crate::place::Place;
use crate::sink::{HOLE, STEP};
use crate::truncated::{self, TruncatedDisk, Truncation};
use crate::walk::Walk;
use nandlab_block::{BlockDevice, Lba};
use nandlab_ext::Ext;
use nandlab_f2fs::{F2fs, F2fsError};
use nandlab_fat::{Bits, Fat};
use nandlab_jffs2::Jffs2;
use nandlab_mtd::{Layout, Mtd};
use nandlab_sim::Backing as _;
use nandlab_squashfs::{SquashError, Squashfs};
use nandlab_ubifs::{Lebs, Ubifs};
use nandlab_vfs::FileSystem;
use serde::Serialize;
use std::path::Path;

pub(crate) type AnyMtd = Box<dyn Mtd>;
pub(crate) type AnyDisk = Box<dyn BlockDevice>;
pub(crate) type AnyLebs = Box<dyn Lebs>;

/// A disk for one mount. It is boxed, so that each file system is compiled for one type of disk.
pub(crate) fn lent(disk: &mut AnyDisk) -> Box<dyn BlockDevice + '_> {
    Box::new(disk)
}

/// What may be done to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; the image stays as it is.
    Read,
    /// Reads and writes the image.
    Write,
}

/// How an image is opened.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// What is known of its shape.
    pub hints: Hints,
    /// Name or number of the UBI volume to look into; by default the first in which there is a file
    /// system.
    pub volume: Option<String>,
    /// Of UBI, what was there when this sequence number was the last.
    pub until: Option<u64>,
    /// What does not open as it should is opened as far as it can be: by copies of superblocks, by
    /// what blocks say of themselves.
    pub salvage: bool,
    /// An image of JFFS2 or UBIFS may become longer when it is changed.
    pub grow: bool,
    /// Which bytes of the image are meant.
    pub selection: Selection,
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
        /// The number of erase blocks.
        blocks: u32,
        /// Who owns which spare bytes.
        oob_layout: Option<&'static str>,
        /// The error-correcting code of the spare bytes.
        ecc: Option<String>,
        /// The numbers of the blocks marked bad.
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
        /// Whether it has UBIL's log.
        log: bool,
        /// The volumes of the UBI device.
        volumes: Vec<UbiVolume>,
    },
    /// NFTL as a disk.
    Nftl {
        /// Bytes of the disk.
        bytes: u64,
    },
    /// A translation layer of this project as a disk.
    Translation {
        /// The name of the translation layer.
        name: &'static str,
        /// Bytes of the disk.
        bytes: u64,
    },
    /// A JFFS2 file system.
    Jffs2 {
        /// The byte order of its nodes: `little` or `big`.
        endian: &'static str,
        /// How bytes get onto it.
        medium: &'static str,
    },
    /// An ext2, ext3 or ext4 file system.
    Ext {
        /// It has features of ext4.
        ext4: bool,
        /// Whether there is a journal.
        journal: bool,
        /// Bytes of a block.
        block: u32,
        /// The number of blocks in the volume.
        blocks: u32,
        /// The number of inodes in the volume.
        inodes: u32,
    },
    /// An F2FS file system.
    F2fs {
        /// Segments of 2 MiB for contents.
        segments: u32,
    },
    /// A FAT file system.
    Fat {
        /// Bits of a table entry.
        bits: u8,
        /// Bytes of a cluster.
        cluster: u32,
        /// The number of clusters.
        clusters: u32,
    },
    /// A squashfs file system.
    Squashfs {
        /// How its blocks are packed.
        compressor: &'static str,
        /// Bytes of a block.
        block: u32,
        /// The number of inodes.
        inodes: u32,
        /// Bytes of the whole.
        bytes: u64,
    },
    /// A UBIFS file system.
    Ubifs {
        /// The version of the format.
        format: u32,
        /// Bytes of a logical block.
        leb: u32,
        /// The number of logical erase blocks.
        lebs: u32,
        /// The compressor of new files.
        compressor: &'static str,
        /// Whether it was not unmounted.
        in_use: bool,
        /// The first mount that may write erases the free space.
        fixup: bool,
        /// Nodes in the journal, which are not in the index yet.
        journal: u64,
    },
}

/// A volume of UBI.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UbiVolume {
    /// The id of the volume.
    pub id: u32,
    /// The name in the volume table.
    pub name: String,
    /// The volume type: `static` or `dynamic`.
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
    /// A JFFS2 file system on flash.
    Jffs2(Box<Jffs2<AnyMtd>>),
    /// An ext2, ext3 or ext4 file system.
    Ext(Box<Ext<AnyDisk>>),
    /// An F2FS file system.
    F2fs(Box<F2fs<AnyDisk>>),
    /// A FAT file system.
    Fat(Box<Fat<AnyDisk>>),
    /// A squashfs file system.
    Squashfs(Box<Squashfs<AnyDisk>>),
    /// A UBIFS file system on a UBI volume.
    Ubifs(Box<Ubifs<AnyLebs>>),
}

/// A mounted image with the layers below it.
pub struct Volume {
    /// From the file upwards.
    pub layers: Vec<Layer>,
    /// The file system, if there is one that is known.
    pub mounted: Option<Mounted>,
    /// What the image is by itself.
    pub detected: Detected,
    /// Why a journal that should have been recovered was not.
    pub unrecovered: Option<String>,
    /// Whether a journal was recovered in the overlay: in the image it is not.
    pub recovered: bool,
    /// The missing end of a truncated image; `None` if it is whole.
    pub truncation: Option<Truncation>,
    /// What was wrong with layers that were opened all the same.
    pub troubles: Vec<String>,
    /// The feature that is not supported, if there is one. It is no damage.
    pub unsupported: Option<String>,
    /// The UBI volume that was looked into.
    pub looked_into: Option<u32>,
    /// The shape of a new UBIFS in the place of the one here.
    pub(crate) anew: Option<nandlab_ubifs::Format>,
    pub(crate) place: Place,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("place", &self.place)
            .field("layers", &self.layers)
            .finish_non_exhaustive()
    }
}

pub(crate) fn failed(layer: &'static str, why: impl ToString) -> ImageError {
    ImageError::Open {
        layer,
        why: why.to_string(),
    }
}

/// The format of an image.
pub fn detected(path: &Path, opening: &Opening) -> Result<Detected> {
    locate(&Place::file(path), opening).map(|located| located.detected)
}

impl Volume {
    /// Opens an image in a file.
    pub fn open(path: &Path, opening: &Opening, access: Access) -> Result<Self> {
        Self::at(Place::file(path), opening, access)
    }

    /// Opens an image, wherever it is.
    pub fn at(image: Place, opening: &Opening, access: Access) -> Result<Self> {
        Self::located(locate(&image, opening)?, opening, access)
    }

    /// Opens what was found in an image.
    pub fn located(located: Located, opening: &Opening, access: Access) -> Result<Self> {
        if access == Access::Write {
            located.certain()?;
        }
        let mut volume = Self::unopened(located);
        volume.open_detected(opening, access)?;
        Ok(volume)
    }

    /// Opens an image for writing, with a new and empty UBIFS in the place of the one in it.
    pub(crate) fn anew(
        located: Located,
        opening: &Opening,
        format: nandlab_ubifs::Format,
    ) -> Result<Self> {
        located.certain()?;
        let mut volume = Self::unopened(located);
        volume.anew = Some(format);
        volume.open_detected(opening, Access::Write)?;
        Ok(volume)
    }

    fn unopened(located: Located) -> Self {
        let Located {
            place, detected, ..
        } = located;
        Self {
            layers: Vec::new(),
            mounted: None,
            detected,
            unrecovered: None,
            recovered: false,
            truncation: None,
            troubles: Vec::new(),
            unsupported: None,
            looked_into: None,
            anew: None,
            place,
        }
    }

    fn open_detected(&mut self, opening: &Opening, access: Access) -> Result<()> {
        match self.detected {
            Detected::Disk(DiskKind::Ubifs) => self.ubifs_bytes(opening, access),
            Detected::Disk(kind) => self.open_disk(kind, opening, access),
            Detected::Flash(format, kind) => self.open_flash(format, kind, opening, access),
        }
    }

    fn open_disk(&mut self, kind: DiskKind, opening: &Opening, access: Access) -> Result<()> {
        let disk = match kind {
            DiskKind::Squashfs => self.place.disk_filled()?,
            _ => self.place.disk(access)?,
        };
        self.disk(disk, kind, opening, access)
    }

    /// What was opened, to be opened once more without looking for it.
    pub fn found(&self) -> Located {
        Located {
            place: self.place.clone(),
            detected: self.detected,
            doubt: None,
        }
    }

    /// Returns the mounted file system.
    pub fn fs(&mut self) -> Result<&mut dyn FileSystem> {
        let path = self.place.path();
        match &mut self.mounted {
            Some(Mounted::Jffs2(fs)) => Ok(&mut **fs),
            Some(Mounted::Ext(fs)) => Ok(&mut **fs),
            Some(Mounted::F2fs(fs)) => Ok(&mut **fs),
            Some(Mounted::Fat(fs)) => Ok(&mut **fs),
            Some(Mounted::Squashfs(fs)) => Ok(&mut **fs),
            Some(Mounted::Ubifs(fs)) => Ok(&mut **fs),
            None => Err(ImageError::Unknown {
                path: path.into(),
                tried: "there is no file system in it that is known".into(),
            }),
        }
    }

    /// A walk through its file system, which reads no more of a file than the image can hold; with
    /// `salvage`, what cannot be read is a loss, not an error.
    pub fn walk<'a>(
        &'a mut self,
        salvage: bool,
        progress: &'a mut dyn FnMut(u64),
    ) -> Result<Walk<'a>> {
        let limit = self.limit();
        let losses = salvage.then(|| self.reconnect());
        let mut walk = Walk::new(self.fs()?, salvage, progress);
        walk.limit = limit;
        walk.losses = losses.unwrap_or_default();
        Ok(walk)
    }

    /// Bytes that a file in it may have at most, with what is read around small parts. JFFS2,
    /// squashfs and UBIFS compress and bound files themselves.
    fn limit(&self) -> u64 {
        let there = self.place.raw().map_or(u64::MAX, |bytes| bytes.len());
        // The missing part is believed up to a few times the length of the rest.
        let len = self.truncation.map_or(there, |truncation| {
            truncation.declared.min(there.saturating_mul(16))
        });
        match self.mounted {
            Some(Mounted::Jffs2(_) | Mounted::Squashfs(_) | Mounted::Ubifs(_)) => u64::MAX,
            _ => len
                .saturating_mul(STEP as u64 / HOLE)
                .saturating_add(1 << 20),
        }
    }

    /// The volumes of UBI, if the image has any.
    pub(crate) fn ubi_volumes(&self) -> Option<&[UbiVolume]> {
        self.layers.iter().find_map(|layer| match layer {
            Layer::Ubi { volumes, .. } => Some(&volumes[..]),
            _ => None,
        })
    }

    /// Adds to an error what the file system knows of it.
    pub fn explain(&mut self, error: ImageError) -> ImageError {
        match self.fs() {
            Ok(fs) => error.explained(fs.cause()),
            Err(_) => error,
        }
    }

    /// Ends the mount, with everything in the file.
    pub fn close(&mut self) -> Result<()> {
        match self.fs()?.unmount() {
            Ok(()) => self.keep_fixup(),
            Err(error) => Err(self.explain(ImageError::Call {
                path: Shown::path(b""),
                error,
                why: String::new(),
            })),
        }
    }

    /// A disk with whatever is on it, which may be nothing that is known.
    pub(crate) fn any_disk(
        &mut self,
        mut disk: AnyDisk,
        opening: &Opening,
        access: Access,
    ) -> Result<()> {
        let mut head = vec![0; 8192.min(disk.geometry().bytes() as usize) / 512 * 512];
        disk.read(Lba(0), &mut head)
            .map_err(|error| failed("disk", error))?;
        match detect::disk(&head) {
            Some(kind) => self.disk(disk, kind, opening, access),
            None => Ok(()),
        }
    }

    pub(crate) fn disk(
        &mut self,
        disk: AnyDisk,
        kind: DiskKind,
        opening: &Opening,
        access: Access,
    ) -> Result<()> {
        let disk = match access {
            Access::Read => self.readied(disk, kind, opening)?,
            Access::Write => whole(disk, kind)?,
        };
        let (layer, mounted) = match mount(disk, kind, access == Access::Read) {
            Ok(mounted) => mounted,
            // The layers around it can still be reported.
            Err(why) if opening.salvage => {
                if self.unsupported.is_none() {
                    self.troubles.push(why);
                }
                return Ok(());
            }
            Err(why) => {
                return Err(ImageError::Open {
                    layer: kind.name(),
                    why,
                });
            }
        };
        if let Mounted::F2fs(fs) = &mounted {
            self.unrecovered = fs.unrecovered().map(|error| error.to_string());
        }
        self.layers.push(layer);
        self.mounted = Some(mounted);
        Ok(())
    }

    /// A disk that is only read, with everything in the overlay that a mount needs.
    fn readied(&mut self, disk: AnyDisk, kind: DiskKind, opening: &Opening) -> Result<AnyDisk> {
        let mut disk = self.lengthened(disk, kind);
        if opening.salvage
            && let Err(refusal) = probe(&mut disk, kind)
        {
            let what = copies::restore(&mut disk, kind);
            if refusal.is_feature && (what.is_none() || probe(&mut disk, kind).is_err()) {
                // The copy of the superblock agrees.
                self.unsupported = Some(refusal.why);
                return Ok(disk);
            }
            self.troubles.push(refusal.why);
            if let Some(what) = what {
                self.troubles.push(what);
                // The copy may state another length.
                disk = self.lengthened(disk, kind);
            }
        }
        if kind == DiskKind::Ext && needs_recovery(&mut disk) {
            // Where that fails the volume is shown as it is.
            self.unrecovered = recover(&mut disk, self.truncation).err();
            self.recovered = self.unrecovered.is_none();
        }
        Ok(disk)
    }

    /// A disk that ends before its file system does reads as one that is as long, with nothing
    /// behind its end.
    fn lengthened(&mut self, mut disk: AnyDisk, kind: DiskKind) -> AnyDisk {
        let Some(truncation) = truncated::truncation(&mut disk, kind) else {
            return disk;
        };
        match TruncatedDisk::new(disk, truncation) {
            Ok(disk) => {
                self.troubles.push(truncation.to_string());
                self.truncation = Some(truncation);
                Box::new(disk)
            }
            Err(disk) => disk,
        }
    }
}

/// Refuses to write a truncated file system.
fn whole(mut disk: AnyDisk, kind: DiskKind) -> Result<AnyDisk> {
    if kind == DiskKind::Squashfs {
        let why = "it is a read-only format; extract it, and make a new image with mksquashfs";
        return Err(failed(kind.name(), why));
    }
    match truncated::truncation(&mut disk, kind) {
        Some(truncation) => Err(failed(
            kind.name(),
            format!("{truncation}; extract --salvage takes what is left"),
        )),
        None => Ok(disk),
    }
}

/// Recovers the journal of ext3 or ext4, where all of it is there.
fn recover(disk: &mut AnyDisk, truncation: Option<Truncation>) -> std::result::Result<(), String> {
    if let Some(truncation) = truncation {
        let mut fs = Ext::mount(
            lent(disk),
            nandlab_ext::Options {
                read_only: true,
                ..Default::default()
            },
        )
        .map_err(|error| error.to_string())?;
        let end = fs.journal_end().map_err(|error| error.to_string())?;
        if let Some(end) = end.filter(|end| *end > truncation.there) {
            return Err(format!(
                "it reaches to byte {end}, the image to byte {}",
                truncation.there
            ));
        }
    }
    let mut fs = Ext::mount(lent(disk), nandlab_ext::Options::default())
        .map_err(|error| error.to_string())?;
    fs.unmount().map_err(|error| error.to_string())
}

/// Why something on a disk cannot be mounted.
struct Refusal {
    why: String,
    /// It has a feature that is not understood here.
    is_feature: bool,
}

/// Whether what is on a disk can be mounted.
fn probe(disk: &mut AnyDisk, kind: DiskKind) -> std::result::Result<(), Refusal> {
    let disk = lent(disk);
    let refusal = |error: &dyn std::fmt::Display, is_feature| Refusal {
        why: error.to_string(),
        is_feature,
    };
    match kind {
        DiskKind::Ext => {
            let options = nandlab_ext::Options {
                read_only: true,
                ..Default::default()
            };
            let mounted = Ext::mount(disk, options).map(drop);
            mounted.map_err(|error| refusal(&error, error.is_unsupported()))
        }
        DiskKind::F2fs => {
            let options = nandlab_f2fs::Options {
                read_only: true,
                ..Default::default()
            };
            let mounted = F2fs::mount(disk, options).map(drop);
            mounted.map_err(|error| refusal(&error, matches!(error, F2fsError::Feature { .. })))
        }
        DiskKind::Fat => {
            let options = nandlab_fat::Options {
                read_only: true,
                ..Default::default()
            };
            let mounted = Fat::mount(disk, options).map(drop);
            mounted.map_err(|error| refusal(&error, false))
        }
        DiskKind::Squashfs => {
            let mounted = Squashfs::mount(disk).map(drop);
            mounted.map_err(|error| refusal(&error, matches!(error, SquashError::Feature { .. })))
        }
        DiskKind::Ubifs => Err(refusal(&UBIFS_ON_DISK, false)),
    }
}

/// Why UBIFS is not looked for on disks.
const UBIFS_ON_DISK: &str = "it lies on a disk; expected a volume of UBI, or a file of its own";

/// Mounts what is on a disk.
fn mount(
    disk: AnyDisk,
    kind: DiskKind,
    read_only: bool,
) -> std::result::Result<(Layer, Mounted), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    Ok(match kind {
        DiskKind::Ext => {
            let options = nandlab_ext::Options {
                read_only,
                once: read_only,
                ..Default::default()
            };
            let fs = Ext::mount(disk, options).map_err(|error| words(&error))?;
            let layout = fs.layout();
            let journal = layout.compat & HAS_JOURNAL != 0;
            let unwritten = layout.read_only_features();
            if !read_only && !unwritten.is_empty() {
                let names = unwritten.join(", ");
                return Err(format!("features that are read and not written: {names}"));
            }
            let layer = Layer::Ext {
                ext4: layout.is_ext4(),
                journal,
                block: layout.block,
                blocks: layout.blocks,
                inodes: layout.inodes,
            };
            (layer, Mounted::Ext(Box::new(fs)))
        }
        DiskKind::F2fs => {
            let options = nandlab_f2fs::Options {
                read_only,
                ..Default::default()
            };
            let fs = F2fs::mount(disk, options).map_err(|error| words(&error))?;
            (
                Layer::F2fs {
                    segments: fs.valid_blocks().count() as u32,
                },
                Mounted::F2fs(Box::new(fs)),
            )
        }
        DiskKind::Fat => {
            let options = nandlab_fat::Options {
                read_only,
                once: read_only,
                ..Default::default()
            };
            let fs = Fat::mount(disk, options).map_err(|error| words(&error))?;
            let layout = fs.layout();
            let bits = match layout.bits {
                Bits::Fat12 => 12,
                Bits::Fat16 => 16,
                Bits::Fat32 => 32,
            };
            (
                Layer::Fat {
                    bits,
                    cluster: layout.cluster_bytes(),
                    clusters: layout.clusters,
                },
                Mounted::Fat(Box::new(fs)),
            )
        }
        DiskKind::Squashfs => {
            let fs = Squashfs::mount(disk).map_err(|error| words(&error))?;
            let head = fs.head();
            let layer = Layer::Squashfs {
                compressor: head.compressor.name(),
                block: head.block,
                inodes: head.inodes,
                bytes: head.used,
            };
            (layer, Mounted::Squashfs(Box::new(fs)))
        }
        DiskKind::Ubifs => return Err(UBIFS_ON_DISK.into()),
    })
}

/// Whether the superblock says that the journal holds what is not in its place yet.
fn needs_recovery(disk: &mut AnyDisk) -> bool {
    let mut head = [0; 2048];
    disk.read(Lba(0), &mut head).is_ok() && head[1024 + 96] & 4 != 0
}

/// The bit among ext's compatible features.
const HAS_JOURNAL: u32 = 4;

/// As options and results call a layout.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Raw => "raw",
        Layout::MarkerOnly => "marker-only",
        Layout::LinuxSmallPage => "linux-small-page",
        Layout::LinuxLargePage64 => "linux-large-page-64",
        Layout::LinuxLargePage128 => "linux-large-page-128",
        Layout::LinuxLargePageEnd { .. } => "linux-large-page-end",
        Layout::DiskOnChip => "disk-on-chip",
    }
}
