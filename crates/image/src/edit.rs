//! Changes to an image, made by its own file system.
//!
//! *Promises.* The change is made in a copy beside the image, which takes its place when everything
//! is in it and durable: at any moment, whatever fails, the image is as it was before or as it is
//! afterwards, as long as it was, with its owner, mode and extended attributes. A volume in which a
//! write would spread damage to other files is refused. An image of JFFS2 or UBIFS that has no
//! erased block to write to becomes longer if it may. *Knows nothing of* what the change is.

use crate::Shown;
use crate::check::danger;
use crate::detect::{Detected, DiskKind, FlashKind};
use crate::error::{ImageError, Result};
use crate::locate::{Located, locate};
use crate::lock::{EDIT, Lock};
use crate::place::Place;
use crate::volume::{Access, Mounted, Opening, Volume};
use nandlab_mtd::ImageFormat;
use nandlab_scratch::{Scratch, beside};
use nandlab_sim::Backing as _;
use nandlab_vfs::Errno;
use rustix::fs::{SeekFrom, seek};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Bytes that are copied at once.
const STEP: usize = 1 << 20;
/// Blocks that JFFS2 and UBIFS keep free for their own work, and some more.
const BLOCKS_SPARE: u64 = 12;
/// Blocks without which JFFS2 is not mounted.
const BLOCKS_LEAST: u64 = 5;

/// Opens an image for writing, changes it, and puts it in place. `more` is what will be added at
/// most, in bytes.
pub fn edit<T>(
    path: &Path,
    opening: &Opening,
    more: u64,
    work: impl FnOnce(&mut Volume) -> Result<T>,
) -> Result<T> {
    let real = fs::canonicalize(path).map_err(ImageError::file(path))?;
    let failed = |error| ImageError::File {
        path: real.clone(),
        error,
    };
    let lock = locked(&real)?;
    let located = locate(&Place::file(&real), opening)?;
    located.certain()?;
    let growth = looked_at(&located, opening)?;
    let is_part = located.place.is_part();
    if is_part && opening.grow {
        return Err(ImageError::Choice {
            what: "--grow",
            found: format!("a range of {}", real.display()),
            expected: "a whole image: what lies behind a range stays where it is".into(),
        });
    }
    let length = located.place.raw()?.len();
    let is_short = growth
        .as_ref()
        .is_some_and(|growth| growth.is_short(length));
    if is_short && !opening.grow {
        return Err(no_room(Shown::path(b""), is_part));
    }
    let scratch = beside(&real)?;
    copy(lock.file(), scratch.as_file()).map_err(failed)?;
    let may_grow = growth.is_some() && !opening.grow;
    let growing = growth.filter(|_| opening.grow);
    if let Some(growth) = &growing {
        growth
            .grow(scratch.as_file(), length, more)
            .map_err(failed)?;
    }
    let copied = located.in_file(scratch.path());
    let mut volume = Volume::located(copied, opening, Access::Write)?;
    let done = work(&mut volume).map_err(|error| volume.explain(error));
    let done = done.and_then(|value| volume.close().map(|()| value));
    let value = done.map_err(|error| hinted(error, may_grow, is_part))?;
    drop(volume);
    if let Some(growth) = &growing {
        growth.shrink(scratch.as_file(), length).map_err(failed)?;
    }
    replace(scratch, &lock, &real)?;
    Ok(value)
}

/// Refuses to write where damage would spread to other files. Returns how the image can become
/// longer, if it can.
fn looked_at(located: &Located, opening: &Opening) -> Result<Option<Growth>> {
    let mut volume = Volume::located(located.clone(), opening, Access::Read)?;
    if let Some(why) = danger(&mut volume)? {
        return Err(ImageError::Open {
            layer: "not written, the file system is damaged",
            why,
        });
    }
    Ok(match (located.detected, &volume.mounted) {
        (Detected::Flash(format, FlashKind::Jffs2 { .. }), _) => Some(Growth::of_jffs2(format)),
        (Detected::Disk(DiskKind::Ubifs), Some(Mounted::Ubifs(fs))) => {
            let here = fs.head().geometry;
            Some(Growth::of_ubifs(here.leb, here.lebs_max))
        }
        _ => None,
    })
}

