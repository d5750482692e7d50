//! What a description may choose from: our own layers and file systems, and those of other crates.

use crate::{FsKind, Scheme, fs, ftl};
use std::sync::Arc;

/// The translation layers and file systems that descriptions may name. There is no global one:
/// you hand it to [`Description::take_with`](crate::Description::take_with).
#[derive(Clone)]
pub struct Registry {
    pub(crate) schemes: Vec<Arc<dyn Scheme>>,
    pub(crate) file_systems: Vec<Arc<dyn FsKind>>,
}

impl Registry {
    /// Everything that nandlab brings.
    pub fn standard() -> Self {
        Self {
            schemes: ftl::standard(),
            file_systems: fs::standard(),
        }
    }

    /// Adds a translation layer. It replaces one of the same name.
    #[must_use]
    pub fn with_scheme(mut self, scheme: impl Scheme + 'static) -> Self {
        self.schemes.retain(|known| known.name() != scheme.name());
        self.schemes.push(Arc::new(scheme));
        self
    }

    /// Adds a kind of file system. Its names replace the same names of other kinds.
    #[must_use]
    pub fn with_file_system(mut self, kind: impl FsKind + 'static) -> Self {
        self.file_systems.insert(0, Arc::new(kind));
        self
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}
