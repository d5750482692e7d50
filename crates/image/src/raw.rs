//! A volume of UBI, or a range of an image, as bytes, whatever they are.
//!
//! *Promises.* Every logical block that the volume has is written, unmapped ones as erased; of a
//! static volume its contents. Blocks whose checksums are wrong are written as they are, those that
//! are not there as erased, and both are losses. Memory is one logical block. *Knows nothing of*
//! what the bytes mean.

use crate::detect::{Detected, FlashKind};
use crate::error::{ImageError, Result};
use crate::flash::no_volume;
use crate::place::Place;
use crate::sink::STEP;
use crate::ubi::Survey;
use crate::volume::{Opening, Volume};
use crate::walk::Losses;
use nandlab_sim::Backing as _;
use nandlab_ubi::UbiError;
use nandlab_ubi::format::VolumeKind;
use std::io::Write;

/// Writes a volume; by default the only one, or the first with a file system. Gives its bytes and
/// what was lost.
pub fn raw(volume: &Volume, opening: &Opening, to: &mut dyn Write) -> Result<(u64, Losses)> {
    let volumes = volume.ubi_volumes();
    let (Some(volumes), Detected::Flash(_, FlashKind::Ubi { vid, .. })) =
        (volumes, volume.detected)
    else {
        let found = format!("{:?}", volume.detected);
        return Err(ImageError::Choice {
            what: "image",
            found,
            expected: "UBI, which has volumes".into(),
        });
    };
    let chosen = match &opening.volume {
        Some(wanted) => volumes
            .iter()
            .find(|one| crate::flash::is_called(one, wanted)),
        None if volumes.len() == 1 => volumes.first(),
        None => volumes.iter().find(|one| one.holds.is_some()),
    };
    let id = chosen
        .ok_or_else(|| no_volume(volumes, opening.volume.as_deref().unwrap_or("none")))?
        .id;
    if vid == 0 {
        by_log(volume, id, to)
    } else {
        by_blocks(volume, opening, (vid, id), to)
    }
}

/// Writes the bytes of a range as they are; gives how many.
pub fn range(place: &Place, to: &mut dyn Write) -> Result<u64> {
    let mut bytes = place.raw()?;
    let mut buffer = vec![0; STEP];
    let len = bytes.len();
    for at in (0..len).step_by(STEP) {
        let part = &mut buffer[..STEP.min((len - at) as usize)];
        bytes.read_at(at, part).map_err(|error| ImageError::Open {
            layer: "range",
            why: format!("bytes {at} to {}: {error}", at + part.len() as u64),
        })?;
        to.write_all(part).map_err(written)?;
    }
    to.flush().map_err(written)?;
    Ok(len)
}

fn written(error: std::io::Error) -> ImageError {
    ImageError::File {
        path: "the volume's bytes".into(),
        error,
    }
}

fn by_blocks(
    volume: &Volume,
    opening: &Opening,
    (vid, id): (u32, u32),
    to: &mut dyn Write,
) -> Result<(u64, Losses)> {
    let mut medium = volume.flash()?;
    let mut losses = Losses::default();
    let survey = Survey::read(&mut *medium, vid, opening.until)?;
    let open = |why: &str| ImageError::Open {
        layer: "UBI",
        why: why.into(),
    };
    let mut bytes = survey
        .assemble(medium, id)
        .ok_or_else(|| open("logical blocks of no length"))?;
    let leb = bytes.leb_bytes();
    let lebs = bytes.len().div_ceil(u64::from(leb));
    let most = survey.lebs_max();
    // Those that are not there are written as well.
    if lebs > most {
        return Err(open(&format!(
            "volume {id}: found {lebs} logical blocks, expected at most {most} in an image of {} blocks",
            survey.shape.pebs
        )));
    }
    let fixed = survey
        .volumes
        .get(&id)
        .is_some_and(|record| record.kind == VolumeKind::Static);
    let mut buffer = vec![0; leb as usize];
    for (lnum, at) in (0..bytes.len()).step_by(leb as usize).enumerate() {
        let part = &mut buffer[..u64::from(leb).min(bytes.len() - at) as usize];
        let end = at + part.len() as u64;
        let mut lose =
            |why: String| losses.add(b"", format!("LEB {lnum}, bytes {at} to {end}: {why}"));
        match survey.current(id, lnum as u32) {
            None if fixed => lose("found no block, expected one".into()),
            Some(held) if held.sound == Some(false) => {
                let at = u64::from(held.peb) * u64::from(survey.shape.peb_bytes);
                lose(format!(
                    "at byte {at} of the flash, found another checksum than {:#x}, expected that",
                    held.vid.data_crc
                ));
            }
            _ => {}
        }
        if let Err(error) = bytes.read_at(at, part) {
            part.fill(0xFF);
            lose(error.to_string());
        }
        to.write_all(part).map_err(written)?;
    }
    to.flush().map_err(written)?;
    Ok((bytes.len(), losses))
}

fn by_log(volume: &Volume, id: u32, to: &mut dyn Write) -> Result<(u64, Losses)> {
    let failed = |error: UbiError| ImageError::Open {
        layer: "UBI",
        why: error.to_string(),
    };
    let mut ubi = volume.attached()?;
    let mut losses = Losses::default();
    let info = ubi.volume(id).map_err(failed)?;
    let mut buffer = vec![0; info.leb_bytes as usize];
    for (lnum, at) in (0..info.used_bytes)
        .step_by(info.leb_bytes.max(1) as usize)
        .enumerate()
    {
        let part = &mut buffer[..u64::from(info.leb_bytes).min(info.used_bytes - at) as usize];
        match ubi.read(id, lnum as u32, 0, part) {
            Err(UbiError::Lost { .. }) => losses.add(
                b"",
                format!(
                    "LEB {lnum}, bytes {at} to {}: contents lost",
                    at + part.len() as u64
                ),
            ),
            other => other.map_err(failed)?,
        }
        to.write_all(part).map_err(written)?;
    }
    if info.record.kind == VolumeKind::Static {
        let wrong = ubi.check_volume(id).map_err(failed)?;
        wrong.into_iter().for_each(|lnum| {
            losses.add(
                b"",
                format!("LEB {lnum}: found another checksum than its header's"),
            )
        });
    }
    to.flush().map_err(written)?;
    Ok((info.used_bytes, losses))
}
