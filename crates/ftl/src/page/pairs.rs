//! Checks a remap, and turns its pairs of sectors into pairs of logical pages.
//!
//! Pairs may come in any order. Those of the sectors of one logical page must move it as a whole,
//! sector by sector in step: a page cannot be shared.

use super::format::Pair;
use alloc::vec::Vec;
use nandlab_block::{BlockError, BlockGeometry, Lba, Remap};

/// Why a remap is refused. As a [`BlockError`] each but the first is [`BlockError::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemapError {
    /// A sector lies outside the disk.
    #[error(transparent)]
    OutOfRange(BlockError),
    /// Two pairs take from one sector.
    #[error("remap: {0} is `from` of two pairs")]
    FromTwice(Lba),
    /// Two pairs give to one sector.
    #[error("remap: {0} is `to` of two pairs")]
    ToTwice(Lba),
    /// A sector gives and takes.
    #[error("remap: {0} is `from` of one pair and `to` of a pair")]
    FromAndTo(Lba),
    /// The sectors of a logical page do not go together to the same places of another logical page.
    #[error(
        "remap: the pairs do not give the whole page of {lba}, {sectors} sectors, to another page in step"
    )]
    NotWholePage {
        /// A sector that is `to` of a pair.
        lba: Lba,
        /// Sectors of a page.
        sectors: u32,
    },
    /// More than a record may hold.
    #[error("remap: {found} pages, at most {most} at once on this device")]
    TooMany {
        /// Logical pages asked for.
        found: usize,
        /// Logical pages of one remap.
        most: usize,
    },
    /// The flash has more pages than entries with a flag can name.
    #[error("remap: not offered on an array of {0} pages")]
    ArrayTooLarge(u32),
}

impl From<RemapError> for BlockError {
    fn from(error: RemapError) -> Self {
        match error {
            RemapError::OutOfRange(error) => error,
            _ => Self::Unsupported,
        }
    }
}

/// The pairs of logical pages that pairs of sectors make, on pages of `per_page` sectors; in the
/// order of `to`.
pub(super) fn whole_pages(
    geometry: &BlockGeometry,
    per_page: u32,
    pairs: &[Remap],
) -> Result<Vec<Pair>, RemapError> {
    for lba in pairs.iter().flat_map(|pair| [pair.from, pair.to]) {
        geometry
            .check_sectors(lba, 1)
            .map_err(RemapError::OutOfRange)?;
    }
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable_by_key(|pair| pair.to);
    disjoint(&sorted)?;
    let per = u64::from(per_page);
    let page = |sectors: &[Remap]| {
        let first = sectors[0];
        let whole = sectors.len() == per_page as usize
            && first.from.0.is_multiple_of(per)
            && first.to.0.is_multiple_of(per);
        let in_step = |(i, pair): (u64, &Remap)| {
            pair.from.0 == first.from.0 + i && pair.to.0 == first.to.0 + i
        };
        if whole && (0..).zip(sectors).all(in_step) {
            Ok(Pair {
                from: (first.from.0 / per) as u32,
                to: (first.to.0 / per) as u32,
                entry: 0,
            })
        } else {
            Err(RemapError::NotWholePage {
                lba: first.to,
                sectors: per_page,
            })
        }
    };
    sorted.chunks(per_page as usize).map(page).collect()
}

/// No sector occurs twice.
fn disjoint(by_to: &[Remap]) -> Result<(), RemapError> {
    let mut from: Vec<Lba> = by_to.iter().map(|pair| pair.from).collect();
    from.sort_unstable();
    if let Some(twice) = by_to.windows(2).find(|w| w[0].to == w[1].to) {
        return Err(RemapError::ToTwice(twice[0].to));
    }
    if let Some(twice) = from.windows(2).find(|w| w[0] == w[1]) {
        return Err(RemapError::FromTwice(twice[0]));
    }
    match by_to
        .iter()
        .find(|pair| from.binary_search(&pair.to).is_ok())
    {
        Some(both) => Err(RemapError::FromAndTo(both.to)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn pages(per_page: u32, pairs: &[(u64, u64)]) -> Result<Vec<(u32, u32)>, RemapError> {
        let geometry = BlockGeometry {
            sector: 512,
            sectors: 100,
            page: 512 * per_page,
        };
        let pairs: Vec<Remap> = pairs
            .iter()
            .map(|&(from, to)| Remap {
                from: Lba(from),
                to: Lba(to),
            })
            .collect();
        whole_pages(&geometry, per_page, &pairs)
            .map(|pages| pages.iter().map(|p| (p.from, p.to)).collect())
    }

    #[test]
    fn sectors_in_any_order_make_whole_pages() {
        assert_eq!(pages(1, &[(7, 3), (2, 9)]), Ok(vec![(7, 3), (2, 9)]));
        assert_eq!(
            pages(2, &[(41, 3), (9, 11), (40, 2), (8, 10)]),
            Ok(vec![(20, 1), (4, 5)])
        );
        assert_eq!(pages(4, &[]), Ok(vec![]));
    }

    #[test]
    fn what_is_not_a_whole_page_is_refused() {
        let refused = |lba| {
            Err(RemapError::NotWholePage {
                lba: Lba(lba),
                sectors: 2,
            })
        };
        assert_eq!(pages(2, &[(8, 2)]), refused(2));
        assert_eq!(pages(2, &[(8, 3), (9, 4)]), refused(3));
        assert_eq!(pages(2, &[(9, 2), (10, 3)]), refused(2));
        assert_eq!(pages(2, &[(9, 2), (8, 3)]), refused(2));
        assert_eq!(pages(2, &[(8, 2), (9, 3), (10, 5), (11, 4)]), refused(4));
    }

    #[test]
    fn a_sector_that_occurs_twice_or_lies_outside_is_named() {
        assert_eq!(
            pages(1, &[(7, 3), (2, 3)]),
            Err(RemapError::ToTwice(Lba(3)))
        );
        assert_eq!(
            pages(1, &[(7, 3), (7, 4)]),
            Err(RemapError::FromTwice(Lba(7)))
        );
        assert_eq!(
            pages(1, &[(7, 3), (3, 4)]),
            Err(RemapError::FromAndTo(Lba(3)))
        );
        assert_eq!(pages(1, &[(5, 5)]), Err(RemapError::FromAndTo(Lba(5))));
        let outside = BlockError::OutOfRange {
            lba: Lba(100),
            count: 1,
            sectors: 100,
        };
        assert_eq!(pages(1, &[(5, 100)]), Err(RemapError::OutOfRange(outside)));
        assert_eq!(BlockError::from(RemapError::OutOfRange(outside)), outside);
        assert_eq!(
            BlockError::from(RemapError::ToTwice(Lba(3))),
            BlockError::Unsupported
        );
    }
}
