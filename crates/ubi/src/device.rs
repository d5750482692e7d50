//! A device: attached from what was found, described, and detached.

use crate::attach::{self, Found, FoundVolume, Loose, Tables};
use crate::cost::list_bytes;
use crate::error::UbiError;
use crate::fastmap::Pools;
use crate::flash::Flash;
use crate::format::{Compat, LAYOUT_LEBS, LAYOUT_VOLUME, Record, VolumeKind, slots};
use crate::log::Log;
use crate::log::format::Super;
use crate::options::SeededBug;
use crate::volume::Volume;
use crate::wear::{State, Wear};
use crate::{AttachCost, Commit, Headers, LogOptions, Memory, Options, Shape};
use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// Erase blocks for a move, and for a change that is not to touch the old contents
/// (`WL_RESERVED_PEBS`, `EBA_RESERVED_PEBS`).
const RESERVED: u32 = 2;

/// What remembers the scan.
#[derive(Debug)]
pub(crate) enum Kept {
    Scan,
    Fastmap(Pools),
    Log(Box<Log>),
}

/// How the device was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// By reading every block's headers.
    Scan,
    /// The fastmap gave the mapping.
    Fastmap,
    /// By UBIL's commit and log.
    Log,
}

/// Logical erase blocks on flash.
#[derive(Debug)]
pub struct Ubi<M> {
    pub(crate) flash: Flash<M>,
    pub(crate) options: Options,
    pub(crate) wear: Wear,
    /// The layout volume among them.
    pub(crate) volumes: BTreeMap<u32, Volume>,
    /// The last sequence number given.
    pub(crate) sqnum: u64,
    /// Erase blocks that no volume has.
    pub(crate) available: u32,
    /// Erase blocks kept for those that go bad, and how many there should be.
    pub(crate) spare: u32,
    pub(crate) bad: u32,
    pub(crate) corrupted: u32,
    /// Blocks with contents that could be neither read nor moved.
    pub(crate) erroneous: u32,
    pub(crate) read_only: Option<&'static str>,
    pub(crate) kept: Kept,
    pub(crate) attached: Attached,
    pub(crate) moves: u64,
    pub(crate) cost: AttachCost,
}

/// A device in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The shape of the flash and its blocks.
    pub shape: Shape,
    /// The image sequence number.
    pub image_seq: u32,
    /// Erase blocks that no volume has.
    pub available: u32,
    /// Erase blocks that are kept for those that go bad.
    pub spare: u32,
    /// Erase blocks that are marked bad.
    pub bad: u32,
    /// Erase blocks that are preserved because a damaged header hides data.
    pub corrupted: u32,
    /// Least, mean and largest erase counter, of the blocks that are known yet.
    pub erases: [u32; 3],
    /// The last sequence number given.
    pub sqnum: u64,
    /// Contents moved since the attach.
    pub moves: u64,
    /// How it was attached.
    pub attached: Attached,
}

impl<M: Mtd> Ubi<M> {
    /// Attaches a device, by the memory that the options name if there is one, otherwise by a scan;
    /// an erased flash becomes an empty device. Interrupted work is finished: copies of the volume
    /// table that differ are made alike, blocks that hold nothing are queued for an erase.
    pub fn attach(mtd: M, options: Options) -> Result<Self, UbiError> {
        let logged = matches!(options.memory, Memory::Log(_));
        if options.headers == Headers::None && !logged {
            return Err(UbiError::Invalid {
                what: "headers",
                found: 0,
                expected: "headers, or UBIL's log instead",
            });
        }
        let shape = Shape::new(mtd.geometry(), options.headers)?;
        let mut flash = Flash::new(mtd, shape, &options);
        let remembered = match options.memory {
            Memory::Scan => None,
            Memory::Fastmap => crate::fastmap::read(&mut flash)?
                .map(|(found, pools)| (found, Kept::Fastmap(pools), Attached::Fastmap)),
            Memory::Log(log) => crate::log::read(&mut flash, log)?
                .map(|(found, log)| (found, Kept::Log(Box::new(log)), Attached::Log)),
        };
        if let Some((found, kept, attached)) = remembered
            && let Ok(tables) = attach::read_tables(&mut flash, &found)
        {
            return Self::assemble(flash, options, found, tables, kept, attached);
        }
        if !shape.has_headers() {
            return Err(UbiError::Medium {
                what: "sound commits",
                found: 0,
                expected: "1 or 2: a device without headers cannot be scanned",
            });
        }
        let found = attach::scan(&mut flash)?;
        let tables = attach::read_tables(&mut flash, &found)?;
        Self::assemble(flash, options, found, tables, Kept::Scan, Attached::Scan)
    }

