//! Figure 4, Table 1, and the tables behind them.

use super::attach::{Attach, Attaches, Cell, GIBIBYTE, LARGE, SCAN, SMALL, Size, WAYS};
use super::io::{Cells, IN_TABLE, OPTIONS, PHASES, SYSTEMS, UBI, UBIL};
use super::{PUBLISHED, reduction};
use crate::{Drawn, Exhibit, Figure, Quantity, TableExhibit};
use nandlab_nand::ChipSpec;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A time in ms, to three digits or so.
fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

/// The length of a device.
fn length(size: Size) -> String {
    match size.bytes() >> 20 {
        mib if mib >= 1 << 20 => format!("{} TiB", mib >> 20),
        mib if mib >= 1 << 10 => format!("{} GiB", mib >> 10),
        mib => format!("{mib} MiB"),
    }
}

/// Devices of Figure 4.
pub fn small() -> Vec<Size> {
    SMALL
        .map(|blocks| Size {
            large: false,
            blocks,
        })
        .to_vec()
}

/// Devices beyond it.
pub fn large() -> Vec<Size> {
    LARGE
        .map(|blocks| Size {
            large: true,
            blocks,
        })
        .to_vec()
}

/// Attach time over the size of the device.
pub fn figure(attaches: &Attaches) -> Exhibit {
    let names: Vec<String> = WAYS.iter().map(|way| way.name.to_string()).collect();
    let plot = |title: &str, sizes: &[Size], drawn: Drawn, of: fn(&Cell) -> &Attach| Figure {
        title: title.into(),
        about: String::new(),
        x: "size of the device".into(),
        y: "attach time".into(),
        drawn,
        of: (Quantity::Memory, Quantity::Nanoseconds),
        names: names.clone(),
        series: (0..WAYS.len())
            .map(|way| {
                (
                    names[way].clone(),
                    sizes
                        .iter()
                        .map(|size| (size.bytes() as f64, of(attaches.of(way, *size)).total()))
                        .collect(),
                )
            })
            .collect(),
    };
    let to_gibibyte: Vec<Size> = small()
        .into_iter()
        .filter(|size| size.blocks <= GIBIBYTE)
        .collect();
    let plots = vec![
        plot(
            "after a detach, to 1 GiB",
            &to_gibibyte,
            Drawn::Lines,
            |cell| &cell.clean,
        ),
        plot(
            "after 150 changes without a detach, to 1 GiB",
            &to_gibibyte,
            Drawn::Lines,
            |cell| &cell.unclean,
        ),
        plot(
            "after a detach, to 8 GiB",
            &small(),
            Drawn::LinesOverLogs,
            |cell| &cell.clean,
        ),
        plot(
            "after a detach, to 1 TiB, blocks of 4 MiB",
            &large(),
            Drawn::LinesOverLogs,
            |cell| &cell.clean,
        ),
    ];
    Exhibit::Figures("Figure 4: attach time".into(), plots)
}

/// The same as numbers.
pub fn times(
    attaches: &Attaches,
    title: &str,
    sizes: &[Size],
    of: fn(&Cell) -> &Attach,
) -> Exhibit {
    let row = |way: usize| {
        let values = sizes.iter().map(|size| {
            let attach = of(attaches.of(way, *size));
            format!("{} / {}", ms(attach.total()), attach.cost.page_reads)
        });
        [WAYS[way].name.to_string()]
            .into_iter()
            .chain(values)
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: title.into(),
        about: "Time in ms / pages read.".into(),
        heads: [String::new()]
            .into_iter()
            .chain(sizes.iter().map(|size| length(*size)))
            .collect(),
        rows: (0..WAYS.len()).map(row).collect(),
    })
}

/// What an attach of 1 GiB consists of.
pub fn parts(attaches: &Attaches) -> Exhibit {
    let scan = attaches.small(SCAN, GIBIBYTE);
    let row = |way: usize, name: &str, of: fn(&Cell) -> &Attach| {
        let attach = of(attaches.small(way, GIBIBYTE));
        let c = &attach.cost;
        let counts = [
            c.page_reads,
            c.headers,
            c.records,
            c.crc_bytes,
            c.inflated_bytes,
            c.peak_bytes >> 10,
        ]
        .map(|count| count.to_string());
        let times = [
            ms(attach.flash as f64),
            ms(attach.cpu as f64),
            ms(attach.total()),
        ];
        let share = format!("{:.1} %", reduction(of(scan), attach) * 100.0);
        [format!("{}, {name}", WAYS[way].name)]
            .into_iter()
            .chain(counts)
            .chain(times)
            .chain([share])
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "An attach of 1 GiB".into(),
        about: "8,192 blocks, half of them mapped. Counts, memory while attaching at its highest in KiB, times in ms: the flash with its driver, the processor in UBI, both. Reductions are against the scan of the same device.".into(),
        heads: strings(&["", "pages read", "headers", "blocks entered", "bytes checked", "inflated", "KiB of memory", "flash", "processor", "total", "reduction"]),
        rows: (0..WAYS.len()).flat_map(|way| [row(way, "detached", |cell| &cell.clean), row(way, "cut off", |cell| &cell.unclean)]).collect(),
    })
}

