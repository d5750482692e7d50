//! An image in a file of the operating system, read and written through a few windows of memory.
//!
//! *Promises.* Memory is constant, whatever the file's length. What was written reads back at once,
//! and is in the file after [`ImageFile::write_back`]. A file opened for reading is never changed.
//! A *blank* file reads as erased flash (0xFF) where nothing was written, an *empty* one as zeros,
//! and takes no space there. A *guarded* file fails as soon as another program has changed it,
//! because the windows in memory are then out of date. *Knows nothing of* what the bytes mean.

use crate::sink::is_zero;
use nandlab_sim::{Backing, BackingError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Bytes of a window.
const WINDOW: usize = 32 * 1024;
/// The number of windows in memory.
const WINDOWS: usize = 32;
/// No window of a file.
const NONE: u64 = u64::MAX;
/// Writes of so many bytes that no window holds go past them: to read around them costs more.
const PAST: usize = 4096;

#[derive(Debug)]
struct Window {
    /// Its number in the file.
    number: u64,
    used: u64,
    dirty: bool,
    bytes: Box<[u8]>,
}

/// A file that was just made.
#[derive(Debug)]
struct New {
    /// What is read where nothing was written.
    byte: u8,
    /// By window, whether anything was written.
    written: Vec<bool>,
}

impl New {
    /// Whether the operating system gives the same where nothing was written.
    fn is_empty(&self) -> bool {
        self.byte == 0
    }
}

/// A file as it was when it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    len: u64,
    modified: (i64, i64),
}

impl Seen {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// What tells that another program has changed a file.
#[derive(Debug, Default)]
struct Guard(Option<Seen>);

impl Guard {
    /// Fails if the file is not as it was.
    fn check(&self, file: &File) -> io::Result<()> {
        match self.0 {
            Some(seen) if Seen::of(file)? != seen => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(()),
        }
    }

    /// Writes to the file if it is as it was.
    fn write(&mut self, file: &File, data: &[u8], at: u64) -> io::Result<()> {
        self.check(file)?;
        file.write_all_at(data, at)?;
        if let Some(seen) = &mut self.0 {
            *seen = Seen::of(file)?;
        }
        Ok(())
    }
}

/// An image in a file.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    guard: Guard,
    len: u64,
    writable: bool,
    new: Option<New>,
    windows: Vec<Window>,
    clock: u64,
}

