//! Who owns which byte of a page's spare area: user, error correction, bad-block marker.
//!
//! The layouts are those of the Linux kernel, `drivers/mtd/nand/ecc.c`: `nand_ooblayout_free_sp`
//! and `nand_ooblayout_ecc_sp` for small pages, `nand_ooblayout_free_lp_hamming` and
//! `nand_ooblayout_ecc_lp_hamming` for large ones; the marker's place is that of
//! `NAND_BBM_POS_SMALL` and `NAND_BBM_POS_LARGE`, in the first or second page of a block.
//! DiskOnChip is that of `drivers/mtd/nand/raw/diskonchip.c`, which keeps bad blocks in a table. In
//! a dump with OOB (`nanddump -o`) each page's data are followed by its spare area in this order.
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
    /// Pages of up to 512 bytes with 16 spare: user 8..16, ECC 0..4 and 6..8, marker 5.
    LinuxSmallPage,
    /// Larger pages with 64 spare and Hamming ECC: user 2..40, ECC 40..64, marker 0.
    LinuxLargePage64,
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

impl Layout {
    /// The layout on pages of `page` data bytes with `oob` spare bytes in all.
    pub fn on(self, page: u32, oob: u32) -> Result<OobLayout, LayoutError> {
        let small = page <= 512;
        let marker = if small { 5 } else { 0 };
        let raw = oob as usize;
        let (fits, expected, user, ecc) = match self {
            Self::Raw => (
                raw > marker,
                "room for the bad-block marker",
                [0..raw, 0..0],
                [0..0, 0..0],
            ),
            Self::MarkerOnly if small => (
                raw > marker,
                "room for the bad-block marker",
                [0..5, 6..raw],
                [0..0, 0..0],
            ),
            Self::MarkerOnly => (
                raw >= 2,
                "room for the bad-block marker",
                [2..raw, 0..0],
                [0..0, 0..0],
            ),
            Self::LinuxSmallPage => (
                small && raw == 16,
                "pages of up to 512 bytes with 16 spare",
                [8..16, 0..0],
                [0..4, 6..8],
            ),
            Self::LinuxLargePage64 => (
                !small && raw == 64,
                "pages of more than 512 bytes with 64 spare",
                [2..40, 0..0],
                [40..64, 0..0],
            ),
            Self::DiskOnChip => (
                page == 512 && raw == 16,
                "pages of 512 bytes with 16 spare",
                [6..16, 0..0],
                [0..6, 0..0],
            ),
        };
        let marker = (self != Self::DiskOnChip).then_some(marker);
        if fits {
            Ok(OobLayout {
                raw,
                marker,
                user,
                ecc,
            })
        } else {
            Err(LayoutError {
                layout: self,
                page,
                oob,
                expected,
            })
        }
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

    const ALL: [(Layout, u32, u32); 7] = [
        (Layout::Raw, 2048, 64),
        (Layout::Raw, 512, 16),
        (Layout::MarkerOnly, 512, 16),
        (Layout::MarkerOnly, 4096, 218),
        (Layout::LinuxSmallPage, 512, 16),
        (Layout::LinuxLargePage64, 2048, 64),
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

    #[test]
    fn bytes_lie_where_the_kernel_puts_them() {
        let small = Layout::LinuxSmallPage.on(512, 16).unwrap();
        assert_eq!(
            (small.user().collect::<Vec<_>>(), small.marker()),
            ((8..16).collect(), Some(5))
        );
        assert_eq!(small.ecc().collect::<Vec<_>>(), [0, 1, 2, 3, 6, 7]);
        let large = Layout::LinuxLargePage64.on(2048, 64).unwrap();
        assert_eq!(
            (large.user().collect::<Vec<_>>(), large.marker()),
            ((2..40).collect(), Some(0))
        );
        assert_eq!(
            large.ecc().collect::<Vec<_>>(),
            (40..64).collect::<Vec<_>>()
        );
        let disk_on_chip = Layout::DiskOnChip.on(512, 16).unwrap();
        assert_eq!(
            (
                disk_on_chip.user().collect::<Vec<_>>(),
                disk_on_chip.marker()
            ),
            ((6..16).collect(), None)
        );
        assert_eq!(
            disk_on_chip.ecc().collect::<Vec<_>>(),
            (0..6).collect::<Vec<_>>()
        );
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
            "OOB layout LinuxLargePage64 on pages of 2048 + 128 bytes, expected pages of more than 512 bytes with 64 spare"
        );
        for (layout, page, oob) in [
            (Layout::Raw, 512, 5),
            (Layout::MarkerOnly, 512, 0),
            (Layout::MarkerOnly, 2048, 1),
            (Layout::LinuxSmallPage, 2048, 16),
            (Layout::DiskOnChip, 256, 16),
        ] {
            assert!(layout.on(page, oob).is_err(), "{layout:?} {page} + {oob}");
        }
    }
}
