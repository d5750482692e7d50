//! Slots and marks on which no read depends, and which a sound volume has in one way only.
//!
//! *Promises.* Looks at each slot once, those behind a directory's end included. Nothing is
//! written. *Knows nothing of* chains and names: the walk of [`check`](crate::check) follows those.

use crate::{
    Fat, FatError,
    check::{Visit, Walk, text},
    dir::short_of,
    finding::Finding,
    format::{Bits, Slot, SlotKind, attr, le16, slot_kind, slot_size, slot_start},
    name::Short,
};
use nandlab_block::BlockDevice;

/// Characters that no short name has.
const REFUSED: &[u8] = b"*?<>|\"\\/:.";
/// First byte of a short name that begins with 0xE5, the mark of a free slot.
const ESCAPED: u8 = 0x05;
/// Bit of byte 12: the short name is none (fsck.fat's `FAT_NO_83`).
const NO_SHORT: u8 = 0x20;
/// Where a long name's slot has its kind, and a cluster that it does not have.
const LONG_KIND: usize = 12;
const LONG_START: usize = 26;

fn is_short_name(name: &Short) -> bool {
    let is_char = |byte: u8| byte >= b' ' && byte != 0x7F && !REFUSED.contains(&byte);
    let first = is_char(name[0]) && name[0] != b' ' || name[0] == ESCAPED;
    first && name[1..].iter().all(|byte| is_char(*byte))
}

/// A field of a long name's slot that should be another: its byte, what it is, what it should be.
fn wrong_long(slot: &Slot) -> Option<(usize, u16, u16)> {
    let long = u16::from(attr::LONG_NAME);
    let fields = [
        (11, u16::from(slot[11]), long),
        (LONG_KIND, u16::from(slot[LONG_KIND]), 0),
        (LONG_START, le16(slot, LONG_START), 0),
    ];
    fields
        .into_iter()
        .find(|(_, found, expected)| found != expected)
}

/// Judges one slot by itself.
pub(crate) fn slot(
    walk: &mut Walk,
    visit: &Visit,
    (slot, index, at): (&Slot, u32, u64),
) -> Option<Finding> {
    let path = text(&visit.path);
    let root = visit.path.is_empty();
    match slot_kind(slot) {
        SlotKind::End | SlotKind::Deleted => None,
        SlotKind::LongName => wrong_long(slot).map(|(byte, found, expected)| Finding::LongSlot {
            path,
            slot: index,
            byte: byte as u8,
            found,
            expected,
            at,
        }),
        SlotKind::Label => {
            // Bits of a cluster's number that only FAT32 has are zero, too.
            let empty = slot_start(slot, Bits::Fat32) == 0 && slot_size(slot) == 0;
            let first = root && !core::mem::replace(&mut walk.labelled, true);
            let right = empty && first && slot[11] & attr::DIRECTORY == 0;
            (!right).then_some(Finding::Label {
                path,
                slot: index,
                at,
            })
        }
        SlotKind::Dot if !root && index < 2 => None,
        SlotKind::Dot | SlotKind::Entry => {
            let name = short_of(slot);
            let right = is_short_name(&name) && slot[12] & NO_SHORT == 0;
            (!right).then_some(Finding::ShortName {
                path,
                slot: index,
                name,
                at,
            })
        }
    }
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// The places of copies, and the marks in the table's second entry.
    pub(crate) fn check_marks(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let layout = self.store.layout;
        if layout.bits == Bits::Fat32 {
            self.check_places(walk)?;
        }
        let clean = match layout.bits {
            Bits::Fat12 => return Ok(()),
            Bits::Fat16 => 0xC000,
            Bits::Fat32 => 0x0C00_0000,
        };
        let found = self.table.value(&mut self.store, 1)?;
        if found & clean != clean {
            walk.report.add(Finding::Unclean { found });
        }
        Ok(())
    }

    fn check_places(&mut self, walk: &mut Walk) -> Result<(), FatError> {
        let layout = self.store.layout;
        let boot = self.store.metadata(0)?;
        let info = u32::from(le16(boot, 48));
        let backup = u32::from(le16(boot, 50));
        if layout.info.is_none() {
            walk.report.add(Finding::NoInfo(info));
        }
        if backup != 0 && layout.backup.is_none() {
            walk.report.add(Finding::Backup {
                sector: backup,
                offset: 0,
            });
        }
        Ok(())
    }

    /// No slot behind the one that ends a directory is in use; of those that are, the first and the
    /// first that is wrong by itself are reported.
    pub(crate) fn check_end(
        &mut self,
        walk: &mut Walk,
        visit: &Visit,
        end: u32,
    ) -> Result<(), FatError> {
        let mut first = true;
        for index in end + 1.. {
            let Some(at) = self.visit_place(visit, index) else {
                break;
            };
            let slot = self.store.slot(at)?;
            if matches!(slot_kind(&slot), SlotKind::End | SlotKind::Deleted) {
                continue;
            }
            if core::mem::take(&mut first) {
                walk.report.add(Finding::Behind {
                    path: text(&visit.path),
                    slot: index,
                    end,
                    at,
                });
            }
            let wrong = self::slot(walk, visit, (&slot, index, at));
            if let Some(finding) = wrong.or_else(|| self.wrong_entry(visit, (&slot, at))) {
                walk.report.add(finding);
                break;
            }
        }
        Ok(())
    }

    /// What is wrong with the length or the cluster of an entry.
    fn wrong_entry(&self, visit: &Visit, (slot, at): (&Slot, u64)) -> Option<Finding> {
        let layout = &self.store.layout;
        let directory = slot[11] & attr::DIRECTORY != 0;
        let found = slot_start(slot, layout.bits);
        if slot_kind(slot) != SlotKind::Entry {
            return None;
        }
        if !layout.is_cluster(found) && (directory || found != 0) {
            return Some(Finding::Start {
                path: text(&visit.path),
                found,
                at,
            });
        }
        let size = slot_size(slot);
        (directory && size != 0).then(|| Finding::DirectorySize {
            path: text(&visit.path),
            size,
            at,
        })
    }
}
