//! Slow tests: they boot the real kernel. `cargo xtask test quick` skips them.

mod ubifs_kernel;
