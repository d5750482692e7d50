//! `nandlab image extract`.

use super::options::{Image, bar, bytes, json, tell};
use crate::failure::{Failure, Status};
use crate::output::{distinct, note, print};
use nandlab_image::ImageError;
use nandlab_image::dir_out::DirOut;
use nandlab_image::left_out::known_losses;
use nandlab_image::locate::bytes_of_range;
use nandlab_image::manifest::ManifestOut;
use nandlab_image::place::Place;
use nandlab_image::raw::{range, raw};
use nandlab_image::sink::{Both, Sink};
use nandlab_image::tar_out::TarOut;
use nandlab_image::volume::{Access, Mounted, Opening, Volume};
use nandlab_image::walk::Losses;
use nandlab_image::words::counted;
use nandlab_image::workers::Helpers;
use nandlab_scratch::beside;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Each thread takes the memory of a mount, of which there is one more.
const THREADS_MAX: usize = 2;
/// Bytes of an image for which one thread does.
const SMALL: u64 = 4 << 20;

/// Take the tree out of an image, into a directory, an archive or a manifest
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without privileges a directory cannot hold owners and devices: an archive holds everything."
)]
pub struct Args {
    #[command(flatten)]
    image: Image,
    /// A directory that is empty or missing; an archive if the name ends in .tar (- for standard
    /// output); or a manifest (mtree) without contents if it ends in .mtree
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// What to take, with everything below it
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: OsString,
    /// Beside a directory: write down everything that entries have, so that create makes the same
    /// of both
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Take all that can be had of a damaged image, and report what was lost
    #[arg(long)]
    salvage: bool,
    /// Threads that read and fill the files of a directory, each with the image open [default:
    /// one for each processor, 2 at most]
    #[arg(long)]
    threads: Option<usize>,
    /// Take the volume of UBI instead of what is in it, as a file
    #[arg(long, conflicts_with_all = ["path", "manifest"])]
    raw: bool,
    /// Print what was taken and lost as JSON
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Report {
    files: u64,
    bytes: u64,
    losses: Losses,
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let mut report = Report {
            files: 0,
            bytes: 0,
            losses: Losses::default(),
        };
        let on_stdout = self.target == Path::new("-");
        distinct(&self.target, [&self.image.image])?;
        if let Some(manifest) = &self.manifest {
            distinct(manifest, [&self.image.image])?;
        }
        if self.raw {
            self.volume(&mut report)?;
        } else if on_stdout {
            let mut sink = TarOut::new(
                BufWriter::with_capacity(1 << 20, io::stdout().lock()),
                &self.target,
            );
            self.walk(&mut sink, &mut report)?;
            report.losses.merge(sink.losses);
        } else if let Some(extension) = self
            .target
            .extension()
            .filter(|extension| *extension == "tar" || *extension == "mtree")
        {
            let file = beside(&self.target)?;
            let to = BufWriter::with_capacity(1 << 20, file.as_file());
            if extension == "tar" {
                let mut sink = TarOut::new(to, &self.target);
                self.walk(&mut sink, &mut report)?;
                report.losses.merge(sink.losses);
            } else {
                self.walk(&mut ManifestOut::new(to, &self.target), &mut report)?;
            }
            file.persist(&self.target)?;
        } else {
            let mut sink = DirOut::new(&self.target)?;
            match &self.manifest {
                Some(path) => {
                    let file = beside(path)?;
                    let to = BufWriter::new(file.as_file());
                    self.walk(
                        &mut Both(&mut sink, &mut ManifestOut::new(to, path)),
                        &mut report,
                    )?;
                    file.persist(path)?;
                }
                None => self.walk(&mut sink, &mut report)?,
            }
            report.losses.merge(std::mem::take(&mut sink.losses));
            if sink.owners_left > 0 && !self.json && self.manifest.is_none() {
                let owners = counted(sink.owners_left, "entry");
                eprintln!(
                    "nandlab: owners of {owners} not set, since that is root's; an archive keeps them"
                );
            }
        }
        if self.json && !on_stdout {
            json(&report)?;
        } else {
            if !on_stdout {
                print(&format!(
                    "{}: {}, {}\n",
                    self.target.display(),
                    counted(report.files, "file"),
                    counted(report.bytes, "byte")
                ))?;
            }
            tell(&report.losses);
        }
        Ok(if report.losses.is_empty() {
            Status::Done
        } else {
            Status::Lost
        })
    }

