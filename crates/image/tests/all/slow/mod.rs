//! Slow tests: they boot the real kernel, mount, start a browser or run a publication.
//! `cargo xtask test quick` skips them.

mod archives;
mod campaign;
mod dumps;
mod image_kernel;
