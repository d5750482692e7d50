//! UBI by its headers alone, without attaching it: what is wrong where, older copies of logical
//! blocks, and volumes as far as they can be had where no attach succeeds.
//!
//! *Promises.* Nothing is written. Of several blocks for one logical block the one with the largest
//! sequence number counts, unless it is an unfinished copy (`drivers/mtd/ubi/attach.c`); or, on
//! request, the one that did when a given number was the last. Memory is a constant for each erase
//! block, and one of them. *Knows nothing of* devices without headers.

use crate::check::{Checked, Finding, Severity};
use crate::error::{ImageError, Result};
use nandlab_mtd::{Block, Corrected, Mtd, MtdError, Page};
use nandlab_sim::{Backing, BackingError};
use nandlab_ubi::format::{
    EcHeader, HEADER_BYTES, LAYOUT_LEBS, LAYOUT_VOLUME, Parsed, RECORD_BYTES, Record, TableLimits,
    VidHeader, VolumeKind, crc, parse_table, slots,
};
use nandlab_ubi::{Headers, Shape};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most erased blocks that are added to an image that is shorter than the flash it is meant
/// for.
pub(crate) const BLOCKS_ADDED_MAX: u64 = 65_536;

/// A physical block that holds, or once held, a logical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The number of the physical erase block.
    pub peb: u32,
    /// The block's volume identifier header.
    pub vid: VidHeader,
    /// Whether the data have the checksum that the header promises; nothing where it promises none.
    pub sound: Option<bool>,
}

/// The place of a page in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub volume: u32,
    pub leb: u32,
    /// Bytes from the beginning of the logical block.
    pub offset: u64,
}

/// A version of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Counts all headers that were written.
    pub sequence: u64,
    /// The id of the volume.
    pub volume: u32,
    /// The number of the logical erase block.
    pub leb: u32,
    /// Where it lies in the data of the flash, in bytes.
    pub offset: u64,
    /// Whether it is the one that counts.
    pub current: bool,
    /// Whether its checksum is right; nothing where it has none.
    pub sound: Option<bool>,
}

/// What the headers say.
#[derive(Debug)]
pub struct Survey {
    /// Where everything lies in a block.
    pub shape: Shape,
    /// The volumes of the table; where no table is left, those that blocks name.
    pub volumes: BTreeMap<u32, Record>,
    /// The number that all blocks of the image have.
    pub image_seq: u32,
    /// Erase counters: least and greatest.
    pub erases: (u32, u32),
    /// The findings of the survey.
    pub checked: Checked,
    /// By volume and logical block, newest first.
    held: BTreeMap<(u32, u32), Vec<Held>>,
    /// Blocks with an erase counter and nothing else in their headers.
    free: Vec<u32>,
    bad: Vec<u32>,
}

fn failed(why: impl ToString) -> ImageError {
    ImageError::Open {
        layer: "UBI",
        why: why.to_string(),
    }
}

impl Survey {
    /// Looks at every block of flash whose volume headers lie at `vid`. Headers with larger
    /// sequence numbers than `until` do not count.
    pub fn read(mtd: &mut dyn Mtd, vid: u32, until: Option<u64>) -> Result<Self> {
        let shape = Shape::new(mtd.geometry(), Headers::At(vid)).map_err(failed)?;
        let mut survey = Self {
            shape,
            volumes: BTreeMap::new(),
            image_seq: 0,
            erases: (u32::MAX, 0),
            checked: Checked::default(),
            held: BTreeMap::new(),
            free: Vec::new(),
            bad: Vec::new(),
        };
        let mut bytes = Vec::new();
        for peb in 0..shape.pebs {
            if mtd.is_bad(Block(peb)).map_err(failed)? {
                survey.bad.push(peb);
                continue;
            }
            bytes.resize(shape.data_offset as usize, 0);
            let whole = read(mtd, &shape, peb, 0, &mut bytes).map_err(failed)?;
            survey.block(mtd, peb, &bytes, whole, until.unwrap_or(u64::MAX))?;
        }
        survey
            .held
            .values_mut()
            .for_each(|held| held.sort_by_key(|one| std::cmp::Reverse((one.vid.sqnum, one.peb))));
        survey.tables(mtd)?;
        survey.judge();
        Ok(survey)
    }

