//! Nodes read from the medium, by their places.

use crate::bug::{SeededBug, Switches};
use crate::error::{Result, UbifsError};
use crate::format::draft::append;
use crate::format::{self, Branch, Fault, Geometry, Header, Key, Kind, Super};
use crate::lebs::{LebError, LebShape, Lebs};
use alloc::{vec, vec::Vec};

/// The medium, with what is needed to read nodes.
pub(crate) struct Media<L> {
    lebs: L,
    pub head: Super,
    node: Vec<u8>,
    /// Bytes that the heads of the journal have not written yet.
    pub heads: [Option<Buffer>; 3],
    switches: Switches,
    /// Nodes that a salvage made, in blocks behind the last one.
    made: Vec<u8>,
    /// A salvage passes over unreadable blocks.
    pub salvages: bool,
}

/// A head of the journal: where it writes next, and the bytes not yet written.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub lnum: u32,
    pub offs: u32,
    pub bytes: Vec<u8>,
}

impl Buffer {
    /// Where the next node begins.
    pub fn end(&self) -> u32 {
        self.offs + self.bytes.len() as u32
    }

    /// Shows bytes not yet written in a part of the medium that was read.
    fn overlay(&self, lnum: u32, offs: u32, buf: &mut [u8]) {
        let end = offs + buf.len() as u32;
        let from = self.offs.max(offs);
        let to = self.end().min(end);
        if self.lnum == lnum && from < to {
            let waiting = &self.bytes[(from - self.offs) as usize..(to - self.offs) as usize];
            buf[(from - offs) as usize..(to - offs) as usize].copy_from_slice(waiting);
        }
    }
}

impl<L: Lebs> Media<L> {
    /// Reads the superblock and checks the shape.
    pub fn new(mut lebs: L) -> Result<Self> {
        let head = head(&mut lebs)?;
        Ok(Self::with(lebs, head))
    }

    /// With a superblock that is already known.
    pub fn with(lebs: L, head: Super) -> Self {
        Self {
            lebs,
            head,
            node: Vec::new(),
            heads: [None, None, None],
            switches: Switches::default(),
            made: Vec::new(),
            salvages: false,
        }
    }

    /// Keeps a node in memory, as if it lay behind the last block. Returns its place, or `None` if
    /// there are too many.
    pub fn make(&mut self, node: &[u8]) -> Option<Branch> {
        let Geometry { leb, lebs, .. } = self.geometry();
        let leb = leb as usize;
        let left = leb - self.made.len() % leb;
        if left < node.len() {
            self.made.resize(self.made.len() + left, 0xFF);
        }
        let at = self.made.len();
        let lnum = u32::try_from(at / leb).ok()?.checked_add(lebs)?;
        append(&mut self.made, node);
        Some(Branch {
            lnum,
            offs: (at % leb) as u32,
            len: node.len() as u32,
        })
    }

    /// The bytes of nodes of [`make`](Self::make).
    fn made_at(&self, lnum: u32, offs: u32, len: usize) -> Option<&[u8]> {
        let Geometry { leb, lebs, .. } = self.geometry();
        let at = u64::from(lnum.checked_sub(lebs)?) * u64::from(leb) + u64::from(offs);
        let rest = self.made.get(usize::try_from(at).ok()?..)?;
        rest.get(..len)
    }

    /// Passes an error of the medium on, except in a salvage.
    pub fn pass(&self, error: UbifsError) -> Result<()> {
        match error {
            UbifsError::Medium { .. } if !self.salvages => Err(error),
            _ => Ok(()),
        }
    }

    pub fn switched(mut self, switches: Switches) -> Self {
        self.switches = switches;
        self
    }

    pub fn has_bug(&self, bug: SeededBug) -> bool {
        self.switches.bug == Some(bug)
    }

    /// True if a commit writes between old index nodes, although blocks may be empty.
    pub fn prefers_gaps(&self, commit: u64) -> bool {
        self.switches.prefers_gaps && commit.is_multiple_of(2)
    }

    pub fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<()> {
        let outcome = self.lebs.write(lnum, offs, bytes);
        outcome.map_err(|error| UbifsError::Write { lnum, offs, error })
    }

    pub fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<()> {
        whole(lnum, self.lebs.change(lnum, bytes))
    }

    pub fn unmap(&mut self, lnum: u32) -> Result<()> {
        whole(lnum, self.lebs.unmap(lnum))
    }

    /// Makes sure that a block that may hold garbage reads as erased.
    pub fn renew(&mut self, lnum: u32) -> Result<()> {
        match self.has_bug(SeededBug::UnmapOnly) {
            true => self.unmap(lnum),
            false => whole(lnum, self.lebs.renew(lnum)),
        }
    }

