//! What a chip is, in numbers.

use nandlab_mtd::{Geometry, GeometryError};
use nandlab_sim::Nanos;

/// Everything that makes a chip this chip. Two chips of equal spec behave alike for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipSpec {
    /// Shape of the array.
    pub geometry: Geometry,
    /// Times of its operations.
    pub timing: Timing,
    /// What its data sheet forbids.
    pub rules: Rules,
    /// How bits flip and blocks wear out.
    pub reliability: Reliability,
    /// How the chip keeps page data.
    pub contents: Contents,
    /// Seed of factory-bad blocks, failures and bit errors.
    pub seed: u64,
    /// What lies behind an erase block, where that is more than a block of one plane.
    pub superblock: Option<Superblock>,
    /// What its blocks are in SLC mode; none on a chip of single-level cells.
    pub slc: Option<SlcMode>,
}

/// Multi-level cells that hold one bit each: a block in SLC mode has fewer pages,
/// is quicker and lives longer.
///
/// The numbers of its pages begin at zero and have no gaps. Real chips leave out the row addresses
/// of the other pages, and need the mode with each command; this one knows the mode of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcMode {
    /// Bits of a cell in its own mode: 2 MLC, 3 TLC, 4 QLC. A block in SLC mode has one page in so
    /// many.
    pub cell_bits: u32,
    /// Array to page register, ns.
    pub read_ns: Nanos,
    /// Page register to array, ns.
    pub program_ns: Nanos,
    /// Erase into SLC mode, ns.
    pub erase_ns: Nanos,
    /// Erases into SLC mode that a block is rated for, if it sees no others.
    pub rated_erases: u32,
}

/// Erase blocks at the same place of every plane of every die, as one: its pages lie on the planes
/// in turn (those of a die side by side, so that they program together), and all are erased
/// together. The chip's [`Geometry`] then has one die, with blocks and pages counted so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Dies that work independently.
    pub dies: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Buses that the dies share.
    pub channels: u32,
}

/// Times of the array and of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Array to page register, ns (tR).
    pub read_ns: Nanos,
    /// Page register to array, ns (tPROG).
    pub program_ns: Nanos,
    /// Block erase, ns (tBERS).
    pub erase_ns: Nanos,
    /// Bus transfer of one byte, in picoseconds.
    pub bus_ps_per_byte: u64,
    /// Spare-area bytes that travel with a page (user bytes, ECC and marker), for the bus time.
    pub oob_bus_bytes: u32,
    /// Time of an OOB-only read without its transfer, where it differs from `read_ns`.
    pub oob_read_ns: Option<Nanos>,
    /// Time of an OOB-only program without its transfer, where it differs from `program_ns`.
    pub oob_program_ns: Option<Nanos>,
    /// A cache register: the next page's transfer overlaps the running program.
    pub cache_program: bool,
    /// Programs (and erases) of different planes, issued together, run together.
    pub multi_plane: bool,
    /// A copy within a die stays in its page register: no transfer, and bit errors travel
    /// uncorrected.
    pub copy_back: bool,
}

/// The order in which the pages of a block may be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrder {
    /// Any order (small-block SLC).
    Any,
    /// Ascending; the host may leave out pages (large-block SLC and everything since).
    Ascending,
}

/// What the data sheet forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Page order within a block.
    pub order: PageOrder,
    /// Programs a page takes between two erases (NOP); 1 on MLC and TLC.
    pub partial_programs: u8,
}

/// How a chip fails. Probabilities are per operation; a value at wear `w` (erases over rated
/// erases) is `fresh + (worn - fresh) * w^2`, an assumed shape. All zero: a perfect chip, and no
/// cost at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reliability {
    /// Erases that a block is rated for.
    pub rated_erases: u32,
    /// Share of blocks bad from the factory.
    pub factory_bad: f64,
    /// A program fails: on a fresh block, and at the rated wear.
    pub program_fail: [f64; 2],
    /// An erase fails: on a fresh block, and at the rated wear.
    pub erase_fail: [f64; 2],
    /// Raw bit error rate right after programming: on a fresh block, and at the rated wear.
    pub bit_errors: [f64; 2],
    /// Added to the rate by each read of the block since its erase (read disturb).
    pub bit_errors_per_read: f64,
    /// Added to the rate by each day since the block was first programmed (retention), times `1 +
    /// w`.
    pub bit_errors_per_day: f64,
    /// The code that corrects them.
    pub ecc: Ecc,
}

