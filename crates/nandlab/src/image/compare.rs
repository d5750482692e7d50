//! `nandlab image diff`, `convert`, `dump`.

use super::options::{Image, Shape, json, layout, size};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::convert::convert;
use nandlab_image::detect::Detected;
use nandlab_image::diff::{Ignored, Side, diff};
use nandlab_image::dump;
use nandlab_image::volume::{Opening, detected};
use nandlab_image::{ImageError, source};
use nandlab_mtd::Layout;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

/// Tell what differs between two trees: images, directories, archives, manifests
#[derive(Debug, clap::Args)]
pub struct Diff {
    /// The first
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// The second
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// Leave times aside
    #[arg(long)]
    ignore_times: bool,
    /// Leave owners and permissions aside
    #[arg(long)]
    ignore_owners: bool,
    /// Print a list of differences as JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    /// Tells it.
    pub fn execute(self) -> Result<Status, Failure> {
        let read = |path: &PathBuf| source::read(path, None, &Opening::default());
        let ignored = Ignored { times: self.ignore_times, owners: self.ignore_owners };
        let found = diff(&read(&self.first)?, &read(&self.second)?, ignored)?;
        if self.json {
            json(&found)?;
        } else {
            let line = |side, path: &dyn std::fmt::Display, what: &[String]| match side {
                Side::First => format!("- {path}\n"),
                Side::Second => format!("+ {path}\n"),
                Side::Both => format!("~ {path}: {}\n", what.join("; ")),
            };
            print(&found.iter().map(|one| line(one.side, &one.path, &one.what)).collect::<String>())?;
        }
        Ok(if found.is_empty() { Status::Done } else { Status::Problem })
    }
}

/// Write a dump of flash with other spare bytes; page and block stay as they are
#[derive(Debug, clap::Args)]
#[command(after_help = "What the new layout gives to error correction stays erased: nandwrite without -n computes it.\n\
    For another byte order, page or format make a new image of the old one: nandlab image create --endian big NEW OLD.")]
pub struct Convert {
    #[command(flatten)]
    image: Image,
    /// The new dump
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Spare bytes behind each page in the new dump; 0 for data only
    #[arg(long, value_parser = size, value_name = "BYTES")]
    to_oob: u64,
    /// Who owns which of them [default: as Linux has it]
    #[arg(long, value_parser = layout, value_name = "LAYOUT")]
    to_layout: Option<Layout>,
    /// Print what was carried over as JSON
    #[arg(long)]
    json: bool,
}

impl Convert {
    /// Writes it.
    pub fn execute(self) -> Result<Status, Failure> {
        let image = &self.image.image;
        let shape = match detected(image, &self.image.shape.opening().hints)? {
            Detected::Flash(shape, _) => shape,
            other => {
                let found = format!("{other:?}");
                return Err(ImageError::Choice { what: "image", found, expected: "a dump of flash".into() }.into());
            }
        };
        let oob = self.to_oob as u32;
        let layout = self.to_layout.unwrap_or(match (shape.page, oob) {
            (..=512, 16) => Layout::LinuxSmallPage,
            (513.., 64) => Layout::LinuxLargePage64,
            _ => Layout::MarkerOnly,
        });
        let converted = convert(image, shape, &self.new, oob, layout)?;
        if self.json {
            json(&converted)?;
        } else {
            print(&format!("{}: {} pages carried over, {} bad blocks\n", self.new.display(), converted.pages, converted.bad))?;
            if converted.cut > 0 {
                eprintln!("nandlab: of {} pages not all user bytes found a place", converted.cut);
            }
        }
        Ok(if converted.cut > 0 { Status::Lost } else { Status::Done })
    }
}

/// List the structures of an image where they lie: nodes of JFFS2, headers of UBI's blocks, layouts of the others
#[derive(Debug, clap::Args)]
pub struct Dump {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    #[command(flatten)]
    shape: Shape,
    /// Print an object of JSON a line
    #[arg(long)]
    json: bool,
}

impl Dump {
    /// Lists them.
    pub fn execute(self) -> Result<Status, Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let failed = ImageError::file("standard output");
        let outcome = dump::dump(&self.image, &self.shape.opening(), &mut |item| {
            let text = if self.json { serde_json::to_string(item).unwrap_or_default() } else { item.to_string() };
            writeln!(out, "{text}").map_err(ImageError::file("standard output"))
        });
        match outcome.and_then(|()| out.flush().map_err(failed)) {
            // A reader that has gone away is no failure.
            Err(ImageError::File { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Status::Done),
            outcome => Ok(outcome.map(|()| Status::Done)?),
        }
    }
}