/// Locks an image that is to be replaced. A file with several names is refused: the other names
/// would keep the old image, and to write over it in place is not safe.
pub(crate) fn locked(real: &Path) -> Result<Lock> {
    let lock = Lock::exclusive(real, EDIT)?;
    let metadata = lock.file().metadata().map_err(ImageError::file(real))?;
    if metadata.is_file() && metadata.nlink() > 1 {
        let found = format!("{} with {} hard links", real.display(), metadata.nlink());
        let expected = "a file with one name, since an edit puts a new file in its place; edit a \
            copy, or remove the other names"
            .into();
        return Err(ImageError::Choice {
            what: "image",
            found,
            expected,
        });
    }
    Ok(lock)
}

/// The copy takes the place of `real`, durably.
pub(crate) fn replace(scratch: Scratch, lock: &Lock, real: &Path) -> Result<()> {
    let failed = |error| ImageError::File {
        path: real.into(),
        error,
    };
    scratch.resemble(lock.file()).map_err(failed)?;
    scratch.as_file().sync_all().map_err(failed)?;
    scratch.persist(real)?;
    let dir = real.parent().unwrap_or(Path::new("/"));
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(ImageError::file(dir))
}

/// Copies what is not a hole; gives the length.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<u64> {
    let length = seek(from, SeekFrom::End(0))?;
    to.set_len(length)?;
    let mut buffer = vec![0; STEP];
    let mut at = 0;
    while at < length {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(data))?.min(length);
        for place in (data..end).step_by(STEP) {
            let part = &mut buffer[..STEP.min((end - place) as usize)];
            from.read_exact_at(part, place)?;
            to.write_all_at(part, place)?;
        }
        at = end;
    }
    Ok(length)
}

/// The advice for a full image that may not become longer.
fn hinted(error: ImageError, may_grow: bool, is_part: bool) -> ImageError {
    match error {
        ImageError::Call {
            path,
            error: Errno::NoSpace,
            ..
        } if may_grow => no_room(path, is_part),
        error => error,
    }
}

fn no_room(path: Shown, is_part: bool) -> ImageError {
    let why = match is_part {
        true => "the range has too few erased blocks for it",
        false => "the image has too few erased blocks for it; --grow adds some",
    };
    ImageError::Call {
        path,
        error: Errno::NoSpace,
        why: why.into(),
    }
}

/// How an image becomes longer: by erased blocks to write to.
struct Growth {
    /// Bytes of a block, and those of them that contents can have.
    block: u64,
    data: u64,
    /// Blocks at most.
    most: u64,
    /// Flash, from which erased blocks can be cut off again.
    flash: Option<ImageFormat>,
}

impl Growth {
    fn of_jffs2(format: ImageFormat) -> Self {
        Self {
            block: format.bytes(1),
            data: u64::from(format.page) * u64::from(format.pages_per_block),
            most: u64::MAX,
            flash: Some(format),
        }
    }

    /// The superblock says how many blocks the volume may have, and counts those that it has. A
    /// block has whole nodes, each of 4 KiB of contents behind a head.
    fn of_ubifs(leb: u32, most: u32) -> Self {
        Self {
            block: leb.into(),
            data: u64::from(leb / (4096 + 48) * 4096),
            most: most.into(),
            flash: None,
        }
    }

    /// Whether an image of this length is not mounted at all.
    fn is_short(&self, length: u64) -> bool {
        self.flash.is_some() && length < self.block * BLOCKS_LEAST
    }

    /// Adds erased blocks to write to.
    fn grow(&self, file: &File, length: u64, more: u64) -> io::Result<()> {
        let whole = length.div_ceil(self.block);
        // A fiftieth is kept free, too.
        let added = whole / 16 + (more + more / 8).div_ceil(self.data) + BLOCKS_SPARE;
        let end = (whole + added).min(self.most) * self.block;
        let erased = vec![0xFF; STEP];
        for at in (length..end).step_by(STEP) {
            file.write_all_at(&erased[..STEP.min((end - at) as usize)], at)?;
        }
        Ok(())
    }

    /// Cuts empty blocks off, but none that were there before.
    fn shrink(&self, file: &File, length: u64) -> io::Result<()> {
        let Some(format) = &self.flash else {
            return Ok(());
        };
        let mut end = file.metadata()?.len();
        let mut bytes = vec![0; self.block as usize];
        while end > length.next_multiple_of(self.block) {
            file.read_exact_at(&mut bytes, end - self.block)?;
            // The mark of an erased block, in the first page or in its spare bytes.
            let first = (format.page + format.oob) as usize;
            let marks = bytes[..first].iter().filter(|byte| **byte != 0xFF).count();
            if marks > 12 || bytes[first..].iter().any(|byte| *byte != 0xFF) {
                break;
            }
            end -= self.block;
        }
        file.set_len(end)
    }
}