    pub fn sync(&mut self) -> Result<()> {
        whole(0, self.lebs.sync())
    }

    pub fn into_lebs(self) -> L {
        self.lebs
    }

    pub fn shape(&self) -> LebShape {
        self.lebs.shape()
    }

    /// The number of blocks up to the last one that may hold anything.
    pub fn held(&self) -> u32 {
        self.lebs.held()
    }

    pub fn geometry(&self) -> Geometry {
        self.head.geometry
    }

    /// Fills `buf`. Bits beyond correction are no error: checksums tell what is sound.
    pub fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<()> {
        if let Some(made) = self.made_at(lnum, offs, buf.len()) {
            buf.copy_from_slice(made);
            return Ok(());
        }
        read(&mut self.lebs, lnum, offs, buf)?;
        let heads = self.heads.iter().flatten();
        heads.for_each(|head| head.overlay(lnum, offs, buf));
        Ok(())
    }

    /// A whole logical block.
    pub fn leb(&mut self, lnum: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.geometry().leb as usize];
        self.read(lnum, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// The sound node at a place, of that type and length.
    pub fn node(&mut self, at: Branch, kind: Kind) -> Result<(Header, &[u8])> {
        let Branch { lnum, offs, len } = at;
        let Geometry { leb, fanout, .. } = self.geometry();
        // Lengths come from index nodes: no node is longer than one of 4 KiB with its data.
        let len_max = (28 + 20 * fanout).max(4256);
        let fits = len <= len_max && u64::from(offs) + u64::from(len) <= leb.into();
        let expected = "one that its type may have";
        Fault::unless(fits, "the length of a node in the index", len, expected)
            .map_err(|fault| fault.at(lnum, offs))?;
        let mut bytes = core::mem::take(&mut self.node);
        bytes.resize(len as usize, 0);
        let outcome = self.read(lnum, offs, &mut bytes);
        self.node = bytes;
        outcome?;
        let wrong = |fault: Fault| fault.at(lnum, offs);
        let (header, bytes) = format::node(&self.node, leb, fanout).map_err(wrong)?;
        if header.kind != kind {
            let fault = Fault::value("the type of a node", header.kind as u8, kind as u8);
            return Err(wrong(fault));
        }
        if header.len != len {
            return Err(wrong(Fault::value("the length of a node", header.len, len)));
        }
        Ok((header, bytes))
    }

    /// The same of a leaf, with its key.
    pub fn leaf(&mut self, at: Branch, key: Key) -> Result<(Header, &[u8])> {
        let (header, bytes) = self.node(at, kind_of(key))?;
        match Key::parse(bytes, 24) {
            Ok(found) if found == key => Ok((header, bytes)),
            Err(fault) => Err(fault.at(at.lnum, at.offs)),
            Ok(found) => {
                let inode = Fault::value("the inode of a node's key", found.inode(), key.inode());
                let value = Fault::value("the value of a node's key", found.value(), key.value());
                let fault = if found.inode() == key.inode() {
                    value
                } else {
                    inode
                };
                Err(fault.at(at.lnum, at.offs))
            }
        }
    }
}

#[cfg(test)]
impl<B: nandlab_sim::Backing> Media<crate::Bare<B>> {
    /// The bytes of the volume.
    pub fn bytes(&self) -> &B {
        self.lebs.bytes()
    }
}

/// The outcome of a change of a whole block.
fn whole(lnum: u32, outcome: core::result::Result<(), LebError>) -> Result<()> {
    outcome.map_err(|error| UbifsError::Write {
        lnum,
        offs: 0,
        error,
    })
}

/// The superblock of a volume, with its shape checked.
pub(crate) fn head<L: Lebs>(lebs: &mut L) -> Result<Super> {
    let shape = lebs.shape();
    let mut node = vec![0; Super::BYTES];
    read(lebs, 0, 0, &mut node)?;
    Super::parse(&node, shape.leb_bytes, shape.lebs, shape.page)
}

fn read<L: Lebs>(lebs: &mut L, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<()> {
    match lebs.read(lnum, offs, buf) {
        Ok(()) | Err(LebError::Lost) => Ok(()),
        Err(error) => Err(UbifsError::Medium { lnum, offs, error }),
    }
}

/// The type of the nodes with such a key.
pub(crate) fn kind_of(key: Key) -> Kind {
    match key.kind() {
        format::KeyKind::Inode => Kind::Inode,
        format::KeyKind::Data => Kind::Data,
        format::KeyKind::Dent => Kind::Dent,
        format::KeyKind::Xent => Kind::Xent,
    }
}
