//! The cache of names: which of them it may answer, and for how long.
//!
//! *Promises.* With the cache and without it, calls have the same outcomes and the device gets the
//! same requests. An answer of the cache stands for a search that would read nothing and evict
//! nothing. *Knows nothing of* how directories find names.

use crate::{F2fs, F2fsError};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Attr, Errno};

impl<D: BlockDevice> F2fs<D> {
    /// Refers to the inode to which a name leads. Asks the cache of names first.
    pub(crate) fn look_up(&mut self, dir: u32, name: &[u8]) -> Result<Attr, F2fsError> {
        let epoch = self.names_epoch();
        self.check_name_in(dir, name)?;
        if let Some(ino) = self.known.get(dir, name, self.names_epoch()) {
            return match self.refer(ino) {
                Err(F2fsError::Call(Errno::Stale)) => Err(self.need(dir, name)?.leads_astray()),
                outcome => outcome,
            };
        }
        let found = self.find(dir, name)?.ok_or(Errno::NoEntry)?;
        let ino = self.child(&found)?;
        self.known.put(dir, name, ino, epoch);
        self.refer(ino)
    }

    /// Makes all names in the cache void.
    pub(crate) fn end_names(&mut self) {
        self.known_ended += 1;
    }

    /// The epoch of the cache of names. While it stays, memory has the blocks that a search of a
    /// kept name would use, among those of recent use: the search would change nothing.
    pub(crate) fn names_epoch(&self) -> u64 {
        self.pages.turn() + self.nodes.turn() + self.known_ended
    }
}

#[cfg(test)]
mod tests {
    use crate::{F2fs, Format, Options, format};
    use alloc::{rc::Rc, string::String, vec::Vec};
    use core::cell::RefCell;
    use nandlab_block::{Event, Ram, Tracer};
    use nandlab_testkit::{files::NOW, names::play};
    use nandlab_vfs::{FileSystem, Ino, NameCache};

    /// Outcomes of calls on names, and requests to the device.
    fn played(options: Options, has_cache: bool) -> (Vec<String>, Vec<Event>) {
        let mut disk = Ram::new(512, 200_000);
        format(&mut disk, &Format::default()).unwrap();
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = events.clone();
        let disk = Tracer::new(disk, move |event: &Event| sink.borrow_mut().push(*event));
        let mut f2fs = F2fs::mount(disk, options).unwrap();
        if !has_cache {
            f2fs.known = NameCache::new(0);
        }
        let outcomes = play(&mut f2fs, 5, 6000);
        f2fs.unmount().unwrap();
        let asked = events.borrow().clone();
        (outcomes, asked)
    }

    #[test]
    fn the_device_is_asked_the_same_with_names_in_memory_and_without() {
        for (cache_bytes, inline_names) in [(16 << 10, false), (16 << 10, true), (4 << 20, false)] {
            let options = Options {
                cache_bytes,
                inline_names,
                ..Options::default()
            };
            let [with, without] = [true, false].map(|has| played(options, has));
            assert_eq!(with.0, without.0, "{options:?}");
            assert!(with.1 == without.1, "requests differ: {options:?}");
        }
    }

    #[test]
    fn a_name_is_known_from_its_making_until_it_goes() {
        let mut disk = Ram::new(512, 200_000);
        format(&mut disk, &Format::default()).unwrap();
        let mut f2fs = F2fs::mount(disk, Options::default()).unwrap();
        let file = nandlab_testkit::files::put(&mut f2fs, Ino::ROOT, "file", b"");
        let root = f2fs.layout.root;
        let known = |f2fs: &F2fs<Ram>| f2fs.known.get(root, b"file", f2fs.names_epoch());
        assert_eq!(known(&f2fs), Some(file.0 as u32));
        f2fs.end_names();
        assert_eq!(known(&f2fs), None);
        f2fs.lookup(Ino::ROOT, b"file").unwrap();
        assert_eq!(known(&f2fs), Some(file.0 as u32));
        f2fs.unlink(Ino::ROOT, b"file", NOW).unwrap();
        assert_eq!(known(&f2fs), None);
    }
}
