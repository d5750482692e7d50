//! A mounted volume: its parts, its options, and what every call has in common.

use crate::{
    F2fsError, Layout, SeededBug,
    allocate::Log,
    cache::Cache,
    clean::Cleaner,
    disk::Disk,
    format::{SEGMENT, SIT_ENTRIES, bit, footer, le32, log},
    nat::Nat,
    pack::{Checkpoint, flag},
    segments::Segments,
    summary::{self, Journals, Owner, Owners, SitEntry},
    superblock,
    victim::Policy,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_vfs::{Call, Errno, Gate, Gated, NameCache, Time, with_defaults};

with_defaults! {
    /// How a volume is mounted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Logs in use: 6, 4 or 2 (`active_logs=`).
        pub logs: u8 = 6,
        /// Contents of small files lie in their inodes (`inline_data`).
        pub inline_data: bool = true,
        /// Names of small directories lie in their inodes (`inline_dentry`).
        pub inline_names: bool = true,
        /// Segments that have become clean are discarded on the device, behind the checkpoint that
        /// makes them so.
        pub discard: bool = true,
        /// Nothing is ever written; what a power cut left behind the checkpoint is recovered in
        /// memory.
        pub read_only: bool = false,
        /// An fsync rolls forward; otherwise each takes a checkpoint.
        pub roll_forward: bool = true,
        /// Logs fill holes when few sections are clean (`mode=adaptive` of Linux); otherwise only
        /// cleaning frees space (`mode=lfs`).
        pub threaded: bool = true,
        /// When contents are overwritten where they lie rather than written to a new place
        /// (`ipu_policy` of Linux). Needs `threaded`.
        pub in_place: InPlace = InPlace::Never,
        /// How cleaning chooses where space is short.
        pub foreground: Policy = Policy::Greedy,
        /// How it chooses when there is time (`atgc` of Linux makes this [`Policy::AgeThreshold`]).
        pub background: Policy = Policy::CostBenefit,
        /// An fsync's contents are durable before its nodes are written. Linux leaves that out
        /// (`fsync_mode=posix`): there a cut during an fsync can take what earlier ones had made
        /// durable in the same block, where the device writes out of order.
        pub ordered: bool = true,
        /// Age at which changes fall due for a checkpoint, in nanoseconds (`cp_interval` of Linux:
        /// 60 s).
        pub checkpoint_interval: u64 = 60_000_000_000,
        /// The longest sleep of the background cleaner, in nanoseconds; 0 for no cleaner
        /// (`gc_max_sleep_time` of Linux: 60 s). It sleeps half as long where there is much to
        /// clean (`gc_min_sleep_time`: 30 s), and five times as long where it found no victim
        /// (`gc_no_gc_sleep_time`: 300 s).
        pub cleaning_interval: u64 = 60_000_000_000,
        /// The cleaner works only if there was no request for so long, in nanoseconds
        /// (`DEF_IDLE_INTERVAL` of Linux: 5 s); 0 to clean whether the volume is idle or not.
        pub cleaning_idle: u64 = 5_000_000_000,
        /// Bytes of the cache for clean data, of nodes and of contents each.
        pub cache_bytes: u64 = 4 << 20,
        /// Bytes of the longest request that blocks of one log are written with, one behind the
        /// other: 4096, one block (Linux: as the device has it, typically 512 KiB).
        pub request_bytes: u64 = 4096,
        /// The most bytes of dirty contents; a call that makes it more writes the oldest half.
        pub dirty_bytes_max: u64 = 8 << 20,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// When contents are overwritten where they lie. Never those of directories, nor what cleaning
/// moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Never, as in the paper.
    Never,
    /// Where more than so many percent of the volume are in use: Linux's `F2FS_IPU_UTIL`, there 70.
    Above(u8),
    /// By an fsync of at most so many blocks, and by every fdatasync: Linux's `F2FS_IPU_FSYNC` and
    /// its default, there 8 blocks.
    Fsync(u32),
}

/// Work done since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Fsyncs that rolled forward.
    pub roll_forwards: u64,
    /// Sections cleaned because space was short.
    pub cleaned: u64,
    /// Sections cleaned in the background.
    pub cleaned_background: u64,
    /// Valid blocks that cleaning moved because space was short.
    pub moved: u64,
    /// Valid blocks that began to wait because of cleaning in the background.
    pub moved_background: u64,
    /// Blocks given out, by log: hot, warm and cold contents, then hot, warm and cold nodes.
    pub written: [u64; log::COUNT],
    /// Of these, blocks that filled holes (threaded logging).
    pub threaded: u64,
    /// Blocks of contents overwritten where they lay.
    pub in_place: u64,
}

