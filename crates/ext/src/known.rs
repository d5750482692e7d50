//! The cache of names: which of them it may answer, and for how long.
//!
//! *Promises.* With the cache and without it, calls have the same outcomes and the device gets the
//! same requests. An answer of the cache stands for a search that would read nothing and evict
//! nothing. *Knows nothing of* how directories find names.

use crate::{
    Ext, ExtError,
    dir::{Failures, Found},
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Attr, Errno};

impl<D: BlockDevice> Ext<D> {
    /// Refers to the inode to which a name leads. Asks the cache of names first.
    pub(crate) fn look_up(&mut self, dir: u32, name: &[u8]) -> Result<Attr, ExtError> {
        let epoch = self.names_epoch();
        self.check_name_in(dir, name)?;
        let (number, inode) = match self.names.get(dir, name, self.names_epoch()) {
            Some(number) => match self.alive(number) {
                Err(ExtError::Call(Errno::Stale)) => {
                    return Err(self.need(dir, name)?.leads_astray("an inode in use"));
                }
                outcome => (number, outcome?),
            },
            None => {
                let found = self.find(dir, name)?.ok_or(Errno::NoEntry)?;
                let child = self.child(&found)?;
                self.names.put(dir, name, child.0, epoch);
                child
            }
        };
        let attr = self.attr_of(number, &inode)?;
        self.nodes.refer(number);
        Ok(attr)
    }

    /// A block cannot be had. The cache does not keep the name from another block, so that the next
    /// search meets this one again.
    pub(crate) fn fail_find(
        &mut self,
        failures: &mut Failures,
        error: ExtError,
    ) -> Result<(), ExtError> {
        self.end_names();
        failures.add(error)
    }

    /// Makes all names in the cache void.
    pub(crate) fn end_names(&mut self) {
        self.names_ended += 1;
    }

    /// The epoch of the cache of names. While it stays, memory has the blocks that a search of a
    /// kept name would use, among those of recent use: the search would change nothing.
    pub(crate) fn names_epoch(&self) -> u64 {
        self.store.cache.turn() + self.names_ended
    }

    /// An entry changed: its name leads elsewhere.
    pub(crate) fn forget_name(&mut self, found: &Found) -> Result<(), ExtError> {
        let bytes = self.store.block(found.block)?;
        self.names.forget(found.dir, found.record.name_in(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ext, Format, Mode, Options, format};
    use alloc::{rc::Rc, string::String, vec::Vec};
    use core::cell::RefCell;
    use nandlab_block::{Event, Ram, Tracer};
    use nandlab_testkit::{files::NOW, names::play};
    use nandlab_vfs::{FileSystem, Ino, NameCache};

    /// Outcomes of calls on names, and requests to the device.
    fn played(made: &Format, options: Options, has_cache: bool) -> (Vec<String>, Vec<Event>) {
        let mut disk = Ram::new(512, 16_000);
        format(&mut disk, made).unwrap();
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = events.clone();
        let disk = Tracer::new(disk, move |event: &Event| sink.borrow_mut().push(*event));
        let mut ext = Ext::mount(disk, options).unwrap();
        if !has_cache {
            ext.names = NameCache::new(0);
        }
        let outcomes = play(&mut ext, 5, 6000);
        ext.unmount().unwrap();
        let asked = events.borrow().clone();
        (outcomes, asked)
    }

    #[test]
    fn the_device_is_asked_the_same_with_names_in_memory_and_without() {
        let ext3 = Format {
            journal: true,
            ..Format::default()
        };
        let ext4 = Format {
            ext4: true,
            ..ext3.clone()
        };
        for made in [Format::default(), ext3, ext4] {
            for (cache_bytes, mode) in [(16 << 10, Mode::Ordered), (4 << 20, Mode::Journal)] {
                let options = Options {
                    cache_bytes,
                    mode,
                    ..Options::default()
                };
                let [with, without] = [true, false].map(|has| played(&made, options, has));
                assert_eq!(with.0, without.0, "{made:?} {options:?}");
                assert!(with.1 == without.1, "requests differ: {made:?} {options:?}");
            }
        }
    }

    #[test]
    fn a_name_is_known_from_its_making_until_it_goes() {
        let mut disk = Ram::new(512, 16_000);
        format(&mut disk, &Format::default()).unwrap();
        let mut ext = Ext::mount(disk, Options::default()).unwrap();
        let file = nandlab_testkit::files::put(&mut ext, Ino::ROOT, "file", b"");
        let root = crate::format::ROOT;
        let known = |ext: &Ext<Ram>| ext.names.get(root, b"file", ext.names_epoch());
        assert_eq!(known(&ext), Some(file.0 as u32));
        ext.end_names();
        assert_eq!(known(&ext), None);
        ext.lookup(Ino::ROOT, b"file").unwrap();
        assert_eq!(known(&ext), Some(file.0 as u32));
        ext.unlink(Ino::ROOT, b"file", NOW).unwrap();
        assert_eq!(known(&ext), None);
    }
}
