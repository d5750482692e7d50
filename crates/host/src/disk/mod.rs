//! A disk as a file: a FUSE mount point with `disk.img`, which `losetup` turns into a block device
//! for the host's own file systems, and `stats.json`, which says live how the device below is
//! doing.
//!
//! What the kernel does to the file is what the device gets: `fsync` is a flush, a punched hole a
//! discard (its partly covered sectors are zeroed), and a zeroed range zeros. Writes go through at
//! once, since the kernel's write-back cache stays off. Nothing but these: the file cannot grow,
//! shrink or be renamed.
//!
//! `losetup --direct-io=on` saves the loop device a second cache. A process must not touch the
//! mount from a thread that holds the [`SharedDisk`]: the kernel would wait for the disk, and the
//! disk for the kernel.

mod files;

use crate::{HostError, SharedDisk, release};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// The file that is the disk.
pub const DISK: &str = "disk.img";
/// The file that describes it.
pub const STATS: &str = "stats.json";

/// Makes the text of `stats.json` each time it is opened.
pub type Stats = Box<dyn Fn() -> String + Send + Sync>;

/// How a disk is mounted.
#[derive(Default)]
pub struct Options {
    /// Refuses every write of a client.
    pub read_only: bool,
    /// Lets users other than the mounting one in; for anybody but root, `/etc/fuse.conf` must say
    /// `user_allow_other`.
    pub everybody: bool,
    /// Contents of [`STATS`]; without, there is no such file. Called from the serving thread, the
    /// disk unlocked.
    pub stats: Option<Stats>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("read_only", &self.read_only)
            .field("everybody", &self.everybody)
            .finish_non_exhaustive()
    }
}

/// A mounted disk; unmounts when dropped, if nothing holds it.
#[derive(Debug)]
pub struct DiskFile {
    dir: PathBuf,
    session: Option<BackgroundSession>,
}

impl DiskFile {
    /// Mounts on the existing directory `dir` and serves `disk` from a thread of its own. Needs
    /// `/dev/fuse`, and root or the `fusermount3` helper.
    pub fn mount(disk: SharedDisk, dir: &Path, options: Options) -> Result<Self, HostError> {
        let failed = |source| HostError::Mount {
            dir: dir.into(),
            source,
        };
        // Absolute, so that unmounting does not depend on the current directory.
        let dir = dir.canonicalize().map_err(failed)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("nandlab".into()),
            MountOption::Subtype("nandlab".into()),
            MountOption::DefaultPermissions,
            if options.read_only {
                MountOption::RO
            } else {
                MountOption::RW
            },
        ];
        config.acl = if options.everybody {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        let files = files::Files::new(disk, options);
        let session = Session::new(files, &dir, &config)
            .and_then(Session::spawn)
            .map_err(failed)?;
        Ok(Self {
            dir,
            session: Some(session),
        })
    }

    /// The file that is the disk.
    pub fn path(&self) -> PathBuf {
        self.dir.join(DISK)
    }

    /// Unmounts and waits for the serving thread. Fails with [`HostError::Unmount`] while a file is
    /// open or a loop device is attached; the disk is served on then. What the kernel wrote has
    /// reached the device, but is flushed only as far as somebody asked for it.
    pub fn unmount(&mut self) -> Result<(), HostError> {
        if self.session.is_none() {
            return Ok(());
        }
        // Not by the session's own unmount at first: that gives the mount up even where it fails.
        match unmount(&self.dir, UnmountFlags::empty()) {
            // Not mounted any more: somebody else's umount is as good.
            Ok(()) | Err(Errno::INVAL) => self.wait(),
            // An ordinary user's way is the session's, through the setuid helper.
            Err(Errno::PERM) => self.end(BackgroundSession::umount_and_join),
            Err(error) => Err(HostError::Unmount {
                dir: self.dir.clone(),
                source: error.into(),
            }),
        }
    }

    /// Waits until somebody else unmounts it, as `umount DIR` does.
    pub fn wait(&mut self) -> Result<(), HostError> {
        self.end(BackgroundSession::join)
    }

    fn end(
        &mut self,
        how: impl FnOnce(BackgroundSession) -> io::Result<()>,
    ) -> Result<(), HostError> {
        match self.session.take() {
            Some(session) => release::joined(how(session)).map_err(|source| HostError::Session {
                dir: self.dir.clone(),
                source,
            }),
            None => Ok(()),
        }
    }
}
