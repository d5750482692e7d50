//! Where the parts of a mounted volume lie, for counting what goes where.
//!
//! *Promises.* Every sector lies in one region. *Works on* what stays where it is on a volume: the
//! caller says which file contents belong to, and that a subdirectory of FAT is no file. On ext,
//! names and block pointers are distinguished from contents by [their bytes](super::structure).

use super::structure::is_structure;
use nandlab_ext::Layout;
use std::fmt;
use std::ops::Range;

/// A region of a volume, in the order in which reports list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// The boot sector, with the mark "in use".
    Boot,
    /// The other reserved sectors: file system information, copies.
    Reserved,
    /// A copy of the table, from 1.
    Table(u32),
    /// The root directory of FAT12 and FAT16.
    Root,
    /// ext: superblocks and group descriptors.
    Super,
    /// ext: bitmaps of blocks and inodes.
    Bitmaps,
    /// Blocks of inode tables, in ext.
    Inodes,
    /// Blocks of the journal, in ext.
    Journal,
    /// ext: directories, block pointers, attributes.
    Structure,
    /// Metadata of another file system, by its own name.
    Metadata(&'static str),
    /// Contents of files, by a name that the caller gives. On FAT, directories too.
    Clusters(&'static str),
    /// Behind the last cluster.
    Outside,
}

impl Region {
    /// Whether it says where files are rather than what they hold. A journal does not, since it may
    /// hold both.
    pub fn is_metadata(&self) -> bool {
        !matches!(self, Self::Clusters(_) | Self::Journal)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot => f.write_str("boot sector"),
            Self::Reserved => f.write_str("reserved sectors"),
            Self::Table(copy) => write!(f, "FAT {copy}"),
            Self::Root => f.write_str("root directory"),
            Self::Super => f.write_str("superblocks and descriptors"),
            Self::Bitmaps => f.write_str("bitmaps"),
            Self::Inodes => f.write_str("inodes"),
            Self::Journal => f.write_str("journal"),
            Self::Structure => f.write_str("directories and block numbers"),
            Self::Metadata(what) | Self::Clusters(what) => f.write_str(what),
            Self::Outside => f.write_str("behind the clusters"),
        }
    }
}

/// The parts of a mounted volume.
pub trait Parts: fmt::Debug + Send + Sync {
    /// Sectors of the volume; 0 on flash itself.
    fn sectors(&self) -> u64;

    /// Sectors of the unit in which the file system allocates.
    fn unit(&self) -> u64 {
        1
    }

    /// Whether what a call writes reaches the disk before the call returns.
    fn writes_at_once(&self) -> bool {
        false
    }

    /// The region of a unit that begins at `sector` and holds `block`, which is empty if unknown.
    /// `contents` names file contents.
    fn region(&self, sector: u64, block: &[u8], contents: &'static str) -> Region;

    /// Divides what is read or written from sector `first` on by regions, in sectors of `sector`
    /// bytes. Calls `each` with every run of sectors.
    fn split(
        &self,
        (first, sector, data): (u64, u64, &[u8]),
        contents: &'static str,
        each: &mut dyn FnMut(Region, Range<u64>),
    ) {
        let unit = self.unit();
        let blocks = data.chunks((unit * sector) as usize);
        let mut run: Option<(Region, Range<u64>)> = None;
        for (at, block) in (first..).step_by(unit as usize).zip(blocks) {
            let region = self.region(at, block, contents);
            let end = at + block.len() as u64 / sector;
            match &mut run {
                Some((same, range)) if *same == region => range.end = end,
                _ => {
                    if let Some((region, range)) = run.replace((region, at..end)) {
                        each(region, range);
                    }
                }
            }
        }
        if let Some((region, range)) = run {
            each(region, range);
        }
    }
}

/// A file system whose writes have no place that stays.
#[derive(Clone, Copy, Debug)]
pub struct Undivided {
    /// Sectors of the volume; 0 on flash itself.
    pub sectors: u64,
}

impl Parts for Undivided {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn region(&self, _: u64, _: &[u8], contents: &'static str) -> Region {
        Region::Clusters(contents)
    }
}

impl Parts for nandlab_fat::Layout {
    fn sectors(&self) -> u64 {
        self.sectors.into()
    }

