//! The integration tests, in one program so that they link once.

mod album;
mod camera;
mod ext_parts;
mod slow;
