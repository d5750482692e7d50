//! The runs of Table 1, and the same on layers that it does not have.

use crate::runs::{Described, Jobs, Variant, Watch, described, variant};
use crate::{Assumption, PaperError, Size};
use nandlab_lab::Experiment;
use nandlab_lab::run::FilesOutcome;
use nandlab_lab::verdict::Sample;

const EXPERIMENT: Described = described!("ftl-study/table-1.toml");

/// A translation layer of the study; its key is its name in `[published]` too.
pub type Layer = Variant;

/// The papers of these layers know no static wear levelling.
const UNLEVELLED: &str = "ftl.wear-threshold=0";

/// The three of Table 1.
pub const TABLE_1: [Layer; 3] = [
    // Linux programs the first page of a unit up to four times, whatever the data sheet says.
    variant(
        "nftl",
        "replacement block (NFTL)",
        &[
            "ftl.scheme=nftl",
            "ftl.ordering=linux",
            "chip.partial-programs=4",
        ],
    ),
    variant("bast", "log block (BAST)", &["ftl.scheme=bast", UNLEVELLED]),
    variant("fast", "FAST", &["ftl.scheme=fast", UNLEVELLED]),
];
/// The layers of the paper, and ours.
pub const LAYERS: [Layer; 6] = [
    TABLE_1[0],
    TABLE_1[1],
    TABLE_1[2],
    variant("sast", "SAST 4:4+2", &["ftl.scheme=sast", UNLEVELLED]),
    variant(
        "page",
        "page mapping",
        &["ftl.scheme=page", "ftl.over-provisioning=0.02", UNLEVELLED],
    ),
    variant("mtdblock", "mtdblock", &["ftl.scheme=mtdblock"]),
];

/// The experiment, to be varied.
pub struct Study {
    published: Vec<(String, f64)>,
}

/// The figures of one layer under one trace.
pub struct Cell {
    pub layer: Layer,
    /// Metadata goes to flash.
    pub hot: bool,
    /// What came of it.
    pub run: FilesOutcome,
    /// Virtual seconds without the processor.
    pub bare: f64,
}

pub struct Cells {
    cells: Vec<Cell>,
    /// Seconds that the board takes for each sector written, beyond what is declared.
    board: f64,
    /// For each seed: BAST and FAST with metadata on flash.
    seeds: Vec<[Seeded; 2]>,
}

/// A run with one of the seeds.
#[derive(Clone, Copy)]
struct Seeded {
    bare: f64,
    switches: u64,
}

/// The name of the one calibrated constant.
pub const BOARD: &str = "board: time for each sector written, beyond all of these";

impl Study {
    pub fn new() -> Result<Self, PaperError> {
        let published = EXPERIMENT.with([""; 0])?.published;
        Ok(Self { published })
    }

    /// The experiment with some settings changed.
    pub fn experiment(&self, settings: &[String]) -> Result<Experiment, PaperError> {
        EXPERIMENT.with(settings)
    }

    /// A published number by name.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.published
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
    }

    /// A published cell of Table 1, in seconds.
    pub fn published(&self, layer: &Layer, hot: bool) -> Option<f64> {
        self.number(&format!("{}-{}", layer.key, super::word(hot)))
    }

    /// Runs every layer, hot and not.
    pub fn run(&self, watch: Watch<'_>, size: Size) -> Result<Cells, PaperError> {
        let wanted: Vec<(Layer, bool)> = LAYERS
            .iter()
            .flat_map(|layer| [(*layer, true), (*layer, false)])
            .collect();
        let cells = Jobs::new(watch, "table 1", wanted.len())
            .each(&wanted, |(layer, hot)| cell(layer, *hot))?;
        let numbers: Vec<usize> = (1..=size.seeds()).collect();
        let seeds = Jobs::new(watch, "seeds", numbers.len()).each(&numbers, |seed| {
            let [_, bast, fast] = TABLE_1;
            Ok([seeded(&bast, *seed)?, seeded(&fast, *seed)?])
        })?;
        let extra = |layer: &Layer| {
            let published = self.published(layer, false)?;
            let cool = cells
                .iter()
                .find(|cell| cell.layer == *layer && !cell.hot)?;
            Some((published - cool.bare) / cool.run.writes.total() as f64)
        };
        let extras: Vec<f64> = TABLE_1.iter().filter_map(extra).collect();
        let board = extras.iter().sum::<f64>() / extras.len() as f64;
        Ok(Cells {
            cells,
            board,
            seeds,
        })
    }

    /// All that was assumed: open points, costs of the processor, calibrated constants.
    pub fn assumptions(&self, cells: &Cells) -> Result<Vec<Assumption>, PaperError> {
        let mut all = Assumption::all(
            &described!("ftl-study/assumptions.toml"),
            Some("arm-400mhz"),
        )?;
        let no_hot = |layer: &Layer| format!("with-board/{}/no-hot", layer.key);
        all.push(Assumption {
            name: BOARD.into(),
            value: format!("{:.3} ms", cells.board * 1e3),
            label: "calibrated on the three No-Hot cells".into(),
            why: "one for all layers: the mean of what the three cells lack; what is declared for \
            a sector is a fraction of it"
                .into(),
            in_view: TABLE_1.iter().map(no_hot).collect(),
        });
        Ok(all)
    }
}

