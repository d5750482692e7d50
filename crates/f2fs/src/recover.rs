//! After a power cut: what fsyncs made durable behind the last checkpoint is taken up again (paper,
//! section 2.7; `fs/f2fs/recovery.c`).
//!
//! *Promises.* Nothing that recovery reads is overwritten before a checkpoint has its outcome, so
//! that it can be cut short and begun again. Read-only it happens in memory. *Knows nothing of* how
//! the nodes came to be written, but that each names the place of the next.

use crate::{
    F2fs, F2fsError, SeededBug,
    checkpoint::ORPHANS,
    format::{
        BLOCK, FIRST_NID, NEW, NODE_SLOTS, NULL, footer, inode, is_direct, is_placed, le32, le64,
        log, node_offset, put32, put64,
    },
    map::first_index,
    node::{self, Shape, kind},
    pack::flag,
    summary::{self, Owner, Owners},
};
use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    vec::Vec,
};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_vfs::{Errno, FileType};

/// The last nodes of a file that count, by their place in the chain.
#[derive(Clone, Copy, Debug)]
struct Fsynced {
    last: usize,
    dentry: Option<usize>,
}

/// Summaries that change because of what is recovered.
type Changed = BTreeMap<u32, Owners>;

impl<D: BlockDevice> F2fs<D> {
    /// Brings the volume to the state after the last fsync, and unless read-only writes that down.
    pub(crate) fn recover(&mut self) -> Result<(), F2fsError> {
        let chain = self.chain()?;
        for addr in &chain {
            if let Some(place) = self.layout.place(*addr) {
                self.segments.hold(place);
            }
        }
        let mut recovered = self.end_orphans()?;
        let mut changed = Changed::new();
        let files = self.find_fsynced(&chain)?;
        if !files.is_empty() {
            self.roll_forward(&chain, &files, &mut changed)?;
            recovered = true;
        }
        for number in 0..log::COUNT {
            if let Some(owners) = changed.remove(&self.logs[number].state.segment) {
                self.logs[number].owners = owners;
            }
        }
        if self.options.read_only || !recovered && self.checkpoint.flags & flag::UMOUNT != 0 {
            self.recovered = changed;
            return Ok(());
        }
        for (segment, owners) in changed {
            self.disk.write(
                self.layout.ssa + segment,
                &summary::block(&owners, false, None, None),
            )?;
        }
        // All logs go elsewhere: where they stood may lie what was recovered, or what would be
        // needed to do it again.
        if (recovered || !chain.is_empty()) && !self.has_bug(SeededBug::LogsStay) {
            (0..log::COUNT).try_for_each(|number| self.switch_log(number))?;
        }
        self.changed_since = Some(self.now);
        self.write_all_pages(true)?;
        self.take_checkpoint(false)
    }

    /// Nodes that were written behind the checkpoint, in order.
    fn chain(&mut self) -> Result<Vec<u32>, F2fsError> {
        let mut chain = Vec::new();
        let mut seen = alloc::collections::BTreeSet::new();
        let mut next = self.next_addr(log::WARM_NODE).unwrap_or(NULL);
        while self.layout.place(next).is_some() && seen.insert(next) {
            let bytes = match self.disk.read(next) {
                // Nothing was written behind the last checkpoint of an unmount.
                Err(F2fsError::Device(BlockError::Missing { .. }))
                    if self.checkpoint.flags & flag::UMOUNT != 0 =>
                {
                    break;
                }
                outcome => outcome?,
            };
            if !self.checkpoint.is_behind(le64(&bytes, footer::VERSION)) {
                break;
            }
            chain.push(next);
            next = le32(&bytes, footer::NEXT);
        }
        Ok(chain)
    }

