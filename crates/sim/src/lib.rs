//! What every layer shares and none owns: virtual time, seeded randomness, the power rail, and two
//! things that devices of every kind need: bytes that hold an image, and fault plans.
//!
//! Besides, containers that never allocate after construction: [`Lists`] and [`Index`].
//!
//! *Promises.* A run is a pure function of its inputs: nothing here reads a wall clock, a
//! thread-local generator or a hash order. Handles are cheap to clone and may cross threads (an
//! export serves a stack from several connections), but the simulation itself is sequential: one
//! actor runs at a time.
//!
//! *Knows nothing of* flash, blocks, files or processes.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod backing;
mod clock;
mod defaults;
mod divisor;
mod fault;
mod hash;
mod index;
mod lists;
mod prefetch;
mod rail;
mod ring;
mod schedule;

pub use backing::{Backing, BackingError};
pub use clock::{Clock, Nanos};
pub use divisor::Divisor;
pub use fault::{Chain, Finding, LayerFault, MediumFault, Place};
pub use hash::{MixedPage, chance, mix};
pub use index::Index;
pub use lists::Lists;
pub use prefetch::prefetch;
pub use rail::{PowerCut, Rail};
pub use rand_pcg::Pcg64Mcg as Rng;
pub use ring::Ring;
pub use schedule::Schedule;

/// A generator for one purpose of a run: the same `(seed, purpose)` gives the same numbers for
/// ever, and two purposes of one seed are independent, so that adding a consumer changes nobody
/// else's numbers.
pub fn rng(seed: u64, purpose: &str) -> Rng {
    let label = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| mix(h, u64::from(b)));
    let low = mix(seed, label);
    let high = mix(label, seed);
    Rng::new(u128::from(low) | u128::from(high) << 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn purposes_are_independent_and_repeatable() {
        let draw = |seed, purpose| rng(seed, purpose).next_u64();
        assert_eq!(draw(1, "host"), draw(1, "host"));
        assert_ne!(draw(1, "host"), draw(1, "faults"));
        assert_ne!(draw(1, "host"), draw(2, "host"));
    }
}
