//! The integration tests, in one program so that they link once.

mod properties;
mod vectors;
