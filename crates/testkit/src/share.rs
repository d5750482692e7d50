//! How much of its work a long test does: a sample, or the whole.
//!
//! A sample makes fewer calls and cuts, or takes fewer volumes. It checks each of them alike.

use std::env;

/// The variable that asks for the whole: more calls, volumes and cuts than `cargo xtask test` has
/// time for. `cargo xtask test whole` sets it.
pub const WHOLE: &str = "NANDLAB_WHOLE";

/// Whether a test does all of its work.
pub fn is_whole() -> bool {
    env::var_os(WHOLE).is_some()
}

/// The whole if [`WHOLE`] asks for it, else the sample.
pub fn whole_or<T>(whole: T, sample: T) -> T {
    if is_whole() { whole } else { sample }
}
