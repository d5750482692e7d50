//! Pages of files in memory, in front of a file system that keeps none: Linux's page cache as those
//! file systems see it that write at once, such as JFFS2.
//!
//! *Promises.* What is read is what the file system would give. Every change reaches it at once;
//! pages stay behind, the least recently used ones go first. Memory: so many bytes of pages as it
//! is given, and a constant for each. *Knows nothing of* dirty data
//! ([`write_back`](crate::write_back)).

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use nandlab_vfs::{
    Attr, Caller, Errno, FileSystem, FileType, Ino, NewNode, SetAttr, Time, delegate,
};

/// Bytes of a page.
const PAGE: u64 = crate::flusher::PAGE;

type Place = (Ino, u64);

#[derive(Debug, Default)]
struct Pages {
    held: BTreeMap<Place, (u64, Box<[u8]>)>,
    /// By their last use.
    used: BTreeMap<u64, Place>,
    uses: u64,
    most: usize,
}

impl Pages {
    fn get(&mut self, place: Place) -> Option<&mut [u8]> {
        let (used, data) = self.held.get_mut(&place)?;
        self.uses += 1;
        self.used.remove(used);
        self.used.insert(self.uses, place);
        *used = self.uses;
        Some(data)
    }

    fn put(&mut self, place: Place, data: Box<[u8]>) {
        self.drop(place);
        if self.most == 0 {
            return;
        }
        while self.held.len() >= self.most {
            let Some((_, oldest)) = self.used.pop_first() else {
                break;
            };
            self.held.remove(&oldest);
        }
        self.uses += 1;
        self.used.insert(self.uses, place);
        self.held.insert(place, (self.uses, data));
    }

    fn drop(&mut self, place: Place) {
        if let Some((used, _)) = self.held.remove(&place) {
            self.used.remove(&used);
        }
    }

    /// Drops the pages of a file from this one on.
    fn cut(&mut self, ino: Ino, from: u64) {
        while let Some((place, _)) = self.held.range((ino, from)..=(ino, u64::MAX)).next() {
            let place = *place;
            self.drop(place);
        }
    }
}

/// Pages that came into a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Pages that a read brought in.
    pub by_reads: u64,
    /// Pages that a write brought in.
    pub by_writes: u64,
}

/// A file system behind a cache of its files' pages.
#[derive(Debug)]
pub struct PageCache<F> {
    fs: F,
    pages: Pages,
    brought: Brought,
    /// See [`PageCache::of_whole_pages`].
    whole: bool,
}

impl<F: FileSystem> PageCache<F> {
    /// With space for so many bytes.
    pub fn new(fs: F, bytes: u64) -> Self {
        let most = usize::try_from(bytes / PAGE).unwrap_or(usize::MAX);
        Self {
            fs,
            pages: Pages {
                most,
                ..Pages::default()
            },
            brought: Brought::default(),
            whole: false,
        }
    }

