//! Super blocks that wear evenly: two mirrored blocks anywhere, which two mirrored anchors among
//! the first blocks name (the block chaining of A. Bityutskiy, JFFS3 design issues, 2005, with one
//! link).
//!
//! *Wear.* An anchor is written when super blocks are full, and with the first commit after an
//! attach. So a block of the zone is erased once for as many entries as a block has pages, squared.
//! In the zone are blocks of UBIL's alone: the user's bytes cannot be taken for an anchor. All of
//! its free blocks serve commits and logs too, the least worn first.
//!
//! *Power loss.* An entry is written to one super block, then to the other. New super blocks get an
//! entry before an anchor names them; until then the entry before counts, which has them among its
//! spare blocks, so that an attach erases them before they are used. Free blocks of the zone are
//! erased after an attach before they are used, since an anchor may have been begun there.

use super::Supers;
use super::format::Super;
use super::leaves::Anchor;
use super::superblock::ATTEMPTS;
use crate::Ubi;
use crate::error::UbiError;
use crate::flash::{Flash, is_wear};
use crate::format::FieldError;
use crate::wear::State;
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// Blocks in which anchors are looked for.
pub(crate) const ZONE: u32 = 8;
/// Blocks that are kept for the next super blocks: a pair, and one should that fail.
pub(super) const SPARE: usize = 4;
/// Blocks of the zone; super blocks, those before them, spare ones.
pub(super) const BLOCKS_NEEDED: u32 = ZONE + 2 + 2 + SPARE as u32;

/// Where entries and anchors go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    /// The super blocks; none before the first entry.
    pub supers: Vec<u32>,
    /// The offset of the next entry; none: other blocks must be taken.
    pub next: Option<u32>,
    /// The anchors; none before the first.
    pub anchors: Vec<u32>,
    pub anchor_next: Option<u32>,
    /// The number of the last anchor.
    pub number: u64,
    /// Super blocks and anchors before these, which go when an anchor names the new ones.
    pub old: Vec<u32>,
}

impl Chain {
    /// Free blocks of the zone that are left for anchors: two for the next, one should one of them
    /// fail, and two for the first.
    pub fn zone_reserve(&self) -> usize {
        if self.anchors.is_empty() { 5 } else { 3 }
    }
}

/// What a mirrored pair of blocks has.
struct Newest<T> {
    value: T,
    flips: bool,
}

/// The newest of the values in blocks that are written page by page, all alike. None: no block has
/// one, or each ends in a page that cannot be read, which is more than a cut does.
fn newest<M: Mtd, T>(
    flash: &mut Flash<M>,
    blocks: &[u32],
    parse: impl Fn(&[u8]) -> Result<T, FieldError>,
    number: impl Fn(&T) -> u64,
) -> Result<Option<Newest<T>>, MtdError> {
    let mut best = None::<T>;
    let mut sound = false;
    let mut hurt = false;
    for &peb in blocks {
        if flash.is_bad(peb)? {
            hurt = true;
            continue;
        }
        let mut page = vec![0; flash.shape.page as usize];
        let written = pages_written(flash, peb)?;
        for index in (0..written).rev() {
            let seen = flash.read_data(peb, index * flash.shape.page, &mut page)?;
            flash.cost.crc_bytes += page.len() as u64;
            let Ok(value) = parse(&page) else { continue };
            sound |= index + 1 == written;
            hurt |= seen.flips || index + 1 != written;
            if best
                .as_ref()
                .is_none_or(|best| number(&value) > number(best))
            {
                best = Some(value);
            }
            break;
        }
    }
    Ok(best
        .filter(|_| sound)
        .map(|value| Newest { value, flips: hurt }))
}

