//! Where the bytes of an image are, to be opened again for each who looks at them.
//!
//! *Promises.* What is opened for reading is never changed: see [`Overlay`]. *Knows nothing of*
//! formats.

use crate::error::{ImageError, Result};
use crate::file::ImageFile;
use crate::overlay::Overlay;
use crate::volume::{Access, AnyDisk};
use nandlab_block::Image as Disk;
use nandlab_sim::Backing;
use std::fmt;
use std::fs::OpenOptions;
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
        }
    }

    /// Bytes that are in no file; they can be read only, and are opened several times. Errors call
    /// them `name`.
    pub fn bytes(name: &str, open: impl Fn() -> Box<dyn Backing> + Send + Sync + 'static) -> Self {
        Self {
            path: name.into(),
            open: Some(Arc::new(open)),
        }
    }

    /// What errors call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes as they are, for reading only.
    pub fn raw(&self) -> Result<Box<dyn Backing>> {
        Ok(match &self.open {
            Some(open) => open(),
            None => Box::new(ImageFile::open(&self.path).map_err(ImageError::file(&self.path))?),
        })
    }

    /// The bytes, with an overlay where they must not change; for reading at least `len` of them,
    /// erased ones behind the end.
    pub fn open(&self, access: Access, len: u64) -> Result<Box<dyn Backing>> {
        Ok(match access {
            Access::Read => Box::new(Overlay::new(self.raw()?, len)),
            Access::Write if self.open.is_none() => Box::new(
                ImageFile::open_writable(&self.path).map_err(ImageError::file(&self.path))?,
            ),
            Access::Write => {
                let found = self.path.display().to_string();
                return Err(ImageError::Choice {
                    what: "image to be written",
                    found,
                    expected: "a file".into(),
                });
            }
        })
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

    /// Adds erased bytes at the end of a file.
    pub(crate) fn extend(&self, at: u64, block: u64, blocks: u64) -> Result<()> {
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
