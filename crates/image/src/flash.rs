//! Opens what lies on flash: JFFS2, NFTL, and UBI with the contents of its volumes.
//!
//! *Promises.* Those of [`Volume`]. UBI is attached as it is, by its log where it has one; where
//! that fails, on request, it is [put together](crate::ubi) from its blocks. *Knows nothing of*
//! disks.

use crate::detect::{self, DiskKind, FlashKind};
use crate::error::{ImageError, Result};
use crate::overlay::Overlay;
use crate::ubi::{BLOCKS_ADDED_MAX, Survey};
use crate::volume::{
    Access, AnyDisk, AnyMtd, Layer, Mounted, Opening, UbiVolume, Volume, failed, layout_name,
};
use nandlab_block::{BlockDevice as _, Image as Disk};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions};
use nandlab_ftl::media;
use nandlab_ftl::nftl::{Nftl, NftlOptions};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_jffs2::{Endian, Jffs2, Medium};
use nandlab_mtd::{Image, ImageFormat, Layout, Mtd, Page};
use nandlab_sim::Backing as _;
use nandlab_ubi::format::VolumeKind;
use nandlab_ubi::{Headers, LogOptions, Memory, Options, Ubi, UbiError, VolumeDisk, VolumeMtd};
use nandlab_ubifs::{Bare, UbiLebs};

/// Blocks without which JFFS2 is not mounted; a shorter image gets erased ones behind it.
const JFFS2_BLOCKS_MIN: u64 = 5;
/// Blocks for UBI's own work.
const UBI_BLOCKS_SPARE: u64 = 8;
/// Times that UBI is attached with more blocks.
const UBI_ATTEMPTS: u32 = 8;
/// Bytes of a volume in which the beginning of a file system is looked for.
const HEAD: usize = 64 << 10;

/// The magic number of UBIFS's nodes.
const UBIFS_NODE: [u8; 4] = 0x0610_1831u32.to_le_bytes();

/// What a volume begins with.
pub(crate) enum Inside {
    Disk(DiskKind),
    Jffs2(Endian),
    Ubifs,
}

fn ubi_options(vid: u32, log: bool) -> Options {
    let headers = if vid == 0 {
        Headers::None
    } else {
        Headers::At(vid)
    };
    let memory = if log {
        Memory::Log(LogOptions::default())
    } else {
        Memory::Scan
    };
    Options {
        headers,
        memory,
        ..Options::default()
    }
}

impl Volume {
    pub(crate) fn open_flash(
        &mut self,
        format: ImageFormat,
        kind: FlashKind,
        opening: &Opening,
        access: Access,
    ) -> Result<()> {
        let found = self.place.raw()?.len();
        let block = format.bytes(1);
        let least = if matches!(kind, FlashKind::Jffs2 { .. }) {
            JFFS2_BLOCKS_MIN
        } else {
            1
        };
        // An image may end where its last node does.
        let mut len = found.div_ceil(block).max(least) * block;
        if let FlashKind::Ubi { vid, log: false } = kind {
            len += self.ubi_missing_blocks(format, vid, access, len)? * block;
        }
        let mut medium = self.medium(format, access, len)?;
        let geometry = medium.geometry().clone();
        let bad = (0..geometry.blocks)
            .filter(|block| medium.is_bad(nandlab_mtd::Block(*block)) == Ok(true))
            .collect();
        self.layers.push(Layer::Flash {
            page: format.page,
            oob: format.oob,
            block: geometry.block_bytes(),
            blocks: found.div_ceil(block) as u32,
            oob_layout: (format.oob > 0).then(|| layout_name(format.layout)),
            ecc: format.ecc.map(|code| code.to_string()),
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
                let raw_page = u64::from(format.page + format.oob);
                let end = found * u64::from(format.page) / raw_page;
                self.jffs2(medium, endian, (kept, Some(end)), access)
            }
            FlashKind::Ubi { vid, log } => self.ubi(medium, (vid, log), opening, access),
            FlashKind::Nftl => {
                let disk = Nftl::attach(medium, NftlOptions::default())
                    .map_err(|error| failed("NFTL", error))?;
                self.layers.push(Layer::Nftl {
                    bytes: disk.geometry().bytes(),
                });
                self.any_disk(Box::new(disk), opening, access)
            }
            FlashKind::PageMap => {
                let disk = PageFtl::attach(medium, PageOptions::default())
                    .map_err(|error| failed("page mapping", error))?;
                self.translated("page mapping", Box::new(disk), opening, access)
            }
            FlashKind::LogBlock => {
                let options = log_block_options(&mut *medium)?;
                let disk = LogBlockFtl::attach(medium, options)
                    .map_err(|error| failed("log blocks", error))?;
                self.translated("log blocks", Box::new(disk), opening, access)
            }
        }
    }

