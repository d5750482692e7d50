//! The scan: both headers of every block (`scan_peb`, drivers/mtd/ubi/attach.c).

use super::found::{Found, FoundLeb, Loose};
use crate::UbiError;
use crate::flash::{Flash, Seen};
use crate::format::{
    Compat, EcHeader, FM_DATA_VOLUME, FM_SB_VOLUME, LAYOUT_VOLUME, Parsed, VidHeader, value,
};
use crate::log::VOLUMES as LOG_VOLUMES;
use alloc::vec;
use nandlab_mtd::{Mtd, MtdError};

pub(crate) fn scan<M: Mtd>(flash: &mut Flash<M>) -> Result<Found, UbiError> {
    let mut found = Found::default();
    for peb in 0..flash.shape.pebs {
        scan_peb(flash, &mut found, peb)?;
    }
    judge(&found, flash.shape.pebs)?;
    Ok(found)
}

/// Whether the medium as a whole can be attached (`late_analysis`).
fn judge(found: &Found, pebs: u32) -> Result<(), UbiError> {
    let good = pebs - found.bad - found.alien.len() as u32;
    let corrupted = found.corrupted.len() as u32;
    let most = if good / 20 == 0 { 8 } else { good / 20 };
    if corrupted >= most {
        return Err(UbiError::Medium {
            what: "blocks with a damaged volume header and data",
            found: corrupted.into(),
            expected: "fewer than a twentieth of the good blocks",
        });
    }
    let blank = found.empty + found.maybe_bad == good;
    if blank && found.maybe_bad > 2 {
        return Err(UbiError::Medium {
            what: "blocks that are neither empty nor UBI's",
            found: found.maybe_bad.into(),
            expected: "no more than 2 on a flash without UBI",
        });
    }
    Ok(())
}

/// The headers' offsets must be the device's.
pub(crate) fn judge_offsets<M>(
    flash: &Flash<M>,
    peb: u32,
    header: &EcHeader,
) -> Result<(), UbiError> {
    value(
        16,
        "offset of the volume header",
        header.vid_offset,
        flash.shape.vid_offset,
    )
    .and_then(|()| {
        value(
            20,
            "offset of the data",
            header.data_offset,
            flash.shape.data_offset,
        )
    })
    .map_err(|error| UbiError::Refused { peb, error })
}

/// What the erase-counter header says.
#[derive(Clone, Copy)]
enum Counter {
    Known(u32),
    /// Damaged; beyond correction or not.
    Lost(bool),
    Empty,
}

fn counter<M: Mtd>(
    flash: &mut Flash<M>,
    found: &mut Found,
    peb: u32,
) -> Result<(Counter, Seen), UbiError> {
    let (parsed, seen) = flash.read_ec(peb)?;
    let counter = match parsed {
        Parsed::Empty => Counter::Empty,
        Parsed::Damaged(_) => Counter::Lost(seen.damaged),
        Parsed::Refused(error) => return Err(UbiError::Refused { peb, error }),
        Parsed::Good(header) => {
            judge_offsets(flash, peb, &header)?;
            judge_image(found, peb, header.image_seq)?;
            Counter::Known(header.ec)
        }
    };
    Ok((counter, seen))
}

/// Looks at one block.
fn scan_peb<M: Mtd>(flash: &mut Flash<M>, found: &mut Found, peb: u32) -> Result<(), UbiError> {
    if flash.is_bad(peb)? {
        found.bad += 1;
        return Ok(());
    }
    let (counter, seen) = counter(flash, found, peb)?;
    let ec = match counter {
        Counter::Empty => {
            found.empty += 1;
            found.erase.push(Loose {
                torture: seen.flips,
                ..Loose::new(peb, None)
            });
            flash.cost.records += 1;
            return Ok(());
        }
        Counter::Known(ec) => Some(ec),
        Counter::Lost(_) => None,
    };
    let (parsed, vid_seen) = flash.read_vid(peb)?;
    let loose = |torture| Loose {
        torture,
        ..Loose::new(peb, ec)
    };
    flash.cost.records += u64::from(!matches!(parsed, Parsed::Good(_)));
    // A damaged counter is written anew by moving what the block holds.
    let flips = seen.flips || vid_seen.flips || ec.is_none();
    match parsed {
        Parsed::Good(vid) => {
            return sort(
                flash,
                found,
                FoundLeb {
                    peb,
                    ec,
                    scrub: flips,
                    vid: Some(vid),
                },
                vid,
            );
        }
        Parsed::Refused(error) => return Err(UbiError::Refused { peb, error }),
        Parsed::Empty if flips => found.erase.push(loose(true)),
        Parsed::Empty => found.free.push(Loose {
            doubtful: true,
            ..loose(false)
        }),
        Parsed::Damaged(_) => {
            if vid_seen.damaged && matches!(counter, Counter::Lost(true)) {
                found.maybe_bad += 1;
            }
            if ec.is_some() && holds_data(flash, peb)? {
                found.corrupted.push(loose(false));
            } else {
                found.erase.push(loose(true));
            }
        }
    }
    found.count_ec(ec);
    Ok(())
}

