//! The operations of a run, cuts, replay.

use crate::chip::{Chip, recurs};
use crate::error::{Fault, Status, report};
use crate::raw;
use nandlab_crash::Phase;
use nandlab_mtd::{Geometry, Mtd};
use nandlab_nand::{Fate, LoggedKind, LoggedOp};

/// The operations of a run, with their times.
#[derive(Debug)]
pub struct Log {
    ops: Vec<LoggedOp>,
    geometry: Geometry,
}

impl Log {
    fn check_shape(&self, chip: &Chip) -> Result<(), Fault> {
        if self.geometry == *chip.0.geometry() {
            return Ok(());
        }
        let text = "the log comes from a chip of another shape; pass a fork of that chip";
        Err(Fault::argument(text))
    }
}

/// Kind of an operation: a page program.
pub const NANDLAB_PROGRAM: u32 = 0;
/// Kind of an operation: a copy inside the array.
pub const NANDLAB_COPY: u32 = 1;
/// Kind of an operation: a block erase.
pub const NANDLAB_ERASE: u32 = 2;
/// Kind of an operation: a bad-block mark.
pub const NANDLAB_MARK_BAD: u32 = 3;
/// Kind of an operation: a line of a memory beside the chip. A chip of this interface has none.
pub const NANDLAB_LINE: u32 = 4;

/// Phase of a cut: the operation has not begun.
pub const NANDLAB_CUT_BEFORE: u32 = 0;
/// Phase of a cut: the operation is under way. It ends undone, torn or done.
pub const NANDLAB_CUT_TORN: u32 = 1;
/// Phase of a cut: the operation is done. The call may or may not have returned.
pub const NANDLAB_CUT_AFTER: u32 = 2;

/// An operation of a log.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// NANDLAB_PROGRAM, NANDLAB_COPY, NANDLAB_ERASE, NANDLAB_MARK_BAD or NANDLAB_LINE.
    pub kind: u32,
    /// The block that it changes.
    pub block: u32,
    /// The page that it changes; of an erase or a mark the block's first.
    pub page: u32,
    /// The page that is copied; otherwise `page`.
    pub from: u32,
    /// When it took hold of its die, in nanoseconds.
    pub start: u64,
    /// When it was on the medium, in nanoseconds.
    pub end: u64,
}

/// One state that a power cut of a run can leave.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The operation, by its place in the log.
    pub operation: usize,
    /// NANDLAB_CUT_BEFORE, NANDLAB_CUT_TORN or NANDLAB_CUT_AFTER.
    pub phase: u32,
    /// Numbers the states of one phase of one operation. It chooses the moment within the
    /// operation, and what becomes of all operations under way.
    pub word: u32,
    /// Varies the torn bits of all states.
    pub seed: u64,
}

fn phase(number: u32) -> Result<Phase, Fault> {
    match number {
        NANDLAB_CUT_BEFORE => Ok(Phase::Before),
        NANDLAB_CUT_TORN => Ok(Phase::Torn),
        NANDLAB_CUT_AFTER => Ok(Phase::After),
        other => Err(Fault::argument(format_args!(
            "phase of a cut is {other}; expected 0, 1 or 2"
        ))),
    }
}

/// The operation at a place of a log.
fn operation(log: &Log, index: usize) -> Result<&LoggedOp, Fault> {
    let beyond = || {
        let text = format!("operation {index} of a log of {}", log.ops.len());
        Fault::new(Status::OutOfRange, text)
    };
    log.ops.get(index).ok_or_else(beyond)
}

fn described(op: &LoggedOp, pages_per_block: u32) -> Operation {
    let place = match op.kind {
        LoggedKind::Program { page, .. } => (NANDLAB_PROGRAM, page.0, page.0),
        LoggedKind::Copy { from, to, .. } => (NANDLAB_COPY, to.0, from.0),
        LoggedKind::Erase(block) | LoggedKind::EraseSlc(block) => {
            let page = block.0 * pages_per_block;
            (NANDLAB_ERASE, page, page)
        }
        LoggedKind::MarkBad(block) => {
            let page = block.0 * pages_per_block;
            (NANDLAB_MARK_BAD, page, page)
        }
        LoggedKind::Line { .. } => (NANDLAB_LINE, 0, 0),
    };
    Operation {
        kind: place.0,
        block: place.1 / pages_per_block,
        page: place.1,
        from: place.2,
        start: op.start,
        end: op.end,
    }
}

