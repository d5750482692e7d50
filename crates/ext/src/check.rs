//! Finds what is wrong with a volume.
//!
//! *Promises.* Every inode is visited once, every block of block pointers or names once, whatever
//! the volume says; memory is one bit a block, eight bytes an inode, the inodes of all directories
//! and the names of one. At most [`FINDINGS_MAX`](crate::FINDINGS_MAX) findings are kept, the rest
//! counted. Nothing is written.

use crate::{
    Ext, ExtError,
    dir::{Record, record},
    finding::{Finding, Report},
    format::{JOURNAL_INODE, RESIZE_INODE, ROOT, compat, flags, incompat, le32, ro_compat, sb},
    inode::Inode,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::FileType;

/// What is known of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Names that lead to it.
    names: u16,
    /// Its type in records; 0 while it is not in use.
    kind: u8,
    /// The directory in which it lies, if it is one.
    parent: u32,
}

pub(crate) struct Walk {
    pub(crate) report: Report,
    used: Vec<u64>,
    seen: Vec<Seen>,
    directories: Vec<u32>,
    /// Blocks of attributes, and how many inodes use them.
    pub(crate) attributes: BTreeMap<u32, u32>,
    /// Inodes of the volume's own use that have no names.
    pub(crate) special: Vec<u32>,
}

impl Walk {
    /// Marks a block as used; false if it was.
    pub(crate) fn mark(&mut self, block: u32) -> bool {
        let word = block as usize / 64;
        let bit = 1 << (block % 64);
        let before = self.used[word] & bit;
        self.used[word] |= bit;
        before == 0
    }

    pub(crate) fn is_used(&self, block: u32) -> bool {
        self.used[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// A field of an inode is wrong.
    pub(crate) fn wrong(&mut self, inode: u32, field: &'static str, (found, expected): (u64, u64)) {
        self.report.add(Finding::Field {
            inode,
            field,
            found,
            expected,
        });
    }

    /// True if the root is a directory in use.
    pub(crate) fn has_root(&self) -> bool {
        self.kind(ROOT) == FileType::Directory.number()
    }

    /// An inode's type in records; 0 while it is not in use.
    pub(crate) fn kind(&self, inode: u32) -> u8 {
        self.seen[inode as usize].kind
    }
}

/// What is wrong with a name by itself, or beside the names before it in its directory.
fn wrong_name(
    name: &[u8],
    names: &mut BTreeSet<Vec<u8>>,
    (dir, block, offset): (u32, u32, u32),
) -> Option<Finding> {
    if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Some(Finding::Name {
            dir,
            block,
            offset,
            name: name.to_vec(),
        });
    }
    (!names.insert(name.to_vec())).then(|| Finding::Twice {
        dir,
        block,
        offset,
        name: name.to_vec(),
    })
}

impl<D: BlockDevice> Ext<D> {
    /// Checks the volume as this mount sees it.
    pub fn check(&mut self) -> Result<Report, ExtError> {
        Ok(self.walk()?.report)
    }

    pub(crate) fn walk(&mut self) -> Result<Walk, ExtError> {
        self.seal()?;
        // A wrong checksum is a finding, and what it covers is still looked at.
        let verify = core::mem::replace(&mut self.store.verify, false);
        let outcome = self.walk_all();
        self.store.verify = verify;
        outcome
    }

    fn walk_all(&mut self) -> Result<Walk, ExtError> {
        let layout = self.store.layout;
        let mut walk = Walk {
            report: Report::default(),
            used: vec![0; layout.blocks as usize / 64 + 1],
            seen: vec![Seen::default(); layout.inodes as usize + 1],
            directories: Vec::new(),
            attributes: BTreeMap::new(),
            special: Vec::new(),
        };
        if self.is_marked_in_use() {
            walk.report.add(Finding::InUse);
        }
        if let Some(error) = self.fault() {
            let error = error.clone();
            walk.report.add(Finding::Mount { error });
        }
        (0..layout.blocks)
            .filter(|block| self.is_metadata(*block))
            .for_each(|block| _ = walk.mark(block));
        self.check_super(&mut walk)?;
        self.check_guard(&mut walk)?;
        walk.special = self.special_inodes()?;
        for number in 1..=layout.inodes {
            self.check_inode(&mut walk, number)?;
        }
        for dir in core::mem::take(&mut walk.directories) {
            self.check_names(&mut walk, dir)?;
            walk.report.directories += 1;
        }
        self.check_tree(&mut walk)?;
        self.check_orphan_file(&mut walk)?;
        self.check_bitmaps(&mut walk)?;
        self.check_totals(&mut walk)?;
        Ok(walk)
    }