    /// A translation layer of this project. Its disk is only read: to write it would be to choose
    /// options that the medium does not state.
    fn translated(
        &mut self,
        name: &'static str,
        disk: AnyDisk,
        opening: &Opening,
        access: Access,
    ) -> Result<()> {
        if access == Access::Write {
            return Err(failed(
                name,
                "nandlab image only reads it; a stack writes it",
            ));
        }
        let bytes = disk.geometry().bytes();
        self.layers.push(Layer::Translation { name, bytes });
        self.any_disk(disk, opening, access)
    }

    fn medium(&self, format: ImageFormat, access: Access, len: u64) -> Result<AnyMtd> {
        let medium = Image::new(self.place.open(access, len)?, format)
            .map_err(|error| failed("flash", error))?;
        Ok(Box::new(medium))
    }

    /// The flash below, opened once more for reading, without blocks that are not in the image.
    pub(crate) fn flash_again(&self, format: ImageFormat) -> Result<AnyMtd> {
        let len = self.place.raw()?.len().div_ceil(format.bytes(1)) * format.bytes(1);
        self.medium(format, Access::Read, len)
    }

    /// The same, where there is flash.
    pub(crate) fn flash(&self) -> Result<AnyMtd> {
        match self.detected {
            detect::Detected::Flash(format, _) => self.flash_again(format),
            detect::Detected::Disk(_) => Err(failed("flash", "a disk")),
        }
    }

    /// UBI once more, attached.
    pub(crate) fn attached(&self) -> Result<Ubi<AnyMtd>> {
        match self.detected {
            detect::Detected::Flash(_, FlashKind::Ubi { vid, log }) => {
                Ubi::attach(self.flash()?, ubi_options(vid, log))
                    .map_err(|error| failed("UBI", error))
            }
            _ => Err(failed("UBI", "something else")),
        }
    }

    pub(crate) fn has_ubi_log(&self) -> bool {
        let detect::Detected::Flash(_, kind) = self.detected else {
            return false;
        };
        matches!(kind, FlashKind::Ubi { log: true, .. })
    }