    /// Looks for bytes in free blocks. Linux does not, and programs these blocks as they are.
    pub fn find_unerased(&mut self, mtd: &mut dyn Mtd) -> Result<()> {
        let mut data = vec![0; self.shape.leb_bytes as usize];
        for peb in self.free.clone() {
            let whole = read(mtd, &self.shape, peb, self.shape.data_offset, &mut data);
            let whole = whole.map_err(failed)?;
            if !whole || data.iter().any(|byte| *byte != 0xFF) {
                let what =
                    "the block is free, but it is not erased: Linux programs it all the same";
                self.find(Severity::Waste, peb, what.into());
            }
        }
        Ok(())
    }

    fn find(&mut self, severity: Severity, peb: u32, what: String) {
        let at = u64::from(peb) * u64::from(self.shape.peb_bytes);
        self.checked.add(Finding::new(
            severity,
            Some(at),
            format!("PEB {peb}, byte {at:#x}: {what}"),
        ));
    }

    fn block(
        &mut self,
        mtd: &mut dyn Mtd,
        peb: u32,
        bytes: &[u8],
        whole: bool,
        until: u64,
    ) -> Result<()> {
        let shape = self.shape;
        if !whole {
            self.find(Severity::Waste, peb, "headers beyond correction".into());
        }
        let ec = EcHeader::parse(&bytes[..HEADER_BYTES]);
        let vid = VidHeader::parse(
            &bytes[shape.vid_offset as usize..][..HEADER_BYTES],
            shape.leb_bytes,
        );
        match &ec {
            Parsed::Good(header) => {
                self.counter(peb, header);
                if vid == Parsed::Empty {
                    self.free.push(peb);
                }
            }
            Parsed::Empty if vid == Parsed::Empty => {}
            Parsed::Empty => self.uncounted(peb, &vid),
            Parsed::Damaged(error) | Parsed::Refused(error) => self.find(
                Severity::Waste,
                peb,
                format!("erase-counter header: {error}"),
            ),
        }
        match vid {
            Parsed::Good(vid) if vid.sqnum <= until => {
                let sound = self.data_sound(mtd, peb, &vid)?;
                self.held
                    .entry((vid.volume, vid.lnum))
                    .or_default()
                    .push(Held { peb, vid, sound });
            }
            Parsed::Good(_) | Parsed::Empty => {}
            Parsed::Damaged(error) | Parsed::Refused(error) => {
                let mut data = vec![0; shape.leb_bytes as usize];
                read(mtd, &shape, peb, shape.data_offset, &mut data).map_err(failed)?;
                let empty = data.iter().all(|byte| *byte == 0xFF);
                let (severity, behind) = if empty {
                    (Severity::Note, "no data")
                } else {
                    (Severity::Damage, "data")
                };
                self.find(
                    severity,
                    peb,
                    format!("volume header: {error}; {behind} behind it"),
                );
            }
        }
        Ok(())
    }

    /// A block without an erase counter and with a volume header.
    fn uncounted(&mut self, peb: u32, vid: &Parsed<VidHeader>) {
        let what = "no erase-counter header";
        match vid {
            Parsed::Good(VidHeader { volume, lnum, .. }) => self.find(
                Severity::Damage,
                peb,
                format!("{what}: Linux erases the block, with volume {volume}, LEB {lnum}"),
            ),
            _ => self.find(Severity::Waste, peb, what.into()),
        }
    }

    fn counter(&mut self, peb: u32, header: &EcHeader) {
        let Shape {
            vid_offset,
            data_offset,
            ..
        } = self.shape;
        self.erases = (self.erases.0.min(header.ec), self.erases.1.max(header.ec));
        for (what, found, expected) in [
            ("volume header", header.vid_offset, vid_offset),
            ("data", header.data_offset, data_offset),
        ] {
            if found != expected {
                self.find(
                    Severity::Damage,
                    peb,
                    format!("the {what} are said to be at byte {found}, expected {expected}"),
                );
            }
        }
        let known = self.image_seq;
        match header.image_seq {
            0 => {}
            found if known == 0 => self.image_seq = found,
            found if found != known => self.find(
                Severity::Waste,
                peb,
                format!("belongs to image {found:#x}, expected {known:#x}"),
            ),
            _ => {}
        }
    }

    fn data_sound(&mut self, mtd: &mut dyn Mtd, peb: u32, vid: &VidHeader) -> Result<Option<bool>> {
        if vid.kind == VolumeKind::Dynamic && !vid.copy {
            return Ok(None);
        }
        let mut data = vec![0; vid.data_size as usize];
        let whole =
            read(mtd, &self.shape, peb, self.shape.data_offset, &mut data).map_err(failed)?;
        let found = crc(&data);
        if !whole || found != vid.data_crc {
            let volume = vid.volume;
            let leb = vid.lnum;
            let expected = vid.data_crc;
            // An unfinished copy has the original beside it: judged when all is known.
            let severity = if vid.kind == VolumeKind::Static && !vid.copy {
                Severity::Damage
            } else {
                Severity::Note
            };
            self.find(severity, peb, format!("volume {volume}, LEB {leb}: checksum of the data is {found:#x}, expected {expected:#x}"));
            return Ok(Some(false));
        }
        Ok(Some(true))
    }