    /// Writes as JFFS2 does on Linux. It reads a page before a part of it changes. A write that
    /// ends with a page writes the whole page, so that nobody reads it back.
    pub fn of_whole_pages(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Pages that came in so far.
    pub fn brought(&self) -> Brought {
        self.brought
    }

    /// The file system behind.
    pub fn inner(&self) -> &F {
        &self.fs
    }

    /// Gives the file system back.
    pub fn into_inner(self) -> F {
        self.fs
    }

    /// A page from the file system, zeros behind the end: `readpage`.
    fn load(&mut self, (ino, page): Place) -> Result<(), Errno> {
        let mut data = vec![0; PAGE as usize].into_boxed_slice();
        let mut done = 0;
        while done < data.len() {
            match self
                .fs
                .read(ino, page * PAGE + done as u64, &mut data[done..])?
            {
                0 => break,
                count => done += count,
            }
        }
        self.pages.put((ino, page), data);
        Ok(())
    }

    /// Reads the pages of which a write changes a part only. A page that fails to load stays out.
    fn load_parts(&mut self, ino: Ino, offset: u64, length: usize) {
        let _ = Self::parts(offset, length, |page, _, part| {
            let place = (ino, page);
            if (part.len() as u64) < PAGE && self.pages.get(place).is_none() {
                self.brought.by_writes += u64::from(self.load(place).is_ok());
            }
            Ok(())
        });
    }

    /// The bytes of the cached page before a write that fills it.
    fn head(&mut self, ino: Ino, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let start = (offset % PAGE) as usize;
        let fills = start > 0 && start + length >= PAGE as usize;
        if !fills || offset > self.fs.getattr(ino)?.size {
            return Ok(Vec::new());
        }
        let held = self.pages.get((ino, offset / PAGE));
        Ok(held.map_or(Vec::new(), |page| page[..start].to_vec()))
    }

    /// Writes through, with the whole of the first page where that becomes full.
    fn write_through(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> Result<usize, Errno> {
        let mut whole = match self.whole && self.pages.most > 0 {
            true => {
                self.load_parts(ino, offset, data.len());
                self.head(ino, offset, data.len())?
            }
            false => Vec::new(),
        };
        if whole.is_empty() {
            return self.fs.write(ino, offset, data, now);
        }
        let known = whole.len();
        whole.extend_from_slice(data);
        let count = self.fs.write(ino, offset - known as u64, &whole, now)?;
        match count.saturating_sub(known) {
            0 => Err(Errno::NoSpace),
            count => Ok(count),
        }
    }

    /// Calls `each` for the parts of a range: page, place in it, range of the bytes.
    fn parts(
        offset: u64,
        length: usize,
        mut each: impl FnMut(u64, usize, core::ops::Range<usize>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let start = (at % PAGE) as usize;
            let step = (PAGE as usize - start).min(length - done);
            each(at / PAGE, start, done..done + step)?;
            done += step;
        }
        Ok(())
    }
}

impl<F: FileSystem> FileSystem for PageCache<F> {
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let attr = self.fs.getattr(ino)?;
        if self.pages.most == 0 || attr.kind != FileType::File {
            return self.fs.read(ino, offset, buf);
        }
        let count = (buf.len() as u64).min(attr.size.saturating_sub(offset)) as usize;
        Self::parts(offset, count, |page, start, part| {
            if self.pages.get((ino, page)).is_none() {
                self.load((ino, page))?;
                self.brought.by_reads += 1;
            }
            let data = self.pages.get((ino, page)).ok_or(Errno::Io)?;
            let length = part.len();
            buf[part].copy_from_slice(&data[start..start + length]);
            Ok(())
        })?;
        Ok(count)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let outcome = self.write_through(ino, offset, data, now);
        let Ok(count) = outcome else {
            // Part of it may be there.
            self.pages.cut(ino, offset / PAGE);
            return outcome;
        };
        Self::parts(offset, count, |page, start, part| {
            if part.len() as u64 == PAGE {
                self.brought.by_writes += u64::from(self.pages.get((ino, page)).is_none());
                self.pages.put((ino, page), data[part].into());
            } else if let Some(held) = self.pages.get((ino, page)) {
                held[start..start + part.len()].copy_from_slice(&data[part]);
            }
            Ok(())
        })?;
        Ok(count)
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        let outcome = self.fs.setattr(ino, change, now);
        if let Some(size) = change.size {
            // The page of the end, too: its rest is zeros now.
            self.pages.cut(ino, size / PAGE);
        }
        outcome
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        let attr = self.fs.create(dir, name, node, mode, by)?;
        // The number may have been another file's.
        self.pages.cut(attr.ino, 0);
        Ok(attr)
    }

    delegate! { [self.fs]
        lookup forget getattr link unlink rmdir rename readlink readdir fsync sync unmount statfs
        getxattr setxattr listxattr removexattr dirty write_back due cause work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_vfs::MemFs;
    use nandlab_vfs::model::{Model, Rules};

    #[test]
    fn pages_are_read_once_while_there_is_room() {
        let mut fs = PageCache::new(MemFs::new(64 << 20, Time::new(0)), 2 * PAGE);
        let ino = fs
            .create(
                Ino::ROOT,
                b"a",
                NewNode::File,
                0o644,
                Caller::root(Time::new(0)),
            )
            .unwrap()
            .ino;
        fs.write(ino, 0, &[1; 12_288], Time::new(0)).unwrap();
        let held = |fs: &PageCache<MemFs>| {
            fs.pages
                .held
                .keys()
                .map(|(_, page)| *page)
                .collect::<Vec<_>>()
        };
        assert_eq!(held(&fs), [1, 2]);
        // What lies behind is not asked for what is here.
        fs.fs.write(ino, 0, &[2; 12_288], Time::new(0)).unwrap();
        let mut buf = [0; 2];
        let mut at = |fs: &mut PageCache<MemFs>, offset| {
            fs.read(ino, offset, &mut buf).map(|_| buf).unwrap()
        };
        assert_eq!((at(&mut fs, 8190), at(&mut fs, 4095)), ([1, 1], [2, 1]));
        assert_eq!(held(&fs), [0, 1]);
        fs.write(ino, 4096, &[3], Time::new(0)).unwrap();
        assert_eq!(at(&mut fs, 4096), [3, 1]);
    }

    #[test]
    fn a_cached_file_system_answers_like_the_reference() {
        let sizes = [0, PAGE, 5 * PAGE, 1 << 20];
        for (bytes, whole) in sizes.into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let mut fs = PageCache::new(MemFs::new(64 << 20, Time::new(0)), bytes);
            fs.whole = whole;
            let mut model = Model::new(7 + bytes, Rules::unix());
            model.run(&mut fs, 6000).unwrap();
            model.compare(&mut fs).unwrap();
            assert!(
                fs.pages.held.len() as u64 <= bytes / PAGE
                    && fs.pages.held.len() == fs.pages.used.len()
            );
        }
    }
}
