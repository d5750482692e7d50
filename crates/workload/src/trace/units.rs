//! Traces of several disks, replayed on one: whose requests are taken, and where they go. Never
//! decided in silence.

use alloc::{string::String, vec::Vec};
use core::ops::Range;

use super::{Event, Fault};
use crate::Op;

/// What to do with the disks, devices, ASUs or files of a trace. A unit is named as the trace has
/// it: `usr,0` (MSR), `8,0` (blkparse), `/dev/sda` (fio), `0` (SPC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// There must be one only; a second one is an error.
    #[default]
    Single,
    /// This one; the others' requests are skipped and counted.
    Only(String),
    /// All of them, on the same address range.
    Overlaid,
    /// These, one after another; any other is an error.
    Stacked(Vec<Unit>),
}

/// One unit of [`Units::Stacked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its name in the trace.
    pub name: String,
    /// Its size in bytes; a request beyond is an error.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    units: Units,
    /// The first unit seen.
    first: Option<Vec<u8>>,
}

impl Placement {
    pub(super) fn new(units: Units) -> Self {
        Self { units, first: None }
    }

    /// Where unit-relative offsets of `event`, recorded in `line`, begin on the device; none to
    /// skip it.
    #[inline]
    pub(super) fn base(&mut self, line: &[u8], event: &Event) -> Result<Option<u64>, Fault> {
        let name = &line[event.unit.clone()];
        match &self.units {
            Units::Overlaid => Ok(Some(0)),
            Units::Only(wanted) => Ok((wanted.as_bytes() == name).then_some(0)),
            Units::Stacked(units) => stacked(units, name, event).map(Some),
            Units::Single if self.first.as_deref() == Some(name) => Ok(Some(0)),
            Units::Single if self.first.is_none() => {
                self.first = Some(name.to_vec());
                Ok(Some(0))
            }
            Units::Single => Err(fault(
                &event.unit,
                "the same unit throughout; else choose one, overlay them, or stack them",
            )),
        }
    }
}

fn fault(unit: &Range<usize>, expected: &'static str) -> Fault {
    Fault {
        at: unit.start,
        field: "unit",
        expected,
    }
}

fn stacked(units: &[Unit], name: &[u8], event: &Event) -> Result<u64, Fault> {
    let mut base = 0u64;
    for unit in units {
        let end = base.checked_add(unit.bytes).ok_or(fault(
            &event.unit,
            "units whose sizes sum up to less than 2^64 bytes",
        ))?;
        if unit.name.as_bytes() == name {
            let inside = event.op == Op::Flush || event.offset + event.length <= unit.bytes;
            return if inside {
                Ok(base)
            } else {
                Err(fault(
                    &event.unit,
                    "a request inside its unit, whose size was given as smaller",
                ))
            };
        }
        base = end;
    }
    Err(fault(&event.unit, "one of the units to be stacked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(
        placement: &mut Placement,
        name: &str,
        offset: u64,
    ) -> Result<Option<u64>, &'static str> {
        let event = Event::new(0, 0..name.len(), Op::Read, offset, 512);
        placement
            .base(name.as_bytes(), &event)
            .map_err(|fault| fault.field)
    }

    #[test]
    fn a_second_unit_is_an_error_unless_asked_for() {
        let mut single = Placement::new(Units::Single);
        assert_eq!(
            [
                base(&mut single, "0", 0),
                base(&mut single, "0", 8),
                base(&mut single, "1", 0)
            ],
            [Ok(Some(0)), Ok(Some(0)), Err("unit")]
        );
        let mut overlaid = Placement::new(Units::Overlaid);
        assert_eq!(
            [base(&mut overlaid, "0", 0), base(&mut overlaid, "1", 0)],
            [Ok(Some(0)); 2]
        );
        let mut only = Placement::new(Units::Only("1".into()));
        assert_eq!(
            [base(&mut only, "0", 0), base(&mut only, "1", 0)],
            [Ok(None), Ok(Some(0))]
        );
    }

    #[test]
    fn stacked_units_lie_one_after_another() {
        let unit = |name: &str, bytes| Unit {
            name: name.into(),
            bytes,
        };
        let mut stacked = Placement::new(Units::Stacked([unit("0", 1024), unit("1", 4096)].into()));
        assert_eq!(base(&mut stacked, "0", 512), Ok(Some(0)));
        assert_eq!(base(&mut stacked, "1", 512), Ok(Some(1024)));
        assert_eq!(base(&mut stacked, "0", 1024), Err("unit"));
        assert_eq!(base(&mut stacked, "2", 0), Err("unit"));
    }
}
