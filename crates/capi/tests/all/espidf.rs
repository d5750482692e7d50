//! A map of pages above ESP-IDF's NAND interface, in C, on a chip of nandlab that fails.

use crate::cuts::{self, Found};

fn explore(defines: &[&str]) -> Found {
    cuts::explore("espidf", &["esp_glue.c", "esp_cuts.c"], defines)
}

/// The share of reads with up to `bits` wrong bits, if `mean` are wrong on average (Poisson).
fn share_up_to(bits: i32, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut sum = term;
    for n in 1..=bits {
        term *= mean / f64::from(n);
        sum += term;
    }
    sum
}

/// The classes of ESP-IDF have as many reads as the chip's error rate says.
fn check_classes(found: &Found) {
    let (found, text) = found;
    let up_to = |bits| share_up_to(bits, 4.5);
    let expected = [
        ("reads without wrong bits", up_to(0)),
        ("1 to 3 bits corrected", up_to(3) - up_to(0)),
        ("4 to 6 bits corrected", up_to(6) - up_to(3)),
        ("7 or 8 bits corrected", up_to(8) - up_to(6)),
        ("not corrected", 1.0 - up_to(8)),
    ];
    for (class, share) in expected {
        let reads = 10_000.0;
        // Four standard deviations of a count.
        let tolerance = 4.0 * (reads * share * (1.0 - share)).sqrt();
        let off = (found[class] as f64 - reads * share).abs();
        assert!(off < tolerance, "{class}: {share} expected\n{text}");
    }
    assert_eq!(found["failed reads"], found["not corrected"], "{text}");
}

#[test]
fn a_map_above_esp_idfs_interface_keeps_its_pages_on_a_chip_that_fails() {
    let found = explore(&[]);
    check_classes(&found);
    cuts::keeps_its_promises(&found, 10_000);
    let (numbers, text) = &found;
    for what in [
        "unreadable pages, tried again",
        "refreshed pages",
        "failed programs",
        "failed erases",
    ] {
        assert!(numbers[what] > 0, "{what}\n{text}");
    }
}

/// A map that forgets a page before it writes the new one may erase the only copy.
#[test]
fn a_map_that_forgets_first_is_found_out() {
    let (found, text) = explore(&["-DFORGET_FIRST"]);
    assert!(found["violations"] > 0, "{text}");
    assert!(text.contains("a write is lost"), "{text}");
}

/// A mount that takes a page for torn after one failed read loses good pages. Bit errors depend on
/// the seed: six of the seeds 1 to 8 show it.
#[test]
fn a_mount_that_reads_once_is_found_out() {
    let (found, text) = explore(&["-DTRIES_OF_MOUNT=1"]);
    assert!(found["violations"] > 0, "{text}");
    assert!(text.contains("a write is lost"), "{text}");
}
