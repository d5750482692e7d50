//! The `[host]` section: what the processor's work costs, in virtual time.
//!
//! A platform is a table of instruction counts, most of them the real kernel's (`docs/kernel-costs.md`), and one assumption about the board: how long an instruction
//! takes. Every entry says where it comes from, and each can be overridden. The driver's part is added to the chip's times, since it waits with the processor.

use crate::value::Time;
use crate::{DescriptionError, Document, Section, Setting};
use nandlab_nand::Timing;
use nandlab_sim::Nanos;

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Instructions of the real kernel, counted.
    Measured,
    /// In the publication.
    Given,
    /// Nobody knows; the reason says why this is likely.
    Assumed,
}

impl Label {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Given => "given",
            Self::Assumed => "assumed",
        }
    }
}

/// One cost of a platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Its key in `[host]`.
    pub key: &'static str,
    /// On the platform `arm-400mhz`.
    pub value: f64,
    /// Of `value`.
    pub unit: &'static str,
    /// Where it comes from.
    pub label: Label,
    /// Why it is so much.
    pub why: &'static str,
}

const fn cost(key: &'static str, value: f64, unit: &'static str, label: Label, why: &'static str) -> Cost {
    Cost { key, value, unit, label, why }
}

/// The platform of the FTL study: 400 MHz, Linux. Counts are those of `docs/kernel-costs.md`, whose names stand in the reasons.
pub const ARM_400MHZ: [Cost; 13] = [
    cost(
        "instruction-ns",
        5.0,
        "ns",
        Label::Assumed,
        "400 MHz at two cycles an instruction, as ARM9 cores run kernel code out of slow SDRAM with small caches",
    ),
    cost("create", 32_594.0, "instructions", Label::Measured, "vfat-create"),
    cost("remove", 10_091.0, "instructions", Label::Measured, "vfat-unlink, of an empty file"),
    cost("call", 1_437.0, "instructions", Label::Measured, "vfat-close; open and truncate are taken for as much, and are rare"),
    cost(
        "write",
        5_197.0,
        "instructions",
        Label::Measured,
        "mean of eight appends: six vfat-append, one vfat-extend, one vfat-extend-page",
    ),
    cost("fsync", 7_086.0, "instructions", Label::Measured, "vfat-append-fsync less its two ram-requests"),
    cost(
        "request",
        10_993.0,
        "instructions",
        Label::Measured,
        "nftl-request less the system call (ram-read less ram-request): block layer, queue, worker of mtd_blkdevs",
    ),
    cost("layer", 628.0, "instructions", Label::Measured, "nftl-write; the other layers, which Linux has not, are taken for as much"),
    cost(
        "erase-check",
        98_400.0,
        "instructions",
        Label::Measured,
        "fold-unit less 64 mtd-page and mtd-oob: NFTL compares every byte of an erased unit; no other layer does",
    ),
    cost(
        "flash",
        1_500.0,
        "instructions",
        Label::Assumed,
        "an operation of the chip: mtd-page (265, measured), and the NAND driver's command, address and wait",
    ),
    cost("ecc", 914.0, "instructions", Label::Measured, "twice hamming-256: a page of 512 B"),
    cost("pio-ns-per-byte", 60.0, "ns", Label::Assumed, "the processor moves each byte over an 8-bit bus with wait states"),
    cost("nvram-ns-per-byte", 100.0, "ns", Label::Assumed, "FeRAM on the external bus: 16 bits in 150 to 200 ns"),
];

/// The processor, as described.
#[derive(Clone, Debug, PartialEq)]
pub struct HostDescription {
    values: [f64; ARM_400MHZ.len()],
    /// Added to each sector that is written, ns: the one constant of a translation layer that may be calibrated.
    pub layer_ns: Nanos,
}

