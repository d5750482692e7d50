//! Whole runs on small devices: nothing stalls, everything is counted, the same twice.

use super::*;
use crate::result::HostRow;
use nandlab_stack::Document;
use std::path::Path;

/// 256 MiB without contents.
const DEVICE: &str = "[chip]\npreset = \"slc-2k\"\nsize = \"256 MiB\"\ncontents = \"dropped\"\n";
/// 16 MiB with contents.
const SMALL: &str = "[chip]\npreset = \"slc-2k\"\nsize = \"16 MiB\"\npages-per-block = 16\n[ftl]\nover-provisioning = 0.1\n";

fn experiment(text: &str) -> Experiment {
    Experiment::take(Document::parse("e.toml", Path::new(""), text, &[]).unwrap()).unwrap()
}

fn outcome(text: &str) -> Outcome {
    run(&experiment(text), &mut |_| ()).unwrap()
}

fn row<'a>(result: &'a RunResult, operation: &str) -> &'a HostRow {
    result
        .host
        .operations
        .iter()
        .find(|row| row.operation == operation)
        .unwrap()
}

/// Large and aligned; a page; smaller than a page; misaligned; longer than a page and misaligned:
/// block, alignment, offset.
const SHAPES: [(u64, u64, u64); 5] = [
    (65_536, 65_536, 0),
    (2048, 2048, 0),
    (512, 512, 0),
    (4096, 512, 512),
    (6656, 1024, 1536),
];

/// Ten overwrites at 7 % spare space: no stall, every request served and counted.
fn overwrites(pattern: &str) {
    for (block, align, offset) in SHAPES {
        let text = format!(
            "{DEVICE}[ftl]\nover-provisioning = 0.07\n[workload]\npattern = \"{pattern}\"\nblock = {block}\nalign = {align}\n\
             offset = {offset}\noverwrites = 10\n[run]\nseries-interval = \"1 s\"\n"
        );
        let result = outcome(&text).result;
        let size = result
            .settings
            .iter()
            .find(|s| s.key == "workload.size")
            .map(|s| s.value.trim_matches('"').to_string());
        let size = nandlab_stack::units::parse_size(&size.unwrap()).unwrap();
        let expected = (size * 10).div_ceil(block);
        let write = row(&result, "write");
        assert_eq!(
            (write.count, write.bytes, result.host.failed),
            (expected, expected * block, 0),
            "{text}"
        );
        assert!(
            result
                .flash
                .write_amplification
                .is_some_and(|wa| (0.99..60.0).contains(&wa)),
            "{text}: {:?}",
            result.flash
        );
        assert!(result.series.len() <= 2048 && result.chip.erases.len() <= 4096);
    }
}

#[test]
fn sequential_overwrites_of_each_size_are_served_and_counted() {
    overwrites("sequential");
}

#[test]
fn random_overwrites_of_each_size_are_served_and_counted() {
    overwrites("random");
}

#[test]
fn zipf_overwrites_of_each_size_are_served_and_counted() {
    overwrites("zipf");
}

#[test]
fn hot_and_cold_overwrites_of_each_size_are_served_and_counted() {
    overwrites("hot-cold");
}

#[test]
fn the_same_experiment_gives_the_same_bytes() {
    let text = format!(
        "{SMALL}[workload]\nreads = 0.3\ndiscards = 0.05\nflush-every = 50\noverwrites = 3\narrival = \"poisson\"\ninterval = \"700 us\"\n\
         [run]\nprecondition = \"random\"\nqueue-depth = 4\n"
    );
    let json = || serde_json::to_string(&outcome(&text).result).unwrap();
    let first = json();
    assert!(first == json());
    let reseeded = run(
        &experiment(&text.replace("[run]", "[run]\nseed = 2")),
        &mut |_| (),
    )
    .unwrap();
    assert!(first != serde_json::to_string(&reseeded.result).unwrap());
}

#[test]
fn every_kind_of_request_is_counted_once() {
    let text = format!(
        "{SMALL}[workload]\nreads = 0.5\ndiscards = 0.2\nflush-every = 10\nrequests = 20000\n"
    );
    let result = outcome(&text).result;
    let counts: Vec<u64> = result.host.operations.iter().map(|row| row.count).collect();
    assert_eq!(
        (counts.len(), counts[0] + counts[1] + counts[3], counts[2]),
        (4, 20_000, 2000)
    );
    for row in &result.host.operations {
        assert_eq!(
            row.latency.buckets.iter().map(|b| b.1).sum::<u64>(),
            row.count
        );
    }
}

