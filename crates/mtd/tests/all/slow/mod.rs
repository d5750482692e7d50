//! Tests that boot the real kernel.

mod ecc_kernel;
