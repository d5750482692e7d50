//! A mounted volume made ready to be written.
//!
//! *Promises.* It writes torn places anew, as Linux does at a mount that may write:
//! master nodes, log, journal, heads. Then a commit takes over the journal. *Power loss.* At every
//! step the same volume is found again: a block is changed whole, and the commit comes last.

use crate::blocks::Blocks;
use crate::bug::{SeededBug, Switches};
use crate::error::{Result, UbifsError};
use crate::format::draft::{append, pad};
use crate::format::{
    Branch, DIRTY, Fault, Group, InodeNode, Key, LptShape, Master, Props, RECOVERED, Super,
    commit_start,
};
use crate::index::Use;
use crate::journal::LogHead;
use crate::lebs::Lebs;
use crate::log;
use crate::lpt::Lpt;
use crate::lpt_tree::LptTree;
use crate::mount::{Found, Ubifs};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandlab_vfs::{Errno, Gate};

/// Blocks that a mount collects at most for each spare block that is missing.
const REGAIN_ROUNDS: u32 = 8;
/// Spare blocks that calls collect as they go.
const FEWER: u32 = 4;

impl<L: Lebs> Ubifs<L> {
    /// Mounts a volume that may be written. Its index and its properties must be whole.
    pub fn mount_writable(lebs: L) -> Result<Self> {
        Self::mount_switched(lebs, Switches::default())
    }

    /// The same with switches of tests.
    #[doc(hidden)]
    pub fn mount_switched(lebs: L, switches: Switches) -> Result<Self> {
        let (mut fs, found) = Self::read(lebs, switches)?;
        fs.make_ready(&found)?;
        fs.regain()?;
        fs.gate = Gate::new(false);
        Ok(fs)
    }

    fn make_ready(&mut self, found: &Found) -> Result<()> {
        if let Some(hole) = self.index.holes.first() {
            return Err(hole.error.clone());
        }
        let lpt = Lpt::load(&mut self.media, &self.master);
        if let Some(error) = lpt.faults.first() {
            return Err(error.clone());
        }
        self.trust(&lpt)?;
        self.writer.sqnum = found.sqnum;
        self.writer.master_offs = Some(found.master_offs);
        self.fix_up(&lpt, found)?;
        self.repair(found)?;
        self.write_sizes()?;
        self.grow()?;
        let here = self.media.geometry();
        let empty = Props::empty(here.leb);
        let known = lpt.props.iter().map(|props| props.unwrap_or(empty));
        let mut known: Vec<Props> = known.collect();
        // Of blocks that were added the tree knows nothing: it says that they are empty.
        known.resize(here.main_lebs() as usize, empty);
        let now = self.properties(known.clone())?;
        self.writer.blocks = Blocks::new(&here, known);
        for (lnum, props) in (here.main_first()..).zip(now) {
            self.writer.blocks.set(lnum, props);
        }
        let shape = LptShape::new(&self.media.head);
        self.writer.lpt = LptTree::known(shape, &here, &self.master, &lpt);
        self.take_journal(found)?;
        self.take_kept()?;
        self.index.take_obsolete();
        self.commit_mount()
    }

