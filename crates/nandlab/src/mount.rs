//! `nandlab mount`: the file system of a stack or of an image as a directory, until it is unmounted
//! or interrupted.

mod watch;

use crate::export::{ExportError, by_cause, causes, let_go, lock_saved};
use crate::failure::{Failure, Status};
use crate::image::Shape;
use crate::output::{print, print_table};
use nandlab_host::mount::{self, STATS};
use nandlab_image::lock::Lock;
use nandlab_image::place::Place;
use nandlab_image::volume::{Access, Volume};
use nandlab_lab::Experiment;
use nandlab_lab::run::{Live, live};
use nandlab_stack::Document;
use nandlab_vfs::FileSystem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use watch::Watch;

/// Mount the file system of a stack or of an image on a directory until Ctrl-C or umount
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A description that says chip.save keeps what was written; chip.load brings it back. The file .nandlab.json in the directory, in no listing, says live what the flash does."
)]
pub struct Args {
    /// An image, or a description of a stack with a file system, in TOML (what it says of a
    /// workload is left aside)
    #[arg(value_name = "IMAGE|STACK.toml")]
    source: PathBuf,
    /// Mount point: an existing directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Refuse every change of the volume
    #[arg(long)]
    read_only: bool,
    /// Let other users in
    #[arg(long)]
    everybody: bool,
    /// Let the kernel keep what programs write until an fsync or its own write-back, as it does for
    /// its own file systems
    #[arg(long)]
    write_back: bool,
    /// How fast it answers: as this machine simulates it, or as the device would
    #[arg(long, value_enum, default_value_t = Pace::None)]
    pace: Pace,
    /// Threads that take requests from the kernel
    #[arg(long, default_value = "2", value_name = "COUNT")]
    threads: NonZeroUsize,
    /// Override a setting of the description, e.g. chip.size="256 MiB"
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pace {
    /// Answer at once, whatever the device takes
    None,
    /// When the device's own time has gone by
    Real,
}

impl Args {
    /// Serves until it is unmounted.
    pub fn execute(self) -> Result<Status, Failure> {
        if self
            .source
            .extension()
            .is_none_or(|extension| extension != "toml")
        {
            self.image()?;
            return Ok(Status::Done);
        }
        let document = Document::read(&self.source, &self.set)?;
        let (description, seed) = Experiment::take_stack(document)?;
        let _lock = lock_saved(&description)?;
        let served = live(&description, seed, |fs, below| self.stack(fs, below))?;
        served?;
        Ok(Status::Done)
    }

    fn image(&self) -> Result<(), Failure> {
        let access = if self.read_only {
            Access::Read
        } else {
            Access::Write
        };
        let lock = if self.read_only {
            Lock::shared(&self.source)?
        } else {
            Lock::exclusive(&self.source, Duration::ZERO)?
        };
        let watch = Watch::new(&self.source, lock.file(), access)?;
        let place = Place::file(&self.source).guarded();
        let mut volume = Volume::at(place, &self.shape.opening(), access)?;
        let served = self.serve(volume.fs()?, mount::Options::default(), "");
        let cause = volume.fs()?.cause();
        watch.end(served, cause.as_ref())
    }

    fn stack(&self, fs: &mut dyn FileSystem, below: &Live<'_>) -> Result<(), Failure> {
        let pace = (self.pace == Pace::Real).then(|| below.clock().clone());
        let options = mount::Options {
            stats: Some(Box::new(|| stats(below))),
            pace,
            ..mount::Options::default()
        };
        self.serve(
            fs,
            options,
            &format!("; {}", self.dir.join(STATS).display()),
        )?;
        print_table(&format!(
            "{}\ndevice time {:.3} s\n",
            causes(&below.tally()),
            below.clock().now() as f64 / 1e9
        ))
    }

    fn serve(
        &self,
        fs: &mut dyn FileSystem,
        options: mount::Options<'_>,
        besides: &str,
    ) -> Result<(), Failure> {
        let source = self
            .source
            .canonicalize()
            .unwrap_or_else(|_| self.source.clone())
            .display()
            .to_string();
        let options = mount::Options {
            source,
            read_only: self.read_only,
            everybody: self.everybody,
            write_back: self.write_back,
            threads: self.threads,
            ..options
        };
        let at = self.dir.clone();
        ctrlc::set_handler(move || let_go(&at)).map_err(ExportError::from)?;
        let said = format!("{} until Ctrl-C or umount{besides}\n", self.dir.display());
        Ok(mount::serve(fs, &self.dir, options, || _ = print(&said)).map_err(ExportError::from)?)
    }
}

fn stats(below: &Live<'_>) -> String {
    let tally = below.tally();
    let stats = serde_json::json!({
        "flash": by_cause(&tally),
        "write_amplification": tally.amplification(true),
        "device_ns": below.clock().now(),
    });
    format!("{stats}\n")
}
