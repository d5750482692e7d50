//! B. Singh, R. V. Dongre, "UBI with Logging" (Linux Symposium 2010): its figure and table run, its
//! claims judged, and what it left to future work beside them.

mod attach;
mod declared;
mod figures;
mod io;

use super::{Assumption, Basis, Claim, PaperError, PaperResult, Progress, Reproduction, Row};
use attach::{Attach, Attaches, CHAINED, COMPRESSED, GIBIBYTE, SCAN, SMALL, UBIL, WAYS};
use io::{Cells, IN_TABLE, PHASES, SYSTEMS};

pub const TITLE: &str = "UBI with Logging (2010)";
const ID: &str = "ubil";

/// Reductions of the attach time at 1 GB: "more than 50 %", and what is expected of optimizations.
const PUBLISHED: [f64; 2] = [0.5, 0.7];
/// Table 1, MB/s: UBI and UBIL, in the order of [`PHASES`].
const TABLE: [[f64; 2]; IN_TABLE] = [[6.33, 6.33], [3.49, 3.71], [6.33, 6.33], [3.39, 3.64]];
/// What two rates may differ by and still be called the same.
const SAME: f64 = 0.01;

/// Runs the figure, the table and what surrounds them.
pub fn reproduce(watch: &(dyn Fn(Progress) + Sync)) -> Result<Reproduction, PaperError> {
    let experiment = io::experiment(&[])?;
    let host = experiment
        .stack
        .host
        .as_ref()
        .ok_or_else(|| PaperError::Wrong(ID.into(), "no processor".into()))?;
    let chip = nandlab_nand::ChipSpec {
        timing: host.driven(&experiment.stack.chip.spec.timing),
        ..experiment.stack.chip.spec.clone()
    };
    let attaches = Attaches::run(&chip, host, &|share| {
        watch(Progress {
            phase: "attaches",
            share,
        })
    })?;
    let cells = Cells::run(&|share| {
        watch(Progress {
            phase: "IOzone",
            share,
        })
    })?;
    let (small, large) = (figures::small(), figures::large());
    let exhibits = vec![
        figures::figure(&attaches),
        figures::times(&attaches, "Attach after a detach", &small, |cell| {
            &cell.clean
        }),
        figures::times(
            &attaches,
            "Attach after 150 changes without a detach",
            &small,
            |cell| &cell.unclean,
        ),
        figures::times(
            &attaches,
            "Attach after a detach, blocks of 4 MiB",
            &large,
            |cell| &cell.clean,
        ),
        figures::times(
            &attaches,
            "Attach after 150 changes without a detach, blocks of 4 MiB",
            &large,
            |cell| &cell.unclean,
        ),
        figures::parts(&attaches),
        figures::growth(&attaches),
        figures::break_even(&attaches),
        figures::table(&cells),
        figures::work(&cells),
        figures::difference(&cells, &chip),
        figures::open(&cells),
    ];
    let result = PaperResult {
        paper: ID.into(),
        rows: rows(&attaches, &cells),
        claims: claims(&attaches, &cells),
        assumptions: Assumption::all(&declared::OPEN, Some("omap2420"))?,
    };
    Ok(Reproduction {
        result,
        title: TITLE,
        exhibits,
    })
}

/// By how much an attach is shorter than by a scan: 0.5 is half.
fn reduction(scan: &Attach, attach: &Attach) -> f64 {
    1.0 - attach.total() / scan.total()
}

/// Reductions at 1 GiB, and Table 1.
fn rows(attaches: &Attaches, cells: &Cells) -> Vec<Row> {
    let scan = &attaches.small(SCAN, GIBIBYTE).clean;
    let published = |way: usize| match way {
        UBIL => Some(PUBLISHED[0]),
        CHAINED => Some(PUBLISHED[1]),
        _ => None,
    };
    let reductions = (1..WAYS.len()).map(|way| Row {
        id: format!("figure-4/{}/1-GiB/reduction", WAYS[way].key),
        what: format!(
            "{}: reduction of the attach time at 1 GiB; published are least values",
            WAYS[way].name
        ),
        unit: "",
        published: published(way),
        measured: reduction(scan, &attaches.small(way, GIBIBYTE).clean),
        basis: Basis::Predicted,
    });
    let times = (0..WAYS.len()).map(|way| Row {
        id: format!("figure-4/{}/1-GiB/ms", WAYS[way].key),
        what: format!("{}: attach of 1 GiB after a detach", WAYS[way].name),
        unit: "ms",
        published: None,
        measured: attaches.small(way, GIBIBYTE).clean.total() / 1e6,
        basis: Basis::Predicted,
    });
    let rates = PHASES.iter().enumerate().flat_map(|(at, (phase, name))| {
        [io::UBI, io::UBIL].map(|system| Row {
            id: format!("table-1/{}/{phase}", SYSTEMS[system].key),
            what: format!("{name}, {}", SYSTEMS[system].name),
            unit: "MB/s",
            published: TABLE.get(at).map(|rates| rates[system]),
            measured: cells.of(system).rate(phase) / 1e6,
            basis: Basis::Predicted,
        })
    });
    reductions.chain(times).chain(rates).collect()
}

