//! Figure 4, Table 1, and the tables behind them.

use super::attach::{Attach, Attaches, Cell, GIBIBYTE, SCAN, Size, WAYS};
use super::io::{Cells, IN_TABLE, OPTIONS, PHASES, SYSTEMS, UBI, UBIL};
use super::{PUBLISHED, reduction};
use crate::{Drawn, Exhibit, Figure, Quantity, line};
use nandlab_nand::ChipSpec;
use nandlab_stack::units::write_size;

/// A time in ms, to three digits or so.
fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

/// Attach time over the size of the device.
pub fn figure(attaches: &Attaches) -> Exhibit {
    let plot = |title: &str, sizes: &[Size], drawn: Drawn, of: fn(&Cell) -> &Attach| Figure {
        title: title.into(),
        about: String::new(),
        x: "size of the device".into(),
        y: "attach time".into(),
        drawn,
        of: (Quantity::Memory, Quantity::Nanoseconds),
        series: WAYS
            .iter()
            .enumerate()
            .map(|(at, way)| {
                let time = |size: &Size| of(attaches.of(at, *size)).total();
                let points = sizes.iter().map(|size| (size.bytes() as f64, time(size)));
                (way.name.into(), points.collect())
            })
            .collect(),
    };
    let to_gibibyte: Vec<Size> = Size::small()
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
            &Size::small(),
            Drawn::LinesOverLogs,
            |cell| &cell.clean,
        ),
        plot(
            "after a detach, to 1 TiB, blocks of 4 MiB",
            &Size::large(),
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
        line(WAYS[way].name, values)
    };
    let lengths = sizes.iter().map(|size| write_size(size.bytes()));
    Exhibit::table(
        title,
        "Time in ms / pages read.",
        line("", lengths),
        (0..WAYS.len()).map(row),
    )
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
        let cells = counts.into_iter().chain(times).chain([share]);
        line(format!("{}, {name}", WAYS[way].name), cells)
    };
    let both = |way| {
        [
            row(way, "detached", |cell| &cell.clean),
            row(way, "cut off", |cell| &cell.unclean),
        ]
    };
    Exhibit::table(
        "An attach of 1 GiB",
        "8,192 blocks, half of them mapped. Counts, memory while attaching at its highest in KiB, times in ms: the flash with its driver, the processor in UBI, both. Reductions are against the scan of the same device.",
        [
            "",
            "pages read",
            "headers",
            "blocks entered",
            "bytes checked",
            "inflated",
            "KiB of memory",
            "flash",
            "processor",
            "total",
            "reduction",
        ],
        (0..WAYS.len()).flat_map(both),
    )
}

/// Powers with which things grow.
pub fn growth(attaches: &Attaches) -> Exhibit {
    let row = |way: usize| {
        let of = |sizes: &[Size], of: &dyn Fn(&Cell) -> f64| {
            format!("{:.2}", attaches.exponent(way, sizes, of))
        };
        let small = Size::small();
        let large = Size::large();
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
    Exhibit::table(
        "Growth",
        "The power of the size with which each grows, fitted by least squares: 1 is in proportion, 0 not at all. 64 MiB to 8 GiB, then 16 GiB to 1 TiB. An incremental commit is read in part: the rest when it is first needed, or by the thread. That the driver is asked of each block whether it is bad is what still grows then, and tables in memory.",
        [
            "",
            "pages read",
            "flash",
            "processor",
            "total",
            "total, cut off",
            "total, to 1 TiB",
            "total, cut off, to 1 TiB",
            "memory, to 1 TiB",
        ],
        (0..WAYS.len()).map(row),
    )
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
        line(WAYS[way].name, needed)
    };
    Exhibit::table(
        "What the published reductions would take",
        "Time of the processor for each block, in us, that a scan and the other way have in common, so that at 1 GiB the one attaches in half of the time of the other, or in 30 % of it. Here it is host.ubi-block, 5 us. The paper has no such numbers: if its 50 % is what it measured, a block cost it about as much outside of the scan as in it.",
        ["", "for 50 %", "for 70 %"],
        (1..WAYS.len()).map(row),
    )
}

