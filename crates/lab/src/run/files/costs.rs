//! What calls cost the processor by themselves.

use nandlab_pagecache::flusher::PAGE;
use nandlab_sim::Nanos;
use nandlab_stack::host::Costs;
use nandlab_stack::{FsLayer, HostDescription};
use nandlab_workload::files::FileCall;

/// What calls cost; nothing without a processor.
pub struct CallCosts<'a> {
    host: Option<&'a HostDescription>,
    create: Nanos,
    remove: Nanos,
    write: Nanos,
    write_page: Nanos,
    /// Instructions for a byte that a write copies.
    user_byte: f64,
    read_page: Nanos,
    fsync: Nanos,
    other: Nanos,
    /// An interrupt of the timer, and from one to the next.
    tick: (Nanos, Nanos),
    read: Nanos,
    /// A page that a write touches, besides: the file system's own part.
    fs_page: Nanos,
}

impl<'a> CallCosts<'a> {
    /// Those of a processor with this file system.
    pub fn of(host: Option<&'a HostDescription>, fs: Option<&dyn FsLayer>) -> Self {
        let costs = host.map_or(Costs::default(), |host| host.costs);
        let time = |instructions| host.map_or(0, |host| host.time(instructions));
        Self {
            host,
            create: time(costs.create),
            remove: time(costs.remove),
            write: time(costs.write),
            write_page: time(costs.write_page),
            user_byte: costs.user_byte,
            read_page: time(costs.read_page),
            fsync: time(costs.fsync),
            other: time(costs.call),
            tick: (time(costs.tick), (costs.tick_ms * 1e6) as Nanos),
            // A platform without a cost of its own for reads takes them for writes.
            read: [time(costs.read), time(costs.write)]
                .into_iter()
                .find(|ns| *ns > 0)
                .unwrap_or(0),
            fs_page: host.map_or(0, |host| fs.map_or(0, |fs| fs.page_cost(host))),
        }
    }

    /// Of the timer's interrupts in so much time.
    pub fn of_ticks(&self, from: Nanos, until: Nanos) -> Nanos {
        let (cost, period) = self.tick;
        let ticks_by = |moment: Nanos| moment.checked_div(period).unwrap_or(0);
        (ticks_by(until) - ticks_by(from)) * cost
    }

    /// Of one call, in ns.
    pub fn of_call(&self, call: &FileCall) -> Nanos {
        match *call {
            FileCall::Create { .. } => self.create,
            FileCall::Remove { .. } => self.remove,
            FileCall::Write { offset, length, .. } => {
                let further = further_pages(offset, length);
                let copied = self.user_byte * length as f64;
                let copy = self.host.map_or(0, |host| host.time(copied));
                self.write + copy + further * self.write_page + (further + 1) * self.fs_page
            }
            FileCall::Read { offset, length, .. } => {
                self.read + further_pages(offset, length) * self.read_page
            }
            FileCall::Fsync { .. } | FileCall::Fdatasync { .. } | FileCall::Sync => self.fsync,
            FileCall::Compute { instructions } => {
                self.host.map_or(0, |host| host.program(instructions))
            }
            _ => self.other,
        }
    }
}

/// Pages that so many bytes touch beyond the first.
fn further_pages(offset: u64, length: u64) -> u64 {
    (offset.saturating_add(length.saturating_sub(1))) / PAGE - offset / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_by_their_bounds() {
        let cases = [
            ((0, 1), 0),
            ((0, 4096), 0),
            ((0, 4097), 1),
            ((4095, 2), 1),
            ((4096, 4096), 0),
            ((100, 1 << 20), 256),
        ];
        for ((offset, length), expected) in cases {
            assert_eq!(further_pages(offset, length), expected, "{offset} {length}");
        }
    }

    #[test]
    fn without_a_processor_nothing_costs_anything() {
        let costs = CallCosts::of(None, None);
        assert_eq!(
            costs.of_call(&FileCall::Compute {
                instructions: 1 << 40
            }),
            0
        );
        assert_eq!(costs.of_call(&FileCall::Sync), 0);
    }
}
