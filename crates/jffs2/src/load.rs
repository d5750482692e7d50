//! From an inode's nodes to the inode.
//!
//! *Promises.* The newest version of each byte whose checksum is right; a node whose checksum is
//! wrong is given up when a newer or older one can take its place, and so is what newer nodes hide.
//! Bytes that only such a node held cannot be read: see [`crate::lost`]. The length is that of the
//! newest version. *Bounded:* memory for the inode's nodes. Source: fs/jffs2/readinode.c.

use crate::{
    Jffs2, Jffs2Error, LostNode, SeededBug,
    broken::Broken,
    compress::ZERO,
    format::{DIRENT, HEAD, Head, INODE, PAGE, Place, RawDirent, RawInode, crc, kind, pad},
    inode::{Dent, Dents, Inode, ROOT, hash},
    lost::{Health, Sifted},
    space::{NodeRef, State, is_dirty},
    tree::{Covered, Effects},
};
use alloc::{vec, vec::Vec};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Errno, FileType};

/// The longest data of one node, decompressed; Linux writes a page at most.
pub(crate) const DATA_MAX: u32 = 1 << 20;

/// Everything that an inode's nodes say.
#[derive(Default)]
struct Nodes {
    data: Vec<(u32, RawInode)>,
    dents: Dents,
    version: u32,
    /// Version and time of the newest entry that has one.
    mctime: (u32, u32),
    /// The last node with a wrong checksum.
    lost: Option<LostNode>,
    /// A data node, and a name, whose fields cannot be read.
    doubt: Option<LostNode>,
    doubtful_name: Option<LostNode>,
}

impl Nodes {
    /// The root may have no node of its own; Linux makes a directory of anything else that has
    /// names in it. It has no time then, whatever its names say.
    fn without_node(self, ino: u32) -> Result<Inode, Jffs2Error> {
        if ino != ROOT && self.dents.from(0).next().is_none() {
            return Err(Jffs2Error::Inode {
                ino,
                what: "no node of it is left",
                lost: self.lost,
            });
        }
        Ok(Inode {
            version: self.version,
            dents: self.dents,
            doubt: self.doubtful_name,
            ..Inode::bare_directory()
        })
    }

    fn into_inode(self, kind: FileType, latest: &RawInode) -> Inode {
        // The names of a directory tell when it changed.
        let later = kind == FileType::Directory && self.mctime.0 > latest.version;
        let (mtime, ctime) = if later {
            (self.mctime.1, self.mctime.1)
        } else {
            (latest.mtime, latest.ctime)
        };
        Inode {
            version: self.version,
            attr_version: latest.version,
            kind,
            mode: latest.mode,
            uid: latest.uid,
            gid: latest.gid,
            size: latest.isize,
            atime: latest.atime,
            mtime,
            ctime,
            dents: self.dents,
            doubt: match kind {
                FileType::File => self.doubt,
                FileType::Directory => self.doubtful_name,
                _ => None,
            },
            ..Inode::bare_directory()
        }
    }
}

impl<M: Mtd> Jffs2<M> {
    /// An inode in use; reads it if that has not happened.
    pub(crate) fn load(&mut self, ino: u32) -> Result<&mut Inode, Jffs2Error> {
        self.stamp += 1;
        let stamp = self.stamp;
        if !self.core.contains_key(&ino) {
            let inode = self.read_inode(ino)?;
            self.core.insert(ino, alloc::boxed::Box::new(inode));
        }
        let inode = self.core.get_mut(&ino).ok_or(Errno::Stale)?;
        inode.stamp = stamp;
        Ok(inode)
    }

    pub(crate) fn links(&self, ino: u32) -> u32 {
        self.known.get(&ino).map_or(0, |known| known.links)
    }

    /// Forgets an inode that nobody refers to.
    pub(crate) fn unload(&mut self, ino: u32) {
        if !self.references.contains_key(&ino) {
            self.core.remove(&ino);
        }
    }

