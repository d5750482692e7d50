//! S.-H. Lim, S.-H. Baek, J.-Y. Hwang, K.-H. Park, "Write Back Routine for JFFS2 Efficient I/O"
//! (EUC 2006): its table and figure run, its claims judged.

mod cells;
mod figures;
mod published;

use super::{Assumption, Claim, Found, PaperError, Row, Watch, listed, range};
use crate::runs::{Variant, described};
use cells::{BLOCKS, Cells, FOUR_THREADS, MERGED_IN_NODES, MERGED_IN_PAGES, SYSTEMS};
use nandlab_lab::verdict::Verdict;
use nandlab_workload::Op;
use published::{CLASSES, SIZES, TABLE};

/// Lengths that the memory holds: up to 8 MB. 16 and 32 MB are beyond it.
const WITHIN: usize = 4;
/// The systems by their places in [`SYSTEMS`].
const EXT2: usize = 0;
const JFFS2: usize = 1;
const WB: usize = 2;

/// Runs the table, the figure and what surrounds them.
pub fn reproduce(watch: Watch<'_>) -> Result<Found, PaperError> {
    let cells = Cells::run(watch)?;
    let distances: Distances = (0..SYSTEMS.len())
        .map(|system| distances(&cells, system))
        .collect();
    let tables = (0..SYSTEMS.len()).map(|system| figures::table(&cells, system));
    let figures = [Op::Write, Op::Read]
        .into_iter()
        .flat_map(|op| [figures::figure(&cells, op), figures::latencies(&cells, op)]);
    let behind = [
        figures::fills(&cells),
        figures::deferred(&cells),
        figures::open(&cells),
        figures::distances(&cells),
        figures::elsewhere(&cells),
    ];
    Ok(Found {
        rows: rows(&cells, &distances),
        claims: claims(&cells, &distances),
        assumptions: Assumption::all(&described!("jffs2-wb/assumptions.toml"), Some("omap5912"))?,
        exhibits: tables.chain(figures).chain(behind).collect(),
    })
}

/// Distances between the published and the measured distribution, by system and size.
type Distances = Vec<Vec<f64>>;

/// Shares of quick writes, and how often JFFS2 fills a page.
fn rows(cells: &Cells, distances: &Distances) -> Vec<Row> {
    let mut rows = Vec::new();
    for (system, part) in TABLE.iter().enumerate() {
        let bound = part.bounds[part.slow] as f64 / 1e6;
        let Variant { key, name, .. } = SYSTEMS[system];
        rows.extend(SIZES.iter().zip(&part.counts).map(|(size, counts)| {
            let latencies = cells.of(system, *size, 4096).latencies(Op::Write);
            let mib = size >> 20;
            Row::new(
                format!("table-2/{key}/{mib}/quick"),
                format!("{name}, {mib} MB: share of writes below {bound} ms"),
                "",
                Some(part.quick(counts)),
                part.quick(&part.classify(latencies)),
            )
        }));
    }
    for (variant, by_size) in SYSTEMS.iter().zip(distances) {
        let Variant { key, name, .. } = variant;
        let of_size = |(size, distance): (&u64, &f64)| {
            let mib = size >> 20;
            Row::new(
                format!("table-2/{key}/{mib}/distance"),
                format!(
                    "{name}, {mib} MB: distance between published and measured latencies, 0 to 1"
                ),
                "",
                None,
                *distance,
            )
        };
        rows.extend(SIZES.iter().zip(by_size).map(of_size));
    }
    rows.extend(TABLE.iter().enumerate().map(|(system, part)| {
        let counts = &part.counts[WITHIN - 1];
        let class = (0..CLASSES).max_by_key(|class| counts[*class]).unwrap_or(0);
        let [from, to] = [class, class + 1]
            .map(|class| part.bounds.get(class).map_or(0.0, |ns| *ns as f64 / 1e6));
        let cell = cells.of(system, SIZES[WITHIN - 1], 4096);
        let mut latencies: Vec<u64> = cell.latencies(Op::Write).collect();
        latencies.sort_unstable();
        let Variant { key, name, .. } = SYSTEMS[system];
        Row::new(
            format!("table-2/{key}/8/median"),
            format!(
                "{name}, 8 MB: median of writes; the paper's largest class is {from} to {to} ms"
            ),
            "ms",
            None,
            latencies[latencies.len() / 2] as f64 / 1e6,
        )
    }));
    // The paper counts writes of 4 to 5 ms, which is another thing.
    rows.extend(SIZES.iter().map(|size| {
        let mib = size >> 20;
        Row::new(
            format!("table-2/jffs2/{mib}/fills"),
            format!("JFFS2, {mib} MB: fills of the write buffer"),
            "",
            None,
            cells.of(JFFS2, *size, 4096).programs() as f64,
        )
    }));
    rows
}

