//! Dumps of chips without spare bytes, mounted.

use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_ubi::{Headers, Options, Ubi};
use nandlab_ubifs::{UbiLebs, Ubifs};
use std::error::Error;

/// The shape of a chip for tests.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    pub page: u32,
    pub block: u32,
    pub blocks: u32,
    /// What nandsim makes it of.
    pub nandsim: &'static str,
}

pub type Dump = Image<Vec<u8>>;

impl Chip {
    pub fn bytes(&self) -> usize {
        self.block as usize * self.blocks as usize
    }

    /// Dumps of it.
    pub fn dump_format(&self) -> ImageFormat {
        ImageFormat {
            page: self.page,
            oob: 0,
            pages_per_block: self.block / self.page,
            layout: Layout::Raw,
            ecc: None,
        }
    }
}

/// Attaches UBI, and mounts its first volume.
pub fn mounted(chip: Chip, dump: Vec<u8>) -> Result<Ubifs<UbiLebs<Dump>>, Box<dyn Error>> {
    // Linux puts it into a part of a page where the chip has those.
    let vid = dump[16..20].try_into().map(u32::from_be_bytes)?;
    let options = Options {
        headers: Headers::At(vid),
        ..Options::default()
    };
    let ubi = Ubi::attach(Image::new(dump, chip.dump_format())?, options)?;
    Ok(Ubifs::mount(UbiLebs::new(ubi, 0)?)?)
}