impl ImageFile {
    /// Opens an image for reading; what is neither a regular file nor a block device is refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?, false)
    }

    /// Opens an image for reading and writing.
    pub fn open_writable(path: &Path) -> io::Result<Self> {
        Self::of(OpenOptions::new().read(true).write(true).open(path)?, true)
    }

    /// An open file, which may be written if that is said.
    pub fn of(file: File, writable: bool) -> io::Result<Self> {
        use std::io::{Seek as _, SeekFrom};
        use std::os::unix::fs::FileTypeExt as _;
        let metadata = file.metadata()?;
        if !metadata.is_file() && !metadata.file_type().is_block_device() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let len = (&file).seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            guard: Guard::default(),
            len,
            writable,
            new: None,
            windows: Vec::new(),
            clock: 0,
        })
    }

    /// The same, and every access fails from the moment on when another program changes the file.
    pub fn guarded(mut self) -> io::Result<Self> {
        // A device has no times of its own.
        if self.file.metadata()?.is_file() {
            self.guard = Guard(Some(Seen::of(&self.file)?));
        }
        Ok(self)
    }

    /// Makes an empty file one of so many erased bytes.
    pub fn blank(file: File, len: u64) -> io::Result<Self> {
        Self::new(file, len, 0xFF)
    }

    /// Makes an empty file one of so many zeros.
    pub fn empty(file: File, len: u64) -> io::Result<Self> {
        Self::new(file, len, 0)
    }

    fn new(file: File, len: u64, byte: u8) -> io::Result<Self> {
        file.set_len(len)?;
        let written = vec![false; len.div_ceil(WINDOW as u64) as usize];
        Ok(Self {
            file,
            guard: Guard::default(),
            len,
            writable: true,
            new: Some(New { byte, written }),
            windows: Vec::new(),
            clock: 0,
        })
    }

    /// Puts everything that was written into the file, and gives the file back, cut to `len` bytes;
    /// erased bytes that were never written before that are written now.
    pub fn finish(mut self, len: u64) -> io::Result<File> {
        self.write_back()?;
        if let Some(new) = self.new.filter(|new| !new.is_empty()) {
            for (number, _) in new
                .written
                .iter()
                .enumerate()
                .filter(|(_, written)| !**written)
            {
                let at = (number * WINDOW) as u64;
                if at < len {
                    self.file
                        .write_all_at(&[new.byte; WINDOW][..WINDOW.min((len - at) as usize)], at)?;
                }
            }
        }
        self.file.set_len(len)?;
        Ok(self.file)
    }

    /// Puts everything that was written into the file.
    pub fn write_back(&mut self) -> io::Result<()> {
        for window in self.windows.iter_mut().filter(|window| window.dirty) {
            store(&self.file, &mut self.guard, self.len, &mut self.new, window)?;
        }
        self.guard.check(&self.file)
    }

    /// The window that holds `at`, read if it is not there.
    fn window(&mut self, at: u64) -> io::Result<&mut Window> {
        self.clock += 1;
        let number = at / WINDOW as u64;
        let index = match self
            .windows
            .iter()
            .position(|window| window.number == number)
        {
            Some(index) => index,
            None => self.load(number)?,
        };
        let window = &mut self.windows[index];
        window.used = self.clock;
        Ok(window)
    }

    fn load(&mut self, number: u64) -> io::Result<usize> {
        if self.windows.len() < WINDOWS {
            self.windows.push(Window {
                number: NONE,
                used: 0,
                dirty: false,
                bytes: vec![0; WINDOW].into(),
            });
        }
        let oldest = self
            .windows
            .iter()
            .enumerate()
            .min_by_key(|(_, window)| window.used)
            .map_or(0, |(index, _)| index);
        let window = &mut self.windows[oldest];
        if window.dirty {
            store(&self.file, &mut self.guard, self.len, &mut self.new, window)?;
        }
        self.guard.check(&self.file)?;
        window.number = NONE;
        let at = number * WINDOW as u64;
        let len = WINDOW.min((self.len - at) as usize);
        match &self.new {
            Some(new) if !new.written[number as usize] => window.bytes.fill(new.byte),
            _ => self.file.read_exact_at(&mut window.bytes[..len], at)?,
        }
        window.number = number;
        Ok(oldest)
    }

    /// Accesses of at least so many bytes go by the windows, if none of these holds a part of them.
    fn is_direct(&self, offset: u64, count: usize, least: usize) -> bool {
        let first = offset / WINDOW as u64;
        let last = (offset + count as u64).saturating_sub(1) / WINDOW as u64;
        let held = || {
            self.windows
                .iter()
                .any(|window| (first..=last).contains(&window.number))
        };
        count >= least && self.new.as_ref().is_none_or(New::is_empty) && !held()
    }

    /// The first window from `first` on and before `end` that may hold anything but zeros.
    fn touched(&self, first: u64, end: u64) -> Option<u64> {
        let new = match &self.new {
            Some(new) if new.is_empty() && self.writable => new,
            _ => return (first < end).then_some(first),
        };
        let written = new.written[first as usize..end as usize]
            .iter()
            .position(|written| *written);
        let held = self.windows.iter().map(|window| window.number);
        let held = held.filter(|number| (first..end).contains(number)).min();
        let written = written.map(|at| first + at as u64);
        [written, held].into_iter().flatten().min()
    }

    fn read_direct(&self, buf: &mut [u8], offset: u64) -> Result<(), BackingError> {
        let read = self.file.read_exact_at(buf, offset);
        read.and_then(|()| self.guard.check(&self.file))
            .map_err(|error| reason(&error))
    }

    /// Writes by the windows; zeros where nothing was written are there already.
    fn write_direct(&mut self, data: &[u8], offset: u64) -> Result<(), BackingError> {
        if let Some(new) = &mut self.new {
            let first = offset as usize / WINDOW;
            let end = (offset as usize + data.len()).div_ceil(WINDOW);
            let written = &mut new.written[first..end];
            if is_zero(data) && !written.contains(&true) {
                return Ok(());
            }
            written.fill(true);
        }
        self.guard
            .write(&self.file, data, offset)
            .map_err(|error| reason(&error))
    }
}

