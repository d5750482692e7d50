//! The runs of Table 1, and the same on layers that it does not have.

use crate::PaperError;
use nandlab_lab::Experiment;
use nandlab_lab::run::{FilesOutcome, run_files};
use nandlab_stack::Document;
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const FILE: &str = "papers/ftl-study/table-1.toml";
const TEXT: &str = include_str!("../../../../papers/ftl-study/table-1.toml");

/// A translation layer of the study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Its name in ids and in `[published]`.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What describes it.
    pub settings: &'static [&'static str],
}

const fn layer(key: &'static str, name: &'static str, settings: &'static [&'static str]) -> Layer {
    Layer {
        key,
        name,
        settings,
    }
}

/// The publications of these layers know no static wear levelling.
const UNLEVELLED: &str = "ftl.wear-threshold=0";

/// The three of Table 1.
pub const TABLE_1: [Layer; 3] = [
    // Linux programs the first page of a unit up to four times, whatever the data sheet says.
    layer(
        "nftl",
        "replacement block (NFTL)",
        &[
            "ftl.scheme=nftl",
            "ftl.ordering=linux",
            "chip.partial-programs=4",
        ],
    ),
    layer("bast", "log block (BAST)", &["ftl.scheme=bast", UNLEVELLED]),
    layer("fast", "FAST", &["ftl.scheme=fast", UNLEVELLED]),
];
/// Those and more.
pub const LAYERS: [Layer; 6] = [
    TABLE_1[0],
    TABLE_1[1],
    TABLE_1[2],
    layer("sast", "SAST 4:4+2", &["ftl.scheme=sast", UNLEVELLED]),
    layer(
        "page",
        "page mapping",
        &["ftl.scheme=page", "ftl.over-provisioning=0.02", UNLEVELLED],
    ),
    layer("mtdblock", "mtdblock", &["ftl.scheme=mtdblock"]),
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
        let mut study = Self {
            published: Vec::new(),
        };
        study.published = study.experiment(&[])?.published;
        Ok(study)
    }

    /// The experiment with some settings changed.
    pub fn experiment(&self, settings: &[String]) -> Result<Experiment, PaperError> {
        let document = Document::parse(FILE, Path::new("papers/ftl-study"), TEXT, settings)?;
        Ok(Experiment::take(document)?)
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
    pub fn run(&self, watch: &(dyn Fn(f64) + Sync)) -> Result<Cells, PaperError> {
        let wanted: Vec<(Layer, bool)> = LAYERS
            .iter()
            .flat_map(|layer| [(*layer, true), (*layer, false)])
            .collect();
        let done = AtomicUsize::new(0);
        let cell = |(layer, hot): &(Layer, bool)| {
            let cell = self.cell(layer, *hot)?;
            watch((done.fetch_add(1, Relaxed) + 1) as f64 / wanted.len() as f64);
            Ok(cell)
        };
        let mut cells: Vec<Cell> = wanted
            .par_iter()
            .map(cell)
            .collect::<Result<_, PaperError>>()?;
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

    fn cell(&self, layer: &Layer, hot: bool) -> Result<Cell, PaperError> {
        let holds = if hot {
            "nvram.holds=nothing"
        } else {
            "nvram.holds=metadata"
        };
        let settings: Vec<String> = layer
            .settings
            .iter()
            .chain([&holds])
            .map(ToString::to_string)
            .collect();
        let experiment = self.experiment(&settings)?;
        let name = format!("{} {}", layer.key, super::word(hot));
        let files = experiment.workload.files();
        let files = files.ok_or_else(|| {
            PaperError::Wrong(
                name.clone(),
                "no workload on files in the experiment".into(),
            )
        })?;
        // One of the hot runs is the stream for the sweeps.
        let keep = hot && *layer == TABLE_1[1];
        let run = run_files(&experiment, files, keep, &mut |_| ())
            .map_err(|error| PaperError::Run(name, error.into()))?;
        let bare = run.outcome.result.simulated_ns as f64 / 1e9;
        Ok(Cell {
            layer: *layer,
            hot,
            run,
            seconds: bare,
            bare,
        })
    }
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
