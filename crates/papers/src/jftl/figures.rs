//! Figures 7 and 8, and the tables behind them: what the flash does for each byte, what the open
//! choices change, how long the flash lasts.

use super::cells::{
    Bench, Cell, Cells, JOURNALED, JOURNALED_JFTL, JOURNALED_MEMORY, MODES, OPTIONS, ORDERED,
    ORDERED_JFTL, ORDERED_MEMORY, PUBLISHED,
};
use crate::runs::Variant;
use crate::{Drawn, Exhibit, Figure, Quantity, line};
use nandlab_lab::run::PhaseOutcome;
use nandlab_stack::units::write_size;

/// Bytes of a page of the chip.
const PAGE: u64 = 512;

/// A figure of the paper: two plots of four curves.
pub fn figure(cells: &Cells, bench: Bench) -> Exhibit {
    let plot = |(phase, title): (&str, &str)| Figure {
        title: title.into(),
        about: String::new(),
        x: match bench {
            Bench::Bonnie => "length of the file".into(),
            Bench::Iozone => "length of a record".into(),
        },
        y: "bytes a second".into(),
        drawn: if bench == Bench::Iozone {
            Drawn::LinesOverLog
        } else {
            Drawn::Lines
        },
        of: (Quantity::Memory, Quantity::Rate),
        series: MODES[..PUBLISHED]
            .iter()
            .map(|mode| curve(cells, bench, phase, mode))
            .collect(),
    };
    Exhibit::Figures(
        format!("Figure {}: {bench}", bench.figure()),
        bench.phases().map(plot).into(),
    )
}

fn curve(
    cells: &Cells,
    bench: Bench,
    phase: &str,
    mode: &crate::runs::Variant,
) -> (String, Vec<(f64, f64)>) {
    let points = cells
        .points(bench)
        .iter()
        .zip(cells.curve(bench, phase, mode));
    let points = points.map(|(x, y)| (*x as f64, y));
    (mode.name.to_string(), points.collect())
}

/// The same as numbers.
pub fn bandwidths(cells: &Cells, bench: Bench) -> Exhibit {
    let rows = bench.phases().into_iter().flat_map(|(phase, title)| {
        MODES.iter().map(move |mode| {
            let curve = cells.curve(bench, phase, mode);
            line(
                format!("{title}, {}", mode.name),
                curve.into_iter().map(|rate| format!("{:.3}", rate / 1e6)),
            )
        })
    });
    Exhibit::table(
        format!("{bench}: bandwidth"),
        "MB (10^6 bytes) a second, over the horizontal axis of the figure: means of several \
         seeds for the paper's modes and for the map in memory, one seed for the others. The \
         paper leaves writeback out. Late: committed blocks are remapped at a checkpoint, not \
         at each commit.",
        line(
            "",
            cells.points(bench).iter().map(|point| write_size(*point)),
        ),
        rows,
    )
}

/// Bytes programmed in a phase, for one cause or for all.
fn programmed(phase: &PhaseOutcome, cause: Option<&str>) -> u64 {
    let rows = phase.causes.iter();
    let pages: u64 = rows
        .filter(|row| cause.is_none_or(|cause| row.cause == cause))
        .map(|row| row.programs + row.copies)
        .sum();
    pages * PAGE
}

/// All bytes programmed in a run, what is left for the unmount included, for each byte that calls
/// wrote.
pub fn amplification(cell: &Cell) -> f64 {
    cell.sum(|phase| programmed(phase, None)) as f64 / cell.sum(|phase| phase.bytes_written) as f64
}

