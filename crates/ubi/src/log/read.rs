//! Attaching by the log.

use super::format::{Entry, Role, Super, commit_length, entries_per_page, parse_commit, parse_page};
use super::{Log, commit_blocks, empty, log_pages};
use crate::UbiError;
use crate::attach::{Found, FoundLeb, Loose};
use crate::flash::Flash;
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// What super block, commit and log say; none without sound ones.
pub(crate) fn read<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<(Found, Log)>, UbiError> {
    let Some(ends) = ends(flash)? else { return Ok(None) };
    let mut hurt = false;
    let mut newest: Option<(usize, Super)> = None;
    for (which, peb) in ends.into_iter().enumerate() {
        let (entry, flips) = newest_entry(flash, peb)?;
        hurt |= flips;
        if let Some(entry) = entry
            && newest.as_ref().is_none_or(|(_, other)| entry.number > other.number)
        {
            newest = Some((which, entry));
        }
    }
    let Some((which, current)) = newest else { return Ok(None) };
    // One of them is bad: the log was about to be given up.
    let lost = current.blocks != ends;
    if lost && flash.shape.has_headers() {
        return Ok(None);
    }
    let Some(mut entries) = read_commit(flash, &current, &mut hurt)? else { return Ok(None) };
    if !replay(flash, &current, &mut entries, &mut hurt)? {
        return Ok(None);
    }
    let mut log = Log { newest: which, hurt, ..empty(flash.shape.pebs, current.blocks) };
    log.current = current;
    let mut found = collect(flash, &entries, &mut log)?;
    found.read_only = lost;
    log.current.future.clear();
    Ok(Some((found, log)))
}

/// The first and the last good block.
fn ends<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<[u32; 2]>, MtdError> {
    let mut first = 0;
    while first < flash.shape.pebs && flash.is_bad(first)? {
        first += 1;
    }
    let mut last = flash.shape.pebs - 1;
    while last > first && flash.is_bad(last)? {
        last -= 1;
    }
    Ok((last > first).then_some([first, last]))
}

/// The newest entry of a super block. Its pages are written in order, so that the first erased one ends it; one that cannot be read was torn.
fn newest_entry<M: Mtd>(flash: &mut Flash<M>, peb: u32) -> Result<(Option<Super>, bool), MtdError> {
    let (mut newest, mut hurt) = (None::<Super>, false);
    let mut page = vec![0; flash.shape.page as usize];
    for at in (0..flash.shape.leb_bytes).step_by(flash.shape.page as usize) {
        let seen = flash.read_data(peb, at, &mut page)?;
        if !seen.damaged && page.iter().all(|&byte| byte == 0xFF) {
            break;
        }
        hurt |= seen.flips;
        if let Ok(entry) = Super::parse(&page, &flash.shape)
            && newest.as_ref().is_none_or(|other| entry.number > other.number)
        {
            newest = Some(entry);
        }
    }
    Ok((newest, hurt))
}

/// One of the two copies.
fn read_commit<M: Mtd>(flash: &mut Flash<M>, current: &Super, hurt: &mut bool) -> Result<Option<Vec<Entry>>, MtdError> {
    let blocks = commit_blocks(&flash.shape) as usize;
    if current.present.len() != 2 * blocks {
        return Ok(None);
    }
    for copy in current.present.chunks_exact(blocks) {
        if let Some(entries) = read_copy(flash, copy, current.commit, hurt)? {
            return Ok(Some(entries));
        }
        *hurt = true;
    }
    Ok(None)
}

fn read_copy<M: Mtd>(flash: &mut Flash<M>, copy: &[u32], commit: u64, hurt: &mut bool) -> Result<Option<Vec<Entry>>, MtdError> {
    let (page, leb) = (flash.shape.page as usize, flash.shape.leb_bytes as usize);
    let mut bytes = vec![0; page];
    let seen = flash.read_data(copy[0], 0, &mut bytes)?;
    let Some(length) = commit_length(&bytes).filter(|length| *length <= copy.len() * leb) else { return Ok(None) };
    *hurt |= seen.flips;
    bytes.resize(length.next_multiple_of(page), 0);
    let mut at = page;
    while at < bytes.len() {
        let end = ((at / leb + 1) * leb).min(bytes.len());
        let seen = flash.read_data(copy[at / leb], (at % leb) as u32, &mut bytes[at..end])?;
        *hurt |= seen.flips;
        at = end;
    }
    Ok(parse_commit(&bytes, commit, &flash.shape).ok())
}

/// Applies the log; false: a page in its middle is lost.
fn replay<M: Mtd>(flash: &mut Flash<M>, current: &Super, entries: &mut [Entry], hurt: &mut bool) -> Result<bool, MtdError> {
    let shape = flash.shape;
    let per_block = shape.leb_bytes / shape.page;
    let mut bytes = vec![0; shape.page as usize];
    let mut ended = false;
    debug_assert!(entries_per_page(shape.page) > 0);
    for position in 0..log_pages(&shape, current.log.len()) {
        let seen = flash.read_data(current.log[(position / per_block) as usize], position % per_block * shape.page, &mut bytes)?;
        match parse_page(&bytes, current.commit, position, &shape) {
            Ok(_) if ended => return Ok(false),
            Ok(page) => {
                *hurt |= seen.flips;
                page.into_iter().for_each(|(peb, entry)| entries[peb as usize] = entry);
            }
            // Only the last page can be torn. One more is looked at, to tell that from a lost one.
            Err(_) if ended => break,
            Err(_) => ended = true,
        }
    }
    Ok(true)
}

/// Every block by what its entry says.
fn collect<M: Mtd>(flash: &mut Flash<M>, entries: &[Entry], log: &mut Log) -> Result<Found, UbiError> {
    let mut found = Found { max_sqnum: log.current.sqnum, image_seq: log.current.image_seq, ..Found::default() };
    for (peb, entry) in (0..).zip(entries) {
        if flash.is_bad(peb)? {
            found.bad += 1;
            continue;
        }
        let loose = Loose::new(peb, Some(entry.ec));
        found.count_ec(loose.ec);
        match entry.role {
            _ if log.owns(peb) => found.memory.push((loose, entry.vid)),
            _ if log.current.future.contains(&peb) => found.erase.push(loose),
            Role::Free => found.free.push(loose),
            Role::Mapped => {
                log.headers[peb as usize] = Some(entry.vid);
                found.add(flash, FoundLeb { peb, ec: loose.ec, scrub: false, vid: Some(entry.vid) }, entry.vid)?;
            }
            Role::Dirty | Role::Bad | Role::Memory => found.erase.push(loose),
            Role::Preserved => {
                log.preserved.push(peb);
                found.alien.push(loose);
            }
        }
    }
    // The log has no more than the counters at the last commit; the entry has those of now.
    for (i, block) in log.blocks.iter().enumerate() {
        if let Some((loose, _)) = found.memory.iter_mut().find(|(loose, _)| loose.peb == block.peb) {
            loose.ec = Some(log.current.ecs[i]);
        }
    }
    Ok(found)
}
