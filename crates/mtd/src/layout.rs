//! Who owns which byte of a page's spare area: user, error correction, bad-block marker.
//!
//! The layouts are those of the Linux kernel, `drivers/mtd/nand/ecc.c`: `nand_ooblayout_free_sp`
//! and `nand_ooblayout_ecc_sp` for small pages, `nand_ooblayout_free_lp_hamming` and
//! `nand_ooblayout_ecc_lp_hamming` for large ones; the marker's place is that of
//! `NAND_BBM_POS_SMALL` and `NAND_BBM_POS_LARGE`, in the first or second page of a block.
//! DiskOnChip is that of `drivers/mtd/nand/raw/diskonchip.c`, which keeps bad blocks in a table. In
//! a dump with OOB (`nanddump -o`) each page's data are followed by its spare area in this order.
//!
//! BCH codes have `nand_ooblayout_ecc_lp`: the end of the spare area.
//!
//! *Knows nothing of* how ECC bytes are computed.

use core::ops::Range;

/// A way to use the spare area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every byte is the user's, the marker's included: the user takes care to leave that one at
    /// 0xFF.
    Raw,
    /// Every byte is the user's but the marker (byte 5 of small pages, bytes 0 and 1 of large
    /// ones).
    MarkerOnly,
    /// Pages of up to 512 bytes. With 16 spare: user 8..16, ECC 0..4 and 6..8, marker 5. With 8
    /// spare: user 3..5 and 6..8, ECC 0..3, marker 5.
    LinuxSmallPage,
    /// Larger pages with 64 spare and Hamming ECC: user 2..40, ECC from 40, marker 0. The user has
    /// the bytes behind the ECC as well.
    LinuxLargePage64,
    /// Larger pages with 128 spare and Hamming ECC: user 2..80, ECC from 80, marker 0. The user has
    /// the bytes behind the ECC as well.
    LinuxLargePage128,
    /// Larger pages with the ECC at the end: user from 2, marker 0. Linux has BCH there.
    LinuxLargePageEnd {
        /// ECC bytes of a page.
        ecc: u16,
    },
    /// Pages of 512 bytes with 16 spare: user 6..16, ECC 0..6, no marker.
    DiskOnChip,
}

/// A layout that does not fit the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OOB layout {layout:?} on pages of {page} + {oob} bytes, expected {expected}")]
pub struct LayoutError {
    /// The layout asked for.
    pub layout: Layout,
    /// Data bytes of a page.
    pub page: u32,
    /// All bytes of its spare area.
    pub oob: u32,
    /// What the layout needs.
    pub expected: &'static str,
}

/// A layout on pages of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OobLayout {
    raw: usize,
    marker: Option<usize>,
    user: [Range<usize>; 2],
    ecc: [Range<usize>; 2],
}

/// Who owns what, and what the page must be like.
struct Plan {
    fits: bool,
    expected: &'static str,
    user: [Range<usize>; 2],
    ecc: [Range<usize>; 2],
}

impl Plan {
    /// No byte for error correction.
    fn user(fits: bool, user: [Range<usize>; 2]) -> Self {
        Self {
            fits,
            expected: "space for the bad-block marker",
            user,
            ecc: NONE,
        }
    }

    /// `ecc` bytes from `at` on, the user in front of them and behind. An error if they do not fit.
    fn hamming(fits: bool, expected: &'static str, at: usize, ecc: usize, spare: usize) -> Self {
        let end = spare.min(at + ecc);
        Self {
            fits: fits && at + ecc <= spare,
            expected,
            user: [2..at, end..spare.max(end)],
            ecc: [at..end, 0..0],
        }
    }
}

const NONE: [Range<usize>; 2] = [0..0, 0..0];
const SMALL: &str = "pages of up to 512 bytes with 16 spare, or 256 with 8, and 3 ECC bytes a step";
const LARGE_64: &str = "pages of more than 512 bytes with 64 spare, at most 24 of them ECC";
const LARGE_128: &str = "pages of more than 512 bytes with 128 spare, at most 48 of them ECC";

impl Layout {
    /// The layout on pages of `page` data bytes with `oob` spare bytes in all, for the ECC bytes
    /// that Linux stores there by default.
    pub fn on(self, page: u32, oob: u32) -> Result<OobLayout, LayoutError> {
        self.with_ecc(page, oob, None)
    }

    /// The layout for a code of `ecc` bytes a page; without, for Linux's default.
    pub fn with_ecc(
        self,
        page: u32,
        oob: u32,
        ecc: Option<usize>,
    ) -> Result<OobLayout, LayoutError> {
        let plan = self.plan(page, oob as usize, ecc);
        let refused = |expected| LayoutError {
            layout: self,
            page,
            oob,
            expected,
        };
        if !plan.fits {
            return Err(refused(plan.expected));
        }
        let space: usize = plan.ecc.iter().map(ExactSizeIterator::len).sum();
        if ecc.is_some_and(|ecc| ecc != space) {
            return Err(refused("as many ECC bytes as the code has"));
        }
        let marker = if page <= 512 { 5 } else { 0 };
        Ok(OobLayout {
            raw: oob as usize,
            marker: (self != Self::DiskOnChip).then_some(marker),
            user: plan.user,
            ecc: plan.ecc,
        })
    }

