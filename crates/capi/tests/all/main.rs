//! The integration tests, in one program so that they link once.

mod build;
mod cuts;
mod door;
mod espidf;
mod header;
mod littlefs;
mod page;
mod zephyr;
