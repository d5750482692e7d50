//! The two blocks of master nodes, of which the last pair counts.
//!
//! *Power loss.* A node is written to the first block, then to the second; the pair takes effect
//! with the second. A cut may leave the last node of either torn, or one of the blocks erased;
//! [`find`] decides as Linux does (`fs/ubifs/recovery.c`), in memory. It also takes a pair of which
//! one block is erased in part.

use crate::bug::SeededBug;
use crate::error::Result;
use crate::format::{Fault, Geometry, Kind, MAGIC, Master, is_erased, node};
use crate::lebs::Lebs;
use crate::node::Media;
use crate::scan;
use alloc::vec::Vec;

/// The master node, and whether a power cut left the pair in disorder.
pub(crate) struct Chosen {
    pub master: Master,
    /// Where it lies in its block.
    pub offs: u32,
    pub is_recovered: bool,
}

const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// A master node in a block.
struct Candidate {
    offs: u32,
    sqnum: u64,
    bytes: Vec<u8>,
    /// A torn write lies behind it.
    is_torn: bool,
}

impl Candidate {
    fn master(&self) -> Master {
        Master::parse(&self.bytes, self.sqnum)
    }

    /// Whether both say the same of the volume. Sequence numbers and signatures differ.
    fn says_as(&self, other: &Self) -> bool {
        let (own, its) = (&self.bytes, &other.bytes);
        own[24..296] == its[24..296] && own[360..] == its[360..]
    }
}

/// Finds the master node that counts.
pub(crate) fn find<L: Lebs>(media: &mut Media<L>) -> Result<Chosen> {
    let here = media.geometry();
    let first = media.leb(FIRST)?;
    let second = media.leb(SECOND)?;
    let chosen = match in_order(&first, &second, &here) {
        Some((master, offs)) => Chosen {
            master,
            offs,
            is_recovered: false,
        },
        None => Chosen {
            master: match media.has_bug(SeededBug::RefuseTornErase) {
                true => by_turns(&first, &second, &here)?,
                false => recover(&first, &second, &here)?,
            },
            offs: 0,
            is_recovered: true,
        },
    };
    let Chosen { master, .. } = &chosen;
    master.validate(&here).map_err(|fault| fault.at(FIRST, 0))?;
    Ok(chosen)
}

/// The last node of both blocks, if no cut has left a trace.
fn in_order(first: &[u8], second: &[u8], here: &Geometry) -> Option<(Master, u32)> {
    let last = |bytes, lnum| {
        let scanned = scan::clean(bytes, lnum, 0, here).ok()?;
        let nodes = scanned.nodes;
        let all = nodes.iter().all(|node| node.header.kind == Kind::Master);
        let last = *nodes.last().filter(|_| all)?;
        let at = last.offs as usize;
        Some((nodes.len(), last, &bytes[at..at + 512]))
    };
    let (count, one, bytes) = last(first, FIRST)?;
    let (other_count, other, other_bytes) = last(second, SECOND)?;
    let same = count == other_count
        && one.offs == other.offs
        && bytes[24..296] == other_bytes[24..296]
        && bytes[360..] == other_bytes[360..];
    same.then(|| {
        let newest = one.header.sqnum.max(other.header.sqnum);
        (Master::parse(bytes, newest), one.offs)
    })
}

/// The node at a place, if a sound master node lies there.
fn at(bytes: &[u8], offs: u32, here: &Geometry) -> Option<Candidate> {
    let (header, bytes) = node(bytes.get(offs as usize..)?, here.leb, here.fanout).ok()?;
    (header.kind == Kind::Master).then(|| Candidate {
        offs,
        sqnum: header.sqnum,
        bytes: bytes.into(),
        is_torn: false,
    })
}

/// The last sound node of a block. Behind it one torn write may lie, and nothing else.
fn last(bytes: &[u8], lnum: u32, here: &Geometry) -> Result<Option<Candidate>> {
    let step = Master::step(here.min_io);
    let is_node = |offs: u32| {
        let magic = bytes.get(offs as usize..offs as usize + 4);
        magic == Some(&MAGIC.to_le_bytes())
    };
    let ends = (0..here.leb / step).take_while(|index| is_node(index * step));
    let count = ends.count() as u32;
    let Some(offs) = count.checked_sub(1).map(|index| index * step) else {
        // A torn write may have lost its beginning.
        let behind = bytes.get(step as usize..).unwrap_or_default();
        return match is_erased(behind) {
            true => Ok(None),
            false => Err(lost(bytes, lnum, step, here)),
        };
    };
    let whole = at(bytes, offs, here);
    let before = || {
        offs.checked_sub(step)
            .and_then(|offs| at(bytes, offs, here))
    };
    let found = match whole {
        Some(mut found) => {
            found.is_torn = !is_erased(
                bytes
                    .get((offs + step) as usize..(offs + 2 * step).min(here.leb) as usize)
                    .unwrap_or_default(),
            );
            Some((found, offs + 2 * step))
        }
        None => before().map(|mut found| {
            found.is_torn = true;
            (found, offs + step)
        }),
    };
    match found {
        Some((found, end)) if bytes.get(end as usize..).is_none_or(is_erased) => Ok(Some(found)),
        None if offs == 0 && bytes.get(step as usize..).is_none_or(is_erased) => Ok(None),
        Some((_, end)) => Err(lost(bytes, lnum, end, here)),
        None => Err(lost(bytes, lnum, offs, here)),
    }
}

