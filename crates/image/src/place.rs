//! Where the bytes of an image are, to be opened again for each who looks at them.
//!
//! *Promises.* What is opened for reading is never changed: see [`Overlay`]. *Knows nothing of*
//! formats.

use crate::error::{ImageError, Result};
use crate::file::ImageFile;
use crate::overlay::Overlay;
use crate::view::View;
use crate::volume::{Access, AnyDisk};
use crate::window::{Part, Window};
use nandlab_block::Image as Disk;
use nandlab_mtd::ImageFormat;
use nandlab_sim::Backing;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a sector.
const SECTOR: u64 = 512;

type Opener = dyn Fn() -> Box<dyn Backing> + Send + Sync;

/// Where the bytes of an image are.
#[derive(Clone)]
pub struct Place {
    path: PathBuf,
    /// Bytes that are in no file.
    open: Option<Arc<Opener>>,
    /// The only bytes of it that count.
    part: Option<Part>,
    /// How these are cut into pages whose spare bytes do not count.
    pages: Option<ImageFormat>,
    guarded: bool,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// A file or a block device.
    pub fn file(path: &Path) -> Self {
        Self {
            path: path.into(),
            open: None,
            part: None,
            pages: None,
            guarded: false,
        }
    }

    /// The same, and what is opened of it fails as soon as another program changes the file.
    pub fn guarded(self) -> Self {
        Self {
            guarded: true,
            ..self
        }
    }

    /// Bytes that are in no file; they can be read only, and are opened several times. Errors call
    /// them `name`.
    pub fn bytes(name: &str, open: impl Fn() -> Box<dyn Backing> + Send + Sync + 'static) -> Self {
        Self {
            path: name.into(),
            open: Some(Arc::new(open)),
            part: None,
            pages: None,
            guarded: false,
        }
    }

    /// The bytes of `part` within this place.
    pub fn part(&self, part: Part) -> Self {
        let outer = self.part.map_or(0, |outer| outer.at);
        let limit = self.part.map_or(u64::MAX, |outer| outer.len);
        let at = part.at.min(limit);
        let part = Part {
            at: outer.saturating_add(at),
            len: part.len.min(limit - at),
        };
        Self {
            part: Some(part),
            ..self.clone()
        }
    }

    /// The same bytes in another file.
    pub(crate) fn in_file(&self, path: &Path) -> Self {
        Self {
            path: path.into(),
            open: None,
            ..self.clone()
        }
    }

    /// Where the bytes begin in the file.
    pub fn offset(&self) -> u64 {
        self.part.map_or(0, |part| part.at)
    }

    /// Whether it is a part of an image.
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// The data of a dump without its spare bytes, for reading only.
    pub(crate) fn without_spare(&self, pages: ImageFormat) -> Self {
        Self {
            pages: Some(pages),
            ..self.clone()
        }
    }

    fn framed(&self, whole: impl Backing + 'static) -> Result<Box<dyn Backing>> {
        let bytes: Box<dyn Backing> = match self.part {
            Some(part) => Box::new(Window::new(whole, part)),
            None => Box::new(whole),
        };
        let Some(format) = self.pages else {
            return Ok(bytes);
        };
        let view = View::new(bytes, format).map_err(|error| ImageError::Open {
            layer: "flash",
            why: error.to_string(),
        });
        Ok(Box::new(view?))
    }

    /// What errors call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes as they are, for reading only.
    pub fn raw(&self) -> Result<Box<dyn Backing>> {
        match &self.open {
            Some(open) => self.framed(open()),
            None => self.framed(self.in_file_system(ImageFile::open)?),
        }
    }

    fn in_file_system(&self, open: fn(&Path) -> io::Result<ImageFile>) -> Result<ImageFile> {
        let file = open(&self.path);
        let file = if self.guarded {
            file.and_then(ImageFile::guarded)
        } else {
            file
        };
        file.map_err(ImageError::file(&self.path))
    }

    /// The bytes, with an overlay where they must not change; for reading at least `len` of them,
    /// erased ones behind the end.
    pub fn open(&self, access: Access, len: u64) -> Result<Box<dyn Backing>> {
        if access == Access::Read {
            return Ok(Box::new(Overlay::new(self.raw()?, len)));
        }
        if self.open.is_some() || self.pages.is_some() {
            let found = self.path.display().to_string();
            let expected = match self.open {
                Some(_) => "a file",
                None => "a disk without spare bytes in it: nandlab only reads those",
            };
            return Err(ImageError::Choice {
                what: "image to be written",
                found,
                expected: expected.into(),
            });
        }
        self.framed(self.in_file_system(ImageFile::open_writable)?)
    }

    /// The bytes as a disk: whole sectors. A part of one at the end is left aside by who reads, and
    /// refused to who writes.
    pub(crate) fn disk(&self, access: Access) -> Result<AnyDisk> {
        let backing = self.open(access, 0)?;
        let whole = backing.len() / SECTOR * SECTOR;
        let disk: std::result::Result<AnyDisk, _> =
            if access == Access::Read && whole < backing.len() {
                Disk::new(Overlay::cut(backing, whole), SECTOR as u32)
                    .map(|disk| Box::new(disk) as AnyDisk)
            } else {
                Disk::new(backing, SECTOR as u32).map(|disk| Box::new(disk) as AnyDisk)
            };
        disk.map_err(|error| ImageError::Open {
            layer: "disk",
            why: error.to_string(),
        })
    }

    /// The same for reading, with erased bytes behind the end up to a whole sector.
    pub(crate) fn disk_filled(&self) -> Result<AnyDisk> {
        let len = self.raw()?.len().next_multiple_of(SECTOR);
        match Disk::new(self.open(Access::Read, len)?, SECTOR as u32) {
            Ok(disk) => Ok(Box::new(disk)),
            Err(error) => Err(ImageError::Open {
                layer: "disk",
                why: error.to_string(),
            }),
        }
    }

    /// Adds erased bytes at the end of a file. A part of a file has no space to grow.
    pub(crate) fn extend(&self, at: u64, block: u64, blocks: u64) -> Result<()> {
        if let Some(part) = self.part {
            return Err(ImageError::Choice {
                what: "range",
                found: format!("{} bytes at {}", part.len, part.at),
                expected: format!("{} more for the volumes in it", blocks * block),
            });
        }
        let failed = |error| ImageError::File {
            path: self.path.clone(),
            error,
        };
        let file = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .map_err(failed)?;
        let erased = vec![0xFF; block as usize];
        (0..blocks)
            .try_for_each(|number| file.write_all_at(&erased, at + number * block))
            .map_err(failed)
    }
}