#[test]
fn a_deep_queue_on_many_dies_is_faster_and_an_open_loop_waits_for_arrivals() {
    let text = |run: &str, arrival: &str| {
        format!(
            "[chip]\npreset = \"emmc-16GiB\"\nsize = \"64 MiB\"\npages-per-block = 16\ndies = 8\nchannels = 8\ncontents = \"dropped\"\n\
             [ftl]\nover-provisioning = 0.5\n[workload]\nreads = 1\nrequests = 4000\n{arrival}\n[run]\nprecondition = \"sequential\"\n{run}\n"
        )
    };
    let closed = |depth: u32| outcome(&text(&format!("queue-depth = {depth}"), "")).result;
    let one = closed(1);
    let eight = closed(8);
    assert!(
        eight.simulated_ns * 3 < one.simulated_ns,
        "{} {}",
        eight.simulated_ns,
        one.simulated_ns
    );
    assert!(row(&eight, "read").latency.mean_ns > row(&one, "read").latency.mean_ns);
    let open = outcome(&text("", "arrival = \"fixed\"\ninterval = \"1 ms\"")).result;
    assert!(
        (3_999_000_000..4_010_000_000).contains(&open.simulated_ns),
        "{}",
        open.simulated_ns
    );
}

#[test]
fn an_overloaded_open_loop_shows_its_queue_in_the_latency() {
    let text = format!(
        "{SMALL}[workload]\nreads = 1\nrequests = 1000\narrival = \"fixed\"\ninterval = \"10 us\"\n[run]\nprecondition = \"sequential\"\nqueue-depth = 1\n"
    );
    let result = outcome(&text).result;
    let latency = &row(&result, "read").latency;
    // Each 4 KiB read takes two pages of about 78 us; the thousandth waits for those before it.
    assert!(
        latency.max_ns > 100_000_000 && latency.p50_ns > latency.max_ns / 3,
        "{latency:?}"
    );
}

#[test]
fn measuring_from_steady_state_leaves_the_fill_out_or_says_that_it_never_came() {
    let text = |overwrites: u32| {
        format!(
            "{SMALL}[workload]\nblock = 2048\noverwrites = {overwrites}\n[run]\nmeasure-from = \"steady\"\n"
        )
    };
    let long = outcome(&text(20));
    let short = outcome(&text(3));
    assert!(!long.problem && long.notes.is_empty(), "{:?}", long.notes);
    assert!(short.problem && short.notes[0].starts_with("write amplification never became steady"));
    let writes = |o: &Outcome| row(&o.result, "write").count;
    assert!(writes(&long) < 20 * writes(&short) / 3 - 5 * writes(&short) / 3);
}

#[test]
fn a_worn_out_device_refuses_writes_and_the_run_goes_on() {
    let text = SMALL.replace(
        "[ftl]",
        "rated-erases = 20\nprogram-fail = [0, 0.05]\nerase-fail = [0, 1]\n[ftl]",
    );
    let done = outcome(&format!("{text}[workload]\nreads = 0.2\noverwrites = 60\n"));
    let host = &done.result.host;
    assert!(done.problem && host.failed > 0);
    assert!(
        host.first_failure.as_ref().unwrap().contains("worn out"),
        "{host:?}"
    );
    assert!(
        done.result.chip.bad.iter().sum::<u32>() > 0 && done.result.flash.wear.max > 5,
        "{:?}",
        done.result.flash.wear
    );
}

#[test]
fn a_request_longer_than_the_buffer_is_served_whole() {
    let text = format!(
        "{SMALL}[workload]\npattern = \"sequential\"\nblock = \"3 MiB\"\nalign = 512\nrequests = 9\nreads = 0.4\n"
    );
    let result = outcome(&text).result;
    let bytes: u64 = result.host.operations.iter().map(|row| row.bytes).sum();
    assert_eq!((bytes, result.host.failed), (9 * (3 << 20), 0));
}

#[test]
fn the_write_cache_is_in_the_result_and_in_the_table_if_there_is_one() {
    let text = format!(
        "{SMALL}[workload]\npattern = \"random\"\nblock = 2048\nrequests = 2000\nflush-every = 20\n"
    );
    let none = outcome(&text);
    let cached = |battery: bool| {
        let size = "size = \"64 KiB\"";
        outcome(&format!(
            "{text}[nvram]\nholds = \"writes\"\n{size}\nbattery = {battery}\n"
        ))
    };
    let safe = cached(true);
    let volatile = cached(false);
    let counts = |outcome: &Outcome| outcome.result.flash.write_cache.unwrap();
    let flushes = counts(&volatile).flushes;
    assert_eq!((counts(&safe).written, flushes > 50), (2000, true));
    // Without a battery a flush of the host reaches the layer below.
    assert!(counts(&volatile).flushes_below >= flushes);
    assert!(counts(&safe).absorbed > counts(&volatile).absorbed);
    assert_eq!(none.result.flash.write_cache, None);
    let json = serde_json::to_string(&none.result.flash).unwrap();
    assert!(!json.contains("write_cache"), "{json}");
    let row = "write cache: written";
    let shown =
        |outcome: &Outcome| crate::table::compare(std::slice::from_ref(outcome)).contains(row);
    assert_eq!((shown(&safe), shown(&none)), (true, false));
}

