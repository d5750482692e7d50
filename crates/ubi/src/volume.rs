//! Volumes: made, removed, resized, renamed.
//!
//! *Power loss.* The table is written in two copies, one after the other, each whole or not at all;
//! a cut leaves the table before or after. A volume's blocks go after its record, and come before
//! it.

use crate::Ubi;
use crate::attach::FoundVolume;
use crate::device::empty_map;
use crate::error::{UbiError, require};
use crate::format::{FLAG_AUTORESIZE, LAYOUT_VOLUME, NAME_MAX, Record, VolumeKind, slots};
use crate::update::Update;
use alloc::{string::String, vec, vec::Vec};
use nandlab_mtd::Mtd;

/// A volume in memory.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub record: Record,
    pub map: Vec<Option<u32>>,
    /// Logical blocks whose mapping a fastmap says and no header has confirmed yet; empty where all
    /// are sure.
    pub unsure: Vec<bool>,
    /// Logical blocks with contents, of a static volume.
    pub used_ebs: u32,
    /// Bytes in the last of them.
    pub last_bytes: u32,
    /// Blocks of a static volume are missing.
    pub corrupted: bool,
    pub update: Option<Update>,
}

impl Volume {
    /// As the table has it, with the blocks that were found.
    pub fn of(record: Record, found: Option<&FoundVolume>, unsure: bool) -> Self {
        let reserved = record.reserved;
        let (used_ebs, last_bytes, count) = found.map_or((0, 0, 0), |found| {
            (found.used_ebs, found.last_bytes, found.lebs.len() as u32)
        });
        Self {
            corrupted: record.kind == VolumeKind::Static && count != used_ebs,
            map: empty_map(reserved),
            unsure: if unsure {
                vec![true; reserved as usize]
            } else {
                Vec::new()
            },
            used_ebs,
            last_bytes,
            update: None,
            record,
        }
    }

    /// Bytes of one of its logical blocks.
    pub fn leb_bytes(&self, whole: u32) -> u32 {
        whole - self.record.data_pad
    }
}

/// A volume to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its id; none takes the first that is free.
    pub id: Option<u32>,
    /// The name of the volume.
    pub name: String,
    /// The type of the volume: static or dynamic.
    pub kind: VolumeKind,
    /// Logical blocks, each an erase block of the device.
    pub lebs: u32,
    /// The length of its logical blocks is a multiple of this, in bytes; 0 is 1.
    pub alignment: u32,
    /// Flag bits, such as [`crate::format::FLAG_SKIP_CHECK`].
    pub flags: u8,
}

/// A volume in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The id of the volume.
    pub id: u32,
    /// As the table has it.
    pub record: Record,
    /// Bytes of a logical block.
    pub leb_bytes: u32,
    /// Bytes of its contents: all of a dynamic volume, what was written of a static one.
    pub used_bytes: u64,
    /// Blocks of a static volume are missing.
    pub corrupted: bool,
    /// Logical blocks that have a physical one, as far as they are known: see
    /// [`crate::Commit::Incremental`].
    pub mapped: u32,
}

impl VolumeSpec {
    /// As a record, on a device with logical blocks of `leb_bytes` and that write unit.
    pub(crate) fn record(&self, leb_bytes: u32, write_unit: u32) -> Result<Record, UbiError> {
        let alignment = self.alignment.max(1);
        let fits =
            alignment <= leb_bytes && (alignment == 1 || alignment.is_multiple_of(write_unit));
        require(
            fits,
            "alignment",
            alignment.into(),
            "1, or write units up to a logical block",
        )?;
        check_name(&self.name)?;
        require(
            self.lebs > 0,
            "logical blocks",
            self.lebs.into(),
            "1 or more",
        )?;
        require(
            self.flags & FLAG_AUTORESIZE == 0 || self.kind == VolumeKind::Dynamic,
            "flags",
            self.flags.into(),
            "no automatic size of a static volume",
        )?;
        let data_pad = leb_bytes % alignment;
        require(
            data_pad < leb_bytes / 2,
            "alignment",
            alignment.into(),
            "more than half of a logical block used",
        )?;
        Ok(Record {
            reserved: self.lebs,
            alignment,
            data_pad,
            kind: self.kind,
            updating: false,
            name: self.name.clone(),
            flags: self.flags,
        })
    }
}

fn check_name(name: &str) -> Result<(), UbiError> {
    let fine = (1..=NAME_MAX).contains(&name.len()) && !name.contains('\0');
    require(
        fine,
        "bytes of a volume's name",
        name.len() as u64,
        "1 to 127, none of them 0",
    )
}

