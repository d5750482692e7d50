//! From the medium to what lies where: every block is looked at once.
//!
//! *Promises.* Nothing is written. No bytes make it fail, but a node of a kind that must be
//! understood; what is no node is dirt of four bytes, then the search goes on. *Knows nothing of*
//! trees. Source: fs/jffs2/scan.c, summary.c.

use crate::{
    Jffs2Error, LostNode, Options, SeededBug,
    broken::Broken,
    flash::{Flash, Medium},
    format::{
        DIRENT, Endian, HEAD, Head, INODE, MAGIC, Place, RawDirent, RawInode, RawXattr, RawXref,
        SUMMARY_MARKER, XATTR, XREF, crc, kind, pad,
    },
    inode::Known,
    lost::Lost,
    space::{List, NodeRef, Owner, Space, State, is_dirty},
    summary::{self, Collected, Entry},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use nandlab_mtd::Mtd;

/// Bytes at the start of a block that must be erased for it to be taken for empty
/// (`DEFAULT_EMPTY_SCAN_SIZE`, fs/jffs2/scan.c).
const EMPTY_BYTES: usize = 256;
/// The same where a clean marker comes first; the marker is one of these bytes.
const EMPTY_BYTES_MARKED: usize = EMPTY_BYTES / 8;

/// A name as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundName {
    pub version: u32,
    pub ino: u32,
    pub kind: u8,
    pub at: u32,
}

/// An attribute as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundXattr {
    pub at: u32,
    pub raw: RawXattr,
}

/// Everything that is found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub inodes: BTreeMap<u32, Known>,
    /// The newest of each name, by directory.
    pub names: BTreeMap<u32, BTreeMap<Vec<u8>, FoundName>>,
    /// The newest of each name that no path can hold.
    pub odd_names: BTreeMap<(u32, Vec<u8>), FoundName>,
    pub xattrs: BTreeMap<u32, FoundXattr>,
    pub xrefs: Vec<(u32, RawXref)>,
    pub highest_ino: u32,
    /// The sum of all versions: where the lists of blocks begin, so that each mount begins
    /// elsewhere.
    pub versions: u32,
    /// Of the block that is filled next.
    pub collected: Collected,
    /// A kind of node was seen that only readers may not know.
    pub read_only: bool,
    /// Nodes that cannot be read.
    pub lost: Lost,
    /// Inodes that had a name that was removed or replaced.
    pub removed: BTreeSet<u32>,
    empty: u32,
    /// Of the block under way.
    current: Collected,
}

impl Found {
    /// As on a medium where nothing is.
    pub fn nothing() -> Self {
        Self {
            highest_ino: 1,
            ..Self::default()
        }
    }
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Empty,
    Free,
    Clean,
    Partial,
    AllDirty,
    Bad,
}

/// The byte order of the first node, or clean marker, that is found.
pub(crate) fn detect<M: Mtd>(flash: &mut Flash<M>) -> Result<Endian, Jffs2Error> {
    let mut bytes = vec![0; flash.block_bytes() as usize];
    for block in 0..flash.blocks() {
        if flash.is_bad(block)? {
            continue;
        }
        for endian in [Endian::Little, Endian::Big] {
            flash.endian = endian;
            if flash.medium == Medium::Nand && flash.oob_marker(block)? == Some(true) {
                return Ok(endian);
            }
        }
        flash.read(block * flash.block_bytes(), &mut bytes)?;
        for at in (0..bytes.len() - HEAD).step_by(4) {
            let head = bytes[at..].first_chunk::<HEAD>().filter(|head| {
                head[..2] == MAGIC.to_le_bytes() || head[..2] == MAGIC.to_be_bytes()
            });
            let is = |endian| {
                head.is_some_and(|head| matches!(Head::read(endian, head), Place::Node(_)))
            };
            if let Some(endian) = [Endian::Little, Endian::Big]
                .into_iter()
                .find(|endian| is(*endian))
            {
                return Ok(endian);
            }
        }
    }
    Ok(Endian::Little)
}

