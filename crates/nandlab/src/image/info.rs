//! `nandlab image info`: which ranges an image holds, and the layers of the one that is read.

use super::options::{Image, json};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::Truncation;
use nandlab_image::locate::{locate_surveyed, survey};
use nandlab_image::place::Place;
use nandlab_image::ranges::{Content, Range, RangeReport, Ranges};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_image::words::counted;
use serde::Serialize;

/// Tell what an image is, layer by layer
#[derive(Debug, clap::Args)]
pub struct Info {
    #[command(flatten)]
    image: Image,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Space in a file system.
#[derive(Debug, Serialize)]
struct Space {
    bytes: u64,
    free: u64,
}

#[derive(Debug, Serialize)]
struct About<'a> {
    ranges: Vec<RangeReport>,
    layers: &'a [Layer],
    space: Option<Space>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "lack")]
    truncation: Option<Truncation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecovered: Option<&'a str>,
}

impl Info {
    pub fn execute(self) -> Result<Status, Failure> {
        let opening = self.image.shape.opening();
        let place = Place::file(&self.image.image);
        let ranges = survey(&place, &opening)?;
        let is_one = ranges.list.len() == 1 || ranges.read().count() == 1;
        if opening.selection.partition.is_none() && !is_one {
            return self.whole(&place, &ranges, &opening);
        }
        let located = locate_surveyed(&place, &ranges, &opening)?;
        let mut volume = Volume::located(located, &opening, Access::Read)?;
        let space = volume.fs().ok().and_then(|fs| fs.statfs().ok()).map(|all| {
            let unit = u64::from(all.block_bytes);
            Space {
                bytes: all.blocks * unit,
                free: all.free * unit,
            }
        });
        if self.json {
            json(&About {
                ranges: ranges.list.iter().map(Range::report).collect(),
                layers: &volume.layers,
                space,
                truncation: volume.truncation,
                unrecovered: volume.unrecovered.as_deref(),
            })?;
            return Ok(Status::Done);
        }
        let mut text = String::new();
        if ranges.list.len() > 1 {
            text += &table(&ranges);
        }
        volume.layers.iter().for_each(|layer| text += &line(layer));
        if let Some(space) = space {
            text += &format!("{} bytes for contents, {} free\n", space.bytes, space.free);
        }
        if let Some(truncation) = &volume.truncation {
            text += &format!("{truncation}\n");
        }
        if let Some(why) = &volume.unrecovered {
            text += &format!("its journal cannot be recovered: {why}\n");
        }
        print(&text)?;
        Ok(Status::Done)
    }

    /// An image with several ranges, or none that can be read.
    fn whole(&self, place: &Place, ranges: &Ranges, opening: &Opening) -> Result<Status, Failure> {
        let known = ranges
            .list
            .iter()
            .any(|range| range.content.is_read() || matches!(range.content, Content::Known(_)));
        if !known {
            // The error says what was looked for.
            locate_surveyed(place, ranges, opening)?;
        }
        if self.json {
            json(&About {
                ranges: ranges.list.iter().map(Range::report).collect(),
                layers: &[],
                space: None,
                truncation: None,
                unrecovered: None,
            })?;
        } else {
            print(&table(ranges))?;
        }
        Ok(Status::Done)
    }
}

/// A line for each range.
fn table(ranges: &Ranges) -> String {
    let all: Vec<RangeReport> = ranges.list.iter().map(Range::report).collect();
    let longest = all.iter().map(|one| one.name.chars().count()).max();
    let width = longest.unwrap_or(0);
    let line = |one: &RangeReport| {
        let says = match one.says.is_empty() {
            true => String::new(),
            false => format!(": {}", one.says),
        };
        let end = one.part.end();
        let bytes = counted(one.part.len, "byte");
        format!(
            "{:#012x}-{end:#012x} {:<width$} {}, {bytes}{says}\n",
            one.part.at, one.name, one.format
        )
    };
    all.iter().map(line).collect()
}

fn line(layer: &Layer) -> String {
    match layer {
        Layer::Flash {
            page,
            oob,
            block,
            blocks,
            oob_layout,
            ecc,
            bad,
        } => {
            let code = ecc
                .as_ref()
                .map_or(String::new(), |code| format!(", {code}"));
            let spare = oob_layout.map_or(String::new(), |layout| {
                format!(" + {oob} spare ({layout}{code})")
            });
            let bad = if bad.is_empty() {
                String::new()
            } else {
                format!(", bad: {bad:?}")
            };
            format!("flash: {blocks} blocks of {block} bytes, pages of {page}{spare}{bad}\n")
        }
        Layer::Ubi {
            leb,
            image_seq,
            erases,
            log,
            volumes,
        } => {
            let name = if *log { "UBIL" } else { "UBI" };
            let mut text = format!(
                "{name}: logical blocks of {leb} bytes, image {image_seq:#x}, erased {} to {} times\n",
                erases.0, erases.1
            );
            for volume in volumes {
                let holds = volume
                    .holds
                    .map_or(String::new(), |holds| format!(", {holds}"));
                let broken = if volume.corrupted {
                    ", blocks are missing"
                } else {
                    ""
                };
                let id = volume.id;
                let name = &volume.name;
                let kind = volume.kind;
                let lebs = volume.lebs;
                text += &format!(
                    "  volume {id} {name:?}: {kind}, {}, {} of them mapped, {}{holds}{broken}\n",
                    counted(lebs.0, "block"),
                    lebs.1,
                    counted(volume.bytes, "byte")
                );
            }
            text
        }
        Layer::Translation { name, bytes } => format!("{name}: a disk of {bytes} bytes\n"),
        Layer::Nftl { bytes } => format!("NFTL: a disk of {bytes} bytes\n"),
        Layer::Jffs2 { endian, medium } => format!("JFFS2: {endian}-endian, {medium}\n"),
        Layer::Ext {
            ext4,
            journal,
            block,
            blocks,
            inodes,
        } => {
            format!(
                "{}: {blocks} blocks of {block} bytes, {inodes} inodes\n",
                match (ext4, journal) {
                    (true, _) => "ext4",
                    (false, true) => "ext3",
                    (false, false) => "ext2",
                }
            )
        }
        Layer::F2fs { segments } => format!("F2FS: {segments} segments of 2 MiB for contents\n"),
        Layer::Fat {
            bits,
            cluster,
            clusters,
        } => format!("FAT{bits}: {clusters} clusters of {cluster} bytes\n"),
        Layer::Squashfs {
            compressor,
            block,
            inodes,
            bytes,
        } => format!(
            "squashfs: {bytes} bytes, {inodes} inodes, blocks of {block} bytes, {compressor}\n"
        ),
        Layer::Ubifs {
            format,
            leb,
            lebs,
            compressor,
            in_use,
            fixup,
            journal,
        } => {
            let state = match (in_use, fixup) {
                (true, _) => "not unmounted",
                (false, true) => "unmounted, free space to be fixed up",
                (false, false) => "unmounted",
            };
            format!(
                "UBIFS: format {format}, {lebs} logical blocks of {leb} bytes, {compressor}; \
                 {state}, {} in the journal\n",
                counted(*journal, "node")
            )
        }
    }
}
