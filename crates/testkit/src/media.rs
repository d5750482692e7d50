//! Digests of what runs leave on their media, and of what callers see of damaged ones: no byte of a
//! format changes unseen, and no answer to damage.
//!
//! A run may differ because you changed the format or an answer on purpose. Then let the kernel
//! judge the format (the tests under `slow::`), and write the digests anew:
//!
//! ```console
//! NANDLAB_RESULTS=1 cargo test -p nandlab-fat -- model
//! ```

use crate::kept::assert_line;
use nandlab_block::{BlockDevice, Lba};
use nandlab_mtd::{Mtd, Page};
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Debug, Display, Write as _};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/media.txt");

/// A digest of media.
#[derive(Clone, Debug, Default)]
pub struct Media(Sha256);

impl Media {
    /// Adds bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// Adds a value as its debug text.
    pub fn note(&mut self, value: &impl Debug) {
        let mut sink = Sink(&mut self.0);
        write!(sink, "{value:?};").expect("a digest takes all text");
    }

    /// Adds the text of an error, or what `each` notes of a success.
    pub fn note_or<T, E: Display>(
        &mut self,
        outcome: Result<T, E>,
        each: impl FnOnce(T, &mut Self),
    ) {
        match outcome {
            Ok(value) => each(value, self),
            Err(error) => self.note(&error.to_string()),
        }
    }

    /// Adds the digest of other media.
    pub fn add(&mut self, other: Self) {
        self.0.update(other.0.finalize());
    }

    /// Adds all sectors of a disk.
    pub fn disk(mut self, disk: &mut impl BlockDevice) -> Self {
        let geometry = *disk.geometry();
        let mut sector = vec![0; geometry.sector as usize];
        for lba in (0..geometry.sectors).map(Lba) {
            disk.read(lba, &mut sector).unwrap();
            self.0.update(&sector);
        }
        self
    }

    /// Adds all pages of a flash with their spare bytes, and the errors of those that it cannot
    /// read.
    pub fn flash(mut self, flash: &mut impl Mtd) -> Self {
        let geometry = flash.geometry().clone();
        let mut data = vec![0; geometry.page as usize];
        let mut spare = vec![0; geometry.oob as usize];
        for page in (0..geometry.pages()).map(Page) {
            if let Err(error) = flash.read(page, &mut data, &mut spare) {
                self.0.update(error.to_string());
            }
            self.0.update(&data);
            self.0.update(&spare);
        }
        self
    }

    /// Asserts that the digest is the kept one of this name.
    ///
    /// # Panics
    /// If it is another, or the file has none.
    pub fn assert(self, name: &str) {
        let digest = self.0.finalize();
        let word = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
        let start = format!("{name}: ");
        assert_line(KEPT, &start, |_| format!("{start}{word:016x}"));
    }
}

/// Text that goes into a digest and nowhere else.
struct Sink<'a>(&'a mut Sha256);

impl fmt::Write for Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}
