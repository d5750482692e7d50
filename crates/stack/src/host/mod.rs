//! The `[host]` section: what the processor's work costs, in virtual time.
//!
//! A platform is a table of instruction counts and one assumption about the board: the time of an
//! instruction. Most counts are the real kernel's (`docs/kernel-costs.md`). Platforms are the TOML
//! files of `platforms/`, or the user's own. Every entry names its source, and an experiment can
//! override it. The driver's part is added to the chip's times, since it waits with the processor.

mod costs;
mod platform;

pub use costs::Costs;

use crate::value::{Time, quote};
use crate::{DescriptionError, Document, Setting};
use nandlab_jffs2::{Coded, Work};
use nandlab_nand::Timing;
use nandlab_sim::Nanos;
use nandlab_ubi::AttachCost;
use platform::{BUILT_IN, Platform, take_cost};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Instructions of the real kernel, counted.
    Measured,
    /// The paper gives the value.
    Given,
    /// Nobody knows; the reason says why this is likely.
    Assumed,
}

impl Label {
    const ALL: [Self; 3] = [Self::Measured, Self::Given, Self::Assumed];

    /// The word in reports and in platform files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Given => "given",
            Self::Assumed => "assumed",
        }
    }
}

/// One cost of a platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Its key in `[host]`.
    pub key: &'static str,
    /// The cost on its platform, in `unit`.
    pub value: f64,
    /// The unit of `value`, such as `us`.
    pub unit: &'static str,
    /// Where it comes from.
    pub label: Label,
    /// Why it is so much.
    pub why: String,
}

/// The costs of a platform of this crate, in order.
pub fn built_in_costs(platform: &str) -> Result<Vec<Cost>, DescriptionError> {
    let platform = Platform::built_in(platform)?;
    Ok(platform.costs().map(|(_, cost)| cost).collect())
}

/// The processor, as described.
#[derive(Clone, Debug, PartialEq)]
pub struct HostDescription {
    /// What things cost: the platform's costs with the experiment's changes.
    pub costs: Costs,
    /// Added to each sector that is written, ns: the one constant of a translation layer that may
    /// be calibrated.
    pub layer_ns: Nanos,
}

impl HostDescription {
    /// Takes `[host]` out of a document; none if the processor costs nothing.
    pub(crate) fn take(
        document: &mut Document,
    ) -> Result<(Option<Self>, Vec<Setting>), DescriptionError> {
        let mut section = document.section("host");
        let name = section.or("platform", String::from("none"))?;
        if name == "none" {
            let keys: Vec<&str> = costs::FIELDS.iter().map(|field| field.key).collect();
            let needs = "a platform (host.platform)";
            section.inapplicable(&keys, needs)?;
            section.inapplicable(&["layer-extra"], needs)?;
            return Ok((None, section.finish()?));
        }
        let platform = Platform::load(&section, "platform", &name)?;
        for key in platform.lacking() {
            let needs = if section.has(key) {
                format!("platform = {}", platforms_with(key)?)
            } else {
                String::new()
            };
            section.inapplicable(&[key], &needs)?;
        }
        section.on_preset(&name);
        let mut costs = Costs::default();
        for (field, cost) in platform.costs() {
            *(field.slot)(&mut costs) = take_cost(&mut section, field, cost.value)?;
        }
        let Time(layer_ns) = section.beside_preset(|section| section.or("layer-extra", Time(0)))?;
        Ok((Some(Self { costs, layer_ns }), section.finish()?))
    }

    /// The time of so many instructions.
    pub fn time(&self, instructions: f64) -> Nanos {
        (instructions * self.costs.instruction_ns).round() as Nanos
    }

    /// The time of so many instructions of a program.
    pub fn program(&self, instructions: u64) -> Nanos {
        self.time(instructions as f64)
    }

    /// What JFFS2's work costs.
    pub fn jffs2(&self, work: &Work) -> Nanos {
        let Work {
            nodes,
            bytes,
            bytes_read,
            nodes_read,
            parts_read,
            obsoleted,
            programs,
            packed,
            unpacked,
            lzo,
            zlib,
            rtime,
            ..
        } = work;
        let terms = [
            (*nodes, self.costs.node),
            (bytes + bytes_read, self.costs.node_byte),
            (*nodes_read, self.costs.node_read),
            (*parts_read, self.costs.node_part),
            (*obsoleted, self.costs.node_obsolete),
            (*programs, self.costs.node_program),
            (*packed, self.costs.pack),
            (*unpacked, self.costs.unpack),
            (zlib.runs, self.deflate(zlib)),
            (zlib.unpacked, self.costs.inflate_byte),
            (zlib.unpacked_from, self.costs.inflate_packed_byte),
            (lzo.runs, self.lzo(lzo)),
            (lzo.unpacked, self.costs.unlzo_byte),
            (lzo.unpacked_from, self.costs.unlzo_packed_byte),
            (rtime.plain + rtime.unpacked, self.costs.rtime_byte),
        ];
        self.priced(&terms)
    }