    /// The volume table, by the first of its copies that is whole.
    fn tables(&mut self, mtd: &mut dyn Mtd) -> Result<()> {
        let Shape {
            leb_bytes, page, ..
        } = self.shape;
        let limits = TableLimits {
            leb_bytes,
            write_unit: page,
            good: i32::MAX as u32,
        };
        let mut tables = Vec::new();
        for lnum in 0..LAYOUT_LEBS {
            let Some(held) = self.current(LAYOUT_VOLUME, lnum) else {
                self.checked.add(Finding::new(
                    Severity::Waste,
                    None,
                    format!("copy {lnum} of the volume table: no block, expected one"),
                ));
                continue;
            };
            let mut bytes = vec![0; slots(leb_bytes) as usize * RECORD_BYTES];
            read(
                mtd,
                &self.shape,
                held.peb,
                self.shape.data_offset,
                &mut bytes,
            )
            .map_err(failed)?;
            match parse_table(&bytes, &limits) {
                Ok(records) => tables.push((held.peb, records)),
                Err(error) => self.find(
                    Severity::Waste,
                    held.peb,
                    format!("copy {lnum} of the volume table: {error}"),
                ),
            }
        }
        if let [(_, first), (peb, second)] = &tables[..]
            && first != second
        {
            self.find(
                Severity::Note,
                *peb,
                "the copies of the volume table differ; the first counts".into(),
            );
        }
        match tables.into_iter().next() {
            Some((_, records)) => {
                self.volumes = (0..)
                    .zip(records)
                    .filter_map(|(id, record)| Some((id, record?)))
                    .collect();
            }
            None => {
                let what = "no copy of the volume table is whole, expected 1 or 2".into();
                self.checked.add(Finding::new(Severity::Damage, None, what));
                self.volumes_by_blocks();
            }
        }
        Ok(())
    }

    fn volumes_by_blocks(&mut self) {
        for ((id, lnum), held) in &self.held {
            let Some(one) = held.first().filter(|one| !one.vid.is_internal()) else {
                continue;
            };
            let record = self.volumes.entry(*id).or_default();
            let reserved = record
                .reserved
                .max(lnum.saturating_add(1))
                .max(one.vid.used_ebs);
            // More than there are blocks is not believed.
            let reserved = reserved.min(self.shape.pebs);
            *record = Record {
                reserved,
                alignment: 1,
                data_pad: one.vid.data_pad,
                kind: one.vid.kind,
                name: id.to_string(),
                ..Record::default()
            };
        }
    }

    /// What only all blocks together tell.
    fn judge(&mut self) {
        let mut found = Vec::new();
        for ((id, lnum), held) in &self.held {
            let internal = held[0].vid.is_internal();
            let newest = held[0];
            match self.volumes.get(id) {
                None if !internal => found.push((
                    Severity::Note,
                    newest.peb,
                    format!("volume {id}, LEB {lnum}: a volume that is not in the table"),
                )),
                Some(record) if *lnum >= record.reserved => found.push((
                    Severity::Note,
                    newest.peb,
                    format!(
                        "volume {id}, LEB {lnum}: expected below {}",
                        record.reserved
                    ),
                )),
                Some(record) if record.kind != newest.vid.kind => {
                    let what = format!(
                        "volume {id}, LEB {lnum}: {:?}, expected {:?}",
                        newest.vid.kind, record.kind
                    );
                    found.push((Severity::Damage, newest.peb, what));
                }
                _ => {}
            }
            if held.iter().all(|one| one.sound == Some(false)) && newest.vid.copy {
                found.push((
                    Severity::Damage,
                    newest.peb,
                    format!("volume {id}, LEB {lnum}: an unfinished copy, and no original"),
                ));
            }
            for old in &held[1..] {
                let what = format!(
                    "volume {id}, LEB {lnum}: another copy, of sequence number {} beside {}",
                    old.vid.sqnum, newest.vid.sqnum
                );
                found.push((Severity::Note, old.peb, what));
            }
        }
        found
            .into_iter()
            .for_each(|(severity, peb, what)| self.find(severity, peb, what));
        let reserved = self
            .volumes
            .values()
            .map(|record| u64::from(record.reserved))
            .sum::<u64>()
            + u64::from(LAYOUT_LEBS);
        let blocks = self.shape.pebs as usize - self.bad.len();
        if reserved > blocks as u64 {
            // What ubinize makes has only blocks with contents; what was cut off a dynamic volume
            // leaves no other trace.
            let what = format!(
                "volumes reserve {reserved} blocks, of which {blocks} are here: expected of an image to be flashed, or one cut short"
            );
            self.checked.add(Finding::new(Severity::Note, None, what));
        }
        let missing: Vec<_> = self
            .volumes
            .iter()
            .flat_map(|(id, record)| self.missing(*id, record))
            .collect();
        missing
            .into_iter()
            .for_each(|finding| self.checked.add(finding));
    }

