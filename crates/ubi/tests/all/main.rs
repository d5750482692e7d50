//! The integration tests, in one program so that they link once.

mod common;
mod cuts;
mod fastmap;
mod growth;
mod hostile;
mod lives;
mod log;
mod model;
mod reader;
mod slow;
mod torture;
mod views;
mod volumes;
