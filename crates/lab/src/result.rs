//! What a run reports: one plain value, the same in JSON, in the terminal and in the HTML report.
//!
//! Everything here is a function of the experiment and its seed; wall time and memory are not, and
//! live in [`Cost`].

use serde::{Deserialize, Serialize};

/// The settings and figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The name of the experiment that ran.
    pub name: String,
    /// Every setting in effect, defaults included.
    pub settings: Vec<Setting>,
    /// What the host asked for and got.
    pub host: Host,
    /// What the flash did for it.
    pub flash: Flash,
    /// Progress over virtual time.
    pub series: Vec<Point>,
    /// The chip at the end.
    pub chip: ChipMap,
    /// Virtual time from the first request to the last completion.
    pub simulated_ns: u64,
}

impl RunResult {
    /// Requests of one kind, if any was served.
    pub fn operation(&self, name: &str) -> Option<&HostRow> {
        let mut rows = self.host.operations.iter();
        rows.find(|row| row.operation == name)
    }

    /// An amount for each virtual second, if the run took any time.
    pub fn per_second(&self, amount: u64) -> Option<f64> {
        (self.simulated_ns > 0).then(|| amount as f64 * 1e9 / self.simulated_ns as f64)
    }
}

/// One key of the description as it took effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The key as a description writes it: `section.key`.
    pub key: String,
    /// Its value, as TOML writes it.
    pub value: String,
    /// `given` (in the experiment), `preset NAME`, or `default`.
    pub origin: String,
}

/// Figures above the translation layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// One row per kind of request that occurred: `read`, `write`, `flush`, `discard`.
    pub operations: Vec<HostRow>,
    /// Requests that the device refused, with the first reason; an ideal run has none.
    pub failed: u64,
    /// The first refusal, in words.
    pub first_failure: Option<String>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// `read`, `write`, `flush` or `discard`.
    pub operation: String,
    /// Requests of this kind that were served.
    pub count: u64,
    /// Bytes moved (or discarded).
    pub bytes: u64,
    /// From issue (or arrival) to completion.
    pub latency: Latency,
}

/// A latency distribution in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The arithmetic mean in nanoseconds.
    pub mean_ns: f64,
    /// The median in nanoseconds.
    pub p50_ns: u64,
    /// The 90th percentile in nanoseconds.
    pub p90_ns: u64,
    /// The 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// The 99.9th percentile in nanoseconds.
    pub p999_ns: u64,
    /// The longest latency in nanoseconds.
    pub max_ns: u64,
    /// Histogram: (upper bound of the bucket in ns, requests in it), ascending, empty buckets left
    /// out.
    pub buckets: Vec<(u64, u64)>,
}

/// Figures of the flash chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flash {
    /// Operations split by who caused them (`host data`, `collection`, `mapping`, ...).
    pub causes: Vec<FlashRow>,
    /// Merges and folds; none in layers without log or replacement blocks.
    #[serde(default)]
    pub merges: Merges,
    /// Look-ups in the map; none if the whole map is in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCache>,
    /// Pages through the write cache. `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<WriteCache>,
    /// Where the pages of the host went. `None` without an SLC cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
    /// Page programs per page of host data written; none if nothing was written.
    pub write_amplification: Option<f64>,
    /// The same without mapping metadata: what the closed forms for garbage collection speak of.
    pub collection_amplification: Option<f64>,
    /// Bits that error correction corrected.
    pub corrected_bits: u64,
    /// Reads with more flipped bits than the code corrects.
    pub uncorrectable: u64,
    /// Share of the virtual time that each die was busy, 0 to 1.
    pub die_busy: Vec<f64>,
    /// Erase counts over all good blocks.
    pub wear: Wear,
    /// Host bytes that could be written at this run's wear until the mean erase count reaches the
    /// rated endurance; none if unknown.
    pub lifetime_bytes: Option<u64>,
}

impl Flash {
    /// A count over all causes.
    pub fn total(&self, of: impl Fn(&FlashRow) -> u64) -> u64 {
        self.causes.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Flash operations of one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlashRow {
    /// The part of the layer that issued the operations.
    pub cause: String,
    /// Page reads (OOB-only reads included).
    pub reads: u64,
    /// Reads of nothing but a page's OOB.
    #[serde(default)]
    pub oob_reads: u64,
    /// Page programs, without copies (OOB-only programs included).
    pub programs: u64,
    /// Programs of nothing but a page's OOB.
    #[serde(default)]
    pub oob_programs: u64,
    /// Pages copied inside the array (each one read and one program).
    pub copies: u64,
    /// Blocks erased for this cause.
    pub erases: u64,
}

/// Merges of log blocks and folds of replacement units, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merges {
    /// The log block became the data block as it was.
    pub switch: u64,
    /// The log block was completed and became the data block.
    pub partial: u64,
    /// A logical block was copied to a fresh data block.
    pub full: u64,
    /// A chain of units was completed in its last unit.
    pub folds_in_place: u64,
    /// A chain of units was copied to a fresh unit.
    pub folds_elsewhere: u64,
}

/// Look-ups in the map of a layer that keeps a part of its map in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCache {
    /// Look-ups that found their map page in memory.
    pub hits: u64,
    /// Look-ups that found it on flash only.
    pub misses: u64,
    /// Changed map pages that went to flash before they left memory.
    pub write_backs: u64,
}

impl MapCache {
    /// The share of look-ups that found their map page in memory.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Pages through a write cache in front of the layer. A part of a page counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCache {
    /// Pages that the host wrote.
    pub written: u64,
    /// Pages overwritten before they left the cache. The layer below never sees them.
    pub absorbed: u64,
    /// Pages that went to the layer below.
    pub written_back: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Flushes of the layer below.
    pub flushes_below: u64,
}

/// Where the pages of the host went, with an SLC cache in the layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlcCache {
    /// Pages that went to the cache.
    pub buffered: u64,
    /// Pages that went past a full cache.
    pub direct: u64,
    /// Pages that were folded out of the cache.
    pub folded: u64,
    /// Erases of the cache's blocks, which [`Flash::wear`] counts like all others.
    pub erases: u64,
}

/// A spread of erase counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Erases of the least worn block.
    pub min: u32,
    /// Erases of the most worn block.
    pub max: u32,
    /// Mean erases of a block.
    pub mean: f64,
    /// Standard deviation of the erases of a block.
    pub deviation: f64,
    /// Erases a block is rated for; none if the chip does not say.
    pub rated: Option<u32>,
}

/// The state at one point of virtual time; rates are over the interval since the previous point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Virtual time since the start of the run.
    pub at_ns: u64,
    /// Host bytes written per second.
    pub written_per_s: f64,
    /// Host bytes read per second.
    pub read_per_s: f64,
    /// Write amplification of the interval; none if the host wrote nothing in it.
    pub write_amplification: Option<f64>,
}

/// The chip's blocks at the end of the run, in address order; large chips are reduced to at most a
/// few thousand cells, each standing for `blocks_per_cell` neighbours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChipMap {
    /// Blocks that one cell stands for.
    pub blocks_per_cell: u32,
    /// Mean erase count of each cell.
    pub erases: Vec<f32>,
    /// Share of pages holding valid data in each cell, 0 to 1.
    pub valid: Vec<f32>,
    /// Bad blocks in each cell.
    pub bad: Vec<u32>,
}

/// What the simulation itself cost: not part of the result, since it differs from run to run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Wall-clock seconds of the run.
    pub wall_s: f64,
    /// Largest resident set of the process in bytes.
    pub peak_bytes: u64,
}
