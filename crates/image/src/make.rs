//! Images made from trees.
//!
//! *Promises.* The same tree and choices give the same bytes, whatever the order of the tree's
//! entries, the number of threads and the clock. Nothing is at the target's path before the image
//! is whole. Memory holds the list of entries and a few MiB of contents. *Knows nothing of* where
//! the tree comes from.

use crate::error::{ImageError, Result};
use crate::file::ImageFile;
use crate::limits::{self, Limits};
use crate::lock::Lock;
use crate::parallel;
use crate::target::{Jffs2Target, Target, UbifsTarget, Volume};
use crate::tree::{Data, Node, Tree};
use crate::ubifs::unmade;
use crate::volume::AnyDisk;
use crate::walk::Losses;
use nandlab_block::Image as Disk;
use nandlab_jffs2::{Compression, Medium};
use nandlab_mtd::{Image, ImageFormat, Layout, Mtd};
use nandlab_scratch::beside;
use nandlab_vfs::{Errno, FileSystem, Time};
use std::fs::File;
use std::path::Path;

/// Bytes of a file that are prepared at once: whole pages of every format.
const SPAN: u64 = 256 * 1024;
/// Batches of parts that are under way, and the most parts of one.
const WINDOW: usize = 24;
const BATCH: usize = 64;
const MIB: u64 = 1 << 20;

/// The format of the image to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// JFFS2 on flash of this shape.
    Jffs2 {
        /// What is done to data, byte order, medium.
        choices: nandlab_jffs2::Format,
        /// Bytes of a page and of its spare area in the image, and pages of a block.
        shape: ImageFormat,
    },
    /// ext2, or ext3 with [`nandlab_ext::Format::journal`], or ext4 with
    /// [`nandlab_ext::Format::ext4`].
    Ext(nandlab_ext::Format),
    /// An image of F2FS.
    F2fs(nandlab_f2fs::Format),
    /// FAT12, FAT16 or FAT32.
    Fat(nandlab_fat::Format),
    /// UBIFS as the bytes of a UBI volume.
    Ubifs {
        /// The format, compressor, and how far it may grow.
        choices: nandlab_ubifs::Format,
        /// Bytes of a logical block.
        leb: u32,
        /// The first mount that may write erases the free space, as with `mkfs.ubifs -F`.
        fixup: bool,
    },
}

impl Format {
    /// JFFS2 as mkfs.jffs2 makes it for NOR flash.
    pub fn jffs2(block: u32, compression: Compression) -> Self {
        let page = nor_page(block.into());
        let shape = ImageFormat {
            page,
            oob: 0,
            pages_per_block: block / page,
            layout: Layout::Raw,
            ecc: None,
        };
        let choices = nandlab_jffs2::Format {
            medium: Some(Medium::Nor),
            compression,
            summary: false,
            ..nandlab_jffs2::Format::default()
        };
        Self::Jffs2 { choices, shape }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Jffs2 { .. } => "JFFS2",
            Self::Ext(choices) if choices.ext4 => "ext4",
            Self::Ext(choices) if choices.journal => "ext3",
            Self::Ext(_) => "ext2",
            Self::F2fs(_) => "F2FS",
            Self::Fat(_) => "FAT",
            Self::Ubifs { .. } => "UBIFS",
        }
    }

    /// What it can hold.
    pub fn limits(&self) -> &'static Limits {
        match self {
            Self::Jffs2 { .. } => &limits::JFFS2,
            Self::Ext(_) => &limits::EXT,
            Self::F2fs(_) => &limits::F2FS,
            Self::Fat(_) => &limits::FAT,
            Self::Ubifs { .. } => &limits::UBIFS,
        }
    }

    /// Bytes that a tree needs at most, roughly: the first size that is tried.
    pub(crate) fn bytes(&self, tree: &Tree) -> u64 {
        let up = |unit: u64| {
            tree.entries
                .iter()
                .map(move |(entry, _)| entry.size().div_ceil(unit) * unit)
                .sum::<u64>()
        };
        let attributes: u64 = tree
            .entries
            .iter()
            .flat_map(|(entry, _)| &entry.xattrs)
            .map(|(name, value)| (name.len() + value.len()) as u64)
            .sum();
        let count = tree.entries.len() as u64;
        match self {
            Self::Jffs2 { shape, .. } => {
                let block = u64::from(shape.page) * u64::from(shape.pages_per_block);
                let nodes: u64 = tree
                    .entries
                    .iter()
                    .map(|(entry, _)| {
                        260 + 2 * entry.name().len() as u64 + entry.size().div_ceil(4096) * 72
                    })
                    .sum();
                ((up(4) + nodes + 2 * attributes) * 106 / 100).div_ceil(block) * block + 12 * block
            }
            Self::Ext(choices) => {
                let journal = if choices.journal { 20 * MIB } else { 0 };
                ((up(4096) + count * 640 + 4 * attributes) * 112 / 100 + journal + 2 * MIB)
                    .next_multiple_of(MIB)
            }
            Self::F2fs(_) => ((up(4096) + count * 4400 + attributes) * 115 / 100 + 56 * MIB)
                .next_multiple_of(2 * MIB),
            Self::Ubifs { leb, .. } => {
                let nodes = up(8) + count * 700 + 4 * attributes;
                (nodes * 110 / 100).next_multiple_of((*leb).into()) + 24 * u64::from(*leb)
            }
            Self::Fat(_) => {
                ((up(32 * 1024).min(up(4096) + count * 2048) + count * 256) * 106 / 100 + 2 * MIB)
                    .next_multiple_of(MIB)
            }
        }
    }
}

