//! Slow tests: they boot the real kernel, mount, start a browser or run a publication.
//! `cargo xtask test quick` skips them.

mod camera_kernel;
mod camera_schemes_kernel;
mod crash_described;
mod iozone_kernel;
mod report_browser;
