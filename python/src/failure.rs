//! Exceptions. A panic becomes one, too: the interpreter goes on.

use nandlab_sim::Chain;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

create_exception!(
    nandlab,
    NandlabError,
    PyException,
    "Anything that nandlab refuses."
);
create_exception!(
    nandlab,
    DescriptionError,
    NandlabError,
    "An experiment that is wrong: the message names the key, what was found and what was expected."
);
create_exception!(nandlab, RunError, NandlabError, "A run that has no result.");
create_exception!(
    nandlab,
    ImageError,
    NandlabError,
    "An image, or a path in it, that cannot be read: the message says where and why."
);
create_exception!(
    nandlab,
    ChipError,
    NandlabError,
    "A rule of NAND flash that was broken, or an operation that the chip failed."
);
create_exception!(
    nandlab,
    InternalError,
    NandlabError,
    "A fault of nandlab itself. Please report it with the message."
);

/// An error with its causes, as an exception.
pub fn raised(new: impl FnOnce(String) -> PyErr, error: &(dyn Error + 'static)) -> PyErr {
    new(Chain(error).to_string())
}

/// What a callback raised: it ends the run on its way out.
struct Stopped(PyErr);

/// Ends the run around it with what a callback raised.
pub fn stop(error: PyErr) -> ! {
    resume_unwind(Box::new(Stopped(error)))
}

thread_local! {
    /// The exception of a layer or a workload written in Python that unwinds this thread.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Ends the work around a layer or a workload written in Python with the exception of its method.
/// Whoever reports panics, such as the crash explorer, finds the exception as text.
pub fn failed(name: &str, method: &str, error: PyErr) -> ! {
    let text = format!("{name}.{method}: {error}");
    RAISED.set(Some(error));
    resume_unwind(Box::new(text))
}

/// Runs `work` without the interpreter's lock.
pub fn guarded<T: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| caught(work))
}

/// Runs `work` at once: it is short, and keeps the interpreter's lock.
pub fn guarded_here<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let outcome = catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|panic| Err(from_panic(panic)))
}

/// Runs `work`; what unwinds it becomes an exception.
pub fn caught<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    // An exception that the explorer has reported is left.
    RAISED.set(None);
    guarded_here(work)
}

fn from_panic(panic: Box<dyn Any + Send>) -> PyErr {
    if let Some(error) = RAISED.take() {
        return error;
    }
    match panic.downcast::<Stopped>() {
        Ok(stopped) => stopped.0,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            InternalError::new_err(text.unwrap_or("no message").to_owned())
        }
    }
}
