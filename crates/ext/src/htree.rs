//! The index of a directory: its first block, and blocks below that, order the blocks of names by
//! the hash of the names (Linux `fs/ext4/namei.c`).
//!
//! *Promises.* An index that makes no sense is not used: the directory is searched block by block
//! then. Where names of one hash lie in several blocks, the lowest bit of the later ones' hash is
//! set. *Knows nothing of* records but through `dir`.

use crate::{
    Ext, ExtError,
    dir::{Found, Record, put_record, put_tail, record},
    format::{flags, incompat, le16, le32, put16, put32},
    hash::hash,
    inode::Inode,
};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// Byte of the first block at which the index says what it is.
const INFO: usize = 24;
/// Byte at which the pairs begin: in the first block, and in one below.
const ROOT_PAIRS: usize = 32;
const NODE_PAIRS: usize = 8;

/// A block of the index: pairs of hash and block, the first pair's hash being limit and count.
#[derive(Clone, Copy, Debug)]
struct Level {
    block: u32,
    pairs: usize,
    count: usize,
    limit: usize,
    /// The pair that leads on.
    at: usize,
}

impl Level {
    fn place(&self, at: usize) -> usize {
        self.pairs + 8 * at
    }

    /// The lowest hash that a pair is for.
    fn hash(&self, bytes: &[u8], at: usize) -> u32 {
        if at == 0 {
            0
        } else {
            le32(bytes, self.place(at))
        }
    }

    fn leads_to(&self, bytes: &[u8], at: usize) -> u32 {
        // The upper bits are kept for other uses.
        le32(bytes, self.place(at) + 4) & 0x0FFF_FFFF
    }
}

/// A name with its hash and its record.
pub(crate) type Hashed = (u32, Record, Vec<u8>);

/// The way from the first block to names with a hash: one or two levels, and the block of the
/// directory with the names.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    levels: Vec<Level>,
    version: u8,
    leaf: u32,
}

impl<D: BlockDevice> Ext<D> {
    /// The hash that an index says it uses; the superblock says whether bytes are signed.
    fn hash_version(&self, stored: u8) -> u8 {
        if stored < 3 && self.store.layout.hash_version >= 3 {
            stored + 3
        } else {
            stored
        }
    }

    /// The most pairs of a block in which they begin at `pairs`; a checksum takes one's space.
    fn pairs_max(&self, pairs: usize) -> usize {
        (self.store.layout.size() - pairs) / 8 - usize::from(self.store.layout.has_sums())
    }

    /// The most levels of an index below the first block.
    fn levels_max(&self) -> u8 {
        match self.store.layout.incompat & incompat::LARGE_DIR {
            0 => 1,
            _ => 2,
        }
    }

    /// A level of the index; none if it makes no sense.
    fn level(&mut self, block: u32, root: bool, hash: u32) -> Result<Option<Level>, ExtError> {
        let pairs = if root { ROOT_PAIRS } else { NODE_PAIRS };
        let most = self.pairs_max(pairs);
        let bytes = self.store.block(block)?;
        let limit = usize::from(le16(bytes, pairs));
        let count = usize::from(le16(bytes, pairs + 2));
        if limit != most || count == 0 || count > limit {
            return Ok(None);
        }
        let mut level = Level {
            block,
            pairs,
            count,
            limit,
            at: 0,
        };
        let mut low = 1;
        let mut high = count;
        while low < high {
            let middle = (low + high) / 2;
            if level.hash(bytes, middle) <= hash {
                low = middle + 1
            } else {
                high = middle
            }
        }
        level.at = low - 1;
        Ok(Some(level))
    }

    /// The way to names with the hash that `of` computes from the index's version; none if the
    /// index cannot be used.
    pub(crate) fn probe(
        &mut self,
        number: u32,
        dir: &Inode,
        of: impl Fn(u8) -> Option<u32>,
    ) -> Result<Option<Path>, ExtError> {
        let blocks = self.dir_blocks(dir);
        let first = self.dir_block(number, dir, 0)?;
        let bytes = self.store.block(first)?;
        let stored = bytes[INFO + 4];
        let length = bytes[INFO + 5];
        let below = bytes[INFO + 6];
        let unused = bytes[INFO + 7];
        let plain = le32(bytes, INFO) == 0 && length == 8 && unused & 1 == 0;
        let plain = plain && below <= self.levels_max();
        let version = self.hash_version(stored);
        let Some(hash) = of(version).filter(|_| plain) else {
            return Ok(None);
        };
        let mut levels = Vec::with_capacity(2);
        let mut block = first;
        loop {
            let Some(level) = self.level(block, levels.is_empty(), hash)? else {
                return Ok(None);
            };
            let next = level.leads_to(self.store.block(block)?, level.at);
            levels.push(level);
            if next == 0 || next >= blocks {
                return Ok(None);
            }
            if levels.len() > usize::from(below) {
                return Ok(Some(Path {
                    levels,
                    version,
                    leaf: next,
                }));
            }
            block = self.dir_block(number, dir, next)?;
        }
    }

