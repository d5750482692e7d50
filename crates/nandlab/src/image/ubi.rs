//! `nandlab image ubinize`.

use super::options::size;
use crate::failure::{Failure, Status};
use crate::output::{distinct, print};
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::words::counted;
use std::path::PathBuf;

/// Make a UBI image of the volumes that a description (INI) names, byte for byte as ubinize does
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sections of KEY=VALUE: mode=ubi, image, vol_id, vol_size, vol_type, vol_name, vol_alignment, vol_flags=autoresize. Files are found from the description's directory."
)]
pub struct Ubinize {
    /// UBI image to write
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Description of the volumes, as for ubinize
    #[arg(value_name = "CONFIG.ini")]
    config: PathBuf,
    /// Bytes of an erase block
    #[arg(long, short = 'p', value_parser = size)]
    block: u64,
    /// Bytes of a page
    #[arg(long, short = 'm', value_parser = size)]
    page: u64,
    /// Bytes of a sub-page [default: a page]
    #[arg(long, short, value_parser = size)]
    sub_page: Option<u64>,
    /// The number that all blocks of the image have
    #[arg(long, short = 'Q', default_value_t = 0)]
    image_seq: u32,
}

impl Ubinize {
    pub fn execute(self) -> Result<Status, Failure> {
        let small = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let block = small(self.block);
        let page = small(self.page);
        let device = Device {
            block,
            page,
            sub_page: self.sub_page.map_or(page, small),
            image_seq: self.image_seq,
        };
        distinct(&self.image, [&self.config])?;
        let bytes = ubinize(&self.config, device, &self.image)?;
        print(&format!(
            "{}: {}\n",
            self.image.display(),
            counted(bytes, "byte")
        ))?;
        Ok(Status::Done)
    }
}
