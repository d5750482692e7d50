//! Chips as `nanddump -o` writes them and `nandwrite -o` takes them: page after page, each its data
//! and then its whole spare area; or data only.
//!
//! A dump does not tell an erased page from one programmed with 0xFF throughout, nor erase counts:
//! such a page comes back erased, every block as never erased. A bad block carries its marker and
//! nothing else; a layout without one (DiskOnChip) leaves it to the translation layer's own table
//! to know it again.
//!
//! *ECC bytes.* The chip models its code by its strength and has no ECC bytes. With
//! [`DumpFormat::ecc`], saving adds those of that code, and loading corrects by them; otherwise they
//! stay at 0xFF. A page that the chip cannot correct is saved without them, so that it stays beyond
//! correction.

use crate::file::ImageFile;
use nandlab_ecc::Code;
use nandlab_mtd::{Block, Geometry, Image, ImageError, ImageFormat, Layout, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_scratch::{ScratchError, beside};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// How a dump is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpFormat {
    /// Bytes of each page's spare area in the dump; 0 for data only.
    pub spare: u32,
    /// Who owns which of them.
    pub layout: Layout,
    /// The code of its ECC bytes.
    pub ecc: Option<Code>,
}

/// What a dump held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Pages that the dump programmed.
    pub pages: u32,
    /// Pages with flipped bits, corrected by their ECC bytes.
    pub corrected: u32,
    /// Blocks that the dump marks bad.
    pub bad: u32,
}

/// A dump that could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    File {
        /// The path of the dump.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The dump is no dump of this layout.
    #[error("{}: {error}", path.display())]
    Image {
        /// The path of the dump.
        path: PathBuf,
        /// The reason why the image does not fit.
        error: ImageError,
    },
    /// The dump is of a chip of another size.
    #[error("{}: found {found} bytes ({found_blocks} blocks), expected {expected} bytes ({expected_blocks} blocks of {pages} pages of {page} + {spare} bytes){hint}", path.display())]
    Size {
        /// The path of the dump.
        path: PathBuf,
        /// The length of the dump in bytes.
        found: u64,
        /// The erase blocks in the dump.
        found_blocks: u32,
        /// The chip's bytes, spare areas as in the dump.
        expected: u64,
        /// The erase blocks of the chip.
        expected_blocks: u32,
        /// Pages of a block.
        pages: u32,
        /// Data bytes of a page.
        page: u32,
        /// Spare bytes of a page in the dump.
        spare: u32,
        /// What it might be instead.
        hint: &'static str,
    },
    /// A page has more flipped bits than its ECC bytes can correct.
    #[error("{}: at offset {offset}: {page} is beyond correction by {code}; chip.ecc-code = \"none\" loads bytes as they are", path.display())]
    Uncorrectable {
        /// The path of the dump.
        path: PathBuf,
        /// Where the page lies in the dump.
        offset: u64,
        /// The page that cannot be corrected.
        page: Page,
        /// The code of the dump.
        code: Code,
    },
    /// The chip refused a page of the dump.
    #[error("{}: at offset {offset}: {error}", path.display())]
    Flash {
        /// The path of the dump.
        path: PathBuf,
        /// Where the page lies in the dump.
        offset: u64,
        /// The error that the chip returned.
        error: MtdError,
    },
}

impl From<ScratchError> for DumpError {
    fn from(ScratchError { path, error }: ScratchError) -> Self {
        Self::File { path, error }
    }
}

impl DumpFormat {
    /// Bytes that a page takes in the dump.
    fn stride(self, geometry: &Geometry) -> u64 {
        u64::from(geometry.page) + u64::from(self.spare)
    }

    /// What a dump of so many bytes might be.
    fn hint(self, geometry: &Geometry, found: u64) -> &'static str {
        let pages = u64::from(geometry.pages());
        let without = pages * u64::from(geometry.page);
        let with = pages * u64::from(geometry.page + geometry.page / 32);
        match self.spare {
            0 if found == with => "; a dump with OOB? chip.oob-layout tells how it is laid out",
            1.. if found == without => {
                "; a dump without OOB? chip.oob-layout = \"none\" is for those"
            }
            _ => "",
        }
    }

    fn image(self, geometry: &Geometry) -> ImageFormat {
        ImageFormat {
            page: geometry.page,
            oob: self.spare,
            pages_per_block: geometry.pages_per_block,
            layout: self.layout,
            ecc: self.ecc,
        }
    }
}