/// Logical blocks to try again with, if the log and the properties tree take much of a UBIFS image.
/// They are as long as a guess of its length asks for, and holes are part of that guess.
fn tighter_lebs(here: &nandlab_ubifs::format::Geometry) -> Option<u32> {
    let main = here.main_lebs();
    (here.main_first() > 24 + main / 8).then_some(main + main / 8 + 40)
}

/// Bytes that are programmed at once where any number can be: many, since each time costs.
pub fn nor_page(block: u64) -> u32 {
    if block.is_multiple_of(4096) {
        4096
    } else {
        256
    }
}

/// How an image is made.
pub struct Making<'a> {
    /// The format and its settings.
    pub format: Format,
    /// Bytes of the image; without, as many as it takes.
    pub size: Option<u64>,
    /// What the format cannot hold is left out and listed, not an error.
    pub lossy: bool,
    /// Threads that prepare contents.
    pub threads: usize,
    /// Called with the bytes of contents that have been put in place.
    pub progress: &'a mut dyn FnMut(u64),
}

impl std::fmt::Debug for Making<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Making")
            .field("format", &self.format)
            .field("size", &self.size)
            .field("lossy", &self.lossy)
            .finish_non_exhaustive()
    }
}

/// Counts of a finished image.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Made {
    /// Bytes of the image.
    pub bytes: u64,
    /// Entries that the image holds.
    pub entries: usize,
    /// What it does not hold.
    pub losses: Losses,
}

/// Makes an image of an ordered tree at `to`.
pub fn make(mut tree: Tree, mut making: Making<'_>, to: &Path) -> Result<Made> {
    let losses = making.format.limits().fit(&mut tree, making.lossy)?;
    let _lock = Lock::target(to)?;
    let scratch = beside(to)?;
    let made = making.fill(&tree, scratch.as_file(), to)?.after(losses);
    scratch.persist(to)?;
    Ok(made)
}

/// Makes an image of an ordered tree in an empty file. Errors call the file `name`.
pub(crate) fn make_in(
    file: &File,
    name: &Path,
    mut tree: Tree,
    mut making: Making<'_>,
) -> Result<Made> {
    let losses = making.format.limits().fit(&mut tree, making.lossy)?;
    Ok(making.fill(&tree, file, name)?.after(losses))
}

impl Made {
    /// The same with earlier losses before its own.
    fn after(mut self, earlier: Losses) -> Self {
        self.losses.list.splice(0..0, earlier.list);
        self.losses.more += earlier.more;
        self
    }
}