    fn plan(self, page: u32, raw: usize, ecc: Option<usize>) -> Plan {
        let small = page <= 512;
        // Hamming over 256 bytes, as far as there is space.
        let hamming = |space: usize| ecc.unwrap_or_else(|| space.min(page as usize / 256 * 3));
        match self {
            Self::Raw => Plan::user(raw > if small { 5 } else { 0 }, [0..raw, 0..0]),
            Self::MarkerOnly if small => Plan::user(raw > 5, [0..5, 6..raw]),
            Self::MarkerOnly => Plan::user(raw >= 2, [2..raw, 0..0]),
            Self::LinuxSmallPage => small_page(page, raw, ecc),
            Self::LinuxLargePage64 => {
                Plan::hamming(!small && raw == 64, LARGE_64, 40, hamming(24), raw)
            }
            Self::LinuxLargePage128 => {
                Plan::hamming(!small && raw == 128, LARGE_128, 80, hamming(48), raw)
            }
            Self::LinuxLargePageEnd { ecc } => {
                let at = raw.saturating_sub(ecc.into());
                Plan {
                    fits: !small && at >= 2,
                    expected: "pages of more than 512 bytes with space for marker and ECC",
                    user: [2..at.max(2), 0..0],
                    ecc: [at..raw, 0..0],
                }
            }
            Self::DiskOnChip => Plan {
                fits: page == 512 && raw == 16,
                expected: "pages of 512 bytes with 16 spare",
                user: [6..16, 0..0],
                ecc: [0..6, 0..0],
            },
        }
    }
}

fn small_page(page: u32, raw: usize, ecc: Option<usize>) -> Plan {
    let (space, user) = if raw == 8 {
        (3, [3..5, 6..8])
    } else {
        (6, [8..16, 0..0])
    };
    // Whole pages of 512 bytes by default, even if the page is smaller.
    let ecc = ecc.unwrap_or(space);
    Plan {
        fits: ecc <= space && (page <= 512 && raw == 16 || page <= 256 && raw == 8),
        expected: SMALL,
        user,
        ecc: [0..ecc.min(4), 6..6 + ecc.saturating_sub(4)],
    }
}

impl OobLayout {
    /// Bytes of the spare area in all.
    pub fn raw_bytes(&self) -> usize {
        self.raw
    }

    /// Bytes of the spare area that are the user's.
    pub fn user_bytes(&self) -> usize {
        self.user.iter().map(ExactSizeIterator::len).sum()
    }

    /// Where each user byte lies in the spare area, in the user's order.
    pub fn user(&self) -> impl Iterator<Item = usize> {
        self.user.iter().cloned().flatten()
    }

    /// Where each ECC byte lies in the spare area.
    pub fn ecc(&self) -> impl Iterator<Item = usize> {
        self.ecc.iter().cloned().flatten()
    }

    /// Where the bad-block marker lies, if there is one: a block is bad if this byte is not 0xFF in
    /// its first or second page.
    pub fn marker(&self) -> Option<usize> {
        self.marker
    }

    /// Fills `user`, as long as it is, from the spare area `raw`.
    pub fn gather(&self, raw: &[u8], user: &mut [u8]) {
        for (to, at) in user.iter_mut().zip(self.user()) {
            *to = raw[at];
        }
    }

