//! Repair: what a mount puts right by itself (journals, logs, orphans, volume tables), and what
//! follows from something else and says something else.
//!
//! *Promises.* A copy beside the image is repaired, checked again, and takes the image's place only
//! where nothing is lost or in danger in it any more; otherwise the image stays as it is, and what
//! was found in the copy tells why. Contents that are damaged are not made up:
//! [`extract`](crate::walk) takes what is left of them. `rebuild` makes a damaged UBIFS anew and
//! reports each loss. *Knows nothing of* what a format counts as wrong: its own check and its own
//! repair see to that.

use crate::check::{Checked, Finding, Severity, check};
use crate::copies;
use crate::detect::{Detected, DiskKind, FlashKind};
use crate::edit::{copy, locked, replace};
use crate::error::{ImageError, Result};
use crate::locate::{Located, locate};
use crate::place::Place;
use crate::rebuild;
use crate::volume::{Access, AnyDisk, Mounted, Opening, Volume, lent};
use crate::walk::Losses;
use nandlab_block::{BlockDevice as _, Lba, Patch};
use nandlab_ext::Ext;
use nandlab_f2fs::F2fs;
use nandlab_fat::Fat;
use nandlab_scratch::beside;
use nandlab_vfs::{Errno, FileSystem, Time};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Times that a volume is looked at: one repair may show the next.
const PASSES: usize = 12;

/// The outcome of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The check's findings before the repair.
    pub before: Checked,
    /// What was wrong with the copy in the end.
    pub after: Checked,
    /// True if the copy has taken the image's place.
    pub replaced: bool,
    /// The losses of a volume in a rebuild.
    pub lost: Losses,
}

/// Repairs the image at `path`; `now` is when what gets a new name changed.
pub fn repair(path: &Path, opening: &Opening, now: Time) -> Result<Repaired> {
    let real = fs::canonicalize(path).map_err(ImageError::file(path))?;
    let lock = locked(&real)?;
    let open = Opening {
        salvage: true,
        ..opening.clone()
    };
    let located = locate(&Place::file(&real), &open)?;
    let looked = |located: Located| {
        let mut volume = Volume::located(located, &open, Access::Read)?;
        let checked = check(&mut volume)?;
        Ok::<_, ImageError>((volume, checked))
    };
    let (mut volume, before) = looked(located.clone())?;
    let detected = located.detected;
    let unchanged = |after: Checked| Repaired {
        before: before.clone(),
        after,
        replaced: false,
        lost: Losses::default(),
    };
    if before.findings.is_empty() {
        return Ok(unchanged(before.clone()));
    }
    if let Some(why) = hopeless(&volume) {
        let mut after = before.clone();
        after.add(Finding::new(Severity::Note, None, why.into()));
        return Ok(unchanged(after));
    }
    located.certain()?;
    let scratch = beside(&real)?;
    copy(lock.file(), scratch.as_file()).map_err(ImageError::file(&real))?;
    let copied = located.in_file(scratch.path());
    let mut lost = Losses::default();
    match (rebuild::wanted(&mut volume), detected) {
        (Some(wanted), _) => lost = wanted.rebuild(volume, &copied, &open)?,
        (None, Detected::Disk(kind)) if kind != DiskKind::Ubifs => {
            let mut disk = copied.place.disk(Access::Write)?;
            repair_disk(&mut disk, kind, now)?;
        }
        _ => repair_flash(copied.clone(), opening, now)?,
    }
    let (_, after) = looked(copied)?;
    if after.worst() == Some(Severity::Damage) || weight(&after) >= weight(&before) {
        return Ok(unchanged(after));
    }
    replace(scratch, &lock, &real)?;
    Ok(Repaired {
        before,
        after,
        replaced: true,
        lost,
    })
}

/// How many findings there are, the worst first. Those that were not kept may be anything. UBI's
/// own work leaves notes: blocks that are queued for an erase.
fn weight(checked: &Checked) -> [u64; 3] {
    let count = |severity| {
        checked
            .findings
            .iter()
            .filter(|one| one.severity == severity)
            .count() as u64
    };
    [
        count(Severity::Damage) + checked.more,
        count(Severity::Waste),
        count(Severity::Note),
    ]
}

/// Why nothing can be done where nodes or blocks are what they are.
fn hopeless(volume: &Volume) -> Option<&'static str> {
    match volume.detected {
        _ if volume.truncation.is_some() => Some(
            "the end of the image is missing and cannot be repaired; extract --salvage takes what \
             is left, and create makes a new image of it",
        ),
        Detected::Disk(DiskKind::Squashfs) => Some(
            "squashfs is never changed in place; extract --salvage takes what is left, and mksquashfs makes a new image of it",
        ),
        Detected::Disk(DiskKind::Ubifs) if !rebuild::is_described(volume) => Some(
            "the superblock is gone, and nothing else says how the volume was made; extract \
             --salvage takes what is left, and create makes a new image of it",
        ),
        Detected::Flash(_, FlashKind::Jffs2 { .. }) => Some(
            "JFFS2 has nothing to repair in place: it ignores damaged nodes; extract --salvage \
             takes what is left, and create makes a new image of it",
        ),
        _ => None,
    }
}

