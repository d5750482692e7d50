//! I. H. Doh, M. S. Shim, E. Kim, J. Choi, D. Lee, S. H. Noh: "An Empirical Study of FTL
//! Performance in Conjunction with File System Pursuing Data Integrity", IEICE Trans. Inf. & Syst.
//! E93-D(8), 2010.
//!
//! Table 1 and Figure 2, then what the paper leaves open: other layers, the options of each layer,
//! where the partition begins, and a write cache inside the layer, which it names as future work.
//!
//! *Calibration.* One constant, of the board: time for each sector written, the same for all
//! layers. Table 1 stands bare first, and then, in rows of their own, with the constant. Claims are
//! judged bare.

mod cells;
mod figures;
mod sweeps;

use super::{Claim, Found, PaperError, Row, Size, Watch, once, range};
use cells::{BOARD, Cells, LAYERS, Layer, Study, TABLE_1};
use nandlab_lab::verdict::Verdict;

/// Runs all of it.
pub fn reproduce(watch: Watch<'_>, size: Size) -> Result<Found, PaperError> {
    let study = Study::new()?;
    let cells = study.run(watch, size)?;
    let sweeps = sweeps::run(&study, &cells, watch, size)?;
    let table = |published: bool| {
        let layers = LAYERS.iter();
        let layers = layers.filter(|layer| study.published(layer, false).is_some() == published);
        layers
            .flat_map(|layer| [true, false].map(|hot| table_1(&study, &cells, layer, hot)))
            .collect::<Vec<Row>>()
    };
    let mut rows = table(true);
    rows.extend(
        TABLE_1
            .iter()
            .filter_map(|layer| gain(&study, &cells, layer)),
    );
    rows.extend(table(false));
    rows.extend(
        TABLE_1
            .iter()
            .flat_map(|layer| with_board(&study, &cells, layer)),
    );
    rows.extend(statistic(&study, &cells));
    let mut exhibits = vec![
        figures::figure_2(&cells),
        figures::regions(&cells),
        figures::time(&cells),
        figures::operations(&cells),
    ];
    exhibits.extend(sweeps.exhibits());
    Ok(Found {
        rows,
        claims: claims(&cells, &sweeps),
        assumptions: study.assumptions(&cells)?,
        exhibits,
    })
}

fn word(hot: bool) -> &'static str {
    if hot { "hot" } else { "no-hot" }
}

/// A cell of Table 1, or one like it.
fn table_1(study: &Study, cells: &Cells, layer: &Layer, hot: bool) -> Row {
    let published = study.published(layer, hot);
    let part = if published.is_some() {
        "table-1"
    } else {
        "extension"
    };
    let metadata = if hot {
        "metadata on flash"
    } else {
        "metadata in NVRAM"
    };
    Row::new(
        format!("{part}/{}/{}", layer.key, word(hot)),
        format!("Camera-MS500 on {}, {metadata}", layer.name),
        "s",
        published,
        cells.bare_seconds(layer, hot),
    )
}

/// How many times as fast a layer is without hot metadata.
fn gain(study: &Study, cells: &Cells, layer: &Layer) -> Option<Row> {
    let published = study.number(&format!("{}-gain", layer.key))?;
    Some(Row::new(
        format!("section-5/{}/gain", layer.key),
        format!(
            "{}: time with metadata on flash over time with it in NVRAM",
            layer.name
        ),
        "",
        Some(published),
        cells.bare_seconds(layer, true) / cells.bare_seconds(layer, false),
    ))
}

/// Two cells and the gain of a layer with what the board takes for each sector.
fn with_board(study: &Study, cells: &Cells, layer: &Layer) -> [Row; 3] {
    let [hot, cool] = [true, false].map(|hot| cells.board_seconds(layer, hot));
    let row = |key: &str, what: &str, unit, published, measured| {
        Row::new(
            format!("with-board/{}/{key}", layer.key),
            format!("with the board's constant: {}, {what}", layer.name),
            unit,
            published,
            measured,
        )
        .resting_on(BOARD)
    };
    let gain = study.number(&format!("{}-gain", layer.key));
    let [on_flash, in_nvram] = [true, false].map(|hot| study.published(layer, hot));
    [
        row("hot", "metadata on flash", "s", on_flash, hot),
        row("no-hot", "metadata in NVRAM", "s", in_nvram, cool),
        row("gain", "the one over the other", "", gain, hot / cool),
    ]
}

