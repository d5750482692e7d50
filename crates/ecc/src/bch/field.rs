//! GF(2^m): elements as bit vectors, multiplied by tables of logarithms.

use alloc::vec;
use alloc::vec::Vec;

/// The field, built on the primitive polynomial of `lib/bch.c` for its order.
#[derive(Clone, Debug)]
pub struct Field {
    /// The powers of x from 0 on, twice over: the sum of two logarithms needs no reduction.
    powers: Vec<u16>,
    /// The logarithm of every element but 0.
    logarithms: Vec<u16>,
}

impl Field {
    pub fn new(order: u32) -> Self {
        let primitive = match order {
            13 => 0x201B,
            14 => 0x402B,
            _ => 0x8003,
        };
        let cycle = (1 << order) - 1;
        let mut powers = vec![0; 2 * cycle];
        let mut logarithms = vec![0; cycle + 1];
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
        Self { powers, logarithms }
    }

    /// The number of elements but 0.
    pub fn cycle(&self) -> usize {
        self.logarithms.len() - 1
    }

    /// x to the power of `exponent`, which is less than twice the cycle.
    pub fn power(&self, exponent: usize) -> u16 {
        self.powers[exponent]
    }

    /// The logarithm of an element that is not 0.
    pub fn logarithm(&self, element: u16) -> usize {
        self.logarithms[usize::from(element)].into()
    }

    pub fn product(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.power(self.logarithm(a) + self.logarithm(b))
    }

    /// `a` divided by `b`, which is not 0.
    pub fn quotient(&self, a: u16, b: u16) -> u16 {
        if a == 0 {
            return 0;
        }
        self.power(self.logarithm(a) + self.cycle() - self.logarithm(b))
    }

    pub fn square(&self, a: u16) -> u16 {
        self.product(a, a)
    }
}
