//! A log above Zephyr's flash interface, in C, on a chip of nandlab.

use crate::cuts::{self, Found};

fn explore(defines: &[&str]) -> Found {
    cuts::explore("zephyr", &["zephyr_glue.c", "zephyr_cuts.c"], defines)
}

#[test]
fn a_log_above_zephyrs_flash_interface_keeps_its_values_at_every_cut() {
    let found = explore(&[]);
    cuts::keeps_its_promises(&found, 5_000);
    assert!(found.0["refused programs"] > 0, "{}", found.1);
}

/// An erase of a sector whose newest records are not yet elsewhere loses them after some cuts.
#[test]
fn a_log_that_erases_first_is_found_out() {
    let (found, text) = explore(&["-DERASE_FIRST"]);
    assert!(found["violations"] > 0, "{text}");
    assert!(text.contains("a value is lost"), "{text}");
}
