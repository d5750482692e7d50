//! `nandlab image history`: what an image still knows of its past.

use super::options::{Image, bar, json};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::ImageError;
use nandlab_image::history::{Deleted, Event, History};
use nandlab_image::ubi::Version;
use nandlab_image::volume::Mounted;
use serde::Serialize;
use std::fs::{self, File};
use std::path::PathBuf;

/// Tell what JFFS2 or UBI still know of their past, and bring deleted files of JFFS2 back
#[derive(Debug, clap::Args)]
#[command(after_help = "Of UBI: every version of every logical block. What the volumes held when a version was the last is read by any verb with --until SEQUENCE.")]
pub struct Past {
    #[command(flatten)]
    image: Image,
    /// Write the deleted files to this directory, each named by its inode
    #[arg(long, value_name = "DIR")]
    deleted: Option<PathBuf>,
    /// Print events and deleted files as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Told {
    events: Vec<Event>,
    deleted: Vec<Deleted>,
    damaged_nodes: u64,
}

impl Past {
    /// Tells it.
    pub fn execute(self) -> Result<Status, Failure> {
        let mut volume = self.image.open_damaged()?;
        if !matches!(volume.mounted, Some(Mounted::Jffs2(_)))
            && let Some(survey) = volume.survey(self.image.shape.until)?
        {
            return self.blocks(&survey.versions());
        }
        let bar = bar(None, "history");
        let history = History::read(&mut volume)?;
        bar.finish_and_clear();
        let told = Told { events: history.events(), deleted: history.deleted(), damaged_nodes: history.damaged };
        let mut lost = 0;
        if let Some(dir) = &self.deleted {
            fs::create_dir_all(dir).map_err(ImageError::file(dir))?;
            for file in &told.deleted {
                let path = dir.join(file.ino.to_string());
                let to = File::create_new(&path).map_err(ImageError::file(&path))?;
                lost += history.contents(&mut volume, file.ino, None, &to)?;
            }
        }
        if self.json {
            json(&told)?;
        } else {
            let mut text = String::new();
            for event in &told.events {
                text += &format!(
                    "{} {}: {}\n",
                    nandlab_image::manifest::date(nandlab_vfs::Time::new(event.time.into())),
                    event.path,
                    event.what
                );
            }
            for file in &told.deleted {
                text += &format!("deleted: {}, inode {}, {} bytes\n", file.path, file.ino, file.size);
            }
            print(&text)?;
        }
        if lost > 0 {
            eprintln!("nandlab: of the deleted files {lost} bytes are overwritten; they are holes");
        }
        Ok(if lost > 0 { Status::Lost } else { Status::Done })
    }

    fn blocks(&self, versions: &[Version]) -> Result<Status, Failure> {
        if self.json {
            json(&versions)?;
            return Ok(Status::Done);
        }
        let line = |one: &Version| {
            let state = match (one.current, one.sound) {
                (_, Some(false)) => ", its checksum is wrong",
                (true, _) => ", counts",
                (false, _) => ", replaced",
            };
            format!("{} volume {} LEB {} at byte {:#x}{state}\n", one.sequence, one.volume, one.leb, one.offset)
        };
        print(&versions.iter().map(line).collect::<String>())?;
        Ok(Status::Done)
    }
}