/// Powers with which things grow.
pub fn growth(attaches: &Attaches) -> Exhibit {
    let row = |way: usize| {
        let of = |sizes: &[Size], of: &dyn Fn(&Cell) -> f64| {
            format!("{:.2}", attaches.exponent(way, sizes, of))
        };
        let (small, large) = (small(), large());
        vec![
            WAYS[way].name.to_string(),
            of(&small, &|cell| cell.clean.cost.page_reads as f64),
            of(&small, &|cell| cell.clean.flash as f64),
            of(&small, &|cell| cell.clean.cpu as f64),
            of(&small, &|cell| cell.clean.total()),
            of(&small, &|cell| cell.unclean.total()),
            of(&large, &|cell| cell.clean.total()),
            of(&large, &|cell| cell.unclean.total()),
            of(&large, &|cell| cell.clean.cost.peak_bytes as f64),
        ]
    };
    Exhibit::Table(TableExhibit {
        title: "Growth".into(),
        about: "The power of the size with which each grows, fitted by least squares: 1 is in proportion, 0 not at all. 64 MiB to 8 GiB, then 16 GiB to 1 TiB. An incremental commit is read in part: the rest when it is first needed, or by the thread. That the driver is asked of each block whether it is bad is what still grows then, and tables in memory.".into(),
        heads: strings(&["", "pages read", "flash", "processor", "total", "total, cut off", "total, to 1 TiB", "total, cut off, to 1 TiB", "memory, to 1 TiB"]),
        rows: (0..WAYS.len()).map(row).collect(),
    })
}

/// What a block would have to cost the processor, whatever the way, for the reductions that were
/// published.
pub fn break_even(attaches: &Attaches) -> Exhibit {
    let scan = &attaches.small(SCAN, GIBIBYTE).clean;
    let row = |way: usize| {
        let flash = attaches.small(way, GIBIBYTE).clean.flash as f64;
        // (flash + x) / (scan + x) = 1 - reduction, for the x that all blocks cost.
        let needed = PUBLISHED.map(|reduction| {
            let all = ((1.0 - reduction) * scan.flash as f64 - flash) / reduction;
            format!("{:.0}", all / f64::from(GIBIBYTE) / 1e3)
        });
        [WAYS[way].name.to_string()]
            .into_iter()
            .chain(needed)
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "What the published reductions would take".into(),
        about: "Time of the processor for each block, in us, that a scan and the other way have in common, so that at 1 GiB the one attaches in half of the time of the other, or in 30 % of it. Here it is host.ubi-block, 5 us. The paper has no such numbers: if its 50 % is what it measured, a block cost it about as much outside of the scan as in it.".into(),
        heads: strings(&["", "for 50 %", "for 70 %"]),
        rows: (1..WAYS.len()).map(row).collect(),
    })
}

/// A rate in MB/s.
fn rate(bytes: f64) -> String {
    format!("{:.2}", bytes / 1e6)
}

/// Table 1: published and here.
pub fn table(cells: &Cells) -> Exhibit {
    let row = |(at, (phase, name)): (usize, &(&str, &str))| {
        let published = |system: usize| {
            if at < IN_TABLE {
                format!("{:.2}", super::TABLE[at][system])
            } else {
                String::new()
            }
        };
        let here = (0..SYSTEMS.len()).map(|system| rate(cells.of(system).rate(phase)));
        [name.to_string(), published(UBI), published(UBIL)]
            .into_iter()
            .chain(here)
            .collect()
    };
    let heads = ["", "published: UBI", "published: UBIL"]
        .into_iter()
        .chain(SYSTEMS.iter().map(|system| system.name));
    Exhibit::Table(TableExhibit {
        title: "Table 1: IO performance".into(),
        about: "MB/s. The paper has UBIFS, here it is JFFS2, uncompressed: compare columns, not numbers.".into(),
        heads: heads.map(ToString::to_string).collect(),
        rows: PHASES.iter().enumerate().map(row).collect(),
    })
}

