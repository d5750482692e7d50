//! Space for the journal: nodes in use are moved out of blocks that are mostly dirty.
//!
//! *Promises.* A moved node keeps its number, so that replay sorts it where it was. *Power loss.* A
//! block is given up only when the moved nodes, and whatever made others obsolete, were written.
//!
//! A replay reads the names of entries that share a hash, some of them at places that collection
//! emptied since the commit. If the journal has written there, Linux may take a new entry for an
//! old one; then a name is there twice, and the dirt of a block is wrong. So a commit follows if
//! the block had such names.

use crate::bug::SeededBug;
use crate::error::Result;
use crate::format::{Branch, Entry, Key, Kind, Props, align8};
use crate::index::Slot;
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::scan::{self, Found};
use nandlab_vfs::Errno;

impl<L: Lebs> Ubifs<L> {
    /// Tries to gain room; returns whether some was gained.
    pub(crate) fn make_room(&mut self) -> Result<bool> {
        self.count_obsolete();
        if self.collect()? {
            return Ok(true);
        }
        let before = self.writer.blocks.empties();
        self.commit()?;
        Ok(self.collect()? || self.writer.blocks.empties() > before)
    }

    /// Empties one block; returns whether there was one that is worth it.
    fn collect(&mut self) -> Result<bool> {
        if self.victim().is_none() {
            return Ok(false);
        }
        if self.must_commit() {
            self.commit()?;
        }
        let Some((victim, props)) = self.victim() else {
            return Ok(false);
        };
        let shares = self.shares_hashes(victim)?;
        // A block without nodes in use may be one that a power cut brought back in part.
        if props.used(self.media.geometry().leb) > 0 {
            // Its nodes may go to any block but itself.
            self.writer.blocks.take(victim);
            let moved = self.move_all(victim);
            self.writer.blocks.release(victim);
            moved?;
        }
        self.count_obsolete();
        if !self.media.has_bug(SeededBug::CollectUnflushed) {
            self.flush_all()?;
        }
        self.media.unmap(victim)?;
        self.writer.blocks.emptied(victim);
        self.keep_one()?;
        self.writer.counts.collected += 1;
        if shares {
            self.commit()?;
        }
        Ok(true)
    }

