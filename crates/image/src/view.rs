//! The data of a dump without its spare bytes.
//!
//! *Promises.* Nothing is written. Flipped bits are corrected; a page beyond correction reads as it
//! is. *Knows nothing of* what the data mean.

use nandlab_mtd::{Image, ImageError, ImageFormat, Mtd, MtdError, Page};
use nandlab_sim::{Backing, BackingError};

use crate::window::{Part, Window};

/// The data bytes of a dump.
#[derive(Debug)]
pub struct View<B> {
    image: Image<Window<B>>,
    page: u64,
    len: u64,
    /// The page that `cells` holds.
    held: Option<u32>,
    cells: Vec<u8>,
}

impl<B: Backing> View<B> {
    /// The data of `dump`, which is cut into pages as `format` says. A part of a page at the end is
    /// left out.
    pub fn new(dump: B, format: ImageFormat) -> Result<Self, ImageError> {
        let stride = u64::from(format.page) + u64::from(format.oob);
        let whole = dump.len() / stride.max(1) * stride;
        let pages = ImageFormat {
            pages_per_block: 1,
            ..format
        };
        let part = Part { at: 0, len: whole };
        let image = Image::new(Window::new(dump, part), pages)?.read_only();
        let page = u64::from(format.page);
        Ok(Self {
            len: u64::from(image.geometry().blocks) * page,
            cells: vec![0; format.page as usize],
            image,
            page,
            held: None,
        })
    }

    fn load(&mut self, number: u32) -> Result<(), BackingError> {
        if self.held == Some(number) {
            return Ok(());
        }
        self.held = None;
        match self.image.read(Page(number), &mut self.cells, &mut []) {
            Ok(_) | Err(MtdError::Uncorrectable(_)) => {
                self.held = Some(number);
                Ok(())
            }
            Err(MtdError::Backing(why)) => Err(BackingError::Io(why)),
            Err(_) => Err(BackingError::Io("a page of the dump cannot be read")),
        }
    }
}

impl<B: Backing> Backing for View<B> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.check(offset, buf.len() as u64)?;
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (at % self.page) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(self.page as usize - within));
            self.load((at / self.page) as u32)?;
            now.copy_from_slice(&self.cells[within..within + now.len()]);
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        Err(BackingError::Io("a dump is not written through its view"))
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}
