//! The integration tests, in one program so that they link once.

mod chips;
mod cuts;
mod damage;
mod engine;
mod hostile;
mod made;
mod power;
mod properties;
mod salvage;
mod slow;
mod trees;