    fn check_inode(&mut self, walk: &mut Walk, number: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        if !self.is_inode_written(number) {
            return Ok(());
        }
        let inode = match self.inode(number) {
            Err(error @ ExtError::Inode { .. }) => {
                walk.report.add(Finding::Unreadable {
                    inode: number,
                    error,
                });
                return Ok(());
            }
            inode => inode?,
        };
        let reserved = number < layout.first_inode && number != ROOT;
        if layout.has_sums() && (inode.links > 0 || reserved) {
            let outcome = self.check_inode_sum(number);
            Self::unreadable(walk, number, outcome)?;
        }
        if inode.links == 0 && !reserved && inode.mode != 0 && inode.dtime == 0 {
            walk.report.add(Finding::Undated { inode: number });
        }
        // A time of deletion within the numbers of inodes is a link of a list of orphans.
        if (1..layout.inodes).contains(&inode.dtime) && self.are_times_late()? {
            walk.report.add(Finding::Linked {
                inode: number,
                next: inode.dtime,
            });
        }
        let resize = number == RESIZE_INODE && layout.has(compat::RESIZE_INODE);
        let journal = number == JOURNAL_INODE && layout.has(compat::HAS_JOURNAL);
        if reserved && !resize && !journal && !walk.special.contains(&number) {
            return self.check_reserved(walk, number, &inode);
        }
        if resize && (inode.links == 0 || inode.kind() != Some(FileType::File)) {
            let expected = FileType::File.mode().into();
            walk.wrong(
                number,
                "mode, with links or without,",
                (inode.mode.into(), expected),
            );
        }
        if inode.links == 0 {
            return Ok(());
        }
        let Some(kind) = inode.kind() else {
            walk.report.add(Finding::Field {
                inode: number,
                field: "mode",
                found: inode.mode.into(),
                expected: 0o100_000,
            });
            return Ok(());
        };
        walk.seen[number as usize].kind = kind.number();
        if inode.flags & flags::VALUE != 0 {
            walk.special.push(number);
        }
        self.check_fields(walk, number, &inode)?;
        if resize {
            if inode.attributes != 0 {
                let field = "block of attributes";
                walk.wrong(number, field, (inode.attributes.into(), 0));
            }
            // The rest of it is descriptors' space.
            self.claim(walk, number, inode.block[13]);
            return self.check_resize(walk, &inode);
        }
        if kind == FileType::Symlink {
            self.check_link(walk, number, &inode)?;
        }
        match inode.is_dir() {
            true => walk.directories.push(number),
            false if !reserved && !walk.special.contains(&number) => walk.report.files += 1,
            false => {}
        }
        let mut blocks = self.check_attributes(walk, number, &inode)?;
        if inode.has_blocks(&layout) {
            let last = self.check_blocks(walk, number, &inode, &mut blocks)?;
            self.check_length(walk, number, &inode, last)?;
        }
        self.check_units(walk, number, &inode, blocks);
        Ok(())
    }

    /// Compares the units of 512 bytes with the blocks that were found.
    pub(crate) fn check_units(&self, walk: &mut Walk, number: u32, inode: &Inode, blocks: u32) {
        // Clusters count whole, and values of attributes in inodes of their own count here.
        let layout = &self.store.layout;
        if layout.cluster > 1 || layout.incompat & incompat::EA_INODE != 0 {
            return;
        }
        let units = u64::from(blocks) * u64::from(self.store.layout.block / 512);
        if units != inode.units {
            walk.wrong(number, "units of 512 bytes", (inode.units, units));
        }
    }

    /// Compares the length with the number behind the last block, as e2fsck does.
    fn check_length(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
        last: u64,
    ) -> Result<(), ExtError> {
        let size = u64::from(self.store.layout.block);
        let held = inode.size / size;
        match inode.kind() {
            Some(FileType::Directory) => {
                let kept = self.store.superblock()?[sb::DIR_PREALLOCATED];
                let spare = last.saturating_sub(held);
                let whole = inode.size.is_multiple_of(size) && (1..=last).contains(&held);
                if !whole || spare > u64::from(kept) {
                    walk.wrong(number, "length", (inode.size, last * size));
                }
            }
            // The last block may be there before the length says so.
            Some(FileType::File) if self.has_hidden_end(inode) => {}
            Some(FileType::File) if inode.size < last.saturating_sub(1) * size => {
                let field = "length of a file with blocks behind it";
                walk.wrong(number, field, (inode.size, last * size));
            }
            _ => {}
        }
        Ok(())
    }

