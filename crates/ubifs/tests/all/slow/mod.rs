//! Slow tests: they boot the real kernel. `cargo xtask test quick` skips them.

mod ours_kernel;
mod ubifs_kernel;