    fn probe_name(
        &mut self,
        number: u32,
        dir: &Inode,
        name: &[u8],
    ) -> Result<Option<(Path, u32)>, ExtError> {
        let seed = self.store.layout.hash_seed;
        let Some(path) = self.probe(number, dir, |version| hash(name, version, seed))? else {
            return Ok(None);
        };
        Ok(hash(name, path.version, seed).map(|hash| (path, hash)))
    }

    /// Goes on to the next block of names; gives the lowest hash that it is for.
    pub(crate) fn step(
        &mut self,
        number: u32,
        dir: &Inode,
        path: &mut Path,
    ) -> Result<Option<u32>, ExtError> {
        let blocks = self.dir_blocks(dir);
        let Some(depth) = path
            .levels
            .iter()
            .rposition(|level| level.at + 1 < level.count)
        else {
            return Ok(None);
        };
        path.levels[depth].at += 1;
        let level = path.levels[depth];
        let bytes = self.store.block(level.block)?;
        let hash = level.hash(bytes, level.at);
        let mut next = level.leads_to(bytes, level.at);
        let wrong = |block, found: u32| {
            let expected = "a block of the directory with pairs, or with names";
            ExtError::Block {
                block,
                offset: 0,
                field: "pair of the index",
                found: found.into(),
                expected,
            }
        };
        for below in depth + 1..path.levels.len() {
            if next >= blocks {
                return Err(wrong(level.block, next));
            }
            let block = self.dir_block(number, dir, next)?;
            let found = self.level(block, false, 0)?.ok_or(wrong(block, 0))?;
            path.levels[below] = Level { at: 0, ..found };
            next = found.leads_to(self.store.block(block)?, 0);
        }
        if next == 0 || next >= blocks {
            return Err(wrong(level.block, next));
        }
        path.leaf = next;
        Ok(Some(hash))
    }

    /// Where the names lie to which a path leads.
    pub(crate) fn leaf(&mut self, number: u32, dir: &Inode, path: &Path) -> Result<u32, ExtError> {
        self.dir_block(number, dir, path.leaf)
    }

    /// Looks a name up by the index: none if that cannot be used.
    pub(crate) fn find_indexed(
        &mut self,
        number: u32,
        dir: &Inode,
        name: &[u8],
    ) -> Result<Option<Option<Found>>, ExtError> {
        if matches!(name, b"." | b"..") {
            let first = self.dir_block(number, dir, 0)?;
            return Ok(Some(self.find_in(number, first, name)?));
        }
        let Some((mut path, hash)) = self.probe_name(number, dir, name)? else {
            return Ok(None);
        };
        loop {
            let leaf = self.leaf(number, dir, &path)?;
            if let Some(found) = self.find_in(number, leaf, name)? {
                return Ok(Some(Some(found)));
            }
            // Names of one hash may go on in the next block.
            match self.step(number, dir, &mut path)? {
                Some(next) if next == hash | 1 => {}
                _ => return Ok(Some(None)),
            }
        }
    }

    /// The block of names to which a name belongs.
    pub(crate) fn leaf_of(
        &mut self,
        number: u32,
        dir: &Inode,
        name: &[u8],
    ) -> Result<Option<u32>, ExtError> {
        match self.probe_name(number, dir, name)? {
            Some((path, _)) => Ok(Some(self.leaf(number, dir, &path)?)),
            None => Ok(None),
        }
    }

