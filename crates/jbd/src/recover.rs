//! After a crash: brings home what committed transactions hold, in Linux's three passes
//! (`fs/jbd/recovery.c`).
//!
//! *Promises.* Nothing is written before the whole log has been judged; of each block only the
//! newest version that is not revoked is brought home; done twice, it does the same. Memory is
//! bounded by the journal: 16 bytes or so for each tag and each revoke record in it. *Knows nothing
//! of* running transactions.

use crate::{
    Checkpoint, JournalError, Options, SeededBug, Tid,
    blocks::Blocks,
    format::{self, Sums, kind},
    ring::Ring,
    superblock::Superblock,
};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError};

/// What recovery found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Committed transactions that the log holds.
    pub transactions: u32,
    /// Blocks brought home by copying.
    pub copied: u32,
    /// Blocks brought home by remapping.
    pub remapped: u32,
    /// Versions left alone because they are revoked.
    pub revoked: u32,
    /// Versions left alone because a later transaction holds a newer one.
    pub superseded: u32,
    /// The log was not empty, and was emptied without a replay.
    pub skipped: bool,
    /// The transaction of fast commits that follow the log's last transaction. They wait for the
    /// file system, see [`Journal::fast_commits`](crate::Journal::fast_commits).
    pub fast: Option<Tid>,
}

/// Where the log ends: the first transaction without commit block, and where it would begin.
#[derive(Clone, Copy, Debug)]
struct End {
    tid: Tid,
    log: u32,
    /// Whether any block of the ring is outside the committed transactions.
    has_space: bool,
}

/// The version of a block that is brought home.
#[derive(Clone, Copy, Debug)]
struct Version {
    log: u32,
    escaped: bool,
    tid: Tid,
    sum: u32,
}

/// What one block of the log is, as the walk meets it.
enum Met<'a> {
    /// A descriptor; `log` is where it lies, `next` the block behind it.
    Descriptor {
        bytes: &'a [u8],
        log: u32,
        next: u32,
    },
    Revokes {
        bytes: &'a [u8],
        log: u32,
    },
}

/// Recovers the journal if need be and leaves its superblock clean, in `sb` and on the device.
pub(crate) fn recover<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &mut Superblock,
    options: &Options,
) -> Result<Recovery, JournalError> {
    if sb.start() == 0 {
        return Ok(Recovery::default());
    }
    let bug = options.seeded_bug;
    let end = walk(blocks, sb, None, bug, |_, _| Ok(()))?;
    if options.skip_recovery {
        sb.set_log(0, end.tid.next());
        blocks.write_log(0, sb.bytes())?;
        blocks.flush()?;
        return Ok(Recovery {
            skipped: true,
            ..Recovery::default()
        });
    }
    let remap = options.checkpoint != Checkpoint::Copy;
    let mut found = Recovery {
        transactions: end.tid.0.wrapping_sub(sb.sequence().0),
        fast: fast_commits(blocks, sb, end)?,
        ..Recovery::default()
    };
    let revoked = match bug {
        Some(SeededBug::RevokesIgnored) => BTreeMap::new(),
        _ => revokes(blocks, sb, end, bug)?,
    };
    let versions = versions(blocks, sb, end, bug, &revoked, &mut found)?;
    check_copies(blocks, sb, &versions)?;
    close_log(
        sb,
        end,
        found.fast.is_some() && bug != Some(SeededBug::FastLogClosed),
    );
    if !(remap && end.has_space && remap_home(blocks, sb, &versions, end.log, &mut found)?) {
        copy_home(blocks, &versions, bug, |_| true, &mut found.copied)?;
        if bug != Some(SeededBug::RecoveryUnfenced) {
            blocks.flush()?;
        }
        blocks.write_log(0, sb.bytes())?;
        blocks.flush()?;
    }
    Ok(found)
}

