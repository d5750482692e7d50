//! The times of blocks in SLC mode beside those of the others.

use super::Calendar;
use crate::{ChipSpec, SlcMode, Timing};
use nandlab_sim::Nanos;

/// Times of the array, and those of operations on the OOB alone where they differ.
#[derive(Clone, Copy, Debug)]
struct Times {
    read_ns: Nanos,
    program_ns: Nanos,
    erase_ns: Nanos,
    oob_read_ns: Option<Nanos>,
    oob_program_ns: Option<Nanos>,
}

/// Both modes of a chip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modes {
    own: Times,
    slc: Times,
}

impl Modes {
    fn new(timing: &Timing, slc: &SlcMode) -> Self {
        Self {
            own: Times {
                read_ns: timing.read_ns,
                program_ns: timing.program_ns,
                erase_ns: timing.erase_ns,
                oob_read_ns: timing.oob_read_ns,
                oob_program_ns: timing.oob_program_ns,
            },
            slc: Times {
                read_ns: slc.read_ns,
                program_ns: slc.program_ns,
                erase_ns: slc.erase_ns,
                oob_read_ns: None,
                oob_program_ns: None,
            },
        }
    }
}

/// Above every page index of a block.
const SLC_BIT: u32 = 1 << 31;

impl Calendar {
    /// The empty calendar of a chip.
    pub fn of(spec: &ChipSpec) -> Self {
        let modes = spec.slc.as_ref().map(|slc| Modes::new(&spec.timing, slc));
        Self {
            modes,
            ..Self::new(&spec.geometry, &spec.timing, spec.superblock)
        }
    }

    /// From here on operations read from blocks in SLC mode or not, and program or erase in SLC
    /// mode or not.
    pub fn enter(&mut self, reads_slc: bool, writes_slc: bool) {
        let Some(Modes { own, slc }) = self.modes else {
            return;
        };
        let read = if reads_slc { slc } else { own };
        let write = if writes_slc { slc } else { own };
        self.timing.read_ns = read.read_ns;
        self.timing.oob_read_ns = read.oob_read_ns;
        self.timing.program_ns = write.program_ns;
        self.timing.oob_program_ns = write.oob_program_ns;
        self.timing.erase_ns = write.erase_ns;
        self.mode_bit = if writes_slc { SLC_BIT } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset;
    use nandlab_mtd::Block;

    #[test]
    fn programs_of_two_planes_share_a_time_only_in_one_mode() {
        let spec = preset::find("tlc-24GiB").unwrap().spec();
        let slc = spec.slc.unwrap();
        let times = |modes: [bool; 2]| {
            let mut calendar = Calendar::of(&spec);
            calendar.timing.bus_ps_per_byte = 0;
            calendar.page_transfer = 0;
            let mut program = |block, slc| {
                calendar.enter(slc, slc);
                calendar.program(Block(block), 0, None, 0).1.end
            };
            // Planes of one die.
            [program(0, modes[0]), program(2, modes[1])]
        };
        let tlc = spec.timing.program_ns;
        assert_eq!(times([true, true]), [slc.program_ns; 2]);
        assert_eq!(times([false, false]), [tlc; 2]);
        assert_eq!(times([true, false]), [slc.program_ns, slc.program_ns + tlc]);
    }

    #[test]
    fn a_copy_out_of_slc_mode_reads_in_one_mode_and_programs_in_the_other() {
        let mut spec = preset::find("tlc-24GiB").unwrap().spec();
        spec.timing.copy_back = true;
        let slc = spec.slc.unwrap();
        let mut calendar = Calendar::of(&spec);
        calendar.enter(true, false);
        let window = calendar.copy((Block(0), 0), (Block(0), 1), 0);
        assert_eq!(window.end, slc.read_ns + spec.timing.program_ns);
        calendar.enter(true, true);
        let began = window.end;
        assert_eq!(calendar.erase(Block(0), 0).end - began, slc.erase_ns);
    }
}
