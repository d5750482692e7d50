//! Slow tests: they boot the real kernel. `cargo xtask test quick` skips them.

mod camera_kernel;
mod camera_schemes_kernel;
mod iozone_kernel;
mod processor_kernel;
