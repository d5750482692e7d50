//! The checks that every implementation of [`Mtd`](crate::Mtd) makes of its caller's addresses and
//! buffers.

use crate::{Block, Geometry, MtdError, Page};

impl Geometry {
    /// Refuses a page outside the array, data that are neither a page nor nothing, more OOB than
    /// there is.
    pub fn check_access(
        &self,
        page: Page,
        data_bytes: usize,
        oob_bytes: usize,
    ) -> Result<(), MtdError> {
        if page.0 >= self.pages() {
            return Err(MtdError::OutOfRange(page));
        }
        for (found, expected, fine) in [
            (
                data_bytes,
                self.page,
                data_bytes == 0 || data_bytes == self.page as usize,
            ),
            (oob_bytes, self.oob, oob_bytes <= self.oob as usize),
        ] {
            if !fine {
                return Err(MtdError::BadLength {
                    found,
                    expected: expected as usize,
                });
            }
        }
        Ok(())
    }

    /// Refuses a block outside the array.
    pub fn check_block(&self, block: Block) -> Result<(), MtdError> {
        if block.0 < self.blocks {
            Ok(())
        } else {
            Err(MtdError::OutOfRange(Page(
                block.0.saturating_mul(self.pages_per_block),
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_inside_the_array_and_of_its_lengths() {
        let g = Geometry::single_die(512, 8, 4, 2);
        assert_eq!(
            (
                g.check_access(Page(7), 512, 8),
                g.check_access(Page(0), 0, 3)
            ),
            (Ok(()), Ok(()))
        );
        assert_eq!(
            g.check_access(Page(8), 512, 8),
            Err(MtdError::OutOfRange(Page(8)))
        );
        assert_eq!(
            g.check_access(Page(0), 511, 8),
            Err(MtdError::BadLength {
                found: 511,
                expected: 512
            })
        );
        assert_eq!(
            g.check_access(Page(0), 512, 9),
            Err(MtdError::BadLength {
                found: 9,
                expected: 8
            })
        );
        assert_eq!(
            (g.check_block(Block(1)), g.check_block(Block(2))),
            (Ok(()), Err(MtdError::OutOfRange(Page(8))))
        );
        assert_eq!(
            g.check_block(Block(u32::MAX)),
            Err(MtdError::OutOfRange(Page(u32::MAX)))
        );
    }
}
