//! Attaching by the log: super blocks, then the full commit and the log; `read_parts` for the
//! incremental one.

use super::format::{
    Entry, Role, Super, commit_length, entries_per_page, parse_commit, parse_page,
};
use super::superblock::Pair;
use super::{Log, Supers, chain, commit_blocks, log_pages, read_parts};
use crate::attach::{Found, FoundLeb, Loose};
use crate::flash::Flash;
use crate::{Commit, LogOptions, Superblock, UbiError};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// Super block, log, and what attached by it.
struct Tops {
    current: Super,
    supers: Supers,
    hurt: bool,
    /// A super block is gone: nothing may be written.
    lost: bool,
}

/// What super block, commit and log say; none without sound ones.
pub(crate) fn read<M: Mtd>(
    flash: &mut Flash<M>,
    options: LogOptions,
) -> Result<Option<(Found, Log)>, UbiError> {
    let order = match options.superblock {
        Superblock::Pair => [pair::<M>, chained::<M>],
        Superblock::Chain => [chained::<M>, pair::<M>],
    };
    for look in order {
        if let Some(tops) = look(flash)? {
            return below(flash, tops);
        }
    }
    Ok(None)
}

fn below<M: Mtd>(flash: &mut Flash<M>, tops: Tops) -> Result<Option<(Found, Log)>, UbiError> {
    let Tops {
        current,
        supers,
        mut hurt,
        lost,
    } = tops;
    if is_outdated(flash, &current)? {
        return Ok(None);
    }
    let Some(replayed) = read_log(flash, &current, &mut hurt)? else {
        return Ok(None);
    };
    let mut log = Log {
        hurt,
        ..Log::new(flash.shape.pebs, supers)
    };
    log.current = current;
    let found = match log.current.commits {
        Commit::Full => read_full(flash, &mut log, replayed)?,
        Commit::Incremental => read_parts::read(flash, &mut log, replayed)?,
    };
    let Some(mut found) = found else {
        return Ok(None);
    };
    found.read_only = lost;
    log.tainted = log.current.future.clone();
    Ok(Some((found, log)))
}

