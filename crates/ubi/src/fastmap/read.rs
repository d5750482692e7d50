//! Attaching by a fastmap (`ubi_scan_fastmap` and `ubi_attach_fastmap`, drivers/mtd/ubi/fastmap.c).

use super::Pools;
use crate::UbiError;
use crate::attach::{Found, FoundLeb, FoundVolume, Loose, judge_offsets};
use crate::flash::Flash;
use crate::format::{
    Compat, FM_DATA_VOLUME, FM_MAX_START, FM_SB_VOLUME, Fastmap, LAYOUT_VOLUME, Parsed,
    SUPER_BYTES, SuperBlock, VidHeader, VolumeKind,
};
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec,
    vec::Vec,
};
use nandlab_mtd::{Mtd, MtdError};

/// A block's two headers, if both are sound.
struct Both {
    ec: u32,
    image_seq: u32,
    /// The volume header; `None` if the block is erased.
    vid: Option<VidHeader>,
    flips: bool,
}

/// What a fastmap knows; none without one that is sound.
pub(crate) fn read<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<(Found, Pools)>, UbiError> {
    let anchors = look_for_anchors(flash)?;
    let newest = anchors
        .iter()
        .filter(|(_, vid)| vid.volume == FM_SB_VOLUME)
        .max_by_key(|(_, vid)| vid.sqnum);
    let Some(&(Loose { peb: anchor, .. }, _)) = newest else {
        return Ok(None);
    };
    let Some((superblock, map, mut found)) = load(flash, anchor)? else {
        return Ok(None);
    };
    found.memory = anchors;
    let blocks: BTreeSet<u32> = superblock.blocks.iter().map(|&(peb, _)| peb).collect();
    flash.cost.records += [&map.free, &map.used, &map.scrub, &map.erase]
        .into_iter()
        .map(|list| list.len() as u64)
        .sum::<u64>();
    if !collect(&map, &mut found, &blocks, flash.shape.pebs) {
        return Ok(None);
    }
    for &peb in map.pool.pebs.iter().chain(&map.wl_pool.pebs) {
        if !look(flash, &mut found, peb)? {
            return Ok(None);
        }
    }
    sort_memory(&mut found, &blocks);
    if !is_complete(&found, &blocks, flash.shape.pebs.saturating_sub(map.bad)) {
        return Ok(None);
    }
    drop_bad(flash, &mut found)?;
    let pools = Pools {
        max: map.pool.max.max(1).into(),
        max_targets: map.wl_pool.max.max(1).into(),
        blocks: superblock.blocks,
        next: VecDeque::new(),
        targets: VecDeque::new(),
        wanted: None,
    };
    Ok(Some((found, pools)))
}

/// Blocks of fastmaps among those that can be anchors.
fn look_for_anchors<M: Mtd>(flash: &mut Flash<M>) -> Result<Vec<(Loose, VidHeader)>, MtdError> {
    let mut anchors = Vec::new();
    for peb in 0..FM_MAX_START.min(flash.shape.pebs) {
        if flash.is_bad(peb)? {
            continue;
        }
        if let Some(both) = headers(flash, peb)?
            && let Some(vid) = both.vid
            && [FM_SB_VOLUME, FM_DATA_VOLUME].contains(&vid.volume)
        {
            anchors.push((Loose::new(peb, Some(both.ec)), vid));
        }
    }
    Ok(anchors)
}

/// Blocks of older maps are in the lists of this one; there they stand for themselves.
fn sort_memory(found: &mut Found, blocks: &BTreeSet<u32>) {
    let listed: BTreeSet<u32> = found
        .erase
        .iter()
        .chain(&found.free)
        .map(|loose| loose.peb)
        .collect();
    found
        .memory
        .retain(|(loose, _)| !blocks.contains(&loose.peb) && listed.contains(&loose.peb));
    for list in [&mut found.erase, &mut found.free] {
        list.retain(|loose| !found.memory.iter().any(|(other, _)| other.peb == loose.peb));
    }
}