/// The cache of names takes this part of the bytes of the others.
const NAMES_PART: u64 = 32;

/// A mounted volume on the device `D`.
#[derive(Debug)]
pub struct F2fs<D> {
    pub(crate) disk: Disk<D>,
    pub(crate) layout: Layout,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) segments: Segments,
    pub(crate) sit_journal: Vec<(u32, SitEntry)>,
    pub(crate) logs: [Log; log::COUNT],
    pub(crate) nat: Nat,
    pub(crate) nodes: Cache<u32>,
    pub(crate) pages: Cache<(u32, u32)>,
    /// Known names of directories.
    pub(crate) known: NameCache,
    /// How often all of them became void.
    pub(crate) known_ended: u64,
    /// Summaries that a recovery in memory changed, by segment.
    pub(crate) recovered: BTreeMap<u32, Owners>,
    /// Counts of references by inode number.
    pub(crate) references: BTreeMap<u32, u64>,
    /// Inodes without a name that are still referred to.
    pub(crate) orphans: BTreeSet<u32>,
    /// Numbers in the last checkpoint's list of orphans that are no inodes.
    pub(crate) no_orphans: Vec<u32>,
    /// Why the first superblock does not count, if the second one does.
    pub(crate) first_super: Option<F2fsError>,
    /// Inodes of which an fsync must take a checkpoint: moved, or with nodes gone since the last.
    pub(crate) needs_checkpoint: BTreeSet<u32>,
    /// Blocks in use at the last checkpoint.
    pub(crate) checkpoint_valid: u64,
    /// Blocks given out since the last checkpoint.
    pub(crate) since_checkpoint: u64,
    /// A node of an fsync could not say where the next one will be.
    pub(crate) chain_broken: bool,
    /// When the oldest change behind the last checkpoint was made.
    pub(crate) changed_since: Option<Time>,
    /// Cleaning found nothing worth it; how many blocks had been given out by then.
    pub(crate) stalled: Option<u64>,
    pub(crate) given_out: u64,
    pub(crate) cleaner: Cleaner,
    pub(crate) now: Time,
    pub(crate) first_time: Option<Time>,
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    gate: Gate<F2fsError>,
    unrecovered: Option<F2fsError>,
}

impl<D: BlockDevice> F2fs<D> {
    /// Mounts a volume. What fsyncs made durable behind the last checkpoint is recovered first;
    /// unless read-only, a checkpoint then makes that good. Read-only, a log that reaches beyond
    /// the end of the device's image is left aside: see [`unrecovered`](Self::unrecovered).
    pub fn mount(device: D, options: Options) -> Result<Self, F2fsError> {
        let mut f2fs = Self::open(device, options)?;
        match f2fs.recover() {
            Err(error @ F2fsError::Device(BlockError::Missing { .. })) if options.read_only => {
                let plain = Self::open(f2fs.into_device(), options)?;
                Ok(Self {
                    unrecovered: Some(error),
                    ..plain
                })
            }
            outcome => outcome.map(|()| f2fs),
        }
    }