#[test]
fn the_map_cache_is_in_the_result_and_in_the_table_if_there_is_one() {
    let text = format!(
        "{SMALL}[workload]\npattern = \"random\"\nblock = 2048\nrequests = 2000\nreads = 0.5\n"
    );
    let whole = outcome(&text);
    let small = outcome(&text.replace("[ftl]\n", "[ftl]\nmap-cache = \"8 KiB\"\n"));
    let cache = small.result.flash.map_cache.unwrap();
    assert_eq!(cache.hits + cache.misses, 2000);
    assert!(
        cache.hit_rate() > 0.2 && cache.hit_rate() < 0.4,
        "{cache:?}"
    );
    assert!(cache.write_backs > 100, "{cache:?}");
    assert_eq!(whole.result.flash.map_cache, None);
    let json = serde_json::to_string(&whole.result.flash).unwrap();
    assert!(!json.contains("map_cache"), "{json}");
    let row = "map cache hit rate";
    let shown =
        |outcome: &Outcome| crate::table::compare(std::slice::from_ref(outcome)).contains(row);
    assert_eq!((shown(&small), shown(&whole)), (true, false));
}

/// 64 MiB of MLC blocks, 16 of them in SLC mode.
const MLC: &str = "[chip]\npreset = \"emmc-16GiB\"\npages-per-block = 64\nsize = \"64 MiB\"\ncontents = \"dropped\"\n[ftl]\nover-provisioning = 0.3\nslc-cache-blocks = 16\n";

#[test]
fn an_slc_cache_is_folded_in_the_time_between_requests() {
    let busy =
        format!("{MLC}[workload]\npattern = \"sequential\"\nblock = 8192\nrequests = 3000\n");
    let idle = format!("{busy}arrival = \"fixed\"\ninterval = \"3 ms\"\n");
    let [busy, idle] = [busy, idle].map(|text| outcome(&text));
    let cache = |outcome: &Outcome| outcome.result.flash.slc_cache.unwrap();
    let pages = 16 * 32;
    let full = cache(&busy);
    assert_eq!(
        (full.buffered, full.direct, full.folded),
        (pages, 3000 - pages, 0)
    );
    let resting = cache(&idle);
    assert_eq!((resting.buffered, resting.direct), (3000, 0));
    assert!(resting.folded > 2000 && resting.erases > 80, "{resting:?}");
    let amplification = idle.result.flash.write_amplification.unwrap();
    assert!((1.8..2.1).contains(&amplification), "{amplification}");
    let row = "SLC cache: pages in / past it / folded";
    let shown =
        |outcome: &Outcome| crate::table::compare(std::slice::from_ref(outcome)).contains(row);
    let off = MLC.replace("slc-cache-blocks = 16\n", "");
    let off = outcome(&format!(
        "{off}[workload]\npattern = \"random\"\nblock = 8192\nrequests = 100\n"
    ));
    assert_eq!((shown(&busy), shown(&off)), (true, false));
    let json = serde_json::to_string(&off.result.flash).unwrap();
    assert!(!json.contains("slc_cache"), "{json}");
}

/// Erases into SLC mode wear a block by their share of the rated ones.
#[test]
fn a_lifetime_counts_erases_into_slc_mode_by_their_share() {
    let workload = "[workload]\npattern = \"random\"\nblock = 8192\noverwrites = 4\n[run]\nprecondition = \"sequential\"\n";
    let life = |rated: u32| {
        let chip = MLC.replace("[ftl]\n", &format!("slc-rated-erases = {rated}\n[ftl]\n"));
        let text = format!("{chip}slc-overflow = \"fold\"\n{workload}");
        outcome(&text).result.flash
    };
    let [equal, double] = [life(3000), life(6000)];
    let slc = equal.slc_cache.unwrap().erases;
    let all = equal.causes.iter().map(|row| row.erases).sum::<u64>();
    let ratio = double.lifetime_bytes.unwrap() as f64 / equal.lifetime_bytes.unwrap() as f64;
    let expected = all as f64 / (all as f64 - slc as f64 / 2.0);
    assert!(
        (ratio - expected).abs() < 1e-3 && ratio > 1.2,
        "{ratio} {expected}"
    );
}
