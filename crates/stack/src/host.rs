//! The `[host]` section: what the processor's work costs, in virtual time.
//!
//! A platform is a table of instruction counts, most of them the real kernel's
//! (`docs/kernel-costs.md`), and one assumption about the board: how long an instruction takes.
//! Every entry says where it comes from, and each can be overridden. The driver's part is added to
//! the chip's times, since it waits with the processor.

use crate::value::{Time, quote};
use crate::{DescriptionError, Document, Section, Setting};
use nandlab_jffs2::{Coded, Work};
use nandlab_nand::Timing;
use nandlab_sim::Nanos;
use nandlab_ubi::AttachCost;

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
    /// On its platform.
    pub value: f64,
    /// Of `value`.
    pub unit: &'static str,
    /// Where it comes from.
    pub label: Label,
    /// Why it is so much.
    pub why: &'static str,
}

const fn cost(
    key: &'static str,
    value: f64,
    unit: &'static str,
    label: Label,
    why: &'static str,
) -> Cost {
    Cost {
        key,
        value,
        unit,
        label,
        why,
    }
}

/// The platform of the FTL study: 400 MHz, Linux. Counts are those of `docs/kernel-costs.md`, whose
/// names stand in the reasons.
pub const ARM_400MHZ: [Cost; 13] = [
    cost(
        "instruction-ns",
        5.0,
        "ns",
        Label::Assumed,
        "400 MHz at two cycles an instruction, as ARM9 cores run kernel code out of slow SDRAM with small caches",
    ),
    cost(
        "create",
        32_594.0,
        "instructions",
        Label::Measured,
        "vfat-create",
    ),
    cost(
        "remove",
        10_094.0,
        "instructions",
        Label::Measured,
        "vfat-unlink, of an empty file",
    ),
    cost(
        "call",
        1_438.0,
        "instructions",
        Label::Measured,
        "vfat-close; open and truncate are taken for as much, and are rare",
    ),
    cost(
        "write",
        5_207.0,
        "instructions",
        Label::Measured,
        "mean of eight appends: six vfat-append, one vfat-extend, one vfat-extend-page",
    ),
    cost(
        "fsync",
        7_086.0,
        "instructions",
        Label::Measured,
        "vfat-append-fsync less its two ram-requests",
    ),
    cost(
        "request",
        10_993.0,
        "instructions",
        Label::Measured,
        "nftl-request less the system call (ram-read less ram-request): block layer, queue, worker of mtd_blkdevs",
    ),
    cost(
        "layer",
        628.0,
        "instructions",
        Label::Measured,
        "nftl-write; the other layers, which Linux has not, are taken for as much",
    ),
    cost(
        "erase-check",
        96_700.0,
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
    cost(
        "ecc",
        914.0,
        "instructions",
        Label::Measured,
        "twice hamming-256: a page of 512 B",
    ),
    cost(
        "pio-ns-per-byte",
        60.0,
        "ns",
        Label::Assumed,
        "the processor moves each byte over an 8-bit bus with wait states",
    ),
    cost(
        "nvram-ns-per-byte",
        100.0,
        "ns",
        Label::Assumed,
        "FeRAM on the external bus: 16 bits in 150 to 200 ns",
    ),
];

/// The platform of the JFTL paper: a PC with Linux 2.6, its flash simulated by nandsim in main
/// memory. The same instructions, at another speed; and what calls on many pages cost, since its
/// benchmarks make them.
pub const PC_3GHZ: [Cost; 15] = {
    let mut costs = [cost("", 0.0, "", Label::Assumed, ""); 15];
    let mut at = 0;
    while at < ARM_400MHZ.len() {
        costs[at] = ARM_400MHZ[at];
        at += 1;
    }
    costs[0] = cost(
        "instruction-ns",
        0.5,
        "ns",
        Label::Assumed,
        "3 GHz at one and a half cycles an instruction: a PC of 2007 running kernel code that misses its caches now and then",
    );
    costs[11] = cost(
        "pio-ns-per-byte",
        0.0,
        "ns",
        Label::Assumed,
        "nandsim's flash is main memory: moving a page is lost beside its read time",
    );
    costs[12] = cost(
        "nvram-ns-per-byte",
        1.0,
        "ns",
        Label::Assumed,
        "memory with a battery on the same bus; the paper has none",
    );
    costs[13] = cost(
        "write-page",
        4_159.0,
        "instructions",
        Label::Measured,
        "each further page of 4 KiB that a write touches: vfat-extend-page less vfat-extend, and seven copy-512",
    );
    costs[14] = cost(
        "read-page",
        1_000.0,
        "instructions",
        Label::Assumed,
        "each further page that a read touches: eight copy-512 (656, measured), and finding the page",
    );
    costs
};

/// The platform of the write-back routine for JFFS2: an OMAP 5912, ARM9 at 192 MHz, with OneNAND on
/// its memory bus. The same instructions again, and those of JFFS2.
pub const OMAP_5912: [Cost; 30] = {
    let mut costs = [cost("", 0.0, "", Label::Assumed, ""); 30];
    let mut at = 0;
    while at < PC_3GHZ.len() {
        costs[at] = PC_3GHZ[at];
        at += 1;
    }
    costs[0] = cost(
        "instruction-ns",
        10.4,
        "ns",
        Label::Assumed,
        "192 MHz at two cycles an instruction, as with the other ARM9 platform",
    );
    costs[6] = cost(
        "request",
        15_236.0,
        "instructions",
        Label::Measured,
        "mtdblock-write less its eight mtdblock-sector: system call, request queue, worker of mtd_blkdevs",
    );
    costs[7] = cost(
        "layer",
        282.0,
        "instructions",
        Label::Measured,
        "mtdblock-sector",
    );
    costs[10] = cost(
        "ecc",
        0.0,
        "instructions",
        Label::Given,
        "OneNAND corrects errors itself",
    );
    costs[11] = cost(
        "pio-ns-per-byte",
        45.0,
        "ns",
        Label::Assumed,
        "the processor moves each two bytes over a 16-bit bus, 90 ns an access",
    );
    costs[14] = cost(
        "read-page",
        797.0,
        "instructions",
        Label::Measured,
        "jffs2-cached-page; ext2-cached-page is the same",
    );
    costs[15] = cost(
        "read",
        1_884.0,
        "instructions",
        Label::Measured,
        "jffs2-cached",
    );
    costs[16] = cost(
        "ext-page",
        5_654.0,
        "instructions",
        Label::Measured,
        "each page that ext's write touches, besides the write: ext2-fill less host.write",
    );
    costs[17] = cost(
        "node",
        3_585.0,
        "instructions",
        Label::Measured,
        "a node of JFFS2: jffs2-nand-append less crc-4096, copy-4096 and host.write",
    );
    costs[18] = cost(
        "node-byte",
        3.64,
        "instructions",
        Label::Measured,
        "checksum and copy: crc-4096 and copy-4096, a byte",
    );
    costs[19] = cost(
        "deflate-zeros",
        85_611.0,
        "instructions",
        Label::Measured,
        "a page that becomes 48 bytes; others between the three by their length",
    );
    costs[20] = cost(
        "deflate-text",
        388_670.0,
        "instructions",
        Label::Measured,
        "a page that becomes 1654 bytes",
    );
    costs[21] = cost(
        "deflate-noise",
        454_814.0,
        "instructions",
        Label::Measured,
        "a page that is given up",
    );
    costs[22] = cost(
        "inflate-byte",
        4.68,
        "instructions",
        Label::Measured,
        "a byte that comes out: of inflate-zeros and inflate-text, linear in both lengths",
    );
    costs[23] = cost(
        "inflate-packed-byte",
        46.8,
        "instructions",
        Label::Measured,
        "a byte that goes in: likewise",
    );
    costs[24] = cost(
        "lzo-byte",
        14.0,
        "instructions",
        Label::Measured,
        "lzo-text, a byte",
    );
    costs[25] = cost(
        "unlzo-byte",
        6.23,
        "instructions",
        Label::Measured,
        "unlzo-text, a byte",
    );
    costs[26] = cost(
        "rtime-byte",
        16.1,
        "instructions",
        Label::Measured,
        "rtime-noise, a byte; taken for both directions",
    );
    costs[27] = cost(
        "defer",
        452.0,
        "instructions",
        Label::Measured,
        "an element of the write-back routine: enqueue and dequeue",
    );
    costs[28] = cost(
        "tick",
        2_593.0,
        "instructions",
        Label::Measured,
        "an interrupt of the timer",
    );
    costs[29] = cost(
        "tick-ms",
        10.0,
        "ms",
        Label::Given,
        "HZ = 100 of Linux 2.6 on ARM",
    );
    costs
};

/// The platform of UBIL: Samsung's Apollon board, an OMAP 2420, ARM11 at 330 MHz, with SLC NAND.
/// The same instructions again, and those of UBI.
pub const OMAP_2420: [Cost; 35] = {
    let mut costs = [cost("", 0.0, "", Label::Assumed, ""); 35];
    let mut at = 0;
    while at < OMAP_5912.len() {
        costs[at] = OMAP_5912[at];
        at += 1;
    }
    costs[0] = cost(
        "instruction-ns",
        6.06,
        "ns",
        Label::Assumed,
        "330 MHz at two cycles an instruction, as with the ARM9 platforms",
    );
    costs[10] = cost(
        "ecc",
        3_656.0,
        "instructions",
        Label::Measured,
        "eight times hamming-256: a page of 2 KiB",
    );
    costs[11] = cost(
        "pio-ns-per-byte",
        45.0,
        "ns",
        Label::Assumed,
        "as with the OMAP 5912: two bytes an access of 90 ns",
    );
    costs[29] = cost(
        "tick-ms",
        7.8125,
        "ms",
        Label::Assumed,
        "HZ = 128, as OMAP's timer of 32 KiHz had it in Linux 2.6.33",
    );
    costs[30] = cost(
        "ubi-call",
        500.0,
        "instructions",
        Label::Assumed,
        "a call to a volume: its lock, the table of its blocks; small beside a page's transfer",
    );
    costs[31] = cost(
        "ubi-header",
        1_000.0,
        "instructions",
        Label::Assumed,
        "a header that a scan looks at, besides its checksum: parsed, judged, entered; ubi-scan-header with MTD, NAND layer and simulated chip is five times as much",
    );
    costs[32] = cost(
        "ubi-block",
        850.0,
        "instructions",
        Label::Measured,
        "ubi-tables: a block entered into the tables of wear-levelling and of logical blocks, whoever has found it",
    );
    costs[33] = cost(
        "ubi-bad",
        50.0,
        "instructions",
        Label::Assumed,
        "the driver looks a block up in its table of bad ones",
    );
    costs[34] = cost(
        "crc-byte",
        3.51,
        "instructions",
        Label::Measured,
        "crc-4096, a byte",
    );
    costs
};

/// The processor, as described.
#[derive(Clone, Debug, PartialEq)]
pub struct HostDescription {
    /// As many as the platform's costs, which are the first of [`OMAP_2420`]'s keys.
    values: Vec<f64>,
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
        let platforms = [
            ("none", None),
            ("arm-400mhz", Some(&ARM_400MHZ[..])),
            ("pc-3ghz", Some(&PC_3GHZ[..])),
            ("omap5912", Some(&OMAP_5912[..])),
            ("omap2420", Some(&OMAP_2420[..])),
        ];
        let platform = section.choice("platform", &platforms, None)?;
        let Some((name, costs)) = platforms.iter().find_map(|(name, costs)| {
            costs
                .filter(|_| *costs == platform)
                .map(|costs| (name, costs))
        }) else {
            section.inapplicable(
                &OMAP_2420.map(|cost| cost.key),
                "a platform (host.platform)",
            )?;
            section.inapplicable(&["layer-extra"], "a platform (host.platform)")?;
            return Ok((None, section.finish()?));
        };
        for cost in &OMAP_2420[costs.len()..] {
            let having = platforms.iter().filter(|(_, costs)| {
                costs.is_some_and(|costs| costs.iter().any(|known| known.key == cost.key))
            });
            let names: Vec<String> = having.map(|(name, _)| quote(name)).collect();
            section.inapplicable(&[cost.key], &format!("platform = {}", names.join(" or ")))?;
        }
        section.on_preset(name);
        let values = costs
            .iter()
            .map(|cost| take_cost(&mut section, cost))
            .collect::<Result<_, _>>()?;
        let Time(layer_ns) = section.beside_preset(|section| section.or("layer-extra", Time(0)))?;
        Ok((Some(Self { values, layer_ns }), section.finish()?))
    }

    /// A cost by its key, in its own unit; 0 if the platform has no such cost.
    ///
    /// # Panics
    /// If no platform has such a key: a bug of the caller.
    pub fn value(&self, key: &str) -> f64 {
        let at = OMAP_2420.iter().position(|cost| cost.key == key);
        self.values
            .get(at.expect("a key of the table"))
            .copied()
            .unwrap_or(0.0)
    }

    /// A number of instructions by its key, as time.
    pub fn instructions(&self, key: &str) -> Nanos {
        (self.value(key) * self.value("instruction-ns")).round() as Nanos
    }

    /// So many instructions of a program, as time.
    pub fn program(&self, instructions: u64) -> Nanos {
        (instructions as f64 * self.value("instruction-ns")).round() as Nanos
    }

    /// What JFFS2's work costs.
    pub fn jffs2(&self, work: &Work) -> Nanos {
        let Work {
            nodes,
            bytes,
            bytes_read,
            lzo,
            zlib,
            rtime,
            ..
        } = work;
        let terms = [
            (*nodes, self.value("node")),
            (bytes + bytes_read, self.value("node-byte")),
            (zlib.plain, self.deflate_byte(zlib)),
            (zlib.unpacked, self.value("inflate-byte")),
            (zlib.unpacked_from, self.value("inflate-packed-byte")),
            (lzo.plain, self.value("lzo-byte")),
            (lzo.unpacked, self.value("unlzo-byte")),
            (rtime.plain + rtime.unpacked, self.value("rtime-byte")),
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
            (*headers, self.value("ubi-header")),
            (*records, self.value("ubi-block")),
            (*bad_checks, self.value("ubi-bad")),
            (*crc_bytes, self.value("crc-byte")),
            (*inflated_bytes, self.value("inflate-byte")),
            (*packed_bytes, self.value("inflate-packed-byte")),
        ];
        self.priced(&terms)
    }

    /// Counts of things, each of so many instructions, as time.
    fn priced(&self, terms: &[(u64, f64)]) -> Nanos {
        let instructions: f64 = terms.iter().map(|(count, each)| *count as f64 * each).sum();
        (instructions * self.value("instruction-ns")).round() as Nanos
    }

    /// Instructions of deflate for a byte, by how much shorter the bytes became: straight lines
    /// between the three pages that were counted.
    fn deflate_byte(&self, zlib: &Coded) -> f64 {
        const PAGE: f64 = 4096.0;
        let pages = [
            (48.0, "deflate-zeros"),
            (1654.0, "deflate-text"),
            (PAGE, "deflate-noise"),
        ]
        .map(|(length, key)| (length, self.value(key)));
        let length = zlib.packed as f64 / zlib.plain.max(1) as f64 * PAGE;
        let [low, high] = if length < pages[1].0 {
            [pages[0], pages[1]]
        } else {
            [pages[1], pages[2]]
        };
        let share = ((length - low.0) / (high.0 - low.0)).clamp(0.0, 1.0);
        (low.1 + share * (high.1 - low.1)) / PAGE
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
            bus_ps_per_byte: chip
                .bus_ps_per_byte
                .max((self.value("pio-ns-per-byte") * 1000.0) as u64),
            ..chip.clone()
        }
    }
}

