//! When an operation begins and ends.
//!
//! Every die and every channel has a time from which it is free. Foreground transfers share the
//! channels; the transfers of a copy, which nobody waits for, take what the foreground leaves and
//! are counted in the time of their dies only.

mod joined;
mod modes;

use crate::{Superblock, Timing};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Geometry};
use nandlab_sim::{Divisor, Nanos};

/// The time an operation occupies on its die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// When it takes hold of the die (or its register).
    pub start: Nanos,
    /// When its effect is on the medium (or its data at the caller).
    pub end: Nanos,
}

/// Programs or erases of several planes of one die that run as one.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    erase: bool,
    /// Page index within the block that a multi-plane program shares.
    index: u32,
    /// One bit a plane.
    planes: u32,
    /// When the array began: a member must have been issued by then.
    array_start: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Die {
    /// The array (and page register) is free.
    free: Nanos,
    /// The cache register is free (equals the start of the running program).
    cache_free: Nanos,
    /// Time that the die spent working.
    busy: Nanos,
    group: Group,
}

/// The calendars of all dies and channels.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    dies: Vec<Die>,
    channels: Vec<Nanos>,
    die_shift: Divisor,
    planes: u32,
    channel_count: u32,
    /// Planes that the pages of a block lie on in turn; none if a block lies on one.
    lanes: Option<Divisor>,
    /// Nothing that was issued ends later than this.
    horizon: Nanos,
    /// The next operation begins no earlier (set by a fence, taken by the next operation).
    floor: Nanos,
    page_transfer: Nanos,
    timing: Timing,
    /// Of a chip with an SLC mode.
    modes: Option<modes::Modes>,
    /// Set in the page index of a program or an erase in SLC mode: it joins none in the other.
    mode_bit: u32,
}

impl Calendar {
    pub fn new(geometry: &Geometry, timing: &Timing, superblock: Option<Superblock>) -> Self {
        let (dies, planes, channels) = superblock
            .map_or((geometry.dies, geometry.planes, geometry.channels), |s| {
                (s.dies, s.planes, s.channels)
            });
        Self {
            dies: vec![Die::default(); dies as usize],
            channels: vec![0; channels as usize],
            die_shift: Divisor::new(dies),
            planes,
            channel_count: channels,
            lanes: superblock.map(|_| Divisor::new(dies * planes)),
            horizon: 0,
            floor: 0,
            page_transfer: transfer(timing, geometry.page + timing.oob_bus_bytes),
            timing: timing.clone(),
            modes: None,
            mode_bit: 0,
        }
    }

    /// Everything issued so far has ended by then.
    #[inline]
    pub fn horizon(&self) -> Nanos {
        self.horizon
    }

    /// The next operation begins no earlier than `at`.
    #[inline]
    pub fn fence(&mut self, at: Nanos) {
        self.floor = self.floor.max(at);
    }

    /// Time that each die has spent working.
    pub fn busy(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.dies.iter().map(|d| d.busy)
    }

    /// Die and plane of a page, and its index in the plane's block.
    #[inline]
    pub fn position(&self, block: Block, index: u32) -> (usize, u32, u32) {
        if let Some(lanes) = self.lanes {
            let (row, lane) = lanes.split(index);
            return ((lane / self.planes) as usize, lane % self.planes, row);
        }
        let (stripe, die) = self.die_shift.split(block.0);
        (
            die as usize,
            if self.planes == 1 {
                0
            } else {
                stripe % self.planes
            },
            index,
        )
    }

    /// Whether the pages of a block lie on several planes.
    pub fn is_joined(&self) -> bool {
        self.lanes.is_some()
    }

    fn channel(&self, die: usize) -> usize {
        if self.channel_count == 1 {
            0
        } else {
            die % self.channel_count as usize
        }
    }

