//! Chips with their sources. Every number can be overridden; `note` says where each came from.

use crate::{ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, SlcMode, Timing};
use alloc::string::String;
use core::fmt;
use nandlab_mtd::Geometry;

/// A chip with a name and a source.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name used in experiments.
    pub name: &'static str,
    /// What it is, in one line.
    pub what: &'static str,
    /// Where its numbers come from, and which of them are assumed.
    pub note: &'static str,
    make: fn() -> ChipSpec,
}

impl Preset {
    /// Returns the description of the chip.
    pub fn spec(&self) -> ChipSpec {
        (self.make)()
    }
}

/// Finds a preset by name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|p| p.name == name)
}

/// Numbers that replace those of a preset's geometry. `None` keeps the preset's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Data bytes of a page.
    pub page: Option<u32>,
    /// User bytes of a page's spare area.
    pub oob: Option<u32>,
    /// Pages of an erase block.
    pub pages_per_block: Option<u32>,
    /// Erase blocks of the whole chip.
    pub blocks: Option<u32>,
    /// Dies that work independently.
    pub dies: Option<u32>,
}

impl Shape {
    /// Puts the numbers into a geometry. A page is never smaller than its write unit.
    pub fn apply(&self, geometry: &mut Geometry) {
        let numbers = [
            (&mut geometry.page, self.page),
            (&mut geometry.oob, self.oob),
            (&mut geometry.pages_per_block, self.pages_per_block),
            (&mut geometry.blocks, self.blocks),
            (&mut geometry.dies, self.dies),
        ];
        for (number, given) in numbers {
            *number = given.unwrap_or(*number);
        }
        geometry.write_unit = geometry.write_unit.min(geometry.page);
    }
}

/// A name that no preset has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPreset(pub String);

impl fmt::Display for UnknownPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "preset: found {}, expected one of ", self.0)?;
        ALL.iter().enumerate().try_for_each(|(at, preset)| {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}", preset.name)
        })
    }
}

impl core::error::Error for UnknownPreset {}

/// The chip of a preset, with other numbers in its geometry. [`Chip::new`](crate::Chip::new)
/// refuses a shape that no chip can have.
///
/// ```
/// use nandlab_nand::preset::{Shape, shaped};
///
/// let shape = Shape { blocks: Some(64), ..Shape::default() };
/// let spec = shaped("slc-2k", &shape)?;
/// assert_eq!((spec.geometry.page, spec.geometry.blocks), (2048, 64));
/// assert!(shaped("slc", &shape).unwrap_err().to_string().contains("slc-2k"));
/// # Ok::<(), nandlab_nand::preset::UnknownPreset>(())
/// ```
pub fn shaped(name: &str, shape: &Shape) -> Result<ChipSpec, UnknownPreset> {
    let preset = find(name).ok_or_else(|| UnknownPreset(name.into()))?;
    let mut spec = preset.spec();
    shape.apply(&mut spec.geometry);
    Ok(spec)
}

