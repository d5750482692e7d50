//! Why an image was not made, read or changed.

use crate::partitions::PartitionError;
use crate::words::placed;
use nandlab_scratch::ScratchError;
use nandlab_vfs::{Cause, Errno};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A name or path in bytes, as messages show it: `/a/b`, what is not text escaped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown(pub Vec<u8>);

impl Shown {
    /// A path in a tree.
    pub fn path(path: &[u8]) -> Self {
        Self([b"/", path].concat())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '\\' {
                    write!(f, "{}", character.escape_default())?
                } else {
                    write!(f, "{character}")?
                }
            }
            chunk
                .invalid()
                .iter()
                .try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

impl serde::Serialize for Shown {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether more than the caller's own mistake lies behind an error.
pub(crate) fn has_cause(error: Errno) -> bool {
    matches!(
        error,
        Errno::Io | Errno::Unclean | Errno::ReadOnly | Errno::NoSpace | Errno::NotSupported
    )
}

/// Why an image was not made, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    File {
        /// The file that cannot be read or written.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Nothing that is known begins anywhere in the image.
    #[error("{}: no known format: {tried}", path.display())]
    Unknown {
        /// The path of the image.
        path: PathBuf,
        /// What was looked for.
        tried: String,
    },
    /// A layer of the image cannot be opened.
    #[error("{layer}: {why}")]
    Open {
        /// The layer that cannot be attached or mounted.
        layer: &'static str,
        /// What its reader says.
        why: String,
    },
    /// A volume cannot be made.
    #[error("{format}: {why}")]
    Make {
        /// The format that cannot be made.
        format: &'static str,
        /// What its maker says.
        why: String,
    },
    /// The file system refused a call.
    #[error("{path}: {error}{}{}", if why.is_empty() { String::new() } else { format!(" ({why})") }, advice(*error))]
    Call {
        /// The path of the entry.
        path: Shown,
        /// The errno that the file system returned.
        error: Errno,
        /// What lay behind that, if it is known.
        why: String,
    },
    /// The format cannot hold an entry.
    #[error("{path}: {what} is {found}, expected {expected}")]
    Entry {
        /// The path of the entry.
        path: Shown,
        /// What is wrong with it.
        what: &'static str,
        /// The value that the entry has.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// A list of entries makes no sense.
    #[error("{}: line {line}: found {found:?}, expected {expected}", path.display())]
    Line {
        /// The path of the list.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
        /// The form that a line has.
        expected: &'static str,
    },
    /// An archive makes no sense.
    #[error("{}: byte {offset}: {why}", path.display())]
    Archive {
        /// The path of the archive.
        path: PathBuf,
        /// Where the entry begins.
        offset: u64,
        /// The reason why it cannot be read.
        why: String,
    },
    /// Another program holds a lock on the image.
    #[error(
        "{}: another program is writing this image or has it mounted; try again when that has \
         ended",
        path.display()
    )]
    Busy {
        /// The path of the image.
        path: PathBuf,
    },
    /// A partition table makes no sense, or does not fit its medium.
    #[error(transparent)]
    Table(#[from] PartitionError),
    /// What was asked for cannot be.
    #[error("{what}: found {found}, expected {expected}")]
    Choice {
        /// The setting that was chosen.
        what: &'static str,
        /// The value that was given.
        found: String,
        /// What it may be.
        expected: String,
    },
}

impl From<ScratchError> for ImageError {
    fn from(ScratchError { path, error }: ScratchError) -> Self {
        Self::File { path, error }
    }
}

impl ImageError {
    /// A failure of the operating system at a path.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File {
            path: path.into(),
            error,
        }
    }

    /// The same with what lay behind the refusal of a file system.
    pub(crate) fn explained(self, cause: Option<Cause>) -> Self {
        match (self, cause) {
            (Self::Call { path, error, why }, Some(cause)) if has_cause(error) => {
                let why = [why, placed(cause.at, &cause.what())]
                    .into_iter()
                    .filter(|why| !why.is_empty())
                    .collect::<Vec<_>>()
                    .join(": ");
                Self::Call { path, error, why }
            }
            (error, _) => error,
        }
    }

    /// Whether what was given is to blame, rather than damage found in the image.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Call { .. })
    }
}

/// The remedy for an errno, if the command has one.
fn advice(error: Errno) -> &'static str {
    match error {
        Errno::NoSpace => {
            "; make the image larger by --size of create, or on flash by --grow of an edit"
        }
        Errno::NotEmpty => "; remove its entries too, by --recursive of rm",
        _ => "",
    }
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, ImageError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_on_one_line_whatever_their_bytes() {
        assert_eq!(
            Shown::path(b"gr\xc3\xb6\xc3\x9fer/a\nb\\\xff\xfe\x1b[0m").to_string(),
            "/größer/a\\nb\\\\\\xff\\xfe\\u{1b}[0m"
        );
    }
}
