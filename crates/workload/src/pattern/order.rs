//! Which position comes next. Positions are numbered from 0; ranges are drawn by multiply and
//! shift, never by division.

use super::{Order, Spec, scatter::Scatter, zipf::Zipf};
use nandlab_sim::{Rng, rng};
use rand::Rng as _;

/// The positions of a region, in an [`Order`].
#[derive(Clone, Debug)]
pub(super) enum Positions {
    Sequential {
        next: u64,
        step: u64,
        positions: u64,
    },
    Uniform {
        rng: Rng,
        positions: u64,
    },
    Zipf {
        rng: Rng,
        zipf: Zipf,
        scatter: Scatter,
    },
    HotCold {
        rng: Rng,
        requests: f64,
        hot: u64,
        positions: u64,
    },
}

impl Positions {
    pub(super) fn new(spec: &Spec) -> Self {
        let positions = spec.positions();
        let rng = rng(spec.seed, "workload positions");
        match spec.order {
            Order::Sequential => Self::Sequential {
                next: 0,
                step: spec.block.div_ceil(spec.align),
                positions,
            },
            Order::Uniform => Self::Uniform { rng, positions },
            Order::Zipf { theta } => Self::Zipf {
                rng,
                zipf: Zipf::new(positions, theta),
                scatter: Scatter::new(positions, spec.seed),
            },
            Order::HotCold { requests, space } => {
                let hot = (positions as f64 * space + 0.5) as u64;
                Self::HotCold {
                    rng,
                    requests,
                    hot: hot.clamp(1, positions - 1),
                    positions,
                }
            }
        }
    }

    #[inline]
    pub(super) fn draw(&mut self) -> u64 {
        match self {
            Self::Sequential {
                next,
                step,
                positions,
            } => {
                let position = *next;
                *next += *step;
                if *next >= *positions {
                    *next = 0;
                }
                position
            }
            Self::Uniform { rng, positions } => below(rng, *positions),
            Self::Zipf { rng, zipf, scatter } => scatter.place(zipf.draw(rng)),
            Self::HotCold {
                rng,
                requests,
                hot,
                positions,
            } => {
                if fraction(rng) < *requests {
                    below(rng, *hot)
                } else {
                    *hot + below(rng, *positions - *hot)
                }
            }
        }
    }
}

/// Uniform below `n`. The bias of multiply and shift is at most n / 2^64, too little for any run to
/// see.
#[inline]
pub(crate) fn below(rng: &mut Rng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Uniform in [0, 1), in steps of 2^-53.
#[inline]
pub(super) fn fraction(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_positions_get_their_share() {
        let spec = Spec {
            order: Order::HotCold {
                requests: 0.9,
                space: 0.1,
            },
            ..Spec::new(4096 * 1000)
        };
        let mut positions = Positions::new(&spec);
        let mut bins = [0u32; 1000];
        (0..1_000_000).for_each(|_| bins[positions.draw() as usize] += 1);
        let hot: u32 = bins[..100].iter().sum();
        // Five standard deviations: 1500.
        assert!(hot.abs_diff(900_000) < 1500, "{hot}");
        // 9000 each, sigma 95; 111 each, sigma 10.5.
        assert!(bins[..100].iter().all(|n| n.abs_diff(9000) < 500));
        assert!(bins[100..].iter().all(|n| n.abs_diff(111) < 60));
    }

    #[test]
    fn both_sets_have_a_position_however_small_the_share() {
        for space in [1e-9, 1.0 - 1e-9] {
            let spec = Spec {
                order: Order::HotCold {
                    requests: 0.5,
                    space,
                },
                ..Spec::new(4096 * 2)
            };
            let mut positions = Positions::new(&spec);
            let seen = (0..100).fold([false; 2], |mut seen, _| {
                seen[positions.draw() as usize] = true;
                seen
            });
            assert_eq!(seen, [true, true]);
        }
    }
}