/// Error correction, as the number of bits that it corrects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecc {
    /// None: bit errors reach the caller.
    #[default]
    None,
    /// One bit per `codeword` bytes (256 or 512 in Linux's software code).
    Hamming {
        /// Data bytes that one code protects.
        codeword: u32,
    },
    /// `bits` per `codeword` bytes.
    Bch {
        /// Bits corrected per codeword.
        bits: u16,
        /// Data bytes that one code protects.
        codeword: u32,
    },
}

impl Ecc {
    /// Bits corrected per codeword, and the codeword's data bytes.
    pub fn strength(self) -> (u16, u32) {
        match self {
            Self::None => (0, 512),
            Self::Hamming { codeword } => (1, codeword),
            Self::Bch { bits, codeword } => (bits, codeword),
        }
    }
}

/// How the chip keeps page data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// In memory, as reference-counted pages.
    Kept,
    /// Not at all: programmed pages read as zeros, OOB stays. For wear, lifetime and speed.
    Dropped,
}

/// A description that no chip can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A value is out of its range.
    #[error("{field} is {found}, expected {expected}")]
    Value {
        /// The name of the refused field.
        field: &'static str,
        /// The value of that field.
        found: f64,
        /// What it should be.
        expected: &'static str,
    },
}

impl ChipSpec {
    /// The same array with the blocks of all planes and dies joined; as it is where there is one
    /// plane only, or they are joined already.
    pub fn in_superblocks(self) -> Self {
        let Geometry {
            dies,
            planes,
            channels,
            ..
        } = self.geometry;
        if dies * planes == 1 {
            return self;
        }
        let geometry = Geometry {
            pages_per_block: self.geometry.pages_per_block.saturating_mul(dies * planes),
            blocks: self.geometry.blocks / (dies * planes),
            dies: 1,
            planes: 1,
            channels: 1,
            ..self.geometry
        };
        Self {
            geometry,
            superblock: Some(Superblock {
                dies,
                planes,
                channels,
            }),
            ..self
        }
    }

    /// Pages of a block in SLC mode, on a chip that has the mode.
    pub fn slc_pages(&self) -> Option<u32> {
        let pages = self.geometry.pages_per_block / self.slc?.cell_bits;
        (pages > 0).then_some(pages)
    }

    /// Refuses descriptions that no chip can have.
    pub fn check(&self) -> Result<(), SpecError> {
        self.geometry.check()?;
        let r = &self.reliability;
        let shares = [
            ("factory-bad", r.factory_bad),
            ("program-fail, fresh", r.program_fail[0]),
            ("program-fail, worn", r.program_fail[1]),
            ("erase-fail, fresh", r.erase_fail[0]),
            ("erase-fail, worn", r.erase_fail[1]),
            ("bit-errors, fresh", r.bit_errors[0]),
            ("bit-errors, worn", r.bit_errors[1]),
            ("bit-errors-per-read", r.bit_errors_per_read),
            ("bit-errors-per-day", r.bit_errors_per_day),
        ];
        for (field, found) in shares {
            if !(0.0..=1.0).contains(&found) {
                return Err(SpecError::Value {
                    field,
                    found,
                    expected: "a probability from 0 to 1",
                });
            }
        }
        let (_, codeword) = r.ecc.strength();
        if codeword == 0 {
            return Err(SpecError::Value {
                field: "ecc codeword",
                found: 0.0,
                expected: "at least 1 byte",
            });
        }
        if let Some(slc) = &self.slc
            && !(2..=4).contains(&slc.cell_bits)
        {
            return Err(SpecError::Value {
                field: "cell-bits",
                found: slc.cell_bits.into(),
                expected: "1 to 4",
            });
        }
        if self.rules.partial_programs == 0 {
            return Err(SpecError::Value {
                field: "partial-programs",
                found: 0.0,
                expected: "at least 1",
            });
        }
        Ok(())
    }
}
