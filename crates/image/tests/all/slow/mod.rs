//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod archives;
mod campaign;
mod dumps;
mod image_kernel;
mod ubifs_kernel;