    /// Adds a name by the index; false if that cannot be used.
    pub(crate) fn insert_indexed(
        &mut self,
        number: u32,
        dir: &mut Inode,
        name: &[u8],
        child: u32,
        kind: u8,
    ) -> Result<bool, ExtError> {
        let Some((path, hash)) = self.probe_name(number, dir, name)? else {
            return Ok(false);
        };
        let leaf = self.leaf(number, dir, &path)?;
        if self.add_in(number, leaf, name, (child, kind))? {
            return Ok(true);
        }
        let Some(path) = self.make_room(number, dir, path, hash)? else {
            return Ok(false);
        };
        let target = self.split(number, dir, &path, leaf, hash)?;
        if self.add_in(number, target, name, (child, kind))? {
            return Ok(true);
        }
        // Records of very different lengths: split again.
        self.insert_indexed(number, dir, name, child, kind)
    }

    /// Makes sure that the lowest level has space for one more pair.
    fn make_room(
        &mut self,
        number: u32,
        dir: &mut Inode,
        path: Path,
        hash: u32,
    ) -> Result<Option<Path>, ExtError> {
        let mut path = path;
        loop {
            // The lowest full level whose upper one has space, or the first if all are full.
            let full = path.levels.iter().rev();
            let full = full.take_while(|level| level.count == level.limit).count();
            let depth = path.levels.len() - full;
            match (full, depth) {
                (0, _) => return Ok(Some(path)),
                (_, 0) => self.add_level(number, dir, &path)?,
                _ => self.split_level(number, dir, &path, depth)?,
            }
            match self.probe(number, dir, |_| Some(hash))? {
                Some(next) => path = next,
                None => return Ok(None),
            }
        }
    }

    /// Moves all pairs of the first block to a new one below it.
    fn add_level(&mut self, number: u32, dir: &mut Inode, path: &Path) -> Result<(), ExtError> {
        let root = path.levels[0];
        if path.levels.len() > usize::from(self.levels_max()) {
            return Err(Errno::NoSpace.into());
        }
        let index = self.new_level(number, dir, root, 0)?;
        let below = path.levels.len() as u8;
        let bytes = self.edit_names(number, root.block)?;
        bytes[INFO + 6] = below;
        put16(bytes, ROOT_PAIRS + 2, 1);
        put32(bytes, ROOT_PAIRS + 4, index);
        Ok(())
    }

    /// Splits a full block of pairs: the upper half goes to a new block.
    fn split_level(
        &mut self,
        number: u32,
        dir: &mut Inode,
        path: &Path,
        depth: usize,
    ) -> Result<(), ExtError> {
        let low = path.levels[depth];
        let above = path.levels[depth - 1];
        let from = low.count / 2;
        let middle = low.hash(self.store.block(low.block)?, from);
        let index = self.new_level(number, dir, low, from)?;
        self.insert_pair(number, &above, middle, index)?;
        self.ordered(above.block, low.block)?;
        let bytes = self.edit_names(number, low.block)?;
        put16(bytes, low.pairs + 2, from as u16);
        Ok(())
    }

    /// A new block of the index with the pairs of another from `from` on; gives its place in the
    /// directory.
    fn new_level(
        &mut self,
        number: u32,
        dir: &mut Inode,
        old: Level,
        from: usize,
    ) -> Result<u32, ExtError> {
        let (index, block) = self.append_block(number, dir)?;
        let size = self.store.layout.size();
        let limit = self.pairs_max(NODE_PAIRS);
        let bytes = self.store.block(old.block)?;
        let moved = bytes[old.place(from)..old.place(old.count)].to_vec();
        let node = self.fresh_names(number, block)?;
        put_record(node, 0, size, 0, b"", 0);
        node[NODE_PAIRS..NODE_PAIRS + moved.len()].copy_from_slice(&moved);
        put16(node, NODE_PAIRS, limit as u16);
        put16(node, NODE_PAIRS + 2, (old.count - from) as u16);
        Ok(index)
    }

    /// Puts a pair behind the one that leads on; there is space.
    fn insert_pair(
        &mut self,
        number: u32,
        level: &Level,
        hash: u32,
        index: u32,
    ) -> Result<(), ExtError> {
        let bytes = self.edit_names(number, level.block)?;
        let at = level.place(level.at + 1);
        let end = level.place(level.count);
        bytes.copy_within(at..end, at + 8);
        put32(bytes, at, hash);
        put32(bytes, at + 4, index);
        put16(bytes, level.pairs + 2, level.count as u16 + 1);
        Ok(())
    }

