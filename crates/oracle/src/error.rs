//! Why there is no report.

use crate::manifest::ManifestError;
use crate::wire::WireError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A boot that could not be prepared, or did not run its script to the end.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A program of the host is not there.
    #[error("{program} not found; {remedy}")]
    MissingProgram {
        /// Its name or path.
        program: String,
        /// The command that installs the program.
        remedy: String,
    },
    /// A program of the host needs a library that is not there.
    #[error("{program} needs {library}, which the host does not have")]
    MissingLibrary {
        /// The program that needs the library.
        program: PathBuf,
        /// The library, as `ldd` names it.
        library: String,
    },
    /// A program of the host failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Program {
        /// The command line that failed.
        command: String,
        /// The exit status of the program.
        status: String,
        /// What it complained of.
        stderr: String,
    },
    /// Neither `NANDLAB_CACHE`, `XDG_CACHE_HOME` nor `HOME` says where to keep the kernel.
    #[error("no cache directory: set NANDLAB_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheDirectory,
    /// A package of Debian is not there, or is not what was expected.
    #[error("Debian package {package}: {found}")]
    Package {
        /// The name of the package, or of one of its files.
        package: String,
        /// What is wrong with it.
        found: String,
    },
    /// The host's file system failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The guest was still running when its time was over, and was killed.
    #[error("guest killed: not finished after {after:?}; the end of its console:\n{console}")]
    Timeout {
        /// The time it had.
        after: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// The guest did not say what was waited for in time. It is still running.
    #[error("guest did not say `{key}` within {after:?}; the end of its console:\n{console}")]
    Silent {
        /// The key waited for.
        key: String,
        /// The time it had.
        after: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// The guest ended before its script did (or before it said what was waited for): a kernel
    /// panic, a `poweroff` in the script, QEMU refusing an argument.
    #[error(
        "guest ended early, QEMU: {status}\n{stderr}the end of the guest's console:\n{console}"
    )]
    Ended {
        /// The exit status of QEMU.
        status: String,
        /// What QEMU complained of.
        stderr: String,
        /// The last lines of the console.
        console: String,
    },
    /// The script's exit status is not zero ([`Report::success`](crate::Report::success)).
    #[error("guest script: exit status {exit}; the end of its console:\n{console}")]
    Script {
        /// The exit status of the script.
        exit: i32,
        /// The last lines of the console.
        console: String,
    },
    /// The guest's data channel carries something else than the helpers write.
    #[error("data channel: {0}")]
    Wire(#[from] WireError),
    /// A tree was listed incompletely.
    #[error("manifest `{key}`: {source}")]
    Manifest {
        /// The key it was listed under.
        key: String,
        /// The part that the manifest lacks.
        source: ManifestError,
    },
}

/// Names the file in an I/O error.
pub(crate) trait At<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T, OracleError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T, OracleError> {
        self.map_err(|source| OracleError::Io {
            path: path.as_ref().into(),
            source,
        })
    }
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T, OracleError> {
        self.map_err(io::Error::from).at(path)
    }
}
