//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod e2fsprogs;
mod ext4_kernel;
mod ext4_limits;
mod fast_kernel;
mod journaled_kernel;
mod kernel;
