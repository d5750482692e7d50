//! New blocks of a file that lie one behind the other, taken together.
//!
//! *Promises.* The volume becomes the one that [`map`](Ext::map) makes block by block: a run ends
//! where `map` might choose another place, or change more than one entry of the tree. *Knows
//! nothing of* what the blocks hold.

use crate::{
    Ext, ExtError,
    cache::Class,
    extent_nodes::WRITTEN_MAX,
    extents::nodes_needed,
    format::{DIRECT, le32, put32},
    groups::Map,
    inode::Inode,
    map::way,
};
use nandlab_block::BlockDevice;

/// A search treats the first bit of each such group of a bitmap in another way.
const NEAR: u32 = 64;

/// Blocks of a file, and where they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub block: u32,
    pub count: u32,
    /// New blocks, or such as hold nothing yet.
    pub fresh: bool,
}

impl Run {
    /// The blocks behind the first.
    pub fn behind(self) -> Option<Self> {
        (self.count > 1).then(|| Self {
            block: self.block + 1,
            count: self.count - 1,
            ..self
        })
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Where a block of an inode lies, taken now if it has none, and up to `most` blocks from there
    /// on if those are new as well.
    pub(crate) fn map_run(
        &mut self,
        number: u32,
        inode: &mut Inode,
        index: u32,
        goal: u32,
        most: u32,
    ) -> Result<Run, ExtError> {
        let free = self.free_blocks;
        let (block, fresh) = self.map(number, inode, index, goal)?;
        let mut count = 1;
        // A block that was never written has its place already.
        if most > 1 && self.free_blocks < free {
            count += match inode.has_extents() {
                true => self.extend_extent(number, inode, (index, block), most - 1)?,
                false => self.extend_pointers(number, inode, (index, block), most - 1)?,
            };
        }
        Ok(Run {
            block,
            count,
            fresh,
        })
    }

    /// Takes up to `most` blocks behind one, as far as they are free and near; returns how many.
    fn take_behind(&mut self, block: u32, most: u32) -> Result<u32, ExtError> {
        let layout = self.store.layout;
        let (group, within) = layout.group_of(block);
        let first = within + 1;
        let near = layout.group_blocks(group).min(first.next_multiple_of(NEAR));
        let most = most.min(self.groups[group as usize].free_blocks);
        let end = near.min(first.saturating_add(most));
        let bitmap = self.load_bitmap(group, Map::Blocks)?;
        let clear = self.clear_row(bitmap, first, end)?;
        let next = block + 1;
        let own = self.zones.within(next, next + clear).next();
        let count = own.map_or(clear, |own| own - next);
        self.take_blocks(group, first, count)?;
        Ok(count)
    }

    fn extend_pointers(
        &mut self,
        number: u32,
        inode: &mut Inode,
        (index, block): (u32, u32),
        most: u32,
    ) -> Result<u32, ExtError> {
        let pointers = self.store.layout.pointers();
        let Some(way) = way(index, pointers) else {
            return Ok(0);
        };
        let slot = way.slots[way.levels] + 1;
        let most = most.min(self.blocks_left());
        let above = self.block_above(inode, &way)?;
        let holes = match above {
            None => {
                let slots = &inode.block[slot.min(DIRECT) as usize..DIRECT as usize];
                slots.iter().take_while(|pointer| **pointer == 0).count() as u32
            }
            Some(above) => {
                let bytes = self.store.block(above)?;
                let mut slots = (slot..pointers).map(|slot| le32(bytes, 4 * slot as usize));
                slots
                    .position(|pointer| pointer != 0)
                    .unwrap_or((pointers - slot) as usize) as u32
            }
        };
        let count = self.take_behind(block, most.min(holes))?;
        if count == 0 {
            return Ok(0);
        }
        let taken = (slot as usize..).zip(block + 1..).take(count as usize);
        match above {
            None => taken.for_each(|(slot, block)| inode.block[slot] = block),
            Some(above) => {
                let bytes = self.store.edit(above, Class::Pointers)?;
                taken.for_each(|(slot, block)| put32(bytes, 4 * slot, block));
            }
        }
        self.count_run(number, inode, count)
    }

    fn extend_extent(
        &mut self,
        number: u32,
        inode: &mut Inode,
        (index, block): (u32, u32),
        most: u32,
    ) -> Result<u32, ExtError> {
        let (extent, next) = self.extent_at(number, inode, index)?;
        let last = extent.filter(|extent| extent.end() == u64::from(index) + 1 && next == 1 << 32);
        let Some(extent) = last else {
            return Ok(0);
        };
        let path = self.path(number, inode, index)?;
        let left = self.blocks_left().saturating_sub(nodes_needed(&path));
        let room = WRITTEN_MAX
            .saturating_sub(extent.count)
            .min(u32::MAX - 1 - index);
        let count = self.take_behind(block, most.min(left).min(room))?;
        let Some(leaf) = path.last().filter(|_| count > 0) else {
            return Ok(0);
        };
        let longer = extent.with_count(extent.count + count);
        self.put_extent(number, inode, leaf, longer)?;
        self.note_mapped(number, inode, index + count);
        self.count_run(number, inode, count)
    }

    /// An inode has so many blocks more.
    fn count_run(&mut self, number: u32, inode: &mut Inode, count: u32) -> Result<u32, ExtError> {
        inode.units += u64::from(self.store.layout.block / 512) * u64::from(count);
        if !self.options.once {
            self.put_inode(number, inode)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ext, Format, Mode, Options, format};
    use alloc::{format as text, vec, vec::Vec};
    use nandlab_block::{BlockDevice, Lba, Ram};
    use nandlab_sim::mix;
    use nandlab_testkit::files::{NOW, put};
    use nandlab_vfs::{FileSystem, Ino};

    const SECTORS: u64 = 8000;

    fn bytes(disk: &mut Ram) -> Vec<u8> {
        let mut all = vec![0; SECTORS as usize * 512];
        disk.read(Lba(0), &mut all).unwrap();
        all
    }

    /// A volume with holes among its free blocks, written in calls of many blocks or of one.
    fn written(made: &Format, options: Options, seed: u64, is_split: bool) -> Vec<u8> {
        let mut disk = Ram::new(512, SECTORS);
        format(&mut disk, made).unwrap();
        let mut ext = Ext::mount(disk, options).unwrap();
        let size = ext.layout().block as usize;
        for file in 0..120 {
            let length = size * (mix(seed, file) % 9 + 1) as usize;
            put(&mut ext, Ino::ROOT, &text!("{file}"), &vec![7; length]);
        }
        for file in (0..120).filter(|file| mix(seed, *file) & 0x300 != 0) {
            ext.unlink(Ino::ROOT, text!("{file}").as_bytes(), NOW)
                .unwrap();
        }
        ext.sync().unwrap();
        let file = put(&mut ext, Ino::ROOT, "large", b"");
        for step in 0..60 {
            let word = mix(seed, 1000 + step);
            let at = (word % 400) as usize * size / 2;
            let data = vec![step as u8 + 1; (word >> 16) as usize % (40 * size) + 1];
            let ends = (at / size + 1..=(at + data.len()).div_ceil(size)).map(|end| end * size);
            let mut from = 0;
            for end in ends.filter(|end| is_split || *end >= at + data.len()) {
                let end = end.min(at + data.len()) - at;
                let mut done = from;
                while done < end {
                    match ext.write(file, (at + done) as u64, &data[done..end], NOW) {
                        Ok(count) => done += count,
                        Err(_) => break,
                    }
                }
                from = end;
            }
            if word >> 60 == 0 {
                ext.sync().unwrap();
            }
        }
        ext.unmount().unwrap();
        bytes(&mut ext.into_device())
    }

    #[test]
    fn a_call_of_many_blocks_takes_those_that_as_many_calls_take() {
        for seed in 0..4 {
            for (block, ext4) in [(1024, false), (1024, true), (4096, false), (4096, true)] {
                let made = Format {
                    block: Some(block),
                    ext4,
                    ..Format::default()
                };
                let options = Options {
                    mode: Mode::Unjournaled,
                    dirty_bytes_max: 64 << 10,
                    ..Options::default()
                };
                let [whole, split] = [false, true].map(|is| written(&made, options, seed, is));
                assert!(whole == split, "seed {seed}, {made:?}");
            }
        }
    }
}