/// Whether each good block is found once: in the map, or among its own.
fn is_complete(found: &Found, blocks: &BTreeSet<u32>, good: u32) -> bool {
    let all: BTreeSet<u32> = found
        .blocks()
        .chain(found.memory.iter().map(|(loose, _)| loose.peb))
        .collect();
    all.len() + blocks.len() == good as usize && all.is_disjoint(blocks)
}

fn headers<M: Mtd>(flash: &mut Flash<M>, peb: u32) -> Result<Option<Both>, MtdError> {
    let (Parsed::Good(ec), seen) = flash.read_ec(peb)? else {
        return Ok(None);
    };
    if judge_offsets(flash, peb, &ec).is_err() {
        return Ok(None);
    }
    let (parsed, vid_seen) = flash.read_vid(peb)?;
    let vid = match parsed {
        Parsed::Good(vid) => Some(vid),
        Parsed::Empty => None,
        Parsed::Damaged(_) | Parsed::Refused(_) => return Ok(None),
    };
    Ok(Some(Both {
        ec: ec.ec,
        image_seq: ec.image_seq,
        vid,
        flips: seen.flips || vid_seen.flips,
    }))
}

/// Blocks that went bad since the map was written: what they held had been given up.
fn drop_bad<M: Mtd>(flash: &mut Flash<M>, found: &mut Found) -> Result<(), MtdError> {
    let blocks: BTreeSet<u32> = found.blocks().collect();
    for peb in blocks {
        if flash.is_bad(peb)? {
            found.bad += 1;
            [&mut found.free, &mut found.erase]
                .into_iter()
                .for_each(|list| list.retain(|loose| loose.peb != peb));
            found
                .volumes
                .values_mut()
                .for_each(|volume| volume.lebs.retain(|_, leb| leb.peb != peb));
        }
    }
    Ok(())
}

/// The map out of its blocks.
fn load<M: Mtd>(
    flash: &mut Flash<M>,
    anchor: u32,
) -> Result<Option<(SuperBlock, Fastmap, Found)>, UbiError> {
    let mut bytes = [0; SUPER_BYTES];
    flash.read_data(anchor, 0, &mut bytes)?;
    let Ok(superblock) = SuperBlock::parse(&bytes) else {
        return Ok(None);
    };
    let leb = flash.shape.leb_bytes as usize;
    let mut found = Found::default();
    let mut data = vec![0; superblock.blocks.len() * leb];
    for ((i, &(peb, _)), data) in superblock
        .blocks
        .iter()
        .enumerate()
        .zip(data.chunks_exact_mut(leb))
    {
        let volume = if i == 0 { FM_SB_VOLUME } else { FM_DATA_VOLUME };
        if peb >= flash.shape.pebs || flash.is_bad(peb)? {
            return Ok(None);
        }
        let Some(both) = headers(flash, peb)? else {
            return Ok(None);
        };
        let Some(vid) = both.vid.filter(|vid| vid.volume == volume) else {
            return Ok(None);
        };
        if !same_image(&mut found, both.image_seq) {
            return Ok(None);
        }
        found.max_sqnum = found.max_sqnum.max(vid.sqnum);
        found.count_ec(Some(both.ec));
        flash.read_data(peb, 0, data)?;
    }
    flash.cost.crc_bytes += data.len() as u64;
    Ok(Fastmap::parse(&data)
        .ok()
        .map(|(superblock, map)| (superblock, map, found)))
}

fn same_image(found: &mut Found, image_seq: u32) -> bool {
    if found.image_seq == 0 {
        found.image_seq = image_seq;
    }
    image_seq == 0 || image_seq == found.image_seq
}