    /// Collects until the index has its spare blocks, if far fewer are there. Linux leaves a full
    /// volume without them.
    fn regain(&mut self) -> Result<()> {
        let spare = self.spare_blocks();
        let empties = self.writer.blocks.empties();
        let may_collect = empties > 0 || self.writer.gc_lnum.is_some();
        if may_collect && empties + FEWER > spare {
            return Ok(());
        }
        for _ in 0..REGAIN_ROUNDS * (spare + 1) {
            if self.writer.blocks.empties() > spare {
                break;
            }
            match self.make_room() {
                Ok(true) => {}
                Ok(false) | Err(UbifsError::Call(Errno::NoSpace)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes anew what a cut may have torn. A torn write may read as erased; so it is not enough
    /// to look.
    fn repair(&mut self, found: &Found) -> Result<()> {
        self.renew_master()?;
        if !self.journal.in_use || self.media.has_bug(SeededBug::KeepTornEnds) {
            return Ok(());
        }
        if let Some((lnum, used)) = found.log.last() {
            self.repair_end(*lnum, *used)?;
        }
        for bud in self.buds.clone().iter().filter(|bud| bud.may_tear) {
            self.repair_end(bud.at.lnum, bud.used)?;
        }
        let heads = [self.master.index_head, self.master.lpt_head];
        heads
            .into_iter()
            .try_for_each(|(lnum, offs)| self.repair_end(lnum, offs))
    }

    /// Marks the volume as in use. An earlier attempt may have torn the place behind the last pair.
    fn renew_master(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let mut master = self.master;
        // If only one of them is written, its flag says that it counts.
        master.flags |= DIRTY | RECOVERED;
        for lnum in [1, 2] {
            let sqnum = self.next_sqnum();
            let mut bytes = master.draft().seal(sqnum, Group::None);
            pad(&mut bytes, Master::step(here.min_io));
            self.media.change(lnum, &bytes)?;
        }
        self.writer.master_offs = Some(0);
        Ok(())
    }

    /// Lets a block end with its last node and padding.
    pub(crate) fn repair_end(&mut self, lnum: u32, used: u32) -> Result<()> {
        let here = self.media.geometry();
        let old = self.media.leb(lnum)?;
        let mut bytes = Vec::from(&old[..used as usize]);
        pad(&mut bytes, here.min_io);
        match used {
            0 => self.media.renew(lnum),
            _ => self.media.change(lnum, &bytes),
        }
    }

    /// The properties of all blocks with the journal taken over.
    fn properties(&self, mut all: Vec<Props>) -> Result<Vec<Props>> {
        let here = self.media.geometry();
        let mut used: BTreeMap<u32, Use> = BTreeMap::new();
        for at in self.index.leaves() {
            used.entry(at.lnum).or_default().add_leaf(at);
        }
        for (lnum, before) in &self.index.used {
            used.entry(*lnum).or_default().index = before.index;
        }
        let first = here.main_first();
        for bud in &self.buds {
            let end = bud.used.next_multiple_of(here.min_io);
            all[(bud.at.lnum - first) as usize].free = here.leb - end;
        }
        for (lnum, props) in (first..).zip(&mut all) {
            let used = used.get(&lnum).copied().unwrap_or_default();
            let used = u32::try_from(used.leaves + used.index).unwrap_or(u32::MAX);
            let room = here.leb - props.free;
            let Some(dirty) = room.checked_sub(used) else {
                let what = "the used bytes of a block";
                return Err(Fault::rule(what, used, "at most those that were written").at(lnum, 0));
            };
            props.dirty = dirty;
        }
        Ok(all)
    }

    /// Refuses to write where the room that counts as free may be in use.
    fn trust(&self, lpt: &Lpt) -> Result<()> {
        let here = self.media.geometry();
        let bytes = self.master.index_bytes;
        if bytes != self.index.bytes {
            let what = "the length of the index";
            return Err(Fault::value(what, bytes, self.index.bytes).at(1, 0));
        }
        let (head, offs) = self.master.lpt_head;
        let known = lpt.ltab.iter().flatten().zip(&lpt.live);
        for (lnum, (own, live)) in (here.lpt_first()..).zip(known) {
            let used = u64::from(here.leb - own.free - own.dirty);
            if used != *live {
                let what = "the used bytes of a block of the properties tree";
                return Err(Fault::value(what, used, *live).at(lnum, 0));
            }
            let fits = lnum != head || own.free == here.leb - offs;
            let expected = "those behind the tree's head";
            let what = "the free bytes of a block of the properties tree";
            Fault::unless(fits, what, own.free, expected).map_err(|fault| fault.at(lnum, 0))?;
        }
        Ok(())
    }

    /// The journal's blocks are not given out before the next commit.
    fn take_journal(&mut self, found: &Found) -> Result<()> {
        let here = self.media.geometry();
        for bud in &self.buds {
            self.writer.blocks.take(bud.at.lnum);
        }
        let end = found.log.last().copied().unwrap_or_default();
        self.writer.log = LogHead {
            tail: self.master.log_lnum,
            lnum: end.0,
            offs: end.1.next_multiple_of(here.min_io),
            buds: self.buds.iter().map(|bud| bud.at).collect(),
        };
        match self.empty_log_lebs() {
            0 => self.consolidate_log(),
            _ => Ok(()),
        }
    }

    /// Puts the whole log into its first block, since commits that failed have filled it. Its
    /// beginning gets a new number. So the other blocks are old, whatever a cut leaves of them.
    fn consolidate_log(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let mut bytes = Vec::new();
        let sqnum = match self.media.has_bug(SeededBug::KeepLogAge) {
            true => self.log_start()?,
            false => self.next_sqnum(),
        };
        append(
            &mut bytes,
            &commit_start(self.master.commit).seal(sqnum, Group::None),
        );
        for bud in self.writer.log.buds.clone() {
            let sqnum = self.next_sqnum();
            append(&mut bytes, &bud.draft().seal(sqnum, Group::None));
        }
        pad(&mut bytes, here.min_io);
        let tail = self.writer.log.tail;
        if bytes.len() > here.leb as usize {
            return Err(UbifsError::Full);
        }
        self.media.change(tail, &bytes)?;
        let mut old = log::next(tail, &here);
        while old != tail {
            self.media.unmap(old)?;
            old = log::next(old, &here);
        }
        self.writer.log.lnum = tail;
        self.writer.log.offs = bytes.len() as u32;
        self.writer.counts.logs_consolidated += 1;
        Ok(())
    }

    /// The sequence number of the node that the log begins with.
    fn log_start(&mut self) -> Result<u64> {
        let mut header = [0; 24];
        self.media.read(self.writer.log.tail, 0, &mut header)?;
        Ok(crate::format::le64(&header, 8))
    }

    /// Keeps the block for collection that the last mount kept, if nothing was written to it.
    fn take_kept(&mut self) -> Result<()> {
        let blocks = &mut self.writer.blocks;
        let leb = self.media.head.geometry.leb;
        let is_idle = |lnum: &u32| {
            let mut idle = blocks.idle();
            idle.any(|(idle, props)| idle == *lnum && props.free == leb)
        };
        self.writer.gc_lnum = self.master.gc_lnum.filter(is_idle);
        if let Some(lnum) = self.writer.gc_lnum {
            self.writer.blocks.take(lnum);
        }
        self.keep_one()
    }

    /// Takes blocks that the UBI volume has more than UBIFS, as far as it may grow.
    fn grow(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let lebs = self.media.shape().lebs.min(here.lebs_max);
        if lebs <= here.lebs {
            return Ok(());
        }
        self.media.head.geometry.lebs = lebs;
        self.write_head()
    }

    /// Writes the superblock with its flags and its number of logical blocks.
    pub(crate) fn write_head(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let mut bytes = self.media.leb(0)?;
        let head = self.media.head.again(&bytes[..Super::BYTES]);
        bytes[..Super::BYTES].copy_from_slice(&head);
        trim(&mut bytes, here.min_io);
        self.media.change(0, &bytes)
    }

    /// Writes the sizes of files whose contents go beyond them. The inode's block is changed whole:
    /// a commit that has the contents must not come before the size.
    fn write_sizes(&mut self) -> Result<()> {
        for (number, size) in core::mem::take(&mut self.sizes) {
            if let Some(at) = self.index.get(Key::of_inode(number))? {
                self.write_size(at, size)?;
            }
        }
        Ok(())
    }

    fn write_size(&mut self, at: Branch, size: u64) -> Result<()> {
        let here = self.media.geometry();
        let mut bytes = self.media.leb(at.lnum)?;
        let place = at.offs as usize..(at.offs + at.len) as usize;
        let node = InodeNode::resized(&bytes[place.clone()], size);
        bytes[place].copy_from_slice(&node);
        trim(&mut bytes, here.min_io);
        self.media.change(at.lnum, &bytes)
    }
}

/// Drops the erased writes at the end.
fn trim(bytes: &mut Vec<u8>, min_io: u32) {
    let last = bytes.iter().rposition(|byte| *byte != 0xFF);
    let end = last.map_or(0, |last| last + 1);
    bytes.truncate(end.next_multiple_of(min_io as usize));
}