fn cell(layer: &Layer, hot: bool) -> Result<Cell, PaperError> {
    let holds = if hot {
        "nvram.holds=nothing"
    } else {
        "nvram.holds=metadata"
    };
    let name = format!("{} {}", layer.key, super::word(hot));
    // One of the hot runs is the stream for the sweeps.
    let keep = hot && *layer == TABLE_1[1];
    let run = EXPERIMENT.run(&name, layer.settings.iter().chain([&holds]), keep)?;
    let bare = run.outcome.result.simulated_ns as f64 / 1e9;
    Ok(Cell {
        layer: *layer,
        hot,
        run,
        bare,
    })
}

/// A layer of the study with metadata on flash.
fn seeded(layer: &Layer, seed: usize) -> Result<Seeded, PaperError> {
    let name = format!("{} hot, seed {seed}", layer.key);
    let settings = layer.settings.iter().map(ToString::to_string);
    let seeds = ["run", "chip"].map(|of| format!("{of}.seed={seed}"));
    let run = EXPERIMENT.run(&name, settings.chain(seeds), false)?;
    let result = &run.outcome.result;
    Ok(Seeded {
        bare: result.simulated_ns as f64 / 1e9,
        switches: result.flash.merges.switch,
    })
}

impl Cells {
    pub fn all(&self) -> &[Cell] {
        &self.cells
    }

    /// The cell of a layer.
    pub fn of(&self, layer: &Layer, hot: bool) -> &Cell {
        let found = self
            .cells
            .iter()
            .find(|cell| cell.layer == *layer && cell.hot == hot);
        found.expect("every layer was run")
    }

    /// Its seconds with nothing calibrated.
    pub fn bare_seconds(&self, layer: &Layer, hot: bool) -> f64 {
        self.of(layer, hot).bare
    }

    /// Its seconds with what the board takes for each sector.
    pub fn board_seconds(&self, layer: &Layer, hot: bool) -> f64 {
        let cell = self.of(layer, hot);
        cell.bare + self.board * cell.run.writes.total() as f64
    }

    /// FAST's seconds over BAST's with metadata on flash, of all seeds.
    pub fn fast_over_bast(&self) -> Sample {
        let ratio = |[bast, fast]: &[Seeded; 2]| fast.bare / bast.bare;
        Sample::of(&self.seeds.iter().map(ratio).collect::<Vec<_>>())
    }

    /// FAST's switch merges over BAST's, of all seeds; nothing if BAST has none.
    pub fn switches_fast_over_bast(&self) -> Option<Sample> {
        let ratio = |[bast, fast]: &[Seeded; 2]| {
            (bast.switches > 0).then(|| fast.switches as f64 / bast.switches as f64)
        };
        let ratios: Option<Vec<f64>> = self.seeds.iter().map(ratio).collect();
        Some(Sample::of(&ratios?))
    }

    /// The run whose requests were kept: what the file system asks for does not depend on the
    /// layer.
    pub fn hot(&self) -> &FilesOutcome {
        &self.of(&TABLE_1[1], true).run
    }
}
