//! LZO1X for media that are written once and read often: of all ways to divide the source into
//! literals and copies, nearly the shortest.
//!
//! The shortest way to each place is known once all places before it have been looked at: each
//! hands on to those that one literal, or a copy of any length from any of the candidates, leads
//! to. What a run of literals costs depends on its length, so the length is carried along with the
//! shortest way; a longer way that would have been better off with its literals is lost. So is a
//! copy of three bytes from a place that is as dear as the next one: that is the "nearly".

use crate::pack::{CLOSE, FAR, NEAR, TAIL};
use alloc::vec::Vec;

/// Places that are tried for a copy.
const CANDIDATES: u32 = 32;
/// A copy so long is as good as any longer one.
const ENOUGH: usize = 48;
/// Copies of two bytes reach so far, right behind one to three literals.
const PAIR: usize = 0x400;
const HASH_BITS: u32 = 14;
const PAIR_BITS: u32 = 11;

/// The best way known to a place: how its last step came there.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Bytes of the stream up to here.
    cost: u32,
    /// Literals since the last copy.
    run: u32,
    /// Bytes of the copy, 0: a literal.
    len: u32,
    distance: u32,
}

const UNKNOWN: Step = Step {
    cost: u32::MAX,
    run: 0,
    len: 0,
    distance: 0,
};

/// The memory of the search. Places are counted over all sources, so that tables need not be
/// emptied.
#[derive(Debug, Default)]
pub(super) struct Best {
    steps: Vec<Step>,
    /// The last place of each hash of three bytes, and of each pair.
    triples: Vec<u32>,
    pairs: Vec<u32>,
    /// The place before with the same hash, for each place of this source.
    before: Vec<u32>,
    /// The first place of this source.
    base: u32,
    /// Literals, then a copy's length and distance, of the way that was found.
    pub way: Vec<(usize, usize, usize)>,
}

impl Best {
    /// Finds the way; what is left after its last copy is literals.
    pub fn search(&mut self, source: &[u8]) {
        self.begin(source.len());
        for at in 0..source.len() {
            let from = self.steps[at];
            self.relax(
                at + 1,
                Step {
                    cost: from.cost + 1 + header(from.run, from.run as usize == at),
                    run: from.run + 1,
                    len: 0,
                    distance: 0,
                },
            );
            if at + TAIL >= source.len() {
                continue;
            }
            let (candidate, pair) = self.enter(source, at);
            // Where the next place costs no more, all but the shortest copies from here are as good
            // from there.
            if at == 0 || self.steps[at + 1].cost <= from.cost {
                continue;
            }
            if pair >= self.base && (1..=3).contains(&from.run) {
                let distance = at - (pair - self.base) as usize;
                if distance <= PAIR
                    && source[at - distance..at - distance + 2] == source[at..at + 2]
                {
                    self.relax(
                        at + 2,
                        Step {
                            cost: from.cost + 2,
                            run: 0,
                            len: 2,
                            distance: distance as u32,
                        },
                    );
                }
            }
            self.copies(source, at, candidate);
        }
        self.trace(source.len());
    }

    fn begin(&mut self, len: usize) {
        if self.triples.is_empty() || self.base > u32::MAX / 2 {
            self.triples.clear();
            self.triples.resize(1 << HASH_BITS, 0);
            self.pairs.clear();
            self.pairs.resize(1 << PAIR_BITS, 0);
            self.base = 1;
        }
        self.steps.clear();
        self.steps.resize(len + 1, UNKNOWN);
        self.steps[0] = Step { cost: 0, ..UNKNOWN };
        // Each place of it is written before it is read.
        self.before.resize(len.max(self.before.len()), 0);
    }

    fn relax(&mut self, at: usize, step: Step) {
        let known = &mut self.steps[at];
        if step.cost < known.cost {
            *known = step;
        }
    }

