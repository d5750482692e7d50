//! The command: see the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nandlab::command(std::env::args_os()).into()
}
