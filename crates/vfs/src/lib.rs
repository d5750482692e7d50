//! A file system as its user sees it: inodes, names, bytes.
//!
//! *Promises* only the contract of [`FileSystem`]; file systems implement it, workloads, mounts and
//! image tools stand on it. [`MemFs`] is the contract carried out in memory, the judge in the
//! [model] tests of every other file system; [`path`] and [`tree`] are for those who think in
//! paths.
//!
//! *Knows nothing of* devices, formats, processes or clocks: the caller passes the time. `errno`
//! exists here and, above, in what touches the operating system; nowhere below.
//!
//! *Power loss.* See [`FileSystem`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attr;
mod calls;
mod cause;
mod errno;
mod gate;
mod mem;
pub mod model;
mod names;
pub mod path;
mod refuse;
pub mod report;
pub mod rules;
pub mod tree;
mod volume;

#[doc(hidden)]
pub use alloc::vec::Vec;

pub use attr::{
    Attr, Caller, Dirty, FileType, Ino, NAME_MAX, NewNode, SetAttr, StatFs, Time, check_name,
};
pub use cause::{Call, Cause};
pub use errno::Errno;
pub use gate::{Fault, Gate, Gated};
pub use mem::MemFs;
pub use names::NameCache;
pub use nandlab_sim::{Chain, with_defaults};
pub use volume::{Mounted, Nature, Promise, Volume, VolumeError};

/// The result of a call.
pub type Result<T = ()> = core::result::Result<T, Errno>;

/// One name in a directory, as [`FileSystem::readdir`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The inode; a hint where inodes have numbers only while they are known.
    pub ino: Ino,
    /// What the inode is.
    pub kind: FileType,
    /// The name of the entry.
    pub name: &'a [u8],
    /// Where to go on after this entry.
    pub next: u64,
}

/// What [`FileSystem::rename`] does with a target that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// The new name replaces an existing one.
    #[default]
    Replace,
    /// An existing target gives [`Errno::Exists`].
    NoReplace,
    /// Swaps the two; fails with [`Errno::NoEntry`] unless both exist.
    Exchange,
}

/// Whether [`FileSystem::setxattr`] may create or replace an attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Nothing: creates or replaces.
    #[default]
    Any,
    /// That it is not there, otherwise [`Errno::Exists`].
    Create,
    /// That it is there, otherwise [`Errno::NoData`].
    Replace,
}

/// What [`FileSystem::fsync`] makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// The contents and what is needed to find them: `fdatasync`.
    Data,
    /// The times and other attributes too: `fsync`.
    #[default]
    All,
}

/// A mounted file system, by inodes.
///
/// **Names** are bytes, never empty, never `.` or `..` (callers resolve those, see [`path`]),
/// without `/` and NUL. Directories are listed without `.` and `..`.
///
/// **References.** Each successful [`lookup`](Self::lookup), [`create`](Self::create) and
/// [`link`](Self::link) adds one reference to the inode that it returns; [`forget`](Self::forget)
/// gives references back. While there are any, the inode keeps its number and its contents, even
/// when its last name is gone. An inode without references may be forgotten at any time; its number
/// is then [`Errno::Stale`]. The root always has one.
///
/// **Rights** are not checked and set-user-ID bits not cleared on a write: the layer that knows the
/// caller does both. Reading changes no time (`noatime`).
///
/// **Durability.** A change is seen at once. It is durable when a later [`fsync`](Self::fsync) of
/// its inode or [`sync`](Self::sync) has returned; an fsync of a new file makes the names that lead
/// to it durable too. Before that a power cut may keep or lose it.
///
/// **Errors.** [`Errno`] is the number for a program. [`cause`](Self::cause) tells what lay behind
/// it, down to the medium.
///
/// ```
/// use nandlab_vfs::{Caller, FileSystem, Ino, MemFs, NewNode, Sync, Time};
///
/// let mut fs = MemFs::new(1 << 20, Time::default());
/// let by = Caller::root(Time::new(1));
/// let file = fs.create(Ino::ROOT, b"notes", NewNode::File, 0o644, by)?.ino;
/// fs.write(file, 0, b"hello", by.now)?;
/// fs.fsync(file, Sync::All)?;
/// let mut buf = [0; 16];
/// let count = fs.read(file, 0, &mut buf)?;
/// assert_eq!(&buf[..count], b"hello");
/// fs.forget(file, 1);
/// # Ok::<(), nandlab_vfs::Errno>(())
/// ```
///
/// To write one of your own, implement the methods without a default. [`Gate`] keeps its state and
/// its errors, [`delegate!`] writes calls that another file system carries out, and a
/// [`Model`](model::Model) compares it with [`MemFs`]:
///
/// ```
/// use nandlab_vfs::model::{Model, Rules};
/// use nandlab_vfs::{Errno, FileSystem, Ino, MemFs, Time, delegate};
///
/// /// Counts the bytes that programs write.
/// struct Counting {
///     inner: MemFs,
///     written: u64,
/// }
///
/// impl FileSystem for Counting {
///     delegate! { [self.inner]
///         lookup forget getattr setattr create link unlink rmdir rename readlink read readdir
///         fsync sync unmount statfs getxattr setxattr listxattr removexattr
///     }
///     fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
///         let count = self.inner.write(ino, offset, data, now)?;
///         self.written += count as u64;
///         Ok(count)
///     }
/// }
///
/// let inner = MemFs::new(64 << 20, Time::default());
/// let mut fs = Counting { inner, written: 0 };
/// Model::new(7, Rules::unix()).run(&mut fs, 500).unwrap();
/// assert!(fs.written > 0);
/// ```
pub trait FileSystem {
    /// The inode of `name` in `dir`.
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr>;

