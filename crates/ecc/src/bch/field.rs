//! GF(2^m): elements as bit vectors, multiplied by tables of logarithms.

use alloc::vec;
use alloc::vec::Vec;

/// No solution, in the table of quadratic equations.
const NONE: u16 = u16::MAX;

/// The field, built on the primitive polynomial of `lib/bch.c` for its order.
#[derive(Clone, Debug)]
pub struct Field {
    order: u32,
    /// The powers of x from 0 on, twice over: the sum of two logarithms needs no reduction. Zeros
    /// follow, since 0 has a logarithm beyond them: a product needs no special case.
    powers: Vec<u16>,
    /// The logarithm of every element.
    logarithms: Vec<u16>,
    /// A solution z of z^2 + z = element for every element that has one.
    quadratics: Vec<u16>,
}

impl Field {
    pub fn new(order: u32) -> Self {
        let primitive = match order {
            13 => 0x201B,
            14 => 0x402B,
            _ => 0x8003,
        };
        let cycle = (1 << order) - 1;
        let mut powers = vec![0; 4 * cycle + 1];
        let mut logarithms = vec![0; cycle + 1];
        logarithms[0] = 2 * cycle as u16;
        let mut power: u32 = 1;
        for exponent in 0..cycle {
            powers[exponent] = power as u16;
            powers[exponent + cycle] = power as u16;
            logarithms[power as usize] = exponent as u16;
            power <<= 1;
            if power >> order != 0 {
                power ^= primitive;
            }
        }
        let mut field = Self {
            order,
            powers,
            logarithms,
            quadratics: vec![NONE; cycle + 1],
        };
        field.fill_quadratics(cycle);
        field
    }

    fn fill_quadratics(&mut self, cycle: usize) {
        for element in (0..=cycle as u16).step_by(2) {
            let sum = self.square(element) ^ element;
            self.quadratics[usize::from(sum)] = element;
        }
    }

    /// The field's order m: it has 2^m elements.
    pub fn order(&self) -> usize {
        self.order as usize
    }

    /// The number of elements but 0.
    pub fn cycle(&self) -> usize {
        self.logarithms.len() - 1
    }

    /// x to the power of the sum of two logarithms.
    pub fn power(&self, exponent: usize) -> u16 {
        self.powers[exponent]
    }

    /// The logarithm of an element; that of 0 stands for itself in a sum of two.
    pub fn logarithm(&self, element: u16) -> usize {
        self.logarithms[usize::from(element)].into()
    }

    pub fn product(&self, a: u16, b: u16) -> u16 {
        self.power(self.logarithm(a) + self.logarithm(b))
    }

    /// The logarithm of the inverse of an element that is not 0.
    pub fn inverse_logarithm(&self, element: u16) -> usize {
        self.cycle() - self.logarithm(element)
    }

    pub fn square(&self, a: u16) -> u16 {
        self.product(a, a)
    }

    /// A solution of z^2 + z = `sum`; the other is one more.
    pub fn quadratic(&self, sum: u16) -> Option<u16> {
        let solution = self.quadratics[usize::from(sum)];
        (solution != NONE).then_some(solution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_follow_the_primitive_polynomial_and_zero_is_no_special_case() {
        for order in [13, 14, 15] {
            let field = Field::new(order);
            let top = 1 << (order - 1);
            assert_eq!(
                field.product(top, 2),
                (1 << order ^ [0x201B, 0x402B, 0x8003][order as usize - 13]) as u16
            );
            for (a, b) in [(0, 0), (0, 1), (77, 0), (0, top)] {
                assert_eq!(field.product(a, b), 0);
            }
            for element in [1, 5, 4711] {
                let inverse = field.power(field.inverse_logarithm(element));
                assert_eq!(field.product(element, inverse), 1);
            }
        }
    }

    #[test]
    fn half_of_all_quadratic_equations_have_solutions() {
        let field = Field::new(13);
        let sums = 0..=field.cycle() as u16;
        let solved = sums.filter_map(|sum| Some((sum, field.quadratic(sum)?)));
        let solved: Vec<_> = solved.collect();
        assert_eq!(solved.len(), 4096);
        for (sum, z) in solved {
            assert_eq!(field.square(z) ^ z, sum);
        }
    }
}