/// What the paper claims.
fn claims(attaches: &Attaches, cells: &Cells) -> Vec<Claim> {
    let at = |way: usize, blocks: u32| &attaches.small(way, blocks).clean;
    let reductions = |way: usize| SMALL.map(|blocks| reduction(at(SCAN, blocks), at(way, blocks)));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let at_gibibyte = |way: usize| reduction(at(SCAN, GIBIBYTE), at(way, GIBIBYTE));
    let linear = attaches.exponent(SCAN, &figures::small(), |cell| cell.clean.total());
    let rise = |way: usize| at(way, GIBIBYTE).total() - at(way, SMALL[0]).total();
    let by_size = reductions(UBIL);
    let change = |phase: usize| {
        cells.of(io::UBIL).rate(PHASES[phase].0) / cells.of(io::UBI).rate(PHASES[phase].0) - 1.0
    };
    let published = |phase: usize| TABLE[phase][io::UBIL] / TABLE[phase][io::UBI] - 1.0;
    let list = |of: &dyn Fn(usize) -> f64| {
        (0..IN_TABLE)
            .map(|at| format!("{} {:+.1} %", PHASES[at].1, of(at) * 100.0))
            .collect::<Vec<_>>()
            .join(", ")
    };
    vec![
        Claim {
            id: "linear",
            statement: "UBI's attach time increases linearly with the size of the partition: as its power 0.95 to 1.05".into(),
            holds: (0.95..=1.05).contains(&linear),
            evidence: format!("{linear:.3}, 64 MiB to 8 GiB"),
        },
        Claim {
            id: "half",
            statement: "UBIL reduces the attach time of 1 GB by more than 50 %".into(),
            holds: at_gibibyte(UBIL) > PUBLISHED[0],
            evidence: format!("{}; compressed {}", percent(at_gibibyte(UBIL)), percent(at_gibibyte(COMPRESSED))),
        },
        Claim {
            id: "seventy",
            statement:
                "With optimizations it is expected to be reduced by up to 70 %: incremental commits and chained super blocks reach that"
                    .into(),
            holds: at_gibibyte(CHAINED) >= PUBLISHED[1],
            evidence: percent(at_gibibyte(CHAINED)),
        },
        Claim {
            id: "minimal",
            statement: "UBIL's increase with the size is very minimal in comparison to UBI: a tenth or less, from 64 MiB to 1 GiB".into(),
            holds: rise(UBIL) <= rise(SCAN) / 10.0,
            evidence: format!("{:.1} ms against {:.0} ms, {}", rise(UBIL) / 1e6, rise(SCAN) / 1e6, percent(rise(UBIL) / rise(SCAN))),
        },
        Claim {
            id: "better-with-size",
            statement:
                "As the partition grows, UBIL performs better than UBI in attach time: its reduction grows from each size to the next"
                    .into(),
            holds: by_size.is_sorted(),
            evidence: format!("64 MiB to 8 GiB: {}", by_size.map(percent).join(", ")),
        },
        Claim {
            id: "no-degradation",
            statement: "UBIL introduces no degradation of reads and writes: no rate of Table 1 is more than a hundredth lower".into(),
            holds: (0..IN_TABLE).all(|at| change(at) >= -SAME),
            evidence: list(&change),
        },
        Claim {
            id: "writes-gain",
            statement: "UBIL writes faster, by 6.3 % and 7.4 % in Table 1: by 5 % or more".into(),
            holds: [1, 3].into_iter().all(|at| change(at) >= 0.05),
            evidence: format!("here {}; published {}", list(&change), list(&published)),
        },
        Claim {
            id: "reads-same",
            statement: "Reads are as fast on UBIL as on UBI: within a hundredth".into(),
            holds: [0, 2].into_iter().all(|at| change(at).abs() <= SAME),
            evidence: list(&change),
        },
    ]
}
