//! B. Singh, R. V. Dongre, "UBI with Logging" (Linux Symposium 2010): its figure and table run, its
//! claims judged, and what it left to future work beside them.

mod attach;
mod figures;
mod io;
mod mount;
mod ubifs;

use super::{Assumption, Claim, Found, PaperError, Row, Watch, listed};
use crate::runs::described;
use attach::{
    Attach, Attaches, CHAINED, COMPRESSED, Cell, GIBIBYTE, SCAN, SMALL, Size, UBIL, WAYS, Way,
};
use io::{Cells, IN_TABLE, PHASES, SYSTEMS};
use mount::Starts;
use nandlab_lab::verdict::{Sample, Verdict};
use ubifs::UbifsCells;

/// Reductions of the attach time at 1 GB: "more than 50 %", and what is expected of optimizations.
const PUBLISHED: [f64; 2] = [0.5, 0.7];
/// Table 1, MB/s: UBI and UBIL, in the order of [`PHASES`].
const TABLE: [[f64; 2]; IN_TABLE] = [[6.33, 6.33], [3.49, 3.71], [6.33, 6.33], [3.39, 3.64]];
/// What two rates may differ by and still be called the same.
const SAME: f64 = 0.01;

/// Ids of the claims on rates: through JFFS2 and through UBIFS, each without and with headers.
const IDS: [[&str; 3]; 4] = [
    ["no-degradation", "writes-gain", "reads-same"],
    [
        "no-degradation-headers",
        "writes-gain-headers",
        "reads-same-headers",
    ],
    [
        "no-degradation-ubifs",
        "writes-gain-ubifs",
        "reads-same-ubifs",
    ],
    [
        "no-degradation-ubifs-headers",
        "writes-gain-ubifs-headers",
        "reads-same-ubifs-headers",
    ],
];

/// Runs the figure, the table and what surrounds them.
pub fn reproduce(watch: Watch<'_>) -> Result<Found, PaperError> {
    let experiment = io::IOZONE.with([""; 0])?;
    let host = experiment
        .stack
        .host
        .as_ref()
        .ok_or_else(|| PaperError::wrong("ubil", "no processor"))?;
    let chip = nandlab_nand::ChipSpec {
        timing: host.driven(&experiment.stack.chip.spec.timing),
        ..experiment.stack.chip.spec.clone()
    };
    let attaches = Attaches::run(&chip, host, watch)?;
    let starts = Starts::run(&chip, host, watch)?;
    let cells = Cells::run(watch)?;
    let on_ubifs = UbifsCells::run(watch)?;
    let [clean, unclean]: [fn(&Cell) -> &Attach; 2] = [|cell| &cell.clean, |cell| &cell.unclean];
    let times = [(Size::small(), ""), (Size::large(), ", blocks of 4 MiB")].map(|(sizes, of)| {
        let title = format!("Attach after a detach{of}");
        let after = format!("Attach after 150 changes without a detach{of}");
        [
            figures::times(&attaches, &title, &sizes, clean),
            figures::times(&attaches, &after, &sizes, unclean),
        ]
    });
    let behind = [
        figures::parts(&attaches),
        figures::growth(&attaches),
        figures::break_even(&attaches),
        starts.table(),
        on_ubifs.table(),
        figures::table(&cells),
        figures::work(&cells),
        figures::difference(&cells, &chip),
        figures::open(&cells),
    ];
    let figure = [figures::figure(&attaches)].into_iter();
    Ok(Found {
        rows: rows(&attaches, &cells, &on_ubifs),
        claims: claims(&attaches, &cells, &on_ubifs),
        assumptions: Assumption::all(&described!("ubil/assumptions.toml"), Some("omap2420"))?,
        exhibits: figure
            .chain(times.into_iter().flatten())
            .chain(behind)
            .collect(),
    })
}

/// By how much an attach is shorter than by a scan: 0.5 is half.
fn reduction(scan: &Attach, attach: &Attach) -> f64 {
    1.0 - attach.total() / scan.total()
}

/// Reductions at 1 GiB, and Table 1.
fn rows(attaches: &Attaches, cells: &Cells, on_ubifs: &UbifsCells) -> Vec<Row> {
    let scan = &attaches.small(SCAN, GIBIBYTE).clean;
    let published = |way: usize| match way {
        UBIL => Some(PUBLISHED[0]),
        CHAINED => Some(PUBLISHED[1]),
        _ => None,
    };
    let reductions = (1..WAYS.len()).map(|way| {
        let Way { key, name, .. } = &WAYS[way];
        Row::new(
            format!("figure-4/{key}/1-GiB/reduction"),
            format!("{name}: reduction of the attach time at 1 GiB; published are least values"),
            "",
            published(way),
            reduction(scan, &attaches.small(way, GIBIBYTE).clean),
        )
    });
    let times = WAYS.iter().enumerate().map(|(at, way)| {
        Row::new(
            format!("figure-4/{}/1-GiB/ms", way.key),
            format!("{}: attach of 1 GiB after a detach", way.name),
            "ms",
            None,
            attaches.small(at, GIBIBYTE).clean.total() / 1e6,
        )
    });
    let rates = PHASES.iter().enumerate().flat_map(|(at, (phase, name))| {
        [io::UBI, io::UBIL].map(|system| {
            Row::new(
                format!("table-1/{}/{phase}", SYSTEMS[system].key),
                format!("{name}, {}", SYSTEMS[system].name),
                "MB/s",
                TABLE.get(at).map(|rates| rates[system]),
                cells.rate(system, phase).mean / 1e6,
            )
        })
    });
    let rates = on_ubifs.rows().into_iter().chain(rates);
    reductions.chain(times).chain(rates).collect()
}

