//! The command `nandlab`, for those who call it from another program. Exit status: 0 done, 1 a
//! problem was found, 2 bad input, 3 done, but something was lost.

#![forbid(unsafe_code)]

mod chips;
mod crash;
mod export;
mod failure;
mod image;
mod interrupt;
mod layer;
mod manual;
mod mount;
mod new_layer;
mod output;
mod paper;
mod progress;
mod replay;
mod run;
mod terminal;
mod trials;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use failure::{Failure, Status};
use nandlab_sim::Chain;
use std::ffi::OsString;

/// Whole flash storage stacks in user space: chips, translation layers, workloads, reports.
#[derive(Debug, Parser)]
#[command(
    name = "nandlab",
    version,
    about,
    arg_required_else_help = true,
    color = clap::ColorChoice::Never,
    after_help = "Exit status: 0 done, 1 a problem was found, 2 bad input, 3 done, but something \
                  was lost."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Replay(replay::Args),
    Export(export::Args),
    Mount(mount::Args),
    Crash(crash::Args),
    NewLayer(new_layer::Args),
    Paper(paper::Args),
    Chips(chips::Args),
    Image(image::Args),
    Completions(manual::Completions),
    Man(manual::Man),
}

impl Command {
    fn execute(self) -> Result<Status, Failure> {
        match self {
            Self::Run(args) => args.execute(),
            Self::Replay(args) => args.execute(),
            Self::Export(args) => args.execute(),
            Self::Mount(args) => args.execute(),
            Self::Crash(args) => args.execute(),
            Self::NewLayer(args) => args.execute(),
            Self::Paper(args) => args.execute(),
            Self::Chips(args) => args.execute(),
            Self::Image(args) => args.execute(),
            Self::Completions(args) => args.execute(Cli::command()),
            Self::Man(args) => args.execute(Cli::command()),
        }
    }
}

/// The command line. Help is as wide as the user wants it.
fn parsed(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = match terminal::columns() {
        Some(columns) => Cli::command().term_width(columns),
        None => Cli::command(),
    };
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// Runs the command; the first argument is its own name. Gives its exit status.
pub fn command(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match parsed(arguments) {
        Ok(cli) => cli.command,
        Err(error) => {
            // Nobody is left to hear of a closed pipe.
            _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Status::BadInput.into());
        }
    };
    // These two end cleanly at a signal.
    if !matches!(command, Command::Export(_) | Command::Mount(_)) {
        interrupt::remove_scratch_files();
    }
    match command.execute() {
        Ok(status) => status.into(),
        // A reader that has gone away is no failure.
        Err(failure) if failure.is_closed_pipe() => Status::Done.into(),
        Err(failure) => {
            output::note(format_args!("{}", Chain(&failure)));
            failure.status().into()
        }
    }
}