/// Those of one system.
fn distances(cells: &Cells, system: usize) -> Vec<f64> {
    let part = &TABLE[system];
    let of_size = |(size, counts): (&u64, &[u32; CLASSES])| {
        let latencies = cells.of(system, *size, 4096).latencies(Op::Write);
        part.distance(counts, &part.classify(latencies))
    };
    SIZES.iter().zip(&part.counts).map(of_size).collect()
}

/// Whether whole distributions of latencies are those of Table 2 while memory lasts: no test at
/// 5 % tells them apart.
fn on_distributions(all: &Distances) -> Claim {
    let critical = |size: u64| 1.36 * (2.0 / (size / 4096) as f64).sqrt();
    let is_same = |distances: &Vec<f64>| {
        let mut pairs = SIZES.iter().zip(distances).take(WITHIN);
        pairs.all(|(size, distance)| *distance < critical(*size))
    };
    let measured = SYSTEMS.iter().zip(all).map(|(system, distances)| {
        let each = distances.iter().map(|distance| format!("{distance:.3}"));
        format!("{}: {}", system.name, listed(each))
    });
    let needed = SIZES[..WITHIN]
        .iter()
        .map(|size| format!("{:.3}", critical(*size)));
    Claim::new(
        "distributions",
        "Latencies of writes are distributed as in Table 2 (Kolmogorov-Smirnov at the bounds of \
        its classes, 5 %, 1 to 8 MB)",
        Verdict::of(all.iter().all(is_same)),
        format!(
            "distance, 1 to 32 MB: {}; needed below {}",
            measured.collect::<Vec<_>>().join("; "),
            listed(needed)
        ),
    )
}

/// Means of blocks of 4 KiB, by size.
fn means(cells: &Cells, system: usize, op: Op) -> Vec<f64> {
    let mean = |size: &u64| cells.of(system, *size, 4096).mean(op);
    SIZES.iter().map(mean).collect()
}

/// How many times the least the largest is.
fn spread(values: &[f64]) -> f64 {
    let (least, most) = range(values);
    most / least
}

fn in_ms(values: &[f64]) -> String {
    listed(values.iter().map(|ns| format!("{:.3}", ns / 1e6)))
}

/// The claims on reads: "similar to that of write except the average latency of JFFS2".
fn on_reads(cells: &Cells) -> [Claim; 2] {
    let [ext2, jffs2, wb] = [EXT2, JFFS2, WB].map(|system| means(cells, system, Op::Read));
    let writes = means(cells, JFFS2, Op::Write);
    let is_cached = (0..WITHIN).all(|at| jffs2[at] <= writes[at] / 2.0);
    let rises = |means: &Vec<f64>| spread(&means[..WITHIN]) < 2.0 && means[5] >= 2.0 * means[3];
    [
        Claim::new(
            "reads-cached",
            "While memory lasts the mean read of JFFS2 is a fraction of its mean write, by the \
             cache: a half or less",
            Verdict::of(is_cached),
            format!(
                "ms, 1 to 8 MB: reads {}; writes {}",
                in_ms(&jffs2[..WITHIN]),
                in_ms(&writes[..WITHIN])
            ),
        ),
        Claim::new(
            "reads-like-writes",
            "Means of reads of EXT2 and of the routine rise from 16 MB on as those of writes, \
             twofold or more",
            Verdict::of([&ext2, &wb].into_iter().all(rises)),
            format!(
                "ms, 1 to 32 MB: EXT2 {}; JFFS2-WB {}",
                in_ms(&ext2),
                in_ms(&wb)
            ),
        ),
    ]
}

/// Four threads in place of one, and writes merged over pages.
fn on_choices(cells: &Cells) -> [Claim; 2] {
    let quick = cells.with(WB, FOUR_THREADS, SIZES[WITHIN - 1]).quick();
    let largest = SIZES[SIZES.len() - 1];
    let apart = cells.of(WB, largest, 4096).programs();
    let merged =
        [MERGED_IN_PAGES, MERGED_IN_NODES].map(|option| cells.with(WB, option, largest).programs());
    let [in_pages, in_nodes] = merged;
    [
        Claim::new(
            "wb-quick-threads",
            "With the routine and four threads at least 95 % of writes take less than 0.4 ms, 8 MB \
             in all",
            Verdict::of(quick >= 0.95),
            format!("{:.1} %", quick * 100.0),
        ),
        Claim::new(
            "merging",
            "The routine saves page programs if it merges writes over pages: half or more, 32 MB",
            Verdict::of(in_nodes * 2 <= apart),
            format!(
                "{apart} programs, {in_pages} merged in nodes of a page, {in_nodes} in nodes of up \
                 to 64 KiB"
            ),
        ),
    ]
}

