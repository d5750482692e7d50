//! Roots of the locator polynomial: the positions of the flipped bits.
//!
//! Berlekamp's trace algorithm: for each element b of a basis, the trace of b*x is 0 for half of
//! the field and 1 for the other, and it is a polynomial. Its common divisor with a polynomial
//! takes the roots of the one half out. Factors of degree 1 and 2 are solved directly.
//!
//! A polynomial whose roots are not all different elements of the field never falls apart into
//! such factors, or has a factor of degree 2 without a solution: then there are no positions.

use super::STRENGTH_MAX;
use super::field::Field;
use super::locator::Locator;

/// A monic polynomial: the coefficients below the highest, from x^0 on.
type Monic = [u16; STRENGTH_MAX];

/// Fills `powers` with the powers of x whose bits are flipped. Returns whether there is a position
/// for each root, below `bits`.
pub fn positions(field: &Field, locator: &Locator, bits: usize, powers: &mut [u16]) -> bool {
    let degree = locator.degree();
    // Backwards, its roots are the positions themselves, and its highest coefficient is 1.
    let mut roots = [0; STRENGTH_MAX];
    let roots = &mut roots[..degree];
    for (to, from) in roots.iter_mut().zip(locator.coefficients().iter().rev()) {
        *to = *from;
    }
    if !Splitter::new(field, roots).solve(roots) {
        return false;
    }
    for (power, root) in powers.iter_mut().zip(&*roots) {
        *power = field.logarithm(*root) as u16;
    }
    roots.iter().all(|root| *root != 0) && powers.iter().all(|power| usize::from(*power) < bits)
}

/// Splits a polynomial, in place: its factors lie one after the other, as many coefficients as each
/// has roots, and become these roots.
struct Splitter<'a> {
    field: &'a Field,
    /// The polynomial that is split.
    whole: Monic,
    degree: usize,
    /// The degrees of its factors.
    factors: [u8; STRENGTH_MAX],
    count: usize,
}

impl<'a> Splitter<'a> {
    fn new(field: &'a Field, polynomial: &[u16]) -> Self {
        let degree = polynomial.len();
        let mut whole = [0; STRENGTH_MAX];
        whole[..degree].copy_from_slice(polynomial);
        let mut factors = [0; STRENGTH_MAX];
        factors[0] = degree as u8;
        Self {
            field,
            whole,
            degree,
            factors,
            count: 1,
        }
    }

    /// Turns the polynomial into its roots. Returns whether they are different elements.
    fn solve(&mut self, polynomial: &mut [u16]) -> bool {
        if self.degree > 2 && !self.split(polynomial) {
            return false;
        }
        let mut rest = polynomial;
        self.factors[..self.count].iter().all(|degree| {
            let (factor, others) = core::mem::take(&mut rest).split_at_mut((*degree).into());
            rest = others;
            solve_small(self.field, factor)
        })
    }

    /// Splits the polynomial until no factor has a degree above 2. Returns whether that succeeds.
    fn split(&mut self, polynomial: &mut [u16]) -> bool {
        let mut squares = [[0; STRENGTH_MAX]; 15];
        let squares = &mut squares[..self.field.order()];
        if !self.squares(squares) {
            return false;
        }
        for basis in 0..self.field.order() {
            if self.factors[..self.count].iter().all(|degree| *degree <= 2) {
                return true;
            }
            let trace = self.trace(squares, basis);
            self.split_by(polynomial, &trace[..self.degree]);
        }
        self.factors[..self.count].iter().all(|degree| *degree <= 2)
    }

    /// Fills `squares` with x, x^2, x^4 and so on, modulo the polynomial. Returns whether the one
    /// that would follow is x again: otherwise a root is missing.
    fn squares(&self, squares: &mut [Monic]) -> bool {
        let field = self.field;
        let degree = self.degree;
        let rows = self.rows();
        let square = |from: &Monic| {
            let mut to = [0; STRENGTH_MAX];
            for (at, coefficient) in from[..degree].iter().enumerate() {
                let logarithm = 2 * field.logarithm(*coefficient);
                if *coefficient == 0 {
                    continue;
                }
                let Some(row) = (2 * at).checked_sub(degree) else {
                    to[2 * at] ^= field.power(logarithm);
                    continue;
                };
                let logarithm = logarithm % field.cycle();
                for (to, row) in to[..degree].iter_mut().zip(&rows[row]) {
                    *to ^= field.power(logarithm + usize::from(*row));
                }
            }
            to
        };
        squares[0][1] = 1;
        for at in 1..squares.len() {
            squares[at] = square(&squares[at - 1]);
        }
        squares.last().map(square) == Some(squares[0])
    }