/// Goes through the log from its start to `until`, or to the first block that does not belong to
/// it.
fn walk<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    until: Option<Tid>,
    bug: Option<SeededBug>,
    mut meet: impl FnMut(Tid, Met<'_>) -> Result<(), JournalError>,
) -> Result<End, JournalError> {
    let ring = Ring::new(sb.first(), sb.end());
    let form = sb.form();
    // A control block of the transaction with a wrong checksum.
    let mut unsound = None;
    let mut last_time = 0;
    let mut bytes = vec![0; blocks.size() as usize];
    let mut tid = sb.sequence();
    let mut log = sb.start();
    let mut left = ring.blocks();
    let mut end = End {
        tid,
        log,
        has_space: true,
    };
    while until != Some(tid) && left > 0 {
        blocks.read_log(log, &mut bytes)?;
        let Some((kind, found)) = format::header(&bytes) else {
            break;
        };
        if found != tid && bug != Some(SeededBug::StaleCounts) {
            break;
        }
        let next = ring.next(log);
        left -= 1;
        let sound = until.is_some() || form.is_sound(kind, &bytes);
        match kind {
            // A torn one ends the log.
            kind::COMMIT if !sound => break,
            kind::COMMIT if until.is_none() => {
                let time = format::commit_time(&bytes);
                match unsound {
                    Some(log) if time >= last_time => {
                        let what = "a descriptor or a revoke block";
                        return Err(JournalError::Checksum { log, what, tid });
                    }
                    // A block of an earlier use of the log.
                    Some(_) => break,
                    None => last_time = time,
                }
            }
            _ if !sound => unsound = Some(log),
            _ => {}
        }
        match kind {
            kind::DESCRIPTOR => {
                let tags = form.tags(&bytes).count() as u32;
                meet(
                    tid,
                    Met::Descriptor {
                        bytes: &bytes,
                        log,
                        next,
                    },
                )?;
                // A torn descriptor may point anywhere; its transaction has no commit block then.
                let Some(rest) = left.checked_sub(tags) else {
                    break;
                };
                left = rest;
                log = (0..tags).fold(next, |log, _| ring.next(log));
            }
            kind::REVOKE => {
                meet(tid, Met::Revokes { bytes: &bytes, log })?;
                log = next;
            }
            kind::COMMIT => {
                (tid, log) = (tid.next(), next);
                end = End {
                    tid,
                    log,
                    has_space: left > 0,
                };
            }
            _ => break,
        }
    }
    Ok(end)
}

/// The blocks that are revoked, each with the last transaction that does so.
fn revokes<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    end: End,
    bug: Option<SeededBug>,
) -> Result<BTreeMap<u64, Tid>, JournalError> {
    let mut revoked = BTreeMap::new();
    let form = sb.form();
    walk(blocks, sb, Some(end.tid), bug, |tid, met| {
        if let Met::Revokes { bytes, log } = met {
            // The walk goes forward, so a later entry is a later transaction.
            revoked.extend(form.revoked(bytes, log)?.map(|home| (home, tid)));
        }
        Ok(())
    })?;
    Ok(revoked)
}

/// For each block the version to bring home.
fn versions<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    end: End,
    bug: Option<SeededBug>,
    revoked: &BTreeMap<u64, Tid>,
    found: &mut Recovery,
) -> Result<BTreeMap<u64, Version>, JournalError> {
    let ring = Ring::new(sb.first(), sb.end());
    let form = sb.form();
    let count = blocks.count();
    let map = blocks.map().clone();
    let mut versions = BTreeMap::new();
    let until = (bug != Some(SeededBug::UnfinishedCounts)).then_some(end.tid);
    walk(blocks, sb, until, bug, |tid, met| {
        let Met::Descriptor {
            bytes,
            log: descriptor,
            next,
        } = met
        else {
            return Ok(());
        };
        let mut log = next;
        for tag in form.tags(bytes) {
            let home = tag.home;
            if home >= count || map.contains(home) {
                return Err(JournalError::Tag {
                    log: descriptor,
                    home,
                    blocks: count,
                });
            }
            if revoked
                .get(&tag.home)
                .is_some_and(|revoke| !revoke.is_before(tid))
            {
                found.revoked += 1;
            } else if let Some(older) = versions.insert(
                home,
                Version {
                    log,
                    escaped: tag.escaped,
                    tid,
                    sum: tag.sum,
                },
            ) {
                found.superseded += 1;
                if bug == Some(SeededBug::OldestWins) {
                    versions.insert(home, older);
                }
            }
            log = ring.next(log);
        }
        Ok(())
    })?;
    Ok(versions)
}

