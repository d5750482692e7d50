//! The integration tests, in one program so that they link once.

mod cuts;
mod guests;
mod trouble;
