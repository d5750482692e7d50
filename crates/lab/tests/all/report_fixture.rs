//! Two runs as a report meets them: an SSD of eight dies whose garbage collection sets in after its
//! spare area is used up, and a single SLC chip behind a log-block layer. Made up, but of realistic
//! shape; the same numbers at every call.

use nandlab_lab::result::*;

/// The two runs and what they cost.
pub fn comparison() -> (Vec<RunResult>, Vec<Cost>) {
    let costs = vec![
        Cost {
            wall_s: 3.82,
            peak_bytes: 312 << 20,
        },
        Cost {
            wall_s: 0.61,
            peak_bytes: 41 << 20,
        },
    ];
    (vec![ssd(), chip()], costs)
}

/// The SplitMix64 generator of random words.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn ssd() -> RunResult {
    let mut random = Random(1);
    let series = (1..=900).map(|at| {
        let age = at as f64 / 900.0;
        let amplification =
            1.02 + 1.75 / (1.0 + (-(age - 0.38) * 26.0).exp()) + 0.07 * random.normal() * age;
        Point {
            at_ns: at * 100_000_000,
            written_per_s: 310e6 / amplification * (1.0 + 0.05 * random.normal()),
            read_per_s: 118e6 / amplification.sqrt() * (1.0 + 0.04 * random.normal()),
            write_amplification: Some(amplification.max(1.0)),
        }
    });
    RunResult {
        name: "ssd-8-dies".into(),
        settings: settings(&[
            ("chip.preset", "mlc-16GiB", "given"),
            ("chip.dies", "8", "given"),
            ("ftl.scheme", "page", "given"),
            ("ftl.spare", "7 %", "preset mlc-16GiB"),
            ("chip.program", "900 us", "preset mlc-16GiB"),
        ]),
        host: Host {
            operations: vec![
                row(
                    "write",
                    4_193_210,
                    &[(45e3, 0.25, 0.80), (480e3, 0.35, 0.18), (6.2e6, 0.3, 0.02)],
                    2,
                ),
                row(
                    "read",
                    1_822_400,
                    &[(95e3, 0.12, 0.86), (900e3, 0.35, 0.14)],
                    3,
                ),
                row("flush", 4_096, &[(2.1e6, 0.2, 1.0)], 4),
            ],
            ..Host::default()
        },
        flash: Flash {
            causes: vec![
                cause("host data", 1_822_400, 4_193_210, 0, 0),
                cause("collection", 81_200, 0, 5_310_440, 37_120),
                cause("mapping", 402_133, 318_442, 0, 1_244),
                cause("wear levelling", 2_050, 0, 63_488, 496),
            ],
            write_amplification: Some(2.357),
            collection_amplification: Some(2.281),
            corrected_bits: 18_233,
            uncorrectable: 0,
            die_busy: (0..8).map(|die| 0.81 + 0.02 * die as f64).collect(),
            wear: Wear {
                min: 3,
                max: 41,
                mean: 18.93,
                deviation: 6.72,
                rated: Some(3000),
            },
            lifetime_bytes: Some(21_700_000_000_000),
            merges: Merges::default(),
            map_cache: None,
            write_cache: None,
            slc_cache: None,
        },
        series: series.collect(),
        chip: map(
            2048,
            4,
            &mut random,
            |at, random| {
                (
                    12.0 + 9.0 * (at * 3.0).sin().abs() + 2.2 * random.normal(),
                    if at > 0.93 {
                        0.0
                    } else {
                        0.62 + 0.24 * random.normal()
                    },
                )
            },
            23,
        ),
        simulated_ns: 90_000_000_000,
    }
}

