//! The integration tests, in one program so that they link once.

mod common;
mod damage;
mod handles;
mod layout;
mod model;
mod slow;
