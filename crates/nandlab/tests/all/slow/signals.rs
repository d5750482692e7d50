//! Commands that each signal ends at many moments.

use crate::signals::{convert, convert_anew, create, put, repair};
use nandlab_testkit::share::whole_or;

/// Moments of each signal.
fn moments() -> u32 {
    whole_or(100, 10)
}

#[test]
fn a_put_is_done_or_not_done_whatever_ends_it() {
    put().survives_signals(moments());
}

#[test]
fn a_creation_is_done_or_not_done_whatever_ends_it() {
    create().survives_signals(moments());
}

#[test]
fn a_repair_is_done_or_not_done_whatever_ends_it() {
    repair().survives_signals(moments());
}

#[test]
fn a_conversion_is_done_or_not_done_whatever_ends_it() {
    convert().survives_signals(moments());
    convert_anew().survives_signals(moments());
}