/// Programs a fresh chip with what the dump at `path` holds, and marks its bad blocks.
pub fn load(path: &Path, format: DumpFormat, chip: &mut Chip) -> Result<Loaded, DumpError> {
    let file = ImageFile::open(path).map_err(|error| DumpError::File {
        path: path.into(),
        error,
    })?;
    let found = nandlab_sim::Backing::len(&file);
    let geometry = chip.geometry().clone();
    let image = format.image(&geometry);
    let other_size = |found_blocks| DumpError::Size {
        path: path.into(),
        found,
        found_blocks,
        expected: image.bytes(geometry.blocks),
        expected_blocks: geometry.blocks,
        pages: geometry.pages_per_block,
        page: geometry.page,
        spare: format.spare,
        hint: format.hint(&geometry, found),
    };
    if found == 0 {
        return Err(other_size(0));
    }
    let mut dump = Image::new(file, image)
        .map_err(|error| DumpError::Image {
            path: path.into(),
            error,
        })?
        .read_only();
    if dump.geometry().blocks != geometry.blocks {
        return Err(other_size(dump.geometry().blocks));
    }
    let mut loaded = Loaded::default();
    let mut page = (
        vec![0; geometry.page as usize],
        vec![0; dump.geometry().oob.min(geometry.oob) as usize],
    );
    for block in (0..geometry.blocks).map(Block) {
        load_block(&mut dump, chip, block, &mut page, &mut loaded).map_err(|(page, error)| {
            let path = path.into();
            let offset = u64::from(page.0) * format.stride(&geometry);
            match (error, format.ecc) {
                (MtdError::Uncorrectable(page), Some(code)) => DumpError::Uncorrectable {
                    path,
                    offset,
                    page,
                    code,
                },
                (error, _) => DumpError::Flash {
                    path,
                    offset,
                    error,
                },
            }
        })?;
    }
    chip.sync().map_err(|error| DumpError::Flash {
        path: path.into(),
        offset: found,
        error,
    })?;
    Ok(loaded)
}

fn load_block<M: Mtd>(
    dump: &mut M,
    chip: &mut Chip,
    block: Block,
    buffers: &mut (Vec<u8>, Vec<u8>),
    loaded: &mut Loaded,
) -> Result<(), (Page, MtdError)> {
    let geometry = chip.geometry().clone();
    let first = geometry.page_at(block, 0);
    if dump.is_bad(block).map_err(|e| (first, e))? {
        loaded.bad += 1;
        return chip.mark_bad(block).map_err(|e| (first, e));
    }
    for page in (first.0..first.0 + geometry.pages_per_block).map(Page) {
        load_page(dump, chip, page, buffers, loaded).map_err(|e| (page, e))?;
    }
    Ok(())
}

fn load_page<M: Mtd>(
    dump: &mut M,
    chip: &mut Chip,
    page: Page,
    (data, oob): &mut (Vec<u8>, Vec<u8>),
    loaded: &mut Loaded,
) -> Result<(), MtdError> {
    let corrected = dump.read(page, data, oob)?;
    loaded.corrected += u32::from(corrected.bits > 0);
    if data.iter().chain(oob.iter()).any(|byte| *byte != 0xFF) {
        chip.program(page, data, oob)?;
        loaded.pages += 1;
    }
    Ok(())
}

/// Writes the chip to `path`, which is replaced only when the dump is complete. A page beyond
/// correction is written as it reads.
pub fn save(path: &Path, format: DumpFormat, chip: &mut Chip) -> Result<(), DumpError> {
    let in_file = |error| DumpError::File {
        path: path.into(),
        error,
    };
    let geometry = chip.geometry().clone();
    let mut writer = Writer::new(format, &geometry).map_err(|error| DumpError::Image {
        path: path.into(),
        error,
    })?;
    let scratch = beside(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, scratch.as_file());
    for block in (0..geometry.blocks).map(Block) {
        let bytes = writer.block(chip, block).map_err(|(page, error)| {
            let offset = u64::from(page.0) * format.stride(&geometry);
            DumpError::Flash {
                path: path.into(),
                offset,
                error,
            }
        })?;
        out.write_all(bytes).map_err(in_file)?;
    }
    sync(out).map_err(in_file)?;
    Ok(scratch.persist(path)?)
}

fn sync(out: BufWriter<&std::fs::File>) -> io::Result<()> {
    out.into_inner().map_err(|e| e.into_error())?.sync_all()
}

/// Blocks as the dump has them.
struct Writer {
    /// A block that is erased and programmed again and again.
    good: Image<Vec<u8>>,
    /// A block that is marked bad, if the layout has a place for that.
    bad: Vec<u8>,
    data: Vec<u8>,
    user: Vec<u8>,
}

