//! What one boot is made of.

use crate::kernel::Kernel;
use crate::machine::{self, Files, Start};
use crate::{OracleError, Report, Running, initrd, saved, tools};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A disk of the guest.
#[derive(Clone, Debug)]
pub enum Disk {
    /// An image file, read and written in place. What the guest wrote is in the file when the guest
    /// is gone, even when it was killed: the host's own memory is not at risk, so flushes are not
    /// forwarded. Discarded ranges are punched out.
    File(PathBuf),
    /// A server on a Unix socket, speaking NBD. Every read, write, flush and discard goes to it.
    Nbd {
        /// The path of the NBD server's socket.
        socket: PathBuf,
    },
}

/// A boot to be described: start from [`Oracle::guest`](crate::Oracle::guest), end with
/// [`run`](Self::run) or [`spawn`](Self::spawn).
#[derive(Clone, Debug)]
pub struct Guest {
    kernel: Kernel,
    pub(crate) disks: Vec<Disk>,
    pub(crate) programs: Vec<PathBuf>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) script: String,
    pub(crate) memory_mib: u32,
    pub(crate) icount_shift: Option<u8>,
    timeout: Duration,
}

impl Guest {
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            disks: Vec::new(),
            programs: Vec::new(),
            files: Vec::new(),
            script: String::new(),
            memory_mib: 1024,
            icount_shift: None,
            timeout: Duration::from_secs(240),
        }
    }

    /// Adds a disk: the first is `/dev/vda`, the next `/dev/vdb`.
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disks.push(disk);
        self
    }

    /// Takes a program of the host along, at the same (full) path, with the shared libraries that
    /// it needs.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.programs.push(path.into());
        self
    }

    /// Puts an executable file of these bytes at a full path of the guest.
    pub fn file(mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), bytes.into()));
        self
    }

    /// Memory of the guest in MiB (1024 unless set otherwise), of which its files take their part.
    /// Without virtual time the guest gets the next multiple of 512, so that few sizes are saved.
    pub fn memory(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// The longest wall time that the guest may take (240 s unless set otherwise); then it is
    /// killed.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Boots, and runs in virtual time on one processor. An instruction takes 2^`shift` ns: with 3,
    /// the guest is about as fast as a board of 125 MIPS. The clock starts at 2020-01-01, and
    /// random numbers are always the same. With the same kernel and QEMU, what does not touch a
    /// disk then takes the same time to the nanosecond, however busy the host. Waiting takes no
    /// wall time.
    pub fn icount(mut self, shift: u8) -> Self {
        self.icount_shift = Some(shift);
        self
    }

    /// What the guest does, see [the crate](crate#the-guest-script).
    pub fn script(mut self, text: impl Into<String>) -> Self {
        self.script = text.into();
        self
    }

    /// Boots, runs the script to its end and reports. The script's own exit status is part of the
    /// report, not an error.
    pub fn run(self) -> Result<Report, OracleError> {
        self.spawn()?.wait()
    }

    /// Boots and returns at once, for a test that has something to do meanwhile.
    pub fn spawn(mut self) -> Result<Running, OracleError> {
        self.check()?;
        let scratch = tempfile::Builder::new().prefix("nandlab-guest-").tempdir();
        let scratch = scratch.map_err(|source| OracleError::Io {
            path: std::env::temp_dir(),
            source,
        })?;
        let files = Files::inside(scratch.path());
        let command = match self.icount_shift {
            Some(_) => self.boot(&files)?,
            None => {
                self.memory_mib = self.memory_mib.next_multiple_of(512);
                self.go_on(&files)?
            }
        };
        Running::start(command, scratch, files, self.timeout)
    }

    fn boot(&self, files: &Files) -> Result<Command, OracleError> {
        initrd::write(&files.archive, &self.kernel.base, self)?;
        machine::command(Start::Boot(&self.kernel.packed), files, self)
    }

    fn go_on(&self, files: &Files) -> Result<Command, OracleError> {
        let state = saved::state(&self.kernel, self.memory_mib)?;
        initrd::write_files(&files.archive, self)?;
        machine::command(Start::From(&state), files, self)
    }

    /// QEMU's own message for a file that is not there is no better than ours.
    fn check(&self) -> Result<(), OracleError> {
        for program in &self.programs {
            if !program.is_file() {
                return Err(tools::missing(program));
            }
            if !program.is_absolute() {
                let program = program.display().to_string();
                let remedy = "give its full path".into();
                return Err(OracleError::MissingProgram { program, remedy });
            }
        }
        self.disks.iter().try_for_each(|disk| {
            let path: &Path = match disk {
                Disk::File(path) | Disk::Nbd { socket: path } => path,
            };
            std::fs::metadata(path)
                .map(drop)
                .map_err(|source| OracleError::Io {
                    path: path.into(),
                    source,
                })
        })
    }
}
