//! Draws Figure 2 and the tables behind Table 1: where writes go, where time goes, what the flash
//! does.

use super::cells::{Cell, Cells, TABLE_1};
use crate::{Drawn, Exhibit, Figure, Quantity, line};
use nandlab_lab::play::regions::{Region, Tally};
use nandlab_lab::result::FlashRow;
use nandlab_lab::run::FilesOutcome;

/// Figure 2: sector over number of write, before and after metadata is absorbed.
pub fn figure_2(cells: &Cells) -> Exhibit {
    let scatter = |title: &str, run: &FilesOutcome| Figure {
        title: title.into(),
        about: format!(
            "{} sector writes; of each region at most 500 dots are drawn.",
            run.writes.total()
        ),
        x: "number of the write".into(),
        y: "sector of the volume".into(),
        drawn: Drawn::Dots,
        of: (Quantity::Count, Quantity::Count),
        series: run
            .writes
            .points()
            .map(|(region, points)| (region.to_string(), points.iter().map(dot).collect()))
            .collect(),
    };
    let cool = &cells.of(&TABLE_1[1], false).run;
    let plots = vec![
        scatter("(a) metadata on flash", cells.hot()),
        scatter("(b) metadata in NVRAM", cool),
    ];
    Exhibit::Figures("Figure 2: write reference pattern".into(), plots)
}

fn dot((write, sector): &(u64, u64)) -> (f64, f64) {
    (*write as f64, *sector as f64)
}

/// Sector writes by region.
pub fn regions(cells: &Cells) -> Exhibit {
    let total = cells.hot().writes.total();
    let row = |(region, tally): (Region, Tally)| {
        let share = format!("{:.2} %", tally.writes as f64 / total as f64 * 100.0);
        vec![
            region.to_string(),
            tally.writes.to_string(),
            share,
            tally.sectors.to_string(),
        ]
    };
    Exhibit::table(
        "Where the writes go",
        "Sectors written with metadata on flash.",
        ["", "writes", "share", "different sectors"],
        cells.hot().writes.regions().map(row),
    )
}

/// Where the time of each run goes.
pub fn time(cells: &Cells) -> Exhibit {
    let row = |cell: &Cell| {
        let flash = &cell.run.outcome.result.flash;
        let busy =
            flash.die_busy.iter().sum::<f64>() / flash.die_busy.len().max(1) as f64 * cell.bare;
        let calls = cell.run.calls_ns as f64 / 1e9;
        let values = [cell.bare, busy, calls, cell.bare - busy - calls];
        line(named(cell), values.map(|seconds| format!("{seconds:.1}")))
    };
    Exhibit::table(
        "Where the time goes",
        "Seconds. Chip: the die at work, driver and transfers included as far as they overlap. Calls: the file system's own instructions. Rest: block layer, translation \
                layer, transfers, NVRAM. Nothing calibrated.",
        ["", "in all", "chip", "calls", "rest"],
        cells.all().iter().map(row),
    )
}

/// Runs that differ in nothing but their layer.
fn named(cell: &Cell) -> String {
    format!("{} ({})", cell.layer.name, super::word(cell.hot))
}

/// What the flash did.
pub fn operations(cells: &Cells) -> Exhibit {
    let row = |cell: &Cell| {
        let result = &cell.run.outcome.result;
        let sum = |pick: fn(&FlashRow) -> u64| result.flash.total(pick);
        let counts = [
            sum(|r| r.reads + r.copies) - sum(|r| r.oob_reads),
            sum(|r| r.programs + r.copies) - sum(|r| r.oob_programs),
            sum(|r| r.oob_reads),
            sum(|r| r.oob_programs),
            sum(|r| r.erases),
        ];
        let m = result.flash.merges;
        let merges = [
            m.switch,
            m.partial,
            m.full,
            m.folds_in_place,
            m.folds_elsewhere,
        ]
        .map(|count| match count {
            0 => "-".into(),
            count => count.to_string(),
        });
        let counts = counts.map(|count| count.to_string());
        line(named(cell), counts.into_iter().chain(merges))
    };
    Exhibit::table(
        "What the flash does",
        "Operations while the workload runs, on a used device whose partition begins with an erase block. A page copied is one read and one program.",
        [
            "",
            "page reads",
            "page programs",
            "OOB reads",
            "OOB programs",
            "erases",
            "switch merges",
            "partial",
            "full",
            "folds in place",
            "elsewhere",
        ],
        cells.all().iter().map(row),
    )
}
