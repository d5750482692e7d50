//! What can be wrong with a description, and where it stands.

use std::fmt;
use std::sync::Arc;

/// Where something stands in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file as a whole.
    File(Arc<str>),
    /// At a line and a column of a file, both from 1; columns count characters.
    At {
        /// The path of the file.
        file: Arc<str>,
        /// The line, counted from 1.
        line: u32,
        /// The column, counted from 1.
        column: u32,
    },
    /// In an override, as it was given.
    Override(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{file}"),
            Self::At { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override(text) => write!(f, "--set {text}"),
        }
    }
}

/// A description that describes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The file could not be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The path of the file.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The text is not TOML.
    #[error("{place}: {reason}")]
    Syntax {
        /// The place where the parser stopped.
        place: Place,
        /// What the parser says.
        reason: String,
    },
    /// An override that is not one.
    #[error("--set {found}: expected section.key=value")]
    Override {
        /// The override as it was given.
        found: String,
    },
    /// A section that nobody asked for.
    #[error("{place}: [{found}]: unknown section, {hint}")]
    UnknownSection {
        /// The place of the section's header.
        place: Place,
        /// The name of the section.
        found: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A key that its section does not have.
    #[error("{place}: {key}: unknown key, {hint}")]
    UnknownKey {
        /// The place of the key.
        place: Place,
        /// The key as `section.key`.
        key: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// A value of the wrong type or outside its range.
    #[error("{place}: {key}: found {found}, expected {expected}")]
    Value {
        /// Where the value stands, or the section that lacks it.
        place: Place,
        /// The key as `section.key`.
        key: String,
        /// The value in the description.
        found: String,
        /// The values that the key takes.
        expected: String,
    },
    /// A key that must be there.
    #[error("{place}: {key}: missing, expected {expected}")]
    Missing {
        /// The section, or the file if there is no such section.
        place: Place,
        /// The key as `section.key`.
        key: String,
        /// The values that the key takes.
        expected: String,
    },
    /// A key that has no effect beside the others.
    #[error("{place}: {key}: has no effect, it needs {needs}")]
    Inapplicable {
        /// The place of the key.
        place: Place,
        /// The key as `section.key`.
        key: String,
        /// The condition that does not hold.
        needs: String,
    },
    /// A key beside another one that sets the same.
    #[error("{place}: {key}: conflicts with {other}; give one of them")]
    Conflict {
        /// The place of the key.
        place: Place,
        /// The key as `section.key`.
        key: String,
        /// The other key, likewise.
        other: String,
    },
}
