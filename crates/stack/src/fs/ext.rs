//! ext2, ext3 and ext4 in `[fs]`.

mod worked;

use super::{
    ExtParts, FsError, FsKind, FsLayer, FsPlace, KeyGroup, Machine, Medium, Mounted, Recipe, disk,
};
use crate::value::{Size, Time};
use crate::{DescriptionError, HostDescription, Section};
use nandlab_ext::{Checkpoint, Ext, ExtVolume, Format, Mode, Options};
use nandlab_sim::Nanos;
use std::sync::Arc;
use worked::Worked;

/// The keys of all three.
const KEYS: [&str; 2] = ["block", "inode-size"];
/// The keys of those with a journal.
const JOURNAL_KEYS: [&str; 4] = ["journal-size", "mode", "checkpoint", "commit-interval"];

/// The keys of ext4.
const EXT4_KEYS: [&str; 2] = ["fast-commit", "delayed-allocation"];

pub(super) struct ExtKind;

impl FsKind for ExtKind {
    fn names(&self) -> Vec<&'static str> {
        vec!["ext2", "ext3", "ext4"]
    }

    fn keys(&self) -> Vec<KeyGroup> {
        vec![
            KeyGroup {
                keys: &KEYS,
                types: &["ext2", "ext3", "ext4"],
                needs: "type = \"ext2\", \"ext3\" or \"ext4\"",
            },
            KeyGroup {
                keys: &JOURNAL_KEYS,
                types: &["ext3", "ext4"],
                needs: "type = \"ext3\" or \"ext4\"",
            },
            KeyGroup {
                keys: &EXT4_KEYS,
                types: &["ext4"],
                needs: "type = \"ext4\"",
            },
        ]
    }

    fn shared(&self) -> &'static [&'static str] {
        &["start-sector", "size", "sync", "barriers"]
    }

    fn take(
        &self,
        name: &str,
        section: &mut Section,
    ) -> Result<(Arc<dyn FsLayer>, FsPlace), DescriptionError> {
        let ext = ExtDescription::take(section, name)?;
        Ok((Arc::new(ext), FsPlace::take(section)?))
    }
}

/// ext2, ext3 or ext4 as described.
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
    pub(super) fn take(section: &mut Section, name: &str) -> Result<Self, DescriptionError> {
        let journal = name != "ext2";
        let block = section.given::<Size>("block")?;
        if let Some(Size(bytes)) = block.filter(|Size(bytes)| ![1024, 2048, 4096].contains(bytes)) {
            return Err(section.refuse("block", &bytes.to_string(), "1024, 2048 or 4096 bytes"));
        }
        let block = block.map(|Size(bytes)| bytes as u32);
        let fine =
            |bytes: &u32| bytes.is_power_of_two() && (128..=block.unwrap_or(1024)).contains(bytes);
        let format = Format {
            journal,
            ext4: name == "ext4",
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
            ext.take_fast(section)?;
            ext.take_delayed(section)?;
        } else {
            ext.mount.mode = Mode::Unjournaled;
        }
        ext.mount.barriers = section.or("barriers", ext.mount.barriers)?;
        ext.mount.sync = section.or("sync", ext.mount.sync)?;
        Ok(ext)
    }

    fn take_journal(&mut self, section: &mut Section) -> Result<(), DescriptionError> {
        let modes: &[_] = &[
            ("journal", Mode::Journal),
            ("ordered", Mode::Ordered),
            ("writeback", Mode::Writeback),
            ("none", Mode::Unjournaled),
        ];
        // ext3 without a journal is ext2.
        let modes = &modes[..if self.format.ext4 { 4 } else { 3 }];
        let checkpoints = [
            ("copy", Checkpoint::Copy),
            ("remap", Checkpoint::Remap),
            ("remap-late", Checkpoint::RemapLate),
        ];
        self.journal_bytes = section.given::<Size>("journal-size")?.map(|size| size.0);
        self.mount.mode = section.choice("mode", modes, self.mount.mode)?;
        self.format.journal = self.mount.mode != Mode::Unjournaled;
        if let Some(bytes) = self.journal_bytes.filter(|_| !self.format.journal) {
            let expected = "no such key, since mode is \"none\"";
            return Err(section.refuse("journal-size", &bytes.to_string(), expected));
        }
        self.mount.checkpoint =
            section.choice("checkpoint", &checkpoints, self.mount.checkpoint)?;
        let fine = |Time(ns): &Time| *ns > 0;
        let usual = Time(self.mount.commit_interval);
        self.mount.commit_interval = section
            .checked("commit-interval", usual, fine, "a time above 0")?
            .0;
        Ok(())
    }

    fn take_fast(&mut self, section: &mut Section) -> Result<(), DescriptionError> {
        if !self.format.ext4 {
            return Ok(());
        }
        let fast = section.or("fast-commit", false)?;
        if fast && self.mount.mode != Mode::Ordered {
            return Err(section.refuse("fast-commit", "true", "false unless mode is \"ordered\""));
        }
        self.format.fast_commit = fast;
        self.mount.fast_commit = fast;
        Ok(())
    }

    fn take_delayed(&mut self, section: &mut Section) -> Result<(), DescriptionError> {
        if !self.format.ext4 {
            return Ok(());
        }
        let delayed = section.or("delayed-allocation", false)?;
        if delayed && !matches!(self.mount.mode, Mode::Ordered | Mode::Writeback) {
            let expected = "false unless mode is \"ordered\" or \"writeback\"";
            return Err(section.refuse("delayed-allocation", "true", expected));
        }
        self.mount.delayed_allocation = delayed;
        Ok(())
    }

    /// The format for a disk of so many bytes.
    fn format_on(&self, bytes: u64, section: &Section) -> Result<Format, FsError> {
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
            let refused = || section.refuse("journal-size", &size.to_string(), &expected);
            format.journal_blocks = Some(blocks.ok_or_else(refused)?);
        }
        Ok(format)
    }
}

impl FsLayer for ExtDescription {
    fn name(&self) -> &'static str {
        "ext"
    }

    fn page_cost(&self, host: &HostDescription) -> Nanos {
        host.time(host.costs.ext_page)
    }

    fn make(&self, medium: Medium<'_>, section: &Section) -> Result<(), FsError> {
        let mut disk = disk(medium, self.name())?;
        let format = self.format_on(disk.geometry().bytes(), section)?;
        nandlab_ext::format(&mut disk, &format).map_err(FsError::make)?;
        Ok(())
    }

    fn mount<'a>(&self, medium: Medium<'a>, machine: Machine<'a>) -> Result<Mounted<'a>, FsError> {
        let mut options = self.mount;
        if let Some(memory) = machine.memory {
            options.cache_bytes = memory.clean_bytes();
            options.dirty_bytes_max = memory.dirty_bytes_max();
        }
        let disk = disk(medium, self.name())?;
        let sector = disk.geometry().sector;
        let mut ext = Ext::mount(disk, options).map_err(FsError::mount)?;
        let regions = ext.regions().map_err(FsError::mount)?;
        let parts = ExtParts::new(ext.layout(), sector, regions);
        let journaled = self.format.journal;
        Ok(Mounted {
            parts: Arc::new(parts),
            fs: Box::new(Worked::new(ext, machine.processor, journaled)),
        })
    }

    fn recipe(&self, _: u64, _: bool) -> Option<Recipe> {
        Some(Recipe::Disk(Box::new(ExtVolume {
            format: self.format.clone(),
            options: self.mount,
        })))
    }
}