    pub(crate) fn assemble(
        flash: Flash<M>,
        options: Options,
        mut found: Found,
        tables: Tables,
        kept: Kept,
        attached: Attached,
    ) -> Result<Self, UbiError> {
        let wear = Wear::new(flash.shape.pebs, options.wear_threshold);
        let options = Options {
            memory: kept_as(options.memory, &kept),
            ..options
        };
        let mut ubi = Self {
            wear,
            volumes: BTreeMap::new(),
            sqnum: found.max_sqnum,
            available: 0,
            spare: 0,
            bad: found.bad,
            corrupted: found.corrupted.len() as u32,
            erroneous: 0,
            read_only: found
                .read_only
                .then_some("an internal volume of a newer UBI, or a lost super block"),
            kept,
            attached,
            moves: 0,
            cost: AttachCost::default(),
            flash,
            options,
        };
        ubi.flash.image_seq = if found.image_seq != 0 {
            found.image_seq
        } else {
            options.image_seq
        };
        ubi.wear.set_zone(ubi.zone());
        ubi.sleep();
        ubi.take_volumes(&mut found, &tables.records)?;
        ubi.take_loose(&found)?;
        ubi.reserve(&found)?;
        ubi.take_changes(&mut found);
        ubi.cost = AttachCost {
            peak_bytes: found.memory() + ubi.memory(),
            ..ubi.flash.cost
        };
        if ubi.read_only.is_none() {
            ubi.finish_attach(&found, &tables)?;
        }
        Ok(ubi)
    }

    /// What an attach writes.
    fn finish_attach(&mut self, found: &Found, tables: &Tables) -> Result<(), UbiError> {
        self.forget_old_memory(found)?;
        match self.options.memory {
            Memory::Fastmap if matches!(self.kept, Kept::Scan) => {
                self.kept = Kept::Fastmap(Pools::new(self.flash.shape.pebs))
            }
            Memory::Log(_) if matches!(self.kept, Kept::Scan) => self.begin_log(found)?,
            Memory::Log(_) => self.recommit_if_hurt()?,
            _ => {}
        }
        for &lnum in &tables.repair {
            self.write_table_copy(lnum, None)?;
        }
        self.autoresize()
    }

    fn forget_old_memory(&mut self, found: &Found) -> Result<(), UbiError> {
        // A memory of the flash as it was must not outlive the first change, nor a newer one.
        let mut memory: Vec<_> = found.memory.iter().collect();
        if self.options.seeded_bug != Some(SeededBug::KeepOldMaps) {
            memory.sort_by_key(|(_, vid)| vid.sqnum);
        }
        for (loose, _) in memory {
            if self.wear.state(loose.peb) == State::Queued {
                self.forget_now(loose.peb)?;
            }
        }
        Ok(())
    }

