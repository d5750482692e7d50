//! Whether a directory holds what a stream of calls must have left there.
//!
//! *Promises.* Names, lengths and every byte are compared with what the calls alone say, and the
//! sums are those of the bytes that were read. *Needs* memory for one step of a file and the names.

use nandlab_vfs::{Errno, FileSystem, FileType, Ino, tree};
use nandlab_workload::files::{Expected, FileCalls, FileId};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Bytes that are compared at a time.
const STEP: usize = 64 << 10;
/// The directory that is on every new volume of ext.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// A file's identity, as `sha256sum` would tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileSum {
    /// The name of the file.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// SHA-256 of the contents, in lower-case hexadecimal.
    pub sha256: String,
}

/// How a directory differs from what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The file system refused.
    #[error("{name}: {errno} ({})", .errno.name())]
    Refused {
        /// The file; `.` for the directory.
        name: String,
        /// The errno that the call returned.
        errno: Errno,
    },
    /// A file is not there.
    #[error("{name}: not found, expected a file of {expected} bytes")]
    Missing {
        /// The name of the file.
        name: String,
        /// The length that it should have, in bytes.
        expected: u64,
    },
    /// A file is there that nobody made, or that was removed.
    #[error("{name}: found, expected no such name")]
    Extra {
        /// The name of the file.
        name: String,
    },
    /// A file has another length.
    #[error("{name}: found {found} bytes, expected {expected}")]
    Length {
        /// The name of the file.
        name: String,
        /// The length that it has, in bytes.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// A file holds something else.
    #[error("{name}: byte {offset} is {found:#04x}, expected {expected:#04x}")]
    Contents {
        /// The name of the file.
        name: String,
        /// The first such byte.
        offset: u64,
        /// The byte that the file holds.
        found: u8,
        /// What it must be.
        expected: u8,
    },
}

/// What every file must be, in the order of their numbers, derived from the calls alone.
pub fn expected_sums<C: FileCalls + ?Sized>(expected: &Expected, calls: &C) -> Vec<FileSum> {
    let sum = |(file, bytes): (FileId, u64)| {
        let mut hash = Sha256::new();
        let mut buf = vec![0; STEP];
        for at in (0..bytes).step_by(STEP) {
            let piece = &mut buf[..(bytes - at).min(STEP as u64) as usize];
            expected.fill(file, at, piece);
            hash.update(piece);
        }
        FileSum {
            name: calls.name(file),
            bytes,
            sha256: hex(hash),
        }
    };
    expected.files().map(sum).collect()
}

/// Compares the directory `dir` with what is expected, apart from what mkfs makes there. Gives what
/// was found, in the order of the files' numbers.
pub fn verify<F, C>(
    fs: &mut F,
    dir: Ino,
    expected: &Expected,
    calls: &C,
) -> Result<Vec<FileSum>, VerifyError>
where
    F: FileSystem + ?Sized,
    C: FileCalls + ?Sized,
{
    let refused = |errno| VerifyError::Refused {
        name: ".".into(),
        errno,
    };
    let made_by_mkfs = |name: &[u8], kind| name == LOST_AND_FOUND && kind == FileType::Directory;
    let found = tree::names(fs, dir).map_err(refused)?.into_iter();
    let mut names: BTreeSet<Vec<u8>> = found
        .filter(|(name, kind)| !made_by_mkfs(name, *kind))
        .map(|(name, _)| name)
        .collect();
    let mut sums = Vec::new();
    for (file, bytes) in expected.files() {
        let name = calls.name(file);
        if !names.remove(name.as_bytes()) {
            return Err(VerifyError::Missing {
                name,
                expected: bytes,
            });
        }
        sums.push(compare(fs, dir, expected, (file, bytes), name)?);
    }
    match names.pop_first() {
        Some(name) => Err(VerifyError::Extra {
            name: String::from_utf8_lossy(&name).into_owned(),
        }),
        None => Ok(sums),
    }
}

fn compare<F: FileSystem + ?Sized>(
    fs: &mut F,
    dir: Ino,
    expected: &Expected,
    (file, bytes): (FileId, u64),
    name: String,
) -> Result<FileSum, VerifyError> {
    let refused = |errno| VerifyError::Refused {
        name: name.clone(),
        errno,
    };
    let attr = fs.lookup(dir, name.as_bytes()).map_err(refused)?;
    let outcome = match attr.size == bytes {
        true => sum_of(fs, attr.ino, expected, (file, bytes), &name),
        false => Err(VerifyError::Length {
            name: name.clone(),
            found: attr.size,
            expected: bytes,
        }),
    };
    fs.forget(attr.ino, 1);
    outcome
}

fn sum_of<F: FileSystem + ?Sized>(
    fs: &mut F,
    ino: Ino,
    expected: &Expected,
    (file, bytes): (FileId, u64),
    name: &str,
) -> Result<FileSum, VerifyError> {
    let mut hash = Sha256::new();
    let mut at = 0;
    let mut found = vec![0; STEP];
    let mut wanted = vec![0; STEP];
    while at < bytes {
        let step = (bytes - at).min(STEP as u64) as usize;
        let count = fs
            .read(ino, at, &mut found[..step])
            .map_err(|errno| VerifyError::Refused {
                name: name.into(),
                errno,
            })?;
        if count == 0 {
            return Err(VerifyError::Length {
                name: name.into(),
                found: at,
                expected: bytes,
            });
        }
        expected.fill(file, at, &mut wanted[..count]);
        if let Some(wrong) = (0..count).find(|i| found[*i] != wanted[*i]) {
            let offset = at + wrong as u64;
            let found = found[wrong];
            let expected = wanted[wrong];
            return Err(VerifyError::Contents {
                name: name.into(),
                offset,
                found,
                expected,
            });
        }
        hash.update(&found[..count]);
        at += count as u64;
    }
    Ok(FileSum {
        name: name.into(),
        bytes,
        sha256: hex(hash),
    })
}

fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
