//! From the names of units to chains: which unit follows which. Looks at no flash, and believes
//! nothing: links may lead anywhere.

use super::format::Name;
use alloc::{vec, vec::Vec};

/// What the first page of a unit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is not asked.
    Reserved,
    /// Nothing: it is erased, or cannot be read.
    Nameless,
    /// The virtual unit that the unit header names.
    Named(Name),
}

/// Units that may be a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub units: Vec<u16>,
    /// Something about it is not as it should be; it is to be folded to a fresh unit.
    pub damaged: bool,
}

#[derive(Debug)]
pub(super) struct Tracer<'a> {
    found: &'a [Found],
    /// The unit that says of itself that it follows.
    after: Vec<Option<u16>>,
    owned: Vec<bool>,
}

impl<'a> Tracer<'a> {
    pub fn new(found: &'a [Found]) -> Self {
        let mut after = vec![None; found.len()];
        for (unit, info) in (0..).zip(found) {
            if let Found::Named(Name {
                replacement: true,
                before: Some(before),
                ..
            }) = info
                && let Some(after) = after.get_mut(*before as usize)
            {
                *after = Some(unit);
            }
        }
        Self {
            found,
            after,
            owned: vec![false; found.len()],
        }
    }

    /// Does not look for units whose names are lost.
    pub fn forgetful(self) -> Self {
        Self {
            after: vec![None; self.found.len()],
            ..self
        }
    }

    /// Units that are named the first of a chain, with their chain.
    pub fn firsts(&self) -> impl Iterator<Item = (u16, u16)> + use<'a> {
        let named = (0..).zip(self.found);
        named.filter_map(|(unit, info)| match info {
            Found::Named(name) if !name.replacement => Some((unit, name.chain)),
            _ => None,
        })
    }

    /// Units whose names are lost and that another unit says to follow, with its chain.
    pub fn lost_firsts(&self) -> Vec<(u16, u16)> {
        let lost = (0..)
            .zip(self.found)
            .filter(|&(unit, info)| *info == Found::Nameless && !self.owned[unit as usize]);
        lost.filter_map(
            |(unit, _)| match self.found[self.after[unit as usize]? as usize] {
                Found::Named(name) => Some((unit, name.chain)),
                _ => None,
            },
        )
        .collect()
    }

    /// Follows the links of a chain from its first unit on. None if they lead to another first unit
    /// of it: that one is a fold of them, and complete.
    pub fn follow(&mut self, first: u16, chain: u16) -> Option<Candidate> {
        let mut candidate = Candidate {
            units: vec![first],
            damaged: self.owned[first as usize],
        };
        self.owned[first as usize] = true;
        let mut last = first;
        loop {
            let next = match self.found[last as usize] {
                Found::Named(name) => name.next,
                _ => {
                    candidate.damaged = true;
                    self.after[last as usize]
                }
            };
            let Some(next) = next else {
                return Some(candidate);
            };
            let owned = self.owned.get(next as usize).copied().unwrap_or(true);
            match self.found.get(next as usize) {
                Some(Found::Named(name))
                    if name.chain == chain && !name.replacement && next != first =>
                {
                    return None;
                }
                Some(Found::Named(name)) if name.chain == chain && name.replacement && !owned => {}
                Some(Found::Nameless) if !owned => {}
                _ => {
                    candidate.damaged = true;
                    return Some(candidate);
                }
            }
            self.owned[next as usize] = true;
            candidate.units.push(next);
            last = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(next: Option<u16>) -> Found {
        Found::Named(Name {
            chain: 3,
            replacement: false,
            next,
            before: None,
        })
    }

    fn replacement(next: Option<u16>, before: Option<u16>) -> Found {
        Found::Named(Name {
            chain: 3,
            replacement: true,
            next,
            before,
        })
    }

    fn follow(found: &[Found], from: u16) -> Option<(Vec<u16>, bool)> {
        Tracer::new(found)
            .follow(from, 3)
            .map(|c| (c.units, c.damaged))
    }

    #[test]
    fn links_are_followed_to_the_end() {
        let found = [
            replacement(None, Some(2)),
            first(Some(2)),
            replacement(Some(0), None),
            Found::Nameless,
        ];
        assert_eq!(follow(&found, 1), Some((vec![1, 2, 0], false)));
        assert_eq!(Tracer::new(&found).firsts().collect::<Vec<_>>(), [(1, 3)]);
    }

    #[test]
    fn a_unit_without_a_name_is_followed_by_the_one_that_says_so() {
        let found = [replacement(None, Some(2)), first(Some(2)), Found::Nameless];
        assert_eq!(follow(&found, 1), Some((vec![1, 2, 0], true)));
        let found = [replacement(None, Some(1)), Found::Nameless];
        assert_eq!(
            (Tracer::new(&found).lost_firsts(), follow(&found, 1)),
            (vec![(1, 3)], Some((vec![1, 0], true)))
        );
        assert_eq!(Tracer::new(&found).forgetful().lost_firsts(), []);
    }

    #[test]
    fn a_fold_in_place_takes_the_chain_over() {
        let found = [first(Some(1)), first(None)];
        assert_eq!(
            (follow(&found, 0), follow(&found, 1)),
            (None, Some((vec![1], false)))
        );
    }

    #[test]
    fn circles_and_links_to_nowhere_end_a_chain() {
        let found = [first(Some(1)), replacement(Some(0), None)];
        assert_eq!(follow(&found, 0), Some((vec![0, 1], true)));
        assert_eq!(follow(&[first(Some(0))], 0), Some((vec![0], true)));
        assert_eq!(follow(&[first(Some(700))], 0), Some((vec![0], true)));
        assert_eq!(
            follow(&[first(Some(1)), Found::Reserved], 0),
            Some((vec![0], true))
        );
        assert_eq!(
            follow(&[replacement(None, Some(0xfffe)), first(Some(0))], 1),
            Some((vec![1, 0], false))
        );
    }
}
