//! Slow tests: they boot the real kernel. `cargo xtask test quick` skips them.

mod churned_kernel;
mod forms;
mod ours_kernel;
mod ubifs_kernel;
