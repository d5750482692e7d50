//! Figures 7 and 8, and the tables behind them: what the flash does for each byte, what the open
//! choices change, how long the flash lasts.

use super::cells::{Bench, Cell, Cells, LOOKED_AT, MODES, Mode, OPTIONS, PUBLISHED};
use crate::{Drawn, Exhibit, Figure, Quantity, TableExhibit};
use nandlab_lab::result::FlashRow;
use nandlab_lab::run::PhaseOutcome;

/// Bytes of a page of the chip.
const PAGE: u64 = 512;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn named_size(bytes: u64) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// A figure of the paper: two plots of four curves.
pub fn figure(cells: &Cells, bench: Bench) -> Exhibit {
    let names: Vec<String> = MODES[..PUBLISHED]
        .iter()
        .map(|mode| mode.name.to_string())
        .collect();
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
        names: names.clone(),
        series: MODES[..PUBLISHED]
            .iter()
            .map(|mode| {
                let points = bench
                    .points()
                    .iter()
                    .zip(cells.curve(bench, phase, mode))
                    .map(|(x, y)| (*x as f64, y));
                (mode.name.to_string(), points.collect())
            })
            .collect(),
    };
    Exhibit::Figures(
        format!("Figure {}: {bench}", bench.figure()),
        bench.phases().map(plot).into(),
    )
}

/// The same as numbers.
pub fn bandwidths(cells: &Cells, bench: Bench) -> Exhibit {
    let rows = bench.phases().into_iter().flat_map(|(phase, title)| {
        MODES.iter().map(move |mode| {
            let values = cells
                .curve(bench, phase, mode)
                .into_iter()
                .map(|rate| format!("{:.3}", rate / 1e6));
            [format!("{title}, {}", mode.name)]
                .into_iter()
                .chain(values)
                .collect()
        })
    });
    Exhibit::Table(TableExhibit {
        title: format!("{bench}: bandwidth"),
        about: "MB (10^6 bytes) a second, over the horizontal axis of the figure. The paper leaves writeback out. Late: committed blocks are remapped at a checkpoint, not at each commit.".into(),
        heads: [String::new()].into_iter().chain(bench.points().iter().map(|point| named_size(*point))).collect(),
        rows: rows.collect(),
    })
}

/// Pages programmed for some reason, as bytes.
fn programmed(causes: &[FlashRow], is: impl Fn(&FlashRow) -> bool) -> u64 {
    causes
        .iter()
        .filter(|row| is(row))
        .map(|row| row.programs + row.copies)
        .sum::<u64>()
        * PAGE
}

/// All bytes programmed in a run, what is left for the unmount included, for each byte that calls
/// wrote.
pub fn amplification(cell: &Cell) -> f64 {
    let sum = |of: fn(&PhaseOutcome) -> u64| cell.run.phases.iter().map(of).sum::<u64>() as f64;
    sum(|phase| programmed(&phase.causes, |_| true)) / sum(|phase| phase.bytes_written)
}

/// What the flash does for each byte that the program writes, and why.
pub fn programs(cells: &Cells, bench: Bench) -> Exhibit {
    let row = |point: u64, mode: &Mode| {
        let cell = cells.of(bench, point, mode);
        let written: u64 = cell
            .run
            .phases
            .iter()
            .map(|phase| phase.bytes_written)
            .sum();
        let causes: Vec<&FlashRow> = cell
            .run
            .phases
            .iter()
            .flat_map(|phase| &phase.causes)
            .collect();
        let each = |name: Option<&str>| {
            let bytes: u64 = causes
                .iter()
                .filter(|row| name.is_none_or(|name| row.cause == name))
                .map(|row| (row.programs + row.copies) * PAGE)
                .sum();
            format!("{:.3}", bytes as f64 / written as f64)
        };
        let part = |part: &str| {
            let traffic = cell
                .run
                .phases
                .iter()
                .flat_map(|phase| &phase.below.parts)
                .filter(|(region, _)| region.to_string() == part);
            format!(
                "{:.3}",
                traffic
                    .map(|(_, traffic)| traffic.bytes_written)
                    .sum::<u64>() as f64
                    / written as f64
            )
        };
        let remapped: u64 = cell
            .run
            .phases
            .iter()
            .map(|phase| phase.below.remapped_sectors * 512)
            .sum();
        let values = [
            each(None),
            each(Some("host data")),
            part("journal"),
            each(Some("mapping")),
            each(Some("collection")),
            format!("{:.3}", remapped as f64 / written as f64),
        ];
        [format!("{}, {}", mode.name, named_size(point))]
            .into_iter()
            .chain(values)
            .collect()
    };
    let points = [bench.points()[0], *bench.points().last().unwrap_or(&0)];
    Exhibit::Table(TableExhibit {
        title: format!("{bench}: bytes for each byte written"),
        about: "Of the whole run, unmount included. JFTL takes the second copy away: what the journal holds is remapped home, not written again.".into(),
        heads: strings(&["", "programmed on flash", "for the file system", "of these to the journal", "for the layer's map and records", "by collection", "remapped"]),
        rows: points.into_iter().flat_map(|point| MODES.iter().map(move |mode| (point, mode))).map(|(point, mode)| row(point, mode)).collect(),
    })
}