    /// Enters a place into the tables; gives the last places of the same three bytes and of the
    /// same two, perhaps.
    fn enter(&mut self, source: &[u8], at: usize) -> (u32, u32) {
        let a = u32::from(source[at]);
        let b = u32::from(source[at + 1]);
        let c = u32::from(source[at + 2]);
        let place = self.base + at as u32;
        let slot = ((a | b << 8 | c << 16).wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize;
        let triple = core::mem::replace(&mut self.triples[slot], place);
        let slot = ((a | b << 8).wrapping_mul(0x9E37_79B1) >> (32 - PAIR_BITS)) as usize;
        let pair = core::mem::replace(&mut self.pairs[slot], place);
        self.before[at] = triple;
        (triple, pair)
    }

    /// Hands on to all places that copies from the candidates lead to.
    fn copies(&mut self, source: &[u8], at: usize, mut candidate: u32) {
        let from = self.steps[at];
        let mut longest = 2;
        let limit = source.len() - at;
        for _ in 0..CANDIDATES {
            if candidate < self.base {
                break;
            }
            let place = (candidate - self.base) as usize;
            let distance = at - place;
            if distance > FAR {
                break;
            }
            // Only a longer copy is worth a longer distance.
            let may_be_longer = source[place + longest] == source[at + longest];
            let len = if may_be_longer {
                common(&source[place..], &source[at..])
            } else {
                0
            };
            if len > longest {
                let first = longest + 1;
                for (len, known) in (first..).zip(&mut self.steps[at + first..=at + len]) {
                    let cost = from.cost + price(len, distance, from.run);
                    if cost < known.cost {
                        *known = Step {
                            cost,
                            run: 0,
                            len: len as u32,
                            distance: distance as u32,
                        };
                    }
                }
                longest = len;
                if longest >= ENOUGH || longest >= limit {
                    break;
                }
            }
            candidate = self.before[place];
        }
    }

    /// Goes the best way back from the end.
    fn trace(&mut self, len: usize) {
        self.way.clear();
        let mut at = len;
        while at > 0 {
            let step = self.steps[at];
            if step.len == 0 {
                at -= 1;
                continue;
            }
            at -= step.len as usize;
            self.way.push((
                self.steps[at].run as usize,
                step.len as usize,
                step.distance as usize,
            ));
        }
        self.way.reverse();
        self.base += len as u32;
    }
}

/// Bytes that two places have in common; the second is behind the first.
fn common(first: &[u8], second: &[u8]) -> usize {
    let (ours, _) = first[..second.len()].as_chunks::<8>();
    let (theirs, rest) = second.as_chunks::<8>();
    for (number, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let unlike = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if unlike != 0 {
            return number * 8 + unlike.trailing_zeros() as usize / 8;
        }
    }
    let words = theirs.len() * 8;
    words
        + first[words..]
            .iter()
            .zip(rest)
            .take_while(|(a, b)| a == b)
            .count()
}

/// Bytes that one more literal behind `run` others costs beside itself.
fn header(run: u32, first: bool) -> u32 {
    let grows = match run {
        0 => first,
        3 => !first,
        18 => !first,
        238 if first => true,
        _ => run > 18 && (run - 18).is_multiple_of(255),
    };
    u32::from(grows)
}

/// Bytes of a copy behind `run` literals.
fn price(len: usize, distance: usize, run: u32) -> u32 {
    if len <= 8 && distance <= CLOSE || is_middle(len, distance, run as usize) {
        return 2;
    }
    let most = if distance <= NEAR { 33 } else { 9 };
    if len <= most {
        3
    } else {
        4 + ((len - most - 1) / 255) as u32
    }
}

/// Three bytes from a bit farther, right behind four literals or more, are as cheap as close ones.
pub(super) fn is_middle(len: usize, distance: usize, run: usize) -> bool {
    len == 3 && run >= 4 && distance > CLOSE && distance <= CLOSE + PAIR
}
