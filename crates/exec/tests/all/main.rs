//! The integration tests, in one program so that they link once.

mod cuts;
mod files;
mod guests;
mod trouble;