    /// True if an entry in a block has the hash of an entry with another name. Nodes that are not
    /// in use count: the last commit may have them.
    fn shares_hashes(&mut self, victim: u32) -> Result<bool> {
        let bugs = [SeededBug::ReuseNames, SeededBug::TrustOldPlaces];
        if bugs.into_iter().any(|bug| self.media.has_bug(bug)) {
            return Ok(false);
        }
        let here = self.media.geometry();
        let bytes = self.media.leb(victim)?;
        let Ok(scanned) = scan::clean(&bytes, victim, 0, &here) else {
            return Ok(true);
        };
        for node in scanned.nodes {
            let kind = node.header.kind;
            if !matches!(kind, Kind::Dent | Kind::Xent) {
                continue;
            }
            let node = &bytes[node.offs as usize..][..node.header.len as usize];
            let shares = match Entry::parse(node, kind) {
                Ok(entry) => self.shares_hash(entry)?,
                Err(_) => true,
            };
            if shares {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the index has another name with the hash of this one.
    fn shares_hash(&mut self, entry: Entry<'_>) -> Result<bool> {
        let mut places = self.index.nodes_of(entry.key).map(|(_, at)| at);
        let Some(at) = places.next() else {
            return Ok(false);
        };
        if places.next().is_some() {
            return Ok(true);
        }
        let other = match self.media.leaf(at, entry.key) {
            Ok((header, node)) => Entry::parse(node, header.kind),
            Err(error) => return self.media.pass(error).map(|()| true),
        };
        Ok(other.map_or(true, |other| other.name != entry.name))
    }

    /// Moves all nodes in use out of a block.
    fn move_all(&mut self, victim: u32) -> Result<()> {
        let here = self.media.geometry();
        let bytes = self.media.leb(victim)?;
        let scanned = scan::clean(&bytes, victim, 0, &here)?;
        for node in scanned.nodes {
            if let Some(slot) = self.live(&bytes, victim, node) {
                let node = &bytes[node.offs as usize..][..node.header.len as usize];
                let at = self.move_node(node)?;
                self.index.replace(slot, at);
                self.writer.counts.moved += 1;
            }
        }
        Ok(())
    }

    /// The block that gives the most room.
    fn victim(&self) -> Option<(u32, Props)> {
        let here = self.media.geometry();
        let is_worth = |props: &Props| {
            !props.is_index && props.free < here.leb && props.dirty >= here.dead_bytes()
        };
        let idle = self.writer.blocks.idle();
        let worth = idle.filter(|(_, props)| is_worth(props));
        worth.max_by_key(|(_, props)| props.free + props.dirty)
    }

    /// The slot of a node that is in use.
    fn live(&self, leb: &[u8], lnum: u32, node: Found) -> Option<Slot> {
        match node.header.kind {
            Kind::Inode | Kind::Data | Kind::Dent | Kind::Xent => {}
            _ => return None,
        }
        let key = Key::parse(leb.get(node.offs as usize..)?, 24).ok()?;
        let place = Branch {
            lnum,
            offs: node.offs,
            len: node.header.len,
        };
        let mut all = self.index.nodes_of(key);
        all.find(|(_, at)| *at == place).map(|(slot, _)| slot)
    }

    /// A block for moved nodes, and the byte in it where it is free. A full volume of Linux may
    /// have no empty block: then the nodes go behind others, as in `ubifs_rcvry_gc_commit`.
    fn room_for_moved(&mut self, len: u32) -> Result<(u32, u32)> {
        let kept = self.writer.gc_lnum.take();
        let blocks = &self.writer.blocks;
        if let Some(lnum) = kept.or_else(|| blocks.empty()) {
            return Ok((lnum, 0));
        }
        let partial = blocks.partial(align8(len));
        let (lnum, props) = partial.ok_or(Errno::NoSpace)?;
        Ok((lnum, self.media.geometry().leb - props.free))
    }

    fn move_node(&mut self, node: &[u8]) -> Result<Branch> {
        if self.left(Head::Moved) < align8(node.len() as u32) {
            self.close_head(Head::Moved)?;
            let (lnum, offs) = self.room_for_moved(node.len() as u32)?;
            self.open_head(Head::Moved, lnum, offs)?;
        }
        let at = self.push(Head::Moved, node).ok_or(Errno::NoSpace)?;
        self.write_whole(Head::Moved)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::KeyHash;
    use crate::{Bare, Format, Switches, format};
    use alloc::vec;
    use nandlab_vfs::{Caller, FileSystem as _, Ino, NewNode, Rename, Time};

    const LEB: u32 = 15_872;

    /// Linux may leave a full volume without an empty block.
    #[test]
    fn without_an_empty_block_nodes_go_behind_others() {
        let choices = Format {
            page: Some(512),
            compressor: 0,
            ..Format::default()
        };
        let bytes = vec![0xFF; LEB as usize * 100];
        let lebs = format(Bare::with(bytes, LEB, 100), &choices).unwrap();
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        let by = Caller::root(Time::new(1));
        let contents = |number| nandlab_testkit::files::bytes(number, 3000);
        for number in 0..40 {
            let name = alloc::format!("{number}");
            let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by);
            let ino = made.unwrap().ino;
            fs.write(ino, 0, &contents(number), by.now).unwrap();
            fs.forget(ino, 1);
        }
        for number in (0..40).filter(|number| number % 4 > 0) {
            let name = alloc::format!("{number}");
            fs.unlink(Ino::ROOT, name.as_bytes(), by.now).unwrap();
        }
        fs.sync().unwrap();
        // The heads let go of their blocks, and no block is empty any more.
        fs.unmount().unwrap();
        let mut fs = Ubifs::mount_writable(fs.into_lebs()).unwrap();
        fs.writer.gc_lnum = None;
        while let Some(lnum) = fs.writer.blocks.empty() {
            fs.writer.blocks.take(lnum);
        }
        assert!(fs.make_room().unwrap());
        assert!(fs.counts().moved > 0, "{:?}", fs.counts());
        fs.unmount().unwrap();
        let mut fs = Ubifs::mount(fs.into_lebs()).unwrap();
        assert_eq!(fs.check().findings, []);
        for number in (0..40).step_by(4) {
            let name = alloc::format!("{number}");
            let ino = fs.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
            let mut found = vec![0; 3000];
            fs.read(ino, 0, &mut found).unwrap();
            assert_eq!(found, contents(number), "{number}");
        }
    }

    /// A power cut may bring an unmapped block back in part, while the properties still count its
    /// nodes as dirty.
    #[test]
    fn a_block_without_nodes_in_use_is_emptied_whatever_it_holds() {
        let choices = Format {
            page: Some(512),
            ..Format::default()
        };
        let bytes = vec![0xFF; LEB as usize * 100];
        let lebs = format(Bare::with(bytes, LEB, 100), &choices).unwrap();
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        let now = Time::new(1);
        let made = fs.create(Ino::ROOT, b"a", NewNode::File, 0o644, Caller::root(now));
        let ino = made.unwrap().ino;
        for round in 0..40 {
            let bytes = nandlab_testkit::files::bytes(round, 4096);
            fs.write(ino, 0, &bytes, now).unwrap();
        }
        fs.sync().unwrap();
        for round in 0..40 {
            let bytes = nandlab_testkit::files::bytes(round, 4096);
            fs.write(ino, 0, &bytes, now).unwrap();
        }
        fs.flush_all().unwrap();
        fs.count_obsolete();
        let unused = fs.writer.blocks.reclaimable(false);
        assert!(!unused.is_empty());
        for lnum in unused {
            let mut bytes = fs.media.leb(lnum).unwrap();
            bytes.iter_mut().step_by(9).for_each(|byte| *byte ^= 0x3C);
            fs.media.change(lnum, &bytes).unwrap();
        }
        while fs.make_room().unwrap() {}
        assert!(fs.counts().collected > 0);
        assert_eq!(fs.check().findings, []);
    }

    /// Names of one hash: the hash for tests takes the first four bytes.
    fn name(number: u32) -> alloc::string::String {
        alloc::format!("name {number:03}")
    }

    /// The first entry of a block.
    fn first_entry(fs: &mut Ubifs<Bare<vec::Vec<u8>>>, lnum: u32) -> Option<u32> {
        let found = fs
            .index
            .leaves()
            .find(|at| (at.lnum, at.offs) == (lnum, 0))?;
        let (_, node) = fs.media.node(found, Kind::Dent).ok()?;
        let entry = Entry::parse(node, Kind::Dent).ok()?;
        core::str::from_utf8(&entry.name[5..]).ok()?.parse().ok()
    }

    /// Writes names of one hash to a block, collects it, and writes a new entry to the place of an
    /// old one. Returns the volume as a power cut leaves it, and whether a commit came between.
    fn reused(bug: Option<SeededBug>) -> (vec::Vec<u8>, bool) {
        let choices = Format {
            page: Some(512),
            key_hash: KeyHash::Test,
            ..Format::default()
        };
        let bytes = vec![0xFF; LEB as usize * 100];
        let lebs = format(Bare::with(bytes, LEB, 100), &choices).unwrap();
        let switches = Switches {
            bug,
            ..Switches::default()
        };
        let mut fs = Ubifs::mount_switched(lebs, switches).unwrap();
        let by = Caller::root(Time::new(1));
        for number in 0..NAMES {
            let made = fs.create(Ino::ROOT, name(number).as_bytes(), NewNode::File, 0o644, by);
            fs.forget(made.unwrap().ino, 1);
        }
        fs.sync().unwrap();
        let blocks: vec::Vec<u32> = fs.writer.blocks.all().map(|(lnum, _)| lnum).collect();
        let mut firsts = blocks
            .into_iter()
            .map(|lnum| (lnum, first_entry(&mut fs, lnum)));
        let (lnum, kept) = firsts
            .find_map(|(lnum, number)| Some((lnum, number?)))
            .unwrap();
        // The block keeps its first name only.
        for number in kept + 1..kept + 30 {
            fs.unlink(Ino::ROOT, name(number).as_bytes(), by.now)
                .unwrap();
        }
        fs.count_obsolete();
        let commits = fs.counts().commits;
        while fs.writer.blocks.get(lnum).used(LEB) > 0 {
            assert!(fs.collect().unwrap());
        }
        let has_committed = fs.counts().commits > commits;
        fs.close_head(Head::Base).unwrap();
        fs.open_head(Head::Base, lnum, 0).unwrap();
        // An entry of a name that lies elsewhere.
        let from = name(0);
        let to = name(NAMES - 1);
        let from = (Ino::ROOT, from.as_bytes());
        let to = (Ino::ROOT, to.as_bytes());
        fs.rename(from, to, Rename::Replace, by.now).unwrap();
        fs.flush_all().unwrap();
        (fs.into_lebs().into_bytes(), has_committed)
    }

    const NAMES: u32 = 90;

    /// The names after a mount.
    fn names(bytes: &[u8], bug: Option<SeededBug>) -> vec::Vec<vec::Vec<u8>> {
        let lebs = Bare::new(bytes.to_vec()).unwrap().unwrap();
        let switches = Switches {
            bug,
            ..Switches::default()
        };
        let mut fs = Ubifs::mount_switched(lebs, switches).unwrap();
        let found = nandlab_vfs::tree::names(&mut fs, Ino::ROOT).unwrap();
        let mut names: vec::Vec<_> = found.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// A replay of Linux takes the new entry for the old one that lay there.
    #[test]
    fn names_of_one_hash_stay_apart_where_a_collected_block_is_written_again() {
        let (bytes, has_committed) = reused(None);
        assert!(has_committed);
        let expected = names(&bytes, None);
        assert_eq!(expected.len(), NAMES as usize - 30);
        // The replay of a driver that trusts old places agrees.
        assert_eq!(names(&bytes, Some(SeededBug::TrustOldPlaces)), expected);
        // Linux does not commit in between.
        let (bytes, has_committed) = reused(Some(SeededBug::ReuseNames));
        assert!(!has_committed);
        assert_eq!(names(&bytes, None), expected);
        assert_ne!(names(&bytes, Some(SeededBug::TrustOldPlaces)), expected);
    }
}