    /// A read at `now`: the array, then the bus; the caller waits for the end.
    #[inline]
    pub fn read(
        &mut self,
        block: Block,
        index: u32,
        oob_bytes: Option<usize>,
        now: Nanos,
    ) -> Window {
        let (die, ..) = self.position(block, index);
        let channel = self.channel(die);
        let (array, bus) = match oob_bytes {
            None => (self.timing.read_ns, self.page_transfer),
            Some(bytes) => (
                self.timing.oob_read_ns.unwrap_or(self.timing.read_ns),
                transfer(&self.timing, bytes as u32),
            ),
        };
        let floor = core::mem::take(&mut self.floor);
        let d = &mut self.dies[die];
        let start = now.max(d.free).max(floor);
        let end = (start + array).max(self.channels[channel]) + bus;
        self.channels[channel] = end;
        d.free = end;
        d.busy += end - start;
        self.horizon = self.horizon.max(end);
        Window { start, end }
    }

    /// A program at `now`: the caller pays the bus (first value), the die goes on alone until the
    /// window's end.
    #[inline]
    pub fn program(
        &mut self,
        block: Block,
        index: u32,
        oob_bytes: Option<usize>,
        now: Nanos,
    ) -> (Nanos, Window) {
        let (die, plane, index) = self.position(block, index);
        let index = index | self.mode_bit;
        let channel = self.channel(die);
        let (array, bus) = match oob_bytes {
            None => (self.timing.program_ns, self.page_transfer),
            Some(bytes) => (
                self.timing.oob_program_ns.unwrap_or(self.timing.program_ns),
                transfer(&self.timing, bytes as u32),
            ),
        };
        let floor = core::mem::take(&mut self.floor);
        let joins =
            self.timing.multi_plane && self.dies[die].group.admits(false, index, plane, now);
        let d = &mut self.dies[die];
        let register_free = if joins {
            now
        } else if self.timing.cache_program {
            d.cache_free
        } else {
            d.free
        };
        let start = now
            .max(floor)
            .max(register_free)
            .max(self.channels[channel]);
        let transferred = start + bus;
        self.channels[channel] = transferred;
        let array_start = transferred.max(if joins { d.group.array_start } else { d.free });
        if self.timing.multi_plane {
            let planes = if joins { d.group.planes } else { 0 } | 1 << plane;
            d.group = Group {
                erase: false,
                index,
                planes,
                array_start,
            };
        }
        let end = array_start + array;
        d.busy += end - start.max(d.free.min(end));
        d.cache_free = array_start;
        d.free = end;
        self.horizon = self.horizon.max(end);
        (transferred, Window { start, end })
    }

    /// An erase at `now`; nobody waits.
    pub fn erase(&mut self, block: Block, now: Nanos) -> Window {
        let floor = core::mem::take(&mut self.floor);
        let Some(_) = self.lanes else {
            let (die, plane, _) = self.position(block, 0);
            return self.erase_plane((die, plane), (floor, false), now);
        };
        let planes = self.planes;
        let mut whole = Window {
            start: Nanos::MAX,
            end: 0,
        };
        for (die, plane) in
            (0..self.dies.len()).flat_map(|die| (0..planes).map(move |plane| (die, plane)))
        {
            let window = self.erase_plane((die, plane), (floor, plane > 0), now);
            whole = Window {
                start: whole.start.min(window.start),
                end: whole.end.max(window.end),
            };
        }
        whole
    }

    fn erase_plane(
        &mut self,
        (die, plane): (usize, u32),
        (floor, together): (Nanos, bool),
        now: Nanos,
    ) -> Window {
        let index = self.mode_bit;
        let joins = self.timing.multi_plane
            && (floor <= now || together)
            && self.dies[die].group.admits(true, index, plane, now);
        let d = &mut self.dies[die];
        if joins {
            d.group.planes |= 1 << plane;
            return Window {
                start: d.group.array_start,
                end: d.free,
            };
        }
        let start = now.max(d.free).max(floor);
        let end = start + self.timing.erase_ns;
        d.group = Group {
            erase: true,
            index,
            planes: 1 << plane,
            array_start: start,
        };
        d.busy += end - start;
        d.cache_free = end;
        d.free = end;
        self.horizon = self.horizon.max(end);
        Window { start, end }
    }