impl<M: Mtd> Ubi<M> {
    /// Every volume, by id.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        self.volumes
            .keys()
            .filter(|id| **id != LAYOUT_VOLUME)
            .filter_map(|&id| self.volume(id).ok())
            .collect()
    }

    /// Describes the volume with this id.
    pub fn volume(&self, id: u32) -> Result<VolumeInfo, UbiError> {
        let volume = self.find(id)?;
        let leb_bytes = volume.leb_bytes(self.flash.shape.leb_bytes);
        let used_bytes = match volume.record.kind {
            VolumeKind::Dynamic => u64::from(volume.record.reserved) * u64::from(leb_bytes),
            VolumeKind::Static => {
                u64::from(volume.used_ebs.saturating_sub(1)) * u64::from(leb_bytes)
                    + u64::from(volume.last_bytes)
            }
        };
        let mapped = volume.map.iter().flatten().count() as u32;
        Ok(VolumeInfo {
            id,
            record: volume.record.clone(),
            leb_bytes,
            used_bytes,
            corrupted: volume.corrupted,
            mapped,
        })
    }

    /// The id of the volume with that name.
    pub fn find_volume(&self, name: &str) -> Option<u32> {
        let named = |(id, volume): (&u32, &Volume)| {
            (*id != LAYOUT_VOLUME && volume.record.name == name).then_some(*id)
        };
        self.volumes.iter().find_map(named)
    }

    pub(crate) fn find(&self, id: u32) -> Result<&Volume, UbiError> {
        self.volumes.get(&id).ok_or(UbiError::NoVolume(id))
    }

    /// A volume of the user's.
    fn user(&mut self, id: u32) -> Result<&mut Volume, UbiError> {
        let found = if id == LAYOUT_VOLUME {
            None
        } else {
            self.volumes.get_mut(&id)
        };
        found.ok_or(UbiError::NoVolume(id))
    }

    /// Makes a volume; durable on return. Gives its id.
    pub fn create_volume(&mut self, spec: &VolumeSpec) -> Result<u32, UbiError> {
        self.writable()?;
        let record = spec.record(self.flash.shape.leb_bytes, self.flash.shape.page)?;
        let id = self.free_id(spec.id)?;
        if let Some(taken) = self.find_volume(&spec.name) {
            return Err(UbiError::NameTaken(taken));
        }
        self.take(record.reserved)?;
        // What is left of a volume that had the id before must not come back in this one.
        self.wake_all()?;
        self.flush_erases()?;
        self.volumes.insert(id, Volume::of(record, None, false));
        self.write_table()?;
        Ok(id)
    }

    fn free_id(&self, wanted: Option<u32>) -> Result<u32, UbiError> {
        let slots = slots(self.flash.shape.leb_bytes);
        let free = (0..slots).find(|id| !self.volumes.contains_key(id));
        let id = wanted.or(free).ok_or(UbiError::TableFull(slots))?;
        require(
            id < slots && !self.volumes.contains_key(&id),
            "volume id",
            id.into(),
            "a free slot of the volume table",
        )?;
        Ok(id)
    }

    fn take(&mut self, blocks: u32) -> Result<(), UbiError> {
        if blocks > self.available {
            return Err(UbiError::NoSpace {
                needed: blocks,
                available: self.available,
            });
        }
        self.available -= blocks;
        Ok(())
    }

    fn give_back(&mut self, blocks: u32) {
        self.available += blocks;
        self.top_up_spare();
    }

    /// Removes a volume and its contents; durable on return.
    pub fn remove_volume(&mut self, id: u32) -> Result<(), UbiError> {
        self.writable()?;
        self.user(id)?;
        self.wake_all()?;
        // The record goes first: blocks of a volume without one are erased by the next attach.
        self.write_table_copies(Some(id))?;
        let Some(volume) = self.volumes.remove(&id) else {
            return Err(UbiError::NoVolume(id));
        };
        volume
            .map
            .iter()
            .flatten()
            .for_each(|&peb| self.wear.queue(peb, false));
        self.give_back(volume.record.reserved);
        self.volumes_changed()?;
        self.sync()
    }

    /// Gives a volume another number of logical blocks; what lies behind is lost. Durable on
    /// return.
    pub fn resize_volume(&mut self, id: u32, lebs: u32) -> Result<(), UbiError> {
        self.writable()?;
        let volume = self.user(id)?;
        let old = volume.record.reserved;
        let used = volume.used_ebs;
        require(
            lebs > 0 && (volume.record.kind == VolumeKind::Dynamic || lebs >= used),
            "logical blocks",
            lebs.into(),
            "1 or more, and space for what a static volume holds",
        )?;
        self.wake_all()?;
        if lebs > old {
            self.take(lebs - old)?;
        } else {
            for lnum in lebs..old {
                self.unmap_any(id, lnum)?;
            }
            self.flush_erases()?;
        }
        let volume = self.user(id)?;
        volume.record.reserved = lebs;
        volume.map.resize(lebs as usize, None);
        if !volume.unsure.is_empty() {
            volume.unsure.resize(lebs as usize, false);
        }
        self.write_table()?;
        self.give_back(old.saturating_sub(lebs));
        Ok(())
    }

    /// Gives volumes other names, all of them or, at a power cut, none. A name may pass from one of
    /// them to another.
    pub fn rename_volumes(&mut self, names: &[(u32, &str)]) -> Result<(), UbiError> {
        self.writable()?;
        for (i, &(id, name)) in names.iter().enumerate() {
            self.user(id)?;
            check_name(name)?;
            let twice = names[..i]
                .iter()
                .any(|&(other, taken)| other == id || taken == name);
            require(
                !twice,
                "renamed volume",
                id.into(),
                "each volume and each name once",
            )?;
            match self.find_volume(name) {
                Some(taken) if !names.iter().any(|&(other, _)| other == taken) => {
                    return Err(UbiError::NameTaken(taken));
                }
                _ => {}
            }
        }
        for &(id, name) in names {
            self.user(id)?.record.name = name.into();
        }
        self.write_table()
    }

    /// Gives all available blocks to the volume that asks for them (`autoresize`,
    /// drivers/mtd/ubi/build.c).
    pub(crate) fn autoresize(&mut self) -> Result<(), UbiError> {
        let asks = |(id, volume): (&u32, &Volume)| {
            (volume.record.flags & FLAG_AUTORESIZE != 0).then_some(*id)
        };
        let Some(id) = self.volumes.iter().find_map(asks) else {
            return Ok(());
        };
        let available = self.available;
        let volume = self.user(id)?;
        volume.record.flags &= !FLAG_AUTORESIZE;
        let lebs = volume.record.reserved + available;
        self.resize_volume(id, lebs)
    }
}