/// A mount that writes attaches UBI, recovers journals, and ends properly; then what is in the
/// volume is repaired.
fn repair_flash(located: Located, opening: &Opening, now: Time) -> Result<()> {
    let mut volume = Volume::located(located, opening, Access::Write)?;
    let failed = |error: Errno| ImageError::Open {
        layer: "file system",
        why: error.to_string(),
    };
    if let Some(Mounted::F2fs(fs)) = &mut volume.mounted {
        for _ in 0..PASSES {
            if fs.repair(now).map_err(failed)? == 0 {
                break;
            }
        }
    }
    if let Some(Mounted::Ext(fs)) = &mut volume.mounted {
        fs.reconnect(now).map_err(failed)?;
    }
    if volume.mounted.is_some() {
        volume.close()?;
    }
    let mounted = volume.mounted.take();
    drop(volume);
    let disk: Option<(AnyDisk, DiskKind)> = match mounted {
        Some(Mounted::Ext(fs)) => Some((fs.into_device(), DiskKind::Ext)),
        Some(Mounted::Fat(fs)) => Some((fs.into_parts().0, DiskKind::Fat)),
        _ => None,
    };
    match disk {
        Some((mut disk, kind)) => repair_disk(&mut disk, kind, now),
        None => Ok(()),
    }
}

fn repair_disk(disk: &mut AnyDisk, kind: DiskKind, now: Time) -> Result<()> {
    // Where neither succeeds what is still wrong is found by the check that follows.
    if !recover(disk, kind) && copies::restore(disk, kind).is_some() {
        recover(disk, kind);
    }
    if kind == DiskKind::F2fs {
        if let Ok(mut fs) = F2fs::mount(lent(disk), nandlab_f2fs::Options::default()) {
            for _ in 0..PASSES {
                if !matches!(fs.repair(now), Ok(1..)) {
                    break;
                }
            }
            _ = fs.unmount();
        }
        return Ok(());
    }
    for _ in 0..PASSES {
        let patches = patches(disk, kind);
        if patches.is_empty() {
            let named = kind == DiskKind::Ext
                && Ext::mount(lent(disk), nandlab_ext::Options::default()).is_ok_and(|mut fs| {
                    let named = fs.reconnect(now);
                    fs.unmount().is_ok() && named.is_ok_and(|count| count > 0)
                });
            if !named {
                break;
            }
        }
        for patch in patches {
            put(disk, patch.at, &patch.bytes)?;
        }
    }
    recover(disk, kind);
    disk.flush().map_err(|error| ImageError::Open {
        layer: "disk",
        why: error.to_string(),
    })
}

/// Recovers the journal by a mount for writing; returns whether that succeeded.
fn recover(disk: &mut AnyDisk, kind: DiskKind) -> bool {
    let disk = lent(disk);
    match kind {
        DiskKind::Ext => Ext::mount(disk, <_>::default()).is_ok_and(finish),
        DiskKind::F2fs => F2fs::mount(disk, <_>::default()).is_ok(),
        DiskKind::Fat => Fat::mount(disk, <_>::default()).is_ok_and(finish),
        DiskKind::Squashfs | DiskKind::Ubifs => false,
    }
}

fn finish(mut fs: impl FileSystem) -> bool {
    fs.sync().and_then(|()| fs.unmount()).is_ok()
}

fn patches(disk: &mut AnyDisk, kind: DiskKind) -> Vec<Patch> {
    let disk = lent(disk);
    match kind {
        DiskKind::Ext => {
            let options = nandlab_ext::Options {
                read_only: true,
                ..Default::default()
            };
            let mounted = Ext::mount(disk, options);
            mounted.and_then(|mut fs| fs.repair()).unwrap_or_default()
        }
        DiskKind::Fat => {
            let options = nandlab_fat::Options {
                read_only: true,
                ..Default::default()
            };
            let mounted = Fat::mount(disk, options);
            mounted.and_then(|mut fs| fs.repair()).unwrap_or_default()
        }
        DiskKind::F2fs | DiskKind::Squashfs | DiskKind::Ubifs => Vec::new(),
    }
}

/// Bytes anywhere on a disk.
fn put(disk: &mut AnyDisk, at: u64, bytes: &[u8]) -> Result<()> {
    let failed = |error: nandlab_block::BlockError| ImageError::Open {
        layer: "disk",
        why: error.to_string(),
    };
    let sector = u64::from(disk.geometry().sector);
    let first = at / sector;
    let within = (at % sector) as usize;
    let mut image = vec![0; (within + bytes.len()).next_multiple_of(sector as usize)];
    disk.read(Lba(first), &mut image).map_err(failed)?;
    image[within..within + bytes.len()].copy_from_slice(bytes);
    disk.write(Lba(first), &image).map_err(failed)
}
