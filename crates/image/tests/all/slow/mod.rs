//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod archives;
mod campaign;
mod dumps;
mod image_kernel;
mod mtd_utils;
mod ubifs_kernel;