    /// Forgets inodes that nobody refers to, the oldest half, when there are too many.
    pub(crate) fn let_go(&mut self) {
        if self.core.len() <= self.options.inodes_kept + self.references.len() {
            return;
        }
        let mut idle: Vec<(u64, u32)> = self
            .core
            .iter()
            .filter(|(ino, _)| !self.references.contains_key(ino))
            .map(|(ino, inode)| (inode.stamp, *ino))
            .collect();
        idle.sort_unstable();
        for (_, ino) in &idle[..idle.len().div_ceil(2)] {
            self.core.remove(ino);
        }
    }

    fn read_inode(&mut self, ino: u32) -> Result<Inode, Jffs2Error> {
        let known = self.known.get(&ino).ok_or(Errno::Stale)?;
        let places: Vec<u32> = known.nodes.iter().copied().collect();
        let mut nodes = Nodes::default();
        for at in places {
            if self
                .space
                .get(at)
                .is_some_and(|node| node.state != State::Obsolete)
            {
                self.read_node(at, ino, &mut nodes)?;
            }
        }
        // The newest first; of two copies of one node either will do.
        nodes
            .data
            .sort_unstable_by_key(|(at, raw)| (core::cmp::Reverse(raw.version), *at));
        let sifted = self.sift(&nodes.data, &mut nodes.lost)?;
        self.note_losses(ino, &sifted);
        if let Some(known) = self.known.get_mut(&ino) {
            known.checked = true;
        }
        let Some((at, latest)) = sifted.latest() else {
            return nodes.without_node(ino);
        };
        let mode = Jffs2Error::Node {
            at,
            ino,
            what: "mode",
            found: latest.mode,
            expected: 0o100_000,
            medium: None,
        };
        let kind = FileType::from_mode(latest.mode as u16).ok_or(mode)?;
        let mut inode = nodes.into_inode(kind, &latest);
        match kind {
            FileType::File => self.grow_tree(ino, &mut inode, &sifted)?,
            _ => self.take_single(&mut inode, ino, at, &latest, &sifted.kept)?,
        }
        Ok(inode)
    }

    fn read_node(&mut self, at: u32, ino: u32, nodes: &mut Nodes) -> Result<(), Jffs2Error> {
        let e = self.flash.endian;
        let mut bytes = [0; INODE];
        self.flash.read(at, &mut bytes[..DIRENT])?;
        let Some(node) = self.space.get(at) else {
            return Ok(());
        };
        let head = bytes.first_chunk::<HEAD>().map(|head| Head::read(e, head));
        let head = match head {
            Some(Place::Node(head)) => head,
            _ => return self.read_broken(at, ino, node, nodes),
        };
        match head.kind {
            kind::INODE if node.len >= INODE as u32 => {
                self.flash.read(at + DIRENT as u32, &mut bytes[DIRENT..])?;
                let Some(raw) = RawInode::read(e, &bytes) else {
                    return self.no_fields(at, ino, false, nodes);
                };
                let raw = Some(raw).filter(|raw| {
                    let sane =
                        raw.offset <= raw.isize && raw.offset.checked_add(raw.covers()).is_some();
                    let old = node.state != State::Unchecked;
                    raw.ino == ino
                        && (old || sane)
                        && (INODE as u32)
                            .checked_add(raw.csize)
                            .is_some_and(|len| pad(len) == node.len)
                });
                let Some(raw) = raw else {
                    nodes.lost = self.lost_at(at);
                    return self.obsolete(at);
                };
                nodes.version = nodes.version.max(raw.version);
                nodes.data.push((at, raw));
            }
            kind::DIRENT => {
                let raw = bytes
                    .first_chunk()
                    .and_then(|bytes| RawDirent::read(e, bytes));
                let Some(raw) = raw else {
                    return self.no_fields(at, ino, true, nodes);
                };
                if raw.pino != ino || node.len < DIRENT as u32 + u32::from(raw.name_len) {
                    return self.obsolete(at);
                }
                let mut name = vec![0; raw.name_len.into()];
                self.flash.read(at + DIRENT as u32, &mut name)?;
                if crc(&name) != raw.name_crc {
                    return self.no_fields(at, ino, true, nodes);
                }
                nodes.version = nodes.version.max(raw.version);
                if raw.mctime != 0 && raw.version > nodes.mctime.0 {
                    nodes.mctime = (raw.version, raw.mctime);
                }
                let dent = Dent {
                    hash: hash(&name),
                    name: name.into(),
                    ino: raw.ino,
                    version: raw.version,
                    kind: raw.kind,
                    at,
                };
                if let Some(older) = nodes.dents.insert(dent) {
                    self.obsolete(older)?;
                }
            }
            _ => return self.obsolete(at),
        }
        Ok(())
    }

