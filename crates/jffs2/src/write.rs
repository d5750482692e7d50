//! Nodes of inodes and names, written.
//!
//! *Promises.* Every change is a new node, complete in itself, with the next version of its inode
//! or directory; only then the nodes that it replaces do not count any more. What is known of an
//! inode changes only when there is space for the node that says so. A write that fails is tried
//! elsewhere. *One seam:* all data of files go through [`write_range`](Jffs2::write_range). Source:
//! fs/jffs2/write.c, file.c, fs.c.

use crate::{
    Jffs2, Jffs2Error,
    compress::{NONE, ZERO},
    format::{DIRENT, INODE, PAGE, RawDirent, RawInode, crc},
    inode::{Dent, Inode, hash, seconds},
    room::For,
    space::{Owner, State},
    summary::{DIRENT_ENTRY, INODE_ENTRY},
    tree::Effects,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::Errno;

/// The least space for which data of a file are divided (`JFFS2_MIN_DATA_LEN`).
pub(crate) const DATA_MIN: u32 = 128;
/// The longest file: what the field holds, and `s_maxbytes` of `fs/jffs2/fs.c`.
pub(crate) const FILE_BYTES_MAX: u64 = u32::MAX as u64;

/// Some bytes of a file as a node holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub compr: u8,
    /// Bytes of the file.
    pub len: u32,
    pub data: &'a [u8],
    pub crc: u32,
}

impl<M: Mtd> Jffs2<M> {
    /// Puts a node with the bytes `data`, whose checksum it has; [`reserve`](Jffs2::reserve) found
    /// the space.
    pub(crate) fn put_inode(&mut self, raw: &mut RawInode, data: &[u8]) -> Result<u32, Jffs2Error> {
        raw.csize = if raw.compr == ZERO {
            0
        } else {
            data.len() as u32
        };
        let whole_page = raw.dsize >= PAGE
            || raw.offset.is_multiple_of(PAGE) && raw.dsize.saturating_add(raw.offset) == raw.isize;
        let state = if whole_page {
            State::Pristine
        } else {
            State::Normal
        };
        loop {
            if let Some(at) = self.append(
                [&raw.write(self.flash.endian), data],
                state,
                Owner::Inode(raw.ino),
            )? {
                return Ok(at);
            }
            self.reserve(
                INODE as u32 + data.len() as u32,
                INODE_ENTRY,
                For::Collection,
            )?;
        }
    }

    /// Writes the node of a name, or of its removal. [`reserve`](Jffs2::reserve) found the space.
    fn put_dirent(&mut self, raw: &RawDirent, name: &[u8]) -> Result<u32, Jffs2Error> {
        let state = if raw.ino == 0 {
            State::Normal
        } else {
            State::Pristine
        };
        loop {
            let mut node = core::mem::take(&mut self.node);
            node.clear();
            node.extend(raw.write(self.flash.endian));
            node.extend(name);
            let put = self.append([&node, &[]], state, Owner::Inode(raw.pino));
            self.node = node;
            if let Some(at) = put? {
                return Ok(at);
            }
            self.reserve(
                DIRENT as u32 + name.len() as u32,
                DIRENT_ENTRY + name.len() as u32,
                For::Collection,
            )?;
        }
    }

    fn next_version(&mut self, ino: u32) -> Result<u32, Jffs2Error> {
        let inode = self.load(ino)?;
        inode.version = inode.version.saturating_add(1);
        Ok(inode.version)
    }

    /// Gives a directory the name `name` for the inode `ino` (0: takes it away), and the times of
    /// now.
    pub(crate) fn write_name(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        kind: u8,
        who: For,
    ) -> Result<(), Jffs2Error> {
        self.reserve(
            DIRENT as u32 + name.len() as u32,
            DIRENT_ENTRY + name.len() as u32,
            who,
        )?;
        let now = seconds(self.now);
        let version = self.next_version(dir)?;
        let raw = RawDirent {
            pino: dir,
            version,
            ino,
            mctime: now,
            name_len: name.len() as u8,
            kind,
            name_crc: crc(name),
        };
        let at = self.put_dirent(&raw, name)?;
        let inode = self.load(dir)?;
        (inode.mtime, inode.ctime) = (now, now);
        let older = inode.dents.insert(Dent {
            hash: hash(name),
            name: name.into(),
            ino,
            version: raw.version,
            kind,
            at,
        });
        older.map_or(Ok(()), |older| self.obsolete(older))
    }