/// What the paper claims.
fn claims(attaches: &Attaches, cells: &Cells, on_ubifs: &UbifsCells) -> Vec<Claim> {
    let at = |way: usize, blocks: u32| &attaches.small(way, blocks).clean;
    let reductions = |way: usize| SMALL.map(|blocks| reduction(at(SCAN, blocks), at(way, blocks)));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let at_gibibyte = |way: usize| reduction(at(SCAN, GIBIBYTE), at(way, GIBIBYTE));
    let linear = attaches.exponent(SCAN, &Size::small(), |cell| cell.clean.total());
    let rise = |way: usize| at(way, GIBIBYTE).total() - at(way, SMALL[0]).total();
    let by_size = reductions(UBIL);
    let of_attach = [
        Claim::new(
            "linear",
            "UBI's attach time increases linearly with the size of the partition: as its power 0.95 to 1.05",
            Verdict::of((0.95..=1.05).contains(&linear)),
            format!("{linear:.3}, 64 MiB to 8 GiB"),
        ),
        Claim::new(
            "half",
            "UBIL reduces the attach time of 1 GB by more than 50 %",
            Verdict::of(at_gibibyte(UBIL) > PUBLISHED[0]),
            format!(
                "{}; compressed {}",
                percent(at_gibibyte(UBIL)),
                percent(at_gibibyte(COMPRESSED))
            ),
        ),
        Claim::new(
            "seventy",
            "With optimizations it is expected to be reduced by up to 70 %: incremental commits and chained super blocks reach that",
            Verdict::of(at_gibibyte(CHAINED) >= PUBLISHED[1]),
            percent(at_gibibyte(CHAINED)),
        ),
        Claim::new(
            "minimal",
            "UBIL's increase with the size is very minimal in comparison to UBI: a tenth or less, from 64 MiB to 1 GiB",
            Verdict::of(rise(UBIL) <= rise(SCAN) / 10.0),
            format!(
                "{:.1} ms against {:.0} ms, {}",
                rise(UBIL) / 1e6,
                rise(SCAN) / 1e6,
                percent(rise(UBIL) / rise(SCAN))
            ),
        ),
        Claim::new(
            "better-with-size",
            "As the partition grows, UBIL performs better than UBI in attach time: its reduction grows from each size to the next",
            Verdict::of(by_size.is_sorted()),
            format!("64 MiB to 8 GiB: {}", by_size.map(percent).join(", ")),
        ),
    ];
    let layouts = [(io::UBIL, IDS[0]), (io::WITH_HEADERS, IDS[1])];
    let through_jffs2 = layouts.into_iter().flat_map(|(system, ids)| {
        let over = |phase: &str| cells.over_ubi(system, phase);
        on_rates(&over, system, ("JFFS2", ids))
    });
    let layouts = [(io::UBIL, IDS[2]), (io::WITH_HEADERS, IDS[3])];
    let through_ubifs = layouts.into_iter().flat_map(|(system, ids)| {
        let over = |phase: &str| on_ubifs.over_ubi(system, phase);
        on_rates(&over, system, ("UBIFS", ids))
    });
    of_attach
        .into_iter()
        .chain(through_jffs2)
        .chain(through_ubifs)
        .collect()
}

/// Claims on Table 1 for one of UBIL's layouts, through a file system.
fn on_rates(
    over: &dyn Fn(&str) -> Sample,
    system: usize,
    (fs, ids): (&str, [&'static str; 3]),
) -> [Claim; 3] {
    let layout = format!("{fs}, {}", SYSTEMS[system].name);
    let over = |phase: usize| over(PHASES[phase].0);
    let change = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let list = |phases: &[usize]| {
        let reported =
            |phase: &usize| format!("{} {}", PHASES[*phase].1, over(*phase).reported(change));
        listed(phases.iter().map(reported))
    };
    let published = |phase: usize| {
        let [ubi, ubil] = TABLE[phase];
        format!("{} {}", PHASES[phase].1, change(ubil / ubi))
    };
    let reads = [0, 2, 4];
    let writes = [1, 3];
    let all: Vec<usize> = (0..PHASES.len()).collect();
    let verdict = |phases: &[usize], of: &dyn Fn(Sample) -> Verdict| {
        Verdict::all(phases.iter().map(|phase| of(over(*phase))))
    };
    [
        Claim::new(
            ids[0],
            format!(
                "UBIL introduces no degradation of reads and writes: no rate is more than a hundredth lower, random ones included ({layout})"
            ),
            verdict(&all, &|over| over.above(1.0 - SAME)),
            list(&all),
        ),
        Claim::new(
            ids[1],
            format!("UBIL writes faster, by 6.3 % and 7.4 % in Table 1: by 5 % or more ({layout})"),
            verdict(&writes, &|over| over.above(1.05)),
            format!(
                "here {}; published {}",
                list(&writes),
                listed(writes.map(published))
            ),
        ),
        Claim::new(
            ids[2],
            format!("Reads are as fast on UBIL as on UBI: within a hundredth ({layout})"),
            verdict(&reads, &|over| over.within(1.0 - SAME, 1.0 + SAME)),
            list(&reads),
        ),
    ]
}