    pub(crate) fn has_bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    /// Takes up a volume as its last checkpoint has it.
    pub(crate) fn open(device: D, options: Options) -> Result<Self, F2fsError> {
        let mut disk = Disk::open(device)?;
        let (layout, first_super) = read_super(&mut disk)?;
        if !options.read_only {
            layout.check_writable()?;
        }
        let checkpoint = Checkpoint::read(&mut disk, &layout, options.seeded_bug)?;
        let (journals, logs) = read_summaries(&mut disk, &layout, &checkpoint, options.read_only)?;
        let entries = read_segments(&mut disk, &layout, &checkpoint, &journals)?;
        let segments = Segments::new(&layout, entries, logs.iter().map(|log| log.state.segment));
        let blocks = options.cache_bytes / crate::format::BLOCK as u64;
        let mut nat = Nat::new(blocks / 4);
        let checkpoint_valid = checkpoint.valid_blocks;
        nat.journal = journals.nat.into_iter().collect();
        Ok(Self {
            disk: disk.with_requests(options.request_bytes),
            layout,
            checkpoint,
            segments,
            sit_journal: journals.sit,
            logs,
            nat,
            nodes: Cache::new(blocks),
            pages: Cache::new(blocks),
            known: NameCache::new(options.cache_bytes / NAMES_PART),
            known_ended: 0,
            recovered: BTreeMap::new(),
            references: BTreeMap::new(),
            orphans: BTreeSet::new(),
            no_orphans: Vec::new(),
            first_super,
            needs_checkpoint: BTreeSet::new(),
            checkpoint_valid,
            since_checkpoint: 0,
            chain_broken: false,
            changed_since: None,
            stalled: None,
            given_out: 0,
            cleaner: Cleaner::new(options.cleaning_interval),
            now: Time::default(),
            first_time: None,
            options,
            counts: Counts::default(),
            gate: Gate::new(options.read_only),
            unrecovered: None,
        })
    }

    /// Shape and choices of the volume.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Why what fsyncs made durable behind the last checkpoint is not in what is shown.
    pub fn unrecovered(&self) -> Option<&F2fsError> {
        self.unrecovered.as_ref()
    }

    /// What has been done since the mount.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of clean sections.
    pub fn free_sections(&self) -> u32 {
        self.segments.free_sections
    }

    /// How many of a segment's 512 blocks are valid, segment by segment.
    pub fn valid_blocks(&self) -> impl Iterator<Item = u16> {
        (0..self.segments.len()).map(|segment| self.segments.get(segment).entry.valid)
    }

    /// What lay behind the last [`Errno::Io`], [`Errno::Unclean`] or [`Errno::ReadOnly`].
    pub fn fault(&self) -> Option<&F2fsError> {
        self.gate.fault()
    }

    /// The device below; what is written there passes this mount by.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.disk.device
    }

    /// Ends the mount without writing anything: after
    /// [`unmount`](nandlab_vfs::FileSystem::unmount), or as a power cut would.
    pub fn into_device(self) -> D {
        self.disk.device
    }

    /// A call that changes something, now.
    pub(crate) fn change<T>(
        &mut self,
        called: Call<'_>,
        now: Time,
        call: impl FnOnce(&mut Self) -> Result<T, F2fsError>,
    ) -> Result<T, Errno> {
        self.now = now;
        self.cleaner.asked = Some(now);
        self.first_time.get_or_insert(now);
        self.write_call(called, |f2fs| {
            f2fs.begin()?;
            f2fs.balance()?;
            f2fs.changed_since.get_or_insert(now);
            call(f2fs)
        })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.gate.is_writable()
    }

    pub(crate) fn close(&mut self) -> Result<(), F2fsError> {
        if !self.gate.close()? {
            return Ok(());
        }
        let nameless: Vec<u32> = self.orphans.iter().copied().collect();
        nameless.iter().try_for_each(|ino| self.destroy(*ino))?;
        self.write_all_pages(true)?;
        self.take_checkpoint(true)
    }
}

impl<D: BlockDevice> Gated for F2fs<D> {
    type Error = F2fsError;

    fn gate(&mut self) -> &mut Gate<F2fsError> {
        &mut self.gate
    }

    fn place(&mut self, error: &F2fsError) -> Option<u64> {
        self.place_of_error(error)
    }
}

/// Reads and judges the superblock in block 0 or 1.
pub(crate) fn read_copy<D: BlockDevice>(
    disk: &mut Disk<D>,
    block: u32,
) -> Result<Layout, F2fsError> {
    let blocks = disk.blocks();
    let bytes = disk.read(block)?;
    let fields = superblock::OFFSET..superblock::OFFSET + superblock::BYTES;
    Layout::parse(&bytes[fields], blocks)
}