/// Whether the log of the next commit has been written: then the entry that made it the present one
/// is lost.
fn is_outdated<M: Mtd>(flash: &mut Flash<M>, current: &Super) -> Result<bool, MtdError> {
    let shape = flash.shape;
    let mut bytes = vec![0; flash.shape.page as usize];
    for &peb in &current.future {
        flash.read_data(peb, 0, &mut bytes)?;
        flash.cost.crc_bytes += u64::from(shape.page);
        if parse_page(&bytes, current.commit + 1, 0, &shape).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn chained<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<Tops>, MtdError> {
    let found =
        chain::read(flash)?.filter(|(_, current, _)| current.superblock == Superblock::Chain);
    Ok(found.map(|(chain, current, hurt)| Tops {
        current,
        supers: Supers::Chain(chain),
        hurt,
        lost: false,
    }))
}

fn pair<M: Mtd>(flash: &mut Flash<M>) -> Result<Option<Tops>, MtdError> {
    let Some(ends) = ends(flash)? else {
        return Ok(None);
    };
    let (newest, hurt) = newest_of(flash, ends)?;
    let Some((which, current)) = newest.filter(|(_, entry)| entry.superblock == Superblock::Pair)
    else {
        return Ok(None);
    };
    // One of them is bad: the log was about to be given up.
    let lost = current.blocks != ends;
    if lost && flash.shape.has_headers() {
        return Ok(None);
    }
    Ok(Some(Tops {
        supers: Supers::Pair(Pair::new(which, current.blocks)),
        current,
        hurt,
        lost,
    }))
}

/// The newest entry of the two blocks, and whether bits had flipped.
fn newest_of<M: Mtd>(
    flash: &mut Flash<M>,
    ends: [u32; 2],
) -> Result<(Option<(usize, Super)>, bool), MtdError> {
    let mut hurt = false;
    let mut newest: Option<(usize, Super)> = None;
    for (which, peb) in ends.into_iter().enumerate() {
        let (entry, flips) = newest_entry(flash, peb)?;
        hurt |= flips;
        if let Some(entry) = entry
            && newest
                .as_ref()
                .is_none_or(|(_, other)| entry.number > other.number)
        {
            newest = Some((which, entry));
        }
    }
    Ok((newest, hurt))
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

/// The newest entry of a super block. Its pages are written in order, so that the first erased one
/// ends it; one that cannot be read was torn.
fn newest_entry<M: Mtd>(flash: &mut Flash<M>, peb: u32) -> Result<(Option<Super>, bool), MtdError> {
    let mut newest = None::<Super>;
    let mut hurt = false;
    let mut page = vec![0; flash.shape.page as usize];
    for at in (0..flash.shape.leb_bytes).step_by(flash.shape.page as usize) {
        let seen = flash.read_data(peb, at, &mut page)?;
        if !seen.damaged && page.iter().all(|&byte| byte == 0xFF) {
            break;
        }
        hurt |= seen.flips;
        flash.cost.crc_bytes += page.len() as u64;
        if let Ok(entry) = Super::parse(&page, &flash.shape)
            && newest
                .as_ref()
                .is_none_or(|other| entry.number > other.number)
        {
            newest = Some(entry);
        }
    }
    Ok((newest, hurt))
}

/// A full commit with the log on top.
fn read_full<M: Mtd>(
    flash: &mut Flash<M>,
    log: &mut Log,
    replayed: Vec<(u32, Entry)>,
) -> Result<Option<Found>, UbiError> {
    let Some(mut entries) = read_commit(flash, &log.current, &mut log.hurt)? else {
        return Ok(None);
    };
    replayed
        .into_iter()
        .for_each(|(peb, entry)| entries[peb as usize] = entry);
    let mut found = Found {
        max_sqnum: log.current.sqnum,
        image_seq: log.current.image_seq,
        ..Found::default()
    };
    // Those with a logical block are counted where they are added.
    flash.cost.records += entries
        .iter()
        .filter(|entry| entry.role != Role::Mapped)
        .count() as u64;
    for (peb, entry) in (0..).zip(&entries) {
        if flash.is_bad(peb)? {
            found.bad += 1;
        } else {
            sort(flash, log, &mut found, peb, entry)?;
        }
    }
    count_supers(log, &mut found);
    Ok(Some(found))
}

/// One of the two copies.
fn read_commit<M: Mtd>(
    flash: &mut Flash<M>,
    current: &Super,
    hurt: &mut bool,
) -> Result<Option<Vec<Entry>>, MtdError> {
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

fn read_copy<M: Mtd>(
    flash: &mut Flash<M>,
    copy: &[u32],
    commit: u64,
    hurt: &mut bool,
) -> Result<Option<Vec<Entry>>, MtdError> {
    let page = flash.shape.page as usize;
    let leb = flash.shape.leb_bytes as usize;
    let mut bytes = vec![0; page];
    let seen = flash.read_data(copy[0], 0, &mut bytes)?;
    let Some(length) = commit_length(&bytes).filter(|length| *length <= copy.len() * leb) else {
        return Ok(None);
    };
    *hurt |= seen.flips;
    bytes.resize(length.next_multiple_of(page), 0);
    let mut at = page;
    while at < bytes.len() {
        let end = ((at / leb + 1) * leb).min(bytes.len());
        let seen = flash.read_data(copy[at / leb], (at % leb) as u32, &mut bytes[at..end])?;
        *hurt |= seen.flips;
        at = end;
    }
    let entries = parse_commit(&bytes, commit, &flash.shape).ok();
    // The whole, and each entry once more.
    let unpacked = entries
        .as_ref()
        .map_or(0, |entries| 64 * entries.len() as u64);
    flash.cost.crc_bytes += length as u64 + unpacked;
    if length as u64 != 64 + unpacked {
        flash.cost.inflated_bytes += unpacked;
        flash.cost.packed_bytes += length as u64;
    }
    Ok(entries)
}

/// What the log says, in its order; none: a page in its middle is lost.
fn read_log<M: Mtd>(
    flash: &mut Flash<M>,
    current: &Super,
    hurt: &mut bool,
) -> Result<Option<Vec<(u32, Entry)>>, MtdError> {
    let shape = flash.shape;
    let per_block = shape.leb_bytes / shape.page;
    let mut bytes = vec![0; shape.page as usize];
    let mut ended = false;
    let mut all = Vec::new();
    debug_assert!(entries_per_page(shape.page) > 0);
    for position in 0..log_pages(&shape, current.log.len()) {
        let seen = flash.read_data(
            current.log[(position / per_block) as usize],
            position % per_block * shape.page,
            &mut bytes,
        )?;
        flash.cost.crc_bytes += u64::from(shape.page);
        match parse_page(&bytes, current.commit, position, &shape) {
            Ok(_) if ended => return Ok(None),
            Ok(page) => {
                *hurt |= seen.flips;
                all.extend(page);
            }
            // Only the last page can be torn. One more is looked at, to tell that from a lost one.
            Err(_) if ended => break,
            Err(_) => ended = true,
        }
    }
    Ok(Some(all))
}

/// A good block by what its entry says.
pub(super) fn sort<M: Mtd>(
    flash: &mut Flash<M>,
    log: &mut Log,
    found: &mut Found,
    peb: u32,
    entry: &Entry,
) -> Result<(), UbiError> {
    let loose = Loose::new(peb, Some(entry.ec));
    let chained = matches!(log.supers, Supers::Chain(_));
    found.count_ec(loose.ec);
    match entry.role {
        _ if log.owns(peb) => found.memory.push((loose, entry.vid)),
        _ if log.current.future.contains(&peb) => found.erase.push(loose),
        // An anchor may have been begun there.
        Role::Free if chained && peb < chain::ZONE => found.free.push(Loose {
            doubtful: true,
            ..loose
        }),
        Role::Free => found.free.push(loose),
        Role::Mapped => {
            log.headers[peb as usize] = Some(entry.vid);
            found.add(
                flash,
                FoundLeb {
                    peb,
                    ec: loose.ec,
                    scrub: false,
                    vid: Some(entry.vid),
                },
                entry.vid,
            )?;
        }
        Role::Dirty | Role::Bad | Role::Memory => found.erase.push(loose),
        Role::Preserved => {
            log.preserved.push(peb);
            found.alien.push(loose);
        }
    }
    Ok(())
}

/// The log has no more than the counters at the last commit; an entry has those of now.
pub(super) fn count_supers(log: &Log, found: &mut Found) {
    for (peb, ec) in log.current.blocks.iter().zip(log.current.ecs) {
        if let Some((loose, _)) = found.memory.iter_mut().find(|(loose, _)| loose.peb == *peb) {
            loose.ec = Some(ec);
        }
    }
}
