//! The `[fs]` section: which file system lies on the disk, and where.

use crate::value::Size;
use crate::{DescriptionError, Document, Section, Setting};
use nandlab_block::{BlockDevice, BlockError, Lba, Partition};
use nandlab_fat::{Bits, Fat, FatError, Format, FormatError, Layout, Options};
use nandlab_vfs::FileSystem;

/// A file system as described.
#[derive(Clone, Debug)]
pub struct FsDescription {
    /// How it is made.
    pub format: Format,
    /// How it is mounted.
    pub mount: Options,
    /// The first sector of its partition.
    pub start: u64,
    /// Bytes of its partition; none: to the end of the disk.
    pub size: Option<u64>,
    /// To say where a value stands that the disk turns out not to allow.
    section: Section,
}

/// A file system that cannot be made or mounted.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// Its partition is not on the disk.
    #[error(transparent)]
    Place(#[from] DescriptionError),
    /// The disk refused.
    #[error("fs: {0}")]
    Device(#[from] BlockError),
    /// It cannot be made so.
    #[error("fs: mkfs: {0}")]
    Format(#[from] FormatError),
    /// It cannot be mounted.
    #[error("fs: mount: {0}")]
    Mount(#[from] FatError),
}

/// A mounted file system, and where its parts lie.
pub struct Mounted<'a> {
    /// The file system.
    pub fs: Box<dyn FileSystem + 'a>,
    /// Its layout in sectors of its partition.
    pub layout: Layout,
}

impl FsDescription {
    /// Bytes of a sector, as partition tables count.
    pub const SECTOR: u64 = 512;

    /// Takes `[fs]` out of a document; none if there is no file system.
    pub(crate) fn take(document: &mut Document) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        const KEYS: [&str; 7] = ["cluster", "root-entries", "align", "start-sector", "size", "barriers", "sync"];
        let mut section = document.section("fs");
        let types = [
            ("none", None),
            ("fat", Some(None)),
            ("fat12", Some(Some(Bits::Fat12))),
            ("fat16", Some(Some(Bits::Fat16))),
            ("fat32", Some(Some(Bits::Fat32))),
        ];
        let Some(bits) = section.choice("type", &types, None)? else {
            section.inapplicable(&KEYS, "a type of file system (fs.type)")?;
            return Ok((None, section.finish()?));
        };
        let fine = |Size(bytes): &Size| bytes.is_power_of_two() && (Self::SECTOR..=128 * Self::SECTOR).contains(bytes);
        let cluster = section.given::<Size>("cluster")?;
        if let Some(size) = cluster.filter(|size| !fine(size)) {
            return Err(section.refuse("cluster", &size.0.to_string(), "a power of two from 512 to 65536 bytes"));
        }
        let root_entries = section.given("root-entries")?;
        let start = section.or("start-sector", 0)?;
        let size = section.given::<Size>("size")?.map(|size| size.0);
        let default = Options::default();
        let mount = Options { barriers: section.or("barriers", default.barriers)?, sync: section.or("sync", default.sync)?, ..default };
        let hidden_sectors = u32::try_from(start).map_err(|_| section.refuse("start-sector", &start.to_string(), "a sector below 2^32"))?;
        let cluster_sectors = cluster.map(|Size(bytes)| (bytes / Self::SECTOR) as u32);
        let align = section.or("align", Format::default().align)?;
        let format = Format { bits, cluster_sectors, root_entries, hidden_sectors, align, ..Format::default() };
        let description = Self { format, mount, start, size, section: section.clone() };
        Ok((Some(description), section.finish()?))
    }

    /// The file system's part of a disk.
    pub fn partition<D: BlockDevice>(&self, disk: D) -> Result<Partition<D>, FsError> {
        let g = *disk.geometry();
        let sector = u64::from(g.sector);
        let start = self.start * Self::SECTOR / sector;
        if !(self.start * Self::SECTOR).is_multiple_of(sector) || start >= g.sectors {
            let expected = format!("a place on the disk of {} sectors of {sector} bytes", g.sectors);
            return Err(self.section.refuse("start-sector", &self.start.to_string(), &expected).into());
        }
        let room = (g.sectors - start) * sector;
        let size = self.size.unwrap_or(room);
        if size == 0 || size > room || !size.is_multiple_of(sector) {
            let expected = format!("whole sectors of {sector} bytes, {room} bytes at most behind the start sector");
            return Err(self.section.refuse("size", &size.to_string(), &expected).into());
        }
        Ok(Partition::new(disk, Lba(start), size / sector)?)
    }

    /// Makes the file system on its partition.
    pub fn make(&self, partition: &mut dyn BlockDevice) -> Result<Layout, FsError> {
        Ok(nandlab_fat::format(&mut &mut *partition, &self.format)?)
    }

    /// Mounts what is on the partition, with its metadata in `nvram` if there is one.
    pub fn mount<'a>(
        &self,
        partition: Box<dyn BlockDevice + 'a>,
        nvram: Option<Box<dyn BlockDevice + 'a>>,
    ) -> Result<Mounted<'a>, FsError> {
        let Some(nvram) = nvram else {
            let fat = Fat::mount(partition, self.mount)?;
            return Ok(Mounted { layout: *fat.layout(), fs: Box::new(fat) });
        };
        let fat = Fat::mount_with_nvram(partition, nvram, self.mount)?;
        Ok(Mounted { layout: *fat.layout(), fs: Box::new(fat) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::Ram;
    use nandlab_vfs::Ino;
    use std::path::Path;

    fn take(text: &str) -> Result<Option<FsDescription>, String> {
        let mut document = Document::parse("e.toml", Path::new(""), &format!("[fs]\n{text}"), &[]).map_err(|e| e.to_string())?;
        FsDescription::take(&mut document).map(|(fs, _)| fs).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_made_on_a_partition_is_mounted_from_it_and_the_rest_of_the_disk_stays() {
        let fs = take("type = \"fat16\"\ncluster = 2048\nroot-entries = 512\nstart-sector = 63\nsize = \"32 MiB\"\nalign = false")
            .unwrap()
            .unwrap();
        let mut disk = Ram::new(512, 70_000);
        {
            let mut partition = fs.partition(&mut disk).unwrap();
            fs.make(&mut partition).unwrap();
            let mut mounted = fs.mount(Box::new(partition), None).unwrap();
            let l = mounted.layout;
            assert_eq!((l.fat_start, l.fat_sectors, l.root_start, l.data_start, l.clusters), (1, 64, 129, 161, 16_343));
            mounted.fs.mkdir(Ino::ROOT, b"DCIM", 0o755, nandlab_vfs::Caller { uid: 0, gid: 0, now: nandlab_vfs::Time::new(0) }).unwrap();
            mounted.fs.unmount().unwrap();
        }
        let mut sector = [0; 512];
        disk.read(Lba(62), &mut sector).unwrap();
        assert_eq!(sector, [0; 512]);
        disk.read(Lba(63), &mut sector).unwrap();
        assert_eq!(sector[510..], [0x55, 0xaa]);
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            ("type = \"ext9\"", "e.toml:2:8: fs.type: found \"ext9\", expected one of \"none\", \"fat\""),
            ("cluster = 2048", "fs.cluster: has no effect, it needs a type of file system"),
            ("type = \"fat16\"\ncluster = 1000", "fs.cluster: found 1000, expected a power of two from 512 to 65536 bytes"),
            ("type = \"fat16\"\nstart-sector = 5000000000", "fs.start-sector: found 5000000000, expected a sector below 2^32"),
            ("type = \"fat16\"\nstrat-sector = 5", "fs.strat-sector: unknown key, did you mean \"start-sector\"?"),
        ];
        for (line, expected) in cases {
            let error = take(line).err().unwrap_or_else(|| panic!("{line} was accepted"));
            assert!(error.contains(expected), "{line}: {error}");
        }
        let place = |text: &str| {
            let fs = take(&format!("type = \"fat16\"\n{text}")).unwrap().unwrap();
            fs.partition(Ram::new(512, 1000)).map(|_| ()).unwrap_err().to_string()
        };
        assert!(place("start-sector = 1000").contains("fs.start-sector: found 1000, expected a place on the disk of 1000 sectors"));
        assert!(
            place("start-sector = 10\nsize = \"1 MiB\"").contains("fs.size: found 1048576, expected whole sectors of 512 bytes, 506880")
        );
    }
}