    /// `n` copies at `now`, one behind the other; nobody waits. The same as [`copy`](Self::copy)
    /// `n` times.
    #[inline]
    pub fn copy_run(&mut self, from: Block, to: Block, n: u64, now: Nanos) {
        let (source, ..) = self.position(from, 0);
        let (target, ..) = self.position(to, 0);
        let floor = core::mem::take(&mut self.floor);
        let t = &self.timing;
        let s = &mut self.dies[source];
        let start = now.max(s.free).max(floor);
        let end;
        if source == target {
            let bus = if t.copy_back {
                0
            } else {
                2 * self.page_transfer
            };
            end = start + n * (t.read_ns + bus + t.program_ns);
            s.occupy(start, end);
        } else {
            let read = t.read_ns + self.page_transfer;
            let write = self.page_transfer + t.program_ns;
            s.occupy(start, start + n * read);
            let d = &mut self.dies[target];
            // The target is held up by its own work, by the first page to come, or by the last.
            let busy_until = (d.free + n * write)
                .max(start + read + n * write)
                .max(start + n * read + write);
            end = busy_until;
            d.busy += n * write;
            d.free = end;
            d.cache_free = end;
            d.group.planes = 0;
        }
        self.horizon = self.horizon.max(end);
    }

    /// A copy at `now`; nobody waits. The window is that of the target's die.
    #[inline]
    pub fn copy(&mut self, from: (Block, u32), to: (Block, u32), now: Nanos) -> Window {
        let (source, ..) = self.position(from.0, from.1);
        let (target, ..) = self.position(to.0, to.1);
        let floor = core::mem::take(&mut self.floor);
        let start = now.max(self.dies[source].free).max(floor);
        let read = start + self.timing.read_ns;
        if source == target {
            let bus = if self.timing.copy_back {
                0
            } else {
                2 * self.page_transfer
            };
            let end = read + bus + self.timing.program_ns;
            self.dies[source].occupy(start, end);
            self.horizon = self.horizon.max(end);
            return Window { start, end };
        }
        let out = read + self.page_transfer;
        self.dies[source].occupy(start, out);
        let begin = out.max(self.dies[target].free);
        let end = begin + self.page_transfer + self.timing.program_ns;
        self.dies[target].occupy(begin, end);
        self.horizon = self.horizon.max(end);
        Window { start: begin, end }
    }
}

impl Group {
    fn admits(&self, erase: bool, index: u32, plane: u32, now: Nanos) -> bool {
        self.planes != 0
            && self.erase == erase
            && self.index == index
            && self.planes & 1 << plane == 0
            && now <= self.array_start
    }
}

impl Die {
    #[inline]
    fn occupy(&mut self, start: Nanos, end: Nanos) {
        self.busy += end - start;
        self.free = end;
        self.cache_free = end;
        self.group.planes = 0;
    }
}