    /// Takes a name away that the build found to be one too many.
    pub(crate) fn forget_name(&mut self, dir: u32, name: &[u8]) -> Result<(), Jffs2Error> {
        let inode = self.load(dir)?;
        let mtime = inode.mtime;
        let ctime = inode.ctime;
        inode.dents.remove(name);
        self.now = nandlab_vfs::Time::new(mtime.into());
        self.write_name(dir, name, 0, 0, For::Deletion)?;
        let inode = self.load(dir)?;
        (inode.mtime, inode.ctime) = (mtime, ctime);
        Ok(())
    }

    /// Changes an inode's attributes, and writes them with what is not a file's data: a link's
    /// target, a device's number.
    pub(crate) fn write_attributes(
        &mut self,
        ino: u32,
        who: For,
        change: impl FnOnce(&mut Inode),
    ) -> Result<(), Jffs2Error> {
        let data = self.load(ino)?.data.clone();
        self.reserve(INODE as u32 + data.len() as u32, INODE_ENTRY, who)?;
        let inode = self.load(ino)?;
        change(inode);
        let mut raw = inode.next_node(ino);
        (raw.dsize, raw.data_crc) = (data.len() as u32, crc(&data));
        let at = self.put_inode(&mut raw, &data)?;
        let inode = self.load(ino)?;
        inode.attr_version = raw.version;
        let old = inode.metadata.replace(at);
        old.map_or(Ok(()), |old| self.obsolete(old))
    }

    /// The first node of a new inode.
    pub(crate) fn write_new(&mut self, ino: u32, mut inode: Inode) -> Result<(), Jffs2Error> {
        self.reserve(
            INODE as u32 + inode.data.len() as u32,
            INODE_ENTRY,
            For::Write,
        )?;
        let data = core::mem::take(&mut inode.data);
        let mut raw = inode.next_node(ino);
        (raw.dsize, raw.data_crc) = (data.len() as u32, crc(&data));
        inode.metadata = Some(self.put_inode(&mut raw, &data)?);
        (inode.attr_version, inode.data) = (raw.version, data);
        self.core.insert(ino, alloc::boxed::Box::new(inode));
        Ok(())
    }

    /// A node has been put that holds part of a file and its attributes.
    pub(crate) fn enter_data(&mut self, at: u32, raw: &RawInode) -> Result<(), Jffs2Error> {
        self.overwritten(raw.ino, raw.offset, raw.offset.saturating_add(raw.dsize));
        let inode = self.load(raw.ino)?;
        inode.attr_version = inode.attr_version.max(raw.version);
        let mut effects = Effects::default();
        inode.tree.insert(at, raw.offset, raw.dsize, &mut effects);
        effects.gone.extend(inode.metadata.take());
        self.apply_effects(&effects)
    }

    /// A file becomes `size` bytes long, what it gains are zeros, and its attributes change.
    pub(crate) fn resize(
        &mut self,
        ino: u32,
        size: u32,
        change: impl FnOnce(&mut Inode),
    ) -> Result<(), Jffs2Error> {
        let old = self.load(ino)?.size;
        if size > old {
            return self.write_hole(ino, old, size, change);
        }
        let who = if size == 0 { For::Deletion } else { For::Write };
        self.write_attributes(ino, who, |inode| {
            change(inode);
            inode.size = size;
        })?;
        self.overwritten(ino, size, u32::MAX);
        let mut effects = Effects::default();
        self.load(ino)?.tree.truncate(size, &mut effects);
        self.apply_effects(&effects)
    }

    /// A node that says: zeros from `start` to `end`, and the file ends there.
    pub(crate) fn write_hole(
        &mut self,
        ino: u32,
        start: u32,
        end: u32,
        change: impl FnOnce(&mut Inode),
    ) -> Result<(), Jffs2Error> {
        self.reserve(INODE as u32, INODE_ENTRY, For::Write)?;
        let inode = self.load(ino)?;
        change(inode);
        let mut raw = inode.next_node(ino);
        (raw.offset, raw.dsize, raw.isize, raw.compr) = (start, end - start, end, ZERO);
        let at = self.put_inode(&mut raw, &[])?;
        self.load(ino)?.size = end;
        self.enter_data(at, &raw)
    }

    /// Writes to a file, as a call does, in nodes of `span` bytes at most; gives the bytes written,
    /// fewer than asked for when no more fit.
    pub(crate) fn write_file(
        &mut self,
        ino: u32,
        offset: u64,
        data: &[u8],
        span: u32,
    ) -> Result<usize, Jffs2Error> {
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= FILE_BYTES_MAX {
            return Err(Errno::FileTooBig.into());
        }
        let count = data.len().min((FILE_BYTES_MAX - offset) as usize);
        let size = self.load(ino)?.size;
        if offset > u64::from(size) {
            self.write_hole(ino, size, offset as u32, |_| {})?;
        }
        self.write_range(ino, offset as u32, &data[..count], span)
    }

