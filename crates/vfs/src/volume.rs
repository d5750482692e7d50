//! A file system as a recipe: made on a medium, mounted, checked, and taken off it.
//!
//! *Promises.* A [`Volume`] holds a file system's options, and says what of it survives a power cut
//! ([`Nature`]). The crash explorer needs no more of a file system than this.
//!
//! *Knows nothing of* the medium `M`: it may be a disk or flash.

use crate::FileSystem;
use alloc::{boxed::Box, string::String, vec::Vec};
use core::error::Error;

/// Why a volume cannot be made, mounted or checked. It keeps the file system's own error.
pub type VolumeError = Box<dyn Error + Send + Sync>;

/// What a file system guarantees after a power cut, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// The tree is the one after some operation, contents included: each call happened or did not.
    /// ext3's `data=journal`.
    Atomic,
    /// Names, links and lengths are those after some operation. Each sector of a file is as the
    /// file had it at some moment since its last fsync, never data from elsewhere. ext3's
    /// `data=ordered`.
    Ordered,
    /// As `Ordered` for names, links and lengths. Blocks written since the file's last fsync may
    /// hold anything. ext3's `data=writeback`.
    Metadata,
    /// A file that was fsynced is there under its name. Later changes may be there in part, sector
    /// by sector. The length is one that the file had, and data below it was written to the file.
    /// ext2 and FAT in their guarded order.
    Fsynced,
}

/// What the crash explorer's oracle has to know of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// What a power cut leaves.
    pub promise: Promise,
    /// Bytes that the medium writes whole.
    pub sector: usize,
    /// Bytes of the pieces that the file system allocates.
    pub block: usize,
    /// Files may have several names, and holes.
    pub is_unix: bool,
    /// Directories of a new file system.
    pub directories: &'static [&'static str],
    /// A cut may leave the first part of a write, and the file as long as that part.
    pub by_parts: bool,
    /// Names may become durable before contents: a file without an fsync may read as zeros.
    pub late: bool,
    /// Lengths may lag behind names: after a cut, a file without an fsync may have a length that it
    /// had before its last changes, with the contents of that time or later ones.
    pub lags: bool,
}

/// A kind of file system with its options, for media of type `M`.
pub trait Volume<M> {
    /// What there is to know of it on this medium.
    fn nature(&self, medium: &M) -> Nature;

    /// Makes an empty file system. Durable on return.
    fn format(&self, medium: &mut M) -> Result<(), VolumeError>;

    /// Mounts the file system, whatever a power cut left.
    fn mount(&self, medium: M) -> Result<Box<dyn Mounted<M>>, VolumeError>;
}

/// A mounted file system that can be checked and taken off its medium.
pub trait Mounted<M>: FileSystem {
    /// Runs the check. Returns the findings that a power cut may not leave under this promise.
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, VolumeError>;

    /// Whether it may be written after a power cut. If not, a repair has to come first.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// The medium as it is now, without another write.
    fn into_medium(self: Box<Self>) -> M;
}

impl<M, V: Volume<M> + ?Sized> Volume<M> for Box<V> {
    fn nature(&self, medium: &M) -> Nature {
        (**self).nature(medium)
    }

    fn format(&self, medium: &mut M) -> Result<(), VolumeError> {
        (**self).format(medium)
    }

    fn mount(&self, medium: M) -> Result<Box<dyn Mounted<M>>, VolumeError> {
        (**self).mount(medium)
    }
}