    fn missing(&self, id: u32, record: &Record) -> Vec<Finding> {
        let finding = |what: String| {
            Finding::new(
                Severity::Damage,
                None,
                format!("volume {id} ({}): {what}", record.name),
            )
        };
        let mut findings = Vec::new();
        if record.updating {
            findings.push(finding("an update was begun and not finished".into()));
        }
        if record.kind == VolumeKind::Static {
            let used = self.used_lebs(id).min(self.shape.pebs);
            let gone = (0..used).filter(|lnum| self.current(id, *lnum).is_none());
            findings.extend(
                gone.map(|lnum| finding(format!("LEB {lnum}: no block, expected {used} of them"))),
            );
        }
        findings
    }

    /// Logical blocks that the contents of a static volume take.
    fn used_lebs(&self, id: u32) -> u32 {
        self.held
            .range((id, 0)..=(id, u32::MAX))
            .find_map(|(_, held)| held.first())
            .map_or(0, |one| one.vid.used_ebs)
    }

    /// The physical block that counts.
    pub fn current(&self, volume: u32, lnum: u32) -> Option<Held> {
        let held = self.held.get(&(volume, lnum))?;
        // An unfinished copy counts only where there is nothing else.
        held.iter()
            .find(|one| !(one.vid.copy && one.sound == Some(false)))
            .or(held.first())
            .copied()
    }

    /// Every version of every logical block of volumes that are the user's, oldest first.
    pub fn versions(&self) -> Vec<Version> {
        let mut versions = Vec::new();
        for ((volume, leb), held) in self
            .held
            .iter()
            .filter(|(_, held)| !held[0].vid.is_internal())
        {
            let current = self.current(*volume, *leb).map(|one| one.peb);
            versions.extend(held.iter().map(|one| Version {
                sequence: one.vid.sqnum,
                volume: *volume,
                leb: *leb,
                offset: u64::from(one.peb) * u64::from(self.shape.peb_bytes),
                current: current == Some(one.peb),
                sound: one.sound,
            }));
        }
        versions.sort_by_key(|version| (version.sequence, version.offset));
        versions
    }

    /// What a page of a physical block holds, if that is the current block of a logical one and
    /// the page lies in its data.
    pub(crate) fn owner(&self, peb: u32, page: u32) -> Option<Owner> {
        let at = page.checked_mul(self.shape.page)?;
        let offset = at.checked_sub(self.shape.data_offset)?;
        let is_current = |held: &[Held], id: u32, lnum: u32| {
            held.iter().any(|one| one.peb == peb)
                && self.current(id, lnum).is_some_and(|one| one.peb == peb)
        };
        let mut held = self.held.iter();
        let found = held.find(|((id, lnum), held)| is_current(held, *id, *lnum));
        found.map(|((volume, leb), _)| Owner {
            volume: *volume,
            leb: *leb,
            offset: offset.into(),
        })
    }

    /// Returns the numbers of the bad blocks.
    pub fn bad(&self) -> &[u32] {
        &self.bad
    }

    /// Logical blocks of a volume that are there.
    pub fn mapped(&self, id: u32) -> u32 {
        self.held.range((id, 0)..=(id, u32::MAX)).count() as u32
    }

    /// More logical blocks than any flash to which this image may belong has.
    pub fn lebs_max(&self) -> u64 {
        u64::from(self.shape.pebs) + BLOCKS_ADDED_MAX
    }

