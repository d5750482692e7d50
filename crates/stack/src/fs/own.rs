//! A file system of one's own on a disk, from one trait.
//!
//! *Promises.* [`DiskFs`] is all that a file system from another crate has to implement. Its
//! [`kind`](DiskFs::kind) is described in `[fs]`, measured, and cut by the crash explorer.

use super::{
    DiskPart, FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe,
    Undivided, disk,
};
use crate::{DescriptionError, Section};
use nandlab_block::{BlockDevice, BlockGeometry};
use nandlab_vfs::{self as vfs, FileSystem, Nature, Promise, Volume, VolumeError, delegate};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A file system for disks with its options, as another crate brings it.
///
/// ```
/// use nandlab_block::BlockDevice;
/// use nandlab_stack::{Description, DescriptionError, DiskFs, Document, Registry, Section};
/// use nandlab_vfs::{FileSystem, MemFs, Promise, Time, VolumeError, delegate};
/// use std::path::Path;
///
/// /// Keeps everything in memory, and nothing on its disk.
/// #[derive(Clone, Debug)]
/// struct Forgetful {
///     bytes: u64,
/// }
///
/// struct Open<D> {
///     files: MemFs,
///     disk: D,
/// }
///
/// impl<D: BlockDevice> FileSystem for Open<D> {
///     delegate! { [self.files]
///         lookup forget getattr setattr create link unlink rmdir rename readlink read write
///         readdir fsync sync unmount statfs
///     }
/// }
///
/// impl DiskFs for Forgetful {
///     const NAME: &'static str = "forgetful";
///     const KEYS: &'static [&'static str] = &["bytes"];
///     const PROMISE: Promise = Promise::Fsynced;
///     type Mounted<D: BlockDevice> = Open<D>;
///
///     fn take(section: &mut Section) -> Result<Self, DescriptionError> {
///         Ok(Self { bytes: section.or("bytes", 1 << 20)? })
///     }
///     fn format<D: BlockDevice>(&self, _: &mut D) -> Result<(), VolumeError> {
///         Ok(())
///     }
///     fn mount<D: BlockDevice>(&self, disk: D) -> Result<Open<D>, VolumeError> {
///         Ok(Open { files: MemFs::new(self.bytes, Time::default()), disk })
///     }
///     fn into_disk<D: BlockDevice>(open: Open<D>) -> D {
///         open.disk
///     }
/// }
///
/// let registry = Registry::standard().with_file_system(Forgetful::kind());
/// let text = "[chip]\npreset = \"slc-2k\"\n[fs]\ntype = \"forgetful\"\nbytes = 65536\n";
/// let mut document = Document::parse("forgetful.toml", Path::new("."), text, &[])?;
/// let description = Description::take_with(&mut document, &registry)?;
/// assert_eq!(description.fs.unwrap().name(), "forgetful");
/// # Ok::<(), DescriptionError>(())
/// ```
pub trait DiskFs: Clone + fmt::Debug + Send + Sync + 'static {
    /// The value of `fs.type`.
    const NAME: &'static str;

    /// The keys of `[fs]` that it takes, besides `type`, `start-sector` and `size`.
    const KEYS: &'static [&'static str] = &[];

    /// What a power cut leaves.
    const PROMISE: Promise;

    /// The mounted file system on a disk.
    type Mounted<D: BlockDevice>: FileSystem;

    /// Reads the file system's keys from its section.
    fn take(section: &mut Section) -> Result<Self, DescriptionError>;

    /// What the crash explorer has to know. Unless you say more: files have several names and
    /// holes, space is allocated by sectors, and a write is there whole or not at all.
    fn nature(&self, disk: &BlockGeometry) -> Nature {
        Nature {
            promise: Self::PROMISE,
            sector: disk.sector as usize,
            block: disk.sector as usize,
            is_unix: true,
            directories: &[],
            by_parts: false,
            late: false,
            lags: false,
        }
    }

    /// Makes an empty file system. Durable on return.
    fn format<D: BlockDevice>(&self, disk: &mut D) -> Result<(), VolumeError>;

    /// Mounts the file system, whatever a power cut left.
    fn mount<D: BlockDevice>(&self, disk: D) -> Result<Self::Mounted<D>, VolumeError>;

    /// Runs the check, if there is one. Returns the findings that a power cut may not leave.
    fn damage<D: BlockDevice>(_: &mut Self::Mounted<D>) -> Result<Vec<String>, VolumeError> {
        Ok(Vec::new())
    }

    /// The disk as it is now, without another write.
    fn into_disk<D: BlockDevice>(mounted: Self::Mounted<D>) -> D;

    /// The kind for [`Registry::with_file_system`](crate::Registry::with_file_system).
    fn kind() -> DiskFsKind<Self> {
        DiskFsKind(PhantomData)
    }
}

/// A [`DiskFs`] as a value of `fs.type`.
#[derive(Clone, Copy, Debug)]
pub struct DiskFsKind<F>(PhantomData<fn() -> F>);

impl<F: DiskFs> FsKind for DiskFsKind<F> {
    fn names(&self) -> Vec<&'static str> {
        vec![F::NAME]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![KeyGroup {
            keys: F::KEYS,
            types: const { &[F::NAME] },
            needs: "the value of fs.type that has this key",
        }]
    }

    fn shared(&self) -> &'static [&'static str] {
        &["start-sector", "size"]
    }

    fn take(
        &self,
        _: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let options = F::take(section)?;
        Ok((Arc::new(Own(options)), FsPlace::take(section)?))
    }
}

/// A [`DiskFs`] as described.
#[derive(Clone, Debug)]
struct Own<F>(F);

impl<F: DiskFs> FsLayer for Own<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn make(&self, medium: Medium<'_>, _: &Section) -> Result<(), FsError> {
        let mut disk = disk(medium, F::NAME)?;
        self.0.format(&mut disk).map_err(FsError::Make)
    }

    fn mount<'a>(&self, medium: Medium<'a>, _: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let disk = disk(medium, F::NAME)?;
        let sectors = disk.geometry().sectors;
        let fs = self.0.mount(disk).map_err(FsError::Mount)?;
        Ok(Mounted {
            fs: Box::new(fs),
            parts: Arc::new(Undivided { sectors }),
        })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Disk(Box::new(self.clone())))
    }
}

impl<F: DiskFs> Volume<DiskPart> for Own<F> {
    fn nature(&self, disk: &DiskPart) -> Nature {
        self.0.nature(disk.geometry())
    }

    fn format(&self, disk: &mut DiskPart) -> Result<(), VolumeError> {
        self.0.format(disk)
    }

    fn mount(&self, disk: DiskPart) -> Result<Box<dyn vfs::Mounted<DiskPart>>, VolumeError> {
        Ok(Box::new(Cut::<F>(self.0.mount(disk)?)))
    }
}

/// A mounted [`DiskFs`], as the crash explorer takes it.
struct Cut<F: DiskFs>(F::Mounted<DiskPart>);

impl<F: DiskFs> FileSystem for Cut<F> {
    delegate! { [self.0]
        lookup forget getattr setattr create link unlink rmdir rename readlink read write readdir
        fsync sync unmount statfs getxattr setxattr listxattr removexattr next_data dirty
        write_back due cause work
    }
}

impl<F: DiskFs> vfs::Mounted<DiskPart> for Cut<F> {
    fn damage(&mut self, _: Promise) -> Result<Vec<String>, VolumeError> {
        F::damage(&mut self.0)
    }

    fn into_medium(self: Box<Self>) -> DiskPart {
        F::into_disk(self.0)
    }
}