    /// Gives up so many references to an inode.
    fn forget(&mut self, ino: Ino, references: u64);

    /// The attributes of an inode.
    fn getattr(&mut self, ino: Ino) -> Result<Attr>;

    /// Changes attributes, the length among them, all or none.
    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr>;

    /// Makes a file, directory, link or device under a new name.
    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr>;

    /// Makes an empty directory with this name.
    fn mkdir(&mut self, dir: Ino, name: &[u8], mode: u16, by: Caller) -> Result<Attr> {
        self.create(dir, name, NewNode::Directory, mode, by)
    }

    /// Makes a symbolic link.
    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], by: Caller) -> Result<Attr> {
        self.create(dir, name, NewNode::Symlink { target }, 0o777, by)
    }

    /// Gives a file one more name.
    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr>;

    /// Removes the name of anything but a directory.
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result;

    /// Removes an empty directory.
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result;

    /// Moves the inode called `from.1` in `from.0` to the name `to.1` in `to.0`.
    fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename, now: Time) -> Result;

    /// Where a symbolic link points.
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>>;

    /// Reads from `offset` on; gives the bytes read, fewer than asked for only at the end of the
    /// file.
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes at `offset`; gives the bytes written, fewer than asked for only when no more fit.
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize>;

    /// Lists a directory from `from` on (0: the beginning, otherwise a [`DirEntry::next`]) until
    /// `each` returns false. A name that neither came nor went since the beginning is listed once.
    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result;

    /// Makes an inode durable.
    fn fsync(&mut self, ino: Ino, what: Sync) -> Result;

    /// Makes every earlier call durable.
    fn sync(&mut self) -> Result;

    /// Ends the mount: everything is durable, and marked clean where the format has such a mark.
    /// Later calls fail.
    fn unmount(&mut self) -> Result;

    /// Sizes and limits of the whole.
    fn statfs(&mut self) -> Result<StatFs>;

    /// The value of an extended attribute.
    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (ino, name);
        Err(Errno::NotSupported)
    }

    /// Sets an extended attribute.
    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result {
        let _ = (ino, name, value, expect, now);
        Err(Errno::NotSupported)
    }

    /// The names of all extended attributes.
    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let _ = ino;
        Err(Errno::NotSupported)
    }

    /// Removes an extended attribute.
    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result {
        let _ = (ino, name, now);
        Err(Errno::NotSupported)
    }

    /// Where, from `offset` of a file on, something else than a hole may be: nothing before it is
    /// anything but zeros. The file's length or more where nothing is. A file system that does not
    /// know answers `offset`.
    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64> {
        let _ = ino;
        Ok(offset)
    }

    /// Dirty data in memory. A file system that defers nothing answers nothing.
    fn dirty(&self) -> Dirty {
        Dirty::default()
    }

    /// Writes the oldest dirty data, at least `bytes` of it if there is so much and everything that
    /// has waited since `until` or longer; returns by how many bytes the dirty data shrank.
    /// Promises no durability.
    fn write_back(&mut self, bytes: u64, until: Time) -> Result<u64> {
        let _ = (bytes, until);
        Ok(0)
    }

    /// When work of its own is due that is no write-back: a journal's commit timer, a collector in
    /// the background. By the times that callers gave.
    fn due(&self) -> Option<Time> {
        None
    }

    /// The cause of the last error, reported once: the call, the file system's own error, and as
    /// sources those of the layers below.
    fn cause(&mut self) -> Option<Cause> {
        None
    }

    /// Does what is due at `now`.
    fn work(&mut self, now: Time) -> Result {
        let _ = now;
        Ok(())
    }
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<F: FileSystem + ?Sized> FileSystem for $type {
            delegate! { [**]
                lookup forget getattr setattr create link unlink rmdir rename readlink read write
                readdir fsync sync unmount statfs getxattr setxattr listxattr removexattr next_data
                dirty write_back due cause work
            }
        }
    )*};
}
forward!(&mut F, alloc::boxed::Box<F>);