    /// A volume as bytes.
    pub fn assemble<M: Mtd>(&self, medium: M, id: u32) -> Option<Assembled<M>> {
        let record = self.volumes.get(&id)?;
        let leb_bytes = self
            .shape
            .leb_bytes
            .checked_sub(record.data_pad)
            .filter(|bytes| *bytes > 0)?;
        let lebs = match record.kind {
            VolumeKind::Dynamic => record.reserved,
            VolumeKind::Static => self.used_lebs(id).min(record.reserved),
        };
        let last = lebs
            .checked_sub(1)
            .filter(|_| record.kind == VolumeKind::Static)
            .and_then(|last| self.current(id, last));
        let short = last.map_or(0, |one| {
            u64::from(leb_bytes.saturating_sub(one.vid.data_size))
        });
        let pebs = self
            .held
            .range((id, 0)..(id, lebs))
            .filter_map(|((_, lnum), _)| Some((*lnum, self.current(id, *lnum)?.peb)))
            .collect();
        let len = u64::from(lebs) * u64::from(leb_bytes) - short;
        let page = vec![0; self.shape.page as usize];
        Some(Assembled {
            medium,
            shape: self.shape,
            pebs,
            leb_bytes,
            len,
            page,
        })
    }
}

/// Fills `out` from a place in a physical block on; whether all of it could be corrected.
fn read(
    mtd: &mut dyn Mtd,
    shape: &Shape,
    peb: u32,
    at: u32,
    out: &mut [u8],
) -> std::result::Result<bool, MtdError> {
    let per_block = shape.peb_bytes / shape.page;
    let mut page = at / shape.page;
    let mut within = (at % shape.page) as usize;
    let mut whole = true;
    let mut rest = out;
    let mut cells = vec![0; shape.page as usize];
    while !rest.is_empty() {
        let (now, later) = rest.split_at_mut(rest.len().min(cells.len() - within));
        match mtd.read(Page(peb * per_block + page), &mut cells, &mut []) {
            Ok(Corrected { .. }) => {}
            Err(MtdError::Uncorrectable(_)) => whole = false,
            Err(error) => return Err(error),
        }
        now.copy_from_slice(&cells[within..within + now.len()]);
        (page, within, rest) = (page + 1, 0, later);
    }
    Ok(whole)
}

/// The bytes of a volume: of logical blocks that are not there, erased ones.
#[derive(Debug)]
pub struct Assembled<M> {
    medium: M,
    shape: Shape,
    pebs: BTreeMap<u32, u32>,
    leb_bytes: u32,
    len: u64,
    page: Vec<u8>,
}

impl<M> Assembled<M> {
    /// Bytes of a logical block.
    pub fn leb_bytes(&self) -> u32 {
        self.leb_bytes
    }

    /// Logical blocks up to the last one that is there: behind it all is erased.
    pub fn lebs_held(&self) -> u64 {
        self.pebs
            .last_key_value()
            .map_or(0, |(lnum, _)| u64::from(*lnum) + 1)
    }
}

impl<M: Mtd> Assembled<M> {
    fn leb(&mut self, lnum: u32, at: u32, out: &mut [u8]) -> std::result::Result<(), BackingError> {
        let Some(&peb) = self.pebs.get(&lnum) else {
            out.fill(0xFF);
            return Ok(());
        };
        let Shape {
            page,
            peb_bytes,
            data_offset,
            ..
        } = self.shape;
        let mut at = data_offset + at;
        let mut rest = out;
        while !rest.is_empty() {
            let within = (at % page) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(page as usize - within));
            match self.medium.read(
                Page(peb * (peb_bytes / page) + at / page),
                &mut self.page,
                &mut [],
            ) {
                Ok(_) => now.copy_from_slice(&self.page[within..within + now.len()]),
                Err(MtdError::Uncorrectable(_)) => {
                    return Err(BackingError::Io("bits beyond correction"));
                }
                Err(_) => return Err(BackingError::Io("the flash failed")),
            }
            at += now.len() as u32;
            rest = later;
        }
        Ok(())
    }
}

impl<M: Mtd> Backing for Assembled<M> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), BackingError> {
        let leb = u64::from(self.leb_bytes);
        let outside = BackingError::OutOfRange {
            offset,
            count: buf.len() as u64,
            len: self.len,
        };
        if offset
            .checked_add(buf.len() as u64)
            .is_none_or(|end| end > self.len)
        {
            return Err(outside);
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = at % leb;
            let (now, later) = rest.split_at_mut((rest.len() as u64).min(leb - within) as usize);
            self.leb((at / leb) as u32, within as u32, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> std::result::Result<(), BackingError> {
        Err(BackingError::Io(
            "a volume put together from its blocks is not written",
        ))
    }

    fn sync(&mut self) -> std::result::Result<(), BackingError> {
        Ok(())
    }
}
