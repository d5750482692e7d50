//! Memory beside a chip that keeps its contents without power, such as battery-backed RAM.
//!
//! *Promises.* A line is durable when its write returns, and never torn. The memory shares the
//! clock, the supply, the log and the forks of its chip: a power cut leaves both as they were at
//! one moment. *Knows nothing of* the contents.

use crate::Chip;
use crate::log::{LoggedKind, LoggedOp};
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use core::ops::Range;
use nandlab_sim::{Clock, Nanos, PowerCut, Rail};
use spin::Mutex;

/// Time for a line, ns. It is there to give each line a moment of its own.
const LINE_NS: Nanos = 1;

#[derive(Debug)]
struct State {
    bytes: Box<[u8]>,
    log: Option<Vec<LoggedOp>>,
}

/// The memory as its chip sees it, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Lines(Option<Arc<Mutex<State>>>);

impl Lines {
    /// An independent copy, which keeps no log.
    pub fn fork(&self) -> Self {
        let copy = |state: &Arc<Mutex<State>>| {
            let bytes = state.lock().bytes.clone();
            Arc::new(Mutex::new(State { bytes, log: None }))
        };
        Self(self.0.as_ref().map(copy))
    }

    pub fn start_log(&self) {
        if let Some(state) = &self.0 {
            state.lock().log.get_or_insert_default();
        }
    }

    pub fn take_log(&self) -> Vec<LoggedOp> {
        let taken = |state: &Arc<Mutex<State>>| state.lock().log.take();
        self.0.as_ref().and_then(taken).unwrap_or_default()
    }

    /// Writes a logged line again. A chip without such a memory leaves it out.
    pub fn replay(&self, line: u32, data: &[u8]) {
        if let Some(state) = &self.0 {
            state.lock().bytes[place(line)].copy_from_slice(data);
        }
    }
}

fn place(line: u32) -> Range<usize> {
    let start = line as usize * Beside::LINE;
    start..start + Beside::LINE
}

/// A handle on the memory beside a chip. Handles outlive the moves of their chip.
#[derive(Clone, Debug)]
pub struct Beside {
    state: Arc<Mutex<State>>,
    clock: Clock,
    rail: Rail,
}

impl Beside {
    /// Bytes of a line.
    pub const LINE: usize = 64;

    /// How many lines there are.
    pub fn lines(&self) -> u32 {
        (self.state.lock().bytes.len() / Self::LINE) as u32
    }

    /// Reads from the beginning of a line on.
    ///
    /// # Panics
    /// If the memory has fewer bytes there.
    pub fn read(&self, line: u32, buf: &mut [u8]) -> Result<(), PowerCut> {
        self.rail.powered()?;
        let start = place(line).start;
        buf.copy_from_slice(&self.state.lock().bytes[start..start + buf.len()]);
        Ok(())
    }

    /// Writes a line.
    ///
    /// # Panics
    /// If the memory has no such line, or `data` is not one.
    pub fn write(&self, line: u32, data: &[u8]) -> Result<(), PowerCut> {
        self.rail.step()?;
        let start = self.clock.now();
        self.clock.spend(LINE_NS);
        let end = self.clock.now();
        let mut state = self.state.lock();
        state.bytes[place(line)].copy_from_slice(data);
        if let Some(log) = &mut state.log {
            let data = data.into();
            let kind = LoggedKind::Line { line, data };
            log.push(LoggedOp { kind, start, end });
        }
        Ok(())
    }
}

impl Chip {
    /// Puts a memory of so many lines beside the chip, all zeros, in the place of an older one.
    pub fn put_beside(&mut self, lines: u32) {
        let bytes = vec![0; lines as usize * Beside::LINE].into();
        let log = self.is_logging().then(Vec::new);
        self.beside = Lines(Some(Arc::new(Mutex::new(State { bytes, log }))));
    }

    /// The memory beside the chip, on the chip's clock and supply.
    pub fn beside(&self) -> Option<Beside> {
        let state = self.beside.0.clone()?;
        Some(Beside {
            state,
            clock: self.clock().clone(),
            rail: self.rail().clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashStates, preset};
    use nandlab_mtd::{Block, Mtd};

    fn chip() -> Chip {
        let mut chip = Chip::new(preset::find("slc-2k").unwrap().spec()).unwrap();
        chip.put_beside(2);
        chip
    }

    fn held(chip: &Chip) -> [u8; 2] {
        let mut bytes = [0; 2 * Beside::LINE];
        chip.beside().unwrap().read(0, &mut bytes).unwrap();
        [bytes[0], bytes[Beside::LINE]]
    }

    #[test]
    fn a_cut_leaves_memory_and_chip_as_they_were_at_one_moment() {
        let mut chip = chip();
        let before = chip.fork().unwrap();
        chip.start_log();
        let beside = chip.beside().unwrap();
        let write = |line, byte| beside.write(line, &[byte; Beside::LINE]).unwrap();
        write(0, 1);
        chip.erase(Block(0)).unwrap();
        write(1, 2);
        write(0, 3);
        let log = chip.take_log();
        assert_eq!(log.len(), 4);
        assert!(log.is_sorted_by_key(|op| op.start));
        let mut states = CrashStates::new(before, &log);
        let mut seen: Vec<[u8; 2]> = Vec::new();
        for op in &log {
            seen.push(held(&states.at(op.start, 7).unwrap()));
        }
        seen.push(held(&states.at(Nanos::MAX, 7).unwrap()));
        assert_eq!(seen, [[0, 0], [1, 0], [1, 0], [1, 2], [3, 2]]);
    }

    #[test]
    fn a_fork_has_a_memory_of_its_own_and_a_memory_without_power_is_silent() {
        let chip = chip();
        let fork = chip.fork().unwrap();
        let beside = chip.beside().unwrap();
        beside.write(1, &[9; Beside::LINE]).unwrap();
        assert_eq!((held(&chip), held(&fork)), ([0, 9], [0, 0]));
        chip.rail().cut_at(chip.rail().steps());
        assert_eq!(beside.write(0, &[1; Beside::LINE]), Err(PowerCut));
        assert_eq!(beside.read(0, &mut [0]), Err(PowerCut));
        chip.rail().restore();
        assert_eq!((held(&chip), beside.lines()), ([0, 9], 2));
    }
}
