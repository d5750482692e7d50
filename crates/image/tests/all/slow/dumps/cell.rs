//! The table of dumps: pages, codes, media and histories, and where Linux puts a page's parity.
//!
//! *Knows nothing of* guests and of what the dumps hold.

use std::fmt;

/// A simulated chip's pages and blocks, as its identification tells Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub page: u32,
    pub oob: u32,
    pub pages_per_block: u32,
    pub id: &'static str,
}

pub const SMALL: Shape = Shape {
    page: 512,
    oob: 16,
    pages_per_block: 32,
    id: "0x98,0x73",
};
pub const LARGE: Shape = Shape {
    page: 2048,
    oob: 64,
    pages_per_block: 64,
    id: "0xec,0xf1,0x00,0x15",
};
pub const LARGER: Shape = Shape {
    page: 4096,
    oob: 128,
    pages_per_block: 64,
    id: "0xec,0xf1,0x00,0x26",
};

impl Shape {
    pub fn block_bytes(self) -> u32 {
        self.page * self.pages_per_block
    }

    /// Bytes of a page in a dump.
    pub fn raw_page(self) -> usize {
        (self.page + self.oob) as usize
    }

    pub fn raw_block(self) -> usize {
        self.raw_page() * self.pages_per_block as usize
    }
}

/// The code that the kernel's driver computes in software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// One bit in 256 bytes.
    Hamming,
    /// So many bits in 512 bytes.
    Bch(u32),
}

impl Code {
    /// Bits of a step that are corrected.
    pub fn strength(self) -> u32 {
        match self {
            Self::Hamming => 1,
            Self::Bch(strength) => strength,
        }
    }

    /// Data bytes of a step.
    pub fn step(self) -> u32 {
        match self {
            Self::Hamming => 256,
            Self::Bch(_) => 512,
        }
    }

    pub fn parameter(self) -> String {
        match self {
            Self::Hamming => String::new(),
            Self::Bch(strength) => format!("bch={strength}"),
        }
    }

    /// Places in the spare bytes that hold the parity of a step, without bytes that are not all
    /// parity.
    pub fn parity(self, shape: Shape, step: u32) -> Vec<usize> {
        let steps = shape.page / self.step();
        let (first, len) = match self {
            Self::Hamming if shape.page == 512 => {
                let all: [&[usize]; 2] = [&[0, 1, 2], &[3, 6, 7]];
                return all[step as usize].to_vec();
            }
            Self::Hamming => (shape.oob - 3 * steps, 3),
            // 13 bits for each bit of strength; of the last byte of four bits' a half.
            Self::Bch(strength) => (
                shape.oob - (13 * strength).div_ceil(8) * steps,
                (13 * strength).div_ceil(8),
            ),
        };
        let whole = match self {
            Self::Hamming => 3,
            Self::Bch(strength) => 13 * strength / 8,
        };
        let from = (first + step * len) as usize;
        (from..from + whole as usize).collect()
    }
}

/// What lies on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    Jffs2,
    /// UBI with a static volume of known bytes and a dynamic one with ext3.
    Ubi,
}

/// What happened to the medium before it was dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// Made, filled and unmounted.
    Fresh,
    /// Worn, with deletions and overwrites and a bad block; the first page with data lies far
    /// behind the beginning.
    Aged,
    /// Dumped in use, and the last page that was programmed is torn.
    Cut,
}

/// One dump of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub shape: Shape,
    pub code: Code,
    pub medium: Medium,
    pub age: Age,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.shape.page;
        let (code, strength) = match self.code {
            Code::Hamming => ("hamming", String::new()),
            Code::Bch(strength) => ("bch", strength.to_string()),
        };
        let medium = format!("{:?}-{:?}", self.medium, self.age).to_lowercase();
        write!(f, "{page}-{code}{strength}-{medium}")
    }
}

impl Cell {
    /// All cells of a code. BCH on pages of 512 bytes does not exist: their 16 spare bytes have no
    /// space for it, and nandsim refuses it.
    pub fn all(code: Code) -> Vec<Self> {
        let shapes: &[Shape] = match code {
            Code::Hamming => &[SMALL, LARGE, LARGER],
            Code::Bch(_) => &[LARGE, LARGER],
        };
        let mut all = Vec::new();
        for &shape in shapes {
            for medium in [Medium::Jffs2, Medium::Ubi] {
                for age in [Age::Fresh, Age::Aged, Age::Cut] {
                    all.push(Self {
                        shape,
                        code,
                        medium,
                        age,
                    });
                }
            }
        }
        all
    }

    /// The chip's blocks as a power of two.
    pub fn blocks_log2(self) -> u32 {
        match (self.shape.page, self.medium, self.age) {
            (512, Medium::Ubi, Age::Aged) => 9,
            (512, ..) => 8,
            (2048, Medium::Ubi, Age::Aged) => 7,
            (.., Age::Aged) => 6,
            _ => 5,
        }
    }

    /// Bytes of the dump.
    pub fn raw_bytes(self) -> usize {
        self.shape.raw_block() << self.blocks_log2()
    }

    /// Blocks at the beginning in which an aged chip has no data: 2496 pages.
    pub fn blocks_empty(self) -> u32 {
        match self.age {
            Age::Aged => 2496 / self.shape.pages_per_block,
            Age::Fresh | Age::Cut => 0,
        }
    }

    /// The block that is marked bad.
    pub fn bad(self) -> Option<u32> {
        (self.age == Age::Aged).then_some(self.blocks_empty() + 3)
    }

    /// The shell function `chip` with its words.
    pub fn chip(self) -> String {
        let bad = self.bad().map(|bad| format!("badblocks={bad}"));
        let Shape { id, .. } = self.shape;
        let parameter = self.code.parameter();
        let blocks = self.blocks_log2();
        let bad = bad.unwrap_or_default();
        format!("chip id_bytes={id} overridesize={blocks} {parameter} {bad}")
    }
}
