//! The runs of Table 1, and the same on layers that it does not have.

use crate::runs::{Described, Jobs, Variant, Watch, described, variant};
use crate::{Assumption, PaperError};
use nandlab_lab::Experiment;
use nandlab_lab::run::FilesOutcome;

const EXPERIMENT: Described = described!("ftl-study/table-1.toml");

/// A translation layer of the study; its key is its name in `[published]` too.
pub type Layer = Variant;

/// The publications of these layers know no static wear levelling.
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
/// Those and more.
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

/// One run.
pub struct Cell {
    /// Its layer.
    pub layer: Layer,
    /// Metadata goes to flash.
    pub hot: bool,
    /// What came of it.
    pub run: FilesOutcome,
    /// Seconds, with the layer's calibrated constant.
    pub seconds: f64,
    /// Seconds without it.
    pub bare: f64,
}

/// All runs.
pub struct Cells {
    cells: Vec<Cell>,
}

impl Study {
    /// Reads the experiment.
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
    pub fn run(&self, watch: Watch<'_>) -> Result<Cells, PaperError> {
        let wanted: Vec<(Layer, bool)> = LAYERS
            .iter()
            .flat_map(|layer| [(*layer, true), (*layer, false)])
            .collect();
        let mut cells = Jobs::new(watch, "table 1", wanted.len())
            .each(&wanted, |(layer, hot)| cell(layer, *hot))?;
        for layer in TABLE_1 {
            let Some(published) = self.published(&layer, false) else {
                continue;
            };
            let Some(cool) = cells.iter().find(|cell| cell.layer == layer && !cell.hot) else {
                continue;
            };
            let extra = (published - cool.bare) / cool.run.writes.total() as f64;
            for cell in cells.iter_mut().filter(|cell| cell.layer == layer) {
                cell.seconds = cell.bare + extra * cell.run.writes.total() as f64;
            }
        }
        Ok(Cells { cells })
    }

    /// All that was assumed: open points, costs of the processor, calibrated constants.
    pub fn assumptions(&self, cells: &Cells) -> Result<Vec<Assumption>, PaperError> {
        let mut all = Assumption::all(
            &described!("ftl-study/assumptions.toml"),
            Some("arm-400mhz"),
        )?;
        let calibrated = TABLE_1
            .iter()
            .filter(|layer| self.published(layer, false).is_some());
        all.extend(calibrated.map(|layer| Assumption {
            name: format!("{}: time for each sector written beyond all of these", layer.name),
            value: format!("{:.3} ms", cells.constant(layer) * 1e3),
            label: "calibrated on its No-Hot cell".into(),
            why: "what the board and the authors' layers cost beyond the declared; the only constant of the layer".into(),
            in_view: vec![format!("table-1/{}/no-hot", layer.key)],
        }));
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
        seconds: bare,
        bare,
    })
}

impl Cells {
    /// Every cell.
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

    /// Its seconds, with the calibrated constant if there is one.
    pub fn seconds(&self, layer: &Layer, hot: bool) -> f64 {
        self.of(layer, hot).seconds
    }

    /// Its seconds with nothing calibrated.
    pub fn bare_seconds(&self, layer: &Layer, hot: bool) -> f64 {
        self.of(layer, hot).bare
    }

    /// The calibrated constant of a layer: seconds for each sector written.
    pub fn constant(&self, layer: &Layer) -> f64 {
        let cell = self.of(layer, false);
        (cell.seconds - cell.bare) / cell.run.writes.total() as f64
    }

    /// The run whose requests were kept: what the file system asks for does not depend on the
    /// layer.
    pub fn hot(&self) -> &FilesOutcome {
        &self.of(&TABLE_1[1], true).run
    }
}
