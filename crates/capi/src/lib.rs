//! The C door: `include/nandlab.h`, a chip in virtual time and its power cuts for firmware in C.
//!
//! *Promises.* Every function that can fail returns a [`Status`], and a failure leaves its text for
//! `nandlab_last_error`. A panic stops at the door. `include/nandlab.h` is made from this crate by
//! cbindgen; a test compares the two.
//!
//! *Works on* `nand` (the chip and its log) and `crash` (the chip as a cut leaves it). A cut has
//! the same seed, place and word as in the explorer's state names.
//!
//! *Knows nothing of* layers, file systems, or who calls.
//!
//! All `unsafe` code of nandlab's C interface lives here. A caller in C promises once, for all
//! functions: a handle came from this library and is not freed yet; one thread at a time uses a
//! handle; a pointer to bytes covers the length beside it; a pointer to a result can be written;
//! the buffers of a call do not overlap; a text ends with a NUL. Null pointers are refused.
//!
//! | module | its one idea |
//! |---|---|
//! | `error` | the status of a call, and the text of the last failure |
//! | `raw` | pointers of the caller as references |
//! | `chip` | the chip: description, operations, clock, counters |
//! | `log` | the operations of a run, cuts, replay |

// C has pointers and no borrow checker; each block says why it is sound.
#![allow(unsafe_code)]
// The promise above is that of every function.
#![allow(clippy::missing_safety_doc)]

mod chip;
mod error;
mod log;
mod raw;

pub use chip::{
    Chip, Counts, Description, Geometry, nandlab_advance, nandlab_chip_counts, nandlab_chip_fork,
    nandlab_chip_free, nandlab_chip_geometry, nandlab_chip_new, nandlab_copy, nandlab_erase,
    nandlab_fence, nandlab_is_bad, nandlab_mark_bad, nandlab_now, nandlab_power_off,
    nandlab_power_on, nandlab_program, nandlab_read, nandlab_sync,
};
pub use error::{Status, nandlab_last_error};
pub use log::{
    Cut, Log, NANDLAB_COPY, NANDLAB_CUT_AFTER, NANDLAB_CUT_BEFORE, NANDLAB_CUT_TORN, NANDLAB_ERASE,
    NANDLAB_LINE, NANDLAB_MARK_BAD, NANDLAB_PROGRAM, Operation, nandlab_log_cut, nandlab_log_free,
    nandlab_log_get, nandlab_log_length, nandlab_log_replay, nandlab_log_start, nandlab_log_take,
};