fn take_cost(section: &mut Section, cost: &Cost) -> Result<f64, DescriptionError> {
    section.checked(
        cost.key,
        cost.value,
        |v| (0.0..=1e9).contains(v),
        &format!("{} from 0 to 1000000000", cost.unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_nand::preset;
    use std::path::Path;

    fn take(text: &str) -> Result<Option<HostDescription>, String> {
        let mut document =
            Document::parse("e.toml", Path::new(""), &format!("[host]\n{text}"), &[])
                .map_err(|e| e.to_string())?;
        HostDescription::take(&mut document)
            .map(|(host, _)| host)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_platform_is_its_table_until_a_key_says_otherwise() {
        assert_eq!(take("").unwrap(), None);
        let host = take(
            "platform = \"arm-400mhz\"\necc = 100\ninstruction-ns = 2.5\nlayer-extra = \"1 ms\"",
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            (
                host.instructions("ecc"),
                host.value("pio-ns-per-byte"),
                host.layer_ns
            ),
            (250, 60.0, 1_000_000)
        );
    }

    #[test]
    fn each_platform_has_its_own_speed_and_only_its_own_costs() {
        let (arm, pc) = (
            take("platform = \"arm-400mhz\"").unwrap().unwrap(),
            take("platform = \"pc-3ghz\"").unwrap().unwrap(),
        );
        assert_eq!(
            (
                arm.program(1000),
                pc.program(1000),
                arm.instructions("fsync") / pc.instructions("fsync")
            ),
            (5000, 500, 10)
        );
        assert_eq!(
            (
                arm.instructions("write-page"),
                pc.value("write-page"),
                pc.value("pio-ns-per-byte")
            ),
            (0, 4159.0, 0.0)
        );
        assert!(
            PC_3GHZ[..13]
                .iter()
                .zip(&ARM_400MHZ)
                .all(|(pc, arm)| pc.key == arm.key)
        );
    }

    #[test]
    fn what_deflate_costs_lies_between_the_pages_that_were_counted() {
        let host = take("platform = \"omap5912\"\ninstruction-ns = 1")
            .unwrap()
            .unwrap();
        let page = |packed: u64| Work {
            zlib: Coded {
                plain: 8192,
                packed: 2 * packed,
                ..Coded::default()
            },
            ..Work::default()
        };
        let of = |packed| host.jffs2(&page(packed)) / 2;
        assert_eq!(
            [0, 48, 1654, 4096, 5000].map(of),
            [85_611, 85_611, 388_670, 454_814, 454_814]
        );
        assert_eq!(of(851), (85_611 + 388_670) / 2);
        let node = Work {
            nodes: 1,
            bytes: 100,
            bytes_read: 100,
            ..Work::default()
        };
        assert_eq!(host.jffs2(&node), 3_585 + 728);
        assert_eq!(
            take("platform = \"pc-3ghz\"")
                .unwrap()
                .unwrap()
                .jffs2(&page(48)),
            0
        );
    }

    #[test]
    fn the_driver_adds_to_every_operation_and_never_makes_the_bus_faster() {
        let text = "platform = \"arm-400mhz\"\ninstruction-ns = 1\nflash = 10\necc = 100\npio-ns-per-byte = 20";
        let host = take(text).unwrap().unwrap();
        let chip = preset::find("small-block-64MiB").unwrap().spec().timing;
        let driven = host.driven(&chip);
        assert_eq!(
            (driven.read_ns, driven.program_ns, driven.erase_ns),
            (
                chip.read_ns + 110,
                chip.program_ns + 110,
                chip.erase_ns + 10
            )
        );
        assert_eq!(
            (driven.oob_read_ns, driven.oob_program_ns),
            (Some(chip.read_ns + 10), Some(chip.program_ns + 10))
        );
        assert_eq!(driven.bus_ps_per_byte, chip.bus_ps_per_byte.max(20_000));
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "platform = \"arm\"",
                "e.toml:2:12: host.platform: found \"arm\", expected one of \"none\", \"arm-400mhz\", \"pc-3ghz\"",
            ),
            (
                "platform = \"arm-400mhz\"\nread-page = 5",
                "host.read-page: has no effect, it needs platform = \"pc-3ghz\"",
            ),
            (
                "ecc = 5",
                "host.ecc: has no effect, it needs a platform (host.platform)",
            ),
            (
                "platform = \"arm-400mhz\"\necc = -1",
                "host.ecc: found -1.0, expected instructions from 0",
            ),
            (
                "platform = \"arm-400mhz\"\nlayer-extra = 5",
                "host.layer-extra: found 5, expected a time",
            ),
        ];
        for (line, expected) in cases {
            let error = take(line)
                .err()
                .unwrap_or_else(|| panic!("{line} was accepted"));
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