impl Making<'_> {
    fn fill(&mut self, tree: &Tree, file: &File, to: &Path) -> Result<Made> {
        let mut bytes = self.size.unwrap_or_else(|| self.format.bytes(tree));
        for attempt in 0.. {
            match self.attempt(tree, file, to, bytes) {
                // The estimate was too low.
                Err(error) if attempt < 8 && self.size.is_none() && is_full(&error) => {
                    bytes = (bytes + bytes / 3).next_multiple_of(4 * MIB)
                }
                outcome => return outcome,
            }
        }
        Ok(Made::default())
    }

    fn attempt(&mut self, tree: &Tree, file: &File, to: &Path, bytes: u64) -> Result<Made> {
        let failed = |error| ImageError::File {
            path: to.into(),
            error,
        };
        let file = file.try_clone().map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        let (bytes, losses) = match self.format.clone() {
            Format::Jffs2 { choices, shape } => (
                self.jffs2(tree, file, to, bytes, (choices, shape))?,
                Losses::default(),
            ),
            Format::Ubifs {
                choices,
                leb,
                fixup,
            } => self.ubifs(tree, file, to, bytes, (choices, leb, fixup))?,
            format => {
                let disk = Disk::new(ImageFile::empty(file, bytes).map_err(failed)?, 512);
                let disk = disk.map_err(|error| ImageError::Make {
                    format: format.name(),
                    why: error.to_string(),
                })?;
                (bytes, self.disk(tree, Box::new(disk), format, bytes)?)
            }
        };
        Ok(Made {
            bytes,
            entries: tree.entries.len(),
            losses,
        })
    }

    fn jffs2(
        &mut self,
        tree: &Tree,
        file: File,
        to: &Path,
        bytes: u64,
        what: (nandlab_jffs2::Format, ImageFormat),
    ) -> Result<u64> {
        let (choices, shape) = what;
        let failed = |error| ImageError::File {
            path: to.into(),
            error,
        };
        let refused = |why: String| ImageError::Make {
            format: "JFFS2",
            why,
        };
        let block = u64::from(shape.page) * u64::from(shape.pages_per_block);
        // The format's places are 32 bits; what is left empty is cut off.
        let blocks = if self.size.is_some() {
            bytes / block
        } else {
            (bytes.min(0xFFFF_FFFF) / block).max(5)
        };
        if self.size.is_some_and(|size| !size.is_multiple_of(block)) {
            return Err(refused(format!(
                "size of {bytes} bytes, expected whole blocks of {block}"
            )));
        }
        let raw = shape.bytes(blocks as u32);
        let mut medium = Image::new(ImageFile::blank(file, raw).map_err(failed)?, shape)
            .map_err(|error| refused(error.to_string()))?;
        let mut target = Jffs2Target::new(Box::new(&mut medium) as Box<dyn Mtd + '_>, &choices)?;
        self.feed(tree, &mut target)?;
        let (_, used) = target.finish()?;
        let bytes = if self.size.is_some() {
            raw
        } else {
            shape.bytes(used)
        };
        medium.into_backing().finish(bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn ubifs(
        &mut self,
        tree: &Tree,
        file: File,
        to: &Path,
        bytes: u64,
        (wanted, leb, fixup): (nandlab_ubifs::Format, u32, bool),
    ) -> Result<(u64, Losses)> {
        let mut choices = wanted;
        let is_guessed = self.size.is_none() && choices.lebs_max.is_none();
        let failed = |error| ImageError::File {
            path: to.into(),
            error,
        };
        let whole = leb > 0 && bytes.is_multiple_of(leb.into());
        if self.size.is_some() && !whole {
            return Err(ImageError::Make {
                format: "UBIFS",
                why: format!("size of {bytes} bytes, expected whole logical blocks of {leb}"),
            });
        }
        let lebs = bytes.div_ceil(u64::from(leb).max(1)) as u32;
        let bytes = u64::from(lebs) * u64::from(leb);
        // Most volumes are larger than the images that they get.
        choices.lebs_max = choices.lebs_max.or(self.size.is_none().then_some(8 * lebs));
        let medium = ImageFile::blank(file, bytes).map_err(failed)?;
        let blank = nandlab_ubifs::Bare::with(medium, leb, lebs);
        let blank = nandlab_ubifs::format(blank, &choices).map_err(unmade)?;
        let fs = nandlab_ubifs::Ubifs::mount_writable(blank).map_err(unmade)?;
        let (mut fs, losses) = self.fill_ubifs(tree, fs, fixup)?;
        let bytes = match self.size {
            Some(_) => fs.settle().map(|()| bytes),
            None => fs.shorten().map(|lebs| u64::from(leb) * u64::from(lebs)),
        };
        let bytes = bytes.map_err(unmade)?;
        let here = fs.head().geometry;
        let file = fs.into_lebs().into_bytes().finish(bytes).map_err(failed)?;
        let tighter = tighter_lebs(&here).filter(|tighter| *tighter < lebs / 2);
        match tighter.filter(|_| is_guessed) {
            Some(tighter) => {
                let bytes = u64::from(tighter) * u64::from(leb);
                file.set_len(0).map_err(failed)?;
                self.ubifs(tree, file, to, bytes, (wanted, leb, fixup))
            }
            None => Ok((bytes, losses)),
        }
    }

    /// Puts a tree into an empty volume, and unmounts it.
    pub(crate) fn fill_ubifs<L: nandlab_ubifs::Lebs>(
        &mut self,
        tree: &Tree,
        fs: nandlab_ubifs::Ubifs<L>,
        fixup: bool,
    ) -> Result<(nandlab_ubifs::Ubifs<L>, Losses)> {
        let mut target = UbifsTarget::new(fs, self.lossy);
        self.feed(tree, &mut target)?;
        let (mut fs, losses) = target.finish()?;
        if fixup {
            fs.require_fixup().map_err(unmade)?;
        }
        Ok((fs, losses))
    }

    fn disk(
        &mut self,
        tree: &Tree,
        mut disk: AnyDisk,
        format: Format,
        bytes: u64,
    ) -> Result<Losses> {
        let name = format.name();
        let refused = |why: String| ImageError::Make { format: name, why };
        match format {
            Format::Ext(mut choices) => {
                choices.inode_ratio = choices
                    .inode_ratio
                    .or_else(|| ratio(tree.entries.len() as u64, bytes));
                nandlab_ext::format(&mut disk, &choices)
                    .map_err(|error| refused(error.to_string()))?;
                let options = nandlab_ext::Options {
                    mode: nandlab_ext::Mode::Unjournaled,
                    barriers: false,
                    once: true,
                    ..Default::default()
                };
                let fs = nandlab_ext::Ext::mount(disk, options)
                    .map_err(|error| refused(error.to_string()))?;
                self.volume(tree, Box::new(fs))
            }
            Format::F2fs(choices) => {
                nandlab_f2fs::format(&mut disk, &choices).map_err(|error| {
                    too_small(
                        name,
                        &error.to_string(),
                        matches!(error, nandlab_f2fs::FormatError::Size { .. }),
                    )
                })?;
                let options = nandlab_f2fs::Options {
                    ordered: false,
                    ..Default::default()
                };
                let fs = nandlab_f2fs::F2fs::mount(disk, options)
                    .map_err(|error| refused(error.to_string()))?;
                self.volume(tree, Box::new(fs))
            }
            Format::Fat(choices) => {
                nandlab_fat::format(&mut disk, &choices)
                    .map_err(|error| refused(error.to_string()))?;
                let options = nandlab_fat::Options {
                    barriers: false,
                    once: true,
                    ..Default::default()
                };
                let fs = nandlab_fat::Fat::mount(disk, options)
                    .map_err(|error| refused(error.to_string()))?;
                self.volume(tree, Box::new(fs))
            }
            Format::Jffs2 { .. } | Format::Ubifs { .. } => {
                Err(refused("a format of flash on a disk".into()))
            }
        }
    }

    fn volume(&mut self, tree: &Tree, fs: Box<dyn FileSystem>) -> Result<Losses> {
        let mut target = Volume::new(fs, self.lossy);
        self.feed(tree, &mut target)?;
        target.finish().map(|(_, losses)| losses)
    }

    /// Contents are read and prepared on some threads and put in place on this one.
    fn feed<T: Target>(&mut self, tree: &Tree, target: &mut T) -> Result<()> {
        let prepare = target.prepare();
        let one = |own: &mut T::Scratch, job: Job| {
            let Some((at, len)) = job.span else {
                return (job.entry, Ok(None));
            };
            let read = tree.entries[job.entry].1.part(at, len as usize);
            (
                job.entry,
                read.map(|bytes| Some((len, prepare(own, at, bytes)))),
            )
        };
        let work = |own: &mut T::Scratch, batch: Vec<Job>| {
            batch
                .into_iter()
                .map(|job| one(own, job))
                .collect::<Vec<_>>()
        };
        parallel::in_order(
            self.threads,
            WINDOW,
            batches(jobs(tree)),
            T::scratch,
            work,
            |batch| {
                batch
                    .into_iter()
                    .try_for_each(|(entry, prepared)| match prepared? {
                        None => target.entry(&tree.entries[entry].0),
                        Some((len, part)) => {
                            target.part(part)?;
                            (self.progress)(len);
                            Ok(())
                        }
                    })
            },
        )
    }
}

/// An entry, or a part of its contents.
struct Job {
    entry: usize,
    span: Option<(u64, u64)>,
}

fn jobs(tree: &Tree) -> impl Iterator<Item = Job> + Send + '_ {
    tree.entries
        .iter()
        .enumerate()
        .flat_map(|(number, (entry, data))| {
            let size = if let Node::File { size } = entry.node {
                size
            } else {
                0
            };
            let parts = spans(size, data).map(move |span| Job {
                entry: number,
                span: Some(span),
            });
            std::iter::once(Job {
                entry: number,
                span: None,
            })
            .chain(parts)
        })
}

/// Place and length of the parts of a file that are prepared: those in which anything but zeros may
/// be, and the last, which says how long the file is. Holes need no work, whatever their length.
fn spans(size: u64, data: &Data) -> impl Iterator<Item = (u64, u64)> + Send + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let last = size.checked_sub(1).filter(|_| at < size)?;
        let from = data.next(at).map_or(last, |next| next.min(last)) / SPAN * SPAN;
        let len = SPAN.min(size - from);
        at = from + len;
        Some((from, len))
    })
}

