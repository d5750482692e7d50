//! A translation layer or a file system that is a program of its own, in any language that has Unix
//! sockets.
//!
//! *Promises.* [`Program`] is a layer like ours, and [`FileProgram`] a file system: everything that
//! measures them or cuts their power runs these too. Each attach runs in a process of its own, so
//! that no memory survives a power cut. A program that ends, hangs or breaks the protocol is an
//! error with the call that was open; it cannot hang or crash the caller.
//!
//! *Works in terms of* messages on a socket, which [`wire`] describes. `clients/` has them for C
//! and for Python. The client for C implements the chip of `nandlab.h`, so that the same firmware
//! runs behind the library and as a program. [`start`] has a folder to begin with.
//!
//! *Knows nothing of* what the program does with the chip.
//!
//! *Power loss.* The chip lies here, and the program reaches it through messages only. Dropping the
//! layer takes the power from the program: its socket closes, and it ends.

#![forbid(unsafe_code)]

mod chip;
mod files;
mod layer;
mod mounted;
mod names;
mod process;
mod session;
pub mod start;
mod text;
pub mod wire;

pub use files::FileProgram;
pub use layer::Program;