    /// The superblock's times are later than any number of an inode.
    fn are_times_late(&mut self) -> Result<bool, ExtError> {
        let inodes = self.store.layout.inodes;
        let bytes = self.store.superblock()?;
        let times = [sb::WRITE_TIME, sb::MOUNT_TIME, sb::MADE];
        Ok(times
            .into_iter()
            .all(|at| !(1..inodes).contains(&le32(bytes, at))))
    }

    /// Marks a block as an inode's; false if it cannot be one.
    pub(crate) fn claim(&self, walk: &mut Walk, inode: u32, block: u32) -> bool {
        if self.is_metadata(block) {
            walk.report.add(Finding::Stray { inode, block });
            return false;
        }
        let new = walk.mark(block);
        if !new {
            walk.report.add(Finding::CrossLink { inode, block });
        }
        new
    }

    /// Marks a block as contents of an inode, which another inode may share where the volume says
    /// so; false if it cannot be one.
    pub(crate) fn claim_contents(&self, walk: &mut Walk, inode: u32, block: u32) -> bool {
        let shared = self.store.layout.ro_compat & ro_compat::SHARED_BLOCKS != 0;
        if !shared || self.is_metadata(block) {
            return self.claim(walk, inode, block);
        }
        _ = walk.mark(block);
        true
    }

    fn check_attributes(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
    ) -> Result<u32, ExtError> {
        let outcome = self.check_hashes(number);
        Self::unreadable(walk, number, outcome)?;
        if self.lacks_contents(number, inode)? {
            let field = "attributes with contents, of an inode that holds them itself,";
            walk.wrong(number, field, (0, 1));
        }
        match inode.attributes {
            0 => Ok(0),
            _ => self.check_attribute_block(walk, number, inode),
        }
    }

    fn check_attribute_block(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
    ) -> Result<u32, ExtError> {
        if !self.store.layout.has(compat::EXT_ATTR) {
            let field = "block of attributes, without the feature,";
            walk.wrong(number, field, (inode.attributes.into(), 0));
        }
        let sharers = walk.attributes.entry(inode.attributes).or_default();
        *sharers += 1;
        let is_new = *sharers == 1 && self.claim(walk, number, inode.attributes);
        if let Some(sum) = self.attribute_sum().filter(|_| is_new) {
            let outcome = self.store.verify_sum(inode.attributes, sum);
            Self::unreadable(walk, number, outcome)?;
        }
        Ok(1)
    }

    /// Visits all blocks of an inode, counting them; gives the number behind the last that holds
    /// contents.
    pub(crate) fn check_blocks(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
        count: &mut u32,
    ) -> Result<u64, ExtError> {
        if inode.has_extents() {
            return self.check_extents(walk, number, inode, count);
        }
        let n = u64::from(self.store.layout.pointers());
        let mut last = 0;
        let mut first = 0;
        for (slot, block) in inode.block.iter().enumerate() {
            let levels = slot.saturating_sub(11) as u32;
            if *block != 0 && self.claim_at(walk, number, *block, levels) {
                *count += 1;
                last = last.max(self.check_below(walk, number, *block, levels, first, count)?);
            }
            first += n.pow(levels);
        }
        Ok(last)
    }

    /// Claims a block with that many levels of block pointers below it.
    fn claim_at(&self, walk: &mut Walk, number: u32, block: u32, levels: u32) -> bool {
        match levels {
            0 => self.claim_contents(walk, number, block),
            _ => self.claim(walk, number, block),
        }
    }

