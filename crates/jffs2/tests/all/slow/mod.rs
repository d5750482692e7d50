//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod jffs2_kernel;
mod jffs2_load_kernel;
mod jffs2_merged_kernel;
mod jffs2_ops_kernel;
