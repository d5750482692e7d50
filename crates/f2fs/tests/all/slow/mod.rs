//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod f2fs_kernel;
mod sealed_kernel;
mod threaded_kernel;
