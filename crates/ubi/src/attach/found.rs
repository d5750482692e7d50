//! The collection: logical blocks by volume, and the physical blocks that hold none.

use crate::UbiError;
use crate::cost::{list_bytes, tree_bytes};
use crate::flash::Flash;
use crate::format::{FieldError, VidHeader, VolumeKind, crc, rule};
use crate::options::SeededBug;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use nandlab_mtd::{Mtd, MtdError};

/// A physical block that holds no logical one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loose {
    pub peb: u32,
    /// Its erase counter, where known.
    pub ec: Option<u32>,
    /// It is to be tortured before it is trusted again.
    pub torture: bool,
    /// It reads as erased, which a cut may have left.
    pub doubtful: bool,
}

impl Loose {
    pub fn new(peb: u32, ec: Option<u32>) -> Self {
        Self {
            peb,
            ec,
            torture: false,
            doubtful: false,
        }
    }
}

/// Where a logical block was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundLeb {
    pub peb: u32,
    pub ec: Option<u32>,
    /// It is to be moved.
    pub scrub: bool,
    /// None where it is known from a fastmap: older than any header found beside it.
    pub vid: Option<VidHeader>,
}

/// A volume as its blocks tell it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundVolume {
    pub kind: VolumeKind,
    pub data_pad: u32,
    pub compat: u8,
    pub used_ebs: u32,
    /// Bytes in the last logical block that was found.
    pub last_bytes: u32,
    pub lebs: BTreeMap<u32, FoundLeb>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub volumes: BTreeMap<u32, FoundVolume>,
    pub free: Vec<Loose>,
    pub erase: Vec<Loose>,
    /// Damaged blocks that the attach preserves.
    pub corrupted: Vec<Loose>,
    /// Of internal volumes that are to be left alone.
    pub alien: Vec<Loose>,
    /// Blocks of fastmaps or of UBIL, by volume and sequence number.
    pub memory: Vec<(Loose, VidHeader)>,
    pub bad: u32,
    pub empty: u32,
    pub maybe_bad: u32,
    pub max_sqnum: u64,
    pub image_seq: u32,
    /// An internal volume allows no writes.
    pub read_only: bool,
    pub ec_sum: u64,
    pub ec_count: u64,
    /// Blocks to be left alone that are known by number only.
    pub asleep: u32,
    /// Logical blocks of which it is known where they are, but no more: volume, logical block,
    /// physical block.
    pub mapped: Vec<(u32, u32, u32)>,
    /// Groups of blocks of which a commit says something else.
    pub changed: BTreeSet<u32>,
}

impl Found {
    /// Counts a known erase counter.
    pub fn count_ec(&mut self, ec: Option<u32>) {
        if let Some(ec) = ec {
            self.ec_sum += u64::from(ec);
            self.ec_count += 1;
        }
    }

    /// The mean of the known erase counters: what unknown ones are taken to be.
    pub fn mean_ec(&self) -> u32 {
        self.ec_sum.checked_div(self.ec_count).unwrap_or(0) as u32
    }

    pub fn memory(&self) -> u64 {
        let lists = [&self.free, &self.erase, &self.corrupted, &self.alien];
        let lebs: usize = self.volumes.values().map(|volume| volume.lebs.len()).sum();
        let loose: u64 = lists.into_iter().map(list_bytes).sum();
        loose
            + list_bytes(&self.memory)
            + list_bytes(&self.mapped)
            + tree_bytes(lebs, size_of::<(u32, FoundLeb)>())
    }

    /// Every block that was found good, for the cross-check of a fastmap.
    pub fn blocks(&self) -> impl Iterator<Item = u32> {
        let mapped = self
            .volumes
            .values()
            .flat_map(|volume| volume.lebs.values().map(|leb| leb.peb));
        [&self.free, &self.erase, &self.corrupted, &self.alien]
            .into_iter()
            .flatten()
            .map(|loose| loose.peb)
            .chain(mapped)
    }

