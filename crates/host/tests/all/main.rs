//! The integration tests, in one program so that they link once.

mod common;
mod iolog_replay;
mod nbd_protocol;
mod slow;