    /// Reads a node whose head is damaged.
    fn read_broken(
        &mut self,
        at: u32,
        ino: u32,
        node: NodeRef,
        nodes: &mut Nodes,
    ) -> Result<(), Jffs2Error> {
        let mut bytes = vec![0; node.len as usize];
        self.flash.read(at, &mut bytes)?;
        if let Some(Broken::Inode { raw, .. }) = Broken::read(self.flash.endian, &bytes) {
            self.lost.heads.insert(at);
            nodes.version = nodes.version.max(raw.version);
            nodes.data.push((at, raw));
            return Ok(());
        }
        let known = self.lost.fields.get(&at).copied();
        // The scan takes names for sound, and leaves data unchecked.
        let is_name = known.unwrap_or(node.state != State::Unchecked);
        self.no_fields(at, ino, is_name, nodes)
    }

    /// A node whose fields, or whose name, have a wrong checksum.
    fn no_fields(
        &mut self,
        at: u32,
        ino: u32,
        is_name: bool,
        nodes: &mut Nodes,
    ) -> Result<(), Jffs2Error> {
        nodes.lost = self.lost_at(at);
        let is_normal = self
            .space
            .get(at)
            .is_some_and(|node| node.state == State::Normal);
        if is_name && is_normal && !self.lost.fields.contains_key(&at) {
            // A removal. That it is missing does no harm: it may have been given up before.
            return self.obsolete(at);
        }
        let kept = self.keep_fieldless(at, ino, is_name)?;
        let doubt = if is_name {
            &mut nodes.doubtful_name
        } else {
            &mut nodes.doubt
        };
        *doubt = kept.or(*doubt);
        Ok(())
    }

    /// Of the nodes of an inode, the newest first, those of which something is to be seen; and the
    /// newest, if it has no data.
    fn sift(
        &mut self,
        nodes: &[(u32, RawInode)],
        lost: &mut Option<LostNode>,
    ) -> Result<Sifted, Jffs2Error> {
        let mut covered = Covered::default();
        let mut sifted = Sifted::default();
        let mut newer: Option<(RawInode, bool)> = None;
        for &(at, raw) in nodes {
            let start = raw.offset;
            let end = raw.offset.saturating_add(raw.covers());
            let useful = if start == end {
                sifted.kept.is_empty()
            } else {
                !covered.has(start, end)
            };
            let twin =
                newer.filter(|(newer, _)| newer.version == raw.version && !raw.is_copy_of(newer));
            if twin.is_some_and(|(_, seen)| seen || useful) {
                self.lost.twins.insert(at, raw.ino);
            }
            newer = Some((raw, useful));
            if !useful {
                self.obsolete(at)?;
                continue;
            }
            let health = self.health_of(at, &raw)?;
            if health != Health::Whole {
                *lost = self.lost_at(at);
            }
            match health {
                Health::Whole => {
                    covered.add(start, end);
                    sifted.kept.push((at, raw));
                }
                Health::Damaged => sifted.damaged.push((at, raw)),
                Health::Torn => sifted.torn.push((at, raw)),
            }
        }
        sifted.judge_torn(&covered);
        for (at, _) in &sifted.torn {
            self.obsolete(*at)?;
        }
        Ok(sifted)
    }

    /// A node that is given up behind the read that showed its wrong checksum.
    fn lost_at(&self, at: u32) -> Option<LostNode> {
        let medium = self.flash.doubt();
        Some(LostNode { at, medium })
    }

