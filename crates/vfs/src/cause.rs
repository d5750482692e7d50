//! What lay behind the error of a call, as a chain of errors.
//!
//! *Promises.* The chain starts with the call and its file. The error of the file system follows,
//! and the error of the lowest layer that knew one ends it. Nothing is allocated before a call has
//! failed.

use crate::Ino;
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::{error::Error, fmt};
use nandlab_sim::Chain;

/// A call to a file system: its name, and the file as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// What the call does.
    pub verb: &'static str,
    /// The inode that the caller gave.
    pub ino: Option<Ino>,
    /// The name in that directory; empty if the call takes none.
    pub name: &'a [u8],
}

impl<'a> Call<'a> {
    /// A call that concerns the whole file system.
    pub const fn new(verb: &'static str) -> Self {
        Self {
            verb,
            ino: None,
            name: b"",
        }
    }

    /// A call that concerns one inode.
    pub const fn on(verb: &'static str, ino: Ino) -> Self {
        Self::named(verb, ino, b"")
    }

    /// A call that concerns a name in a directory.
    pub const fn named(verb: &'static str, dir: Ino, name: &'a [u8]) -> Self {
        Self {
            verb,
            ino: Some(dir),
            name,
        }
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb)?;
        if !self.name.is_empty() {
            write!(f, " \"{}\"", self.name.escape_ascii())?;
        }
        match self.ino {
            None => Ok(()),
            Some(ino) if self.name.is_empty() => write!(f, " of {ino}"),
            Some(ino) => write!(f, " in {ino}"),
        }
    }
}

/// A call that outlives its arguments.
#[derive(Clone, Debug)]
pub(crate) struct CallBuf {
    verb: &'static str,
    ino: Option<Ino>,
    name: Vec<u8>,
}

impl From<Call<'_>> for CallBuf {
    fn from(call: Call<'_>) -> Self {
        Self {
            verb: call.verb,
            ino: call.ino,
            name: call.name.into(),
        }
    }
}

/// An error with the call that met it.
///
/// Its text names the call. [`source`](Error::source) leads to the file system's error and from
/// there down to the medium; [`Chain`] prints all of them.
#[derive(Debug)]
pub struct Cause {
    /// The byte of the device where the error was met, if that is one place.
    pub at: Option<u64>,
    call: CallBuf,
    error: Box<dyn Error + Send + Sync>,
}

impl Cause {
    pub(crate) fn new(
        call: CallBuf,
        at: Option<u64>,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self {
            at,
            call,
            error: Box::new(error),
        }
    }

    /// The call that failed.
    pub fn call(&self) -> Call<'_> {
        Call {
            verb: self.call.verb,
            ino: self.call.ino,
            name: &self.call.name,
        }
    }

    /// The error and what lay behind it, in words, without the call.
    pub fn what(&self) -> String {
        Chain(&*self.error).to_string()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call().fmt(f)?;
        match self.at {
            Some(at) => write!(f, ", byte {at} of the device"),
            None => Ok(()),
        }
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.error)
    }
}

/// An error that an earlier one led to.
#[derive(Debug)]
pub(crate) struct Led<E> {
    pub error: E,
    pub by: Cause,
}

impl<E: Error> fmt::Display for Led<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl<E: Error + 'static> Error for Led<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("page 7: uncorrectable")]
    struct Page;

    #[derive(Debug, thiserror::Error)]
    #[error("device: {0}")]
    struct Device(#[from] Page);

    #[test]
    fn a_chain_names_each_layer_once() {
        let call = Call::named("create", Ino(5), b"a\n");
        let cause = Cause::new(call.into(), Some(4096), Device(Page));
        assert_eq!(
            Chain(&cause).to_string(),
            "create \"a\\n\" in inode 5, byte 4096 of the device: device: page 7: uncorrectable"
        );
        assert_eq!(cause.what(), "device: page 7: uncorrectable");
        let lowest = cause.source().and_then(Error::source).unwrap();
        assert!(lowest.is::<Page>());
    }

    #[test]
    fn a_call_names_its_file() {
        assert_eq!(Call::new("sync").to_string(), "sync");
        assert_eq!(Call::on("read", Ino(9)).to_string(), "read of inode 9");
    }
}
