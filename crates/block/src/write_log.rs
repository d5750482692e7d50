//! Records everything that changes a disk, contents included, in the order in which it was asked.
//!
//! *Promises.* From a copy of the disk as it was and the log, every state that a power cut could
//! leave can be made; see [`cuts`]. Memory grows with what is written. *Knows nothing
//! of* who writes. Requests that failed are not recorded: over a device that fails halfway the log
//! promises nothing. Remap is offered where the device offers it.

use crate::{BlockDevice, BlockError, BlockGeometry, CutId, Cuts, Lba, Remap, cuts};
use alloc::{boxed::Box, vec, vec::Vec};

/// A change of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Whole sectors, from `lba` on.
    Write {
        /// The first sector of the request.
        lba: Lba,
        /// The bytes that were written.
        data: Box<[u8]>,
    },
    /// Sectors whose contents were discarded.
    Discard {
        /// The first sector of the request.
        lba: Lba,
        /// The number of discarded sectors.
        sectors: u64,
    },
    /// Sectors that took over other sectors' contents, all of them and durable at once.
    Remap {
        /// Who gave and who took.
        pairs: Box<[Remap]>,
        /// What each pair's `from` held, one sector after another.
        data: Box<[u8]>,
    },
    /// Everything before it is durable.
    Flush,
}

/// A device that remembers every change since it was wrapped.
#[derive(Clone, Debug)]
pub struct WriteLog<D> {
    inner: D,
    records: Vec<Record>,
}

impl<D: BlockDevice> WriteLog<D> {
    /// Begins to record. Keep a copy of `inner` to replay onto.
    pub fn new(inner: D) -> Self {
        Self {
            inner,
            records: Vec::new(),
        }
    }

    /// The changes so far, oldest first. Their number after an acknowledged sync marks that sync in
    /// the log.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Forgets the changes so far.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    /// Stops recording; returns the disk and the records.
    pub fn into_parts(self) -> (D, Vec<Record>) {
        (self.inner, self.records)
    }

    /// Brings `disk` to one state that a cut after the first `upto` changes may leave: see
    /// [`cuts::replay`].
    pub fn replay<T: BlockDevice>(
        &self,
        upto: usize,
        disk: &mut T,
        keep: impl FnMut(usize, Lba) -> bool,
    ) -> Result<(), BlockError> {
        cuts::replay(&self.records[..upto.min(self.records.len())], disk, keep)
    }

    /// States that cuts may leave, at most `variants` for each cut point, as forks of `base`: see
    /// [`Cuts`].
    pub fn cuts<T: BlockDevice + Clone>(&self, base: T, seed: u64, variants: u32) -> Cuts<'_, T> {
        Cuts::new(&self.records, base, seed, variants)
    }

    /// The one state of [`cuts`](WriteLog::cuts) that bears this name, made in `disk`.
    pub fn state<T: BlockDevice>(
        &self,
        disk: &mut T,
        seed: u64,
        id: CutId,
    ) -> Result<(), BlockError> {
        self.replay(id.cut, disk, |record, lba| id.keeps(seed, record, lba))
    }
}

impl<D: BlockDevice> BlockDevice for WriteLog<D> {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.inner.idle()
    }

    fn stream(&mut self, stream: u8) {
        self.inner.stream(stream);
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.inner.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.inner.write(lba, data)?;
        self.records.push(Record::Write {
            lba,
            data: data.into(),
        });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.inner.flush()?;
        self.records.push(Record::Flush);
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.inner.discard(lba, sectors)?;
        self.records.push(Record::Discard { lba, sectors });
        Ok(())
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        let sector = self.geometry().sector as usize;
        let mut data = vec![0; pairs.len() * sector];
        for (pair, data) in pairs.iter().zip(data.chunks_exact_mut(sector)) {
            self.inner.read(pair.from, data)?;
        }
        self.inner.remap(pairs)?;
        self.records.push(Record::Remap {
            pairs: pairs.into(),
            data: data.into(),
        });
        Ok(())
    }
}
