//! What adapters that look on, or bend an outcome, have in common: one device that tells a hook
//! about every request.
//!
//! *Promises* that the hook sees each request once before and once after. *Knows nothing of* what
//! the hook does. [`Counter`](crate::Counter), [`Tracer`](crate::Tracer) and
//! [`FaultInjector`](crate::FaultInjector) are hooks.

use crate::{Block, Corrected, Geometry, Issued, Mtd, MtdError, Outcome, Page, Request};

/// Stands beside a device.
pub trait Hook {
    /// Before the device sees the request; an error refuses it.
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        let _ = request;
        Ok(())
    }

    /// After the request was served, or refused by [`before`](Hook::before); gives the outcome that
    /// the caller sees.
    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        let _ = request;
        outcome
    }

    /// What the caller finds in its buffers when [`after`](Hook::after) has made a failure of a
    /// good read.
    fn damage(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) {
        let _ = (page, data, oob);
    }

    /// Whether a block that the device holds good is to be taken for bad.
    fn is_bad(&self, block: Block) -> bool {
        let _ = block;
        false
    }
}

/// The device `M` with the hook `H` beside it.
#[derive(Clone, Debug)]
pub struct Hooked<M, H> {
    inner: M,
    pub(crate) hook: H,
}

impl<M, H> Hooked<M, H> {
    /// Puts `hook` beside `inner`.
    pub fn with(inner: M, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The device below; requests made there pass the hook by.
    pub fn inner_mut(&mut self) -> &mut M {
        &mut self.inner
    }

    /// Takes the hook off.
    pub fn into_inner(self) -> M {
        self.inner
    }
}

impl<M: Mtd, H: Hook> Hooked<M, H> {
    fn around(&mut self, request: Request, serve: impl FnOnce(&mut M) -> Outcome) -> Outcome {
        let outcome = self
            .hook
            .before(&request)
            .and_then(|()| serve(&mut self.inner));
        self.hook.after(&request, outcome)
    }
}

/// The outcome of a request without bits to report.
fn plain(done: Result<(), MtdError>) -> Outcome {
    done.map(|()| Corrected::default())
}

impl<M: Mtd, H: Hook> Mtd for Hooked<M, H> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        let mut good = false;
        let outcome = self.around(
            Request::Read {
                page,
                data: !data.is_empty(),
            },
            |inner| {
                let outcome = inner.read(page, data, oob);
                good = outcome.is_ok();
                outcome
            },
        );
        if good && outcome.is_err() {
            self.hook.damage(page, data, oob);
        }
        outcome
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.around(
            Request::Program {
                page,
                data: !data.is_empty(),
            },
            |inner| plain(inner.program(page, data, oob)),
        )
        .map(drop)
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.around(Request::Copy { from, to }, |inner| {
            inner.copy(from, to, head, tail)
        })
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.around(Request::Erase(block), |inner| plain(inner.erase(block)))
            .map(drop)
    }

    fn slc_pages(&self) -> Option<u32> {
        self.inner.slc_pages()
    }

    fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
        self.around(Request::Erase(block), |inner| plain(inner.erase_slc(block)))
            .map(drop)
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        let mut bad = self.hook.is_bad(block);
        self.around(Request::IsBad(block), |inner| {
            bad |= inner.is_bad(block)?;
            Ok(Corrected::default())
        })?;
        Ok(bad)
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.around(Request::MarkBad(block), |inner| {
            plain(inner.mark_bad(block))
        })
        .map(drop)
    }

    fn issued(&self) -> Issued {
        self.inner.issued()
    }

    fn fence(&mut self, mark: Issued) {
        let request = Request::Fence(mark);
        self.inner.fence(mark);
        let _ = self.hook.after(&request, Ok(Corrected::default()));
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.around(Request::Sync, |inner| plain(inner.sync()))
            .map(drop)
    }
}
