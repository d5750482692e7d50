//! The `[nvram]` section: memory that survives power cuts, and what it is for.

use crate::value::Size;
use crate::{DescriptionError, Document, Setting};
use nandlab_block::Nvram;
use nandlab_sim::Rail;

/// Bytes that the memory takes whole or not at all: as wide as a line of FeRAM or PRAM need be for the directories kept in it.
const LINE: u64 = 64;
/// The most bytes: the study's board took 64 MiB.
const MAX: u64 = 1 << 30;

/// A non-volatile memory as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramDescription {
    /// What it is for.
    pub holds: Holds,
    /// Its size in bytes.
    pub size: u64,
}

/// What a non-volatile memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The file system's metadata: table and directories never reach the flash while the volume is mounted.
    Metadata,
}

impl NvramDescription {
    /// Takes `[nvram]` out of a document; none if there is no such memory.
    pub(crate) fn take(document: &mut Document, has_fs: bool) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("nvram");
        let Some(holds) = section.choice("holds", &[("nothing", None), ("metadata", Some(Holds::Metadata))], None)? else {
            section.inapplicable(&["size"], "that nvram.holds something")?;
            return Ok((None, section.finish()?));
        };
        if holds == Holds::Metadata && !has_fs {
            return Err(section.refuse("holds", "\"metadata\"", "a file system (fs.type) whose metadata it could hold"));
        }
        let fine = |Size(bytes): &Size| (8 * LINE..=MAX).contains(bytes) && bytes.is_multiple_of(LINE);
        // 128 KiB: what the FTL study gave it, enough for all metadata of a 32 MiB volume.
        let expected = format!("a multiple of {LINE} bytes from 512 B to 1 GiB");
        let Size(size) = section.checked("size", Size(128 << 10), fine, &expected)?;
        Ok((Some(Self { holds, size }), section.finish()?))
    }

    /// The memory, all zeros.
    pub fn build(&self, rail: &Rail) -> Nvram {
        Nvram::new(LINE as u32, self.size / LINE, rail.clone())
    }
}
