//! The integration tests, in one program so that they link once.

mod bugs;
mod common;
mod crash;
mod crash_stack;
mod damage;
mod delayed;
mod ext4;
mod fast;
mod fast_writer;
mod faults;
mod hostile;
mod journaled;
mod mkfs;
mod model;
mod order;
mod orphan;
mod slow;
