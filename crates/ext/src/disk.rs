//! The device, with the journal in between if changes go through one.
//!
//! *Promises.* Reading gives what was written last, in whichever of the two it is. *Knows nothing
//! of* what blocks hold.

use crate::ExtError;
use alloc::boxed::Box;
use nandlab_block::{BlockDevice, Lba};
use nandlab_jbd::Journal;

/// The device, or the journal that owns it.
#[derive(Debug)]
pub(crate) enum Disk<D> {
    /// Every block is written in place.
    Plain(D),
    /// Metadata is changed through a journal.
    Journaled(Box<Journal<D>>),
}

impl<D: BlockDevice> Disk<D> {
    /// The device itself; what a journal holds of it is passed by.
    pub fn device_mut(&mut self) -> &mut D {
        match self {
            Self::Plain(device) => device,
            Self::Journaled(journal) => journal.device_mut(),
        }
    }

    pub fn into_device(self) -> D {
        match self {
            Self::Plain(device) => device,
            Self::Journaled(journal) => journal.into_device(),
        }
    }

    pub fn journal(&self) -> Option<&Journal<D>> {
        match self {
            Self::Plain(_) => None,
            Self::Journaled(journal) => Some(journal),
        }
    }

    pub fn journal_mut(&mut self) -> Option<&mut Journal<D>> {
        match self {
            Self::Plain(_) => None,
            Self::Journaled(journal) => Some(journal),
        }
    }

    /// Reads whole blocks of `size` bytes, each `ratio` sectors, from `first` on.
    pub fn read(
        &mut self,
        first: u32,
        ratio: u64,
        size: usize,
        data: &mut [u8],
    ) -> Result<(), ExtError> {
        let Self::Journaled(journal) = self else {
            return Ok(self
                .device_mut()
                .read(Lba(u64::from(first) * ratio), data)?);
        };
        Self::read_journaled(journal, first, ratio, size, data)
    }

    /// Reads blocks, each in the journal's newest version.
    fn read_journaled(
        journal: &mut Journal<D>,
        first: u32,
        ratio: u64,
        size: usize,
        data: &mut [u8],
    ) -> Result<(), ExtError> {
        let count = data.len() / size;
        let first = u64::from(first);
        let mut at = 0;
        while at < count {
            if let Some(newest) = journal.pending(first + at as u64) {
                data[at * size..(at + 1) * size].copy_from_slice(newest);
                at += 1;
                continue;
            }
            let end = (at + 1..count)
                .find(|end| journal.pending(first + *end as u64).is_some())
                .unwrap_or(count);
            journal.device_mut().read(
                Lba((first + at as u64) * ratio),
                &mut data[at * size..end * size],
            )?;
            at = end;
        }
        Ok(())
    }
}
