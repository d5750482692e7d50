//! The volume table out of its two copies (`process_lvol`, drivers/mtd/ubi/vtbl.c).
//!
//! A change of the table writes copy 0, then copy 1, each whole. So copy 0 is believed where it is
//! sound, and copy 1 made anew from it where they differ.

use super::found::Found;
use crate::UbiError;
use crate::flash::Flash;
use crate::format::{
    LAYOUT_LEBS, LAYOUT_VOLUME, RECORD_BYTES, Record, TableLimits, parse_table, slots,
};
use alloc::{vec, vec::Vec};
use nandlab_mtd::Mtd;

/// The table and what is to be done about its copies.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub records: Vec<Option<Record>>,
    /// Copies that must be written anew.
    pub repair: Vec<u32>,
}

/// Reads the table; an empty flash has an empty one.
pub(crate) fn read_tables<M: Mtd>(flash: &mut Flash<M>, found: &Found) -> Result<Tables, UbiError> {
    let slots = slots(flash.shape.leb_bytes);
    let good = flash.shape.pebs - found.bad;
    let Some(layout) = found.volumes.get(&LAYOUT_VOLUME) else {
        if found.volumes.is_empty() && found.empty + found.maybe_bad == good {
            return Ok(Tables {
                records: vec![None; slots as usize],
                repair: (0..LAYOUT_LEBS).collect(),
            });
        }
        return Err(UbiError::Medium {
            what: "copies of the volume table",
            found: 0,
            expected: "1 or 2",
        });
    };
    if let Some((&lnum, _)) = layout.lebs.range(LAYOUT_LEBS..).next() {
        return Err(UbiError::Medium {
            what: "logical block of the layout volume",
            found: lnum.into(),
            expected: "0 or 1",
        });
    }
    let limits = TableLimits {
        leb_bytes: flash.shape.leb_bytes,
        write_unit: flash.shape.page,
        good,
    };
    let mut copies = Vec::new();
    let mut first_error = None;
    for lnum in 0..LAYOUT_LEBS {
        let mut bytes = vec![0; slots as usize * RECORD_BYTES];
        flash.cost.crc_bytes += bytes.len() as u64;
        let copy = match layout.lebs.get(&lnum) {
            None => None,
            Some(leb) if flash.read_data(leb.peb, 0, &mut bytes)?.damaged => None,
            Some(leb) => match parse_table(&bytes, &limits) {
                Ok(records) => Some(records),
                Err(error) => {
                    first_error.get_or_insert(UbiError::Refused {
                        peb: leb.peb,
                        error,
                    });
                    None
                }
            },
        };
        copies.push(copy);
    }
    let lost = first_error.unwrap_or(UbiError::Lost {
        volume: LAYOUT_VOLUME,
        lnum: 0,
    });
    let records = copies.iter().flatten().next().cloned().ok_or(lost)?;
    let repair = (0..LAYOUT_LEBS)
        .filter(|&lnum| copies[lnum as usize].as_ref() != Some(&records))
        .collect();
    Ok(Tables { records, repair })
}