/// Looks at every block and files it.
pub(crate) fn scan<M: Mtd>(
    flash: &mut Flash<M>,
    space: &mut Space,
    options: &Options,
) -> Result<Found, Jffs2Error> {
    let mut found = Found::nothing();
    let mut bytes = vec![0; flash.block_bytes() as usize];
    for block in 0..flash.blocks() {
        found.current.reset();
        let bug = options.seeded_bug;
        let resume =
            options.resume || !flash.is_buffered() || bug == Some(SeededBug::TornPageReused);
        let mut scanner = Scanner {
            flash,
            space,
            found: &mut found,
            block,
            resume,
            trusts_erased: bug == Some(SeededBug::MarkerIgnored),
            garbage_end: 0,
        };
        let class = scanner.block(&mut bytes, options.summary)?;
        scanner.file(class);
    }
    if let Some(next) = space.next {
        found.lost.resumed = Some(space.end_of(next));
        space.dirt_to_waste(next, space.block(next).sizes.dirty);
        if options.seeded_bug != Some(SeededBug::TornPageReused) {
            align(flash, space, next);
        }
    }
    for list in [List::Clean, List::VeryDirty, List::Dirty, List::Free] {
        space.rotate(list, found.versions);
    }
    let total = space.total;
    let free = space.count(List::Free);
    let bad = space.count(List::Bad);
    let touched = flash.blocks() - free - bad - found.empty;
    // A clean marker tells whose medium it is: then a cut may have torn its very first page.
    let strange = free == 0 && touched > 0 || bad == flash.blocks();
    if space.count(List::ErasePending) > 0 && total.used == 0 && total.unchecked == 0 && strange {
        return Err(Jffs2Error::Foreign { blocks: touched });
    }
    Ok(found)
}

/// Where pages are programmed whole, goes on behind the page after the last that holds anything: a
/// power cut may have left that one looking erased and not being it.
fn align<M: Mtd>(flash: &Flash<M>, space: &mut Space, next: u32) {
    if flash.is_buffered() {
        let free = space.block(next).sizes.free;
        let skip = (free % flash.page_bytes() + flash.page_bytes()).min(free);
        space.link(NodeRef {
            at: space.end_of(next),
            len: skip,
            state: State::Obsolete,
            owner: Owner::None,
        });
        space.dirt_to_waste(next, skip);
    }
}

/// Whether a block without a list of its nodes is taken for empty by its first bytes, whatever lies
/// behind them.
pub(crate) fn looks_empty<M: Mtd>(flash: &Flash<M>, bytes: &[u8]) -> bool {
    let first = &bytes[..EMPTY_BYTES.min(bytes.len())];
    first.iter().all(|byte| *byte == 0xFF) || is_only_marker(flash, first)
}

/// A marker and nothing behind it, as far as is looked.
fn is_only_marker<M: Mtd>(flash: &Flash<M>, first: &[u8]) -> bool {
    let (head, rest) = first[..EMPTY_BYTES_MARKED].split_at(HEAD);
    let marker = Head {
        kind: kind::CLEANMARKER,
        len: flash.marker_bytes(),
    };
    flash.medium == Medium::Nor
        && rest.iter().all(|byte| *byte == 0xFF)
        && head
            .first_chunk()
            .is_some_and(|head| Head::read(flash.endian, head) == Place::Node(marker))
}

struct Scanner<'a, M> {
    flash: &'a mut Flash<M>,
    space: &'a mut Space,
    found: &'a mut Found,
    block: u32,
    resume: bool,
    /// See [`SeededBug::MarkerIgnored`].
    trusts_erased: bool,
    /// Where the last bytes that are no node end in the block.
    garbage_end: u32,
}