/// Pages of a block that are written, which are its first ones.
fn pages_written<M: Mtd>(flash: &mut Flash<M>, peb: u32) -> Result<u32, MtdError> {
    let mut low = 0;
    let mut high = flash.shape.leb_bytes / flash.shape.page;
    let mut page = vec![0; flash.shape.page as usize];
    while low < high {
        let middle = low + (high - low) / 2;
        let seen = flash.read_data(peb, middle * flash.shape.page, &mut page)?;
        if !seen.damaged && page.iter().all(|&byte| byte == 0xFF) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// The chain to the newest entry, the entry, and whether something was hard to read; none without
/// one.
pub(super) fn read<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<(Chain, Super, bool)>, MtdError> {
    let shape = flash.shape;
    let mut best = None::<Anchor>;
    let mut page = vec![0; shape.page as usize];
    for peb in 0..ZONE.min(shape.pebs) {
        if flash.is_bad(peb)? {
            continue;
        }
        flash.read_data(peb, 0, &mut page)?;
        flash.cost.crc_bytes += 64;
        let Ok(first) = Anchor::parse(&page, &shape) else {
            continue;
        };
        if best.is_none_or(|best| first.number > best.number) && first.own.contains(&peb) {
            best = Some(first);
        }
    }
    let Some(first) = best else { return Ok(None) };
    let found = newest(
        flash,
        &first.own,
        |page| Anchor::parse(page, &shape).and_then(|a| same(a, first.own)),
        |anchor| anchor.number,
    )?;
    let Some(Newest {
        value: anchor,
        flips: anchor_flips,
    }) = found
    else {
        return Ok(None);
    };
    let found = newest(
        flash,
        &anchor.supers,
        |page| Super::parse(page, &shape),
        |entry| entry.number,
    )?;
    let Some(Newest {
        value: entry,
        flips,
    }) = found
    else {
        return Ok(None);
    };
    if entry.blocks != anchor.supers {
        return Ok(None);
    }
    let chain = Chain {
        supers: anchor.supers.into(),
        anchors: anchor.own.into(),
        number: anchor.number,
        ..Chain::default()
    };
    Ok(Some((chain, entry, flips || anchor_flips)))
}

/// All anchors of a pair name it.
fn same(anchor: Anchor, own: [u32; 2]) -> Result<Anchor, FieldError> {
    crate::format::value(36, "anchor's block", anchor.own[0], own[0])?;
    crate::format::value(40, "anchor's block", anchor.own[1], own[1]).map(|()| anchor)
}

impl<M: Mtd> Ubi<M> {
    fn chain(&mut self) -> Result<&mut Chain, UbiError> {
        match &mut self.log()?.supers {
            Supers::Chain(chain) => Ok(chain),
            Supers::Pair(_) => Err(UbiError::Internal("a chain where there are super blocks")),
        }
    }

    /// Into both super blocks, and into others if they have no space or fail.
    pub(super) fn put_in_chain(&mut self) -> Result<(), UbiError> {
        if self.chain()?.supers.is_empty() {
            self.fill_spare()?;
        }
        // Those that an entry on flash has; later ones nobody knows of yet.
        let mut known = self.log()?.current.spare.len();
        for _ in 0..ATTEMPTS {
            let fresh = self.chain()?.next.is_none();
            if fresh && !self.next_supers(&mut known)? {
                break;
            }
            let chain = self.chain()?;
            let blocks = [chain.supers[0], chain.supers[1]];
            let at = chain.next.unwrap_or(0);
            let entry = self.next_entry(blocks)?;
            let written = blocks
                .into_iter()
                .try_for_each(|peb| self.flash.write_data(peb, at, &entry));
            let page = self.flash.shape.page;
            let end = self.flash.shape.leb_bytes;
            match written {
                Ok(()) => {
                    self.chain()?.next = Some(at + page).filter(|next| *next < end);
                    return if fresh {
                        self.put_anchor(blocks)
                    } else {
                        Ok(())
                    };
                }
                Err(error) if is_wear(&error) => self.chain()?.next = None,
                Err(error) => return Err(self.stop(error)),
            }
        }
        self.lose_chain()
    }

    /// Takes two spare blocks for super blocks, and others as spare ones. False: there are none
    /// that work.
    fn next_supers(&mut self, known: &mut usize) -> Result<bool, UbiError> {
        let mut fresh = Vec::new();
        while fresh.len() < 2 && *known > 0 {
            *known -= 1;
            let peb = self.log()?.current.spare.remove(0);
            // It failed, and a cut came before an entry without it.
            if self.wear.state(peb) == State::Bad {
                continue;
            }
            match self.open_memory(peb) {
                Ok(()) => fresh.push(peb),
                Err(UbiError::Mtd(error)) if is_wear(&error) => self.retire(peb)?,
                Err(error) => return Err(error),
            }
        }
        if fresh.len() < 2 {
            return Ok(false);
        }
        self.fill_spare()?;
        let chain = self.chain()?;
        chain.next = Some(0);
        let old = core::mem::replace(&mut chain.supers, fresh);
        chain.old.extend(&old);
        // Before a commit, entries say that these are not erased; the commit itself says so.
        let log = self.log()?;
        if !log.current.future.is_empty() {
            log.tainted.extend(&old);
            log.current.future.extend(&old);
        }
        Ok(true)
    }

    fn fill_spare(&mut self) -> Result<(), UbiError> {
        while self.log()?.current.spare.len() < SPARE {
            let reserve = self.chain()?.zone_reserve();
            let peb = self.get_free(|wear| wear.least(reserve))?;
            self.wear.set(peb, State::Held);
            self.log()?.current.spare.push(peb);
        }
        Ok(())
    }

    /// Names the super blocks in both anchors, or in others if those have no space or fail.
    fn put_anchor(&mut self, supers: [u32; 2]) -> Result<(), UbiError> {
        for _ in 0..ATTEMPTS {
            if self.chain()?.anchor_next.is_none() {
                let Some(fresh) = self.fresh_anchors()? else {
                    break;
                };
                let chain = self.chain()?;
                let old = core::mem::replace(&mut chain.anchors, fresh.into());
                chain.old.extend(old);
                chain.anchor_next = Some(0);
            }
            let shape = self.flash.shape;
            let chain = self.chain()?;
            chain.number += 1;
            let own = [chain.anchors[0], chain.anchors[1]];
            let at = chain.anchor_next.unwrap_or(0);
            let bytes = Anchor {
                number: chain.number,
                own,
                supers,
            }
            .encode(&shape);
            match own
                .into_iter()
                .try_for_each(|peb| self.flash.write_data(peb, at, &bytes))
            {
                Ok(()) => {
                    self.chain()?.anchor_next =
                        Some(at + shape.page).filter(|next| *next < shape.leb_bytes);
                    return self.release();
                }
                Err(error) if is_wear(&error) => self.chain()?.anchor_next = None,
                Err(error) => return Err(self.stop(error)),
            }
        }
        self.lose_chain()
    }

    /// Nothing leads to the old blocks any more.
    fn release(&mut self) -> Result<(), UbiError> {
        let old = core::mem::take(&mut self.chain()?.old);
        for peb in old {
            self.wake_block(peb)?;
            if self.wear.state(peb) == State::Held {
                self.wear.queue(peb, false);
            }
        }
        Ok(())
    }

    /// Two blocks of the zone, erased.
    fn fresh_anchors(&mut self) -> Result<Option<[u32; 2]>, UbiError> {
        let mut fresh = Vec::new();
        while fresh.len() < 2 {
            let Some(peb) = self.wear.least_of_zone() else {
                match (0..ZONE).find(|&peb| self.wear.state(peb) == State::Queued) {
                    Some(peb) => self.forget_now(peb)?,
                    None => return Ok(None),
                }
                continue;
            };
            self.wear.set(peb, State::Held);
            match self.open_memory(peb) {
                Ok(()) => fresh.push(peb),
                Err(UbiError::Mtd(error)) if is_wear(&error) => self.retire(peb)?,
                Err(error) => return Err(error),
            }
        }
        Ok(Some([fresh[0], fresh[1]]))
    }

    fn lose_chain(&mut self) -> Result<(), UbiError> {
        let chain = self.chain()?;
        let own = [&mut chain.anchors, &mut chain.supers, &mut chain.old]
            .map(core::mem::take)
            .concat();
        own.iter().try_for_each(|&peb| self.wake_block(peb))?;
        let own: Vec<u32> = own
            .into_iter()
            .filter(|&peb| self.wear.state(peb) == State::Held)
            .collect();
        self.end_log(&[], &own)
    }

    /// Empties the zone, as far as that is possible, for a log that is about to begin.
    pub(super) fn vacate_zone(&mut self) -> Result<(), UbiError> {
        for peb in 0..ZONE.min(self.wear.pebs()) {
            self.vacate(peb)?;
        }
        let free = (0..ZONE.min(self.wear.pebs()))
            .filter(|&peb| self.wear.state(peb) == State::Free)
            .count();
        if free < 2 {
            return Err(UbiError::Medium {
                what: "blocks for anchors",
                found: free as u64,
                expected: "2 of the first 8 that can be emptied",
            });
        }
        Ok(())
    }
}