/// Reads the first superblock that is valid; if it is the second, with the error of the first.
fn read_super<D: BlockDevice>(
    disk: &mut Disk<D>,
) -> Result<(Layout, Option<F2fsError>), F2fsError> {
    match read_copy(disk, 0) {
        Ok(layout) => Ok((layout, None)),
        Err(first @ (F2fsError::Feature { .. } | F2fsError::Device(BlockError::PowerCut))) => {
            Err(first)
        }
        Err(first) => match read_copy(disk, 1) {
            Ok(layout) => Ok((layout, Some(first))),
            Err(_) => Err(first),
        },
    }
}

fn read_summaries<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
    checkpoint: &Checkpoint,
    read_only: bool,
) -> Result<(Journals, [Log; log::COUNT]), F2fsError> {
    let start = checkpoint.start(layout);
    let mut next = start + checkpoint.start_sum;
    let mut take = |disk: &mut Disk<D>| {
        next += 1;
        disk.read(next - 1)
    };
    let mut logs = checkpoint.logs.map(|state| Log {
        state,
        owners: summary::nobody(),
    });
    let mut journals = Journals::default();
    if checkpoint.flags & flag::COMPACT != 0 {
        let used = core::array::from_fn(|i| {
            if logs[i].state.threaded {
                SEGMENT as usize
            } else {
                usize::from(logs[i].state.next)
            }
        });
        let (read, owners) = summary::read_compact(used, || take(disk))?;
        journals = read;
        logs.iter_mut()
            .zip(owners)
            .for_each(|(log, owners)| log.owners = owners);
    } else {
        for (number, log) in logs[..log::DATA].iter_mut().enumerate() {
            let block = take(disk)?;
            log.owners = summary::owners(&block);
            match number {
                log::HOT_DATA => journals.read_nat(summary::journal(&block)),
                log::COLD_DATA => journals.read_sit(summary::journal(&block)),
                _ => {}
            }
        }
    }
    for log in &mut logs[log::DATA..] {
        if checkpoint.flags & (flag::UMOUNT | flag::FASTBOOT) != 0 {
            log.owners = summary::owners(&take(disk)?);
            continue;
        }
        // Nodes say themselves who they are.
        let first = layout.start(log.state.segment);
        for (at, owner) in log.owners.iter_mut().enumerate() {
            if log.state.threaded || at < usize::from(log.state.next) {
                match disk.read(first + at as u32) {
                    Ok(block) => {
                        *owner = Owner {
                            nid: le32(&block, footer::NID),
                            ..Owner::default()
                        }
                    }
                    // Who reads needs no owners.
                    Err(F2fsError::Device(BlockError::Missing { .. })) if read_only => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok((journals, logs))
}

fn read_segments<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
    checkpoint: &Checkpoint,
    journals: &Journals,
) -> Result<Vec<SitEntry>, F2fsError> {
    let mut entries = Vec::with_capacity(layout.segments_main as usize);
    for block in 0..layout.segments_main.div_ceil(SIT_ENTRIES) {
        let second = bit(&checkpoint.sit_map, block as usize);
        let addr = layout.sit + block + if second { layout.sit_blocks() } else { 0 };
        let bytes = disk.read(addr)?;
        for at in 0..SIT_ENTRIES.min(layout.segments_main - block * SIT_ENTRIES) {
            entries.push(SitEntry::get(&bytes, at as usize * SitEntry::BYTES));
        }
    }
    for (segment, entry) in &journals.sit {
        if let Some(place) = entries.get_mut(*segment as usize) {
            *place = entry.clone();
        }
    }
    for (segment, entry) in entries.iter_mut().enumerate() {
        let counted: u32 = entry.map.iter().map(|byte| byte.count_ones()).sum();
        if counted != u32::from(entry.valid) || usize::from(entry.kind) >= log::COUNT {
            let block = layout.start(segment as u32);
            let expected = "as many as its bitmap has, of one of six types";
            return Err(F2fsError::Block {
                block,
                offset: 0,
                field: "valid blocks of a segment",
                found: entry.valid.into(),
                expected,
            });
        }
    }
    Ok(entries)
}
