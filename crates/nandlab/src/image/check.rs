//! `nandlab image check`: whether an image is sound, and repairs.

use super::options::{Image, json, tell};
use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_image::check::{Checked, Verdict, check};
use nandlab_image::repair::repair;
use nandlab_image::words::counted;
use serde::Serialize;

/// Look for anything that is wrong with an image
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 sound, 1 damaged, 2 not supported, 3 a part was not looked at. \
    Nothing is changed without --repair. What is repaired is written beside the image and takes \
    its place only where nothing is damaged any more:\n\
    journals and logs are recovered; bitmaps, tables, counts and links are made right; files without names get one in lost+found.\n\
    A rebuild of a damaged UBIFS lists its losses and ends with status 3. Keep a copy of the image."
)]
pub struct Check {
    #[command(flatten)]
    image: Image,
    /// Repair what can be repaired without making anything up
    #[arg(long)]
    repair: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn execute(self) -> Result<Status, Failure> {
        if self.repair {
            return self.repair();
        }
        let mut volume = self.image.open_damaged()?;
        let checked = check(&mut volume)?;
        let verdict = checked.verdict();
        if self.json {
            json(&Judged {
                verdict: verdict.to_string(),
                checked: &checked,
            })?;
        } else {
            print(&reported(&checked))?;
        }
        Ok(match verdict {
            Verdict::Sound => Status::Done,
            Verdict::Damaged => Status::Problem,
            Verdict::NotLookedAt => Status::Lost,
            Verdict::NotSupported => Status::BadInput,
        })
    }

    fn repair(&self) -> Result<Status, Failure> {
        let repaired = repair(
            &self.image.image,
            &self.image.shape.opening(),
            super::change::now()?,
        )?;
        if self.json {
            json(&repaired)?;
        } else {
            let outcome = match (repaired.replaced, repaired.before.findings.is_empty()) {
                (true, _) => "repaired; what is left:\n",
                (false, true) => "",
                (false, false) => "not repaired, the image is as it was; what would be left:\n",
            };
            print(&format!(
                "{}{outcome}{}",
                reported(&repaired.before),
                if outcome.is_empty() {
                    String::new()
                } else {
                    reported(&repaired.after)
                }
            ))?;
            tell(&repaired.lost);
        }
        Ok(if !repaired.lost.is_empty() {
            Status::Lost
        } else if repaired.replaced || repaired.before.findings.is_empty() {
            Status::Done
        } else {
            Status::Problem
        })
    }
}

fn reported(checked: &Checked) -> String {
    let mut text = String::new();
    checked
        .findings
        .iter()
        .for_each(|finding| text += &format!("{finding}\n"));
    if checked.more > 0 {
        text += &format!("{} more\n", checked.more);
    }
    if let Some(flips) = checked.flips.filter(|flips| flips.pages + flips.failed > 0) {
        text += &format!(
            "error correction: {} corrected in {}, {} beyond correction\n",
            counted(flips.bits, "bit"),
            counted(flips.pages, "page"),
            counted(flips.failed, "page")
        );
    }
    for part in &checked.unseen {
        text += &format!("not looked at: {part}\n");
    }
    match &checked.unsupported {
        Some(why) => text + &format!("not supported: {why}\n"),
        None => text + &format!("{}\n", checked.verdict()),
    }
}

/// A check with what it comes to.
#[derive(Serialize)]
struct Judged<'a> {
    verdict: String,
    #[serde(flatten)]
    checked: &'a Checked,
}
