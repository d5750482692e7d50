//! Damage of a medium's bytes that knows no structure: flipped bits, erased and zeroed sectors,
//! exchanged blocks.

use nandlab_sim::mix;

/// Bytes of a disk sector.
pub const SECTOR: u64 = 512;

/// One damage to a medium, at a fixed place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The bits of a byte are inverted by a mask.
    Flip {
        /// The offset of the byte.
        at: u64,
        /// The bits that are inverted.
        mask: u8,
    },
    /// All bytes of a sector get the same value.
    Fill {
        /// The offset of the first byte.
        at: u64,
        /// The byte that fills the range: 0 or 0xFF.
        value: u8,
    },
    /// Two blocks take each other's places.
    Swap {
        /// The offset of the first range.
        first: u64,
        /// The offset of the second range.
        second: u64,
        /// Bytes of a block.
        len: u64,
    },
}

impl Strike {
    /// Strikes a medium in memory; what lies behind its end stays away.
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Self::Flip { at, mask } => bytes[at as usize] ^= mask,
            Self::Fill { at, value } => bytes[at as usize..][..SECTOR as usize].fill(value),
            Self::Swap { first, second, len } => {
                for inner in 0..len {
                    let one = (first + inner) as usize;
                    let other = (second + inner) as usize;
                    if one.max(other) < bytes.len() {
                        bytes.swap(one, other);
                    }
                }
            }
        }
    }

    /// A random strike. `places` are sectors that hold something; three quarters of all strikes
    /// begin there. Blocks that are exchanged have `block` bytes.
    pub fn random(seed: u64, places: &[u64], sectors: u64, block: u64) -> Self {
        let word = |number| mix(seed, number);
        let sector = |number: u64| match word(number) % 4 {
            0 => word(number + 1) % sectors,
            _ => places[(word(number + 1) % places.len() as u64) as usize],
        };
        let at = sector(10) * SECTOR;
        match word(0) % 8 {
            0..4 => Self::Flip {
                at: at + word(1) % SECTOR,
                mask: 1 << (word(2) % 8),
            },
            4 | 5 => Self::Fill {
                at,
                value: if word(1) & 1 == 0 { 0 } else { 0xFF },
            },
            _ => Self::Swap {
                first: at / block * block,
                second: sector(20) * SECTOR / block * block,
                len: block,
            },
        }
    }
}
