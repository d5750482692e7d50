//! Where on the device an error or a finding is.
//!
//! *Promises.* The first byte of the structure that is meant, by arithmetic alone: nothing is read.
//! *Knows nothing of* what is wrong there.

use crate::{Fat, FatError, finding::Finding};
use nandlab_block::BlockDevice;

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    fn sector_byte(&self, sector: u32) -> u64 {
        u64::from(sector) * u64::from(self.store.layout.sector)
    }

    /// Where the first table has a cluster's entry.
    fn entry_byte(&self, cluster: u32) -> u64 {
        let layout = &self.store.layout;
        let first = layout.fat_start + layout.active.unwrap_or(0) * layout.fat_sectors;
        self.sector_byte(first) + u64::from(cluster) * u64::from(layout.bits.count()) / 8
    }

    /// The byte of the device where an error was met, if it is one place.
    pub fn place_of_error(&mut self, error: &FatError) -> Option<u64> {
        match *error {
            FatError::Device(error) => error.place(self.device_mut().geometry().sector),
            FatError::Boot { offset, .. } => Some(offset.into()),
            FatError::Chain { cluster, .. } if cluster > 0 => Some(self.entry_byte(cluster)),
            _ => None,
        }
    }

    /// The byte of the device where a finding is, if it is one place.
    pub fn place_of(&self, finding: &Finding) -> Option<u64> {
        match *finding {
            Finding::InUse => Some(self.store.layout.state_offset() as u64),
            Finding::Backup { sector, offset } => Some(self.sector_byte(sector) + offset as u64),
            Finding::NoInfo(sector) => Some(self.sector_byte(sector)),
            Finding::FreeCount { .. } => self
                .store
                .layout
                .info
                .map(|sector| self.sector_byte(sector)),
            Finding::Copies { copy, sector } => {
                let layout = &self.store.layout;
                Some(self.sector_byte(layout.fat_start + copy * layout.fat_sectors + sector))
            }
            Finding::Media { .. } => Some(self.entry_byte(0)),
            Finding::Unclean { .. } => Some(self.entry_byte(1)),
            Finding::Chain { cluster, .. } => Some(self.entry_byte(cluster)),
            Finding::CrossLink { cluster, .. } => {
                Some(self.sector_byte(self.store.layout.cluster_sector(cluster)))
            }
            Finding::Start { at, .. }
            | Finding::TwoNames { at, .. }
            | Finding::Cycle { at, .. }
            | Finding::TooLong { at, .. }
            | Finding::Excess { at, .. }
            | Finding::DirectorySize { at, .. }
            | Finding::Dot { at, .. }
            | Finding::DotDot { at, .. }
            | Finding::NoDotDot { at, .. }
            | Finding::ShortName { at, .. }
            | Finding::Label { at, .. }
            | Finding::LongSlot { at, .. }
            | Finding::Behind { at, .. }
            | Finding::LongName { at, .. }
            | Finding::Twice { at, .. } => Some(at),
            Finding::Lost(_) | Finding::Deep { .. } => None,
        }
    }
}
