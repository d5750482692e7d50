//! Division by a number fixed at run time.

/// A divisor; a shift where it is a power of two, as sizes of flash nearly always are.
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    divisor: u32,
    shift: u32,
}

impl Divisor {
    /// A divisor of at least 1.
    pub fn new(divisor: u32) -> Self {
        Self {
            divisor: divisor.max(1),
            shift: if divisor.is_power_of_two() {
                divisor.trailing_zeros()
            } else {
                u32::MAX
            },
        }
    }

    /// Returns the quotient and the remainder of `n`.
    #[inline]
    pub fn split(self, n: u32) -> (u32, u32) {
        if self.shift < 32 {
            (n >> self.shift, n & (self.divisor - 1))
        } else {
            (n / self.divisor, n % self.divisor)
        }
    }
}
