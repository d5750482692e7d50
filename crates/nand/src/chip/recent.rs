//! The last operations of a chip, for the message of a run that stops.

use super::Chip;
use alloc::{format, string::String, vec::Vec};
use nandlab_mtd::Page;

/// An operation in eight bytes: what, and the page or block; for a copy both pages, 31 bits each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent(u64);

impl Recent {
    pub const READ: u64 = 1;
    pub const PROGRAM: u64 = 2;
    pub const ERASE: u64 = 3;

    #[inline]
    pub fn new(what: u64, place: u32) -> Self {
        Self(what << 32 | u64::from(place))
    }

    #[inline]
    pub fn copy(from: Page, to: Page) -> Self {
        Self(1 << 63 | u64::from(from.0) << 32 | u64::from(to.0))
    }
}

impl Chip {
    /// The last operations, oldest first, in words: what a run that stops on an illegal use should
    /// print.
    pub fn recent(&self) -> Vec<String> {
        let words = |Recent(r): Recent| match (r >> 63, r >> 32, r as u32) {
            (1, _, to) => format!(
                "copy {} to {}",
                self.place((r >> 32) as u32 & 0x7fff_ffff),
                self.place(to)
            ),
            (_, Recent::READ, page) => format!("read {}", self.place(page)),
            (_, Recent::PROGRAM, page) => format!("program {}", self.place(page)),
            (_, _, block) => format!("erase block {block}"),
        };
        self.recent.recent().into_iter().map(words).collect()
    }

    fn place(&self, page: u32) -> String {
        let (block, index) = self.per_block.split(page);
        format!("block {block} page {index}")
    }
}
