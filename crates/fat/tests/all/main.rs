//! The integration tests, in one program so that they link once.

mod bugs;
mod common;
mod crash;
mod crash_stack;
mod damage;
mod hostile;
mod mkfs;
mod model;
mod slow;
mod writes;
