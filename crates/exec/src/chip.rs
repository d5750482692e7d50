//! The program's calls of the chip.

use crate::wire::{self, HEAD, Head};
use nandlab_ftl::Tallied;
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_sim::Clock;
use nandlab_stack::layer::ChipFlash;

/// A chip that a program calls.
pub trait ProgramChip: Mtd {
    /// Its clock.
    fn clock(&self) -> Clock;
}

impl ProgramChip for Tallied<Chip> {
    fn clock(&self) -> Clock {
        self.inner().clock().clone()
    }
}

impl ProgramChip for Box<dyn ChipFlash + '_> {
    fn clock(&self) -> Clock {
        (**self).clock()
    }
}

/// The two numbers of an answer behind its status.
type Numbers = [u32; 2];

/// Serves one call. `answer` becomes the whole answer; returns its status.
pub fn serve(
    flash: &mut impl ProgramChip,
    call: Head,
    payload: &[u8],
    answer: &mut Vec<u8>,
) -> u32 {
    answer.clear();
    answer.resize(HEAD, 0);
    let served = match call.kind {
        wire::CHIP_READ => read(flash, call, answer),
        wire::CHIP_PROGRAM => program(flash, call, payload),
        wire::CHIP_COPY => copy(flash, call, payload, answer),
        wire::CHIP_TIME | wire::CHIP_ADVANCE => Ok(clock(flash, call)),
        _ => plain(flash, call).map(Ok),
    };
    let (status, numbers) = match served {
        Ok(Ok(numbers)) => (wire::OK, numbers),
        Ok(Err(status)) => (status, [0; 2]),
        Err(error) => {
            // A program gets the bytes of an uncorrectable page, as read.
            if !matches!(error, MtdError::Uncorrectable(_)) {
                answer.truncate(HEAD);
            }
            (wire::status(&error), [0; 2])
        }
    };
    let [first, second] = numbers;
    Head::new(wire::ANSWER, [status, first, second]).put(&mut answer[..HEAD]);
    status
}

/// An answer, or the status of a call that breaks the protocol; or the chip's own error.
type Served = Result<Result<Numbers, u32>, MtdError>;

fn read(flash: &mut impl ProgramChip, call: Head, answer: &mut Vec<u8>) -> Served {
    let [page, data, oob] = call.arguments;
    let (data, oob) = sides(flash, data, oob)?;
    answer.resize(HEAD + data + oob, 0);
    let (data, oob) = answer[HEAD..].split_at_mut(data);
    let corrected = flash.read(Page(page), data, oob)?;
    Ok(Ok([corrected.bits.into(), 0]))
}

fn program(flash: &mut impl ProgramChip, call: Head, payload: &[u8]) -> Served {
    let [page, data, oob] = call.arguments;
    let (data, oob) = sides(flash, data, oob)?;
    if payload.len() != data + oob {
        return Ok(Err(wire::ARGUMENT));
    }
    let (data, oob) = payload.split_at(data);
    flash.program(Page(page), data, oob)?;
    Ok(Ok([0; 2]))
}

fn copy(flash: &mut impl ProgramChip, call: Head, tail: &[u8], answer: &mut Vec<u8>) -> Served {
    let [from, to, head] = call.arguments;
    let (_, head) = sides(flash, 0, head)?;
    answer.resize(HEAD + head, 0);
    let copied = flash.copy(Page(from), Page(to), &mut answer[HEAD..], tail);
    match copied {
        Ok(_) => Ok(Ok([0; 2])),
        Err(error) => {
            answer.truncate(HEAD);
            Err(error)
        }
    }
}

/// Reads the clock, or sets it forward.
fn clock(flash: &impl ProgramChip, call: Head) -> Result<Numbers, u32> {
    let clock = flash.clock();
    if call.kind == wire::CHIP_ADVANCE {
        let [lower, upper, _] = call.arguments;
        let duration = u64::from(upper) << 32 | u64::from(lower);
        let then = clock.now().checked_add(duration);
        clock.set(then.ok_or(wire::ARGUMENT)?);
    }
    let now = clock.now();
    Ok([now as u32, (now >> 32) as u32])
}

/// Calls with a block or nothing.
fn plain(flash: &mut impl ProgramChip, call: Head) -> Result<Numbers, MtdError> {
    let block = Block(call.arguments[0]);
    match call.kind {
        wire::CHIP_ERASE => flash.erase(block)?,
        wire::CHIP_IS_BAD => return Ok([flash.is_bad(block)?.into(), 0]),
        wire::CHIP_MARK_BAD => flash.mark_bad(block)?,
        wire::CHIP_SYNC => flash.sync()?,
        _ => flash.fence(flash.issued()),
    }
    Ok([0; 2])
}

/// The lengths of data and spare bytes that a program asks for, if the chip has so many.
fn sides(flash: &impl ProgramChip, data: u32, oob: u32) -> Result<(usize, usize), MtdError> {
    let geometry = flash.geometry();
    let fits = |found: u32, expected: u32| match found <= expected {
        true => Ok(found as usize),
        false => Err(MtdError::BadLength {
            found: found as usize,
            expected: expected as usize,
        }),
    };
    Ok((fits(data, geometry.page)?, fits(oob, geometry.oob)?))
}