    /// The names of a block with their hashes, in the order of these.
    fn hashed(&mut self, block: u32, version: u8) -> Result<Vec<Hashed>, ExtError> {
        let seed = self.store.layout.hash_seed;
        let names = self.names_in(block)?;
        let mut hashed: Vec<_> = names
            .into_iter()
            .map(|(r, name)| (hash(&name, version, seed).unwrap_or(0), r, name))
            .collect();
        hashed.sort_by_key(|(hash, ..)| *hash);
        Ok(hashed)
    }

    /// Moves the upper half of a full block's names to a new block; gives the one to which names of
    /// `hash` belong.
    fn split(
        &mut self,
        number: u32,
        dir: &mut Inode,
        path: &Path,
        leaf: u32,
        hash: u32,
    ) -> Result<u32, ExtError> {
        let names = self.hashed(leaf, path.version)?;
        let Some(low) = path.levels.last().filter(|_| names.len() > 1) else {
            let expected = "at least two names in a full block";
            return Err(ExtError::Block {
                block: leaf,
                offset: 0,
                field: "names",
                found: names.len() as u64,
                expected,
            });
        };
        let all: usize = names.iter().map(|(_, record, _)| record.used()).sum();
        let mut at = 0;
        let mut bytes = 0;
        while at + 1 < names.len() && bytes < all / 2 {
            bytes += names[at].1.used();
            at += 1;
        }
        let middle = names[at].0;
        let goes_on = names[at - 1].0 == middle;
        let (index, block) = self.append_block(number, dir)?;
        self.fill(number, block, &names[at..], true)?;
        self.insert_pair(number, low, middle | u32::from(goes_on), index)?;
        self.ordered(low.block, leaf)?;
        self.fill(number, leaf, &names[..at], false)?;
        Ok(if hash >= middle && !(goes_on && hash == middle) {
            block
        } else {
            leaf
        })
    }

    /// Fills a block with these names.
    fn fill(
        &mut self,
        number: u32,
        block: u32,
        names: &[Hashed],
        fresh: bool,
    ) -> Result<(), ExtError> {
        let end = self.names_end();
        let bytes = if fresh {
            self.fresh_names(number, block)?
        } else {
            self.edit_names(number, block)?
        };
        bytes.fill(0);
        let mut at = 0;
        for (count, (_, record, name)) in (1..).zip(names) {
            let length = if count == names.len() {
                end - at
            } else {
                record.used()
            };
            put_record(bytes, at, length, record.inode, name, record.kind);
            at += length;
        }
        if names.is_empty() {
            put_record(bytes, 0, end, 0, b"", 0);
        }
        put_tail(bytes, end);
        Ok(())
    }

    /// Gives a directory of one full block an index; false if the block does not begin as it
    /// should.
    pub(crate) fn make_indexed(&mut self, number: u32, dir: &mut Inode) -> Result<bool, ExtError> {
        let types = self.types();
        let size = self.store.layout.size();
        let stored = self.store.layout.hash_version % 3;
        let first = self.dir_block(number, dir, 0)?;
        let bytes = self.store.block(first)?;
        let dot = record(bytes, 0, first, types)?;
        let dotdot = record(bytes, dot.length, first, types)?;
        if dot.length != 12
            || dot.name_in(bytes) != b"."
            || dotdot.name_in(bytes) != b".."
            || self.store.layout.hash_version > 5
        {
            return Ok(false);
        }
        let kinds = (dot.kind, dotdot.kind);
        let names = self.hashed(first, self.store.layout.hash_version)?;
        let (index, block) = self.append_block(number, dir)?;
        self.fill(number, block, &names, true)?;
        let limit = self.pairs_max(ROOT_PAIRS);
        let bytes = self.edit_names(number, first)?;
        bytes.fill(0);
        put_record(bytes, 0, 12, dot.inode, b".", kinds.0);
        put_record(bytes, 12, size - 12, dotdot.inode, b"..", kinds.1);
        (bytes[INFO + 4], bytes[INFO + 5]) = (stored, 8);
        put16(bytes, ROOT_PAIRS, limit as u16);
        put16(bytes, ROOT_PAIRS + 2, 1);
        put32(bytes, ROOT_PAIRS + 4, index);
        dir.flags |= flags::INDEX;
        self.put_inode(number, dir)?;
        Ok(true)
    }

