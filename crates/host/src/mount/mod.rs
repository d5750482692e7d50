//! A file system of ours as a directory that real programs use, by FUSE.
//!
//! *Promises.* Every request is answered, by the one thread that calls [`serve`]: the file system
//! below sees one call at a time and need not know threads. What a program has fsynced is as
//! durable as the file system makes it; between calls the write-back of
//! [`flusher`](nandlab_pagecache::flusher) and the file system's own work go on by the wall's clock.
//! At a clean end everything is written and the volume marked clean.
//!
//! *Knows nothing of* what is below the file system. Rights are the kernel's business
//! (`default_permissions`), and so are its caches: nobody else changes the volume.
//!
//! *Power loss.* A process that is killed leaves what its file system has made durable, and what
//! that has written besides.
//!
//! | module | its one idea |
//! |---|---|
//! | `bridge` | the kernel's requests become calls, put in a queue |
//! | `listing` | `readdir` and `readdirplus` |
//! | `served` | the file system with its clockwork, which answers the queue |
//! | `lists` | access control lists beside permission bits |
//! | `privileges` | rights that end with a write |
//! | `attributes` | types, times and device numbers, there and back |

mod attributes;
mod bridge;
mod listing;
mod lists;
mod privileges;
mod served;

use crate::{HostError, release};
use fuser::{Config, MountOption, Session, SessionACL};
use nandlab_pagecache::flusher::Limits;
use nandlab_sim::Clock;
use nandlab_vfs::FileSystem;
use served::{Served, Step};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, mpsc::sync_channel};

/// The name below the root, in no listing, whose contents are [`Options::stats`].
pub const STATS: &str = ".nandlab.json";
/// Requests that may be queued; a client with more blocks.
const QUEUE: usize = 64;
/// Bytes of memory by which write-back is measured, unless set otherwise.
const MEMORY: u64 = 256 << 20;

/// How a file system is mounted.
pub struct Options<'a> {
    /// What `df` and `findmnt` show as the source.
    pub source: String,
    /// Refuses every call that changes the volume.
    pub read_only: bool,
    /// Lets users other than the mounting one in; for anybody but root, `/etc/fuse.conf` must say
    /// `user_allow_other`.
    pub everybody: bool,
    /// The kernel keeps written contents in its page cache until an fsync or its own write-back,
    /// as for its own file systems. Otherwise each write reaches the file system at once.
    pub write_back: bool,
    /// Threads that take requests from the kernel.
    pub threads: NonZeroUsize,
    /// When dirty data in memory is written.
    pub limits: Limits,
    /// Contents of [`STATS`], made anew each time it is opened; without, there is no such file.
    pub stats: Option<Box<dyn FnMut() -> String + 'a>>,
    /// The device's virtual time: with it, no answer is given before as much of the wall's has gone
    /// by.
    pub pace: Option<Clock>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let threads = NonZeroUsize::MIN.saturating_add(1);
        let source = "nandlab".into();
        Self {
            source,
            read_only: false,
            everybody: false,
            write_back: false,
            threads,
            limits: Limits::new(MEMORY),
            stats: None,
            pace: None,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("source", &self.source)
            .field("read_only", &self.read_only)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// Mounts on the existing directory `dir` and serves `fs` from the calling thread until it is
/// unmounted, as `umount DIR` does; then unmounts `fs` itself. `ready` is called when programs can
/// use it. Needs `/dev/fuse`, and root or the `fusermount3` helper.
pub fn serve(
    fs: &mut dyn FileSystem,
    dir: &Path,
    options: Options<'_>,
    ready: impl FnOnce(),
) -> Result<(), HostError> {
    let failed = |source| HostError::Mount {
        dir: dir.into(),
        source,
    };
    let dir = dir.canonicalize().map_err(failed)?;
    let (queue, requests) = sync_channel(QUEUE);
    let notifier = Arc::default();
    let bridge = bridge::Bridge::new(queue, &options, Arc::clone(&notifier));
    let session = Session::new(bridge, &dir, &config(&options)).map_err(failed)?;
    // Before the first request.
    _ = notifier.set(session.notifier());
    let session = session.spawn().map_err(failed)?;
    ready();
    let mut served = Served::new(fs, options);
    while served.step(&requests) == Step::Served {}
    let joined = release::joined(session.join());
    // However the session ended, what was written is not lost with it.
    served.end().map_err(|why| HostError::FileSystem {
        dir: dir.clone(),
        why,
    })?;
    joined.map_err(|source| HostError::Session { dir, source })
}

fn config(options: &Options<'_>) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        // A comma would begin another option.
        MountOption::FSName(options.source.replace(',', "_")),
        MountOption::Subtype("nandlab".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        if options.read_only {
            MountOption::RO
        } else {
            MountOption::RW
        },
    ];
    if rustix::process::getuid().is_root() {
        config
            .mount_options
            .extend([MountOption::Dev, MountOption::Suid]);
    }
    config.acl = if options.everybody {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.get());
    config
}
