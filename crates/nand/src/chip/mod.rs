//! The chip behind the `Mtd` trait: rules, then faults, then state, then time.

mod planes;
mod quick;
mod recent;
mod slc;

use crate::beside::Lines;
use crate::calendar::{Calendar, Window};
use crate::cells::{BlockCells, Cells, Odd};
use crate::contents::{PageData, PageStore};
use crate::faults::Faults;
use crate::log::{LoggedKind, OpLog};
use crate::oob::{Oob, SHORT, split_short};
use crate::{ChipSpec, Contents, PageOrder, SpecError};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_mtd::{Block, Corrected, Geometry, Issued, Move, Mtd, MtdError, Page, rows};
use nandlab_sim::{Clock, Divisor, Nanos, Rail, Ring};
use recent::Recent;

/// Operations that a chip has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Page reads with data.
    pub reads: u64,
    /// Reads of the OOB area alone.
    pub oob_reads: u64,
    /// Page programs with data, without copies.
    pub programs: u64,
    /// Programs of the OOB area alone.
    pub oob_programs: u64,
    /// Copies inside the array, each one read and one program.
    pub copies: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Bits that error correction corrected.
    pub corrected_bits: u64,
    /// Reads beyond correction, torn pages included.
    pub uncorrectable: u64,
    /// Failed programs and erases.
    pub failures: u64,
}

/// A chip whose page data lies in a backing store cannot be forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chip whose page data lies in a backing store cannot be forked")]
pub struct ForkError;

/// The most OOB bytes that a copy sets.
const MAX_COPIED_OOB: usize = 64;

/// A NAND array in virtual time.
#[derive(Debug)]
pub struct Chip {
    spec: ChipSpec,
    clock: Clock,
    rail: Rail,
    calendar: Calendar,
    pub(crate) cells: Cells,
    oob: Oob,
    data: PageData,
    pub(crate) faults: Faults,
    /// Bit errors that copy-back carried into a page.
    carried: BTreeMap<u32, u16>,
    counts: Counts,
    joined_copies: u64,
    slc_erases: u64,
    recent: Ring<Recent, 32>,
    pub(crate) oplog: OpLog,
    pub(crate) beside: Lines,
    per_block: Divisor,
    page_bytes: usize,
    several_programs: bool,
    /// A block was erased into SLC mode.
    any_slc: bool,
    /// The cells need no model of faults; see [`Chip::update_plain`].
    plain: bool,
}

impl Chip {
    /// A chip fresh from the factory, on a clock and a rail of its own.
    pub fn new(spec: ChipSpec) -> Result<Self, SpecError> {
        let data = match spec.contents {
            Contents::Kept => PageData::kept(0, spec.geometry.page.max(1)),
            Contents::Dropped => PageData::Dropped,
        };
        let mut chip = Self::with_data(spec, data)?;
        if chip.spec.contents == Contents::Kept {
            chip.data = PageData::kept(chip.spec.geometry.pages(), chip.spec.geometry.page);
        }
        chip.update_plain();
        Ok(chip)
    }

    /// The same with page data in a backing store. Such a chip cannot be forked.
    pub fn with_store(spec: ChipSpec, store: Box<dyn PageStore>) -> Result<Self, SpecError> {
        Self::with_data(spec, PageData::Stored(store))
    }

    fn with_data(spec: ChipSpec, data: PageData) -> Result<Self, SpecError> {
        spec.check()?;
        let g = &spec.geometry;
        let several_programs = spec.rules.partial_programs > 1;
        let mut faults = Faults::new(&spec.reliability, g.page, spec.seed);
        faults.slc_rated = spec.slc.map_or(0, |slc| slc.rated_erases);
        let mut cells = Cells::new(g.blocks, g.pages_per_block, several_programs);
        if spec.reliability.factory_bad > 0.0 {
            (0..g.blocks)
                .filter(|&b| faults.factory_bad(Block(b)))
                .for_each(|b| cells.bad.insert(b));
        }
        Ok(Self {
            calendar: Calendar::of(&spec),
            oob: Oob::new(g.blocks, g.pages_per_block, g.oob),
            per_block: Divisor::new(g.pages_per_block),
            clock: Clock::new(),
            rail: Rail::new(),
            carried: BTreeMap::new(),
            counts: Counts::default(),
            joined_copies: 0,
            slc_erases: 0,
            recent: Ring::default(),
            oplog: OpLog::default(),
            beside: Lines::default(),
            cells,
            data,
            faults,
            several_programs,
            page_bytes: spec.geometry.page as usize,
            any_slc: false,
            plain: false,
            spec,
        })
    }

