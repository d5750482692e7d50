//! Choices of ext2 and ext3 in `[fs]`.

use super::{ExtParts, FsError, Mounted, Parts};
use crate::value::{Size, Time};
use crate::{DescriptionError, Section};
use nandlab_block::BlockDevice;
use nandlab_ext::{Checkpoint, Ext, Format, Mode, Options};

/// What ext2 and ext3 have.
pub(super) const KEYS: [&str; 2] = ["block", "inode-size"];
/// What only ext3 has.
pub(super) const JOURNAL_KEYS: [&str; 4] =
    ["journal-size", "mode", "checkpoint", "commit-interval"];

/// ext2 or ext3 as described.
#[derive(Clone, Debug)]
pub struct ExtDescription {
    /// How it is made.
    pub format: Format,
    /// Bytes of the journal; none: mke2fs's choice for the volume's size.
    pub journal_bytes: Option<u64>,
    /// How it is mounted.
    pub mount: Options,
}

impl ExtDescription {
    pub(super) fn take(section: &mut Section, journal: bool) -> Result<Self, DescriptionError> {
        let block = section.given::<Size>("block")?;
        if let Some(Size(bytes)) = block.filter(|Size(bytes)| ![1024, 2048, 4096].contains(bytes)) {
            return Err(section.refuse("block", &bytes.to_string(), "1024, 2048 or 4096 bytes"));
        }
        let block = block.map(|Size(bytes)| bytes as u32);
        let fine =
            |bytes: &u32| bytes.is_power_of_two() && (128..=block.unwrap_or(1024)).contains(bytes);
        let format = Format {
            journal,
            block,
            ..Format::default()
        };
        let inode_size = section.checked(
            "inode-size",
            format.inode_size,
            fine,
            "a power of two from 128 to the block",
        )?;
        let mut ext = Self {
            format: Format {
                inode_size,
                ..format
            },
            journal_bytes: None,
            mount: Options::default(),
        };
        if journal {
            ext.take_journal(section)?;
        } else {
            section.inapplicable(&JOURNAL_KEYS, "type = \"ext3\"")?;
            ext.mount.mode = Mode::Unjournaled;
        }
        ext.mount.barriers = section.or("barriers", ext.mount.barriers)?;
        ext.mount.sync = section.or("sync", ext.mount.sync)?;
        Ok(ext)
    }

    fn take_journal(&mut self, section: &mut Section) -> Result<(), DescriptionError> {
        let modes = [
            ("journal", Mode::Journal),
            ("ordered", Mode::Ordered),
            ("writeback", Mode::Writeback),
        ];
        let checkpoints = [
            ("copy", Checkpoint::Copy),
            ("remap", Checkpoint::Remap),
            ("remap-late", Checkpoint::RemapLate),
        ];
        self.journal_bytes = section.given::<Size>("journal-size")?.map(|size| size.0);
        self.mount.mode = section.choice("mode", &modes, self.mount.mode)?;
        self.mount.checkpoint =
            section.choice("checkpoint", &checkpoints, self.mount.checkpoint)?;
        let fine = |Time(ns): &Time| *ns > 0;
        let usual = Time(self.mount.commit_interval);
        self.mount.commit_interval = section
            .checked("commit-interval", usual, fine, "a time above 0")?
            .0;
        Ok(())
    }

    pub(super) fn make(
        &self,
        partition: &mut dyn BlockDevice,
        section: &Section,
    ) -> Result<(), FsError> {
        let bytes = partition.geometry().bytes();
        // mke2fs's choice, on which the journal's size in blocks depends.
        let usual = if bytes < 512 << 20 { 1024 } else { 4096 };
        let block = self.format.block.unwrap_or(usual);
        let mut format = Format {
            block: Some(block),
            ..self.format.clone()
        };
        if let Some(size) = self.journal_bytes {
            let blocks = u32::try_from(size / u64::from(block))
                .ok()
                .filter(|_| size.is_multiple_of(block.into()));
            let expected = format!("whole blocks of {block} bytes, at least 1024 of them");
            format.journal_blocks = Some(
                blocks
                    .ok_or_else(|| section.refuse("journal-size", &size.to_string(), &expected))?,
            );
        }
        nandlab_ext::format(&mut &mut *partition, &format)?;
        Ok(())
    }

    pub(super) fn mount<'a>(
        &self,
        partition: Box<dyn BlockDevice + 'a>,
    ) -> Result<Mounted<'a>, FsError> {
        let sector = partition.geometry().sector;
        let mut ext = Ext::mount(partition, self.mount)?;
        let regions = ext.regions()?;
        let parts = ExtParts::new(ext.layout(), sector, regions);
        Ok(Mounted {
            parts: Parts::Ext(parts),
            fs: Box::new(ext),
        })
    }
}
