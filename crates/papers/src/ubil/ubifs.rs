//! Table 1 as the paper has it: IOzone through UBIFS, on UBI and on UBIL, without a page cache and
//! with one.

use super::io::{Cell, IN_TABLE, PHASES, SYSTEMS, UBI, UBIL, WITH_HEADERS};
use super::{TABLE, figures};
use crate::runs::{Described, Runs, Settings, Watch, described};
use crate::{Exhibit, PaperError, Row, line};
use nandlab_lab::verdict::Sample;

const IOZONE: Described = described!("ubil/ubifs.toml");

/// Those that are compared.
const COMPARED: [usize; 3] = [UBI, UBIL, WITH_HEADERS];
const SEEDS: usize = 10;

/// What keeps clean pages: nothing but the file system's own MiB, or a page cache that holds the
/// whole file.
const CACHES: [(&str, Settings); 2] = [
    ("no page cache", &[]),
    ("page cache", &["memory.size=64 MiB"]),
];
const UNCACHED: usize = 0;

/// The system, the cache, and the seed.
type Place = (usize, usize, usize);

/// The outcomes of all runs.
pub struct UbifsCells(Runs<Place, Cell>);

impl UbifsCells {
    pub fn run(watch: Watch<'_>) -> Result<Self, PaperError> {
        let wanted = COMPARED.into_iter().flat_map(|system| {
            let caches = 0..CACHES.len();
            caches.flat_map(move |cache| (1..=SEEDS).map(move |seed| (system, cache, seed)))
        });
        let wanted = wanted.collect();
        Ok(Self(Runs::all(wanted, (watch, "IOzone on UBIFS"), cell)?))
    }

    fn rates(&self, system: usize, cache: usize, phase: &str) -> Vec<f64> {
        let seeds = 1..=SEEDS;
        let cells = seeds.map(|seed| self.0.of(&(system, cache, seed)));
        cells.map(|cell| cell.rate(phase)).collect()
    }

    /// Bytes a second without a page cache, of all seeds.
    pub fn rate(&self, system: usize, phase: &str) -> Sample {
        Sample::of(&self.rates(system, UNCACHED, phase))
    }

    /// The rate over that on UBI with the same seed, without a page cache.
    pub fn over_ubi(&self, system: usize, phase: &str) -> Sample {
        let base = self.rates(UBI, UNCACHED, phase);
        let rates = self.rates(system, UNCACHED, phase);
        let ratios: Vec<f64> = rates.iter().zip(base).map(|(rate, of)| rate / of).collect();
        Sample::of(&ratios)
    }

    /// Rates beside those that were published.
    pub fn rows(&self) -> Vec<Row> {
        let of = |at: usize, system: usize| {
            let (phase, name) = PHASES[at];
            Row::new(
                format!("table-1-ubifs/{}/{phase}", SYSTEMS[system].key),
                format!("{name}, UBIFS, {}", SYSTEMS[system].name),
                "MB/s",
                TABLE.get(at).map(|rates| rates[system]),
                self.rate(system, phase).mean / 1e6,
            )
        };
        let phases = 0..PHASES.len();
        phases
            .flat_map(|at| [UBI, UBIL].map(|system| of(at, system)))
            .collect()
    }

    /// Table 1: published and here.
    pub fn table(&self) -> Exhibit {
        let row = |at: usize| {
            let (phase, name) = PHASES[at];
            let published = [UBI, UBIL].map(|system| match at < IN_TABLE {
                true => format!("{:.2}", TABLE[at][system]),
                false => String::new(),
            });
            let here = (0..CACHES.len()).flat_map(|cache| {
                COMPARED.map(|system| {
                    Sample::of(&self.rates(system, cache, phase)).reported(figures::rate)
                })
            });
            line(name, published.into_iter().chain(here))
        };
        let heads = CACHES.iter().flat_map(|(cache, _)| {
            COMPARED.map(|system| format!("{}, {cache}", SYSTEMS[system].name))
        });
        let published = ["", "published: UBI", "published: UBIL"].map(String::from);
        Exhibit::table(
            "Table 1: IO performance through UBIFS",
            "MB/s, ten seeds, uncompressed. The time that UBIFS itself takes the processor is not \
             counted: writes are faster here than there.",
            published.into_iter().chain(heads),
            (0..PHASES.len()).map(row),
        )
    }
}

fn cell(&(system, cache, seed): &Place) -> Result<Cell, PaperError> {
    let variant = SYSTEMS[system];
    let name = format!("IOzone on UBIFS, {}, seed {seed}", variant.name);
    let seeds = ["run", "chip"].map(|of| format!("{of}.seed={seed}"));
    let settings = variant.settings.iter().chain(CACHES[cache].1);
    let settings = settings.map(ToString::to_string).chain(seeds);
    Ok(Cell::new(IOZONE.run(&name, settings, false)?))
}