    /// The logarithms of the coefficients of x^degree, x^(degree + 1) and so on, modulo the
    /// polynomial.
    fn rows(&self) -> [Monic; STRENGTH_MAX] {
        let field = self.field;
        let degree = self.degree;
        let whole = &self.whole[..degree];
        let mut rows = [[0; STRENGTH_MAX]; STRENGTH_MAX];
        let mut row = self.whole;
        for logarithms in &mut rows[..degree - 1] {
            for (to, from) in logarithms.iter_mut().zip(&row[..degree]) {
                *to = field.logarithm(*from) as u16;
            }
            let top = field.logarithm(row[degree - 1]);
            row.copy_within(..degree - 1, 1);
            row[0] = 0;
            for (to, from) in row.iter_mut().zip(whole) {
                *to ^= field.power(top + field.logarithm(*from));
            }
        }
        rows
    }

    /// The trace of x^`basis` times x, modulo the polynomial.
    fn trace(&self, squares: &[Monic], basis: usize) -> Monic {
        let field = self.field;
        let mut sum = [0; STRENGTH_MAX];
        let mut factor = basis;
        for square in squares {
            for (to, from) in sum[..self.degree].iter_mut().zip(square) {
                *to ^= field.power(factor + field.logarithm(*from));
            }
            factor = 2 * factor % field.cycle();
        }
        sum
    }

    /// Splits each factor into its common divisor with `trace` and the rest.
    fn split_by(&mut self, polynomial: &mut [u16], trace: &[u16]) {
        let mut rest = polynomial;
        let before = self.factors;
        let mut count = 0;
        for degree in before[..self.count].iter().copied() {
            let (factor, others) = core::mem::take(&mut rest).split_at_mut(degree.into());
            rest = others;
            let common = if degree > 2 {
                take_out(self.field, factor, trace)
            } else {
                0
            };
            for part in [common, factor.len() - common] {
                if part > 0 {
                    self.factors[count] = part as u8;
                    count += 1;
                }
            }
        }
        self.count = count;
    }
}

/// Replaces a factor by its common divisor with `trace` and the quotient. Returns the divisor's
/// degree; 0 if there is none, and the factor stays.
fn take_out(field: &Field, factor: &mut [u16], trace: &[u16]) -> usize {
    let mut larger = [0; STRENGTH_MAX];
    let mut smaller = [0; STRENGTH_MAX];
    let mut degree = factor.len();
    larger[..degree].copy_from_slice(factor);
    smaller[..trace.len()].copy_from_slice(trace);
    // Both monic from here on; `length` is one more than the degree of the smaller.
    reduce(field, &mut smaller[..trace.len()], &larger[..degree]);
    while let Some(top) = smaller[..degree].iter().rposition(|c| *c != 0) {
        let inverse = field.inverse_logarithm(smaller[top]);
        for coefficient in &mut smaller[..top] {
            *coefficient = field.power(field.logarithm(*coefficient) + inverse % field.cycle());
        }
        if top == 0 {
            return 0;
        }
        // larger = x^degree + ..., whose highest coefficient is not stored.
        let mut whole = [0; STRENGTH_MAX + 1];
        whole[..degree].copy_from_slice(&larger[..degree]);
        whole[degree] = 1;
        reduce(field, &mut whole[..=degree], &smaller[..top]);
        larger = smaller;
        smaller = [0; STRENGTH_MAX];
        smaller[..top].copy_from_slice(&whole[..top]);
        degree = top;
    }
    if degree == factor.len() {
        return 0;
    }
    let mut whole = [0; STRENGTH_MAX + 1];
    let length = factor.len();
    whole[..length].copy_from_slice(factor);
    whole[length] = 1;
    reduce(field, &mut whole[..=length], &larger[..degree]);
    factor[..degree].copy_from_slice(&larger[..degree]);
    factor[degree..].copy_from_slice(&whole[degree..length]);
    degree
}

/// Divides `polynomial` by a monic one: the remainder is left in the coefficients below its degree,
/// the quotient in those above.
fn reduce(field: &Field, polynomial: &mut [u16], by: &[u16]) {
    for at in (by.len()..polynomial.len()).rev() {
        let top = field.logarithm(polynomial[at]);
        let place = at - by.len();
        for (to, from) in polynomial[place..at].iter_mut().zip(by) {
            *to ^= field.power(top + field.logarithm(*from));
        }
    }
}

/// Turns a monic polynomial of degree 1 or 2 into its roots. Returns whether they are different
/// elements.
fn solve_small(field: &Field, polynomial: &mut [u16]) -> bool {
    // x + a is its own root.
    let [product, sum] = polynomial else {
        return true;
    };
    if *sum == 0 {
        return false;
    }
    // With x = sum * z: z^2 + z = product / sum^2.
    let twice = 2 * field.inverse_logarithm(*sum) % field.cycle();
    let Some(z) = field.quadratic(field.power(field.logarithm(*product) + twice)) else {
        return false;
    };
    let first = field.product(*sum, z);
    *product = first;
    *sum ^= first;
    true
}