/// The copies that go home have the checksums of their tags.
fn check_copies<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    versions: &BTreeMap<u64, Version>,
) -> Result<(), JournalError> {
    let form = sb.form();
    if form.sums == Sums::None {
        return Ok(());
    }
    let mut data = vec![0; blocks.size() as usize];
    for Version { log, tid, sum, .. } in versions.values().copied() {
        blocks.read_log(log, &mut data)?;
        if form.copy_sum(tid, &data) != sum {
            let what = "a copy";
            return Err(JournalError::Checksum { log, what, tid });
        }
    }
    Ok(())
}

/// The transaction of the fast commits with which the log goes on. They count only as long as it
/// is the next one.
fn fast_commits<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    end: End,
) -> Result<Option<Tid>, JournalError> {
    let Some(area) = sb.fast_area() else {
        return Ok(None);
    };
    let mut bytes = vec![0; blocks.size() as usize];
    blocks.read_log(area.start, &mut bytes)?;
    Ok(format::fast_commit(&bytes).filter(|tid| *tid == end.tid))
}

/// Makes the superblock of a log whose transactions are all at home.
fn close_log(sb: &mut Superblock, end: End, open: bool) {
    match open {
        // Fast commits stay valid until the transaction of their number commits.
        true => sb.set_log(end.log, end.tid),
        // Linux leaves one number out, too: whatever stands in the log is then older than what
        // comes.
        false => sb.set_log(0, end.tid.next()),
    }
}

/// Copies the chosen versions home.
fn copy_home<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    versions: &BTreeMap<u64, Version>,
    bug: Option<SeededBug>,
    choose: impl Fn(&Version) -> bool,
    copied: &mut u32,
) -> Result<(), JournalError> {
    let mut data = vec![0; blocks.size() as usize];
    for (home, version) in versions.iter().filter(|(_, version)| choose(version)) {
        blocks.read_log(version.log, &mut data)?;
        if version.escaped && bug != Some(SeededBug::EscapeForgotten) {
            format::put(&mut data, 0, format::MAGIC);
        }
        blocks.write(*home, &data)?;
        *copied += 1;
    }
    Ok(())
}

/// Remaps the versions home, and with them the clean superblock, which waits at `spare`; so there
/// is no moment at which the log would be recovered again although its blocks are gone. False if
/// the device cannot.
fn remap_home<D: BlockDevice>(
    blocks: &mut Blocks<D>,
    sb: &Superblock,
    versions: &BTreeMap<u64, Version>,
    spare: u32,
    found: &mut Recovery,
) -> Result<bool, JournalError> {
    let moves = versions
        .iter()
        .filter(|(_, version)| !version.escaped)
        .map(|(home, version)| (version.log, *home));
    let mut moves: Vec<(u64, u64)> = moves
        .map(|(log, home)| (blocks.map().home(log), home))
        .collect();
    if moves.is_empty() {
        return Ok(false);
    }
    moves.push((blocks.map().home(spare), blocks.map().home(0)));
    let mut copied = 0;
    copy_home(
        blocks,
        versions,
        None,
        |version| version.escaped,
        &mut copied,
    )?;
    blocks.write_log(spare, sb.bytes())?;
    blocks.flush()?;
    match blocks.remap(moves.iter().copied()) {
        Ok(()) => (found.copied, found.remapped) = (copied, moves.len() as u32 - 1),
        Err(BlockError::Unsupported) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}