/// The map's lists and volumes; false if they contradict each other.
fn collect(map: &Fastmap, found: &mut Found, blocks: &BTreeSet<u32>, pebs: u32) -> bool {
    let mut seen = blocks.clone();
    let lists = [&map.free, &map.used, &map.scrub, &map.erase];
    let mut fine = |peb: u32| peb < pebs && seen.insert(peb);
    if !lists
        .into_iter()
        .flatten()
        .all(|&(peb, ec)| fine(peb) && ec <= crate::format::EC_MAX)
    {
        return false;
    }
    let pooled: BTreeSet<u32> = map
        .pool
        .pebs
        .iter()
        .chain(&map.wl_pool.pebs)
        .copied()
        .collect();
    if pooled
        .iter()
        .any(|&peb| peb >= pebs || blocks.contains(&peb))
    {
        return false;
    }
    let loose = |&(peb, ec): &(u32, u32)| Loose::new(peb, Some(ec));
    lists
        .into_iter()
        .flatten()
        .for_each(|&(_, ec)| found.count_ec(Some(ec)));
    // What a pool has is looked at, whatever else the map says of it.
    // A torn header of a newer anchor may be in one of the blocks that can be anchors.
    let free = map
        .free
        .iter()
        .filter(|(peb, _)| !pooled.contains(peb))
        .map(loose);
    found.free.extend(free.map(|free| Loose {
        doubtful: free.peb < FM_MAX_START,
        ..free
    }));
    found.erase.extend(map.erase.iter().map(loose));
    found.bad = map.bad;
    let mut mapped: BTreeMap<u32, (u32, bool)> = map
        .used
        .iter()
        .map(|&(peb, ec)| (peb, (ec, false)))
        .collect();
    mapped.extend(map.scrub.iter().map(|&(peb, ec)| (peb, (ec, true))));
    for volume in &map.volumes {
        let compat = if volume.id == LAYOUT_VOLUME {
            Compat::Reject.code()
        } else {
            0
        };
        let used_ebs = if volume.kind == VolumeKind::Static {
            volume.used_ebs
        } else {
            0
        };
        let mut known = FoundVolume {
            kind: volume.kind,
            data_pad: volume.data_pad,
            compat,
            used_ebs,
            last_bytes: volume.last_bytes,
            ..FoundVolume::default()
        };
        for (lnum, peb) in (0..).zip(&volume.map) {
            let Some(peb) = *peb else { continue };
            let Some((ec, scrub)) = mapped.remove(&peb) else {
                return false;
            };
            known.lebs.insert(
                lnum,
                FoundLeb {
                    peb,
                    ec: Some(ec),
                    scrub,
                    vid: None,
                },
            );
        }
        if found.volumes.insert(volume.id, known).is_some() {
            return false;
        }
    }
    found.erase.extend(
        mapped
            .into_iter()
            .map(|(peb, (ec, _))| Loose::new(peb, Some(ec))),
    );
    true
}

/// A block of a pool: written since, or not. False: it cannot be determined, so that only a scan
/// helps.
fn look<M: Mtd>(flash: &mut Flash<M>, found: &mut Found, peb: u32) -> Result<bool, UbiError> {
    if flash.is_bad(peb)? {
        return Ok(false);
    }
    let Some(both) = headers(flash, peb)? else {
        return Ok(false);
    };
    if !same_image(found, both.image_seq) {
        return Ok(false);
    }
    let ec = Some(both.ec);
    let Some(vid) = both.vid else {
        found
            .volumes
            .values_mut()
            .for_each(|volume| volume.lebs.retain(|_, leb| leb.peb != peb));
        found.erase.retain(|loose| loose.peb != peb);
        let list = if both.flips {
            &mut found.erase
        } else {
            &mut found.free
        };
        list.push(Loose {
            torture: both.flips,
            doubtful: true,
            ..Loose::new(peb, ec)
        });
        return Ok(true);
    };
    if [FM_SB_VOLUME, FM_DATA_VOLUME].contains(&vid.volume) {
        found.max_sqnum = found.max_sqnum.max(vid.sqnum);
        return Ok(true);
    }
    let Some(volume) = found.volumes.get_mut(&vid.volume) else {
        return Ok(false);
    };
    if vid.kind == VolumeKind::Static {
        volume.used_ebs = vid.used_ebs;
    }
    found.erase.retain(|loose| loose.peb != peb);
    found.add(
        flash,
        FoundLeb {
            peb,
            ec,
            scrub: both.flips,
            vid: Some(vid),
        },
        vid,
    )?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_one_image_belong_together_and_0_is_any() {
        let mut found = Found::default();
        let seen = [0, 5, 0, 5, 6].map(|image_seq| same_image(&mut found, image_seq));
        assert_eq!(seen, [true, true, true, true, false]);
        assert_eq!(found.image_seq, 5);
    }
}
