//! The generator: the product of the minimal polynomials of x, x^3, x^5 and so on.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// A polynomial over GF(2), the coefficient of x^i at index i.
#[derive(Clone, Debug)]
pub struct Generator(Vec<bool>);

impl Generator {
    /// The generator of the code that corrects `strength` bits.
    pub fn new(field: &Field, strength: usize) -> Self {
        let mut seen = vec![false; field.cycle()];
        let mut product = vec![true];
        for root in (1..2 * strength).step_by(2) {
            if !seen[root] {
                let conjugates = conjugates(field, root);
                for conjugate in &conjugates {
                    seen[*conjugate] = true;
                }
                product = multiply(&product, &minimal(field, &conjugates));
            }
        }
        Self(product)
    }

    pub fn degree(&self) -> usize {
        self.0.len() - 1
    }

    /// The coefficients below the highest, from the highest power down.
    pub fn lower(&self) -> impl Iterator<Item = bool> {
        self.0.iter().rev().skip(1).copied()
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
fn minimal(field: &Field, roots: &[usize]) -> Vec<bool> {
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
    polynomial.into_iter().map(|c| c == 1).collect()
}

fn multiply(a: &[bool], b: &[bool]) -> Vec<bool> {
    let mut product = vec![false; a.len() + b.len() - 1];
    for (at, _) in a.iter().enumerate().filter(|(_, set)| **set) {
        for (to, from) in product[at..].iter_mut().zip(b) {
            *to ^= from;
        }
    }
    product
}