    /// Volumes of the table with the blocks that were found; all other volumes' blocks go.
    fn take_volumes(
        &mut self,
        found: &mut Found,
        records: &[Option<Record>],
    ) -> Result<(), UbiError> {
        let layout = Record {
            reserved: LAYOUT_LEBS,
            alignment: 1,
            kind: VolumeKind::Dynamic,
            name: "layout volume".into(),
            ..Record::default()
        };
        let records = (0..)
            .zip(records)
            .filter_map(|(id, record)| Some((id, record.clone()?)));
        for (id, record) in records.chain([(LAYOUT_VOLUME, layout)]) {
            if let Some(volume) = found.volumes.get(&id) {
                judge_volume(id, &record, volume)?;
            }
            let volume = Volume::of(
                record,
                found.volumes.get(&id),
                self.attached == Attached::Fastmap,
            );
            self.volumes.insert(id, volume);
        }
        self.take_lines(found)?;
        let mean = found.mean_ec();
        let strangers: Vec<u32> = found
            .volumes
            .keys()
            .filter(|id| !self.volumes.contains_key(id))
            .copied()
            .collect();
        strangers.into_iter().for_each(|id| found.drop_volume(id));
        for (id, volume) in &found.volumes {
            let map = &mut self
                .volumes
                .get_mut(id)
                .ok_or(UbiError::Internal("a volume without record"))?
                .map;
            for (lnum, leb) in &volume.lebs {
                self.wear.set_ec(leb.peb, leb.ec.unwrap_or(mean));
                match map.get_mut(*lnum as usize) {
                    // Cut off in the middle of a volume's shrinking.
                    None => found.erase.push(Loose::new(leb.peb, leb.ec)),
                    Some(place) => {
                        *place = Some(leb.peb);
                        self.wear
                            .set(leb.peb, if leb.scrub { State::Scrub } else { State::Used });
                    }
                }
            }
        }
        Ok(())
    }

    fn take_loose(&mut self, found: &Found) -> Result<(), UbiError> {
        let mean = found.mean_ec();
        let memory = found
            .memory
            .iter()
            .map(|(loose, _)| loose)
            .filter(|loose| !self.keeps(loose.peb));
        let erase: Vec<Loose> = memory.chain(&found.erase).copied().collect();
        for (list, state) in [
            (&found.free, State::Free),
            (&erase, State::Queued),
            (&found.corrupted, State::Held),
            (&found.alien, State::Held),
        ] {
            for loose in list {
                self.wear.set_ec(loose.peb, loose.ec.unwrap_or(mean));
                if state == State::Queued {
                    self.wear.queue(loose.peb, loose.torture);
                } else {
                    self.wear.set(loose.peb, state);
                }
                if loose.doubtful && !self.options.trust_free {
                    self.wear.doubt(loose.peb);
                }
            }
        }
        for (loose, _) in &found.memory {
            if self.keeps(loose.peb) {
                self.wear.set_ec(loose.peb, loose.ec.unwrap_or(mean));
            }
        }
        if let Kept::Fastmap(pools) = &self.kept {
            pools
                .blocks
                .iter()
                .for_each(|&(peb, ec)| self.wear.set_ec(peb, ec));
        }
        for peb in 0..self.wear.pebs() {
            if matches!(self.wear.state(peb), State::Held | State::Asleep)
                && self.flash.is_bad(peb)?
            {
                self.wear.set(peb, State::Bad);
            }
        }
        Ok(())
    }

    /// Whether a block belongs to the memory in use.
    fn keeps(&self, peb: u32) -> bool {
        match &self.kept {
            Kept::Scan => false,
            Kept::Fastmap(pools) => pools.blocks.iter().any(|&(block, _)| block == peb),
            Kept::Log(log) => log.owns(peb),
        }
    }

    /// Divides the good blocks: volumes, UBI's own, the spare ones for those that go bad.
    fn reserve(&mut self, found: &Found) -> Result<(), UbiError> {
        let good = self.flash.shape.pebs - self.bad;
        let volumes = self.reserved_lebs();
        let memory = self.memory_blocks()?;
        let needed = volumes
            + u64::from(RESERVED)
            + u64::from(memory)
            + u64::from(self.corrupted)
            + found.alien.len() as u64
            + u64::from(found.asleep);
        if needed > u64::from(good) {
            return Err(UbiError::NoSpace {
                needed: needed.try_into().unwrap_or(u32::MAX),
                available: good,
            });
        }
        self.available = good - needed as u32;
        self.top_up_spare();
        Ok(())
    }

