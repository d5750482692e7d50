//! The judge: boots Debian's own Linux kernel under QEMU and lets it speak about an image, a device
//! or a claim.
//!
//! *Promises.* [`Oracle::ready`] finds or builds everything that a boot needs; [`Guest`] describes
//! one boot (disks, host programs, files, a shell script); its [`Report`] is data: what the script
//! said, its exit status, the trees it listed, the files it sent. A boot that did not run the
//! script to its end is an error, never an empty report. QEMU never outlives the process that
//! started it.
//!
//! *Works on* any x86-64 Debian, with or without root and hardware virtualisation: QEMU translates
//! instructions itself. The kernel package is downloaded once, with `apt-get`. A guest boots once
//! for each size of memory and is saved; each guest of that size goes on from there, within a
//! second or two. A cache directory keeps both (`$NANDLAB_CACHE/oracle`, otherwise `nandlab/oracle`
//! in `$XDG_CACHE_HOME` or `~/.cache`; about 100 MB a size); delete it to get a newer kernel.
//!
//! *Knows nothing of* the rest of the project: what is in the image is the test's business.
//!
//! # The guest script
//!
//! Runs under BusyBox `sh` with `/proc`, `/sys`, `/dev` mounted, `/mnt` empty, disks as `/dev/vda`,
//! `/dev/vdb` ... in the order given. Besides BusyBox it has
//!
//! - `mp MODULE [PARAMETER=VALUE ...]`: loads a kernel module and what it needs;
//! - `say KEY VALUE...`: adds the value to [`Report::values`] at once, one value for each line; on
//!   return the test can see it;
//! - `send KEY FILE`: puts the file's bytes into [`Report::files`];
//! - `manifest DIR [KEY]`: puts the tree into [`Report::manifests`], under `manifest` unless set
//!   otherwise.
//!
//! `send` and `manifest` share one channel with `say`, so nothing in the background may `say`
//! meanwhile. Call the programs that were added with [`Guest::program`] by their full path: BusyBox
//! prefers its own applet to a file of the same name. What the script prints goes to
//! [`Report::console`], between the kernel's messages.
//!
//! ```no_run
//! # fn main() -> Result<(), nandlab_oracle::OracleError> {
//! use nandlab_oracle::{Disk, Oracle};
//! let report = Oracle::ready()?
//!     .guest()
//!     .disk(Disk::File("fat.img".into()))
//!     .script("mp vfat && mount -r -t vfat /dev/vda /mnt && manifest /mnt && say free $(stat -f -c %f /mnt)")
//!     .run()?
//!     .success()?;
//! println!("{} clusters free, {} entries", report.value("free").unwrap_or("?"), report.manifests["manifest"].len());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod boot;
mod cache;
mod cpio;
mod error;
mod guest;
mod initrd;
mod kernel;
mod machine;
pub mod manifest;
mod module;
mod report;
mod running;
mod saved;
pub mod source;
mod tools;
mod wire;

pub use error::OracleError;
pub use guest::{Disk, Guest};
pub use manifest::Manifest;
pub use report::Report;
pub use running::Running;

use kernel::Kernel;
use std::collections::BTreeMap;

/// Everything that a boot needs, found and checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Oracle {
    kernel: Kernel,
}

impl Oracle {
    /// Finds the host's tools and the cached kernel; the first time, downloads and prepares the
    /// kernel (about 70 MB). Processes and threads that ask at the same time wait for the one that
    /// builds.
    ///
    /// Fails when a tool is missing, naming the Debian package that has it, or when the kernel
    /// cannot be downloaded or stored.
    pub fn ready() -> Result<Self, OracleError> {
        tools::require_all()?;
        Ok(Self {
            kernel: cache::kernel(&cache::directory()?)?,
        })
    }

    /// The release that judges, as `uname -r` prints it.
    pub fn kernel_release(&self) -> &str {
        &self.kernel.release
    }

    /// Builds kernel modules for the kernel that judges, with the host's `gcc` and `make`: each
    /// `.c` file of `sources` (name, text) becomes a module of its name; other files can be
    /// included. Gives the modules' bytes by name, for [`Guest::file`] and `insmod`. Kept, so that
    /// the same sources are built once; a warning of the compiler is an error.
    ///
    /// Fails when the archive does not have the headers of exactly this kernel any more, saying
    /// what to delete to get a newer kernel.
    pub fn modules(
        &self,
        sources: &[(&str, &str)],
    ) -> Result<BTreeMap<String, Vec<u8>>, OracleError> {
        module::build(&cache::directory()?, &self.kernel, sources)
    }

    /// A boot to be described.
    pub fn guest(&self) -> Guest {
        Guest::new(self.kernel.clone())
    }
}