#[cold]
fn lost(bytes: &[u8], lnum: u32, at: u32, here: &Geometry) -> crate::UbifsError {
    let rest = bytes.get(at as usize..).unwrap_or_default();
    let fault = match node(rest, here.leb, here.fanout) {
        Err(fault) => fault,
        Ok((header, _)) => {
            let expected = "only one torn write behind the last master node";
            Fault::rule("the type of a node", header.kind as u8, expected)
        }
    };
    fault.at(lnum, at)
}

fn recover(first: &[u8], second: &[u8], here: &Geometry) -> Result<Master> {
    by_turns(first, second, here).or_else(|error| half_erased(first, second, here).ok_or(error))
}

/// The node that counts if a cut has erased a block in part. Linux unmaps a full block before it
/// begins the block anew, and refuses what a torn erase leaves of it.
fn half_erased(first: &[u8], second: &[u8], here: &Geometry) -> Option<Master> {
    let step = Master::step(here.min_io);
    let end = (here.leb / step - 1) * step;
    let newest = |bytes| {
        let offsets = (0..=end).step_by(step as usize);
        let sound = offsets.filter_map(|offs| at(bytes, offs, here));
        sound.max_by_key(|node| node.sqnum)
    };
    let one = newest(first);
    let other = newest(second);
    let is_older = |node: &Option<Candidate>, than: &Candidate| {
        node.as_ref().is_none_or(|node| node.sqnum < than.sqnum)
    };
    if let Some(other) = other.as_ref().filter(|other| other.offs == end)
        && is_older(&one, other)
    {
        return Some(other.master());
    }
    let has_begun = |one: &&Candidate| one.offs == 0 && is_erased(&first[step as usize..]);
    let one = one.as_ref().filter(has_begun)?;
    is_older(&other, one).then(|| one.master())
}

