//! Runs experiments and says what came of them.

pub mod report;
pub mod result;