/// What the flash does for it.
pub fn work(cells: &Cells) -> Exhibit {
    let row = |system: usize| {
        let cell = cells.of(system);
        let values = ["write", "rewrite", "random-write"]
            .into_iter()
            .flat_map(|phase| cell.work(phase))
            .map(|each| format!("{each:.4}"));
        [SYSTEMS[system].name.to_string()]
            .into_iter()
            .chain(values)
            .collect()
    };
    let heads = ["write", "re-write", "random write"]
        .into_iter()
        .flat_map(|phase| ["programs", "reads", "erases"].map(|what| format!("{phase}: {what}")));
    Exhibit::Table(TableExhibit {
        title: "Flash operations for a page of data".into(),
        about: "Pages programmed, pages read, blocks erased, for each 2 KiB that the program writes. JFFS2 adds a header of 68 bytes to each 4 KiB; UBI adds two pages to each block of 64, one when it is erased and one when it is mapped; UBIL adds a page to its log for each block that is mapped, which tells of those erased before as well. What is read while writing is JFFS2's collector: with other lengths of blocks it finds other victims, which is part of the rates of re-writes and random writes.".into(),
        heads: [String::new()].into_iter().chain(heads).collect(),
        rows: (0..SYSTEMS.len()).map(row).collect(),
    })
}

/// What a page of data takes longer on UBIL, and the operations that make it so.
pub fn difference(cells: &Cells, chip: &ChipSpec) -> Exhibit {
    let (timing, page) = (&chip.timing, chip.geometry.page);
    let transfer = u64::from(page + timing.oob_bus_bytes) * timing.bus_ps_per_byte / 1000;
    let [program, read, erase] = [
        timing.program_ns + transfer,
        timing.read_ns + transfer,
        timing.erase_ns,
    ]
    .map(|ns| ns as f64);
    let row = |phase: &str| {
        let [ubi, ubil] =
            [UBI, UBIL].map(|system| f64::from(page) * 1e9 / cells.of(system).rate(phase));
        let [a, b] = [UBI, UBIL].map(|system| cells.of(system).work(phase));
        let [programs, reads, erases] = [0, 1, 2].map(|at| b[at] - a[at]);
        let parts = [
            (programs - reads) * program,
            reads * (read + program),
            erases * erase,
        ];
        let rest = ubil - ubi - parts.iter().sum::<f64>();
        let times = [ubi, ubil].map(|ns| format!("{:.1}", ns / 1e3));
        let differences = [&[ubil - ubi], &parts[..], &[rest]]
            .concat()
            .into_iter()
            .map(|ns| format!("{:+.2}", ns / 1e3));
        [phase.to_string()]
            .into_iter()
            .chain(times)
            .chain(differences)
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "Where writes on UBIL differ".into(),
        about: "us for a page of 2 KiB of data, and the difference by the operations counted above at the times of this chip and its driver. A page that is read while writing is one that JFFS2's collector moves. Even if headers cost nothing and nothing took their place, 62 pages of a block would become 64: 3.2 %. The published 6.3 % and 7.4 % are more than the pages that UBIL saves, on blocks of 64, and the paper's own words expect none (\"EL writing frequency is same as meta data write frequency of UBI\"): what made them it does not say.".into(),
        heads: strings(&["", "UBI", "UBIL", "difference", "headers and log", "the collector's pages", "erases", "the rest"]),
        rows: ["write", "rewrite", "random-write"].into_iter().map(row).collect(),
    })
}

/// What is left open, run through.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |name: &str, option: Option<usize>| {
        let values = PHASES.iter().map(|(phase, _)| {
            let of = |system: usize| {
                cells
                    .at(system, option)
                    .unwrap_or_else(|| cells.of(system))
                    .rate(phase)
            };
            format!(
                "{} / {} / {:+.1} %",
                rate(of(UBI)),
                rate(of(UBIL)),
                (of(UBIL) / of(UBI) - 1.0) * 100.0
            )
        });
        [name.to_string()]
            .into_iter()
            .chain(values)
            .collect::<Vec<String>>()
    };
    let options = OPTIONS
        .iter()
        .enumerate()
        .map(|(at, (name, _))| row(name, Some(at)));
    Exhibit::Table(TableExhibit {
        title: "What the paper leaves open".into(),
        about: "MB/s on UBI / on UBIL without headers / the difference.".into(),
        heads: [""]
            .into_iter()
            .chain(PHASES.iter().map(|(_, name)| *name))
            .map(ToString::to_string)
            .collect(),
        rows: [row("as in the table", None)]
            .into_iter()
            .chain(options)
            .collect(),
    })
}
