//! The integration tests, in one program so that they link once.

mod build;
mod door;
mod header;
mod littlefs;
mod page;