    /// Stores `user` in the spare area `raw`, whose other bytes stay.
    pub fn scatter(&self, user: &[u8], raw: &mut [u8]) {
        for (from, at) in user.iter().zip(self.user()) {
            raw[at] = *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec, vec::Vec};

    const ALL: [(Layout, u32, u32); 12] = [
        (Layout::Raw, 2048, 64),
        (Layout::Raw, 512, 16),
        (Layout::MarkerOnly, 512, 16),
        (Layout::MarkerOnly, 4096, 218),
        (Layout::LinuxSmallPage, 512, 16),
        (Layout::LinuxSmallPage, 256, 8),
        (Layout::LinuxLargePage64, 2048, 64),
        (Layout::LinuxLargePage64, 1024, 64),
        (Layout::LinuxLargePage128, 4096, 128),
        (Layout::LinuxLargePage128, 2048, 128),
        (Layout::LinuxLargePageEnd { ecc: 52 }, 2048, 64),
        (Layout::DiskOnChip, 512, 16),
    ];

    #[test]
    fn no_byte_has_two_owners() {
        for (layout, page, oob) in ALL {
            let l = layout.on(page, oob).unwrap();
            let mut owned: Vec<usize> = l.user().chain(l.ecc()).collect();
            if layout != Layout::Raw {
                owned.extend(l.marker());
            }
            let count = owned.len();
            owned.sort_unstable();
            owned.dedup();
            assert_eq!(
                (owned.len(), l.user().count()),
                (count, l.user_bytes()),
                "{layout:?}"
            );
            assert!(
                owned.last().is_some_and(|last| *last < l.raw_bytes()),
                "{layout:?}"
            );
        }
    }

    /// The user's bytes, the ECC bytes and the marker.
    fn owners(layout: OobLayout) -> (Vec<usize>, Vec<usize>, Option<usize>) {
        (
            layout.user().collect(),
            layout.ecc().collect(),
            layout.marker(),
        )
    }

    fn bytes(range: Range<usize>) -> Vec<usize> {
        range.collect()
    }

    fn both(first: Range<usize>, second: Range<usize>) -> Vec<usize> {
        first.chain(second).collect()
    }

    #[test]
    fn bytes_lie_where_the_kernel_puts_them() {
        let on = |layout: Layout, page, oob| owners(layout.on(page, oob).unwrap());
        assert_eq!(
            on(Layout::LinuxSmallPage, 512, 16),
            (bytes(8..16), both(0..4, 6..8), Some(5))
        );
        assert_eq!(
            on(Layout::LinuxSmallPage, 256, 8),
            (both(3..5, 6..8), bytes(0..3), Some(5))
        );
        assert_eq!(
            on(Layout::LinuxLargePage64, 2048, 64),
            (bytes(2..40), bytes(40..64), Some(0))
        );
        assert_eq!(
            on(Layout::LinuxLargePage128, 4096, 128),
            (bytes(2..80), bytes(80..128), Some(0))
        );
        assert_eq!(
            on(Layout::LinuxLargePage128, 2048, 128),
            (both(2..80, 104..128), bytes(80..104), Some(0))
        );
        assert_eq!(
            on(Layout::LinuxLargePageEnd { ecc: 52 }, 2048, 64),
            (bytes(2..12), bytes(12..64), Some(0))
        );
        assert_eq!(
            on(Layout::DiskOnChip, 512, 16),
            (bytes(6..16), bytes(0..6), None)
        );
    }

    #[test]
    fn a_code_of_larger_steps_leaves_the_user_the_rest() {
        let with =
            |layout: Layout, page, oob, ecc| owners(layout.with_ecc(page, oob, Some(ecc)).unwrap());
        assert_eq!(
            with(Layout::LinuxLargePage64, 2048, 64, 12),
            (both(2..40, 52..64), bytes(40..52), Some(0))
        );
        assert_eq!(
            with(Layout::LinuxSmallPage, 512, 16, 3),
            (bytes(8..16), bytes(0..3), Some(5))
        );
    }

    #[test]
    fn a_code_that_has_no_room_is_refused() {
        for (layout, page, oob, ecc) in [
            (Layout::LinuxLargePage64, 4096, 64, 48),
            (Layout::LinuxLargePage128, 8192, 128, 96),
            (Layout::LinuxLargePageEnd { ecc: 28 }, 2048, 64, 52),
            (Layout::LinuxSmallPage, 512, 16, 13),
            (Layout::MarkerOnly, 2048, 64, 24),
        ] {
            assert!(
                layout.with_ecc(page, oob, Some(ecc)).is_err(),
                "{layout:?} {page} + {oob}"
            );
        }
    }

    #[test]
    fn user_bytes_come_back_and_no_other_byte_moves() {
        for (layout, page, oob) in ALL {
            let l = layout.on(page, oob).unwrap();
            let user: Vec<u8> = (0..l.user_bytes() as u8).collect();
            let mut raw = vec![0xEE; oob as usize];
            l.scatter(&user, &mut raw);
            let mut back = vec![0; user.len()];
            l.gather(&raw, &mut back);
            assert_eq!(back, user);
            assert_eq!(
                raw.iter().filter(|b| **b == 0xEE).count()
                    + user.iter().filter(|b| **b != 0xEE).count(),
                oob as usize
            );
        }
    }

    #[test]
    fn a_layout_that_does_not_fit_says_what_it_needs() {
        let error = Layout::LinuxLargePage64.on(2048, 128).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OOB layout LinuxLargePage64 on pages of 2048 + 128 bytes, expected pages of more than 512 bytes with 64 spare, at most 24 of them ECC"
        );
        for (layout, page, oob) in [
            (Layout::Raw, 512, 5),
            (Layout::MarkerOnly, 512, 0),
            (Layout::MarkerOnly, 2048, 1),
            (Layout::LinuxSmallPage, 2048, 16),
            (Layout::LinuxSmallPage, 512, 8),
            (Layout::LinuxLargePageEnd { ecc: 63 }, 2048, 64),
            (Layout::DiskOnChip, 256, 16),
        ] {
            assert!(layout.on(page, oob).is_err(), "{layout:?} {page} + {oob}");
        }
    }
}