/// Every preset, in the order of lists.
pub const ALL: &[Preset] = &[
    Preset {
        name: "nandsim-jftl",
        what: "128 MiB small-block SLC as simulated in the JFTL paper: 512 B pages, 16 KiB blocks",
        note: "page, block and times (25 us, 100 us, 2 ms): JFTL paper, section 4; no bus time: nandsim with do_delays off; three partial programs: Samsung small-block data sheets",
        make: nandsim_jftl,
    },
    Preset {
        name: "onenand-kfg1g16u2m",
        what: "128 MiB OneNAND: 2 KiB pages, 128 KiB blocks",
        note: "30 us, 220 us, 2 ms: the JFFS2 write-back paper, section 5; geometry: Samsung KFG1G16U2M data sheet; bus 16 bit at 54 MHz, 100,000 erases and 1-bit ECC per 512 B: assumed from the family's data sheets",
        make: onenand,
    },
    Preset {
        name: "slc-2k",
        what: "128 MiB large-block SLC: 2 KiB pages, 128 KiB blocks",
        note: "25 us, 200 us, 1.5 ms, 25 ns a byte, NOP 4, 100,000 erases: Samsung K9F1G08U0B class data sheets",
        make: slc_2k,
    },
    Preset {
        name: "small-block-64MiB",
        what: "64 MiB small-block SLC: 512 B pages, 16 KiB blocks",
        note: "15 us, 200 us, 2 ms, 50 ns a byte, 100,000 erases: Samsung K9F1208U0B class data sheets",
        make: small_block,
    },
    Preset {
        name: "emmc-16GiB",
        what: "16 GiB eMMC array: 2 dies of 2 planes on one channel, 8 KiB pages, 2 MiB blocks, MLC",
        note: "assumed: typical 2x nm MLC of 2011-2012 (tR 60 us, tPROG 1.3 ms, tBERS 5 ms, 100 MB/s bus, 3,000 erases, 40-bit BCH per 1 KiB); in SLC mode 25 us and 300 us as HP's white paper on SLC, MLC and TLC NAND has for SLC, the erase as in MLC, 20,000 erases: assumed",
        make: emmc,
    },
    Preset {
        name: "tlc-24GiB",
        what: "24 GiB TLC array: 2 dies of 2 planes on one channel, 16 KiB pages, 6 MiB blocks",
        note: "75 us, 1.1 ms, 4.5 ms, 1,000 erases: HP's white paper on SLC, MLC and TLC NAND (0.9 to 1.35 ms there); in SLC mode 25 us and 300 us as for SLC there, the erase as in TLC; 20,000 erases in SLC mode: Virtium's on TLC with SLC-like endurance; geometry, 200 MB/s bus and 60-bit BCH per 1 KiB: assumed",
        make: tlc,
    },
    Preset {
        name: "ssd-512GiB",
        what: "512 GiB SSD array: 32 dies of 2 planes on 8 channels, 8 KiB pages, 2 MiB blocks, MLC",
        note: "MQSim's shipped ssdconfig.xml: 8 channels, 4 chips each, 333 MT/s, tR 75 us, tPROG 750 us, tBERS 3.8 ms; its 2 dies a chip are merged into planes; 10,000 erases as there",
        make: ssd,
    },
];

const SLC_ECC: Ecc = Ecc::Hamming { codeword: 512 };

fn timing(
    read_us: u64,
    program_us: u64,
    erase_us: u64,
    bus_ps_per_byte: u64,
    oob_bus_bytes: u32,
) -> Timing {
    Timing {
        read_ns: read_us * 1_000,
        program_ns: program_us * 1_000,
        erase_ns: erase_us * 1_000,
        bus_ps_per_byte,
        oob_bus_bytes,
        oob_read_ns: None,
        oob_program_ns: None,
        cache_program: false,
        multi_plane: false,
        copy_back: false,
    }
}

fn slc(geometry: Geometry, timing: Timing, rules: Rules) -> ChipSpec {
    let reliability = Reliability {
        rated_erases: 100_000,
        ecc: SLC_ECC,
        ..Reliability::default()
    };
    ChipSpec {
        geometry,
        timing,
        rules,
        reliability,
        contents: Contents::Kept,
        seed: 1,
        superblock: None,
        slc: None,
    }
}

const SMALL_BLOCK: Rules = Rules {
    order: PageOrder::Any,
    partial_programs: 3,
};
const LARGE_BLOCK: Rules = Rules {
    order: PageOrder::Ascending,
    partial_programs: 4,
};
const MULTI_LEVEL: Rules = Rules {
    order: PageOrder::Ascending,
    partial_programs: 1,
};

fn nandsim_jftl() -> ChipSpec {
    slc(
        Geometry::single_die(512, 15, 32, 8192),
        timing(25, 100, 2_000, 0, 16),
        SMALL_BLOCK,
    )
}

