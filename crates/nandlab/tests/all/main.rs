//! The integration tests, in one program so that they link once.

mod bad_input;
mod command;
mod common;
mod edits;
mod errors;
mod guest;
mod holes;
mod image;
mod matrix;
mod messages;
mod outputs;
mod pipes;
mod signals;
mod slow;
mod terminal;
mod trials;
mod whole_flash;