    fn writes_at_once(&self) -> bool {
        true
    }

    fn region(&self, sector: u64, _: &[u8], contents: &'static str) -> Region {
        let fat_start = u64::from(self.fat_start);
        let data_start = u64::from(self.data_start);
        let end = data_start + u64::from(self.clusters) * u64::from(self.cluster_sectors);
        match sector {
            0 => Region::Boot,
            s if s < fat_start => Region::Reserved,
            s if s < u64::from(self.root_start) => {
                Region::Table(1 + ((s - fat_start) / u64::from(self.fat_sectors)) as u32)
            }
            s if s < data_start => Region::Root,
            s if s < end => Region::Clusters(contents),
            _ => Region::Outside,
        }
    }
}

/// The parts of an ext volume, in sectors.
#[derive(Clone, Debug)]
pub struct ExtParts {
    /// Sectors of the volume.
    sectors: u64,
    /// Sectors of a block.
    block_sectors: u64,
    /// Blocks of the volume.
    blocks: u32,
    /// In order. Between them lie contents, directories and block pointers.
    regions: Vec<(Range<u64>, nandlab_ext::Region)>,
}

impl ExtParts {
    /// Of a layout on sectors of so many bytes, with its regions in blocks, in order.
    pub(super) fn new(
        layout: &Layout,
        sector: u32,
        regions: Vec<(Range<u32>, nandlab_ext::Region)>,
    ) -> Self {
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

    fn fixed(&self, sector: u64) -> Option<nandlab_ext::Region> {
        let at = self
            .regions
            .partition_point(|(sectors, _)| sectors.end <= sector);
        self.regions
            .get(at)
            .filter(|(sectors, _)| sectors.contains(&sector))
            .map(|(_, region)| *region)
    }
}

impl Parts for ExtParts {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn unit(&self) -> u64 {
        self.block_sectors
    }

    fn region(&self, sector: u64, block: &[u8], contents: &'static str) -> Region {
        use nandlab_ext::Region as Fixed;
        match self.fixed(sector) {
            Some(Fixed::Super) => Region::Super,
            Some(Fixed::Bitmaps) => Region::Bitmaps,
            Some(Fixed::Inodes) => Region::Inodes,
            Some(Fixed::Journal) => Region::Journal,
            None if sector >= self.sectors => Region::Outside,
            None if !block.is_empty() && is_structure(block, self.blocks) => Region::Structure,
            None => Region::Clusters(contents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::Ram;
    use nandlab_fat::{Bits, Format, Layout, format};

    /// One reserved sector, two tables of 64, a root directory of 32, and clusters from 161 on.
    fn layout() -> Layout {
        let choices = Format {
            bits: Some(Bits::Fat16),
            cluster_sectors: Some(4),
            align: false,
            ..Format::default()
        };
        format(&mut Ram::new(512, 65_536), &choices).unwrap()
    }

    #[test]
    fn every_sector_lies_in_one_region() {
        let layout = layout();
        let of = |sector| layout.region(sector, &[], "files");
        let edges = [0, 1, 64, 65, 128, 129, 160, 161, 65_532, 65_533, u64::MAX].map(of);
        use Region::*;
        let files = Clusters("files");
        assert_eq!(
            edges,
            [
                Boot,
                Table(1),
                Table(1),
                Table(2),
                Table(2),
                Root,
                Root,
                files,
                files,
                Outside,
                Outside
            ]
        );
        let wide = Layout {
            fat_start: 32,
            root_start: 160,
            ..layout
        };
        assert_eq!(wide.region(6, &[], ""), Reserved);
    }

    #[test]
    fn what_is_written_at_once_is_divided_where_parts_meet() {
        let mut runs = Vec::new();
        let data = [1; 40 * 512];
        layout().split((127, 512, &data), "files", &mut |region, sectors| {
            runs.push((region, sectors));
        });
        assert_eq!(
            runs,
            [
                (Region::Table(2), 127..129),
                (Region::Root, 129..161),
                (Region::Clusters("files"), 161..167)
            ]
        );
    }
}
