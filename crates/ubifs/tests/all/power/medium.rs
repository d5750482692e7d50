//! A volume whose power can be cut: logical blocks in memory, and every change in order.

use nandlab_sim::mix;
use nandlab_ubifs::{LebError, LebShape, Lebs};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

pub const PAGE: usize = 512;
pub const LEB: usize = 31 * PAGE;

/// A change of the medium.
#[derive(Clone, Debug)]
pub enum Op {
    Write(u32, u32, Vec<u8>),
    Change(u32, Vec<u8>),
    Renew(u32),
    Unmap(u32),
}

#[derive(Clone, Default)]
struct Leb {
    /// Nothing if the block is unmapped.
    bytes: Option<Vec<u8>>,
    /// Contents that a cut may bring back.
    ghost: Option<Vec<u8>>,
    /// Pages that read as erased, and are not.
    torn: BTreeSet<usize>,
}

/// The blocks, as the operations so far leave them.
#[derive(Clone)]
pub struct Medium {
    lebs: Vec<Leb>,
}

/// The changes since the power came on.
pub type Log = Arc<Mutex<Vec<Op>>>;

/// A volume that keeps its changes.
pub struct Power {
    pub medium: Medium,
    pub ops: Log,
}

impl Medium {
    pub fn new(lebs: u32) -> Self {
        Self {
            lebs: vec![Leb::default(); lebs as usize],
        }
    }

    /// With the contents of an image.
    pub fn of(image: &[u8]) -> Self {
        let lebs = image.chunks(LEB).map(Leb::with);
        Self {
            lebs: lebs.collect(),
        }
    }

    /// With this many blocks. Those that are new hold nothing.
    pub fn grown(mut self, lebs: u32) -> Self {
        self.lebs.resize(lebs as usize, Leb::default());
        self
    }

    /// The same medium, with a log that is empty.
    pub fn powered(&self) -> Power {
        Power {
            medium: self.clone(),
            ops: Arc::default(),
        }
    }

    /// The volume from a programmer that writes the erased pages too.
    pub fn programmed(mut self) -> Self {
        for leb in &mut self.lebs {
            let bytes = leb.bytes.get_or_insert_with(|| vec![0xFF; LEB]);
            let pages = bytes.chunks(PAGE).enumerate();
            let erased = pages.filter(|(_, page)| page.iter().all(|byte| *byte == 0xFF));
            leb.torn = erased.map(|(page, _)| page).collect();
        }
        self
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(lnum, offs, bytes) => self.lebs[*lnum as usize].write(*offs as usize, bytes),
            Op::Change(lnum, bytes) => self.lebs[*lnum as usize] = Leb::with(bytes),
            Op::Renew(lnum) => self.lebs[*lnum as usize] = Leb::with(&[]),
            Op::Unmap(lnum) => {
                let leb = &mut self.lebs[*lnum as usize];
                if let Some(bytes) = leb.bytes.take() {
                    leb.ghost = Some(bytes);
                    leb.torn.clear();
                }
            }
        }
    }

    /// Lets the power fail within an operation.
    pub fn cut(&mut self, op: Option<&Op>, word: u64) {
        if let Some(op) = op {
            self.tear(op, word);
        }
        for (lnum, leb) in self.lebs.iter_mut().enumerate() {
            leb.come_back(mix(word, lnum as u64));
        }
    }

    fn tear(&mut self, op: &Op, word: u64) {
        let (lnum, offs, bytes) = match op {
            Op::Write(lnum, offs, bytes) => (*lnum, *offs as usize, bytes),
            // The block held nothing: its pages come one by one.
            Op::Change(lnum, bytes) if self.lebs[*lnum as usize].bytes.is_none() => {
                (*lnum, 0, bytes)
            }
            _ if word & 1 == 0 => return self.apply(op),
            _ => return,
        };
        let pages = bytes.len() / PAGE;
        let whole = (word >> 8) as usize % (pages + 1);
        let leb = &mut self.lebs[lnum as usize];
        leb.write(offs, &bytes[..whole * PAGE]);
        if whole == pages {
            return;
        }
        let page = offs / PAGE + whole;
        match word % 3 {
            0 => {}
            1 => {
                leb.torn.insert(page);
            }
            _ => {
                let mut garbage = bytes[whole * PAGE..][..PAGE].to_vec();
                garbage.chunks_mut(7).for_each(|some| some[0] ^= 0x55);
                leb.write(page * PAGE, &garbage);
            }
        }
    }
}

impl Leb {
    fn with(bytes: &[u8]) -> Self {
        let mut whole = bytes.to_vec();
        whole.resize(LEB, 0xFF);
        Self {
            bytes: Some(whole),
            ..Self::default()
        }
    }

    fn write(&mut self, offs: usize, bytes: &[u8]) {
        if self.bytes.is_none() {
            *self = Self::with(&[]);
        }
        let whole = self.bytes.as_mut().unwrap();
        whole[offs..offs + bytes.len()].copy_from_slice(bytes);
    }

    /// True if nothing was programmed there since the erase, torn programs included.
    fn is_erased(&self, offs: usize, len: usize) -> bool {
        let end = offs + len;
        let is_torn = (offs / PAGE..end.div_ceil(PAGE)).any(|page| self.torn.contains(&page));
        let bytes = self.bytes.as_deref().unwrap_or(&[]);
        let bytes = bytes.get(offs..end).unwrap_or(&[]);
        !is_torn && bytes.iter().all(|byte| *byte == 0xFF)
    }

    /// A block that was unmapped may be there again, whole or in part.
    fn come_back(&mut self, word: u64) {
        let Some(mut ghost) = self.ghost.take() else {
            return;
        };
        match word % 3 {
            0 => return,
            1 => {}
            _ => {
                for (page, bytes) in ghost.chunks_mut(PAGE).enumerate() {
                    match mix(word, page as u64) % 3 {
                        0 => {}
                        1 => bytes.iter_mut().step_by(9).for_each(|byte| *byte ^= 0x3C),
                        _ => {
                            bytes.fill(0xFF);
                            self.torn.insert(page);
                        }
                    }
                }
            }
        }
        self.bytes = Some(ghost);
    }
}

impl Power {
    fn take(&mut self, op: Op) {
        self.medium.apply(&op);
        self.ops.lock().unwrap().push(op);
    }
}

impl Lebs for Power {
    fn shape(&self) -> LebShape {
        LebShape {
            leb_bytes: LEB as u32,
            lebs: self.medium.lebs.len() as u32,
            page: Some(PAGE as u32),
        }
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        match &self.medium.lebs[lnum as usize].bytes {
            Some(bytes) => buf.copy_from_slice(&bytes[offs as usize..][..buf.len()]),
            None => buf.fill(0xFF),
        }
        Ok(())
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        let leb = &self.medium.lebs[lnum as usize];
        if !leb.is_erased(offs as usize, bytes.len()) {
            return Err(LebError::ReadOnly);
        }
        self.take(Op::Write(lnum, offs, bytes.into()));
        Ok(())
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.take(Op::Change(lnum, bytes.into()));
        Ok(())
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.take(Op::Unmap(lnum));
        Ok(())
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.take(Op::Renew(lnum));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LebError> {
        Ok(())
    }
}