    /// All names of the blocks to which a path leads, with their hashes; `path` goes on to the next
    /// hash, if there is one.
    pub(crate) fn batch(
        &mut self,
        number: u32,
        dir: &Inode,
        path: &mut Path,
    ) -> Result<(Vec<Hashed>, Option<u32>), ExtError> {
        /// Names of one hash in more blocks than this are a volume's mischief.
        const BLOCKS_MAX: usize = 64;
        let mut names = vec![];
        for _ in 0..BLOCKS_MAX {
            let leaf = self.leaf(number, dir, path)?;
            names.extend(self.hashed(leaf, path.version)?);
            match self.step(number, dir, path)? {
                Some(next) if next & 1 == 1 => {}
                next => return Ok((names, next)),
            }
        }
        let expected = "no more than 64";
        Err(ExtError::Inode {
            inode: number,
            field: "blocks with names of one hash",
            found: BLOCKS_MAX as u64 + 1,
            expected,
        })
    }

    /// The version of a directory's index, or what it would be.
    pub(crate) fn index_version(&self, path: Option<&Path>) -> u8 {
        path.map_or(self.store.layout.hash_version, |path| path.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, format};
    use alloc::{collections::BTreeMap, format as text, string::String};
    use nandlab_block::Ram;
    use nandlab_testkit::files::{NOW, mkdir, put};
    use nandlab_vfs::{FileSystem, Ino};

    /// Four names of this length fill a block of 1 KiB.
    fn long(number: u32) -> String {
        text!("{number:0>240}")
    }

    /// Two names of one hash.
    fn twins(ext: &Ext<Ram>) -> (u32, [String; 2]) {
        let layout = &ext.store.layout;
        let mut seen = BTreeMap::new();
        for number in 0..1_000_000 {
            let found = hash(
                long(number).as_bytes(),
                layout.hash_version,
                layout.hash_seed,
            );
            let found = found.unwrap();
            if let Some(twin) = seen.insert(found, number) {
                return (found, [long(twin), long(number)]);
            }
        }
        panic!("no two names of one hash")
    }

    /// The first name whose hash is chosen.
    fn name_with(ext: &Ext<Ram>, number: u32, chosen: impl Fn(u32) -> bool) -> String {
        let layout = &ext.store.layout;
        let is_chosen = |name: &String| {
            hash(name.as_bytes(), layout.hash_version, layout.hash_seed).is_some_and(&chosen)
        };
        (number..).map(long).find(is_chosen).unwrap()
    }

    /// Lists a directory one name at a time.
    fn listed(ext: &mut Ext<Ram>, dir: Ino) -> Vec<String> {
        let mut names = Vec::new();
        let mut from = Some(0);
        while let Some(at) = from.take() {
            ext.readdir(dir, at, &mut |entry| {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                from = Some(entry.next);
                false
            })
            .unwrap();
        }
        names.retain(|name| name.len() > 2);
        names.sort();
        names
    }

    /// A full block is split between two names of one hash. Each is found from the index's pair.
    #[test]
    fn names_of_one_hash_in_two_blocks_are_found_and_listed_once() {
        let mut disk = Ram::new(512, 4000);
        format(&mut disk, &Format::default()).unwrap();
        let mut ext = Ext::mount(disk, Options::default()).unwrap();
        let (shared, mut twins) = twins(&ext);
        for turn in 0..2 {
            twins.reverse();
            let dir = mkdir(&mut ext, Ino::ROOT, &text!("turn {turn}"));
            let mut names = vec![
                name_with(&ext, 2_000_000, |hash| hash < shared),
                twins[0].clone(),
                twins[1].clone(),
                name_with(&ext, 3_000_000, |hash| hash > shared),
                name_with(&ext, 4_000_000, |hash| hash > shared),
            ];
            for name in &names {
                put(&mut ext, dir, name, b"");
            }
            let inode = ext.inode(dir.0 as u32).unwrap();
            let probed = ext
                .probe(dir.0 as u32, &inode, |_| Some(shared | 1))
                .unwrap()
                .unwrap();
            let low = probed.levels[0];
            let bytes = ext.store.block(low.block).unwrap();
            assert_eq!(
                low.hash(bytes, low.at),
                shared | 1,
                "turn {turn}: not split between twins"
            );
            for name in &names {
                assert!(
                    ext.lookup(dir, name.as_bytes()).is_ok(),
                    "turn {turn}: {name} is missing"
                );
            }
            names.sort();
            assert_eq!(listed(&mut ext, dir), names, "turn {turn}");
            for name in &names {
                ext.unlink(dir, name.as_bytes(), NOW).unwrap();
            }
            assert_eq!(listed(&mut ext, dir), [""; 0], "turn {turn}: after removal");
        }
    }
}
