//! Commands that each signal ends at a hundred moments.

use crate::signals::{convert, convert_anew, create, put, repair};

/// Moments of each signal.
const MOMENTS: u32 = 100;

#[test]
fn a_put_is_done_or_not_done_whatever_ends_it() {
    put().survives_signals(MOMENTS);
}

#[test]
fn a_creation_is_done_or_not_done_whatever_ends_it() {
    create().survives_signals(MOMENTS);
}

#[test]
fn a_repair_is_done_or_not_done_whatever_ends_it() {
    repair().survives_signals(MOMENTS);
}

#[test]
fn a_conversion_is_done_or_not_done_whatever_ends_it() {
    convert().survives_signals(MOMENTS);
    convert_anew().survives_signals(MOMENTS);
}