impl<M: Mtd> Scanner<'_, M> {
    fn start(&self) -> u32 {
        self.block * self.space.block_bytes
    }

    fn block(&mut self, bytes: &mut [u8], use_lists: bool) -> Result<Class, Jffs2Error> {
        if self.flash.is_bad(self.block)? {
            return Ok(Class::Bad);
        }
        let marker = match self.flash.medium {
            Medium::Nand => self.flash.oob_marker(self.block)?,
            _ => Some(false),
        };
        if use_lists && self.by_list(bytes)? {
            return Ok(self.classify());
        }
        let first = EMPTY_BYTES.min(bytes.len());
        self.flash.read(self.start(), &mut bytes[..first])?;
        if bytes[..first].iter().all(|byte| *byte == 0xFF) {
            return Ok(match (self.flash.medium, marker) {
                _ if self.trusts_erased => Class::Free,
                (Medium::Unmarked, _) | (Medium::Nand, Some(true)) => Class::Free,
                (Medium::Nand, None) => Class::AllDirty,
                _ => Class::Empty,
            });
        }
        if is_only_marker(self.flash, &bytes[..first]) {
            self.link(0, HEAD as u32, State::Normal, Owner::None);
            return Ok(Class::Free);
        }
        self.flash.read(self.start(), bytes)?;
        if let Some(at) = self.flash.doubt_at() {
            let medium = self.flash.doubt();
            self.found.lost.pages.push(LostNode { at, medium });
        }
        self.nodes(bytes)?;
        let sizes = self.space.block(self.block).sizes;
        if pad(self.found.current.len() + summary::FRAME) > sizes.free {
            self.found.current.disable();
        }
        Ok(self.classify())
    }

    fn link(&mut self, at: u32, len: u32, state: State, owner: Owner) {
        self.space.link(NodeRef {
            at: self.start() + at,
            len: pad(len),
            state,
            owner,
        });
    }

    /// Dirt up to a place in the block.
    fn dirt_until(&mut self, at: u32) {
        let end = self.space.end_of(self.block) - self.start();
        if at > end {
            self.link(end, at - end, State::Obsolete, Owner::None);
        }
    }

    /// Takes a block's own list, if it has a good one.
    fn by_list(&mut self, bytes: &mut [u8]) -> Result<bool, Jffs2Error> {
        let len = self.space.block_bytes;
        let mut last = [0; SUMMARY_MARKER];
        self.flash
            .read(self.start() + len - SUMMARY_MARKER as u32, &mut last)?;
        let Some(at) = summary::start(self.flash.endian, &last, len) else {
            return Ok(false);
        };
        let node = &mut bytes[at as usize..];
        self.flash.read(self.start() + at, node)?;
        let Some((marker, entries)) = summary::read(self.flash.endian, node, at) else {
            return Ok(false);
        };
        self.take_entries(marker, entries)?;
        self.dirt_until(at);
        self.link(at, len - at, State::Normal, Owner::None);
        Ok(true)
    }

    fn take_entries(&mut self, marker: u32, entries: Vec<Entry>) -> Result<(), Jffs2Error> {
        if marker > 0 && marker == self.flash.marker_bytes() {
            self.link(0, marker, State::Normal, Owner::None);
        }
        for entry in entries {
            self.entry(entry)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), Jffs2Error> {
        let (at, len) = entry.place();
        self.dirt_until(at);
        let whole = self.start() + at;
        match entry {
            Entry::Inode { ino, version, .. } => self.inode(at, len, ino, version),
            Entry::Dirent { raw, name, .. } => self.dirent(at, len, raw, &name)?,
            Entry::Xattr { .. } => {
                let mut node = vec![0; len.min(self.space.block_bytes) as usize];
                self.flash.read(whole, &mut node)?;
                self.xattr(at, len, &node);
            }
            Entry::Xref { .. } => {
                let mut node = [0; XREF];
                self.flash.read(whole, &mut node)?;
                self.xref(at, len, &node);
            }
        }
        Ok(())
    }

    fn nodes(&mut self, bytes: &[u8]) -> Result<(), Jffs2Error> {
        let mut at = 0;
        while bytes.len() - at >= HEAD {
            let erased = bytes[at..].iter().take_while(|byte| **byte == 0xFF).count() & !3;
            if at + erased == bytes.len() {
                return Ok(());
            }
            if erased > 0 {
                at += erased;
                self.dirt_until(at as u32);
                continue;
            }
            at += self.node(&bytes[at..], at as u32)? as usize;
            self.dirt_until(at as u32);
        }
        self.dirt_until(bytes.len() as u32);
        Ok(())
    }

    /// Takes what begins here; gives its length.
    fn node(&mut self, bytes: &[u8], at: u32) -> Result<u32, Jffs2Error> {
        let e = self.flash.endian;
        let Some(Place::Node(head)) = bytes.first_chunk::<HEAD>().map(|head| Head::read(e, head))
        else {
            return Ok(self.broken(bytes, at));
        };
        if head.len as usize > bytes.len() {
            self.garbage_end = at + 4;
            return Ok(4);
        }
        let node = &bytes[..head.len as usize];
        let len = head.len;
        if !head.is_accurate() {
            if head.kind | kind::ACCURATE == kind::DIRENT && node.len() >= DIRENT {
                self.found.removed.insert(e.get32(node, 20));
            }
            return Ok(pad(len));
        }
        match head.kind {
            kind::INODE => {
                if let Some(raw) = node
                    .first_chunk::<INODE>()
                    .and_then(|node| RawInode::read(e, node))
                {
                    self.inode(at, len, raw.ino, raw.version);
                    self.found.current.add(e, node, at);
                } else {
                    self.claim(at, node);
                }
            }
            kind::DIRENT => {
                let raw = node
                    .first_chunk::<DIRENT>()
                    .and_then(|node| RawDirent::read(e, node));
                if let Some((raw, name)) = raw.and_then(|raw| {
                    Some((raw, node.get(DIRENT..DIRENT + usize::from(raw.name_len))?))
                }) {
                    self.dirent(at, len, raw, name)?;
                    self.found.current.add(e, node, at);
                }
            }
            kind::XATTR => {
                self.xattr(at, len, node);
                self.found.current.add(e, node, at);
            }
            kind::XREF => {
                if let Some(fixed) = node.first_chunk() {
                    self.xref(at, len, fixed);
                    self.found.current.add(e, node, at);
                }
            }
            kind::PADDING => self.found.current.add_padding(len),
            kind::CLEANMARKER if !self.flash.is_marker(at, len) => {
                return Ok(HEAD as u32);
            }
            kind::CLEANMARKER => self.link(at, len, State::Normal, Owner::None),
            other => self.other(at, len, other)?,
        }
        Ok(pad(len))
    }

    /// Takes a node behind a damaged head; gives the bytes that are passed.
    fn broken(&mut self, bytes: &[u8], at: u32) -> u32 {
        let Some(broken) = Broken::read(self.flash.endian, bytes) else {
            self.garbage_end = at + 4;
            return 4;
        };
        if let Broken::Inode { raw, len } = broken {
            self.inode(at, len, raw.ino, raw.version);
            self.found.lost.heads.insert(self.start() + at);
            self.found.current.disable();
        }
        pad(broken.len())
    }

    /// Takes a node of an inode whose fields have a wrong checksum.
    fn claim(&mut self, at: u32, node: &[u8]) {
        let Some(fixed) = node.first_chunk::<INODE>() else {
            return;
        };
        let ino = self.flash.endian.get32(fixed, 12);
        if ino != 0 {
            let len = node.len() as u32;
            self.link(at, len, State::Unchecked, Owner::Inode(ino));
            self.found.lost.claims.insert(self.start() + at, ino);
            self.found.current.disable();
        }
    }

    /// A kind that is not known: its upper bits say what to do.
    fn other(&mut self, at: u32, len: u32, found: u16) -> Result<(), Jffs2Error> {
        match found & kind::COMPAT {
            kind::INCOMPAT => {
                return Err(Jffs2Error::Incompatible {
                    at: self.start() + at,
                    kind: found,
                });
            }
            kind::RO_COMPAT => self.found.read_only = true,
            kind::COPY => {
                self.link(at, len, State::Pristine, Owner::None);
                self.found.current.disable();
            }
            _ => {}
        }
        Ok(())
    }

    fn inode(&mut self, at: u32, len: u32, ino: u32, version: u32) {
        // Number 0 says "no such name".
        if ino != 0 {
            self.found.versions = self.found.versions.wrapping_add(version);
            let whole = self.start() + at;
            self.link(at, len, State::Unchecked, Owner::Inode(ino));
            self.found
                .inodes
                .entry(ino)
                .or_default()
                .nodes
                .insert(whole);
            self.found.highest_ino = self.found.highest_ino.max(ino);
        }
    }

    fn dirent(&mut self, at: u32, len: u32, raw: RawDirent, name: &[u8]) -> Result<(), Jffs2Error> {
        let odd = name.is_empty()
            || name == b"."
            || name == b".."
            || name.contains(&0)
            || name.contains(&b'/');
        if raw.pino == 0
            || crc(name) != raw.name_crc
            || DIRENT as u32 + u32::from(raw.name_len) > len
        {
            return Ok(());
        }
        let whole = self.start() + at;
        if odd {
            self.odd_name(whole, raw, name);
            return Ok(());
        }
        let state = if raw.ino == 0 {
            State::Normal
        } else {
            State::Pristine
        };
        self.link(at, len, state, Owner::Inode(raw.pino));
        self.found
            .inodes
            .entry(raw.pino)
            .or_default()
            .nodes
            .insert(whole);
        self.found.versions = self.found.versions.wrapping_add(raw.version);
        // A number that is named anywhere is not given out again.
        self.found.highest_ino = self.found.highest_ino.max(raw.pino).max(raw.ino);
        let new = FoundName {
            version: raw.version,
            ino: raw.ino,
            kind: raw.kind,
            at: whole,
        };
        let known = self
            .found
            .names
            .get(&raw.pino)
            .and_then(|names| names.get(name))
            .copied();
        let older = match known {
            Some(known)
                if known.version > raw.version
                    || known.version == raw.version && self.is_there(known.at, name)? =>
            {
                self.found.removed.insert(raw.ino);
                Some(whole)
            }
            _ => {
                self.found.removed.extend(known.map(|known| known.ino));
                self.found
                    .names
                    .entry(raw.pino)
                    .or_default()
                    .insert(name.to_vec(), new);
                known.map(|known| known.at)
            }
        };
        if let Some(older) = older {
            self.space.obsolete(older, false, true);
        }
        Ok(())
    }

    /// Keeps the newest entry of a name that no path can hold, so that it can be reported.
    fn odd_name(&mut self, at: u32, raw: RawDirent, name: &[u8]) {
        let new = FoundName {
            version: raw.version,
            ino: raw.ino,
            kind: raw.kind,
            at,
        };
        let key = (raw.pino, name.to_vec());
        let known = self.found.odd_names.entry(key).or_insert(new);
        if known.version < new.version {
            *known = new;
        }
    }

    /// Whether a name that a block's list promises is in the block indeed: an interrupted erase may
    /// have left the list alone. Of two copies of one entry it matters.
    fn is_there(&mut self, at: u32, name: &[u8]) -> Result<bool, Jffs2Error> {
        let mut bytes = vec![0; DIRENT + name.len()];
        self.flash.read(at, &mut bytes)?;
        let raw = bytes
            .first_chunk()
            .and_then(|fixed| RawDirent::read(self.flash.endian, fixed));
        Ok(raw.is_some() && bytes[DIRENT..] == *name)
    }

    /// The whole of it is checked: a power cut may leave two, one of them torn.
    fn xattr(&mut self, at: u32, len: u32, node: &[u8]) {
        let raw = node
            .first_chunk::<XATTR>()
            .and_then(|fixed| RawXattr::read(self.flash.endian, fixed));
        let fits = |raw: &RawXattr| pad((XATTR + raw.data_len()) as u32) == pad(len);
        let whole = |raw: &RawXattr| {
            node.get(XATTR..XATTR + raw.data_len())
                .is_some_and(|data| crc(data) == raw.data_crc)
        };
        let Some(raw) = raw.filter(|raw| fits(raw) && whole(raw)) else {
            return;
        };
        let whole = self.start() + at;
        self.link(at, len, State::Pristine, Owner::Xattr(raw.xid));
        let new = FoundXattr { at: whole, raw };
        let older = match self.found.xattrs.get_mut(&raw.xid) {
            Some(known) if known.raw.version >= raw.version => Some(whole),
            Some(known) => Some(core::mem::replace(known, new).at),
            None => {
                self.found.xattrs.insert(raw.xid, new);
                None
            }
        };
        if let Some(older) = older {
            self.space.obsolete(older, false, true);
        }
    }

    fn xref(&mut self, at: u32, len: u32, node: &[u8; XREF]) {
        if let Some(raw) = RawXref::read(self.flash.endian, node).filter(|_| len == XREF as u32) {
            self.link(at, len, State::Pristine, Owner::Xref(raw.ino, raw.xid));
            self.found.xrefs.push((self.start() + at, raw));
        }
    }

    fn classify(&mut self) -> Class {
        let info = self.space.block(self.block);
        let sizes = info.sizes;
        let refs = info.refs.len();
        let good = sizes.used + sizes.unchecked;
        let marker = self.flash.marker_bytes();
        // Obsolete ones found on the way may count as wasted already.
        let dirty = sizes.dirty + sizes.wasted;
        self.space.shift(self.block, |all| {
            all.dirty += sizes.wasted;
            all.wasted -= sizes.wasted;
        });
        if good == marker && dirty == 0 && refs <= 1 {
            Class::Free
        } else if !is_dirty(self.space.block_bytes - good) {
            self.space.dirt_to_waste(self.block, dirty);
            Class::Clean
        } else if good > 0 {
            Class::Partial
        } else {
            Class::AllDirty
        }
    }

    fn file(&mut self, class: Class) {
        let block = self.block;
        // Nodes found to be obsolete on the way may have filed it.
        self.space.unfile(block);
        match class {
            Class::Empty => {
                self.found.empty += 1;
                self.space.file_first(block, List::ErasePending);
            }
            Class::Free => self.space.file_first(block, List::Free),
            Class::Clean => self.space.file_first(block, List::Clean),
            Class::AllDirty => self.space.file_first(block, List::ErasePending),
            Class::Bad => self.space.retire(block),
            Class::Partial => self.file_partial(),
        }
    }

    /// The block with most free space is filled next. Once nodes lie behind it, the rest of an
    /// interrupted write looks like damage.
    fn file_partial(&mut self) {
        let least = match self.flash.is_buffered() {
            true => self.flash.page_bytes() * 2,
            false => 2 * INODE as u32,
        };
        let free = |block: u32| self.space.block(block).sizes.free;
        let ends_torn = self.start() + self.garbage_end == self.space.end_of(self.block);
        let better = self.resume
            && !ends_torn
            && free(self.block) > least
            && self
                .space
                .next
                .is_none_or(|next| free(next) < free(self.block));
        let mut loser = self.block;
        if better {
            loser = self.space.next.replace(self.block).unwrap_or(self.block);
            self.found.collected = core::mem::take(&mut self.found.current);
        }
        if self.space.next != Some(loser) {
            self.give_up(loser);
        }
    }

    /// What is free in a block that is not filled any more is dirt.
    fn give_up(&mut self, block: u32) {
        let free = self.space.block(block).sizes.free;
        if free > 0 {
            self.space.link(NodeRef {
                at: self.space.end_of(block),
                len: free,
                state: State::Obsolete,
                owner: Owner::None,
            });
        }
        let very = self.space.block(block).sizes.dirty >= self.space.block_bytes / 2;
        self.space
            .file_first(block, if very { List::VeryDirty } else { List::Dirty });
    }
}