    /// What the headers of UBI's blocks say; nothing where there are none.
    pub fn survey(&self, until: Option<u64>) -> Result<Option<Survey>> {
        match self.detected {
            detect::Detected::Flash(_, FlashKind::Ubi { vid, .. }) if vid > 0 => {
                Survey::read(&mut *self.flash()?, vid, until).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Erased blocks without which the volumes that an image promises do not fit: it may be shorter
    /// than the flash that it is meant for.
    fn ubi_missing_blocks(
        &self,
        format: ImageFormat,
        vid: u32,
        access: Access,
        len: u64,
    ) -> Result<u64> {
        let mut missing = 0;
        let blocks = len / format.bytes(1);
        // In an overlay, whatever is to come. First each volume must fit, then all of them.
        for _ in 0..UBI_ATTEMPTS {
            let medium = self.medium(format, Access::Read, len + missing * format.bytes(1))?;
            missing += match Ubi::attach(medium, ubi_options(vid, false)) {
                Err(UbiError::NoSpace { needed, available }) => {
                    u64::from(needed.saturating_sub(available)) + UBI_BLOCKS_SPARE
                }
                Err(UbiError::Refused { error, .. }) if error.field == "reserved blocks" => {
                    error.found.saturating_sub(blocks + missing)
                }
                _ => break,
            };
            if missing > BLOCKS_ADDED_MAX {
                return Ok(0);
            }
        }
        if access == Access::Write && missing > 0 {
            self.place.extend(len, format.bytes(1), missing)?;
        }
        Ok(missing)
    }

    fn jffs2(
        &mut self,
        medium: AnyMtd,
        endian: Endian,
        (kept, end): (Medium, Option<u64>),
        access: Access,
    ) -> Result<()> {
        let options = nandlab_jffs2::Options {
            medium: Some(kept),
            end: end.and_then(|end| u32::try_from(end).ok()),
            endian: Some(endian),
            read_only: access == Access::Read,
            ..nandlab_jffs2::Options::default()
        };
        let fs = Jffs2::mount(medium, options).map_err(|error| failed("JFFS2", error))?;
        self.layers.push(Layer::Jffs2 {
            endian: if endian == Endian::Little {
                "little"
            } else {
                "big"
            },
            medium: match kept {
                Medium::Nor => "nor",
                Medium::Nand => "nand",
                Medium::Unmarked => "unmarked",
            },
        });
        self.mounted = Some(Mounted::Jffs2(Box::new(fs)));
        Ok(())
    }

    fn ubi(
        &mut self,
        medium: AnyMtd,
        (vid, log): (u32, bool),
        opening: &Opening,
        access: Access,
    ) -> Result<()> {
        let by_blocks = access == Access::Read && vid > 0;
        if opening.until.is_some() && by_blocks {
            return self.surveyed(vid, opening);
        }
        let mut ubi = match Ubi::attach(medium, ubi_options(vid, log)) {
            Ok(ubi) => ubi,
            Err(error) if opening.salvage && by_blocks => {
                self.troubles
                    .push(format!("UBI: {error}: put together from its blocks"));
                return self.surveyed(vid, opening);
            }
            Err(error) => return Err(failed("UBI", error)),
        };
        let info = ubi.info();
        let mut volumes = Vec::new();
        let mut insides = Vec::new();
        for volume in ubi.volumes() {
            let mut head = vec![0; (volume.leb_bytes as usize).min(HEAD)];
            let read = ubi.read(volume.id, 0, 0, &mut head);
            let (holds, inside) = if read.is_ok() || opening.salvage {
                look_into(&head)
            } else {
                (None, None)
            };
            let begins = |lnum: u32, first: &mut [u8]| {
                lnum < volume.record.reserved && ubi.read(volume.id, lnum, 0, first).is_ok()
            };
            let (holds, inside) = match inside {
                None if opening.salvage => headless(begins).unwrap_or((holds, None)),
                _ => (holds, inside),
            };
            insides.push(inside);
            volumes.push(UbiVolume {
                id: volume.id,
                name: volume.record.name.clone(),
                kind: kind_name(volume.record.kind),
                lebs: (volume.record.reserved, volume.mapped),
                bytes: volume.used_bytes,
                corrupted: volume.corrupted,
                holds,
            });
        }
        let leb = info.shape.leb_bytes;
        let erases = (info.erases[0], info.erases[2]);
        let chosen = choose(&volumes, insides, opening)?;
        self.layers.push(Layer::Ubi {
            leb,
            image_seq: info.image_seq,
            erases,
            log,
            volumes,
        });
        let Some((id, inside)) = chosen else {
            return Ok(());
        };
        self.looked_into = Some(id);
        match inside {
            Inside::Disk(disk_kind) => {
                let dynamic = ubi
                    .volume(id)
                    .is_ok_and(|volume| volume.record.kind == VolumeKind::Dynamic);
                // For reading, too: a journal is recovered in the overlay below. squashfs lies over
                // the bytes of all blocks, which need not be whole sectors.
                let disk = if dynamic && disk_kind != DiskKind::Squashfs {
                    VolumeDisk::new(ubi, id)
                } else {
                    VolumeDisk::read_only(ubi, id)
                };
                self.disk(
                    Box::new(disk.map_err(|error| failed("UBI", error))?),
                    disk_kind,
                    opening,
                    access,
                )
            }
            Inside::Ubifs => {
                let lebs = UbiLebs::new(ubi, id).map_err(|error| failed("UBI", error))?;
                self.ubifs(Box::new(lebs), opening, access)
            }
            Inside::Jffs2(endian) => {
                let medium = VolumeMtd::new(ubi, id).map_err(|error| failed("UBI", error))?;
                self.jffs2(Box::new(medium), endian, (Medium::Unmarked, None), access)
            }
        }
    }

    /// Volumes by their blocks' headers alone.
    fn surveyed(&mut self, vid: u32, opening: &Opening) -> Result<()> {
        let detect::Detected::Flash(format, _) = self.detected else {
            return Ok(());
        };
        let mut medium = self.flash_again(format)?;
        let survey = Survey::read(&mut *medium, vid, opening.until)?;
        let mut volumes = Vec::new();
        let mut insides = Vec::new();
        for (id, record) in &survey.volumes {
            let Some(mut bytes) = survey.assemble(&mut medium, *id) else {
                continue;
            };
            let mut head = vec![0; (bytes.len() as usize).min(HEAD)];
            let (holds, inside) = if bytes.read_at(0, &mut head).is_ok() {
                look_into(&head)
            } else {
                (None, None)
            };
            let leb = u64::from(bytes.leb_bytes());
            let begins =
                |lnum: u32, first: &mut [u8]| bytes.read_at(u64::from(lnum) * leb, first).is_ok();
            let (holds, inside) = match inside {
                None if opening.salvage => headless(begins).unwrap_or((holds, None)),
                _ => (holds, inside),
            };
            insides.push(inside);
            let mapped = survey.mapped(*id);
            volumes.push(UbiVolume {
                id: *id,
                name: record.name.clone(),
                kind: kind_name(record.kind),
                lebs: (record.reserved, mapped),
                bytes: bytes.len(),
                corrupted: record.kind == VolumeKind::Static
                    && bytes.len().div_ceil(bytes.leb_bytes().into()) > mapped.into(),
                holds,
            });
        }
        let chosen = choose(&volumes, insides, opening)?;
        let leb = survey.shape.leb_bytes;
        let image_seq = survey.image_seq;
        let erases = survey.erases;
        self.layers.push(Layer::Ubi {
            leb,
            image_seq,
            erases,
            log: false,
            volumes,
        });
        let Some((id, inside)) = chosen else {
            return Ok(());
        };
        self.looked_into = Some(id);
        let Some(bytes) = survey.assemble(medium, id) else {
            return Ok(());
        };
        let leb = bytes.leb_bytes();
        match inside {
            Inside::Disk(kind) => {
                let len = bytes.len();
                let bytes = match kind {
                    DiskKind::Squashfs => Overlay::new(bytes, len.next_multiple_of(512)),
                    _ => Overlay::cut(bytes, len / 512 * 512),
                };
                let disk = Disk::new(bytes, 512).map_err(|error| failed("disk", error))?;
                self.disk(Box::new(disk), kind, opening, Access::Read)
            }
            Inside::Ubifs => {
                let held = u32::try_from(bytes.lebs_held()).unwrap_or(u32::MAX);
                let lebs = Bare::with(bytes, leb, 0).holding(held);
                self.ubifs(Box::new(lebs), opening, Access::Read)
            }
            Inside::Jffs2(endian) => {
                let page = format.page;
                let shape = ImageFormat {
                    page,
                    oob: 0,
                    pages_per_block: (leb / page).max(1),
                    layout: Layout::Raw,
                    ecc: None,
                };
                let lebs = bytes.lebs_held();
                let most = survey.lebs_max();
                if lebs > most {
                    self.troubles.push(format!(
                        "JFFS2 in volume {id}: found logical block {}, expected less than {most}",
                        lebs - 1
                    ));
                    return Ok(());
                }
                let held = (lebs * u64::from(leb)).min(bytes.len());
                let len = held.div_ceil(shape.bytes(1)).max(JFFS2_BLOCKS_MIN) * shape.bytes(1);
                let medium = Image::new(
                    if len < bytes.len() {
                        Overlay::cut(bytes, len)
                    } else {
                        Overlay::new(bytes, len)
                    },
                    shape,
                )
                .map_err(|error| failed("flash", error))?;
                self.jffs2(
                    Box::new(medium),
                    endian,
                    (Medium::Unmarked, Some(held)),
                    Access::Read,
                )
            }
        }
    }
}

/// What the medium of a log-block layer says of it, in the first pages of one of its blocks.
fn log_block_options(medium: &mut dyn Mtd) -> Result<LogBlockOptions> {
    let geometry = medium.geometry().clone();
    let mut data = vec![0; geometry.page as usize];
    let first = (0..geometry.blocks).map(|block| geometry.page_at(nandlab_mtd::Block(block), 0));
    for page in first.flat_map(|page| [page, Page(page.0 + 1)]) {
        if page.0 < geometry.pages()
            && medium.read(page, &mut data, &mut []).is_ok()
            && let Some(media::Layer::LogBlock(options)) =
                media::recognise(&data).map(|medium| medium.layer)
        {
            return Ok(options);
        }
    }
    Err(failed("log blocks", "no anchor page is whole"))
}

fn kind_name(kind: VolumeKind) -> &'static str {
    if kind == VolumeKind::Static {
        "static"
    } else {
        "dynamic"
    }
}

/// Whether a volume is called that, by name or number.
pub(crate) fn is_called(volume: &UbiVolume, wanted: &str) -> bool {
    volume.name == wanted || volume.id.to_string() == wanted
}

/// The volume to look into: the one that was asked for, or the first in which there is a file
/// system.
fn choose(
    volumes: &[UbiVolume],
    insides: Vec<Option<Inside>>,
    opening: &Opening,
) -> Result<Option<(u32, Inside)>> {
    let mut pairs = volumes.iter().zip(insides);
    let Some(wanted) = &opening.volume else {
        return Ok(pairs.find_map(|(volume, inside)| Some((volume.id, inside?))));
    };
    match pairs.find(|(volume, _)| is_called(volume, wanted)) {
        Some((volume, inside)) => Ok(inside.map(|inside| (volume.id, inside))),
        None => Err(no_volume(volumes, wanted)),
    }
}

pub(crate) fn no_volume(volumes: &[UbiVolume], wanted: &str) -> ImageError {
    let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    ImageError::Choice {
        what: "volume",
        found: wanted.into(),
        expected: format!("one of {}", names.join(", ")),
    }
}

/// The contents of a volume, as a word and as a file system to look into.
type Contents = (Option<&'static str>, Option<Inside>);

/// A UBIFS without a superblock: one of the next blocks begins with a node.
fn headless(mut begins: impl FnMut(u32, &mut [u8]) -> bool) -> Option<Contents> {
    const LOOKED_AT: u32 = 64;
    let mut first = [0; 4];
    let is_node = |lnum| begins(lnum, &mut first) && first == UBIFS_NODE;
    (1..LOOKED_AT)
        .any(is_node)
        .then_some((Some("UBIFS"), Some(Inside::Ubifs)))
}

/// What a volume begins with.
fn look_into(head: &[u8]) -> Contents {
    if head.starts_with(&UBIFS_NODE) {
        return (Some("UBIFS"), Some(Inside::Ubifs));
    }
    if let Some(kind) = detect::disk(head) {
        return (Some(kind.name()), Some(Inside::Disk(kind)));
    }
    if head.starts_with(b"hsqs") || head.starts_with(b"sqsh") {
        return (Some("squashfs before version 4"), None);
    }
    let endian = [Endian::Little, Endian::Big]
        .into_iter()
        .find(|endian| nandlab_jffs2::survey(*endian, head).any(|node| node.sound));
    match endian {
        Some(endian) => (Some("JFFS2"), Some(Inside::Jffs2(endian))),
        None => (None, None),
    }
}