    /// Takes a volume, or a range, as it is.
    fn volume(&self, report: &mut Report) -> Result<(), Failure> {
        let place = Place::file(&self.image.image);
        if let Some(place) = bytes_of_range(&place, &self.image.shape.opening())? {
            return self.range(&place, report);
        }
        let volume = self.image.open_damaged()?;
        let opening = self.image.shape.opening();
        let write = |to: &mut dyn io::Write| raw(&volume, &opening, to);
        (report.bytes, report.losses) = if self.target == Path::new("-") {
            write(&mut BufWriter::with_capacity(1 << 20, io::stdout().lock()))?
        } else {
            let file = beside(&self.target)?;
            let done = write(&mut BufWriter::with_capacity(1 << 20, file.as_file()))?;
            // With damage the file is there only where that was asked for.
            if !done.1.is_empty() && !self.salvage {
                let why = format!(
                    "{}: {}; --salvage takes what is left",
                    self.target.display(),
                    done.1.list[0].what
                );
                return Err(ImageError::Open { layer: "UBI", why }.into());
            }
            file.persist(&self.target)?;
            done
        };
        report.files = 1;
        Ok(())
    }

    fn range(&self, place: &Place, report: &mut Report) -> Result<(), Failure> {
        report.files = 1;
        if self.target == Path::new("-") {
            let mut to = BufWriter::with_capacity(1 << 20, io::stdout().lock());
            report.bytes = range(place, &mut to)?;
            return Ok(());
        }
        let file = beside(&self.target)?;
        report.bytes = range(
            place,
            &mut BufWriter::with_capacity(1 << 20, file.as_file()),
        )?;
        file.persist(&self.target)?;
        Ok(())
    }

    fn walk(&self, sink: &mut dyn Sink, report: &mut Report) -> Result<(), Failure> {
        let mut volume = if self.salvage {
            self.image.open_damaged()?
        } else {
            self.image.open()?
        };
        let bar = bar(None, "extract");
        let mut progress = |bytes| {
            report.files += 1;
            // A damaged image may claim files of any size.
            report.bytes = report.bytes.saturating_add(bytes);
            bar.inc(bytes);
        };
        report
            .losses
            .merge(known_losses(&mut volume, self.salvage)?);
        let threads = self.threads.unwrap_or_else(|| self.threads());
        let opening = Opening {
            salvage: self.salvage,
            ..self.image.shape.opening()
        };
        let unpack = matches!(
            volume.mounted,
            Some(Mounted::Jffs2(_) | Mounted::Squashfs(_) | Mounted::Ubifs(_))
        );
        let found = volume.found();
        let again = || Volume::located(found.clone(), &opening, Access::Read);
        let mut walk = volume.walk(self.salvage, &mut progress)?;
        walk.helpers = (threads > 1).then(|| Helpers {
            // The walk itself reads what needs no unpacking.
            threads: threads - usize::from(!unpack),
            open: &again,
            unpack,
        });
        let outcome = walk.run(bytes(&self.path), sink);
        let losses = std::mem::take(&mut walk.losses);
        report.losses.merge(losses);
        bar.finish_and_clear();
        if let Some(truncation) = volume
            .truncation
            .filter(|_| outcome.is_err() && !self.salvage)
        {
            note(format_args!("{truncation}; --salvage takes what is left"));
        }
        outcome.map_err(|error| volume.explain(error).into())
    }

    /// A small image is taken out before another thread has it open.
    fn threads(&self) -> usize {
        let small = std::fs::metadata(&self.image.image).is_ok_and(|image| image.len() < SMALL);
        if small {
            1
        } else {
            std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(THREADS_MAX)
        }
    }
}