    /// Adds a block with a sound volume header.
    pub fn add<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        leb: FoundLeb,
        vid: VidHeader,
    ) -> Result<(), UbiError> {
        let refused = |error| UbiError::Refused {
            peb: leb.peb,
            error,
        };
        flash.cost.records += 1;
        self.max_sqnum = self.max_sqnum.max(vid.sqnum);
        let volume = self
            .volumes
            .entry(vid.volume)
            .or_insert_with(|| FoundVolume::of(&vid));
        let newer = match volume.lebs.get(&vid.lnum) {
            None => true,
            Some(old) if old.peb == leb.peb => return Ok(()),
            Some(old) => {
                let (newer, damaged) =
                    newer(flash, old, &leb, &vid).map_err(|error| match error {
                        Compare::Refused(error) => refused(error),
                        Compare::Mtd(error) => error.into(),
                    })?;
                let loser = if newer { *old } else { leb };
                self.erase.push(Loose {
                    torture: damaged,
                    ..Loose::new(loser.peb, loser.ec)
                });
                newer
            }
        };
        if newer {
            volume.judge(&vid).map_err(refused)?;
            let last = volume.lebs.last_key_value().map_or(0, |(last, _)| *last);
            if vid.lnum >= last {
                volume.last_bytes = vid.data_size;
            }
            volume.lebs.insert(vid.lnum, leb);
        }
        Ok(())
    }

    /// Gives a volume's blocks up for erasure.
    pub fn drop_volume(&mut self, id: u32) {
        let Some(volume) = self.volumes.remove(&id) else {
            return;
        };
        self.erase
            .extend(volume.lebs.values().map(|leb| Loose::new(leb.peb, leb.ec)));
    }
}

impl FoundVolume {
    fn of(vid: &VidHeader) -> Self {
        Self {
            kind: vid.kind,
            data_pad: vid.data_pad,
            compat: vid.compat,
            used_ebs: vid.used_ebs,
            last_bytes: 0,
            lebs: BTreeMap::new(),
        }
    }

    /// All headers of a volume agree about it.
    fn judge(&self, vid: &VidHeader) -> Result<(), FieldError> {
        let same = "what the volume's other blocks say";
        rule(
            vid.kind == self.kind,
            5,
            "volume type",
            vid.kind as u64,
            same,
        )?;
        rule(
            vid.used_ebs == self.used_ebs,
            24,
            "used blocks",
            vid.used_ebs,
            same,
        )?;
        rule(
            vid.data_pad == self.data_pad,
            28,
            "padding",
            vid.data_pad,
            same,
        )
    }
}

enum Compare {
    Refused(FieldError),
    Mtd(MtdError),
}

/// Whether `leb` is the newer one, and whether the loser is an unfinished copy.
fn newer<M: Mtd>(
    flash: &mut Flash<M>,
    old: &FoundLeb,
    leb: &FoundLeb,
    vid: &VidHeader,
) -> Result<(bool, bool), Compare> {
    let newer = match old.vid {
        None => true,
        Some(other) => {
            rule(
                other.sqnum != vid.sqnum,
                40,
                "sequence number",
                vid.sqnum,
                "another than that of the same logical block",
            )
            .map_err(Compare::Refused)?;
            vid.sqnum > other.sqnum
        }
    };
    let (winner, winner_vid) = if newer {
        (leb, Some(*vid))
    } else {
        (old, old.vid)
    };
    match winner_vid {
        Some(vid) if vid.copy => {
            let whole = is_whole(flash, winner.peb, &vid).map_err(Compare::Mtd)?;
            Ok((newer == whole, !whole))
        }
        _ => Ok((newer, false)),
    }
}

/// Whether a block has the data that its header promises.
pub(crate) fn is_whole<M: Mtd>(
    flash: &mut Flash<M>,
    peb: u32,
    vid: &VidHeader,
) -> Result<bool, MtdError> {
    if flash.seeded_bug == Some(SeededBug::TrustCopies) {
        return Ok(true);
    }
    let mut data = vec![0; vid.data_size as usize];
    let seen = flash.read_data(peb, 0, &mut data)?;
    flash.cost.crc_bytes += data.len() as u64;
    Ok(!seen.damaged && crc(&data) == vid.data_crc)
}