/// All blocks were flashed with one image; 0 is any.
fn judge_image(found: &mut Found, peb: u32, image_seq: u32) -> Result<(), UbiError> {
    if found.image_seq == 0 {
        found.image_seq = image_seq;
    }
    let same = if image_seq == 0 {
        Ok(())
    } else {
        value(24, "image sequence number", image_seq, found.image_seq)
    };
    same.map_err(|error| UbiError::Refused { peb, error })
}

/// Whether there are data behind a damaged volume header, and no sign of an interrupted erase.
fn holds_data<M: Mtd>(flash: &mut Flash<M>, peb: u32) -> Result<bool, MtdError> {
    let mut data = vec![0; flash.shape.leb_bytes as usize];
    let Seen { flips, damaged } = flash.read_data(peb, 0, &mut data)?;
    Ok(!flips && !damaged && data.iter().any(|&byte| byte != 0xFF))
}

/// A block with two sound headers, or a sound volume header at least.
fn sort<M: Mtd>(
    flash: &mut Flash<M>,
    found: &mut Found,
    leb: FoundLeb,
    vid: VidHeader,
) -> Result<(), UbiError> {
    let loose = Loose::new(leb.peb, leb.ec);
    if vid.is_internal() && vid.volume != LAYOUT_VOLUME {
        found.max_sqnum = found.max_sqnum.max(vid.sqnum);
        let ours = [FM_SB_VOLUME, FM_DATA_VOLUME].contains(&vid.volume)
            || LOG_VOLUMES.contains(&vid.volume);
        match Compat::of(vid.compat) {
            _ if ours => found.memory.push((loose, vid)),
            Some(Compat::Delete) => found.erase.push(loose),
            Some(Compat::ReadOnly) => {
                found.read_only = true;
                found.alien.push(loose);
            }
            Some(Compat::Preserve) => found.alien.push(loose),
            Some(Compat::Reject) | None => {
                let error =
                    value(8, "incompatible internal volume", vid.volume, LAYOUT_VOLUME).err();
                return error.map_or(Ok(()), |error| {
                    Err(UbiError::Refused {
                        peb: leb.peb,
                        error,
                    })
                });
            }
        }
    } else {
        found.add(flash, leb, vid)?;
    }
    found.count_ec(leb.ec);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flash_without_ubi_may_have_two_blocks_that_are_not_erased() {
        let judged = |maybe_bad: u32, others: u32| {
            let found = Found {
                maybe_bad,
                empty: 100 - maybe_bad - others,
                ..Found::default()
            };
            judge(&found, 100).is_ok()
        };
        assert!(judged(2, 0) && !judged(3, 0));
        assert!(judged(3, 1), "it has blocks of UBI");
    }

    #[test]
    fn fewer_than_a_twentieth_of_the_blocks_may_be_damaged_but_always_seven() {
        let block = Loose {
            peb: 0,
            ec: None,
            torture: false,
            doubtful: false,
        };
        for (pebs, most) in [(100, 4), (1000, 49), (19, 7), (20, 0)] {
            let judged = |damaged: usize| {
                let found = Found {
                    corrupted: vec![block; damaged],
                    ..Found::default()
                };
                judge(&found, pebs).is_ok()
            };
            assert!(judged(most) && !judged(most + 1), "{pebs}");
        }
    }
}
