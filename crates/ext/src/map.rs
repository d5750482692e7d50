//! Which block of the volume holds which block of an inode: twelve pointers in the inode, then one,
//! two and three levels of indirect blocks; or extents, see `extents`.
//!
//! *Promises.* A number that leads to what is no block for contents is an error and is not
//! followed. Taking and giving back keep the inode's count of units. *Knows nothing of* what the
//! blocks hold.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{DIRECT, le32, put32},
    inode::Inode,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// The way to a block: the slot in the inode, then the slots in blocks of block pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub slots: [u32; 4],
    pub levels: usize,
}

/// The way to a block of an inode; none beyond what three levels reach.
pub(crate) fn way(index: u32, pointers: u32) -> Option<Way> {
    let n = u64::from(pointers);
    let mut rest = u64::from(index);
    if index < DIRECT {
        return Some(Way {
            slots: [index, 0, 0, 0],
            levels: 0,
        });
    }
    rest -= u64::from(DIRECT);
    for levels in 1..=3usize {
        let reach = n.pow(levels as u32);
        if rest < reach {
            let mut slots = [DIRECT + levels as u32 - 1, 0, 0, 0];
            for (level, slot) in slots.iter_mut().enumerate().take(levels + 1).skip(1) {
                *slot = (rest / n.pow((levels - level) as u32) % n) as u32;
            }
            return Some(Way { slots, levels });
        }
        rest -= reach;
    }
    None
}

/// The slots on the way to a block within three levels, and how many levels there are below the
/// inode: for who makes a volume.
pub(crate) fn slots(index: u32, pointers: u32) -> ([u32; 4], usize) {
    way(index, pointers).map_or(([0; 4], 0), |way| (way.slots, way.levels))
}

/// A block of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Where it is; 0 where nothing was ever written.
    pub block: u32,
    /// How many follow it there, itself included, as far as one block of block pointers tells.
    pub run: u32,
}

impl<D: BlockDevice> Ext<D> {
    pub(crate) fn checked(&self, inode: u32, block: u32) -> Result<u32, ExtError> {
        if block != 0 && self.is_metadata(block) {
            return Err(ExtError::Inode {
                inode,
                field: "block",
                found: block.into(),
                expected: "a block for contents",
            });
        }
        Ok(block)
    }

    /// Where a block of an inode lies; looks no further than `most` blocks.
    pub(crate) fn mapped(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u32,
        most: u32,
    ) -> Result<Mapped, ExtError> {
        if inode.has_extents() {
            return self.extent_mapped(number, inode, index, most);
        }
        let pointers = self.store.layout.pointers();
        let Some(Way { slots, levels }) = way(index, pointers) else {
            return Ok(Mapped { block: 0, run: 1 });
        };
        if levels == 0 {
            let end = slots[0].saturating_add(most.max(1)).min(DIRECT);
            let run = run_of(inode.block[slots[0] as usize..end as usize].iter().copied());
            self.checked(number, inode.block[slots[0] as usize])?;
            return Ok(Mapped {
                block: inode.block[slots[0] as usize],
                run,
            });
        }
        let mut at = self.checked(number, inode.block[slots[0] as usize])?;
        for level in 1..=levels {
            if at == 0 {
                // Nothing below a missing block of block pointers.
                let below = u64::from(pointers).pow((levels + 1 - level) as u32);
                let into = slots[level..=levels]
                    .iter()
                    .fold(0, |sum, slot| sum * u64::from(pointers) + u64::from(*slot));
                return Ok(Mapped {
                    block: 0,
                    run: (below - into).min(u64::from(most.max(1))) as u32,
                });
            }
            let bytes = self.store.block(at)?;
            let slot = slots[level];
            if level == levels {
                let end = slot.saturating_add(most.max(1)).min(pointers);
                let run = run_of((slot..end).map(|slot| le32(bytes, slot as usize * 4)));
                let block = le32(bytes, slot as usize * 4);
                return Ok(Mapped {
                    block: self.checked(number, block)?,
                    run,
                });
            }
            let next = le32(bytes, slot as usize * 4);
            at = self.checked(number, next)?;
        }
        Ok(Mapped { block: 0, run: 1 })
    }

    /// Where a block of an inode lies, taken now if it has none; says whether it was. All that is
    /// needed is there, or nothing is taken: [`Errno::NoSpace`].
    pub(crate) fn map(
        &mut self,
        number: u32,
        inode: &mut Inode,
        index: u32,
        goal: u32,
    ) -> Result<(u32, bool), ExtError> {
        if inode.has_extents() {
            return self.extent_map(number, inode, index, goal);
        }
        self.pending.forbid();
        let Some(Way { slots, levels }) = way(index, self.store.layout.pointers()) else {
            return Err(Errno::FileTooBig.into());
        };
        let mut goal = goal;
        let mut place = None;
        let mut fresh = false;
        for (level, slot) in slots.into_iter().enumerate().take(levels + 1) {
            let slot = slot as usize;
            let next = match place {
                None => inode.block[slot],
                Some(block) => le32(self.store.block(block)?, slot * 4),
            };
            if next != 0 {
                place = Some(self.checked(number, next)?);
                continue;
            }
            if !fresh {
                // Nothing below either: all of that is needed.
                if self.blocks_left() < (levels + 1 - level) as u32 {
                    return Err(Errno::NoSpace.into());
                }
                goal = self.goal(number, inode, index, goal)?;
                fresh = true;
            }
            let next = self.allocate_block(goal)?;
            goal = next + 1;
            inode.units += u64::from(self.store.layout.block / 512);
            if level < levels {
                self.store.fresh(next, Class::Pointers)?;
            }
            match place {
                None => inode.block[slot] = next,
                Some(block) => put32(self.store.edit(block, Class::Pointers)?, slot * 4, next),
            }
            // A caller that writes once puts the inode when all is mapped.
            if level < levels || !self.options.once {
                self.put_inode(number, inode)?;
            }
            place = Some(next);
        }
        Ok((place.unwrap_or(0), fresh))
    }

