//! Where the parts of a mounted volume lie, for those who count what goes where.

use nandlab_ext::{Layout, Region};
use std::ops::Range;

/// The parts of a volume.
#[derive(Clone, Debug)]
pub enum Parts {
    /// Of FAT: what its layout says.
    Fat(nandlab_fat::Layout),
    /// Of ext2 and ext3.
    Ext(ExtParts),
    /// A file system whose writes have no place that stays, or nobody tells.
    Untold {
        /// Sectors of the volume; 0 on flash itself.
        sectors: u64,
    },
}

impl Parts {
    /// Sectors of the volume.
    pub fn sectors(&self) -> u64 {
        match self {
            Self::Fat(layout) => layout.sectors.into(),
            Self::Ext(parts) => parts.sectors,
            Self::Untold { sectors } => *sectors,
        }
    }
}

impl From<nandlab_fat::Layout> for Parts {
    fn from(layout: nandlab_fat::Layout) -> Self {
        Self::Fat(layout)
    }
}

/// The parts of an ext volume, in sectors.
#[derive(Clone, Debug)]
pub struct ExtParts {
    /// Sectors of the volume.
    pub sectors: u64,
    /// Sectors of a block.
    pub block_sectors: u64,
    /// Blocks of the volume.
    pub blocks: u32,
    /// In order; between them lie contents, directories and block numbers of files.
    regions: Vec<(Range<u64>, Region)>,
}

impl ExtParts {
    /// Of a layout on sectors of so many bytes, with its regions in blocks, in order.
    pub(super) fn new(layout: &Layout, sector: u32, regions: Vec<(Range<u32>, Region)>) -> Self {
        let ratio = u64::from(layout.block / sector);
        let sectors =
            |blocks: Range<u32>| u64::from(blocks.start) * ratio..u64::from(blocks.end) * ratio;
        let regions = regions
            .into_iter()
            .map(|(blocks, region)| (sectors(blocks), region))
            .collect();
        Self {
            sectors: u64::from(layout.blocks) * ratio,
            block_sectors: ratio,
            blocks: layout.blocks,
            regions,
        }
    }

    /// The region that a sector lies in; none: what files and directories have.
    pub fn of(&self, sector: u64) -> Option<Region> {
        let at = self
            .regions
            .partition_point(|(sectors, _)| sectors.end <= sector);
        self.regions
            .get(at)
            .filter(|(sectors, _)| sectors.contains(&sector))
            .map(|(_, region)| *region)
    }
}
