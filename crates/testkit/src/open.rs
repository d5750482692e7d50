//! A program that keeps every file open: a file without names is there until the unmount.

use nandlab_vfs::{FileSystem, Ino, Mounted, Nature, Promise, Volume, VolumeError, delegate};

/// A volume whose user forgets no inode.
#[derive(Clone, Debug)]
pub struct KeptOpen<V>(pub V);

struct Open<D>(Box<dyn Mounted<D>>);

impl<D: 'static, V: Volume<D>> Volume<D> for KeptOpen<V> {
    fn nature(&self, medium: &D) -> Nature {
        self.0.nature(medium)
    }

    fn format(&self, medium: &mut D) -> Result<(), VolumeError> {
        self.0.format(medium)
    }

    fn mount(&self, medium: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        Ok(Box::new(Open(self.0.mount(medium)?)))
    }
}

impl<D> FileSystem for Open<D> {
    delegate! { [self.0]
        lookup getattr setattr create link unlink rmdir rename readlink read write next_data
        readdir fsync sync unmount statfs write_back dirty due work cause
    }

    fn forget(&mut self, _: Ino, _: u64) {}
}

impl<D> Mounted<D> for Open<D> {
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, VolumeError> {
        self.0.damage(promise)
    }

    fn goes_on(&mut self) -> bool {
        self.0.goes_on()
    }

    fn into_medium(self: Box<Self>) -> D {
        self.0.into_medium()
    }
}