fn store(
    file: &File,
    guard: &mut Guard,
    len: u64,
    new: &mut Option<New>,
    window: &mut Window,
) -> io::Result<()> {
    let at = window.number * WINDOW as u64;
    guard.write(file, &window.bytes[..WINDOW.min((len - at) as usize)], at)?;
    if let Some(new) = new {
        new.written[window.number as usize] = true;
    }
    window.dirty = false;
    Ok(())
}

/// A failure in words that need no allocation.
fn reason(error: &io::Error) -> BackingError {
    BackingError::Io(match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the file system",
        io::ErrorKind::QuotaExceeded => "disk quota exceeded",
        io::ErrorKind::FileTooLarge => "file too large for the file system",
        io::ErrorKind::UnexpectedEof => "file shorter than it was",
        io::ErrorKind::InvalidData => "changed by another program since it was opened",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => "input/output error",
    })
}

impl Backing for ImageFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.check(offset, buf.len() as u64)?;
        if self.is_direct(offset, buf.len(), WINDOW) {
            return self.read_direct(buf, offset);
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (at % WINDOW as u64) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(WINDOW - within));
            if self.is_direct(at, now.len(), WINDOW) {
                self.read_direct(now, at)?;
                (at, rest) = (at + WINDOW as u64, later);
                continue;
            }
            now.copy_from_slice(
                &self.window(at).map_err(|error| reason(&error))?.bytes[within..within + now.len()],
            );
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.check(offset, data.len() as u64)?;
        if !self.writable {
            return Err(BackingError::Io("the image is open for reading only"));
        }
        if self.is_direct(offset, data.len(), PAST) {
            return self.write_direct(data, offset);
        }
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % WINDOW as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(WINDOW - within));
            if self.is_direct(at, now.len(), PAST) {
                self.write_direct(now, at)?;
                (at, rest) = (at + now.len() as u64, later);
                continue;
            }
            let window = self.window(at).map_err(|error| reason(&error))?;
            let to = &mut window.bytes[within..within + now.len()];
            if to != now {
                to.copy_from_slice(now);
                window.dirty = true;
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Where nothing was written to a new file that is empty, there are zeros already: that costs
    /// nothing, whatever the length.
    fn punch(&mut self, offset: u64, len: u64) -> Result<(), BackingError> {
        let end = self.check(offset, len)?;
        let mut at = offset;
        while at < end {
            let window = at / WINDOW as u64;
            let Some(next) = self.touched(window, end.div_ceil(WINDOW as u64)) else {
                return Ok(());
            };
            at = at.max(next * WINDOW as u64);
            let within = (at % WINDOW as u64) as usize;
            let count = (WINDOW - within).min((end - at) as usize);
            self.write_at(at, &[0; WINDOW][..count])?;
            at += count as u64;
        }
        Ok(())
    }

    /// In the file, as far as the operating system is concerned; a program that replaces a file
    /// asks for more.
    fn sync(&mut self) -> Result<(), BackingError> {
        if self.writable {
            self.write_back().map_err(|error| reason(&error))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_through_windows_and_past_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 << 20).unwrap();
        let mut image = ImageFile::of(file, true).unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
        image.write_at(1 << 20, &data).unwrap();
        for at in (0..3 << 20).step_by(70_000) {
            image.write_at(at, &[at as u8; 3]).unwrap();
        }
        let mut back = vec![0; data.len()];
        image.read_at(1 << 20, &mut back).unwrap();
        let different = back.iter().zip(&data).filter(|(a, b)| a != b).count();
        assert!((1..=9).contains(&different), "{different}");
        let file = image.finish(1 << 20).unwrap();
        let mut byte = [0; 1];
        file.read_exact_at(&mut byte, 70_001).unwrap();
        assert_eq!(
            (byte[0], file.metadata().unwrap().len()),
            (70_000u32 as u8, 1 << 20)
        );
    }

    #[test]
    fn a_blank_file_is_erased_where_nothing_was_written() {
        let mut image = ImageFile::blank(tempfile::tempfile().unwrap(), 10_000_000).unwrap();
        let mut bytes = [0; 4];
        image.write_at(5_000_001, &[7]).unwrap();
        image.read_at(5_000_000, &mut bytes).unwrap();
        assert_eq!(bytes, [0xFF, 7, 0xFF, 0xFF]);
        let file = image.finish(6_000_000).unwrap();
        let mut all = vec![0; 6_000_000];
        file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(all.iter().filter(|byte| **byte != 0xFF).count(), 1);
    }

    #[test]
    fn an_empty_file_is_zeros_where_nothing_was_written() {
        let mut image = ImageFile::empty(tempfile::tempfile().unwrap(), 1 << 20).unwrap();
        image.write_at(100_000, &[7; 5000]).unwrap();
        image.write_at(3, &[8]).unwrap();
        let mut bytes = vec![9; 1 << 20];
        image.read_at(0, &mut bytes).unwrap();
        let mut expected = vec![0; 1 << 20];
        expected[3] = 8;
        expected[100_000..105_000].fill(7);
        assert!(bytes == expected);
        // In a window that holds a part of what went by it.
        image.write_at(104_999, &[1, 2]).unwrap();
        let file = image.finish(1 << 20).unwrap();
        expected[104_999..105_001].copy_from_slice(&[1, 2]);
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected);
    }

    #[test]
    fn terabytes_of_zeros_in_a_new_file_take_neither_writes_nor_space() {
        const LEN: u64 = 3 << 40;
        let mut image = ImageFile::empty(tempfile::tempfile().unwrap(), LEN).unwrap();
        image.write_at(1 << 40, &[7; 100_000]).unwrap();
        image.write_at((1 << 40) + 200_000, &[8; 10]).unwrap();
        image.punch(5, LEN - 10).unwrap();
        let written = &image.new.as_ref().unwrap().written;
        assert!(written.iter().filter(|written| **written).count() <= 5);
        let mut bytes = vec![9; 300_000];
        image.read_at((1 << 40) - 1000, &mut bytes).unwrap();
        assert!(is_zero(&bytes));
        let file = image.finish(LEN).unwrap();
        assert!(file.metadata().unwrap().blocks() <= 1000);
    }

    #[test]
    fn a_guarded_file_that_another_program_changes_fails_and_stays_as_that_left_it() {
        for cut in [0, 50_000, 1 << 20] {
            let scratch = tempfile::NamedTempFile::new().unwrap();
            scratch.as_file().set_len(1 << 20).unwrap();
            let image = ImageFile::open_writable(scratch.path()).unwrap();
            let mut image = image.guarded().unwrap();
            image.write_at(900_000, &[1; 10]).unwrap();
            image.write_at(0, &[2; 100_000]).unwrap();
            image.sync().unwrap();
            image.write_at(900_000, &[3; 10]).unwrap();
            scratch.as_file().set_len(cut).unwrap();
            // The same length, but other contents.
            let before = scratch.as_file().metadata().unwrap().modified().unwrap();
            let later = before + std::time::Duration::from_secs(1);
            scratch.as_file().set_modified(later).unwrap();
            let changed = Err(BackingError::Io(
                "changed by another program since it was opened",
            ));
            assert_eq!(image.sync(), changed);
            assert_eq!(image.write_at(200_000, &[4; 10_000]), changed);
            assert_eq!(image.read_at(300_000, &mut [0; 10]), changed);
            assert!(image.read_at(300_000, &mut [0; 100_000]).is_err());
            assert_eq!(scratch.as_file().metadata().unwrap().len(), cut);
        }
    }

    #[test]
    fn what_is_open_for_reading_or_lies_outside_is_not_written() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scratch.path(), [1; 100]).unwrap();
        let mut image = ImageFile::open(scratch.path()).unwrap();
        assert_eq!(
            image.write_at(0, &[2]),
            Err(BackingError::Io("the image is open for reading only"))
        );
        assert_eq!(
            image.read_at(99, &mut [0; 2]),
            Err(BackingError::OutOfRange {
                offset: 99,
                count: 2,
                len: 100
            })
        );
        assert_eq!(
            ImageFile::open(Path::new("/dev/null")).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