/// What the flash does for each byte that the program writes, and why.
pub fn programs(cells: &Cells, bench: Bench) -> Exhibit {
    let row = |(point, mode): (u64, &Variant)| {
        let cell = cells.of(bench, point, mode);
        let written = cell.sum(|phase| phase.bytes_written) as f64;
        let journal = |phase: &PhaseOutcome| {
            let parts = phase.below.parts.iter();
            parts
                .filter(|(region, _)| region.to_string() == "journal")
                .map(|(_, traffic)| traffic.bytes_written)
                .sum()
        };
        let bytes = [
            cell.sum(|phase| programmed(phase, None)),
            cell.sum(|phase| programmed(phase, Some("host data"))),
            cell.sum(journal),
            cell.sum(|phase| programmed(phase, Some("mapping"))),
            cell.sum(|phase| programmed(phase, Some("collection"))),
            cell.sum(|phase| phase.below.remapped_sectors * 512),
        ];
        line(
            format!("{}, {}", mode.name, write_size(point)),
            bytes.map(|bytes| format!("{:.3}", bytes as f64 / written)),
        )
    };
    let rows = cells
        .ends(bench)
        .into_iter()
        .flat_map(|point| MODES.iter().map(move |mode| (point, mode)));
    Exhibit::table(
        format!("{bench}: bytes for each byte written"),
        "Of the whole run, unmount included. JFTL takes the second copy away: what the journal holds is remapped home, not written again.",
        [
            "",
            "programmed on flash",
            "for the file system",
            "of these to the journal",
            "for the layer's map and records",
            "by collection",
            "remapped",
        ],
        rows.map(row),
    )
}

/// The ratios that the claims are about.
pub const RATIOS: [(&str, usize, usize); 5] = [
    ("journaled / ordered", JOURNALED, ORDERED),
    ("journaled + JFTL / ordered", JOURNALED_JFTL, ORDERED),
    ("ordered + JFTL / ordered", ORDERED_JFTL, ORDERED),
    (
        "journaled + JFTL, map in memory / ordered",
        JOURNALED_MEMORY,
        ORDERED,
    ),
    (
        "ordered + JFTL, map in memory / ordered",
        ORDERED_MEMORY,
        ORDERED,
    ),
];

/// The same ratios with what the paper leaves open chosen otherwise.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |bench: Bench, option: Option<usize>, (phase, title): (&str, &str)| {
        let point = bench.looked_at();
        let rate = |mode: usize| {
            cells
                .with(bench, point, option, &MODES[mode])
                .bandwidth(phase)
        };
        let ratios = RATIOS.map(|(_, upper, lower)| format!("{:.3}", rate(upper) / rate(lower)));
        let name = option.map_or("as declared", |option| OPTIONS[option].0);
        let of = if bench == Bench::Bonnie {
            "file"
        } else {
            "records"
        };
        let ordered = format!("{:.3}", rate(0) / 1e6);
        line(
            format!("{bench} {of} of {}, {title}: {name}", write_size(point)),
            [ordered].into_iter().chain(ratios),
        )
    };
    let rows = [Bench::Bonnie, Bench::Iozone]
        .into_iter()
        .flat_map(|bench| {
            bench.phases().into_iter().flat_map(move |phase| {
                let options = bench.options().map(Some);
                let options = [None].into_iter().chain(options);
                options.map(move |option| (bench, option, phase))
            })
        });
    let heads = ["", "ordered, MB/s"]
        .into_iter()
        .chain(RATIOS.map(|(name, ..)| name));
    Exhibit::table(
        "What the paper leaves open",
        "Each choice made otherwise, one at a time.",
        heads,
        rows.map(|(bench, option, phase)| row(bench, option, phase)),
    )
}

/// How long the flash lasts by mode: a block dies of erases, and these come of programs.
pub fn wear(cells: &Cells) -> Exhibit {
    let row = |(at, with): (usize, usize)| {
        let copy = &MODES[at];
        let remap = &MODES[with];
        let of = |bench: Bench, mode: &Variant| {
            amplification(cells.of(bench, cells.ends(bench)[1], mode))
        };
        let small = |mode: &Variant| {
            amplification(cells.of(Bench::Iozone, cells.ends(Bench::Iozone)[0], mode))
        };
        let values = [
            of(Bench::Bonnie, copy),
            of(Bench::Bonnie, remap),
            of(Bench::Bonnie, copy) / of(Bench::Bonnie, remap),
            small(copy),
            small(remap),
            small(copy) / small(remap),
        ];
        line(remap.name, values.map(|value| format!("{value:.3}")))
    };
    Exhibit::table(
        "Lifetime gained",
        "Bytes programmed for each byte written, and how many times as much can be written before the same number of programs is reached.",
        [
            "",
            "Bonnie 64 MiB, copying",
            "remapping",
            "times the lifetime",
            "IOzone 4 KiB records, copying",
            "remapping",
            "times the lifetime",
        ],
        [(0, 1), (2, 3), (0, 4), (2, 5), (6, 7), (0, 8), (2, 9)].map(row),
    )
}