/// 60 % of the writes to 0.2 % of the sectors.
fn statistic(study: &Study, cells: &Cells) -> Vec<Row> {
    let share = cells.hot().writes.metadata();
    let row = |key: &str, what: &str, share: f64| {
        let published = study.number(&format!("{key}-percent"));
        Row::new(
            format!("figure-2/{key}"),
            what,
            "%",
            published,
            share * 100.0,
        )
    };
    vec![
        row(
            "metadata-writes",
            "sector writes that go to FAT and directory",
            share.writes,
        ),
        row(
            "metadata-sectors",
            "sectors that these go to",
            share.sectors,
        ),
    ]
}

/// What the paper claims, judged by runs in which nothing is calibrated.
fn claims(cells: &Cells, sweeps: &sweeps::Sweeps) -> Vec<Claim> {
    let [nftl, bast, fast] = TABLE_1.map(|layer| {
        (
            cells.bare_seconds(&layer, true),
            cells.bare_seconds(&layer, false),
        )
    });
    let hot = format!(
        "{:.0} s, {:.0} s and {:.0} s with nothing calibrated",
        nftl.0, bast.0, fast.0
    );
    let cool = format!(
        "{:.1} s, {:.1} s and {:.1} s with nothing calibrated",
        nftl.1, bast.1, fast.1
    );
    let [h, c] = [[nftl.0, bast.0, fast.0], [nftl.1, bast.1, fast.1]].map(spread);
    let share = cells.hot().writes.metadata();
    let (slower, of) = sweeps.fast_behind_bast();
    vec![
        Claim::new(
            "replacement-suffers",
            "With hot metadata the replacement-block scheme is several times slower than the others",
            once(nftl.0 / bast.0.max(fast.0)).above(3.0),
            format!("replacement, log and FAST: {hot}"),
        ),
        Claim::new(
            "log-beats-fast",
            "With hot metadata the log-block scheme is faster than FAST",
            cells.fast_over_bast().above(1.0),
            format!(
                "log {:.0} s, FAST {:.0} s as declared, FAST over log {}; over all of FAST's \
                options and places of the partition, FAST is the slower in {slower} of {of}",
                bast.0,
                fast.0,
                cells
                    .fast_over_bast()
                    .reported(|ratio| format!("{ratio:.3}"))
            ),
        ),
        misses_switches(cells),
        Claim::new(
            "replacement-best-without-hot",
            "Without hot metadata the replacement-block scheme is the fastest",
            once(nftl.1 / bast.1.min(fast.1)).below(1.0),
            format!("replacement, log and FAST: {cool}"),
        ),
        Claim::new(
            "gap-vanishes",
            "Without hot metadata the difference between the schemes nearly vanishes",
            once(h).above(3.0).and(once(c).below(1.1)),
            format!("slowest over fastest: {h:.1} with, {c:.3} without hot metadata"),
        ),
        Claim::new(
            "sixty-percent",
            "60 % of the writes go to 0.2 % of the sectors",
            Verdict::of(
                (0.59..0.62).contains(&share.writes) && (0.0015..0.0025).contains(&share.sectors),
            ),
            format!(
                "{:.1} % of {} writes to {:.3} % of the sectors",
                share.writes * 100.0,
                cells.hot().writes.total(),
                share.sectors * 100.0
            ),
        ),
    ]
}

/// What the paper gives as the reason why FAST is behind.
fn misses_switches(cells: &Cells) -> Claim {
    let ratio = cells.switches_fast_over_bast();
    Claim::new(
        "fast-misses-switch-merges",
        "FAST misses opportunities to switch merge that the log-block scheme takes: it makes nine \
        tenths as many or fewer",
        ratio.map_or(Verdict::Undecided, |ratio| ratio.below(0.9)),
        ratio.map_or("no switch merges".into(), |ratio| {
            let words = ratio.reported(|ratio| format!("{ratio:.3}"));
            format!("FAST's over the log-block scheme's, metadata on flash: {words}")
        }),
    )
}

/// The largest over the least.
fn spread(values: [f64; 3]) -> f64 {
    let (least, most) = range(&values);
    most / least
}