/// A rate in MB/s.
pub fn rate(bytes: f64) -> String {
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
        let here = (0..SYSTEMS.len()).map(|system| cells.rate(system, phase).reported(rate));
        line(*name, [UBI, UBIL].map(published).into_iter().chain(here))
    };
    let heads = ["", "published: UBI", "published: UBIL"]
        .into_iter()
        .chain(SYSTEMS.iter().map(|system| system.name));
    Exhibit::table(
        "Table 1: IO performance",
        "MB/s through JFFS2, uncompressed. The paper has UBIFS, which has a table of its own: \
         compare columns, not numbers.",
        heads,
        PHASES.iter().enumerate().map(row),
    )
}

/// What the flash does for it.
pub fn work(cells: &Cells) -> Exhibit {
    let row = |system: usize| {
        let cell = cells.of(system);
        let values = ["write", "rewrite", "random-write"]
            .into_iter()
            .flat_map(|phase| cell.work(phase))
            .map(|each| format!("{each:.4}"));
        line(SYSTEMS[system].name, values)
    };
    let heads = ["write", "re-write", "random write"]
        .into_iter()
        .flat_map(|phase| ["programs", "reads", "erases"].map(|what| format!("{phase}: {what}")));
    Exhibit::table(
        "Flash operations for a page of data",
        "Pages programmed, pages read, blocks erased, for each 2 KiB that the program writes. JFFS2 adds a header of 68 bytes to each 4 KiB; UBI adds two pages to each block of 64, one when it is erased and one when it is mapped; UBIL adds a page to its log for each block that is mapped, which tells of those erased before as well. What is read while writing is JFFS2's collector: with other lengths of blocks it finds other victims, which is part of the rates of re-writes and random writes.",
        line("", heads),
        (0..SYSTEMS.len()).map(row),
    )
}

/// What a page of data takes longer on UBIL, and the operations that make it so.
pub fn difference(cells: &Cells, chip: &ChipSpec) -> Exhibit {
    let timing = &chip.timing;
    let page = chip.geometry.page;
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
        line(phase, times.into_iter().chain(differences))
    };
    Exhibit::table(
        "Where writes on UBIL differ",
        "us for a page of 2 KiB of data, and the difference by the operations counted above at the times of this chip and its driver. A page that is read while writing is one that JFFS2's collector moves. Even if headers cost nothing and nothing took their place, 62 pages of a block would become 64: 3.2 %. The published 6.3 % and 7.4 % are more than the pages that UBIL saves, on blocks of 64, and the paper's own words expect none (\"EL writing frequency is same as meta data write frequency of UBI\"): what made them it does not say.",
        [
            "",
            "UBI",
            "UBIL",
            "difference",
            "headers and log",
            "the collector's pages",
            "erases",
            "the rest",
        ],
        ["write", "rewrite", "random-write"].map(row),
    )
}

/// What is left open, run through.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |name: &str, option: Option<usize>| {
        let values = PHASES.iter().map(|(phase, _)| {
            let ubi = rate_of(cells, UBI, option, phase);
            let ubil = rate_of(cells, UBIL, option, phase);
            both(ubi, ubil)
        });
        line(name, values)
    };
    let options = (0..)
        .zip(&OPTIONS)
        .map(|(at, (name, _))| row(name, Some(at)));
    let names = PHASES.iter().map(|(_, name)| name.to_string());
    Exhibit::table(
        "What the paper leaves open",
        "MB/s on UBI / on UBIL without headers / the difference.",
        line("", names),
        [row("as in the table", None)].into_iter().chain(options),
    )
}

fn both(ubi: f64, ubil: f64) -> String {
    let change = (ubil / ubi - 1.0) * 100.0;
    format!("{} / {} / {change:+.1} %", rate(ubi), rate(ubil))
}

/// The rate with an option, or as in the table where the option does not concern the system.
fn rate_of(cells: &Cells, system: usize, option: Option<usize>, phase: &str) -> f64 {
    let cell = cells.at(system, option);
    cell.unwrap_or_else(|| cells.of(system)).rate(phase)
}