    /// Puts the chip on a shared clock.
    pub fn on_clock(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// Puts the chip on a shared supply.
    pub fn on_rail(mut self, rail: &Rail) -> Self {
        self.rail = rail.clone();
        self
    }

    /// Makes what has been done so far the chip's past: it is idle, nothing has been counted, and
    /// what it holds was programmed at time zero of a clock of its own.
    pub fn as_found(mut self) -> Self {
        self.clock = Clock::new();
        self.calendar = Calendar::of(&self.spec);
        self.counts = Counts::default();
        (self.joined_copies, self.slc_erases) = (0, 0);
        self.recent = Ring::default();
        let blocks = self.cells.blocks.iter_mut();
        blocks.for_each(|block| block.programmed_at = 0);
        self
    }

    /// An independent copy, powered up afresh on a clock and a rail of its own: page contents are
    /// shared until one side writes.
    pub fn fork(&self) -> Result<Self, ForkError> {
        let clock = Clock::new();
        clock.set(self.clock.now());
        let mut fork = Self {
            spec: self.spec.clone(),
            rail: Rail::new(),
            calendar: Calendar::of(&self.spec),
            cells: self.cells.clone(),
            oob: self.oob.clone(),
            data: self.data.fork().ok_or(ForkError)?,
            faults: self.faults.clone(),
            carried: self.carried.clone(),
            counts: self.counts,
            joined_copies: self.joined_copies,
            slc_erases: self.slc_erases,
            recent: self.recent.clone(),
            oplog: OpLog::default(),
            beside: self.beside.fork(),
            per_block: self.per_block,
            page_bytes: self.page_bytes,
            several_programs: self.several_programs,
            any_slc: self.any_slc,
            plain: false,
            clock,
        };
        fork.update_plain();
        Ok(fork)
    }

    /// What the chip is.
    pub fn spec(&self) -> &ChipSpec {
        &self.spec
    }

    /// The clock it runs on.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The supply it hangs on.
    pub fn rail(&self) -> &Rail {
        &self.rail
    }

    /// Operations done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Copies so far that were programmed together with a copy on another plane.
    pub fn joined_copies(&self) -> u64 {
        self.joined_copies
    }

    /// Erases into SLC mode so far.
    pub fn slc_erases(&self) -> u64 {
        self.slc_erases
    }

    /// Time that each die has spent working, ns.
    pub fn die_busy(&self) -> Vec<Nanos> {
        self.calendar.busy().collect()
    }

    /// Returns the wear and state of an erase block.
    pub fn block(&self, block: Block) -> BlockCells {
        self.cells.blocks[block.0 as usize]
    }

    /// Whether a block of the array is marked bad.
    pub fn is_marked_bad(&self, block: Block) -> bool {
        self.cells.bad.has(block.0)
    }

    /// Whether a page has been programmed since its block's erase.
    pub fn is_programmed(&self, page: Page) -> bool {
        self.cells.is_programmed(page)
    }

    #[inline]
    fn locate(&self, page: Page) -> Result<(Block, u32), MtdError> {
        let (block, index) = self.per_block.split(page.0);
        if block < self.spec.geometry.blocks {
            Ok((Block(block), index))
        } else {
            Err(MtdError::OutOfRange(page))
        }
    }

    #[inline]
    fn check_lengths(&self, data: usize, oob: usize) -> Result<(), MtdError> {
        let g = &self.spec.geometry;
        if data != 0 && data != g.page as usize {
            return Err(MtdError::BadLength {
                found: data,
                expected: g.page as usize,
            });
        }
        if oob > g.oob as usize {
            return Err(MtdError::BadLength {
                found: oob,
                expected: g.oob as usize,
            });
        }
        Ok(())
    }

    /// What the data sheet forbids.
    #[inline]
    fn check_program(&self, page: Page, block: Block, index: u32) -> Result<(), MtdError> {
        if self.cells.bad.has(block.0) {
            return Err(MtdError::BadBlock(block));
        }
        if self.cells.odd(page).is_some() {
            return Err(MtdError::Illegal(
                page,
                "program of a page that a cut or a failure left undefined",
            ));
        }
        let programmed = self.cells.is_programmed(page);
        if programmed && self.cells.programs(page) >= self.spec.rules.partial_programs {
            return Err(MtdError::Illegal(
                page,
                "program of a page that is not erased",
            ));
        }
        if !programmed
            && self.spec.rules.order == PageOrder::Ascending
            && index < self.cells.blocks[block.0 as usize].next
        {
            return Err(MtdError::Illegal(
                page,
                "pages of a block programmed out of order",
            ));
        }
        self.check_mode(page, block, index)
    }

    /// The page takes its new state; a failed program leaves it undefined.
    #[inline]
    fn finish_program(&mut self, page: Page, block: Block, index: u32) -> Result<bool, MtdError> {
        let first = self.cells.program(block, index, page, self.clock.now());
        if self.faults.fails
            && self
                .faults
                .program_fails(page, &self.cells.blocks[block.0 as usize])
        {
            self.counts.failures += 1;
            self.cells.set_odd(page, Odd::Unreadable);
            return Err(MtdError::ProgramFailed(page));
        }
        Ok(first)
    }

    /// Programs over what the page already holds: bits only go from one to zero.
    fn merge(&mut self, page: Page, data: &[u8]) -> Result<(), MtdError> {
        let mut merged = alloc::vec![0; data.len()];
        self.data
            .read(page, true, &mut merged)
            .map_err(MtdError::Backing)?;
        merged.iter_mut().zip(data).for_each(|(m, d)| *m &= d);
        self.data.write(page, &merged).map_err(MtdError::Backing)
    }

    /// Bit errors of a read: how many were corrected, or that they cannot be.
    fn correct(
        &mut self,
        page: Page,
        block: Block,
        data: &mut [u8],
    ) -> Result<Corrected, MtdError> {
        let cells = self.cells.blocks[block.0 as usize];
        let carried = self.carried.get(&page.0).copied().unwrap_or(0);
        let bits = self.faults.flipped(page, &cells, self.clock.now(), carried);
        self.cells.blocks[block.0 as usize].reads = cells.reads.saturating_add(1);
        if bits == 0 {
            return Ok(Corrected::default());
        }
        if self.faults.unprotected() || !self.faults.corrects(bits) {
            return self.leave_wrong(page, bits, data);
        }
        self.counts.corrected_bits += u64::from(bits);
        Ok(Corrected { bits })
    }

    /// Delivers data with bit errors that nothing corrects.
    fn leave_wrong(
        &mut self,
        page: Page,
        bits: u16,
        data: &mut [u8],
    ) -> Result<Corrected, MtdError> {
        if !data.is_empty() {
            self.faults.damage(page, bits, data);
        }
        if !self.faults.corrects(bits) {
            self.counts.uncorrectable += 1;
            return Err(MtdError::Uncorrectable(page));
        }
        Ok(Corrected::default())
    }

    fn read_odd(
        &mut self,
        page: Page,
        odd: Odd,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<Corrected, MtdError> {
        data.fill(0xff);
        oob.fill(0xff);
        if odd == Odd::Blank {
            return Ok(Corrected::default());
        }
        // Garbage that is not all ones, so that nobody takes it for an erased page.
        data.iter_mut()
            .zip(oob.len()..)
            .for_each(|(b, i)| *b = nandlab_sim::mix(u64::from(page.0), i as u64) as u8);
        oob.iter_mut()
            .enumerate()
            .for_each(|(i, b)| *b = nandlab_sim::mix(u64::from(page.0), i as u64) as u8);
        self.counts.uncorrectable += 1;
        Err(MtdError::Uncorrectable(page))
    }
}

/// The whole way: rules, faults, log.
impl Chip {
    // Apart from the fast path, which then keeps what it needs in registers.
    #[inline(never)]
    fn program_any(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.rail.step()?;
        let (block, index) = self.locate(page)?;
        self.check_lengths(data.len(), oob.len())?;
        self.recent.push(Recent::new(Recent::PROGRAM, page.0));
        self.check_program(page, block, index)?;
        self.enter_modes(block, block);
        let (paid, window) = self.calendar.program(
            block,
            index,
            data.is_empty().then_some(oob.len()),
            self.clock.now(),
        );
        self.clock.set(paid);
        self.oplog.push(window, || LoggedKind::Program {
            page,
            data: data.into(),
            oob: oob.into(),
        });
        let again = self.several_programs && self.cells.is_programmed(page);
        if data.is_empty() {
            self.counts.oob_programs += 1;
        } else {
            self.counts.programs += 1;
            if again {
                self.merge(page, data)?;
            } else {
                self.data.write(page, data).map_err(MtdError::Backing)?;
            }
        }
        let first = self.finish_program(page, block, index)?;
        self.oob.program(block, index, page, oob, first);
        Ok(())
    }

    fn copy_any(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
        joined: Option<Window>,
    ) -> Result<Corrected, MtdError> {
        self.rail.step()?;
        let (source, source_index) = self.locate(from)?;
        let (block, index) = self.locate(to)?;
        self.check_lengths(0, head.len() + tail.len())?;
        if head.len() + tail.len() > MAX_COPIED_OOB {
            return Err(MtdError::BadLength {
                found: head.len() + tail.len(),
                expected: MAX_COPIED_OOB,
            });
        }
        self.recent.push(Recent::copy(from, to));
        if !self.cells.is_programmed(from) {
            return Err(MtdError::Illegal(from, "copy of an erased page"));
        }
        if self.cells.is_programmed(to) {
            return Err(MtdError::Illegal(
                to,
                "program of a page that is not erased",
            ));
        }
        self.check_program(to, block, index)?;
        if self.cells.odd(from).is_some() {
            self.counts.uncorrectable += 1;
            return Err(MtdError::Uncorrectable(from));
        }
        let mut corrected = Corrected::default();
        if self.faults.flips {
            corrected = self.correct(from, source, &mut [])?;
            if self.spec.timing.copy_back
                && corrected.bits > 0
                && self.spec.geometry.die_of(source) == self.spec.geometry.die_of(block)
            {
                self.carried.insert(to.0, corrected.bits);
            }
        }
        let window = joined.unwrap_or_else(|| {
            self.enter_modes(source, block);
            let now = self.clock.now();
            self.calendar
                .copy((source, source_index), (block, index), now)
        });
        self.oplog.push(window, || LoggedKind::Copy {
            from,
            to,
            kept: head.len(),
            tail: tail.into(),
        });
        self.counts.copies += 1;
        self.data
            .copy(from, to, self.spec.geometry.page)
            .map_err(MtdError::Backing)?;
        let first = self.finish_program(to, block, index)?;
        let moves = [Move { from, to }];
        if self.oob.is_compact() && self.oob.copy_short(block, (&moves, head, tail), first) {
            return Ok(corrected);
        }
        self.oob.read(source, source_index, from, head);
        let mut oob = [0; MAX_COPIED_OOB];
        let oob = &mut oob[..head.len() + tail.len()];
        let kept = head.len();
        oob[..kept].copy_from_slice(head);
        oob[kept..].copy_from_slice(tail);
        self.oob.program(block, index, to, oob, first);
        Ok(corrected)
    }
}

impl Mtd for Chip {
    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.spec.geometry
    }

    #[inline]
    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        self.rail.step()?;
        let (block, index) = self.locate(page)?;
        self.check_lengths(data.len(), oob.len())?;
        self.enter_modes(block, block);
        let window = self.calendar.read(
            block,
            index,
            data.is_empty().then_some(oob.len()),
            self.clock.now(),
        );
        self.clock.set(window.end);
        self.recent.push(Recent::new(Recent::READ, page.0));
        if data.is_empty() {
            self.counts.oob_reads += 1;
        } else {
            self.counts.reads += 1;
        }
        if let Some(odd) = self.cells.odd(page) {
            return self.read_odd(page, odd, data, oob);
        }
        let programmed = self.cells.is_programmed(page);
        if programmed {
            self.oob.read(block, index, page, oob);
        } else {
            oob.fill(0xff);
        }
        if !data.is_empty() {
            self.data
                .read(page, programmed, data)
                .map_err(MtdError::Backing)?;
        }
        if self.faults.flips && programmed {
            self.correct(page, block, data)
        } else {
            Ok(Corrected::default())
        }
    }