    /// What an attach of UBI costs, besides the flash.
    pub fn ubi_attach(&self, cost: &AttachCost) -> Nanos {
        let AttachCost {
            headers,
            records,
            bad_checks,
            crc_bytes,
            inflated_bytes,
            packed_bytes,
            ..
        } = cost;
        let terms = [
            (1, self.costs.ubi_attach),
            (*headers, self.costs.ubi_header),
            (*records, self.costs.ubi_block),
            (*bad_checks, self.costs.ubi_bad),
            (*crc_bytes, self.costs.crc_byte),
            (*inflated_bytes, self.costs.inflate_byte),
            (*packed_bytes, self.costs.inflate_packed_byte),
        ];
        self.priced(&terms)
    }

    /// Counts of things, each of so many instructions, as time.
    fn priced(&self, terms: &[(u64, f64)]) -> Nanos {
        let instructions: f64 = terms.iter().map(|(count, each)| *count as f64 * each).sum();
        self.time(instructions)
    }

    /// The time of ext's work, without its calls.
    pub fn ext(&self, work: &nandlab_ext::Work, block: u32) -> Nanos {
        let pages = work
            .written
            .div_ceil(u64::from(FLUSHED_PAGE / block.clamp(1, FLUSHED_PAGE)));
        self.priced(&[
            (work.taken, self.costs.ext_block),
            (pages, self.costs.ext_out),
            (work.logged, self.costs.journal_block),
        ])
    }

    /// Instructions of deflate for a run. It sets up its tables first, and short pieces have their
    /// own prices: a run that has hardly begun takes more for each byte.
    fn deflate(&self, zlib: &Coded) -> f64 {
        let costs = &self.costs;
        let page = [
            (48.0, costs.deflate_zeros),
            (1654.0, costs.deflate_text),
            (PAGE, costs.deflate_noise),
        ];
        let zeros = between(costs.deflate_setup, costs.deflate_zeros, SHORT / PAGE);
        let short = [
            (22.0, zeros),
            (301.0, costs.deflate_short_text),
            (SHORT, costs.deflate_short_noise),
        ];
        let [length, packed] = mean_run(zlib);
        let whole = by_length(packed / length * PAGE, page);
        if costs.deflate_short_text == 0.0 {
            return between(costs.deflate_setup, whole, length / PAGE);
        }
        let short = by_length(packed / length * SHORT, short);
        match length < SHORT {
            true => between(costs.deflate_setup, short, length / SHORT),
            false => between(short, whole, (length - SHORT) / (PAGE - SHORT)),
        }
    }

    /// Instructions of LZO for a run. It leaves matches quickly behind, and takes ever longer steps
    /// where it finds none.
    fn lzo(&self, lzo: &Coded) -> f64 {
        let costs = &self.costs;
        let page = [
            (44.0, costs.lzo_zeros),
            (2308.0, costs.lzo_text),
            (PAGE, costs.lzo_noise),
        ];
        let [length, packed] = mean_run(lzo);
        let whole = by_length(packed / length * PAGE, page);
        between(costs.lzo_setup, whole, length / PAGE)
    }

    /// Time of so many bytes to or from the non-volatile memory.
    pub fn nvram(&self, bytes: u64) -> Nanos {
        (self.costs.nvram_ns_per_byte * bytes as f64).round() as Nanos
    }

    /// The chip's times with the driver's work, which the processor does itself while it waits.
    pub fn driven(&self, chip: &Timing) -> Timing {
        let operation = self.time(self.costs.flash);
        let ecc = self.time(self.costs.ecc);
        Timing {
            read_ns: chip.read_ns + operation + ecc,
            program_ns: chip.program_ns + operation + ecc,
            erase_ns: chip.erase_ns + operation,
            oob_read_ns: Some(chip.oob_read_ns.unwrap_or(chip.read_ns) + operation),
            oob_program_ns: Some(chip.oob_program_ns.unwrap_or(chip.program_ns) + operation),
            bus_ps_per_byte: chip
                .bus_ps_per_byte
                .max((self.costs.pio_ns_per_byte * 1000.0) as u64),
            ..chip.clone()
        }
    }
}

/// Bytes of a page that was counted, and of a short piece.
const PAGE: f64 = 4096.0;
const SHORT: f64 = 512.0;
/// Bytes of a page of the page cache.
const FLUSHED_PAGE: u32 = 4096;

/// The mean bytes of a compressor's runs, before and after.
fn mean_run(coded: &Coded) -> [f64; 2] {
    let runs = coded.runs.max(1) as f64;
    [coded.plain.max(1) as f64 / runs, coded.packed as f64 / runs]
}

/// The value at `share` of the way from one to another.
fn between(from: f64, to: f64, share: f64) -> f64 {
    from + share * (to - from)
}

/// Instructions for bytes that became `length` long: straight lines between three pieces that were
/// counted, each its length afterwards and its instructions.
fn by_length(length: f64, pieces: [(f64, f64); 3]) -> f64 {
    let [low, high] = if length < pieces[1].0 {
        [pieces[0], pieces[1]]
    } else {
        [pieces[1], pieces[2]]
    };
    let share = ((length - low.0) / (high.0 - low.0)).clamp(0.0, 1.0);
    between(low.1, high.1, share)
}

/// The platforms of this crate that have a cost.
fn platforms_with(key: &str) -> Result<String, DescriptionError> {
    let mut names = Vec::new();
    for (name, _) in BUILT_IN {
        if Platform::built_in(name)?
            .costs()
            .any(|(field, _)| field.key == key)
        {
            names.push(quote(name));
        }
    }
    Ok(names.join(" or "))
}

#[cfg(test)]
mod tests;
