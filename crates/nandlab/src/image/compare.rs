//! `nandlab image diff`, `convert`, `dump`.

use super::options::{Ecc, Image, Shape, dump_format, ecc, json, layout, size};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::anew::anew;
use nandlab_image::convert::{Converted, convert};
use nandlab_image::detect::Detected;
use nandlab_image::diff::{Ignored, Side, diff};
use nandlab_image::dump;
use nandlab_image::locate::locate;
use nandlab_image::place::Place;
use nandlab_image::volume::Opening;
use nandlab_image::words::{counted, visible};
use nandlab_image::{ImageError, source};
use nandlab_mtd::Layout;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

/// Tell what differs between two trees: images, directories, archives, manifests
#[derive(Debug, clap::Args)]
pub struct Diff {
    /// First image or tree
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// Second image or tree
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// Do not compare timestamps
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
    pub fn execute(self) -> Result<Status, Failure> {
        let read = |path: &PathBuf| source::read(path, None, &Opening::default());
        let ignored = Ignored {
            times: self.ignore_times,
            owners: self.ignore_owners,
        };
        let found = diff(&read(&self.first)?, &read(&self.second)?, ignored)?;
        if self.json {
            json(&found)?;
        } else {
            print(&found.iter().map(line).collect::<String>())?;
        }
        Ok(if found.is_empty() {
            Status::Done
        } else {
            Status::Problem
        })
    }
}

fn line(one: &nandlab_image::diff::Difference) -> String {
    let path = &one.path;
    match one.side {
        Side::First => format!("- {path}\n"),
        Side::Second => format!("+ {path}\n"),
        Side::Both => format!("~ {path}: {}\n", one.what.join("; ")),
    }
}

/// Write a dump of flash with other spare bytes; or make JFFS2 and UBI anew for other pages and
/// blocks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new dump has the ECC bytes of --to-ecc. Pages beyond correction are carried over without ECC bytes and counted: the status is 3.\n\
    With --to-page or --to-block the image is not carried over but made anew from the tree, or the volumes, that it holds: what it knows of its past is gone.\n\
    For another byte order or format make a new image of the old one: nandlab image create --endian big NEW OLD."
)]
pub struct Convert {
    #[command(flatten)]
    image: Image,
    /// Dump or image to write
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Spare bytes behind each page in the new dump; 0 for data only
    #[arg(long, value_parser = size, value_name = "BYTES", required_unless_present_any = ["to_page", "to_block"])]
    to_oob: Option<u64>,
    /// Data bytes of a page of the new flash: the image is made anew
    #[arg(long, value_parser = size, value_name = "BYTES")]
    to_page: Option<u64>,
    /// Data bytes of an erase block of the new flash: the image is made anew
    #[arg(long, value_parser = size, value_name = "BYTES")]
    to_block: Option<u64>,
    /// Who owns which of them [default: as Linux has it]
    #[arg(long, value_parser = layout, value_name = "LAYOUT")]
    to_layout: Option<Layout>,
    /// Code of the new ECC bytes: none (they stay erased), hamming, hamming-512, hamming-smc, bch-N
    /// [default: as Linux has it, hamming with 16, 64 and 128 spare bytes]
    #[arg(long, value_parser = ecc, value_name = "CODE", requires = "to_oob")]
    to_ecc: Option<Ecc>,
    /// Print what was carried over as JSON
    #[arg(long)]
    json: bool,
}

impl Convert {
    pub fn execute(self) -> Result<Status, Failure> {
        let image = &self.image.image;
        let located = locate(&Place::file(image), &self.image.shape.opening())?;
        let shape = match located.detected {
            Detected::Flash(shape, _) => shape,
            other => {
                let found = format!("{other:?}");
                return Err(ImageError::Choice {
                    what: "image",
                    found,
                    expected: "a dump of flash".into(),
                }
                .into());
            }
        };
        let small = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let page = self.to_page.map_or(shape.page, small);
        let oob = self.to_oob.map_or(0, small);
        let format = |pages_per_block| {
            dump_format((page, oob, pages_per_block), self.to_layout, self.to_ecc)
        };
        if self.to_page.is_some() || self.to_block.is_some() {
            let block = self
                .to_block
                .map_or(shape.page * shape.pages_per_block, small);
            if page == 0 || block < page || !block.is_multiple_of(page) {
                let found = format!("{block} bytes with pages of {page}");
                return Err(ImageError::Choice {
                    what: "block",
                    found,
                    expected: "whole pages".into(),
                }
                .into());
            }
            let new = format(block / page)?;
            let bytes = anew(image, &self.image.shape.opening(), new, &self.new)?;
            print(&format!(
                "{}: {}, made anew\n",
                self.new.display(),
                counted(bytes, "byte")
            ))?;
            return Ok(Status::Done);
        }
        let new = format(shape.pages_per_block)?;
        let converted = convert(&located.place, shape, &self.new, new)?;
        if self.json {
            json(&converted)?;
        } else {
            self.tell(&converted)?;
        }
        Ok(if converted.cut > 0 || converted.failed > 0 {
            Status::Lost
        } else {
            Status::Done
        })
    }

    fn tell(&self, converted: &Converted) -> Result<(), Failure> {
        print(&format!(
            "{}: {} carried over, {} corrected, {}\n",
            self.new.display(),
            counted(converted.pages, "page"),
            converted.corrected,
            counted(converted.bad, "bad block")
        ))?;
        if converted.cut > 0 {
            eprintln!(
                "nandlab: of {} not all user bytes found a place",
                counted(converted.cut, "page")
            );
        }
        if let Some(first) = converted.failed_pages.first() {
            eprintln!(
                "nandlab: {} beyond correction, the first is page {first}",
                counted(converted.failed, "page")
            );
        }
        Ok(())
    }
}

/// List the structures of an image where they lie: nodes of JFFS2, headers of UBI's blocks, layouts
/// of the others
#[derive(Debug, clap::Args)]
pub struct Dump {
    /// Image file to read
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    #[command(flatten)]
    shape: Shape,
    /// Print an object of JSON a line
    #[arg(long)]
    json: bool,
}

impl Dump {
    pub fn execute(self) -> Result<Status, Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let failed = ImageError::file("standard output");
        let outcome = dump::dump(&self.image, &self.shape.opening(), &mut |item| {
            let text = if self.json {
                serde_json::to_string(item).unwrap_or_default()
            } else {
                visible(&item.to_string()).into_owned()
            };
            writeln!(out, "{text}").map_err(ImageError::file("standard output"))
        });
        match outcome.and_then(|()| out.flush().map_err(failed)) {
            // A reader that has gone away is no failure.
            Err(ImageError::File { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(Status::Done)
            }
            outcome => Ok(outcome.map(|()| Status::Done)?),
        }
    }
}
