//! The generator: the product of the minimal polynomials of x, x^3, x^5 and so on.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// A polynomial over GF(2), the coefficient of x^i at index i. The highest one is set.
#[derive(Clone, Debug)]
pub struct Polynomial(Vec<bool>);

/// The generator of a code.
#[derive(Clone, Debug)]
pub struct Generator {
    #[cfg(feature = "simd")]
    factors: Vec<Polynomial>,
    /// For each odd power of x that is a root, the index of its factor.
    #[cfg(feature = "simd")]
    owners: Vec<usize>,
    product: Polynomial,
}

impl Generator {
    /// The generator of the code that corrects `strength` bits.
    pub fn new(field: &Field, strength: usize) -> Self {
        let mut owner = vec![None; field.cycle()];
        let mut factors = Vec::new();
        for root in (1..2 * strength).step_by(2) {
            if owner[root].is_none() {
                let conjugates = conjugates(field, root);
                for conjugate in &conjugates {
                    owner[*conjugate] = Some(factors.len());
                }
                factors.push(minimal(field, &conjugates));
            }
        }
        let one = Polynomial(vec![true]);
        let product = factors
            .iter()
            .fold(one, |product, factor| product.times(factor));
        Self {
            #[cfg(feature = "simd")]
            owners: owner[..2 * strength]
                .iter()
                .skip(1)
                .step_by(2)
                .flatten()
                .copied()
                .collect(),
            #[cfg(feature = "simd")]
            factors,
            product,
        }
    }

    pub fn degree(&self) -> usize {
        self.product.degree()
    }

    #[cfg(feature = "simd")]
    pub fn factors(&self) -> &[Polynomial] {
        &self.factors
    }

    /// For each odd power of x that is a root, the index of its minimal polynomial.
    #[cfg(feature = "simd")]
    pub fn owners(&self) -> &[usize] {
        &self.owners
    }

    /// The coefficients below the highest, from the highest power down.
    pub fn lower(&self) -> impl Iterator<Item = bool> {
        self.product.0.iter().rev().skip(1).copied()
    }
}

impl Polynomial {
    pub fn degree(&self) -> usize {
        self.0.len() - 1
    }

    /// The coefficients below the highest, that of x^i at bit i, of a degree of at most 64.
    #[cfg(feature = "simd")]
    pub fn lower(&self) -> u64 {
        let below = self.0[..self.degree()].iter().enumerate();
        below.fold(0, |bits, (at, set)| bits | u64::from(*set) << at)
    }

    pub fn times(&self, other: &Self) -> Self {
        let mut product = vec![false; self.0.len() + other.degree()];
        for (at, _) in self.0.iter().enumerate().filter(|(_, set)| **set) {
            for (to, from) in product[at..].iter_mut().zip(&other.0) {
                *to ^= from;
            }
        }
        Self(product)
    }
}

/// The exponents that repeated squaring of x^`root` gives.
fn conjugates(field: &Field, root: usize) -> Vec<usize> {
    let mut all = vec![root];
    let mut next = 2 * root % field.cycle();
    while next != root {
        all.push(next);
        next = 2 * next % field.cycle();
    }
    all
}

/// The polynomial with these roots; its coefficients are 0 and 1, as the roots are conjugates.
fn minimal(field: &Field, roots: &[usize]) -> Polynomial {
    let mut polynomial = vec![1];
    for root in roots {
        let root = field.power(*root);
        let mut next = vec![0; polynomial.len() + 1];
        for (at, coefficient) in polynomial.iter().enumerate() {
            next[at + 1] ^= coefficient;
            next[at] ^= field.product(*coefficient, root);
        }
        polynomial = next;
    }
    Polynomial(polynomial.into_iter().map(|c| c == 1).collect())
}