impl HostDescription {
    /// Takes `[host]` out of a document; none if the processor costs nothing.
    pub(crate) fn take(document: &mut Document) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("host");
        if !section.choice("platform", &[("none", false), ("arm-400mhz", true)], false)? {
            section.inapplicable(&ARM_400MHZ.map(|cost| cost.key), "a platform (host.platform)")?;
            section.inapplicable(&["layer-extra"], "a platform (host.platform)")?;
            return Ok((None, section.finish()?));
        }
        section.on_preset("arm-400mhz");
        let mut values = [0.0; ARM_400MHZ.len()];
        for (value, cost) in values.iter_mut().zip(&ARM_400MHZ) {
            *value = take_cost(&mut section, cost)?;
        }
        let Time(layer_ns) = section.beside_preset(|section| section.or("layer-extra", Time(0)))?;
        Ok((Some(Self { values, layer_ns }), section.finish()?))
    }

    /// A cost by its key, in its own unit.
    ///
    /// # Panics
    /// If there is no such key: a bug of the caller.
    pub fn value(&self, key: &str) -> f64 {
        let at = ARM_400MHZ.iter().position(|cost| cost.key == key);
        self.values[at.expect("a key of the table")]
    }

    /// A number of instructions by its key, as time.
    pub fn instructions(&self, key: &str) -> Nanos {
        (self.value(key) * self.value("instruction-ns")).round() as Nanos
    }

    /// Time of so many bytes to or from the non-volatile memory.
    pub fn nvram(&self, bytes: u64) -> Nanos {
        (self.value("nvram-ns-per-byte") * bytes as f64).round() as Nanos
    }

    /// The chip's times with the driver's work, which the processor does itself while it waits.
    pub fn driven(&self, chip: &Timing) -> Timing {
        let (operation, ecc) = (self.instructions("flash"), self.instructions("ecc"));
        Timing {
            read_ns: chip.read_ns + operation + ecc,
            program_ns: chip.program_ns + operation + ecc,
            erase_ns: chip.erase_ns + operation,
            oob_read_ns: Some(chip.oob_read_ns.unwrap_or(chip.read_ns) + operation),
            oob_program_ns: Some(chip.oob_program_ns.unwrap_or(chip.program_ns) + operation),
            bus_ps_per_byte: chip.bus_ps_per_byte.max((self.value("pio-ns-per-byte") * 1000.0) as u64),
            ..chip.clone()
        }
    }
}

fn take_cost(section: &mut Section, cost: &Cost) -> Result<f64, DescriptionError> {
    section.checked(cost.key, cost.value, |v| (0.0..=1e9).contains(v), &format!("{} from 0 to 1000000000", cost.unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_nand::preset;
    use std::path::Path;

    fn take(text: &str) -> Result<Option<HostDescription>, String> {
        let mut document = Document::parse("e.toml", Path::new(""), &format!("[host]\n{text}"), &[]).map_err(|e| e.to_string())?;
        HostDescription::take(&mut document).map(|(host, _)| host).map_err(|e| e.to_string())
    }

    #[test]
    fn a_platform_is_its_table_until_a_key_says_otherwise() {
        assert_eq!(take("").unwrap(), None);
        let host = take("platform = \"arm-400mhz\"\necc = 100\ninstruction-ns = 2.5\nlayer-extra = \"1 ms\"").unwrap().unwrap();
        assert_eq!((host.instructions("ecc"), host.value("pio-ns-per-byte"), host.layer_ns), (250, 60.0, 1_000_000));
    }

    #[test]
    fn the_driver_adds_to_every_operation_and_never_makes_the_bus_faster() {
        let text = "platform = \"arm-400mhz\"\ninstruction-ns = 1\nflash = 10\necc = 100\npio-ns-per-byte = 20";
        let host = take(text).unwrap().unwrap();
        let chip = preset::find("small-block-64MiB").unwrap().spec().timing;
        let driven = host.driven(&chip);
        assert_eq!((driven.read_ns, driven.program_ns, driven.erase_ns), (chip.read_ns + 110, chip.program_ns + 110, chip.erase_ns + 10));
        assert_eq!((driven.oob_read_ns, driven.oob_program_ns), (Some(chip.read_ns + 10), Some(chip.program_ns + 10)));
        assert_eq!(driven.bus_ps_per_byte, chip.bus_ps_per_byte.max(20_000));
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            ("platform = \"arm\"", "e.toml:2:12: host.platform: found \"arm\", expected one of \"none\", \"arm-400mhz\""),
            ("ecc = 5", "host.ecc: has no effect, it needs a platform (host.platform)"),
            ("platform = \"arm-400mhz\"\necc = -1", "host.ecc: found -1.0, expected instructions from 0"),
            ("platform = \"arm-400mhz\"\nlayer-extra = 5", "host.layer-extra: found 5, expected a time"),
        ];
        for (line, expected) in cases {
            let error = take(line).err().unwrap_or_else(|| panic!("{line} was accepted"));
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