/// What the paper claims.
fn claims(cells: &Cells, distances: &Distances) -> Vec<Claim> {
    let writes = |system: usize, at: usize| cells.of(system, SIZES[at], 4096);
    let quick: Vec<f64> = (0..WITHIN).map(|at| writes(WB, at).quick()).collect();
    let ext2 = means(cells, EXT2, Op::Write);
    let jffs2 = means(cells, JFFS2, Op::Write);
    let wb = means(cells, WB, Op::Write);
    let peaks: Vec<f64> = [4, 5]
        .into_iter()
        .flat_map(|at| {
            [EXT2, WB].map(|system| {
                writes(system, at).longest(Op::Write) as f64 / writes(system, at).mean(Op::Write)
            })
        })
        .collect();
    let by_block: Vec<Vec<f64>> = (0..SYSTEMS.len())
        .map(|system| {
            BLOCKS
                .map(|block| cells.of(system, SIZES[3], block).mean(Op::Write))
                .to_vec()
        })
        .collect();
    let mut claims = vec![
        on_distributions(distances),
        Claim::new(
            "wb-quick",
            "With the routine at least 95 % of writes take less than 0.4 ms while memory lasts (1 to 8 MB)",
            Verdict::of(quick.iter().all(|share| *share >= 0.95)),
            listed(quick.iter().map(|share| format!("{:.1} %", share * 100.0))),
        ),
        Claim::new(
            "wb-faster",
            "While memory lasts, mean latencies of EXT2 and of JFFS2 with the routine are a fraction of JFFS2's: a half or less",
            Verdict::of(
                (0..WITHIN).all(|at| ext2[at] <= jffs2[at] / 2.0 && wb[at] <= jffs2[at] / 2.0),
            ),
            format!(
                "ms: EXT2 {}; JFFS2 {}; JFFS2-WB {}",
                in_ms(&ext2[..WITHIN]),
                in_ms(&jffs2[..WITHIN]),
                in_ms(&wb[..WITHIN])
            ),
        ),
        Claim::new(
            "threshold",
            "About 16 MB is the threshold: from there on the means of EXT2 and of the routine increase dramatically, twofold or more",
            Verdict::of(
                [&ext2, &wb]
                    .iter()
                    .all(|means| spread(&means[..WITHIN]) < 2.0 && means[5] >= 2.0 * means[3]),
            ),
            format!(
                "ms, 1 to 32 MB: EXT2 {}; JFFS2-WB {}",
                in_ms(&ext2),
                in_ms(&wb)
            ),
        ),
        Claim::new(
            "jffs2-steady",
            "JFFS2 shows a steady mean while the file grows: within a quarter",
            Verdict::of(spread(&jffs2) <= 1.25),
            format!("ms: {}", in_ms(&jffs2)),
        ),
        Claim::new(
            "beyond-worse",
            "Beyond the threshold EXT2 and the routine have higher mean latencies than JFFS2",
            Verdict::of(
                [4, 5]
                    .into_iter()
                    .all(|at| ext2[at] > jffs2[at] && wb[at] > jffs2[at]),
            ),
            format!(
                "ms at 16 and 32 MB: EXT2 {}; JFFS2 {}; JFFS2-WB {}",
                in_ms(&ext2[4..]),
                in_ms(&jffs2[4..]),
                in_ms(&wb[4..])
            ),
        ),
        Claim::new(
            "maxima",
            "Beyond it the longest latency is thousands of times the mean",
            Verdict::of(peaks.iter().all(|ratio| *ratio >= 1000.0)),
            format!(
                "longest over mean at 16 MB: EXT2 {:.0}, JFFS2-WB {:.0}; at 32 MB: {:.0}, {:.0}",
                peaks[0], peaks[1], peaks[2], peaks[3]
            ),
        ),
        Claim::new(
            "blocks",
            "Mean latencies grow with the block",
            Verdict::of(by_block.iter().all(|means| means.is_sorted())),
            SYSTEMS
                .iter()
                .zip(&by_block)
                .map(|(system, means)| {
                    format!(
                        "{} at 8 MB, blocks of 4, 64, 128 KiB: {} ms",
                        system.name,
                        in_ms(means)
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
        ),
    ];
    claims.extend(on_reads(cells));
    claims.extend(on_choices(cells));
    claims
}