    fn reserved_lebs(&self) -> u64 {
        let volumes = self.volumes.values();
        volumes
            .map(|volume| u64::from(volume.record.reserved))
            .sum()
    }

    /// Blocks that fastmap or log need.
    fn memory_blocks(&self) -> Result<u32, UbiError> {
        Ok(match self.options.memory {
            Memory::Scan => 0,
            Memory::Fastmap => 2 * Pools::blocks_needed(&self.flash.shape),
            Memory::Log(options) => crate::log::blocks_needed(&self.flash.shape, options)?,
        })
    }

    /// Keeps as many spare blocks as there should be, as far as blocks are available.
    pub(crate) fn top_up_spare(&mut self) {
        let pebs = u64::from(self.flash.shape.pebs);
        let limit = (pebs * u64::from(self.options.bad_per_1024)).div_ceil(1024) as u32;
        let wanted = limit
            .saturating_sub(self.bad)
            .saturating_sub(self.spare)
            .min(self.available);
        self.available -= wanted;
        self.spare += wanted;
    }

    /// Everything that was returned from is durable.
    pub fn sync(&mut self) -> Result<(), UbiError> {
        Ok(self.flash.mtd.sync()?)
    }

    /// Finishes all pending work and what the memory needs for a quick attach.
    pub fn finish_work(&mut self) -> Result<(), UbiError> {
        if self.read_only.is_none() {
            self.flush_erases()?;
            self.keep_all()?;
        }
        self.sync()
    }

    /// Calls [`finish_work`](Self::finish_work), and returns the flash.
    pub fn detach(mut self) -> Result<M, UbiError> {
        self.finish_work()?;
        Ok(self.flash.mtd)
    }

    /// Gives the flash back as it is, as a power cut would.
    pub fn into_medium(self) -> M {
        self.flash.mtd
    }

    /// Returns the flash below the device.
    pub fn medium(&self) -> &M {
        &self.flash.mtd
    }

