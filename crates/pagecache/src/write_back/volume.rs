//! A volume behind the write-back routine.

use super::{Settings, WriteBack};
use alloc::{boxed::Box, string::String, vec::Vec};
use nandlab_vfs::{Mounted, Nature, Promise, Time, Volume, VolumeError};

/// A volume whose writes wait in the routine.
///
/// Nothing takes time here: a pass ends with its threshold.
#[derive(Clone, Debug)]
pub struct Deferred<V> {
    /// The volume whose writes are deferred.
    pub volume: V,
    /// The settings of the write-back routine.
    pub settings: Settings,
}

impl<M: 'static, V: Volume<M>> Volume<M> for Deferred<V> {
    fn nature(&self, medium: &M) -> Nature {
        Nature {
            late: true,
            lags: false,
            ..self.volume.nature(medium)
        }
    }

    fn format(&self, medium: &mut M) -> Result<(), VolumeError> {
        self.volume.format(medium)
    }

    fn mount(&self, medium: M) -> Result<Box<dyn Mounted<M>>, VolumeError> {
        let never: fn() -> Time = || Time::MIN;
        let below = self.volume.mount(medium)?;
        Ok(Box::new(WriteBack::new(below, never, self.settings)))
    }
}

impl<M, C: Fn() -> Time> Mounted<M> for WriteBack<Box<dyn Mounted<M>>, C> {
    /// Checks the medium; writes that wait are no part of it.
    fn damage(&mut self, promise: Promise) -> Result<Vec<String>, VolumeError> {
        self.inner_mut().damage(promise)
    }

    fn goes_on(&mut self) -> bool {
        self.inner_mut().goes_on()
    }

    fn into_medium(self: Box<Self>) -> M {
        self.into_inner().into_medium()
    }
}
