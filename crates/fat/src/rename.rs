//! Rename: the one call that changes two places, which the format cannot do at once.
//!
//! **Power loss.** Where all slots involved lie in what the device writes whole, old name and new
//! change together. Otherwise the new entry is made durable before the old one is taken away: a cut
//! between leaves the file under both names, which lead to one chain, never under none. A file that
//! is replaced is replaced in its own slot, at once.

use crate::{
    Fat, FatError, SeededBug,
    dir::{Found, short_of},
    format::{SLOT, Slot, attr, put_slot_start},
    name,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, Ino, Rename, Time};

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    pub(crate) fn rename_entry(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
    ) -> Result<(), FatError> {
        let old = self.need(from.0, from.1)?;
        self.check_alive(to.0)?;
        let units = name::to_new_units(to.1)?;
        let target = self.find(to.0, &units)?;
        match (&target, how) {
            (_, Rename::Exchange) => return Err(Errno::Invalid.into()),
            (Some(_), Rename::NoReplace) => return Err(Errno::Exists.into()),
            (Some(target), _) if target.place == old.place && target.name == units => return Ok(()),
            _ => {}
        }
        let target = target.filter(|target| target.place != old.place);
        let moved = self.node_of(&old)?;
        if old.is_directory() && self.is_inside(to.0, moved)? {
            return Err(Errno::Invalid.into());
        }
        if let Some(target) = &target {
            self.check_replace(&old, target, from.0)?;
        }
        // The slot as it stands in the directory: what the inode knows better may not be written
        // yet.
        let new = match target {
            Some(target) => self.take_over(target, &old.slot)?,
            None => {
                // Only the case changes: the short name may stay.
                let same = from.0 == to.0 && name::fold(&old.name) == name::fold(&units);
                self.add_entry(to.0, &units, &old.slot, Some(&old).filter(|_| same))?
            }
        };
        if old.is_directory() && from.0 != to.0 {
            self.put_parent(moved, to.0)?;
        }
        self.nodes.move_to(moved, Some(new.place));
        if !self.is_one_atom(&old, &new)? && !self.has_bug(SeededBug::RenameAtOnce) {
            self.commit()?;
        }
        self.remove_entry(&old)?;
        self.move_counts(old.is_directory(), from.0, to.0);
        Ok(())
    }

    fn check_replace(&mut self, old: &Found, target: &Found, from: Ino) -> Result<(), FatError> {
        let ino = self.node_of(target)?;
        let errno = match (old.is_directory(), target.is_directory()) {
            // The target may be the very directory that the old entry is in.
            (_, true) if self.is_inside(from, ino)? => Errno::NotEmpty,
            (true, false) => Errno::NotDirectory,
            (false, true) => Errno::IsDirectory,
            (true, true) if !self.is_empty_dir(ino)? => Errno::NotEmpty,
            _ => return Ok(()),
        };
        Err(errno.into())
    }

    /// Puts another file in the place of `target`, whose name stays.
    fn take_over(&mut self, target: Found, slot: &Slot) -> Result<Found, FatError> {
        let mut new = *slot;
        new[..11].copy_from_slice(&short_of(&target.slot));
        new[12] = target.slot[12];
        let ino = self.node_of(&target)?;
        self.store.put_slot(target.place, &new)?;
        if let Some(dir) = self
            .nodes
            .get_mut(target.dir)
            .filter(|_| target.is_directory())
        {
            dir.subdirs = dir.subdirs.saturating_sub(1);
        }
        self.lose_name(ino)?;
        Ok(Found {
            slot: new,
            ..target
        })
    }

    /// Lets a directory's `..` name its parent.
    pub(crate) fn put_parent(&mut self, dir: Ino, parent: Ino) -> Result<(), FatError> {
        let start = self.parent_start(parent);
        let Some(place) = self.slot_place(dir, 1)? else {
            return Ok(());
        };
        let mut slot = self.store.slot(place)?;
        if slot[..11] == *b"..         " {
            put_slot_start(&mut slot, self.store.layout.bits, start);
            self.store.put_slot(place, &slot)?;
        }
        Ok(())
    }

    /// How a `..` names a directory: the root by 0.
    pub(crate) fn parent_start(&self, parent: Ino) -> u32 {
        if parent == Ino::ROOT {
            0
        } else {
            self.nodes.get(parent).map_or(0, |node| node.start)
        }
    }

    /// Whether all slots of two entries lie in one piece that the device writes whole.
    fn is_one_atom(&mut self, old: &Found, new: &Found) -> Result<bool, FatError> {
        let atom = self.store.atom();
        for found in [old, new] {
            for index in [found.first, found.last] {
                let place = self.slot_place(found.dir, index)?;
                if place.is_none_or(|place| place / atom != new.place / atom) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn move_counts(&mut self, directory: bool, from: Ino, to: Ino) {
        if directory {
            if let Some(dir) = self.nodes.get_mut(from) {
                dir.subdirs = dir.subdirs.saturating_sub(1);
            }
            if let Some(dir) = self.nodes.get_mut(to) {
                dir.subdirs += 1;
            }
        }
        self.touch_dir(from);
        self.touch_dir(to);
    }

    /// Whether a directory is another or lies in it, by the `..` on the way to the root.
    fn is_inside(&mut self, dir: Ino, ancestor: Ino) -> Result<bool, FatError> {
        if dir == ancestor || ancestor == Ino::ROOT {
            return Ok(true);
        }
        let sought = self.nodes.get(ancestor).map_or(0, |node| node.start);
        let layout = self.store.layout;
        let mut at = self.nodes.get(dir).map_or(0, |node| node.start);
        if dir == Ino::ROOT {
            return Ok(false);
        }
        // No path has more directories than there are clusters; a ring of `..` ends here.
        for _ in 0..layout.clusters {
            if at == sought {
                return Ok(true);
            }
            if at == 0 || at == layout.root_cluster || !layout.is_cluster(at) {
                return Ok(false);
            }
            let place =
                u64::from(layout.cluster_sector(at)) * u64::from(layout.sector) + SLOT as u64;
            let slot = self.store.slot(place)?;
            if slot[..11] != *b"..         " || slot[11] & attr::DIRECTORY == 0 {
                return Ok(false);
            }
            at = crate::format::slot_start(&slot, layout.bits);
        }
        Err(FatError::Chain {
            start: sought,
            cluster: at,
            found: at,
            expected: "a way up to the root",
        })
    }

    /// The directory's time of modification is now.
    pub(crate) fn touch_dir(&mut self, dir: Ino) {
        let now: Time = self.store.now;
        if let Some(node) = self.nodes.get_mut(dir) {
            node.mtime = crate::time::rounded(now, self.options.utc_offset_minutes);
        }
        self.nodes.touch(dir, false, now);
    }
}
