//! `nandlab image history`: what an image still knows of its past.

use super::options::{Image, bar, json};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::ImageError;
use nandlab_image::history::{Deleted, Event, History};
use nandlab_image::past::{Former, contents, former};
use nandlab_image::ubi::Version;
use nandlab_image::volume::{Mounted, Volume};
use nandlab_image::words::counted;
use serde::Serialize;
use std::fs::{self, File};
use std::path::PathBuf;

/// Tell what an image still knows of its past, and bring deleted files and former versions back:
/// JFFS2, UBIFS, UBI, F2FS, ext2
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Of UBI without JFFS2 or UBIFS in it: every version of every logical block. What \
    the volumes held when a version was the last is read by any verb with --until SEQUENCE."
)]
pub struct Past {
    #[command(flatten)]
    image: Image,
    /// Write the deleted files to this directory, each named by its inode; of F2FS all former
    /// versions, with theirs
    #[arg(long, value_name = "DIR")]
    deleted: Option<PathBuf>,
    /// Print events and deleted files as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Reported {
    events: Vec<Event>,
    deleted: Vec<Deleted>,
    damaged_nodes: u64,
}

impl Past {
    pub fn execute(self) -> Result<Status, Failure> {
        let mut volume = self.image.open_damaged()?;
        if !matches!(volume.mounted, Some(Mounted::Jffs2(_) | Mounted::Ubifs(_)))
            && let Some(survey) = volume.survey(self.image.shape.until)?
        {
            return self.blocks(&survey.versions());
        }
        if matches!(volume.mounted, Some(Mounted::F2fs(_) | Mounted::Ext(_))) {
            return self.files(&mut volume);
        }
        let bar = bar(None, "history");
        let history = History::read(&mut volume)?;
        bar.finish_and_clear();
        let reported = Reported {
            events: history.events(),
            deleted: history.deleted(),
            damaged_nodes: history.damaged,
        };
        let mut lost = 0;
        if let Some(dir) = &self.deleted {
            fs::create_dir_all(dir).map_err(ImageError::file(dir))?;
            for file in &reported.deleted {
                let path = dir.join(file.ino.to_string());
                let to = File::create_new(&path).map_err(ImageError::file(&path))?;
                lost += history.contents(&mut volume, file.ino, None, &to)?;
            }
        }
        if self.json {
            json(&reported)?;
        } else {
            let mut text = String::new();
            for event in &reported.events {
                text += &format!(
                    "{} {}: {}\n",
                    nandlab_image::manifest::date(nandlab_vfs::Time::new(event.time)),
                    event.path,
                    event.what
                );
            }
            for file in &reported.deleted {
                text += &format!(
                    "deleted: {}, inode {}, {}\n",
                    file.path,
                    file.ino,
                    counted(file.size, "byte")
                );
            }
            print(&text)?;
        }
        if lost > 0 {
            eprintln!("nandlab: of the deleted files {lost} bytes are overwritten; they are holes");
        }
        Ok(if lost > 0 { Status::Lost } else { Status::Done })
    }

    /// Versions of files of F2FS, deleted files of ext2.
    fn files(&self, volume: &mut Volume) -> Result<Status, Failure> {
        let all = former(volume)?;
        let mut lost = 0;
        if let Some(dir) = &self.deleted {
            fs::create_dir_all(dir).map_err(ImageError::file(dir))?;
            for (number, one) in all.iter().enumerate().filter(|(_, one)| !one.current) {
                let path = dir.join(format!("{}.{}.{number}", one.ino, one.version));
                let to = File::create_new(&path).map_err(ImageError::file(&path))?;
                lost += contents(volume, one, &to)?;
            }
        }
        if self.json {
            json(&all)?;
        } else {
            let line = |one: &Former| {
                let state = if one.current { ", counts" } else { "" };
                let gone = if one.lost > 0 {
                    format!(", {} of them belong to others now", one.lost)
                } else {
                    String::new()
                };
                let date = nandlab_image::manifest::date(nandlab_vfs::Time::new(one.mtime));
                format!(
                    "{date} inode {} version {} {}: {} bytes{gone}{state}\n",
                    one.ino, one.version, one.name, one.size
                )
            };
            print(&all.iter().map(line).collect::<String>())?;
            if all.is_empty() && matches!(volume.mounted, Some(Mounted::Ext(_))) {
                eprintln!(
                    "nandlab: no deleted inode has blocks left; ext3 clears them, only ext2 \
                     leaves them"
                );
            }
        }
        if lost > 0 {
            eprintln!("nandlab: of the former files {lost} bytes belong to others now");
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
            format!(
                "{} volume {} LEB {} at byte {:#x}{state}\n",
                one.sequence, one.volume, one.leb, one.offset
            )
        };
        print(&versions.iter().map(line).collect::<String>())?;
        Ok(Status::Done)
    }
}
