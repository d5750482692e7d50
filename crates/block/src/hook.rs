//! What adapters that only look on, or only refuse, have in common: one device that tells a hook
//! about every request.
//!
//! *Promises* that the hook sees each request once before and once after. *Knows nothing of* what
//! the hook does. [`Counter`](crate::Counter), [`Tracer`](crate::Tracer) and
//! [`FaultInjector`](crate::FaultInjector) are hooks.

use crate::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// A call of [`BlockDevice::read`].
    Read,
    /// A call of [`BlockDevice::write`].
    Write,
    /// A call of [`BlockDevice::flush`].
    Flush,
    /// A call of [`BlockDevice::discard`].
    Discard,
    /// A call of [`BlockDevice::remap`].
    Remap,
}

/// A request, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kind of the request.
    pub op: Op,
    /// Its first sector; of a remap the first `to`, of a flush zero.
    pub lba: Lba,
    /// Its length in sectors; of a remap the number of pairs, of a flush zero.
    pub sectors: u64,
}

/// Stands beside a device.
pub trait Hook {
    /// Before the device sees the request; an error refuses it.
    fn before(&mut self, request: &Request) -> Result<(), BlockError> {
        let _ = request;
        Ok(())
    }

    /// After the request was served, or refused by [`before`](Hook::before); gives the outcome that
    /// the caller sees.
    fn after(
        &mut self,
        request: &Request,
        outcome: Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let _ = request;
        outcome
    }
}

/// The device `D` with the hook `H` beside it.
#[derive(Clone, Debug)]
pub struct Hooked<D, H> {
    inner: D,
    pub(crate) hook: H,
}

impl<D, H> Hooked<D, H> {
    /// Puts `hook` beside `inner`.
    pub fn with(inner: D, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The device below; requests made there pass the hook by.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Takes the hook off.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: BlockDevice, H: Hook> Hooked<D, H> {
    fn around(
        &mut self,
        request: Request,
        serve: impl FnOnce(&mut D) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let outcome = self
            .hook
            .before(&request)
            .and_then(|()| serve(&mut self.inner));
        self.hook.after(&request, outcome)
    }

    /// Whole sectors in `bytes`; the device below refuses what is left over.
    fn sectors(&self, bytes: usize) -> u64 {
        bytes as u64 / u64::from(self.inner.geometry().sector.max(1))
    }
}

impl<D: BlockDevice, H: Hook> BlockDevice for Hooked<D, H> {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.inner.idle()
    }

    fn stream(&mut self, stream: u8) {
        self.inner.stream(stream);
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        let sectors = self.sectors(buf.len());
        self.around(
            Request {
                op: Op::Read,
                lba,
                sectors,
            },
            |inner| inner.read(lba, buf),
        )
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        let sectors = self.sectors(data.len());
        self.around(
            Request {
                op: Op::Write,
                lba,
                sectors,
            },
            |inner| inner.write(lba, data),
        )
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.around(
            Request {
                op: Op::Flush,
                lba: Lba(0),
                sectors: 0,
            },
            |inner| inner.flush(),
        )
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.around(
            Request {
                op: Op::Discard,
                lba,
                sectors,
            },
            |inner| inner.discard(lba, sectors),
        )
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        let lba = pairs.first().map_or(Lba(0), |pair| pair.to);
        self.around(
            Request {
                op: Op::Remap,
                lba,
                sectors: pairs.len() as u64,
            },
            |inner| inner.remap(pairs),
        )
    }
}
