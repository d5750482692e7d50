//! Patches that repair a volume: bytes that follow from others and say something else.
//!
//! *Promises.* Nothing is written. The caller writes the patches to the device when this mount is
//! over, and asks again, since one may show the next. The first copy of the table counts. A chain
//! that leads nowhere ends where it does, and a file with it; clusters that belong to nobody are
//! free. *Knows nothing of* what two files claim: that stays as it is.

use crate::{
    Fat, FatError,
    finding::Finding,
    format::{Info, SLOT, UNKNOWN, put_slot_start, put32},
    table::{Link, copies, end, set_in},
};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use nandlab_block::{BlockDevice, Patch};

/// The bit of the boot sector that says that the volume is in use.
const IN_USE: u8 = 1;

/// Findings of a check that can be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// The chain that begins there ends after so many clusters.
    Cut { start: u32, keep: u32 },
    /// The chain ends with this cluster.
    End(u32),
    /// The slot at a byte of the volume has another length.
    Size(u64, u32),
    /// It leads to another cluster.
    Start(u64, u32),
    /// It is nothing any more.
    Remove(u64),
    /// A cluster that nobody uses.
    Free(u32),
    /// Free clusters are so many.
    Count(u32),
    /// The boot sector's copy.
    Backup(u32),
    /// A sector of a copy of the table.
    Copy { first: u32, copy: u32 },
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// The patches for a check's findings, as far as they can be derived.
    pub fn repair(&mut self) -> Result<Vec<Patch>, FatError> {
        let mut walk = self.walk(true)?;
        let fixes = core::mem::take(&mut walk.fixes);
        if walk.report.findings == [Finding::InUse] {
            // Nothing else is wrong: nothing speaks against saying so.
            return Ok(vec![self.clean_mark()?]);
        }
        let mut patches = Vec::new();
        let mut tables = BTreeMap::new();
        for fix in fixes {
            self.patch(fix, &mut patches, &mut tables)?;
        }
        let layout = self.store.layout;
        for (sector, bytes) in tables {
            patches.extend(copies(&layout, sector).map(|copy| Patch {
                at: self.byte(copy),
                bytes: bytes.clone(),
            }));
        }
        Ok(patches)
    }

    /// The patch that marks the volume as unmounted.
    fn clean_mark(&mut self) -> Result<Patch, FatError> {
        let at = self.store.layout.state_offset();
        let state = self.store.metadata(0)?[at] & !IN_USE;
        Ok(Patch {
            at: at as u64,
            bytes: vec![state],
        })
    }

    fn byte(&self, sector: u32) -> u64 {
        u64::from(sector) * u64::from(self.store.layout.sector)
    }

    fn patch(
        &mut self,
        fix: Fix,
        patches: &mut Vec<Patch>,
        tables: &mut BTreeMap<u32, Vec<u8>>,
    ) -> Result<(), FatError> {
        let layout = self.store.layout;
        match fix {
            Fix::Cut { start, keep } => {
                let mut at = start;
                for _ in 1..keep.max(1) {
                    match self.table.get(&mut self.store, at)? {
                        Link::Next(next) => at = next,
                        _ => return Ok(()),
                    }
                }
                set_in(&mut self.store, tables, at, end(&layout))?;
            }
            Fix::End(cluster) => set_in(&mut self.store, tables, cluster, end(&layout))?,
            Fix::Free(cluster) => set_in(&mut self.store, tables, cluster, 0)?,
            Fix::Size(at, size) => patches.push(Patch {
                at: at + 28,
                bytes: size.to_le_bytes().to_vec(),
            }),
            Fix::Remove(at) => patches.push(Patch {
                at,
                bytes: vec![0xE5],
            }),
            Fix::Start(at, start) => {
                let mut slot = self.store.slot(at)?;
                put_slot_start(&mut slot, layout.bits, start);
                patches.push(Patch {
                    at,
                    bytes: slot[..SLOT].to_vec(),
                });
            }
            Fix::Count(free) => {
                let Some(sector) = layout.info else {
                    return Ok(());
                };
                let mut bytes = self.store.metadata(sector)?.to_vec();
                match Info::parse(&bytes) {
                    Some(_) => put32(&mut bytes, 488, free),
                    None => Info {
                        free,
                        last: UNKNOWN,
                    }
                    .put(&mut bytes),
                }
                patches.push(Patch {
                    at: self.byte(sector),
                    bytes,
                });
            }
            Fix::Backup(sector) => {
                let bytes = self.store.metadata(0)?.to_vec();
                patches.push(Patch {
                    at: self.byte(sector),
                    bytes,
                });
            }
            Fix::Copy { first, copy } => {
                let bytes = self.store.metadata(first)?.to_vec();
                patches.push(Patch {
                    at: self.byte(copy),
                    bytes,
                });
            }
        }
        Ok(())
    }
}