/// The ratios that the claims are about.
pub const RATIOS: [(&str, usize, usize); 3] = [
    ("journaled / ordered", 2, 0),
    ("journaled + JFTL / ordered", 3, 0),
    ("ordered + JFTL / ordered", 1, 0),
];

/// The same ratios with what the paper leaves open chosen otherwise.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |(bench, point): (Bench, u64),
               option: Option<usize>,
               (phase, title): (&str, &str)| {
        let rate = |mode: usize| {
            cells
                .with(bench, point, option, &MODES[mode])
                .bandwidth(phase)
        };
        let ratios = RATIOS.map(|(_, upper, lower)| format!("{:.3}", rate(upper) / rate(lower)));
        let name = option.map_or("as declared", |option| OPTIONS[option].0);
        [
            format!(
                "{bench} {} of {}, {title}: {name}",
                if bench == Bench::Bonnie {
                    "file"
                } else {
                    "records"
                },
                named_size(point)
            ),
            format!("{:.3}", rate(0) / 1e6),
        ]
        .into_iter()
        .chain(ratios)
        .collect()
    };
    let rows = LOOKED_AT.into_iter().flat_map(|at| {
        let options =
            (0..OPTIONS.len()).filter(move |option| at.0 == Bench::Iozone || !OPTIONS[*option].2);
        at.0.phases().into_iter().flat_map(move |phase| {
            [None]
                .into_iter()
                .chain(options.clone().map(Some))
                .map(move |option| (at, option, phase))
        })
    });
    let heads = ["", "ordered, MB/s"]
        .into_iter()
        .chain(RATIOS.map(|(name, ..)| name));
    Exhibit::Table(TableExhibit {
        title: "What the paper leaves open".into(),
        about: "Each choice made otherwise, one at a time.".into(),
        heads: heads.map(String::from).collect(),
        rows: rows
            .map(|(at, option, phase)| row(at, option, phase))
            .collect(),
    })
}

/// How long the flash lasts by mode: a block dies of erases, and these come of programs.
pub fn wear(cells: &Cells) -> Exhibit {
    let row = |(at, with): (usize, usize)| {
        let (copy, remap) = (&MODES[at], &MODES[with]);
        let of = |bench: Bench, mode: &Mode| {
            amplification(cells.of(bench, *bench.points().last().unwrap_or(&0), mode))
        };
        let small =
            |mode: &Mode| amplification(cells.of(Bench::Iozone, Bench::Iozone.points()[0], mode));
        let values = [
            of(Bench::Bonnie, copy),
            of(Bench::Bonnie, remap),
            of(Bench::Bonnie, copy) / of(Bench::Bonnie, remap),
            small(copy),
            small(remap),
            small(copy) / small(remap),
        ];
        [remap.name.to_string()]
            .into_iter()
            .chain(values.map(|value| format!("{value:.3}")))
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "Lifetime gained".into(),
        about: "Bytes programmed for each byte written, and how many times as much can be written before the same number of programs is reached.".into(),
        heads: strings(&[
            "",
            "Bonnie 64 MiB, copying",
            "remapping",
            "times the lifetime",
            "IOzone 4 KiB records, copying",
            "remapping",
            "times the lifetime",
        ]),
        rows: [(0, 1), (2, 3), (4, 5), (0, 6), (2, 7)].map(row).into(),
    })
}
