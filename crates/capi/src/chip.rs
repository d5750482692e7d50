//! The chip: description, operations, clock, counters.

use crate::error::{Fault, Status, report};
use crate::raw;
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_nand::preset::Shape;
use nandlab_nand::{ChipSpec, Ecc, Reliability, preset};
use std::ffi::c_char;

/// A NAND chip in virtual time.
#[derive(Debug)]
pub struct Chip(pub(crate) nandlab_nand::Chip);

/// What a chip is. Zero stands for the preset's value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The name of a preset, for times, rules and reliability: "slc-2k", "small-block-64MiB",
    /// "nandsim-jftl", "onenand-kfg1g16u2m", "emmc-16GiB" or "ssd-512GiB".
    pub preset: *const c_char,
    /// Data bytes of a page.
    pub page: u32,
    /// Bytes of a page's spare area that the caller may use.
    pub oob: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks of the whole chip.
    pub blocks: u32,
    /// Dies that work independently.
    pub dies: u32,
    /// Seed of failures and bit errors.
    pub seed: u64,
    /// Bits that the error correction repairs in each 512 bytes.
    pub ecc_bits: u16,
    /// Probability that a bit is wrong in a read, before the error correction.
    pub bit_errors: f64,
    /// Probability that a program fails.
    pub program_fail: f64,
    /// Probability that an erase fails.
    pub erase_fail: f64,
    /// Share of the blocks that are bad from the factory.
    pub factory_bad: f64,
}

/// The shape of a chip.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Data bytes of a page.
    pub page: u32,
    /// Bytes of a page's spare area that the caller may use.
    pub oob: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks of the whole chip.
    pub blocks: u32,
    /// Dies that work independently. Block `b` lies on die `b % dies`.
    pub dies: u32,
}

/// Operations since the chip was made. A fork goes on from the counts of its original.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Page reads with data.
    pub reads: u64,
    /// Reads of spare bytes alone.
    pub oob_reads: u64,
    /// Page programs with data, without copies.
    pub programs: u64,
    /// Programs of spare bytes alone.
    pub oob_programs: u64,
    /// Copies inside the array.
    pub copies: u64,
    /// Block erases, failed ones included.
    pub erases: u64,
    /// Bits that the error correction repaired.
    pub corrected_bits: u64,
    /// Reads beyond correction, torn pages included.
    pub uncorrectable: u64,
    /// Failed programs and erases.
    pub failures: u64,
}

/// The chip that a description asks for.
fn spec(description: &Description, preset_name: &str) -> Result<ChipSpec, Fault> {
    let given = |number: u32| (number > 0).then_some(number);
    let shape = Shape {
        page: given(description.page),
        oob: given(description.oob),
        pages_per_block: given(description.pages_per_block),
        blocks: given(description.blocks),
        dies: given(description.dies),
    };
    let mut spec = preset::shaped(preset_name, &shape).map_err(Fault::argument)?;
    if description.seed > 0 {
        spec.seed = description.seed;
    }
    spec.reliability = reliability(description, spec.reliability);
    Ok(spec)
}

/// The preset's reliability with the description's values, which do not depend on wear.
fn reliability(description: &Description, preset: Reliability) -> Reliability {
    let or = |given: f64, preset: [f64; 2]| if given == 0.0 { preset } else { [given; 2] };
    let [factory_bad, _] = or(description.factory_bad, [preset.factory_bad; 2]);
    Reliability {
        factory_bad,
        bit_errors: or(description.bit_errors, preset.bit_errors),
        program_fail: or(description.program_fail, preset.program_fail),
        erase_fail: or(description.erase_fail, preset.erase_fail),
        ecc: match description.ecc_bits {
            0 => preset.ecc,
            bits => Ecc::Bch {
                bits,
                codeword: 512,
            },
        },
        ..preset
    }
}

/// Makes a chip, fresh from the factory, at time zero of its own clock. Free it with
/// `nandlab_chip_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_chip_new(
    description: *const Description,
    chip: *mut *mut Chip,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a description.
        let description = unsafe { raw::shared(description, "description") }?;
        // SAFETY: the caller passes null or a text.
        let preset = unsafe { raw::text(description.preset, "description->preset") }?;
        let made = nandlab_nand::Chip::new(spec(description, preset)?).map_err(Fault::argument)?;
        // SAFETY: the caller passes null or a place for a handle.
        unsafe { raw::give_handle(chip, Chip(made), "chip") }
    })
}

/// Frees a chip. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_chip_free(chip: *mut Chip) {
    // SAFETY: the caller passes null or a handle, and uses it no more.
    unsafe { raw::take_back(chip) }
}

/// Makes an independent copy of a chip, a snapshot. Page contents are shared until one side writes.
/// The copy has no log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_chip_fork(chip: *const Chip, fork: *mut *mut Chip) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::shared(chip, "chip") }?;
        let copy = chip.0.fork().map_err(|e| Fault::new(Status::Internal, e))?;
        // SAFETY: the caller passes null or a place for a handle.
        unsafe { raw::give_handle(fork, Chip(copy), "fork") }
    })
}

/// Returns the shape of a chip.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_chip_geometry(
    chip: *const Chip,
    geometry: *mut Geometry,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let g = unsafe { raw::shared(chip, "chip") }?.0.geometry();
        let shape = Geometry {
            page: g.page,
            oob: g.oob,
            pages_per_block: g.pages_per_block,
            blocks: g.blocks,
            dies: g.dies,
        };
        // SAFETY: the caller passes null or a place for a geometry.
        unsafe { raw::give(geometry, shape, "geometry") }
    })
}

