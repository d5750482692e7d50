//! The pages that an extent of sectors touches.

use nandlab_block::Lba;

/// A part of a page: (page, first sector in it, sectors).
pub(crate) type Part = (u32, u32, u32);

/// The parts of an extent, in order, on pages of `per_page` sectors.
#[inline]
pub(crate) fn parts(per_page: u32, lba: Lba, count: u64) -> impl Iterator<Item = Part> {
    let per = u64::from(per_page);
    let end = lba.0 + count;
    let mut at = lba.0;
    core::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (page, first) = (at / per, at % per);
        let n = (per - first).min(end - at);
        at += n;
        Some((page as u32, first as u32, n as u32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn an_extent_is_cut_at_page_boundaries() {
        assert_eq!(
            parts(4, Lba(3), 6).collect::<Vec<_>>(),
            [(0, 3, 1), (1, 0, 4), (2, 0, 1)]
        );
        assert_eq!(
            parts(1, Lba(7), 2).collect::<Vec<_>>(),
            [(7, 0, 1), (8, 0, 1)]
        );
        assert_eq!(parts(4, Lba(3), 0).count(), 0);
    }
}
