//! The status of a call, and the text of the last failure.

use nandlab_mtd::MtdError;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of a call. Zero is success.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call did what it was asked.
    Ok = 0,
    /// A null pointer, or a value that the function does not take.
    Argument = 1,
    /// More bit errors than the error correction can repair, or a torn page. The buffers hold the
    /// bytes as read.
    Uncorrectable = 2,
    /// The chip reported a failed program.
    ProgramFailed = 3,
    /// The chip reported a failed erase.
    EraseFailed = 4,
    /// The block is marked bad.
    BadBlock = 5,
    /// The power is off.
    PowerCut = 6,
    /// A page, a block or an operation outside the chip or the log.
    OutOfRange = 7,
    /// A buffer whose length does not fit the page or its spare bytes.
    Length = 8,
    /// The caller broke a rule of the data sheet: a program of a page that is not erased or that a
    /// cut has torn, or pages out of order.
    Illegal = 9,
    /// The chip keeps no log.
    NoLog = 10,
    /// The log does not have this moment: the operation takes no time and cannot be torn, or
    /// another one destroyed what it needed.
    NoMoment = 11,
    /// A defect of nandlab. Please report the text of `nandlab_last_error`.
    Internal = 12,
}

/// A failed call: its status and the text for the caller.
#[derive(Debug)]
pub(crate) struct Fault {
    status: Status,
    text: String,
}

impl Fault {
    pub fn new(status: Status, text: impl Display) -> Self {
        Self {
            status,
            text: text.to_string(),
        }
    }

    pub fn argument(text: impl Display) -> Self {
        Self::new(Status::Argument, text)
    }
}

impl From<MtdError> for Fault {
    fn from(error: MtdError) -> Self {
        let status = match error {
            MtdError::Uncorrectable(_) => Status::Uncorrectable,
            MtdError::ProgramFailed(_) => Status::ProgramFailed,
            MtdError::EraseFailed(_) => Status::EraseFailed,
            MtdError::BadBlock(_) => Status::BadBlock,
            MtdError::PowerCut => Status::PowerCut,
            MtdError::OutOfRange(_) => Status::OutOfRange,
            MtdError::BadLength { .. } => Status::Length,
            MtdError::Illegal(..) => Status::Illegal,
            // A chip in memory is neither read-only nor backed by a file or a layer.
            MtdError::ReadOnly(_) | MtdError::Backing(_) | MtdError::Below(..) => Status::Internal,
        };
        Self::new(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn keep(text: &str) {
    // A NUL inside would end the text for C.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
}

/// Runs the body of a function of the door. No panic crosses into C.
pub(crate) fn report(body: impl FnOnce() -> Result<(), Fault>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(fault)) => {
            keep(&fault.text);
            fault.status
        }
        Err(_) => {
            keep("a panic inside nandlab; its message is on standard error");
            Status::Internal
        }
    }
}

/// The text of the last failure on this thread; empty if there was none. It stays valid until the
/// next call on this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn nandlab_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the text ends with a NUL, and this thread keeps it.
        let text = unsafe { CStr::from_ptr(nandlab_last_error()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_failure_leaves_its_text_and_a_success_keeps_it() {
        let refused = report(|| Err(Fault::argument("a\0b")));
        assert_eq!((refused, last()), (Status::Argument, "a b".to_owned()));
        assert_eq!(report(|| Ok(())), Status::Ok);
        assert_eq!(last(), "a b");
    }

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(report(|| panic!("stop")), Status::Internal);
        assert!(last().starts_with("a panic inside nandlab"), "{}", last());
    }
}
