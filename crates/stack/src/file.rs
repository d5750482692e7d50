//! Files of the operating system: one that holds an image, one that holds page data while a stack
//! lives.

use nandlab_mtd::Page;
use nandlab_nand::PageStore;
use nandlab_sim::{Backing, BackingError};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A failure in words that need no allocation.
fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the file system",
        io::ErrorKind::QuotaExceeded => "disk quota exceeded",
        io::ErrorKind::FileTooLarge => "file too large for the file system",
        io::ErrorKind::UnexpectedEof => "file shorter than it was",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => "input/output error",
    }
}

/// An image in a file, read only.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    len: u64,
}

impl ImageFile {
    /// Opens an image; what is no regular file is refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self {
            file,
            len: metadata.len(),
        })
    }
}

impl Backing for ImageFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|e| BackingError::Io(reason(&e)))
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        Err(BackingError::Io("the image is open for reading only"))
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

/// Page data in a sparse file. Bytes are stored inverted, so that a hole is erased flash. The file
/// has no name once it is open: nothing is left behind, however the process ends.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    page: u64,
    inverted: Box<[u8]>,
}

impl PageFile {
    /// Creates `path`, which must not exist yet, for pages of `page` bytes, and takes its name away
    /// again.
    pub fn create(path: &Path, page: u32, pages: u32) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        file.set_len(u64::from(page) * u64::from(pages))?;
        Ok(Self {
            file,
            page: page.into(),
            inverted: vec![0; page as usize].into(),
        })
    }

    fn offset(&self, page: Page) -> u64 {
        u64::from(page.0) * self.page
    }
}

impl PageStore for PageFile {
    fn read(&mut self, page: Page, data: &mut [u8]) -> Result<(), &'static str> {
        self.file
            .read_exact_at(data, self.offset(page))
            .map_err(|e| reason(&e))?;
        data.iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    }

    fn write(&mut self, page: Page, data: &[u8]) -> Result<(), &'static str> {
        self.inverted
            .iter_mut()
            .zip(data)
            .for_each(|(to, from)| *to = !*from);
        self.file
            .write_all_at(&self.inverted[..data.len()], self.offset(page))
            .map_err(|e| reason(&e))
    }

    fn forget(&mut self, first: Page, count: u32) -> Result<(), &'static str> {
        if count == 0 {
            return Ok(());
        }
        let offset = self.offset(first);
        let len = u64::from(count) * self.page;
        if fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )
        .is_ok()
        {
            return Ok(());
        }
        // A file system without holes keeps the space.
        self.inverted.fill(0);
        (0..count).try_for_each(|i| {
            self.file
                .write_all_at(&self.inverted, offset + u64::from(i) * self.page)
                .map_err(|e| reason(&e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_holes_are_erased_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pages");
        let mut store = PageFile::create(&path, 512, 64).unwrap();
        assert!(!path.exists());
        store.write(Page(3), &[0x5A; 512]).unwrap();
        let mut data = [0; 512];
        store.read(Page(3), &mut data).unwrap();
        assert_eq!(data, [0x5A; 512]);
        store.forget(Page(2), 2).unwrap();
        for page in [3, 63] {
            store.read(Page(page), &mut data).unwrap();
            assert_eq!(data, [0xFF; 512]);
        }
        assert_eq!(
            store.read(Page(64), &mut data),
            Err("file shorter than it was")
        );
    }

    #[test]
    fn a_file_that_exists_is_not_touched() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "precious").unwrap();
        assert_eq!(
            PageFile::create(file.path(), 512, 1).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(file.path()).unwrap(), b"precious");
    }
}