fn transfer(timing: &Timing, bytes: u32) -> Nanos {
    u64::from(bytes) * timing.bus_ps_per_byte / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset;

    fn calendar(change: impl FnOnce(&mut Geometry, &mut Timing)) -> Calendar {
        let spec = preset::find("slc-2k").unwrap().spec();
        let mut g = Geometry {
            dies: 2,
            channels: 2,
            ..spec.geometry
        };
        let mut t = spec.timing;
        t.bus_ps_per_byte = 0;
        t.oob_bus_bytes = 0;
        change(&mut g, &mut t);
        Calendar::new(&g, &t, None)
    }

    const US: Nanos = 1_000;

    #[test]
    fn programs_of_two_dies_overlap_and_of_one_die_queue() {
        let mut c = calendar(|_, _| {});
        assert_eq!(c.program(Block(0), 0, None, 0).1.end, 200 * US);
        assert_eq!(c.program(Block(1), 0, None, 0).1.end, 200 * US);
        assert_eq!(c.program(Block(0), 1, None, 0).1.end, 400 * US);
    }

    #[test]
    fn a_read_waits_for_its_die_only() {
        let mut c = calendar(|_, _| {});
        c.program(Block(0), 0, None, 0);
        assert_eq!(c.read(Block(1), 0, None, 0).end, 25 * US);
        assert_eq!(c.read(Block(0), 0, None, 0).end, 225 * US);
    }

    /// The time from which a read of a die begins, after an operation at time zero.
    fn free_after(die: u32, operate: impl FnOnce(&mut Calendar)) -> Nanos {
        let mut c = calendar(|_, t| t.bus_ps_per_byte = 10_000);
        operate(&mut c);
        c.read(Block(die), 0, Some(0), 0).start
    }

    #[test]
    fn every_operation_holds_its_dies_until_it_ends() {
        let bus = 2048 * 10;
        let on = |die| (Block(die), 0);
        let read = |c: &mut Calendar| _ = c.read(Block(0), 0, None, 0);
        assert_eq!(free_after(0, read), 25 * US + bus);
        assert_eq!(free_after(1, read), 0);
        let oob = |c: &mut Calendar| _ = c.read(Block(0), 0, Some(16), 0);
        assert_eq!(free_after(0, oob), 25 * US + 160);
        let program = |c: &mut Calendar| _ = c.program(Block(0), 0, None, 0);
        assert_eq!(free_after(0, program), bus + 200 * US);
        let erase = |c: &mut Calendar| _ = c.erase(Block(0), 0);
        assert_eq!(free_after(0, erase), 1_500 * US);
        let within = |c: &mut Calendar| _ = c.copy(on(0), on(2), 0);
        assert_eq!(free_after(0, within), 25 * US + 2 * bus + 200 * US);
        assert_eq!(free_after(1, within), 0);
        let across = |c: &mut Calendar| _ = c.copy(on(0), on(1), 0);
        assert_eq!(free_after(0, across), 25 * US + bus);
        assert_eq!(free_after(1, across), 25 * US + 2 * bus + 200 * US);
        let run = |c: &mut Calendar| c.copy_run(Block(0), Block(1), 3, 0);
        assert_eq!(free_after(0, run), 3 * (25 * US + bus));
        assert_eq!(free_after(1, run), 25 * US + bus + 3 * (bus + 200 * US));
    }

    #[test]
    fn a_shared_channel_serialises_transfers_and_the_caller_pays_them() {
        let mut c = calendar(|g, t| {
            g.channels = 1;
            t.bus_ps_per_byte = 1_000_000;
        });
        let bus = 2048 * US;
        assert_eq!(c.program(Block(0), 0, None, 0).0, bus);
        assert_eq!(
            c.program(Block(1), 0, None, 0),
            (
                2 * bus,
                Window {
                    start: bus,
                    end: 2 * bus + 200 * US
                }
            )
        );
    }

    #[test]
    fn cache_program_hides_the_transfer() {
        let end = |cache| {
            let mut c = calendar(|_, t| {
                t.bus_ps_per_byte = 48_829;
                t.cache_program = cache;
            });
            let (paid, _) = c.program(Block(0), 0, None, 0);
            c.program(Block(0), 1, None, paid).1.end
        };
        assert_eq!((end(false) / US, end(true) / US), (600, 500));
    }

    #[test]
    fn planes_of_a_die_program_and_erase_together_only_when_issued_together() {
        let mut c = calendar(|g, t| {
            g.planes = 2;
            t.multi_plane = true;
        });
        assert_eq!(
            c.program(Block(0), 3, None, 0).1.end,
            c.program(Block(2), 3, None, 0).1.end
        );
        assert_eq!(c.program(Block(0), 4, None, 0).1.end, 400 * US);
        assert_eq!(c.program(Block(2), 4, None, 300 * US).1.end, 600 * US);
        let first = c.erase(Block(0), 600 * US).end;
        assert_eq!(c.erase(Block(2), 600 * US).end, first);
        assert_eq!(c.erase(Block(2), 600 * US).end, first + 1_500 * US);
    }

    #[test]
    fn planes_that_wait_in_cache_registers_program_together_behind_the_running_program() {
        let mut c = calendar(|g, t| {
            g.planes = 2;
            (t.multi_plane, t.cache_program) = (true, true);
        });
        let ends: Vec<Nanos> = [(0, 0), (2, 0), (0, 1), (2, 1)]
            .map(|(block, page)| c.program(Block(block), page, None, 0).1.end / US)
            .into();
        assert_eq!(ends, [200, 200, 400, 400]);
    }

    #[test]
    fn a_fence_holds_back_the_next_operation_alone() {
        let mut c = calendar(|_, _| {});
        c.program(Block(0), 0, None, 0);
        c.fence(c.horizon());
        assert_eq!(c.program(Block(1), 0, None, 0).1.start, 200 * US);
        let mut c = calendar(|_, _| {});
        c.program(Block(0), 0, None, 0);
        assert_eq!(c.program(Block(1), 0, None, 0).1.start, 0);
    }

    #[test]
    fn a_run_of_copies_takes_the_time_of_its_copies() {
        for (bus, program, other_die) in [
            (0, 200, 1),
            (40_000, 20, 1),
            (10_000, 200, 2),
            (10_000, 5, 1),
        ] {
            let make = || {
                calendar(|_, t| {
                    t.bus_ps_per_byte = bus;
                    t.program_ns = program * US;
                })
            };
            for before in 0..3 {
                let mut one = make();
                let mut run = make();
                for c in [&mut one, &mut run] {
                    (0..before).for_each(|i| {
                        c.program(Block(other_die), i, None, 0);
                    });
                }
                (0..9).for_each(|_| {
                    one.copy((Block(0), 0), (Block(other_die), 0), 5);
                });
                run.copy_run(Block(0), Block(other_die), 9, 5);
                let state =
                    |c: &Calendar| c.dies.iter().map(|d| (d.free, d.busy)).collect::<Vec<_>>();
                assert_eq!(state(&one), state(&run));
            }
        }
    }

    #[test]
    fn a_copy_costs_its_dies_and_not_the_caller() {
        let mut c = calendar(|_, _| {});
        assert_eq!(c.copy((Block(0), 0), (Block(2), 0), 0).end, 225 * US);
        assert_eq!(
            c.copy((Block(0), 0), (Block(1), 0), 0),
            Window {
                start: 250 * US,
                end: 450 * US
            }
        );
        assert_eq!(c.busy().collect::<Vec<_>>(), [250 * US, 200 * US]);
    }

    #[test]
    fn a_superblock_programs_a_page_of_every_plane_at_once_and_is_erased_at_once() {
        let spec = preset::find("slc-2k").unwrap().spec();
        let g = Geometry {
            dies: 2,
            planes: 2,
            ..spec.geometry.clone()
        };
        let t = Timing {
            multi_plane: true,
            bus_ps_per_byte: 0,
            ..spec.timing.clone()
        };
        let joined = crate::ChipSpec {
            geometry: g,
            timing: t,
            ..spec
        }
        .in_superblocks();
        assert_eq!(
            (
                joined.geometry.pages_per_block,
                joined.geometry.blocks,
                joined.geometry.dies
            ),
            (256, 256, 1)
        );
        let mut c = Calendar::new(&joined.geometry, &joined.timing, joined.superblock);
        let ends: Vec<Nanos> = (0..8)
            .map(|page| c.program(Block(0), page, None, 0).1.end / US)
            .collect();
        assert_eq!(ends, [200, 200, 200, 200, 400, 400, 400, 400]);
        c.fence(c.horizon());
        assert_eq!(
            c.erase(Block(1), 0),
            Window {
                start: 400 * US,
                end: 1_900 * US
            }
        );
        assert_eq!(
            (
                c.busy().collect::<Vec<_>>(),
                c.read(Block(1), 3, None, 0).end
            ),
            (vec![1_900 * US; 2], 1_925 * US)
        );
        // A copy stays on its plane, or goes from die to die.
        assert_eq!(c.copy((Block(0), 0), (Block(2), 4), 0).end, 2_125 * US);
        assert_eq!(
            c.copy((Block(0), 1), (Block(2), 6), 0),
            Window {
                start: 2_150 * US,
                end: 2_350 * US
            }
        );
    }
}
