//! One device behind one lock, for several servers and connections at once.

use crate::Bytes;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry};
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// A device shared by cloning. The simulation below stays sequential: one request at a time holds
/// the lock.
#[derive(Clone)]
pub struct SharedDisk {
    geometry: BlockGeometry,
    device: Arc<Mutex<Bytes<Box<dyn BlockDevice + Send>>>>,
}

impl fmt::Debug for SharedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedDisk")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

impl SharedDisk {
    /// Takes the device over until [`into_inner`](Self::into_inner).
    pub fn new(device: Box<dyn BlockDevice + Send>) -> Self {
        Self {
            geometry: *device.geometry(),
            device: Arc::new(Mutex::new(Bytes::new(device))),
        }
    }

    /// Returns the shape of the disk.
    pub fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.geometry.bytes()
    }

    /// Runs `request` while nobody else does. After a request that panicked every other fails,
    /// because the device may have been left half changed.
    pub fn with<T>(
        &self,
        request: impl FnOnce(&mut Bytes<Box<dyn BlockDevice + Send>>) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        match self.device.lock() {
            Ok(mut device) => request(&mut device),
            Err(_) => Err(BlockError::internal(
                "shared disk",
                "an earlier request panicked",
            )),
        }
    }

    /// Gives the device back once every server that shared it has ended; `None` before, or if a
    /// request panicked.
    pub fn into_inner(self) -> Option<Box<dyn BlockDevice + Send>> {
        Arc::into_inner(self.device)?
            .into_inner()
            .ok()
            .map(Bytes::into_inner)
    }
}