    #[inline]
    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        let (block, index) = self.per_block.split(page.0);
        let block = Block(block);
        let quick = self.plain && data.len() == self.page_bytes && self.may_program(block, index);
        let (true, Ok(tag)) = (quick, <&[u8; SHORT]>::try_from(oob)) else {
            return self.program_any(page, data, oob);
        };
        self.rail.step()?;
        self.recent.push(Recent::new(Recent::PROGRAM, page.0));
        let now = self.clock.now();
        let (paid, _) = self.calendar.program(block, index, None, now);
        self.clock.set(paid);
        self.counts.programs += 1;
        self.data.write(page, data).map_err(MtdError::Backing)?;
        let (prefix, common) = split_short(tag);
        self.finish_short(page, block, index, prefix, common, now);
        Ok(())
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.copy_any(from, to, head, tail, None)
    }

    fn copy_many(
        &mut self,
        moves: &[Move],
        heads: &mut [u8],
        tails: &[u8],
    ) -> (usize, Result<(), MtdError>) {
        if self.copy_run(moves, heads, tails) {
            return (moves.len(), Ok(()));
        }
        for (done, (m, head, tail)) in rows(moves, heads, tails).enumerate() {
            if let Err(error) = self.copy_any(m.from, m.to, head, tail, None) {
                return (done, Err(error));
            }
        }
        (moves.len(), Ok(()))
    }

    fn copy_joined(
        &mut self,
        moves: &[Move],
        heads: &mut [u8],
        tails: &[u8],
    ) -> (usize, Result<(), MtdError>) {
        if self.spec.timing.multi_plane {
            self.copy_groups(moves, heads, tails)
        } else {
            self.copy_many(moves, heads, tails)
        }
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.erase_into(block, false)
    }

    fn slc_pages(&self) -> Option<u32> {
        self.spec.slc_pages()
    }

    fn erase_slc(&mut self, block: Block) -> Result<(), MtdError> {
        self.erase_into(block, true)
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        if block.0 >= self.spec.geometry.blocks {
            return Err(MtdError::OutOfRange(Page(
                block.0.saturating_mul(self.spec.geometry.pages_per_block),
            )));
        }
        Ok(self.cells.bad.has(block.0))
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.rail.step()?;
        if block.0 >= self.spec.geometry.blocks {
            return Err(MtdError::OutOfRange(Page(
                block.0.saturating_mul(self.spec.geometry.pages_per_block),
            )));
        }
        self.enter_modes(block, block);
        let (_, window) = self.calendar.program(block, 0, Some(1), self.clock.now());
        self.clock.wait_until(window.end);
        self.oplog.push(
            Window {
                start: window.start,
                end: window.start,
            },
            || LoggedKind::MarkBad(block),
        );
        self.cells.bad.insert(block.0);
        Ok(())
    }

    #[inline]
    fn issued(&self) -> Issued {
        Issued(self.calendar.horizon())
    }

    #[inline]
    fn fence(&mut self, mark: Issued) {
        self.calendar.fence(mark.0);
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.rail.step()?;
        self.clock.wait_until(self.calendar.horizon());
        Ok(())
    }
}