    /// Looks at a node's data, if that has not happened.
    fn health_of(&mut self, at: u32, raw: &RawInode) -> Result<Health, Jffs2Error> {
        if self.lost.heads.contains(&at) || self.lost.data.contains_key(&at) {
            return Ok(Health::Damaged);
        }
        if self
            .space
            .get(at)
            .is_none_or(|node| node.state != State::Unchecked)
        {
            return Ok(Health::Whole);
        }
        if raw.csize > 0 && raw.compr != ZERO {
            let mut data = core::mem::take(&mut self.raw);
            data.resize(raw.csize as usize, 0);
            let read = self.flash.read(at + INODE as u32, &mut data);
            let whole = crc(&data) == raw.data_crc || self.has_bug(SeededBug::ChecksumIgnored);
            let health = self.health(at, at + INODE as u32, &data);
            self.raw = data;
            read?;
            if !whole {
                return Ok(health);
            }
        }
        let whole_page = raw.covers() >= PAGE
            || raw.offset.is_multiple_of(PAGE)
                && raw.offset.saturating_add(raw.covers()) == raw.isize;
        self.space.set_state(
            at,
            if whole_page {
                State::Pristine
            } else {
                State::Normal
            },
        );
        Ok(Health::Whole)
    }

    fn grow_tree(
        &mut self,
        ino: u32,
        inode: &mut Inode,
        sifted: &Sifted,
    ) -> Result<(), Jffs2Error> {
        let mut effects = Effects::default();
        let kept = &sifted.kept;
        // Nodes that cannot be read are seen only where no other holds the bytes.
        for (at, raw) in sifted.damaged.iter().rev().chain(kept.iter().rev()) {
            inode
                .tree
                .insert(*at, raw.offset, raw.covers(), &mut effects);
        }
        if let Some((at, _)) = kept.first().filter(|(_, raw)| raw.covers() == 0) {
            inode.metadata = Some(*at);
        }
        inode.size = sifted.size().unwrap_or(inode.size);
        inode.tree.truncate(inode.size, &mut effects);
        // What is missing at the end was never there or is lost: Linux shortens the file, too.
        inode.doubt = inode.doubt.or_else(|| self.lost_page(ino, inode));
        if inode.doubt.is_none() {
            inode.shorten();
        }
        self.apply_effects(&effects)
    }

    /// Takes the one node of what is no file; older ones do not count.
    fn take_single(
        &mut self,
        inode: &mut Inode,
        ino: u32,
        at: u32,
        latest: &RawInode,
        kept: &[(u32, RawInode)],
    ) -> Result<(), Jffs2Error> {
        for (older, _) in &kept[1..] {
            self.obsolete(*older)?;
        }
        inode.metadata = Some(at);
        let expected = match inode.kind {
            FileType::Symlink => 1..=PAGE,
            FileType::Character | FileType::Block => 2..=4,
            _ => return Ok(()),
        };
        let len = latest.covers();
        if !expected.contains(&len) {
            return Err(Jffs2Error::Node {
                at,
                ino,
                what: "length of the data",
                found: len,
                expected: *expected.start(),
                medium: None,
            });
        }
        self.read_single(inode, ino, at, len)
    }

    /// Reads the data of an inode that has one node only.
    fn read_single(
        &mut self,
        inode: &mut Inode,
        ino: u32,
        at: u32,
        len: u32,
    ) -> Result<(), Jffs2Error> {
        inode.data = vec![0; len as usize];
        if inode.kind == FileType::Symlink {
            inode.size = len;
        }
        let mut data = core::mem::take(&mut inode.data);
        self.read_data(at, ino, 0, &mut data)?;
        inode.data = data;
        Ok(())
    }

    /// Nodes of which nothing is to be seen do not count; those that share a page are to be merged
    /// one day.
    pub(crate) fn apply_effects(&mut self, effects: &Effects) -> Result<(), Jffs2Error> {
        for at in &effects.shared {
            self.space.make_normal(*at);
        }
        effects.gone.iter().try_for_each(|at| self.obsolete(*at))
    }

    /// Whether a block has so much dirt that it will be collected soon.
    pub(crate) fn is_in_dirty_block(&self, at: u32) -> bool {
        let sizes = self.space.block(self.space.block_of(at)).sizes;
        is_dirty(sizes.dirty + sizes.wasted)
    }
}