fn onenand() -> ChipSpec {
    slc(
        Geometry {
            write_unit: 512,
            ..Geometry::single_die(2048, 63, 64, 1024)
        },
        timing(30, 220, 2_000, 9_260, 64),
        LARGE_BLOCK,
    )
}

fn slc_2k() -> ChipSpec {
    slc(
        Geometry {
            write_unit: 512,
            ..Geometry::single_die(2048, 63, 64, 1024)
        },
        timing(25, 200, 1_500, 25_000, 64),
        LARGE_BLOCK,
    )
}

fn small_block() -> ChipSpec {
    slc(
        Geometry::single_die(512, 15, 32, 4096),
        timing(15, 200, 2_000, 50_000, 16),
        SMALL_BLOCK,
    )
}

fn multi_level(geometry: Geometry, timing: Timing, rated_erases: u32) -> ChipSpec {
    let reliability = Reliability {
        rated_erases,
        ecc: Ecc::Bch {
            bits: 40,
            codeword: 1024,
        },
        ..Reliability::default()
    };
    ChipSpec {
        geometry,
        timing,
        rules: MULTI_LEVEL,
        reliability,
        contents: Contents::Kept,
        seed: 1,
        superblock: None,
        slc: None,
    }
}

fn emmc() -> ChipSpec {
    let geometry = Geometry {
        dies: 2,
        planes: 2,
        ..Geometry::single_die(8192, 447, 256, 8192)
    };
    let timing = Timing {
        cache_program: true,
        multi_plane: true,
        ..timing(60, 1_300, 5_000, 10_000, 448)
    };
    ChipSpec {
        slc: Some(slc_mode(2, [25, 300, 5_000], 20_000)),
        ..multi_level(geometry, timing, 3_000)
    }
}

/// Read, program and erase in microseconds.
fn slc_mode(cell_bits: u32, [read, program, erase]: [u64; 3], rated_erases: u32) -> SlcMode {
    SlcMode {
        cell_bits,
        read_ns: read * 1_000,
        program_ns: program * 1_000,
        erase_ns: erase * 1_000,
        rated_erases,
    }
}

fn tlc() -> ChipSpec {
    let geometry = Geometry {
        dies: 2,
        planes: 2,
        ..Geometry::single_die(16_384, 1_023, 384, 4_096)
    };
    let timing = Timing {
        cache_program: true,
        multi_plane: true,
        ..timing(75, 1_100, 4_500, 5_000, 2_048)
    };
    let chip = multi_level(geometry, timing, 1_000);
    ChipSpec {
        slc: Some(slc_mode(3, [25, 300, 4_500], 20_000)),
        reliability: Reliability {
            ecc: Ecc::Bch {
                bits: 60,
                codeword: 1024,
            },
            ..chip.reliability
        },
        ..chip
    }
}

fn ssd() -> ChipSpec {
    let geometry = Geometry {
        dies: 32,
        planes: 2,
        channels: 8,
        ..Geometry::single_die(8192, 447, 256, 262_144)
    };
    let timing = Timing {
        cache_program: true,
        multi_plane: true,
        ..timing(75, 750, 3_800, 3_003, 448)
    };
    multi_level(geometry, timing, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_possible_chip_of_the_size_it_names() {
        for preset in ALL {
            let spec = preset.spec();
            assert_eq!(spec.check(), Ok(()), "{}", preset.name);
            assert!(find(preset.name).is_some());
        }
        assert_eq!(
            find("emmc-16GiB").unwrap().spec().geometry.bytes(),
            16 << 30
        );
        assert_eq!(find("tlc-24GiB").unwrap().spec().geometry.bytes(), 24 << 30);
        assert_eq!(
            find("ssd-512GiB").unwrap().spec().geometry.bytes(),
            512 << 30
        );
        assert_eq!(
            find("nandsim-jftl").unwrap().spec().geometry.bytes(),
            128 << 20
        );
    }
}