    /// Writes a range of a file, which begins at its end or before, as nodes that each lie within
    /// `span` bytes from a multiple of `span` on: a page, as in Linux, or for a layer that collects
    /// writes a multiple of it. Gives the bytes written, fewer than asked for when no more fit.
    pub(crate) fn write_range(
        &mut self,
        ino: u32,
        offset: u32,
        data: &[u8],
        span: u32,
    ) -> Result<usize, Jffs2Error> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u32;
            let piece = data.len().min(done + (span - at % span) as usize) - done;
            let piece = &data[done..done + piece];
            let outcome = if span == PAGE {
                self.write_in_page(ino, at, piece)
            } else {
                self.write_piece(ino, at, piece, For::Write)
            };
            match outcome {
                Ok(written) => done += written as usize,
                Err(Jffs2Error::Call(_) | Jffs2Error::Stuck) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes part of one page as Linux does (`jffs2_write_end`): from a multiple of four on, and
    /// what ends with the page together with the whole page, so that a file that grows by short
    /// writes has few nodes. Gives how much of `data` was written.
    fn write_in_page(&mut self, ino: u32, at: u32, data: &[u8]) -> Result<u32, Jffs2Error> {
        let fills = (at + data.len() as u32).is_multiple_of(PAGE);
        let mut from = if fills { at - at % PAGE } else { at & !3 };
        let mut page = core::mem::take(&mut self.page);
        page.resize((at - from) as usize, 0);
        let outcome = match self.read_range(ino, from, &mut page) {
            Err(error @ Jffs2Error::Flash(_)) => Err(error),
            earlier => {
                // What cannot be read stays as damaged as it is; the new bytes are not.
                if earlier.is_err() {
                    from = at;
                    page.clear();
                }
                page.extend(data);
                self.write_all(ino, from, &page, at - from)
            }
        };
        self.page = page;
        outcome
    }

    /// Writes `data`, of which the first `known` bytes are in the file already; gives how much of
    /// the others was written.
    fn write_all(
        &mut self,
        ino: u32,
        offset: u32,
        data: &[u8],
        known: u32,
    ) -> Result<u32, Jffs2Error> {
        let mut done = 0;
        while (done as usize) < data.len() {
            match self.write_piece(ino, offset + done, &data[done as usize..], For::Write) {
                Ok(written) => done += written,
                Err(Jffs2Error::Call(_) | Jffs2Error::Stuck) if done > known => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done - known)
    }

    /// One node of as much of `data` as fits; returns how much that is.
    pub(crate) fn write_piece(
        &mut self,
        ino: u32,
        offset: u32,
        data: &[u8],
        who: For,
    ) -> Result<u32, Jffs2Error> {
        let room = self.reserve(
            INODE as u32 + DATA_MIN.min(data.len() as u32),
            INODE_ENTRY,
            who,
        )?;
        let room = (room - INODE as u32).min(data.len() as u32);
        let mut packer = core::mem::take(&mut self.packer);
        let packed = packer.pack(self.options.compression, data, room as usize);
        let piece = Piece {
            compr: packed.compr,
            len: packed.taken as u32,
            data: packed.data,
            crc: crc(packed.data),
        };
        let outcome = self.put_piece(ino, offset, piece, who);
        self.packer = packer;
        outcome
    }

    pub(crate) fn put_piece(
        &mut self,
        ino: u32,
        offset: u32,
        piece: Piece<'_>,
        who: For,
    ) -> Result<u32, Jffs2Error> {
        let now = seconds(self.now);
        let inode = self.load(ino)?;
        if who != For::Collection {
            (inode.mtime, inode.ctime) = (now, now);
        }
        let mut raw = inode.next_node(ino);
        raw.isize = raw.isize.max(offset + piece.len);
        (raw.offset, raw.dsize, raw.compr, raw.data_crc) =
            (offset, piece.len, piece.compr, piece.crc);
        debug_assert!(piece.compr != NONE || piece.data.len() == piece.len as usize);
        let at = self.put_inode(&mut raw, piece.data)?;
        self.load(ino)?.size = raw.isize;
        self.enter_data(at, &raw)?;
        Ok(piece.len)
    }
}