fn chip() -> RunResult {
    let mut random = Random(7);
    let series = (1..=60).map(|at| Point {
        at_ns: at * 2_000_000_000,
        written_per_s: 4.4e6 * (1.0 + 0.12 * random.normal()) / (1.0 + 0.6 * f64::from(at > 9)),
        read_per_s: if at % 20 == 0 {
            0.0
        } else {
            7.9e6 * (1.0 + 0.05 * random.normal())
        },
        write_amplification: (at % 17 != 0)
            .then(|| (1.1 + 2.7 * f64::from(at > 9) + 0.25 * random.normal()).max(1.01)),
    });
    RunResult {
        name: "slc-1-die".into(),
        settings: settings(&[
            ("chip.preset", "small-block-64MiB", "given"),
            ("chip.dies", "1", "default"),
            ("ftl.scheme", "fast", "given"),
            ("ftl.log-blocks", "64", "given"),
            ("chip.program", "200 us", "preset small-block-64MiB"),
        ]),
        host: Host {
            operations: vec![
                row("write", 98_304, &[(260e3, 0.1, 0.93), (31e6, 0.4, 0.07)], 5),
                row("read", 204_800, &[(31e3, 0.08, 1.0)], 6),
            ],
            failed: 3,
            first_failure: Some(
                "sector 131072: beyond the end of the device (131072 sectors)".into(),
            ),
        },
        flash: Flash {
            causes: vec![
                cause("host data", 409_600, 196_608, 0, 0),
                cause("full merge", 288_000, 0, 421_000, 21_004),
                cause("partial merge", 9_600, 0, 14_880, 930),
                cause("mapping", 51_200, 2_048, 0, 64),
            ],
            write_amplification: Some(3.228),
            collection_amplification: Some(3.217),
            corrected_bits: 412,
            uncorrectable: 0,
            die_busy: vec![0.974],
            wear: Wear {
                min: 0,
                max: 112,
                mean: 5.37,
                deviation: 11.8,
                rated: Some(100_000),
            },
            lifetime_bytes: Some(1_870_000_000_000),
            merges: Merges {
                switch: 0,
                partial: 930,
                full: 13_156,
                ..Merges::default()
            },
            map_cache: None,
            write_cache: None,
            slc_cache: None,
        },
        series: series.collect(),
        chip: map(
            512,
            8,
            &mut random,
            |at, random| {
                (
                    if at > 0.9 {
                        70.0 + 14.0 * random.normal()
                    } else {
                        4.0 * random.next().powi(2)
                    },
                    if at > 0.9 {
                        random.next()
                    } else {
                        0.9 + 0.1 * random.next()
                    },
                )
            },
            3,
        ),
        simulated_ns: 120_000_000_000,
    }
}

fn settings(own: &[(&str, &str, &str)]) -> Vec<Setting> {
    let shared = [
        ("workload.type", "random-update", "given"),
        ("workload.request", "4 KiB", "default"),
        ("workload.seed", "1", "default"),
        ("host.platform", "arm-400mhz", "default"),
        ("ftl.victim", "greedy", "default"),
    ];
    own.iter()
        .chain(&shared)
        .map(|&(key, value, origin)| Setting {
            key: key.into(),
            value: value.into(),
            origin: origin.into(),
        })
        .collect()
}

fn cause(cause: &str, reads: u64, programs: u64, copies: u64, erases: u64) -> FlashRow {
    FlashRow {
        cause: cause.into(),
        reads,
        programs,
        copies,
        erases,
        ..FlashRow::default()
    }
}

/// Requests of 4 KiB whose latencies mix log-normal modes of (median in ns, deviation, weight).
fn row(operation: &str, count: u64, modes: &[(f64, f64, f64)], seed: u64) -> HostRow {
    let mut random = Random(seed);
    let mut sample: Vec<u64> = modes
        .iter()
        .flat_map(|&(median, deviation, weight)| {
            (0..(weight * 20_000.0) as usize).map(move |_| (median, deviation))
        })
        .map(|(median, deviation)| (median * (deviation * random.normal()).exp()) as u64)
        .collect();
    sample.sort_unstable();
    let mut buckets = std::collections::BTreeMap::new();
    for &ns in &sample {
        // Buckets of one part in 64, as high-dynamic-range histograms have them.
        let step = 1 << (ns.max(64).ilog2() - 6);
        *buckets.entry(ns / step * step + step - 1).or_insert(0u64) +=
            (count / sample.len() as u64).max(1);
    }
    let at = |share: f64| sample[((sample.len() - 1) as f64 * share) as usize];
    let latency = Latency {
        mean_ns: sample.iter().sum::<u64>() as f64 / sample.len() as f64,
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: at(1.0),
        buckets: buckets.into_iter().collect(),
    };
    HostRow {
        operation: operation.into(),
        count,
        bytes: if operation == "flush" {
            0
        } else {
            count * 4096
        },
        latency,
    }
}

fn map(
    cells: usize,
    per_cell: u32,
    random: &mut Random,
    cell: impl Fn(f64, &mut Random) -> (f64, f64),
    bad: usize,
) -> ChipMap {
    let mut map = ChipMap {
        blocks_per_cell: per_cell,
        bad: vec![0; cells],
        ..ChipMap::default()
    };
    for at in 0..cells {
        let (erases, valid) = cell(at as f64 / cells as f64, random);
        map.erases.push(erases.max(0.0) as f32);
        map.valid.push(valid.clamp(0.0, 1.0) as f32);
    }
    for _ in 0..bad {
        map.bad[(random.next() * cells as f64) as usize] += 1;
    }
    map
}

#[test]
fn the_fixture_is_a_pair_of_whole_results() {
    let (runs, costs) = comparison();
    assert_eq!((runs.len(), costs.len()), (2, 2));
    assert!(runs == comparison().0, "the same numbers at every call");
    let amplification = |at: usize| {
        runs[0].series[at]
            .write_amplification
            .expect("the SSD writes all the time")
    };
    assert!(
        amplification(800) > 2.0 * amplification(100),
        "garbage collection sets in"
    );
}