/// Reads a page. `data` has the length of a page, or 0 to read spare bytes alone; `oob` has at most
/// the spare bytes. An erased page reads as 0xFF. `corrected` takes the most bits that the error
/// correction repaired in a codeword; it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_read(
    chip: *mut Chip,
    page: u32,
    data: *mut u8,
    data_length: usize,
    oob: *mut u8,
    oob_length: usize,
    corrected: *mut u16,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        // SAFETY: the caller passes null or that many bytes.
        let data = unsafe { raw::bytes_mut(data, data_length, "data") }?;
        // SAFETY: the caller passes null or that many bytes.
        let oob = unsafe { raw::bytes_mut(oob, oob_length, "oob") }?;
        let bits = chip.0.read(Page(page), data, oob)?.bits;
        if corrected.is_null() {
            return Ok(());
        }
        // SAFETY: the caller passes null or a place for a number.
        unsafe { raw::give(corrected, bits, "corrected") }
    })
}

/// Programs a page. `data` has the length of a page, or 0 to program spare bytes alone; spare bytes
/// behind `oob_length` stay erased. The program is durable once `nandlab_sync` has returned, or
/// once an operation behind a fence or on the same die has begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_program(
    chip: *mut Chip,
    page: u32,
    data: *const u8,
    data_length: usize,
    oob: *const u8,
    oob_length: usize,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        // SAFETY: the caller passes null or that many bytes.
        let data = unsafe { raw::bytes(data, data_length, "data") }?;
        // SAFETY: the caller passes null or that many bytes.
        let oob = unsafe { raw::bytes(oob, oob_length, "oob") }?;
        Ok(chip.0.program(Page(page), data, oob)?)
    })
}

/// Programs page `to` with the data of page `from`, inside the chip. The spare bytes of `to` are
/// those of `from` for the length of `head`, which receives them, then `tail`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_copy(
    chip: *mut Chip,
    from: u32,
    to: u32,
    head: *mut u8,
    head_length: usize,
    tail: *const u8,
    tail_length: usize,
) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        // SAFETY: the caller passes null or that many bytes.
        let head = unsafe { raw::bytes_mut(head, head_length, "head") }?;
        // SAFETY: the caller passes null or that many bytes.
        let tail = unsafe { raw::bytes(tail, tail_length, "tail") }?;
        chip.0.copy(Page(from), Page(to), head, tail)?;
        Ok(())
    })
}

/// Erases a block. The erase is durable as a program is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_erase(chip: *mut Chip, block: u32) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        Ok(chip.0.erase(Block(block))?)
    })
}

/// Returns whether a block is marked bad.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_is_bad(chip: *mut Chip, block: u32, bad: *mut bool) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        let is_bad = chip.0.is_bad(Block(block))?;
        // SAFETY: the caller passes null or a place for a truth value.
        unsafe { raw::give(bad, is_bad, "bad") }
    })
}

/// Marks a block bad for good. The mark is durable on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_mark_bad(chip: *mut Chip, block: u32) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        Ok(chip.0.mark_bad(Block(block))?)
    })
}

/// Waits until everything issued is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_sync(chip: *mut Chip) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        Ok(chip.0.sync()?)
    })
}

/// Makes the next operation begin only when everything issued so far has completed. The caller does
/// not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_fence(chip: *mut Chip) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::unique(chip, "chip") }?;
        let issued = chip.0.issued();
        chip.0.fence(issued);
        Ok(())
    })
}

/// Returns the virtual time of a chip, in nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_now(chip: *const Chip, now: *mut u64) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let chip = unsafe { raw::shared(chip, "chip") }?;
        // SAFETY: the caller passes null or a place for a number.
        unsafe { raw::give(now, chip.0.clock().now(), "now") }
    })
}

/// Spends virtual time: the firmware computes, or waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_advance(chip: *mut Chip, nanoseconds: u64) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let clock = unsafe { raw::shared(chip, "chip") }?.0.clock();
        let Some(then) = clock.now().checked_add(nanoseconds) else {
            return Err(Fault::argument("the clock would pass 2^64 nanoseconds"));
        };
        clock.set(then);
        Ok(())
    })
}

/// Returns how many operations a chip has done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_chip_counts(chip: *const Chip, counts: *mut Counts) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let c = unsafe { raw::shared(chip, "chip") }?.0.counts();
        let done = Counts {
            reads: c.reads,
            oob_reads: c.oob_reads,
            programs: c.programs,
            oob_programs: c.oob_programs,
            copies: c.copies,
            erases: c.erases,
            corrected_bits: c.corrected_bits,
            uncorrectable: c.uncorrectable,
            failures: c.failures,
        };
        // SAFETY: the caller passes null or a place for counts.
        unsafe { raw::give(counts, done, "counts") }
    })
}

/// Switches the power off after that many more operations, reads and syncs included; 0 is now. All
/// operations then fail with NANDLAB_STATUS_POWER_CUT until `nandlab_power_on`. The cut falls
/// between two operations; for torn ones see `nandlab_log_cut`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_power_off(chip: *mut Chip, after: u64) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        let rail = unsafe { raw::shared(chip, "chip") }?.0.rail();
        rail.cut_at(rail.steps().saturating_add(after));
        Ok(())
    })
}

/// Switches the power on again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandlab_power_on(chip: *mut Chip) -> Status {
    report(|| {
        // SAFETY: the caller passes null or a handle.
        unsafe { raw::shared(chip, "chip") }?.0.rail().restore();
        Ok(())
    })
}

/// Whether a replayed operation failed as the medium did before; that is part of its state.
pub(crate) fn recurs(error: &MtdError) -> bool {
    matches!(error, MtdError::ProgramFailed(_) | MtdError::EraseFailed(_))
}