    /// The block of block pointers at the end of a way, all of which is there; none for the inode.
    pub(crate) fn block_above(
        &mut self,
        inode: &Inode,
        way: &Way,
    ) -> Result<Option<u32>, ExtError> {
        let mut above = None;
        for slot in way.slots.into_iter().take(way.levels) {
            above = Some(match above {
                None => inode.block[slot as usize],
                Some(block) => le32(self.store.block(block)?, 4 * slot as usize),
            });
        }
        Ok(above)
    }

    /// Where to look for a block: behind the one before it, which the caller may know as `goal`;
    /// otherwise near the pointers; otherwise in the inode's group.
    pub(crate) fn goal(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u32,
        goal: u32,
    ) -> Result<u32, ExtError> {
        if goal != 0 {
            return Ok(goal);
        }
        let before = match index.checked_sub(1) {
            Some(before) => self.mapped(number, inode, before, 1)?.block,
            None => 0,
        };
        Ok(if before != 0 {
            before + 1
        } else {
            self.inode_goal(number)
        })
    }

    /// Gives back all blocks from `index` on, with the indirect blocks that lead to nothing then.
    pub(crate) fn trim(
        &mut self,
        number: u32,
        inode: &mut Inode,
        index: u32,
    ) -> Result<(), ExtError> {
        if inode.has_extents() {
            return self.extent_trim(number, inode, index);
        }
        self.trim_direct(number, inode, index)?;
        let n = u64::from(self.store.layout.pointers());
        let mut first = u64::from(DIRECT);
        for levels in 1..=3u32 {
            let slot = (DIRECT + levels - 1) as usize;
            let end = first + n.pow(levels);
            let from = u64::from(index).saturating_sub(first);
            if inode.block[slot] != 0 && u64::from(index) < end {
                let top = self.checked(number, inode.block[slot])?;
                if self.trim_below(number, inode, top, levels, from)? {
                    inode.block[slot] = 0;
                    self.give_back(number, inode, top)?;
                }
            }
            first = end;
        }
        self.put_inode(number, inode)
    }

    fn trim_direct(&mut self, number: u32, inode: &mut Inode, index: u32) -> Result<(), ExtError> {
        for slot in index.min(DIRECT)..DIRECT {
            let block = core::mem::take(&mut inode.block[slot as usize]);
            if block != 0 {
                self.give_back(number, inode, block)?;
                self.breathe(number, inode)?;
            }
        }
        Ok(())
    }

    /// Gives back what a block of block pointers leads to from its `from`th on; says whether it
    /// leads to nothing then.
    fn trim_below(
        &mut self,
        number: u32,
        inode: &mut Inode,
        block: u32,
        levels: u32,
        from: u64,
    ) -> Result<bool, ExtError> {
        let n = u64::from(self.store.layout.pointers());
        let each = n.pow(levels - 1);
        for slot in from / each..n {
            let at = slot as usize * 4;
            let next = le32(self.store.block(block)?, at);
            if next == 0 {
                continue;
            }
            self.checked(number, next)?;
            let into = from.saturating_sub(slot * each);
            let empty = if levels > 1 {
                self.trim_below(number, inode, next, levels - 1, into)?
            } else {
                true
            };
            if empty {
                // Between two transactions nothing leads to what is free.
                if from > 0 || self.is_journaled() {
                    put32(self.store.edit(block, Class::Pointers)?, at, 0);
                }
                self.give_back(number, inode, next)?;
                self.breathe(number, inode)?;
            }
        }
        Ok(from == 0)
    }

    pub(crate) fn give_back(
        &mut self,
        number: u32,
        inode: &mut Inode,
        block: u32,
    ) -> Result<(), ExtError> {
        self.free_block_of(number, block)?;
        let units = u64::from(self.store.layout.block / 512);
        inode.units = inode.units.saturating_sub(units);
        Ok(())
    }
}

/// How many of these block pointers follow each other, or are all 0.
fn run_of(mut pointers: impl Iterator<Item = u32>) -> u32 {
    let Some(first) = pointers.next() else {
        return 1;
    };
    let step = u32::from(first != 0);
    let mut expected = first.wrapping_add(step);
    let mut run = 1;
    for number in pointers {
        if number != expected {
            break;
        }
        expected = expected.wrapping_add(step);
        run += 1;
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_through_as_many_levels_as_needed() {
        let slots = |index| way(index, 256).map(|way| way.slots[..=way.levels].to_vec());
        assert_eq!(slots(11), Some([11].to_vec()));
        assert_eq!(slots(12), Some([12, 0].to_vec()));
        assert_eq!(slots(12 + 255), Some([12, 255].to_vec()));
        assert_eq!(slots(12 + 256), Some([13, 0, 0].to_vec()));
        assert_eq!(slots(12 + 256 + 65_535), Some([13, 255, 255].to_vec()));
        assert_eq!(slots(12 + 256 + 65_536), Some([14, 0, 0, 0].to_vec()));
        assert_eq!(slots(12 + 256 + 65_536 + (1 << 24)), None);
    }

    #[test]
    fn a_run_ends_where_neighbours_end() {
        assert_eq!(run_of([7, 8, 9, 11].into_iter()), 3);
        assert_eq!(run_of([0, 0, 5].into_iter()), 2);
        assert_eq!(run_of([5].into_iter()), 1);
    }
}
