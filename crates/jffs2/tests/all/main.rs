//! The integration tests, in one program so that they link once.

mod bugs;
mod common;
mod crash;
mod crash_flash;
mod damage;
mod failing;
mod guest;
mod hostile;
mod long_files;
mod mkfs;
mod model;
mod resume;
mod slow;
mod tools;
mod unseen;