fn by_turns(first: &[u8], second: &[u8], here: &Geometry) -> Result<Master> {
    let one = last(first, FIRST, here)?;
    let other = last(second, SECOND, here)?;
    let step = Master::step(here.min_io);
    // Where the last node of a block lies.
    let end = (here.leb / step - 1) * step;
    let refuse = |what, found: u32, expected| Err(Fault::rule(what, found, expected).at(FIRST, 0));
    match (one, other) {
        (Some(one), _) if one.master().was_recovered() && one.offs == 0 && !one.is_torn => {
            Ok(one.master())
        }
        (Some(one), Some(other)) => {
            let same = one.offs == other.offs && one.says_as(&other);
            let ahead = one.offs == other.offs + step && !one.is_torn;
            let around = one.offs == 0 && other.offs == end && !one.is_torn;
            if same || ahead || around {
                return Ok(one.master());
            }
            let expected = "at the place of the second one, or one step ahead";
            refuse("the place of the first master node", one.offs, expected)
        }
        (Some(one), None) if one.offs == 0 && !one.is_torn => Ok(one.master()),
        (Some(one), None) => {
            let expected = "0, since the second block is empty";
            refuse("the place of the first master node", one.offs, expected)
        }
        (None, Some(other)) if other.offs == end => Ok(other.master()),
        (None, Some(other)) => {
            let expected = "the end of its block, since the first block is empty";
            refuse("the place of the second master node", other.offs, expected)
        }
        (None, None) => refuse("the number of master nodes", 0, "1 or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::draft::pad;
    use crate::format::rules::{geometry, master};
    use crate::format::{Draft, Group, RECOVERED};
    use alloc::vec;

    const STEP: usize = 2048;
    /// The last place of a block.
    const END: usize = 61;

    /// A block with a node at each of the places, whose commit and sequence numbers tell them
    /// apart.
    fn block(places: impl IntoIterator<Item = usize>, round: u64, flags: u32) -> Vec<u8> {
        let mut bytes = vec![0xFF; 126_976];
        for place in places {
            let number = 100 * round + place as u64;
            let node = Master {
                commit: number,
                flags,
                ..master()
            };
            let node = node.draft().seal(number, Group::None);
            bytes[place * STEP..place * STEP + 512].copy_from_slice(&node);
        }
        bytes
    }

    /// The same with a write that a cut has torn.
    fn torn(mut bytes: Vec<u8>, place: usize) -> Vec<u8> {
        bytes[place * STEP..place * STEP + 100].fill(0x11);
        bytes
    }

    fn chosen(first: &[u8], second: &[u8]) -> Option<u64> {
        by_turns(first, second, &geometry())
            .ok()
            .map(|node| node.commit)
    }

    /// A block of nodes as Linux writes it, padding included: their commits, and the number that
    /// tells two blocks apart. `change` may change the last node.
    fn written(commits: &[u64], sqnum: u64, change: fn(&mut Draft)) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, commit) in commits.iter().enumerate() {
            let node = Master {
                commit: *commit,
                ..master()
            };
            let mut draft = node.draft();
            if at + 1 == commits.len() {
                change(&mut draft);
            }
            bytes.extend(draft.seal(sqnum + at as u64, Group::None));
            pad(&mut bytes, STEP as u32);
        }
        bytes.resize(126_976, 0xFF);
        bytes
    }

    #[test]
    fn two_blocks_are_in_order_if_their_last_nodes_say_the_same() {
        let found = |first: &[u8], second: &[u8]| {
            let found = in_order(first, second, &geometry());
            found.map(|(node, offs)| (node.commit, node.sqnum, offs))
        };
        let same = |_: &mut Draft| ();
        let first = written(&[7, 8, 9], 100, same);
        // Sequence numbers differ, and the newest counts.
        let expected = Some((9, 202, 2 * STEP as u32));
        assert_eq!(found(&first, &written(&[7, 8, 9], 200, same)), expected);
        assert_eq!(found(&written(&[7, 8, 9], 200, same), &first), expected);
        assert_eq!(found(&first, &written(&[7, 8], 200, same)), None);
        assert_eq!(found(&first, &written(&[7, 8, 10], 200, same)), None);
        // The fields from byte 24 on, and those behind the signature.
        let other: [fn(&mut Draft); 3] = [
            |node| node.put8(24, 1),
            |node| node.put8(295, 1),
            |node| node.put8(360, 1),
        ];
        for change in other {
            assert_eq!(found(&first, &written(&[7, 8, 9], 200, change)), None);
        }
        let signed = written(&[7, 8, 9], 200, |node| node.put8(359, 1));
        assert_eq!(found(&first, &signed), expected);
        assert_eq!(found(&first, &torn(first.clone(), 3)), None);
    }

    #[test]
    fn linux_accepts_two_blocks_as_one_write_after_the_other_leaves_them() {
        let empty = || block([], 1, 0);
        let upto = |place: usize| block(0..=place, 1, 0);
        // The first block is written first, then the second one.
        assert_eq!(chosen(&upto(5), &upto(5)), Some(105));
        assert_eq!(chosen(&upto(6), &upto(5)), Some(106));
        assert_eq!(chosen(&upto(7), &upto(5)), None);
        assert_eq!(chosen(&upto(5), &upto(6)), None);
        let other = block([5], 2, 0);
        assert_eq!(
            chosen(
                &upto(5),
                &[&upto(4)[..5 * STEP], &other[5 * STEP..]].concat()
            ),
            None
        );
        // A torn write is the last one.
        assert_eq!(chosen(&torn(upto(5), 6), &upto(5)), Some(105));
        assert_eq!(chosen(&torn(upto(6), 7), &upto(5)), None);
        assert_eq!(chosen(&upto(6), &torn(upto(5), 6)), Some(106));
        assert_eq!(chosen(&torn(torn(upto(5), 6), 7), &upto(5)), None);
        // A full block begins anew.
        let begun = || block([0], 2, 0);
        assert_eq!(chosen(&begun(), &upto(END)), Some(200));
        assert_eq!(chosen(&begun(), &upto(END - 1)), None);
        assert_eq!(chosen(&torn(begun(), 1), &upto(END)), None);
        assert_eq!(chosen(&block([0], 2, RECOVERED), &upto(9)), Some(200));
        assert_eq!(chosen(&torn(block([0], 2, RECOVERED), 1), &upto(9)), None);
        // An empty block is one that was about to begin anew.
        assert_eq!(chosen(&begun(), &empty()), Some(200));
        assert_eq!(chosen(&torn(begun(), 1), &empty()), None);
        assert_eq!(chosen(&upto(1), &empty()), None);
        assert_eq!(chosen(&empty(), &upto(END)), Some(161));
        assert_eq!(chosen(&torn(empty(), 0), &upto(END)), Some(161));
        assert_eq!(chosen(&empty(), &upto(END - 1)), None);
        assert_eq!(chosen(&empty(), &empty()), None);
    }

    #[test]
    fn a_torn_erase_of_a_full_block_leaves_the_other_one_in_charge() {
        let chosen = |first: &[u8], second: &[u8]| {
            let master = recover(first, second, &geometry());
            master.ok().map(|node| node.commit)
        };
        let upto = |place: usize| block(0..=place, 1, 0);
        let rest = |round| block(7..=END, round, 0);
        assert_eq!(chosen(&rest(0), &upto(END)), Some(161));
        assert_eq!(chosen(&rest(0), &upto(END - 1)), None);
        // The rest is newer than the block that should count.
        assert_eq!(chosen(&rest(2), &upto(END)), None);
        assert_eq!(chosen(&block([0], 2, 0), &rest(1)), Some(200));
        assert_eq!(chosen(&block([0, 1], 2, 0), &rest(1)), None);
        assert_eq!(chosen(&block([0], 1, 0), &rest(1)), Some(161));
        assert_eq!(chosen(&block([0], 1, 0), &block(7..END, 1, 0)), None);
    }
}
