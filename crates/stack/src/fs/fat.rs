//! Choices of FAT in `[fs]`.

use super::{FsDescription, FsError, Mounted, Parts};
use crate::value::Size;
use crate::{DescriptionError, Section};
use nandlab_block::BlockDevice;
use nandlab_fat::{Bits, Fat, Format, Options};

/// What only FAT has.
pub(super) const KEYS: [&str; 3] = ["cluster", "root-entries", "align"];

/// FAT as described.
#[derive(Clone, Debug)]
pub struct FatDescription {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub mount: Options,
}

impl FatDescription {
    /// Takes what stands before the partition, in the order of settings.
    pub(super) fn take_units(
        section: &mut Section,
        bits: Option<Bits>,
    ) -> Result<Self, DescriptionError> {
        const SECTOR: u64 = FsDescription::SECTOR;
        let fine =
            |Size(bytes): &Size| bytes.is_power_of_two() && (SECTOR..=128 * SECTOR).contains(bytes);
        let cluster = section.given::<Size>("cluster")?;
        if let Some(size) = cluster.filter(|size| !fine(size)) {
            return Err(section.refuse(
                "cluster",
                &size.0.to_string(),
                "a power of two from 512 to 65536 bytes",
            ));
        }
        let root_entries = section.given("root-entries")?;
        let cluster_sectors = cluster.map(|Size(bytes)| (bytes / SECTOR) as u32);
        let format = Format {
            bits,
            cluster_sectors,
            root_entries,
            ..Format::default()
        };
        Ok(Self {
            format,
            mount: Options::default(),
        })
    }

    /// And what follows it.
    pub(super) fn take_rest(
        &mut self,
        section: &mut Section,
        start: u64,
    ) -> Result<(), DescriptionError> {
        self.mount.barriers = section.or("barriers", self.mount.barriers)?;
        self.mount.sync = section.or("sync", self.mount.sync)?;
        self.format.hidden_sectors = start as u32;
        self.format.align = section.or("align", self.format.align)?;
        Ok(())
    }

    pub(super) fn make(&self, partition: &mut dyn BlockDevice) -> Result<(), FsError> {
        nandlab_fat::format(&mut &mut *partition, &self.format)?;
        Ok(())
    }

    pub(super) fn mount<'a>(
        &self,
        partition: Box<dyn BlockDevice + 'a>,
        nvram: Option<Box<dyn BlockDevice + 'a>>,
    ) -> Result<Mounted<'a>, FsError> {
        let Some(nvram) = nvram else {
            let fat = Fat::mount(partition, self.mount)?;
            return Ok(Mounted {
                parts: Parts::Fat(*fat.layout()),
                fs: Box::new(fat),
            });
        };
        let fat = Fat::mount_with_nvram(partition, nvram, self.mount)?;
        Ok(Mounted {
            parts: Parts::Fat(*fat.layout()),
            fs: Box::new(fat),
        })
    }
}