impl Writer {
    fn new(format: DumpFormat, geometry: &Geometry) -> Result<Self, ImageError> {
        let image = format.image(geometry);
        let good = Image::new(vec![0xFF; image.bytes(1) as usize], image)?;
        let mut bad = good.clone();
        // Refused only where there is no place for a mark: then the block is erased.
        let _ = bad.mark_bad(Block(0));
        Ok(Self {
            data: vec![0; geometry.page as usize],
            user: vec![0; good.geometry().oob.min(geometry.oob) as usize],
            bad: bad.into_backing(),
            good,
        })
    }

    fn block(&mut self, chip: &mut Chip, block: Block) -> Result<&[u8], (Page, MtdError)> {
        let geometry = chip.geometry().clone();
        let first = geometry.page_at(block, 0);
        if chip.is_bad(block).map_err(|error| (first, error))? {
            return Ok(&self.bad);
        }
        self.good.erase(Block(0)).map_err(|error| (first, error))?;
        for index in 0..geometry.pages_per_block {
            let page = geometry.page_at(block, index);
            if chip.is_programmed(page) {
                self.page(chip, page, Page(index))
                    .map_err(|error| (page, error))?;
            }
        }
        Ok(self.good.backing())
    }

    fn page(&mut self, chip: &mut Chip, from: Page, to: Page) -> Result<(), MtdError> {
        match chip.read(from, &mut self.data, &mut self.user) {
            Ok(_) => self.good.program(to, &self.data, &self.user),
            Err(MtdError::Uncorrectable(_)) => {
                self.good.program_unprotected(to, &self.data, &self.user)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_nand::{ChipSpec, preset};

    fn chip(name: &str, blocks: u32, oob: u32) -> Chip {
        let spec = preset::find(name).unwrap().spec();
        Chip::new(ChipSpec {
            geometry: Geometry {
                blocks,
                oob,
                ..spec.geometry
            },
            ..spec
        })
        .unwrap()
    }

    fn write(chip: &mut Chip) {
        let page = chip.geometry().page as usize;
        let oob = chip.geometry().oob as usize;
        chip.mark_bad(Block(2)).unwrap();
        for (number, value) in [(0, 0x00), (1, 0x12), (40, 0x34)] {
            chip.program(Page(number), &vec![value; page], &vec![value ^ 0x55; oob])
                .unwrap();
        }
    }

    const FORMATS: [(&str, u32, DumpFormat); 9] = [
        (
            "small-block-64MiB",
            8,
            DumpFormat {
                spare: 16,
                layout: Layout::LinuxSmallPage,
                ecc: Some(Code::LINUX),
            },
        ),
        (
            "slc-2k",
            10,
            DumpFormat {
                spare: 64,
                layout: Layout::LinuxLargePageEnd { ecc: 52 },
                ecc: Some(BCH),
            },
        ),
        (
            "small-block-64MiB",
            15,
            DumpFormat {
                spare: 16,
                layout: Layout::MarkerOnly,
                ecc: None,
            },
        ),
        (
            "small-block-64MiB",
            8,
            DumpFormat {
                spare: 16,
                layout: Layout::LinuxSmallPage,
                ecc: None,
            },
        ),
        (
            "small-block-64MiB",
            10,
            DumpFormat {
                spare: 16,
                layout: Layout::DiskOnChip,
                ecc: None,
            },
        ),
        (
            "slc-2k",
            62,
            DumpFormat {
                spare: 64,
                layout: Layout::MarkerOnly,
                ecc: None,
            },
        ),
        (
            "slc-2k",
            38,
            DumpFormat {
                spare: 64,
                layout: Layout::LinuxLargePage64,
                ecc: None,
            },
        ),
        (
            "slc-2k",
            64,
            DumpFormat {
                spare: 64,
                layout: Layout::Raw,
                ecc: None,
            },
        ),
        (
            "slc-2k",
            62,
            DumpFormat {
                spare: 0,
                layout: Layout::Raw,
                ecc: None,
            },
        ),
    ];

    const BCH: Code = Code::Bch {
        step: 512,
        strength: 8,
    };

    #[test]
    fn flipped_bits_of_a_dump_are_corrected_or_named_with_their_page() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let format = DumpFormat {
            spare: 64,
            layout: Layout::LinuxLargePageEnd { ecc: 52 },
            ecc: Some(BCH),
        };
        let mut first = chip("slc-2k", 4, 10);
        write(&mut first);
        save(file.path(), format, &mut first).unwrap();
        let mut bytes = std::fs::read(file.path()).unwrap();
        let saved = bytes.clone();
        bytes[2112 + 77] ^= 0xFF;
        std::fs::write(file.path(), &bytes).unwrap();
        let mut second = chip("slc-2k", 4, 10);
        let loaded = load(file.path(), format, &mut second).unwrap();
        assert_eq!((loaded.pages, loaded.corrected, loaded.bad), (3, 1, 1));
        save(file.path(), format, &mut second).unwrap();
        assert!(std::fs::read(file.path()).unwrap() == saved);
        bytes[2112 + 78] ^= 1;
        std::fs::write(file.path(), &bytes).unwrap();
        let error = load(file.path(), format, &mut chip("slc-2k", 4, 10)).unwrap_err();
        assert!(
            error.to_string().ends_with("at offset 2112: page 1 is beyond correction by bch-8; chip.ecc-code = \"none\" loads bytes as they are"),
            "{error}"
        );
        let bare = DumpFormat {
            ecc: None,
            ..format
        };
        load(file.path(), bare, &mut chip("slc-2k", 4, 10)).unwrap();
    }

    #[test]
    fn what_is_saved_loads_into_the_same_chip_and_the_same_dump() {
        let directory = tempfile::tempdir().unwrap();
        for (name, oob, format) in FORMATS {
            let a = directory.path().join("a");
            let b = directory.path().join("b");
            let mut first = chip(name, 4, oob);
            write(&mut first);
            // A marker at 0xFF is the user's duty where the layout is raw; here it would read as a
            // bad block.
            if format.layout == Layout::Raw && format.spare > 0 {
                first.erase(Block(0)).unwrap();
            }
            save(&a, format, &mut first).unwrap();
            let stride = u64::from(first.geometry().page + format.spare);
            assert_eq!(
                std::fs::metadata(&a).unwrap().len(),
                stride * u64::from(first.geometry().pages())
            );
            let mut second = chip(name, 4, oob);
            let loaded = load(&a, format, &mut second).unwrap();
            assert_eq!(
                second.is_bad(Block(2)).unwrap(),
                format.spare > 0 && format.layout != Layout::DiskOnChip
            );
            assert!(loaded.pages > 0 || format.layout == Layout::Raw);
            save(&b, format, &mut second).unwrap();
            assert!(
                std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(),
                "{name} {format:?}"
            );
        }
    }

    #[test]
    fn bytes_lie_where_nanddump_puts_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut array = chip("slc-2k", 4, 38);
        write(&mut array);
        save(
            file.path(),
            DumpFormat {
                spare: 64,
                layout: Layout::LinuxLargePage64,
                ecc: None,
            },
            &mut array,
        )
        .unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        let second = &bytes[2112..2 * 2112];
        assert_eq!(
            (
                second[0],
                second[2047],
                second[2048],
                second[2050],
                second[2087],
                second[2088]
            ),
            (0x12, 0x12, 0xFF, 0x47, 0x47, 0xFF)
        );
        let markers = [0, 1, 2].map(|page| bytes[(128 + page) * 2112 + 2048]);
        assert_eq!(markers, [0, 0, 0xFF]);
    }

    #[test]
    fn a_wrong_length_names_what_was_found_and_expected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let format = DumpFormat {
            spare: 64,
            layout: Layout::MarkerOnly,
            ecc: None,
        };
        let error = |bytes: usize| {
            std::fs::write(file.path(), vec![0xFF; bytes]).unwrap();
            load(file.path(), format, &mut chip("slc-2k", 4, 62))
                .unwrap_err()
                .to_string()
        };
        let blocks = 2112 * 64;
        assert!(
            error(3 * blocks).ends_with("found 405504 bytes (3 blocks), expected 540672 bytes (4 blocks of 64 pages of 2048 + 64 bytes)")
        );
        assert!(
            error(2048 * 64 * 4)
                .contains("image of 524288 bytes, expected a multiple of the 135168-byte block; it is whole blocks of 2048-byte pages")
        );
        assert!(error(blocks + 7).contains("cut short?"));
    }

    #[test]
    fn what_the_chip_refuses_is_named_with_its_offset() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let format = DumpFormat {
            spare: 64,
            layout: Layout::MarkerOnly,
            ecc: None,
        };
        write(&mut chip("slc-2k", 4, 62));
        let mut bytes = vec![0xFF; 2112 * 256];
        bytes[2112 * 70] = 0;
        std::fs::write(file.path(), &bytes).unwrap();
        let mut target = chip("slc-2k", 4, 62);
        target.mark_bad(Block(1)).unwrap();
        let error = load(file.path(), format, &mut target)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("at offset 147840: block 1 is marked bad"),
            "{error}"
        );
    }
}
