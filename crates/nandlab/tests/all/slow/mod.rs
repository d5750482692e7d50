//! Slow tests: they boot the real kernel, mount, start a browser or reproduce a paper. `cargo xtask
//! test quick` skips them.

mod book;
mod clients;
mod examples;
mod held_back_kernel;
mod jffs2_costs_kernel;
mod judged;
mod kernel;
mod lived;
mod matrix;
mod mounts;
mod nftl_kernel;
mod paper;
mod picture;
mod posix;
mod results;
mod signals;
mod tools_kernel;