    fn check_below(
        &mut self,
        walk: &mut Walk,
        number: u32,
        block: u32,
        levels: u32,
        first: u64,
        count: &mut u32,
    ) -> Result<u64, ExtError> {
        let Some(below) = levels.checked_sub(1) else {
            return Ok(first + 1);
        };
        let each = u64::from(self.store.layout.pointers()).pow(below);
        let bytes = self.store.block(block)?.to_vec();
        let mut last = 0;
        for slot in 0..bytes.len() / 4 {
            let next = le32(&bytes, slot * 4);
            if next != 0 && self.claim_at(walk, number, next, below) {
                *count += 1;
                last = last.max(self.check_below(
                    walk,
                    number,
                    next,
                    below,
                    first + slot as u64 * each,
                    count,
                )?);
            }
        }
        Ok(last)
    }

    fn check_names(&mut self, walk: &mut Walk, dir: u32) -> Result<(), ExtError> {
        let inode = self.inode(dir)?;
        // No more than what was visited: a length that lies leads nowhere.
        let most = inode.units / u64::from(self.store.layout.block / 512);
        let most = most.min(u32::MAX.into()) as u32;
        let mut names = BTreeSet::new();
        if inode.is_inline() {
            return self.check_inline_names(walk, dir, &inode, &mut names);
        }
        self.check_first_names(walk, dir, &inode)?;
        for index in 0..self.dir_blocks(&inode).min(most) {
            let outcome = self.dir_block(dir, &inode, index).and_then(|block| {
                self.check_block_of_names(walk, (dir, &inode), block, &mut names)
            });
            match outcome {
                Err(error) if error.is_damage() => {
                    walk.report.add(Finding::Unreadable { inode: dir, error })
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn check_block_of_names(
        &mut self,
        walk: &mut Walk,
        (dir, inode): (u32, &Inode),
        block: u32,
        names: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), ExtError> {
        let types = self.types();
        if let Some(sum) = self.sum_of_dir(dir, inode) {
            let outcome = self.store.verify_sum(block, sum);
            Self::unreadable(walk, dir, outcome)?;
        }
        let bytes = self.store.block(block)?.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let record = record(&bytes, at, block, types)?;
            at += record.length;
            if record.inode == 0 {
                continue;
            }
            let name = record.name_in(&bytes);
            self.check_entry(walk, (dir, inode), block, (&record, name), names)?;
        }
        Ok(())
    }

    fn check_inline_names(
        &mut self,
        walk: &mut Walk,
        dir: u32,
        inode: &Inode,
        names: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), ExtError> {
        let listed = match self.inline_names(dir, inode) {
            Err(error) if error.is_damage() => {
                walk.report.add(Finding::Unreadable { inode: dir, error });
                return Ok(());
            }
            listed => listed?,
        };
        let (block, _) = self.inode_place(dir);
        let parent = self.inline_parent(dir, inode).record;
        // The inode stores neither, both count as links.
        for implied in [dir, parent.inode] {
            if let Some(seen) = walk.seen.get_mut(implied as usize) {
                seen.names = seen.names.saturating_add(1);
            }
        }
        for (record, name) in listed {
            self.check_entry(walk, (dir, inode), block, (&record, &name), names)?;
        }
        Ok(())
    }

    fn check_entry(
        &mut self,
        walk: &mut Walk,
        (dir, inode): (u32, &Inode),
        block: u32,
        (record, name): (&Record, &[u8]),
        names: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), ExtError> {
        let types = self.types();
        let offset = record.at as u32;
        {
            if let Some(finding) = wrong_name(name, names, (dir, block, offset)) {
                walk.report.add(finding);
            }
            let seen = walk
                .seen
                .get(record.inode as usize)
                .copied()
                .unwrap_or_default();
            if seen.kind == 0 {
                walk.report.add(Finding::Dangling {
                    dir,
                    block,
                    offset,
                    found: record.inode,
                });
                return Ok(());
            }
            if types && seen.kind != record.kind {
                walk.report.add(Finding::Type {
                    dir,
                    block,
                    offset,
                    found: record.kind,
                    expected: seen.kind,
                });
            }
            let seen = &mut walk.seen[record.inode as usize];
            seen.names = seen.names.saturating_add(1);
            match name {
                b"." if record.inode != dir => walk.report.add(Finding::Dots {
                    dir,
                    name: ".",
                    found: record.inode,
                    expected: dir,
                }),
                b"." | b".." => return Ok(()),
                _ if seen.kind == 2 && seen.parent != 0 => {
                    let first = seen.parent;
                    let inode = record.inode;
                    walk.report.add(Finding::TwoParents {
                        inode,
                        first,
                        second: dir,
                    });
                }
                _ => seen.parent = dir,
            }
            if self.is_indexed(inode)
                && self
                    .find_indexed(dir, inode, name)?
                    .flatten()
                    .map(|f| (f.block, f.record.at))
                    != Some((block, offset as usize))
            {
                walk.report.add(Finding::Index { dir, block, offset });
            }
        }
        Ok(())
    }

    /// Links, parents, and whether all hangs on the root.
    fn check_tree(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let layout = self.store.layout;
        self.check_root(walk)?;
        walk.seen[ROOT as usize].parent = ROOT;
        for number in (ROOT..=ROOT).chain(layout.first_inode..=layout.inodes) {
            let seen = walk.seen[number as usize];
            if seen.kind == 0 || walk.special.contains(&number) {
                continue;
            }
            let inode = self.inode(number)?;
            let uncounted = inode.links == 1 && seen.kind == 2 && self.has_uncounted_links(&inode);
            let links = (!uncounted).then_some(inode.links);
            Self::check_names_of(walk, number, seen, links, layout.has(compat::HAS_JOURNAL));
            if seen.kind == 2 && seen.parent != 0 {
                self.check_parent(walk, number, seen.parent)?;
            }
        }
        Ok(())
    }

    /// Nothing is reached without a root that is a directory; Linux mounts no such volume.
    fn check_root(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        if walk.has_root() {
            return Ok(());
        }
        let found = match self.inode(ROOT) {
            Err(error) if error.is_damage() => 0,
            inode => inode?.mode,
        };
        let expected = FileType::Directory.mode().into();
        walk.wrong(
            ROOT,
            "mode of the root, or its links,",
            (found.into(), expected),
        );
        Ok(())
    }

    /// Compares the names with the links, if the inode counts these.
    fn check_names_of(
        walk: &mut Walk,
        number: u32,
        seen: Seen,
        links: Option<u16>,
        journaled: bool,
    ) {
        // The count of names stops at the most that links can be, where more are to be expected.
        let right = |links: u16| links == seen.names && links < u16::MAX;
        if seen.names == 0 || (seen.kind == 2 && seen.parent == 0) {
            walk.report.add(Finding::Nameless {
                inode: number,
                journaled,
            });
        } else if let Some(links) = links.filter(|links| !right(*links)) {
            walk.report.add(Finding::Links {
                inode: number,
                found: links.into(),
                expected: seen.names.into(),
                directory: seen.kind == 2,
            });
        }
    }

    fn check_parent(&mut self, walk: &mut Walk, number: u32, parent: u32) -> Result<(), ExtError> {
        match self.parent_entry(number) {
            Err(error) if error.is_damage() => walk.report.add(Finding::Unreadable {
                inode: number,
                error,
            }),
            Err(error) => return Err(error),
            Ok(found) if found.record.inode != parent => {
                walk.report.add(Finding::Dots {
                    dir: number,
                    name: "..",
                    found: found.record.inode,
                    expected: parent,
                });
            }
            Ok(_) => {}
        }
        // A circle is found from each of its members, once a member.
        let mut at = parent;
        let mut steps = 0;
        while at != ROOT && at != number && at != 0 && steps < u16::MAX {
            at = walk.seen[at as usize].parent;
            steps += 1;
        }
        if at == number && number != ROOT {
            walk.report.add(Finding::Adrift { inode: number });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::Ram;

    /// The findings of an inode of a directory with that many names and links.
    fn counted(names: u16, links: Option<u16>) -> Vec<Finding> {
        let mut walk = Walk {
            report: Report::default(),
            used: Vec::new(),
            seen: Vec::new(),
            directories: Vec::new(),
            attributes: BTreeMap::new(),
            special: Vec::new(),
        };
        let seen = Seen {
            names,
            kind: 2,
            parent: ROOT,
        };
        Ext::<Ram>::check_names_of(&mut walk, 12, seen, links, false);
        walk.report.findings
    }

    #[test]
    fn more_names_than_links_can_count_are_found() {
        assert_eq!(counted(40_000, Some(40_000)), []);
        assert_eq!(counted(u16::MAX, None), []);
        let found = counted(u16::MAX, Some(u16::MAX));
        assert!(matches!(found[..], [Finding::Links { .. }]), "{found:?}");
        let found = counted(3, Some(4));
        assert!(matches!(found[..], [Finding::Links { .. }]), "{found:?}");
    }
}
