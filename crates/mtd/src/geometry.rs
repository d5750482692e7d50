//! The shape of an array and the arithmetic of its addresses.

use crate::{Block, Page};

/// The shape of a NAND array.
///
/// Blocks are interleaved over the dies, then over the planes of a die: block `b` lies on die `b %
/// dies`, plane `b / dies % planes`; die `d` hangs on channel `d % channels`. So `dies * planes`
/// consecutive blocks make one stripe that can be programmed and erased together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Data bytes of a page.
    pub page: u32,
    /// User bytes of a page's spare area.
    pub oob: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks of the array.
    pub blocks: u32,
    /// Dies that work independently.
    pub dies: u32,
    /// Planes of a die that can be programmed and erased together.
    pub planes: u32,
    /// Buses that the dies share.
    pub channels: u32,
    /// The smallest unit that can be programmed on its own, in bytes (a sub-page where smaller than
    /// a page).
    pub write_unit: u32,
}

/// A shape that no array can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct GeometryError {
    /// The name of the field that is refused.
    pub field: &'static str,
    /// The value of that field.
    pub found: u64,
    /// What it should be.
    pub expected: &'static str,
}

impl Geometry {
    /// A single die with whole-page writes.
    pub fn single_die(page: u32, oob: u32, pages_per_block: u32, blocks: u32) -> Self {
        Self {
            page,
            oob,
            pages_per_block,
            blocks,
            dies: 1,
            planes: 1,
            channels: 1,
            write_unit: page,
        }
    }

    /// Refuses shapes that would break the address arithmetic.
    pub fn check(&self) -> Result<(), GeometryError> {
        let rules: [(&'static str, u32, bool, &'static str); 8] = [
            (
                "page",
                self.page,
                self.page.is_power_of_two() && (256..=65_536).contains(&self.page),
                "a power of two from 256 to 65536",
            ),
            (
                "oob",
                self.oob,
                self.oob <= self.page,
                "no more than the page",
            ),
            (
                "pages-per-block",
                self.pages_per_block,
                (1..=65_536).contains(&self.pages_per_block),
                "1 to 65536",
            ),
            (
                "dies",
                self.dies,
                (1..=4096).contains(&self.dies),
                "1 to 4096",
            ),
            (
                "planes",
                self.planes,
                (1..=16).contains(&self.planes),
                "1 to 16",
            ),
            (
                "channels",
                self.channels,
                self.channels >= 1 && self.channels <= self.dies,
                "1 to the number of dies",
            ),
            (
                "write-unit",
                self.write_unit,
                self.write_unit >= 1
                    && self.write_unit <= self.page
                    && self.page.is_multiple_of(self.write_unit),
                "a divisor of the page",
            ),
            (
                "blocks",
                self.blocks,
                self.blocks >= 1 && self.blocks.is_multiple_of(self.dies * self.planes),
                "a positive multiple of dies times planes",
            ),
        ];
        for (field, found, fine, expected) in rules {
            if !fine {
                return Err(GeometryError {
                    field,
                    found: u64::from(found),
                    expected,
                });
            }
        }
        let pages = u64::from(self.blocks) * u64::from(self.pages_per_block);
        if pages > u64::from(u32::MAX) {
            return Err(GeometryError {
                field: "blocks times pages-per-block",
                found: pages,
                expected: "below 2^32",
            });
        }
        Ok(())
    }

    /// Pages of the array.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// Data bytes of an erase block.
    #[inline]
    pub fn block_bytes(&self) -> u32 {
        self.page * self.pages_per_block
    }

    /// Data bytes of the array.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes())
    }

    /// The block that holds a page.
    #[inline]
    pub fn block_of(&self, page: Page) -> Block {
        Block(page.0 / self.pages_per_block)
    }

    /// A page's index within its block.
    #[inline]
    pub fn index_of(&self, page: Page) -> u32 {
        page.0 % self.pages_per_block
    }

    /// The page at an index of a block.
    #[inline]
    pub fn page_at(&self, block: Block, index: u32) -> Page {
        Page(block.0 * self.pages_per_block + index)
    }

    /// The die that holds a block.
    #[inline]
    pub fn die_of(&self, block: Block) -> u32 {
        block.0 % self.dies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_field_and_the_rule() {
        let mut g = Geometry::single_die(2048, 64, 64, 1024);
        assert_eq!(g.check(), Ok(()));
        g.page = 1000;
        assert_eq!(g.check().unwrap_err().field, "page");
        g.page = 2048;
        g.blocks = u32::MAX;
        assert_eq!(g.check().unwrap_err().expected, "below 2^32");
        g.dies = 0;
        assert_eq!(g.check().unwrap_err().field, "dies");
    }
}