    /// Inodes that had no name any more at the checkpoint end now.
    fn end_orphans(&mut self) -> Result<bool, F2fsError> {
        if self.checkpoint.flags & flag::ORPHANS == 0 {
            return Ok(false);
        }
        let start = self.checkpoint.start(&self.layout);
        for block in 1 + self.layout.payload..self.checkpoint.start_sum {
            let bytes = self.disk.read(start + block)?;
            for at in 0..ORPHANS.min(le32(&bytes, BLOCK - 8) as usize) {
                let ino = le32(&bytes, 4 * at);
                match self.alive(ino) {
                    Ok(()) if ino > FIRST_NID => {
                        put32(self.node_mut(ino)?, inode::LINKS, 0);
                        self.destroy(ino)?;
                    }
                    Ok(()) | Err(F2fsError::Call(Errno::Stale)) => self.no_orphans.push(ino),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Files with marks of an fsync. Their inodes are made where the checkpoint does not have them.
    fn find_fsynced(&mut self, chain: &[u32]) -> Result<BTreeMap<u32, Fsynced>, F2fsError> {
        let mut files: BTreeMap<u32, Fsynced> = BTreeMap::new();
        for (at, addr) in chain.iter().enumerate() {
            let bytes = self.disk.read(*addr)?;
            let nid = le32(&bytes, footer::NID);
            let ino = le32(&bytes, footer::INO);
            let flags = le32(&bytes, footer::FLAG);
            if flags & footer::FSYNC == 0 || !is_direct(node_offset(&bytes)) {
                continue;
            }
            let named = nid == ino && flags & footer::DENTRY != 0;
            if !files.contains_key(&ino) {
                match self.alive(ino) {
                    Ok(()) => {}
                    Err(F2fsError::Call(Errno::Stale)) if named => self.revive(ino, &bytes)?,
                    // Its inode may come later, or was never made durable.
                    Err(F2fsError::Call(Errno::Stale)) => continue,
                    Err(error) => return Err(error),
                }
                if kind(self.inode(ino)?) != Some(FileType::File) {
                    continue;
                }
            }
            let file = files.entry(ino).or_insert(Fsynced {
                last: at,
                dentry: None,
            });
            file.last = at;
            if named {
                file.dentry = Some(at);
            }
        }
        Ok(files)
    }

    /// An inode that the checkpoint does not have, with nothing in it yet.
    fn revive(&mut self, ino: u32, found: &[u8]) -> Result<(), F2fsError> {
        node::check(found, ino, &self.layout)?;
        if ino <= FIRST_NID || self.nat_entry(ino)?.addr != NULL {
            return Err(F2fsError::Node {
                nid: ino,
                field: "inode behind the checkpoint",
                found: ino.into(),
                expected: "a free number",
            });
        }
        let shape = Shape::of(found, &self.layout);
        self.reserve(1)?;
        self.place_node(ino, ino, 0, false)?;
        let bytes = self.node_mut(ino)?;
        copy_fields(bytes, found, shape.slots_at());
        Ok(())
    }

    fn roll_forward(
        &mut self,
        chain: &[u32],
        files: &BTreeMap<u32, Fsynced>,
        changed: &mut Changed,
    ) -> Result<(), F2fsError> {
        for (at, addr) in chain.iter().enumerate() {
            let bytes = self.disk.read(*addr)?;
            let nid = le32(&bytes, footer::NID);
            let ino = le32(&bytes, footer::INO);
            // What was written after the last mark of a file was not made durable.
            let Some(file) = files.get(&ino).filter(|file| at <= file.last) else {
                continue;
            };
            match self.alive(ino) {
                Ok(()) => {}
                // A later file took its name.
                Err(F2fsError::Call(Errno::Stale)) => continue,
                Err(error) => return Err(error),
            }
            self.take_over_metadata(nid, ino, file.dentry == Some(at), &bytes)?;
            self.take_over_contents(ino, &bytes, changed)?;
        }
        Ok(())
    }

    fn take_over_metadata(
        &mut self,
        nid: u32,
        ino: u32,
        is_named: bool,
        bytes: &[u8],
    ) -> Result<(), F2fsError> {
        if nid == ino {
            node::check(bytes, nid, &self.layout)?;
            self.take_over_inode(ino, bytes)?;
        }
        if is_named {
            self.take_over_name(ino, bytes)?;
        }
        Ok(())
    }

    fn take_over_inode(&mut self, ino: u32, found: &[u8]) -> Result<(), F2fsError> {
        let bytes = self.node_mut(ino)?;
        let keep = [
            (inode::MODE, 2),
            (inode::ADVISE, 1),
            (inode::UID, 8),
            (inode::SIZE, 8),
            (inode::ATIME, 36),
            (inode::FLAGS, 4),
        ];
        keep.iter()
            .for_each(|(at, len)| bytes[*at..at + len].copy_from_slice(&found[*at..at + len]));
        Ok(())
    }

    /// The name that an inode remembers leads to it from now on.
    fn take_over_name(&mut self, ino: u32, found: &[u8]) -> Result<(), F2fsError> {
        let dir = le32(found, inode::PARENT);
        let len = le32(found, inode::NAME_LEN) as usize;
        let name = found[inode::NAME..inode::NAME + len.min(255)].to_vec();
        nandlab_vfs::check_name(&name)?;
        self.check_dir(dir)?;
        if let Some(there) = self.find(dir, &name)? {
            if there.entry.ino == ino {
                return Ok(());
            }
            let other = self.child(&there)?;
            self.remove_entry(&there)?;
            self.lose_name(other)?;
        }
        self.add_entry(dir, &name, ino, FileType::File)
    }

    fn take_over_contents(
        &mut self,
        ino: u32,
        found: &[u8],
        changed: &mut Changed,
    ) -> Result<(), F2fsError> {
        let offset = node_offset(found);
        let is_inode = le32(found, footer::NID) == ino;
        if offset == footer::XATTR_OFFSET {
            return self.take_over_attributes(ino, found);
        }
        let shape = self.shape(ino)?;
        if is_inode {
            if Shape::of(found, &self.layout) != shape {
                return Err(F2fsError::Node {
                    nid: ino,
                    field: "shape behind the checkpoint",
                    found: shape.slots.into(),
                    expected: "as before",
                });
            }
            let attributes = shape.xattr_at()..shape.xattr_at() + shape.xattr_bytes();
            self.node_mut(ino)?[attributes.clone()].copy_from_slice(&found[attributes]);
            if found[inode::INLINE] & inode::INLINE_DATA != 0 {
                return self.take_over_inline(ino, &shape, found);
            }
            if self.is_inline(ino)? {
                let bytes = self.node_mut(ino)?;
                bytes[inode::INLINE] &= !(inode::INLINE_DATA | inode::DATA_EXIST);
                bytes[shape.slots_at()..shape.inline_at() + shape.inline_max()].fill(0);
            }
        }
        let Some(first) = first_index(offset, shape.slots) else {
            return Ok(());
        };
        let (count, base) = if is_inode {
            (shape.slots, shape.slots_at())
        } else {
            (NODE_SLOTS, 0)
        };
        if self.is_inline(ino)? {
            return Ok(());
        }
        let before = self.addresses(ino, first, count)?;
        for (number, before) in (0..count).zip(before) {
            let to = le32(found, base + 4 * number as usize);
            if to != before {
                self.take_over_block(ino, first + number, to, changed)?;
            }
        }
        Ok(())
    }

    fn take_over_inline(&mut self, ino: u32, shape: &Shape, found: &[u8]) -> Result<(), F2fsError> {
        let size = self.size(ino)?;
        let inline = self.is_inline(ino)?;
        if size > shape.inline_max() as u64 {
            return Err(F2fsError::Node {
                nid: ino,
                field: "length of contents in the inode",
                found: size,
                expected: "what fits",
            });
        }
        if !inline {
            self.cut(ino, 0)?;
        }
        let bytes = self.node_mut(ino)?;
        let contents = shape.inline_at()..shape.inline_at() + shape.inline_max();
        bytes[contents.clone()].copy_from_slice(&found[contents]);
        bytes[inode::INLINE] |= found[inode::INLINE] & (inode::INLINE_DATA | inode::DATA_EXIST);
        Ok(())
    }

    /// A block of a file lies where the fsync put it, and not where it lay before.
    fn take_over_block(
        &mut self,
        ino: u32,
        index: u32,
        to: u32,
        changed: &mut Changed,
    ) -> Result<(), F2fsError> {
        self.pages.forget((ino, index));
        if let Some(slot) = self.slot(ino, index, false)? {
            self.clear_slot(&slot)?;
        }
        if to == NULL {
            return Ok(());
        }
        let slot = self.reserve_slot(ino, index)?;
        let end = (u64::from(index) + 1) * BLOCK as u64;
        let bytes = self.inode(ino)?;
        let keep = bytes[inode::ADVISE] & inode::ADVISE_KEEP_SIZE != 0;
        if !keep && le64(bytes, inode::SIZE) <= end - BLOCK as u64 {
            put64(self.node_mut(ino)?, inode::SIZE, end);
        }
        if to == NEW {
            return Ok(());
        }
        let Some((segment, at)) = self.layout.place(to) else {
            return Err(F2fsError::Node {
                nid: slot.nid,
                field: "address of contents",
                found: to.into(),
                expected: "a block of the main area",
            });
        };
        if self.segments.get(segment).is_valid(at) {
            self.give_up(segment, at, to, changed)?;
        }
        let entry = &self.segments.get(segment).entry;
        let of_log = (0..log::DATA).find(|number| self.logs[*number].state.segment == segment);
        let kind = if entry.valid > 0 {
            usize::from(entry.kind)
        } else {
            of_log.unwrap_or(log::WARM_DATA)
        };
        let mtime = self.mtime();
        self.segments.mark((segment, at), kind, mtime)?;
        self.set_addr(&slot, to)?;
        let version = self.nat_entry(slot.nid)?.version;
        self.changed_owners(segment, changed)?[at] = Owner {
            nid: slot.nid,
            version,
            slot: slot.number,
        };
        Ok(())
    }

    fn changed_owners<'a>(
        &mut self,
        segment: u32,
        changed: &'a mut Changed,
    ) -> Result<&'a mut Owners, F2fsError> {
        Ok(match changed.entry(segment) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(self.owners_of(segment)?),
        })
    }

    /// A block that another place of some file had at the checkpoint: since then that place has got
    /// another.
    fn give_up(
        &mut self,
        segment: u32,
        at: usize,
        addr: u32,
        changed: &mut Changed,
    ) -> Result<(), F2fsError> {
        let owner = self.changed_owners(segment, changed)?[at];
        if let Some((ino, index)) = self.slot_of(owner, addr)?
            && let Some(slot) = self.slot(ino, index, false)?
            && is_placed(slot.addr)
        {
            self.clear_slot(&slot)?;
        }
        Ok(())
    }
}

/// Takes over the fields of an inode that has no contents yet.
fn copy_fields(bytes: &mut [u8], found: &[u8], slots_at: usize) {
    bytes[..inode::EXTENT].copy_from_slice(&found[..inode::EXTENT]);
    bytes[inode::SLOTS..slots_at].copy_from_slice(&found[inode::SLOTS..slots_at]);
    bytes[inode::INLINE] = found[inode::INLINE] & (inode::INLINE_XATTR | inode::EXTRA_ATTR);
    put64(bytes, inode::SIZE, 0);
    put64(bytes, inode::BLOCKS, 1);
    put32(bytes, inode::LINKS, 1);
    put32(bytes, inode::XATTR_NID, 0);
}