/// Makes a chip keep every operation that changes it from now on. A log already kept goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_start(chip: *mut Chip) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        unsafe { raw::unique(chip, "chip") }?.0.start_log();
        Ok(())
    })
}

/// Takes the log of a chip, which then keeps none. Free it with `nandlab_log_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_take(chip: *mut Chip, log: *mut *mut Log) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        if !chip.0.is_logging() {
            let text = "the chip keeps no log; call nandlab_log_start first";
            return Err(Fault::new(Status::NoLog, text));
        }
        let taken = Log {
            ops: chip.0.take_log(),
            geometry: chip.0.geometry().clone(),
        };
        // SAFETY: the caller passes null or a place for a handle.
        unsafe { raw::give_handle(log, taken, "log") }
    })
}

/// Frees a log. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_free(log: *mut Log) {
    // SAFETY: the caller passes null or a handle, and uses it no more.
    unsafe { raw::take_back(log) }
}

/// Returns how many operations a log holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_length(log: *const Log, length: *mut usize) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let log = unsafe { raw::shared(log, "log") }?;
        // SAFETY: the caller passes null or a place for a number.
        unsafe { raw::give(length, log.ops.len(), "length") }
    })
}

/// Returns an operation of a log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_get(
    log: *const Log,
    index: usize,
    result: *mut Operation,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let log = unsafe { raw::shared(log, "log") }?;
        let found = described(operation(log, index)?, log.geometry.pages_per_block);
        // SAFETY: the caller passes null or a place for an operation.
        unsafe { raw::give(result, found, "result") }
    })
}

/// Makes the chip as a power cut leaves it, powered up again. `before` is a fork from the moment of
/// `nandlab_log_start`; it does not change. `moment` takes the time of the cut, and may be null:
/// what a sync acknowledged by then must be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_cut(
    before: *const Chip,
    log: *const Log,
    cut: *const Cut,
    chip: *mut *mut Chip,
    moment: *mut u64,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let before = unsafe { raw::shared(before, "before") }?;
        // SAFETY: the caller passes null or a handle.
        let log = unsafe { raw::shared(log, "log") }?;
        // SAFETY: the caller passes null or a cut.
        let cut = unsafe { raw::shared(cut, "cut") }?;
        log.check_shape(before)?;
        operation(log, cut.operation)?;
        let base = before
            .0
            .fork()
            .map_err(|e| Fault::new(Status::Internal, e))?;
        let asked = nandlab_crash::Cut {
            op: cut.operation,
            phase: phase(cut.phase)?,
            word: cut.word,
        };
        let no_moment = |text: &dyn std::fmt::Display| Fault::new(Status::NoMoment, text);
        let state = asked.state(base, &log.ops, cut.seed);
        let Some((at, left)) = state.map_err(|error| no_moment(&error))? else {
            return Err(no_moment(
                &"the operation takes no time, so it cannot be torn",
            ));
        };
        if !moment.is_null() {
            // SAFETY: the caller passes null or a place for a number.
            unsafe { raw::give(moment, at, "moment") }?;
        }
        // SAFETY: the caller passes null or a place for a handle.
        unsafe { raw::give_handle(chip, Chip(left), "chip") }
    })
}

/// Does the operations of a log from `first` up to, but not including, `end` on a chip, whole. A
/// program or an erase that failed in the run fails again and does not stop the replay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_log_replay(
    chip: *mut Chip,
    log: *const Log,
    first: usize,
    end: usize,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        // SAFETY: the caller passes null or a handle.
        let log = unsafe { raw::shared(log, "log") }?;
        log.check_shape(chip)?;
        let Some(ops) = log.ops.get(first..end) else {
            let text = format!("operations {first} to {end} of a log of {}", log.ops.len());
            return Err(Fault::new(Status::OutOfRange, text));
        };
        for op in ops {
            match chip.0.replay(&op.kind, Fate::Done) {
                Err(error) if !recurs(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    })
}
