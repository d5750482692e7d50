//! Names that were taken away since the last commit: on the medium they may be there still.
//!
//! *Promises.* At most one name a slot, however often names come and go. *Knows nothing of* the
//! slots that are there now.

use crate::name::{self, Short};
use alloc::{collections::BTreeMap, vec::Vec};

/// An entry that was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    /// Its first slot, and how many it has.
    pub first: u32,
    pub slots: u32,
    pub short: Short,
    pub name: Vec<u16>,
}

impl Removed {
    /// Whether a directory with this entry has this name.
    fn is_named(&self, folded: &[u16]) -> bool {
        name::fold(&self.name) == folded || name::fold(&name::show(&self.short, 0)) == folded
    }
}

/// Names taken away, by the directory's first cluster and the last slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<(u32, u32), Removed>);

impl Names {
    /// An entry is taken away. Where another lay since the last commit, the medium has that one.
    pub fn add(&mut self, dir: u32, entry: Removed) {
        let last = entry.first + entry.slots - 1;
        let lay = self
            .0
            .range((dir, entry.first)..=(dir, u32::MAX))
            .next()
            .is_some_and(|(_, other)| other.first <= last);
        if !lay {
            self.0.insert((dir, last), entry);
        }
    }

    fn of(&self, dir: u32) -> impl Iterator<Item = &Removed> {
        self.0
            .range((dir, 0)..=(dir, u32::MAX))
            .map(|(_, entry)| entry)
    }

    /// The entries of a directory that had this name, long or short.
    pub fn named(&self, dir: u32, units: &[u16]) -> Vec<&Removed> {
        let folded = name::fold(units);
        self.of(dir)
            .filter(|entry| entry.is_named(&folded))
            .collect()
    }

    /// Whether an entry of a directory had this short name.
    pub fn has_short(&self, dir: u32, short: &Short) -> bool {
        self.of(dir).any(|entry| entry.short == *short)
    }

    /// The medium has none of them any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: u32, slots: u32, text: &str) -> Removed {
        Removed {
            first,
            slots,
            short: *b"SHORT~1    ",
            name: text.encode_utf16().collect(),
        }
    }

    #[test]
    fn a_slot_has_one_name_on_the_medium() {
        let mut names = Names::default();
        for added in [
            entry(4, 3, "first"),
            entry(5, 1, "over it"),
            entry(2, 3, "over its begin"),
            entry(7, 2, "behind it"),
            entry(1, 3, "before it"),
        ] {
            names.add(0, added);
        }
        let found: Vec<u32> = names.of(0).map(|entry| entry.first).collect();
        assert_eq!(found, [1, 4, 7]);
        let named = |dir, text: &str| {
            names
                .named(dir, &text.encode_utf16().collect::<Vec<_>>())
                .len()
        };
        assert_eq!(
            [
                named(0, "FIRST"),
                named(0, "over it"),
                named(0, "short~1"),
                named(9, "first")
            ],
            [1, 0, 3, 0]
        );
        assert!(names.has_short(0, b"SHORT~1    ") && !names.has_short(9, b"SHORT~1    "));
        names.clear();
        assert_eq!(names.of(0).count(), 0);
    }
}
