//! Small chips whose shape varies with a seed.

use nandlab_mtd::Geometry;
use nandlab_nand::{ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, Timing};

/// Times of a plain SLC chip. Whether it caches programs varies with the seed.
pub fn timing(seed: u64) -> Timing {
    Timing {
        read_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        bus_ps_per_byte: 25_000,
        oob_bus_bytes: 16,
        oob_read_ns: None,
        oob_program_ns: None,
        cache_program: seed.is_multiple_of(2),
        multi_plane: false,
        copy_back: false,
    }
}

/// A chip of one, two or four dies with pages of 1 KiB and eight pages a block.
pub fn spec(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let geometry = Geometry {
        dies: [1, 2, 4][seed as usize % 3],
        channels: 1,
        ..Geometry::single_die(1024, 15, 8, blocks)
    };
    ChipSpec {
        geometry,
        timing: timing(seed),
        rules: Rules {
            order: PageOrder::Ascending,
            partial_programs: 1,
        },
        reliability,
        contents: Contents::Kept,
        superblock: None,
        slc: None,
        seed,
    }
}

/// Bad blocks from the factory, and failures and bit errors with these probabilities.
pub fn flaky(program_fail: f64, erase_fail: f64, bit_errors: f64) -> Reliability {
    Reliability {
        rated_erases: 10_000,
        factory_bad: 0.03,
        program_fail: [program_fail; 2],
        erase_fail: [erase_fail; 2],
        bit_errors: [bit_errors; 2],
        ecc: Ecc::Bch {
            bits: 8,
            codeword: 512,
        },
        ..Reliability::default()
    }
}
