//! The integration tests, in one program so that they link once.

mod common;
mod damaged;
mod flash;
mod hostile;
mod past;
mod planted;
mod repair;
mod repair_ubi;
mod repair_ubifs;
mod round_trips;
mod salvage;
mod slow;
mod spare;
mod squashfs;
mod threads;
mod truncated;
mod ubi;
mod ubifs;
