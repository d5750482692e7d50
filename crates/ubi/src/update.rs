//! Writing a volume whole: while that is under way the table says so, and a volume in which it was
//! not finished has no contents.

use crate::Ubi;
use crate::error::{UbiError, require};
use crate::format::{LAYOUT_VOLUME, VolumeKind, data_length};
use alloc::vec::Vec;
use nandlab_mtd::Mtd;

/// An update under way.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) total: u64,
    received: u64,
    /// The logical block that is being filled.
    part: Vec<u8>,
}

impl<M: Mtd> Ubi<M> {
    /// Begins to write a volume: its contents go, `bytes` are to follow. With none the volume is
    /// empty at once.
    pub fn start_update(&mut self, id: u32, bytes: u64) -> Result<(), UbiError> {
        self.writable()?;
        let leb_bytes = self.find(id)?.leb_bytes(self.flash.shape.leb_bytes);
        let lebs = self.find(id)?.record.reserved;
        require(
            id != LAYOUT_VOLUME,
            "volume",
            id.into(),
            "one of the user's",
        )?;
        require(
            bytes <= u64::from(lebs) * u64::from(leb_bytes),
            "bytes",
            bytes,
            "no more than the volume holds",
        )?;
        self.mark_update(id, true)?;
        for lnum in 0..lebs {
            self.unmap_any(id, lnum)?;
        }
        // What was there before must not come back beside what comes: static volumes' blocks agree
        // on how many there are.
        self.flush_erases()?;
        self.begin_update(id, bytes);
        if bytes == 0 {
            self.finish_update(id)
        } else {
            Ok(())
        }
    }

    fn begin_update(&mut self, id: u32, total: u64) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            (volume.used_ebs, volume.last_bytes, volume.corrupted) = (0, 0, false);
            volume.update = Some(Update {
                total,
                received: 0,
                part: Vec::new(),
            });
        }
    }

    /// Goes on with an update. True: all bytes are there, and the volume is whole and durable.
    pub fn write_update(&mut self, id: u32, data: &[u8]) -> Result<bool, UbiError> {
        self.writable()?;
        let leb_bytes = self.find(id)?.leb_bytes(self.flash.shape.leb_bytes) as usize;
        let Some(mut update) = self
            .volumes
            .get_mut(&id)
            .and_then(|volume| volume.update.take())
        else {
            return Err(UbiError::Invalid {
                what: "volume",
                found: id.into(),
                expected: "one that is being updated",
            });
        };
        let fits = update.received + data.len() as u64 <= update.total;
        let mut rest = if fits { data } else { &[] };
        let mut written = Ok(());
        while !rest.is_empty() && written.is_ok() {
            let (now, later) = rest.split_at(rest.len().min(leb_bytes - update.part.len()));
            update.part.extend_from_slice(now);
            update.received += now.len() as u64;
            rest = later;
            if update.part.len() == leb_bytes || update.received == update.total {
                written = self.write_part(id, &update, leb_bytes as u64);
                update.part.clear();
            }
        }
        let done = update.received == update.total;
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.update = Some(update);
        }
        written?;
        require(
            fits,
            "bytes",
            data.len() as u64,
            "no more than were announced",
        )?;
        if done {
            self.finish_update(id)?;
        }
        Ok(done)
    }

    fn write_part(&mut self, id: u32, update: &Update, leb_bytes: u64) -> Result<(), UbiError> {
        let lnum = ((update.received - 1) / leb_bytes) as u32;
        let used = update.total.div_ceil(leb_bytes) as u32;
        match self.find(id)?.record.kind {
            VolumeKind::Static => self.write_static(id, lnum, &update.part, used),
            VolumeKind::Dynamic => {
                let unit = self.flash.shape.page as usize;
                let mut data = update.part.clone();
                data.resize(data.len().next_multiple_of(unit), 0xFF);
                data.truncate(data_length(&data, unit));
                // What is erased anyway is not programmed: it could not be programmed again.
                if data.is_empty() {
                    Ok(())
                } else {
                    self.write_any(id, lnum, 0, &data)
                }
            }
        }
    }

    fn finish_update(&mut self, id: u32) -> Result<(), UbiError> {
        self.flush_erases()?;
        let leb_bytes = u64::from(self.find(id)?.leb_bytes(self.flash.shape.leb_bytes));
        if let Some(volume) = self.volumes.get_mut(&id)
            && let Some(update) = volume.update.take()
            && volume.record.kind == VolumeKind::Static
        {
            volume.used_ebs = update.total.div_ceil(leb_bytes) as u32;
            volume.last_bytes =
                (update.total - u64::from(volume.used_ebs.saturating_sub(1)) * leb_bytes) as u32;
            self.static_changed()?;
        }
        self.mark_update(id, false)
    }

    fn mark_update(&mut self, id: u32, updating: bool) -> Result<(), UbiError> {
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.record.updating = updating;
        }
        self.write_table()
    }
}