/// Small jobs together, so that threads meet less often: no more than two spans of bytes.
fn batches<'a>(
    jobs: impl Iterator<Item = Job> + Send + 'a,
) -> impl Iterator<Item = Vec<Job>> + Send + 'a {
    let mut jobs = jobs;
    std::iter::from_fn(move || {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < SPAN && batch.len() < BATCH {
            let Some(job) = jobs.next() else { break };
            let len = job.span.map_or(0, |(_, len)| len);
            bytes = bytes.saturating_add(len);
            batch.push(job);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

pub(crate) fn is_full(error: &ImageError) -> bool {
    matches!(
        error,
        ImageError::Call {
            error: Errno::NoSpace,
            ..
        }
    )
}

pub(crate) fn too_small(format: &'static str, why: &str, small: bool) -> ImageError {
    match small {
        // A larger image may do.
        true => ImageError::Call {
            path: crate::error::Shown::path(b""),
            error: Errno::NoSpace,
            why: why.into(),
        },
        false => ImageError::Make {
            format,
            why: why.into(),
        },
    }
}

/// Bytes for each inode, where the default would give too few of them.
fn ratio(entries: u64, bytes: u64) -> Option<u32> {
    let default = if bytes < 3 * MIB {
        8192
    } else if bytes < 512 * MIB {
        4096
    } else {
        16_384
    };
    let needed = entries + entries / 8 + 64;
    (bytes / default < needed).then(|| (bytes / needed).max(1024) as u32)
}

/// No time later than `latest`, as SOURCE_DATE_EPOCH has it.
pub fn clamp_times(tree: &mut Tree, latest: Time) {
    tree.entries
        .iter_mut()
        .for_each(|(entry, _)| entry.mtime = entry.mtime.min(latest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Extent;

    #[test]
    fn a_hole_of_any_length_is_one_step() {
        const SIZE: u64 = 3 << 40;
        let last = (SIZE - SPAN, SPAN);
        let extent = |at, len| Extent { at, from: at, len };
        let of = |extents: &[Extent]| {
            let data = Data {
                origin: None,
                extents: extents.to_vec(),
            };
            spans(SIZE, &data).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [last]);
        let middle = (1 << 40) + 5;
        assert_eq!(
            of(&[extent(0, 1), extent(middle, SPAN)]),
            [(0, SPAN), (1 << 40, SPAN), ((1 << 40) + SPAN, SPAN), last]
        );
        assert_eq!(of(&[extent(SIZE - 1, 1)]), [last]);
        assert_eq!(spans(0, &Data::default()).count(), 0);
        let whole = Data::whole("/x".into(), 2 * SPAN + 7);
        let expected = [(0, SPAN), (SPAN, SPAN), (2 * SPAN, 7)];
        assert!(spans(2 * SPAN + 7, &whole).eq(expected));
    }
}
