//! The integration tests, in one program so that they link once.

mod hostile;
mod made;
mod trees;
