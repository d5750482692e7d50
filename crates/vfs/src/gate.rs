//! The gate that every call of a file system passes. It decides whether the call may run, and it
//! remembers that the medium failed.
//!
//! *Promises.* After a failed write memory and medium differ: no later call writes, and reading
//! goes on. The gate keeps the first cause until the mount ends. After [`Gate::close`] every call
//! fails. A call that succeeds costs two comparisons. *Knows nothing of* formats.

use crate::{
    Errno,
    cause::{Call, CallBuf, Cause, Led},
};
use core::{error::Error, mem::discriminant};

/// The error of a file system, as a [`Gate`] sees it.
pub trait Fault: Error + Clone + Send + Sync + 'static {
    /// The number for the caller.
    fn errno(&self) -> Errno;

    /// The call asked for something impossible; there is no more to say than the number.
    fn is_refusal(&self) -> bool;

    /// If a call that writes ends with it, memory and medium differ.
    fn is_fatal(&self) -> bool;

    /// The error of every write behind a fatal one.
    fn failed() -> Self;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Mounted,
    Failed,
    Unmounted,
}

/// An error and the call that met it.
#[derive(Clone, Debug)]
struct Met<E> {
    call: CallBuf,
    error: E,
}

impl<E: Fault> Met<E> {
    fn new(call: Call<'_>, error: E) -> Self {
        Self {
            call: call.into(),
            error,
        }
    }
}

/// The state of a mount, and the errors that its calls met.
///
/// ```
/// use nandlab_vfs::{Call, Chain, Errno, Fault, Gate, Gated};
///
/// #[derive(Clone, Debug, thiserror::Error)]
/// enum DiskError {
///     #[error("sector {0}: lost")]
///     Lost(u64),
///     #[error("read-only since an earlier write failed")]
///     Failed,
/// }
///
/// impl Fault for DiskError {
///     fn errno(&self) -> Errno {
///         match self {
///             Self::Lost(_) => Errno::Io,
///             Self::Failed => Errno::ReadOnly,
///         }
///     }
///     fn is_refusal(&self) -> bool {
///         false
///     }
///     fn is_fatal(&self) -> bool {
///         matches!(self, Self::Lost(_))
///     }
///     fn failed() -> Self {
///         Self::Failed
///     }
/// }
///
/// struct MyFs(Gate<DiskError>);
///
/// impl Gated for MyFs {
///     type Error = DiskError;
///     fn gate(&mut self) -> &mut Gate<DiskError> {
///         &mut self.0
///     }
/// }
///
/// let mut fs = MyFs(Gate::new(false));
/// let write = fs.write_call(Call::new("sync"), |_| Err::<(), _>(DiskError::Lost(8)));
/// assert_eq!(write, Err(Errno::Io));
/// // No later call writes, and its error leads to the first one.
/// assert_eq!(fs.write_call(Call::new("write"), |_| Ok(())), Err(Errno::ReadOnly));
/// assert_eq!(
///     Chain(&fs.take_cause().unwrap()).to_string(),
///     "write: read-only since an earlier write failed: sync: sector 8: lost"
/// );
/// // Reading goes on.
/// assert_eq!(fs.look(Call::new("read"), |_| Ok(1)), Ok(1));
/// ```
#[derive(Clone, Debug)]
pub struct Gate<E> {
    state: State,
    read_only: bool,
    /// Why nothing is written any more.
    first: Option<Met<E>>,
    last: Option<Met<E>>,
}

impl<E: Fault> Gate<E> {
    /// A new mount; `read_only` if nothing may ever be written.
    pub fn new(read_only: bool) -> Self {
        Self {
            state: State::Mounted,
            read_only,
            first: None,
            last: None,
        }
    }

    /// Whether calls may still write.
    pub fn is_writable(&self) -> bool {
        self.state == State::Mounted && !self.read_only
    }

    /// Whether nothing may ever be written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The error of the last call that met one and was not explained yet.
    pub fn fault(&self) -> Option<&E> {
        Some(&self.last.as_ref()?.error)
    }

    /// Keeps an error that no caller has seen.
    pub fn remember(&mut self, call: Call<'_>, error: E) {
        self.last = Some(Met::new(call, error));
    }

    /// Ends the mount; `Ok(true)` if dirty data must still be written.
    pub fn close(&mut self) -> Result<bool, E> {
        match core::mem::replace(&mut self.state, State::Unmounted) {
            State::Failed => Err(E::failed()),
            _ => Ok(!self.read_only),
        }
    }

    fn enter(&self) -> Result<(), Errno> {
        match self.state {
            State::Unmounted => Err(Errno::Io),
            _ => Ok(()),
        }
    }

    fn enter_to_write(&mut self, call: Call<'_>) -> Result<(), Errno> {
        match self.state {
            State::Failed => Err(self.met(call, E::failed())),
            _ if self.read_only => Err(Errno::ReadOnly),
            _ => self.enter(),
        }
    }

    fn met(&mut self, call: Call<'_>, error: E) -> Errno {
        let errno = error.errno();
        if !error.is_refusal() {
            self.remember(call, error);
        }
        errno
    }

    fn fail(&mut self, call: Call<'_>, error: &E) {
        if self.state == State::Mounted {
            self.state = State::Failed;
        }
        self.first
            .get_or_insert_with(|| Met::new(call, error.clone()));
    }
}

/// A file system whose calls go through a [`Gate`].
pub trait Gated {
    /// The error of this file system.
    type Error: Fault;

    /// The gate of this mount.
    fn gate(&mut self) -> &mut Gate<Self::Error>;

    /// The byte of the device where an error was met, if it is one place.
    fn place(&mut self, error: &Self::Error) -> Option<u64> {
        let _ = error;
        None
    }

    /// Runs before each call that writes.
    fn before_write(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs behind each call.
    fn after_call(&mut self) {}

    /// Runs a call that changes nothing on the medium.
    fn look<T>(
        &mut self,
        call: Call<'_>,
        run: impl FnOnce(&mut Self) -> Result<T, Self::Error>,
    ) -> Result<T, Errno> {
        self.gate().enter()?;
        let outcome = run(self);
        self.after_call();
        outcome.map_err(|error| self.gate().met(call, error))
    }

    /// Runs a call that writes.
    fn write_call<T>(
        &mut self,
        call: Call<'_>,
        run: impl FnOnce(&mut Self) -> Result<T, Self::Error>,
    ) -> Result<T, Errno> {
        self.gate().enter_to_write(call)?;
        self.look(call, |fs| {
            let outcome = fs.before_write().and_then(|()| run(fs));
            outcome.inspect_err(|error| {
                if error.is_fatal() {
                    fs.gate().fail(call, error);
                }
            })
        })
    }

    /// The cause of the last error, reported once. Behind a failed write it leads to the first
    /// cause.
    fn take_cause(&mut self) -> Option<Cause> {
        let first = self.gate().first.clone();
        let last = self.gate().last.take();
        let met = last.or_else(|| first.clone())?;
        let at = self.place(&met.error);
        let is_late = discriminant(&met.error) == discriminant(&Self::Error::failed());
        match first.filter(|_| is_late) {
            None => Some(Cause::new(met.call, at, met.error)),
            Some(first) => {
                let at_first = self.place(&first.error);
                let by = Cause::new(first.call, at_first, first.error);
                let error = met.error;
                Some(Cause::new(met.call, at, Led { error, by }))
            }
        }
    }
}