    /// The flash, for adapters that keep books; what it holds is the device's.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.flash.mtd
    }

    /// Whether a block holds a logical one.
    pub fn is_used(&self, peb: u32) -> bool {
        peb < self.wear.pebs()
            && matches!(
                self.wear.state(peb),
                State::Used | State::Protected | State::Scrub | State::Stuck
            )
    }

    /// The device in numbers.
    pub fn info(&self) -> Info {
        let (least, sum, most, count) = self.wear.counters();
        Info {
            shape: self.flash.shape,
            image_seq: self.flash.image_seq,
            available: self.available,
            spare: self.spare,
            bad: self.bad,
            corrupted: self.corrupted,
            erases: [
                least.min(most),
                sum.checked_div(count.into()).unwrap_or(0) as u32,
                most,
            ],
            sqnum: self.sqnum,
            moves: self.moves,
            attached: self.attached,
        }
    }

    /// The erase counter of a block; none if it is bad, or has not been read yet from an
    /// incremental commit.
    pub fn erase_counter(&self, peb: u32) -> Option<u32> {
        (peb < self.wear.pebs() && !matches!(self.wear.state(peb), State::Bad | State::Asleep))
            .then(|| self.wear.ec(peb))
    }

    /// What the attach did.
    pub fn attach_cost(&self) -> AttachCost {
        self.cost
    }

    /// Bytes of memory that the tables take now.
    pub fn memory(&self) -> u64 {
        let volumes = self
            .volumes
            .values()
            .map(|volume| list_bytes(&volume.map) + list_bytes(&volume.unsure))
            .sum::<u64>();
        let kept = match &self.kept {
            Kept::Scan | Kept::Fastmap(_) => 0,
            Kept::Log(log) => log.memory(),
        };
        self.wear.memory() + volumes + kept
    }

    pub(crate) fn writable(&self) -> Result<(), UbiError> {
        self.read_only
            .map_or(Ok(()), |why| Err(UbiError::ReadOnly(why)))
    }

    /// A failure that is not the wear of one block: nothing is written any more.
    pub(crate) fn stop(&mut self, error: MtdError) -> UbiError {
        self.read_only.get_or_insert("the flash failed");
        error.into()
    }

    pub(crate) fn next_sqnum(&mut self) -> u64 {
        self.sqnum += 1;
        self.sqnum
    }

    /// The volume table as on flash, as whole pages, without the volume that is being removed.
    fn table_bytes(&self, without: Option<u32>) -> Vec<u8> {
        let record = |id| {
            self.volumes
                .get(&id)
                .filter(|_| without != Some(id))
                .map(|volume| volume.record.clone())
        };
        let records: Vec<_> = (0..slots(self.flash.shape.leb_bytes)).map(record).collect();
        let mut bytes = crate::format::encode_table(&records);
        bytes.resize(
            bytes.len().next_multiple_of(self.flash.shape.page as usize),
            0,
        );
        bytes
    }

    fn write_table_copy(&mut self, lnum: u32, without: Option<u32>) -> Result<(), UbiError> {
        let bytes = self.table_bytes(without);
        self.change_any(LAYOUT_VOLUME, lnum, &bytes)
    }

    /// Writes both copies of the table.
    pub(crate) fn write_table_copies(&mut self, without: Option<u32>) -> Result<(), UbiError> {
        (0..LAYOUT_LEBS).try_for_each(|lnum| self.write_table_copy(lnum, without))
    }

    /// Writes both copies of the table, and tells what remembers the volumes; durable on return.
    pub(crate) fn write_table(&mut self) -> Result<(), UbiError> {
        self.write_table_copies(None)?;
        self.volumes_changed()?;
        self.sync()
    }
}

/// The memory as the device has it, which decides where its super blocks are and what its commits
/// have.
fn kept_as(memory: Memory, kept: &Kept) -> Memory {
    match (memory, kept) {
        (Memory::Log(options), Kept::Log(log)) => {
            let Super {
                superblock,
                commits: commit,
                ..
            } = log.current;
            let compress = options.compress && commit == Commit::Full;
            Memory::Log(LogOptions {
                superblock,
                commit,
                compress,
                ..options
            })
        }
        (other, _) => other,
    }
}

/// The compatibility byte of a volume's headers.
pub(crate) fn compat(volume: u32) -> u8 {
    if volume == LAYOUT_VOLUME {
        Compat::Reject.code()
    } else {
        0
    }
}

/// A volume's blocks must be of the volume that the table has (`check_av`, drivers/mtd/ubi/vtbl.c).
fn judge_volume(id: u32, record: &Record, found: &FoundVolume) -> Result<(), UbiError> {
    let wrong = |what, found: u64, expected| {
        Err(UbiError::Medium {
            what,
            found,
            expected,
        })
    };
    if id == LAYOUT_VOLUME && found.compat != compat(id) && found.compat != 0 {
        return wrong(
            "compatibility of the layout volume",
            found.compat.into(),
            "5",
        );
    }
    if found.kind != record.kind {
        return wrong(
            "volume of another type than the table says",
            id.into(),
            "the same type",
        );
    }
    if found.data_pad != record.data_pad {
        return wrong(
            "padding of a volume's blocks",
            found.data_pad.into(),
            "what the table says",
        );
    }
    if found.used_ebs > record.reserved {
        return wrong(
            "used blocks of a volume",
            found.used_ebs.into(),
            "no more than are reserved",
        );
    }
    Ok(())
}

/// A map with an entry for every logical block of a volume.
pub(crate) fn empty_map(reserved: u32) -> Vec<Option<u32>> {
    vec![None; reserved as usize]
}
