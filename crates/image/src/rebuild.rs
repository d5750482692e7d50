//! Makes a damaged UBIFS anew, in its own place, from a salvage.
//!
//! *Promises.* The new volume has the number, the key hash, the compressor, the fanout and the
//! length of the old one; mkfs decides the lengths of its areas. UBI and its other volumes stay the
//! same. A file without enough room grows, as far as the superblock allows. It reports each loss;
//! the missing ranges of a file are zeros. *Knows nothing of* the past of the volume, which ends.

use crate::detect::{Detected, DiskKind};
use crate::error::Result;
use crate::locate::Located;
use crate::make::{self, Making, is_full};
use crate::source;
use crate::tree::Tree;
use crate::volume::{Mounted, Opening, Volume, failed};
use crate::walk::Losses;
use nandlab_sim::Backing as _;
use nandlab_ubifs::Format;
use nandlab_vfs::report::Severity;

/// The least number of logical blocks of a new volume.
const LEBS_MIN: u64 = 17;

/// The shape of a new volume.
pub(crate) struct Wanted {
    choices: Format,
    leb: u32,
    fixup: bool,
}

/// True if a superblock describes the UBIFS of a file. In UBI, UBI describes it.
pub(crate) fn is_described(volume: &Volume) -> bool {
    matches!(&volume.mounted, Some(Mounted::Ubifs(fs)) if !fs.is_headless())
}

/// The shape of the damaged UBIFS in a volume, if there is one.
pub(crate) fn wanted(volume: &mut Volume) -> Option<Wanted> {
    let Some(Mounted::Ubifs(fs)) = &mut volume.mounted else {
        return None;
    };
    fs.check().worst().filter(|worst| *worst > Severity::Note)?;
    let head = *fs.head();
    let here = head.geometry;
    let choices = Format {
        version: head.version,
        compressor: head.compressor,
        key_hash: head.key_hash,
        fanout: here.fanout,
        page: Some(here.min_io),
        lebs_max: Some(here.lebs_max),
        big_lpt: None,
        uuid: head.uuid,
        ..Format::default()
    };
    Some(Wanted {
        choices,
        leb: here.leb,
        fixup: head.needs_fixup(),
    })
}

impl Wanted {
    /// Puts all that `old` still has into a new volume in the copy of its image. Returns the
    /// losses.
    pub fn rebuild(self, mut old: Volume, copied: &Located, opening: &Opening) -> Result<Losses> {
        let path = old.place.path().to_path_buf();
        let (tree, mut losses) = source::volume_tree(&mut old, &path, true)?;
        let opening = Opening {
            volume: old.looked_into.map(|id| id.to_string()),
            ..opening.clone()
        };
        drop(old);
        losses.merge(self.filled(&tree, copied, &opening)?);
        Ok(losses)
    }

    /// Tries with the room that there is, then with more.
    fn filled(&self, tree: &Tree, copied: &Located, opening: &Opening) -> Result<Losses> {
        let mut growing = tree_bytes(self, tree);
        loop {
            let there = copied.place.raw()?.len();
            let outcome = match self.may_grow(copied) && there < LEBS_MIN * u64::from(self.leb) {
                true => Err(make::too_small(
                    "UBIFS",
                    "fewer than 17 logical blocks",
                    true,
                )),
                false => self.attempt(tree, copied, opening),
            };
            match outcome {
                Err(error) if is_full(&error) && self.may_grow(copied) => {
                    if !self.grow(copied, there, growing)? {
                        return Err(error);
                    }
                    growing += growing / 3;
                }
                outcome => return outcome,
            }
        }
    }

    fn may_grow(&self, copied: &Located) -> bool {
        copied.detected == Detected::Disk(DiskKind::Ubifs) && !copied.place.is_part()
    }

    /// Makes a file longer; false if it may not become longer.
    fn grow(&self, copied: &Located, there: u64, wanted: u64) -> Result<bool> {
        let leb = u64::from(self.leb);
        let most = u64::from(self.choices.lebs_max.unwrap_or(0)) * leb;
        let end = wanted.next_multiple_of(leb).min(most);
        if end <= there {
            return Ok(wanted < most);
        }
        let whole = there / leb * leb;
        copied.place.extend(whole, leb, (end - whole) / leb)?;
        Ok(true)
    }

    fn attempt(&self, tree: &Tree, copied: &Located, opening: &Opening) -> Result<Losses> {
        let mut volume = Volume::anew(copied.clone(), opening, self.choices)?;
        let Some(Mounted::Ubifs(fs)) = volume.mounted.take() else {
            let why = volume.troubles.last().cloned();
            return Err(failed(
                "UBIFS",
                why.unwrap_or("it was not made anew".into()),
            ));
        };
        let mut ignored = |_| {};
        let mut making = self.making(&mut ignored);
        let (_, losses) = making.fill_ubifs(tree, *fs, self.fixup)?;
        Ok(losses)
    }

    fn making<'a>(&self, progress: &'a mut dyn FnMut(u64)) -> Making<'a> {
        Making {
            format: make::Format::Ubifs {
                choices: self.choices,
                leb: self.leb,
                fixup: self.fixup,
            },
            size: None,
            lossy: true,
            threads: 2,
            progress,
        }
    }
}

/// Bytes that a volume with the tree takes, as an estimate.
fn tree_bytes(wanted: &Wanted, tree: &Tree) -> u64 {
    let mut ignored = |_| {};
    wanted.making(&mut ignored).format.bytes(tree)
}
