//! What a mount does first: it finds the journal, and recovers it if the last mount ended in a
//! crash.
//!
//! *Promises.* Done twice, it does the same. A volume that is then written without its journal says
//! that there is nothing to recover. *Knows nothing of* the journal's format: `jbd` does.

use crate::{
    Ext, ExtError, Mode, Options, SeededBug,
    disk::Disk,
    format::{STATE_ERRORS, compat, incompat, le16, le32, put16, put32, sb},
    journaled::check_size,
};
use alloc::{boxed::Box, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_jbd::{Journal, Map};

/// Recovers the journal if the volume asks for it and may be written; gives the device back, within
/// its journal if changes shall go through it.
pub(crate) fn recover<D: BlockDevice>(device: D, options: Options) -> Result<Disk<D>, ExtError> {
    let mut probe = Ext::open(
        Disk::Plain(device),
        Options {
            read_only: true,
            ..options
        },
    )?;
    let layout = *probe.layout();
    let needed = layout.incompat & incompat::RECOVER != 0;
    let journaled = layout.has(compat::HAS_JOURNAL)
        && options.mode != Mode::Unjournaled
        && !layout.is_read_only();
    if !layout.is_recoverable() || !needed && !journaled {
        return Ok(probe.store.disk);
    }
    crate::guard::check(&mut probe.store)?;
    let map: Map = probe
        .journal_runs()?
        .into_iter()
        .flat_map(|(first, run)| (first..first + run).map(u64::from))
        .collect();
    let Options {
        checkpoint,
        barriers,
        commit_interval,
        seeded_bug,
        ..
    } = options;
    let choices = nandlab_jbd::Options {
        checkpoint,
        barriers,
        commit_interval,
        clean_blocks: 1,
        checksums: layout.has_sums(),
        wide: layout.incompat & incompat::WIDE != 0,
        fast: options.fast_commit && layout.has(compat::FAST_COMMIT),
        // Linux empties the log of a volume that asks for no recovery.
        skip_recovery: !needed,
        seeded_bug: match seeded_bug {
            Some(SeededBug::Journal(bug)) => Some(bug),
            _ => None,
        },
    };
    let journal = Journal::load(probe.into_device(), map, layout.block, choices)?;
    let journal = crate::replay::replay(journal, &layout, options)?;
    let error = journal.error();
    let disk = if journaled {
        check_size(&journal)?;
        Disk::Journaled(Box::new(journal))
    } else {
        Disk::Plain(journal.close()?)
    };
    if journaled && error == 0 {
        return Ok(disk);
    }
    let mut ext = Ext::open(disk, options)?;
    let bytes = ext.store.superblock_mut()?;
    let features = le32(bytes, sb::INCOMPAT);
    let state = le16(bytes, sb::STATE);
    put32(
        bytes,
        sb::INCOMPAT,
        if journaled {
            features
        } else {
            features & !incompat::RECOVER
        },
    );
    put16(
        bytes,
        sb::STATE,
        if error == 0 {
            state
        } else {
            state | STATE_ERRORS
        },
    );
    ext.write_super()?;
    if let Some(journal) = ext.store.disk.journal_mut() {
        journal.clear_error()?;
    }
    Ok(ext.store.disk)
}

impl<D: BlockDevice> Ext<D> {
    /// The byte behind the last that the journal's log takes; none where there is no journal.
    pub fn journal_end(&mut self) -> Result<Option<u64>, ExtError> {
        if !self.store.layout.has(compat::HAS_JOURNAL) {
            return Ok(None);
        }
        let last = self
            .journal_runs()?
            .into_iter()
            .map(|(first, run)| u64::from(first) + u64::from(run))
            .max();
        Ok(last.map(|block| block * u64::from(self.store.layout.block)))
    }

    /// Where the journal's blocks lie: runs of them, each its first block and how many.
    pub(crate) fn journal_runs(&mut self) -> Result<Vec<(u32, u32)>, ExtError> {
        let number = self.journal_number()?;
        let inode = self.inode(number)?;
        let blocks = (inode.size / u64::from(self.store.layout.block))
            .min(self.store.layout.blocks.into()) as u32;
        let mut homes = Vec::new();
        let mut index = 0;
        while index < blocks {
            let found = self.mapped(number, &inode, index, blocks - index)?;
            if found.block == 0 {
                let expected = "no hole in the journal";
                return Err(ExtError::Inode {
                    inode: number,
                    field: "block",
                    found: 0,
                    expected,
                });
            }
            let run = found.run.min(blocks - index);
            homes.push((found.block, run));
            index += run;
        }
        Ok(homes)
    }

    /// The inode that holds the journal.
    pub(crate) fn journal_number(&mut self) -> Result<u32, ExtError> {
        let number = le32(self.store.superblock()?, sb::JOURNAL_INODE);
        if !self.store.layout.is_journal_inode(number) {
            return Err(ExtError::Super {
                offset: sb::JOURNAL_INODE as u16,
                field: "journal",
                found: number,
                expected: "inode 8, or that of a file",
            });
        }
        Ok(number)
    }
}
