//! `nandlab image`: image files of every format, without privileges.

mod change;
mod check;
mod compare;
mod create;
mod extract;
mod info;
mod look;
mod options;
mod past;
mod ubi;

pub use options::Shape;

use crate::failure::{Failure, Status};
use clap::Subcommand;

/// Make, read, edit and check images of JFFS2, ext2, ext3, ext4, F2FS, FAT, UBI and dumps of NAND
/// flash
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The format of an image is found by what is in it. Nothing but create, ubinize, put, mkdir, rm, mv and check --repair changes an image.\n\
    Exit status: 0 done, 1 a problem or a difference was found, 2 bad input, 3 done, but something was lost."
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Args),
    Ubinize(ubi::Ubinize),
    Info(info::Info),
    Ls(look::Ls),
    Cat(look::Cat),
    Stat(look::Stat),
    Check(check::Check),
    Extract(extract::Args),
    Put(change::Put),
    Mkdir(change::Mkdir),
    Rm(change::Rm),
    Mv(change::Mv),
    Diff(compare::Diff),
    Convert(compare::Convert),
    History(past::Past),
    Dump(compare::Dump),
}

impl Args {
    /// Does what the verb says.
    pub fn execute(self) -> Result<Status, Failure> {
        match self.verb {
            Verb::Create(args) => args.execute(),
            Verb::Ubinize(args) => args.execute(),
            Verb::Info(args) => args.execute(),
            Verb::Ls(args) => args.execute(),
            Verb::Cat(args) => args.execute(),
            Verb::Stat(args) => args.execute(),
            Verb::Check(args) => args.execute(),
            Verb::Extract(args) => args.execute(),
            Verb::Put(args) => args.execute(),
            Verb::Mkdir(args) => args.execute(),
            Verb::Rm(args) => args.execute(),
            Verb::Mv(args) => args.execute(),
            Verb::Diff(args) => args.execute(),
            Verb::Convert(args) => args.execute(),
            Verb::History(args) => args.execute(),
            Verb::Dump(args) => args.execute(),
        }
    }
}
