//! A mounted volume: its parts, its options, and what every call has in common.

use crate::{
    ExtError, Layout, SeededBug,
    delayed::Delayed,
    disk::Disk,
    format::{STATE_CLEAN, STATE_ERRORS, incompat, le16, le32, put16, put32, ro_compat, sb},
    groups::{self, Group, Held},
    guard,
    node::{Life, Nodes},
    order::Order,
    pending::Pending,
    seal::{Unsealed, Verified},
    store::Store,
    zones::Zones,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_block::{BlockDevice, BlockError};
use nandlab_jbd::{COMMIT_INTERVAL, Checkpoint};
use nandlab_vfs::{Call, Errno, Gate, Gated, NameCache, Time, with_defaults};

/// What goes through the journal of a volume that has one (`data=` of Linux's ext3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the volume is written as ext2 is, as Linux's ext2 driver does with a volume of
    /// ext3.
    Unjournaled,
    /// The journal holds contents and metadata.
    Journal,
    /// Metadata only; contents are on the medium before the metadata that leads to them.
    #[default]
    Ordered,
    /// Metadata only; after a crash new blocks of a file may hold anything.
    Writeback,
}

with_defaults! {
    /// How a volume is mounted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// What goes through the journal, if there is one.
        pub mode: Mode = Mode::default(),
        /// How committed blocks come home from the journal.
        pub checkpoint: Checkpoint = Checkpoint::default(),
        /// Age at which changes fall due to be committed to the journal, in nanoseconds.
        pub commit_interval: u64 = COMMIT_INTERVAL,
        /// An fsync writes a fast commit where it can, on a volume with the feature `fast_commit`
        /// in mode *ordered*.
        pub fast_commit: bool = false,
        /// Contents wait in memory for their blocks until write-back, in modes *ordered* and
        /// *writeback*, for files with extents.
        pub delayed_allocation: bool = false,
        /// Every change is durable when the call returns.
        pub sync: bool = false,
        /// Freed blocks are discarded on the device.
        pub discard: bool = false,
        /// Nothing is ever written.
        pub read_only: bool = false,
        /// The steps of a commit wait for each other; otherwise only its end waits for the device.
        pub barriers: bool = true,
        /// Blocks reserved for the superuser may be taken.
        pub use_reserved: bool = true,
        /// Bytes of the cache for clean data.
        pub cache_bytes: u64 = 4 << 20,
        /// The most bytes of dirty contents; a call that makes it more writes the oldest half.
        pub dirty_bytes_max: u64 = 8 << 20,
        /// Contents are written once or read once, and so not kept: what is read comes from the
        /// device, and what new blocks hold goes there in the call that writes it.
        pub once: bool = false,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// The cache of names takes this part of the bytes of the other.
const NAMES_PART: u64 = 32;

/// A mounted volume on the device `D`.
#[derive(Debug)]
pub struct Ext<D> {
    pub(crate) store: Store<D>,
    pub(crate) groups: Vec<Group>,
    pub(crate) zones: Zones,
    pub(crate) unsealed: Unsealed,
    pub(crate) verified: Verified,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) held: Held,
    pub(crate) order: Order,
    pub(crate) nodes: Nodes,
    /// Contents that wait for their blocks.
    pub(crate) delayed: Delayed,
    /// Known names of directories.
    pub(crate) names: NameCache,
    /// How often all of them became void.
    pub(crate) names_ended: u64,
    /// Inodes of which more than times changed since the last commit.
    pub(crate) changed: BTreeSet<u32>,
    /// Inodes that have lost some of several names since the last commit: how many. The medium gets
    /// it later.
    pub(crate) fewer: BTreeMap<u32, u16>,
    /// The list of orphans on the medium, its first one last.
    pub(crate) orphans: Vec<u32>,
    /// Files that were cut short within a block since the last commit.
    pub(crate) cut: BTreeSet<u32>,
    /// Changes for the next fast commit.
    pub(crate) pending: Pending,
    pub(crate) options: Options,
    /// The generation of the next new inode, which distinguishes it from earlier ones of its
    /// number.
    pub(crate) generation: u32,
    gate: Gate<ExtError>,
    /// The medium said that the volume was not in use and had no errors; otherwise only a check may
    /// say so again.
    was_clean: bool,
    /// The medium says that the volume is in use.
    marked: bool,
}

impl<D: BlockDevice> Ext<D> {
    /// Mounts a volume; recovers its journal first if that is needed. One with features that are
    /// not written here is mounted read-only; one with unknown features is mounted as it is.
    pub fn mount(device: D, options: Options) -> Result<Self, ExtError> {
        let disk = if options.read_only {
            Disk::Plain(device)
        } else {
            crate::recover::recover(device, options)?
        };
        let mut ext = Self::open(disk, options)?;
        let skipped = ext
            .store
            .disk
            .journal()
            .map(|journal| journal.recovery().skipped);
        if skipped == Some(true) {
            ext.gate
                .remember(Call::new("mount"), ExtError::FORGOTTEN_LOG);
        }
        if !ext.options.read_only && !ext.has_bug(SeededBug::OrphansForgotten) {
            match ext.end_orphans() {
                Ok(()) => {}
                Err(error @ ExtError::Device(BlockError::Missing { .. })) => {
                    ext.gate.remember(Call::new("mount"), error);
                }
                Err(error) if error.is_damage() => ext.gate.remember(Call::new("mount"), error),
                Err(error) => return Err(error),
            }
        }
        Ok(ext)
    }

    /// Takes up a volume as it is.
    pub(crate) fn open(disk: Disk<D>, options: Options) -> Result<Self, ExtError> {
        let mut store = Store::open(disk, options.cache_bytes)?;
        let layout = store.layout;
        let bytes = store.superblock()?;
        let state = le16(bytes, sb::STATE);
        let uuid = le32(bytes, sb::UUID);
        let written = le32(bytes, sb::WRITE_TIME);
        // Until a call says what time it is.
        store.now = Time::new(written.into());
        let unrecovered = layout.incompat & incompat::RECOVER != 0;
        let plain = store.disk.journal().is_none();
        let read_only = options.read_only || layout.is_read_only() || unrecovered && plain;
        if !read_only {
            guard::check(&mut store)?;
        }
        let groups = groups::read(&mut store, !read_only)?;
        let sum = |count: fn(&Group) -> u32| groups.iter().map(count).sum();
        Ok(Self {
            store,
            free_blocks: sum(|group| group.free_blocks),
            free_inodes: sum(|group| group.free_inodes),
            zones: Zones::new(&layout, &groups),
            groups,
            unsealed: Unsealed::default(),
            verified: Verified::default(),
            held: Held::default(),
            order: Order::default(),
            nodes: Nodes::default(),
            delayed: Delayed::default(),
            names: NameCache::new(options.cache_bytes / NAMES_PART),
            names_ended: 0,
            changed: BTreeSet::new(),
            fewer: BTreeMap::new(),
            orphans: Vec::new(),
            cut: BTreeSet::new(),
            pending: Pending::new(options.fast_commit),
            options: Options {
                read_only,
                ..options
            },
            generation: uuid,
            gate: Gate::new(read_only),
            was_clean: state & STATE_CLEAN != 0 && state & STATE_ERRORS == 0,
            marked: unrecovered,
        })
    }

    /// Shape and choices of the volume.
    pub fn layout(&self) -> &Layout {
        &self.store.layout
    }

    /// Whether nothing is ever written: asked for, or because of the volume's features.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// Whether the medium says that the volume is in use: by this mount, or by one that ended in a
    /// power cut.
    pub fn is_marked_in_use(&self) -> bool {
        !self.was_clean || self.marked
    }

    pub(crate) fn has_bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    /// What lay behind the last [`Errno::Io`], [`Errno::Unclean`] or [`Errno::ReadOnly`].
    pub fn fault(&self) -> Option<&ExtError> {
        self.gate.fault()
    }

    /// The device below; what is written there passes this mount by.
    pub fn device_mut(&mut self) -> &mut D {
        self.store.device_mut()
    }

    /// Ends the mount without writing anything: after
    /// [`unmount`](nandlab_vfs::FileSystem::unmount), or as a power cut would.
    pub fn into_device(self) -> D {
        self.store.into_device()
    }

    /// A call that may change something, now. One that finds no space is tried again when a commit
    /// can make some.
    pub(crate) fn change<T>(
        &mut self,
        called: Call<'_>,
        now: Time,
        mut call: impl FnMut(&mut Self) -> Result<T, ExtError>,
    ) -> Result<T, Errno> {
        self.store.now = now;
        self.write_call(called, |ext| {
            ext.write_back_aged(now)?;
            if ext.commit_due().is_some_and(|due| due <= now) {
                ext.commit()?;
            }
            ext.reserve_call()?;
            let value = match call(ext) {
                Err(ExtError::Call(Errno::NoSpace)) if ext.may_have_space() => {
                    ext.write_back_all()?;
                    ext.commit_all_releases()?;
                    call(ext)?
                }
                outcome => outcome?,
            };
            if ext.options.sync {
                ext.sync_all()?;
            }
            Ok(value)
        })
    }

    /// True if a commit or write-back may leave more space: write-back needs less than it has
    /// reserved.
    fn may_have_space(&self) -> bool {
        self.is_releasing() || self.delayed.any().is_some()
    }

    /// Whether a commit would make blocks or inodes free.
    pub(crate) fn is_releasing(&self) -> bool {
        self.held.any() || !self.fewer.is_empty() || !self.nodes.in_life(Life::Leaving).is_empty()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.gate.is_writable()
    }

    /// Before the first change: the medium says that the volume is in use, or that its journal is
    /// to be recovered. Then it stays clean: the journal sees to that.
    pub(crate) fn mark_in_use(&mut self) -> Result<(), ExtError> {
        let journaled = self.is_journaled();
        if self.marked || !self.was_clean && !journaled {
            return Ok(());
        }
        self.marked = true;
        let now = self.store.now;
        let bytes = self.store.superblock_mut()?;
        let state = le16(bytes, sb::STATE);
        let mounts = le16(bytes, sb::MOUNTS);
        let features = le32(bytes, sb::INCOMPAT);
        if journaled {
            put32(bytes, sb::INCOMPAT, features | incompat::RECOVER);
        } else {
            put16(bytes, sb::STATE, state & !STATE_CLEAN);
        }
        put16(bytes, sb::MOUNTS, mounts.saturating_add(1));
        put32(bytes, sb::MOUNT_TIME, now.secs as u32);
        put32(bytes, sb::WRITE_TIME, now.secs as u32);
        self.write_super()
    }

    /// Writes the superblock to its place, past the journal: none of its transactions may have it.
    pub(crate) fn write_super(&mut self) -> Result<(), ExtError> {
        let (block, _) = self.store.layout.super_place();
        self.store.seal_super()?;
        self.store.write(&[block])?;
        self.store.barrier()
    }

    pub(crate) fn close(&mut self) -> Result<(), ExtError> {
        if !self.gate.close()? {
            return Ok(());
        }
        self.drop_nameless()?;
        self.sync_all()?;
        if !self.marked {
            return Ok(());
        }
        if let Some(journal) = self.store.disk.journal_mut() {
            journal.flush()?;
            self.put_counts_now()?;
        }
        self.mark_unmounted()?;
        self.marked = false;
        Ok(())
    }

    /// Writes the superblock of a volume that is not in use any longer.
    fn mark_unmounted(&mut self) -> Result<(), ExtError> {
        let now = self.store.now;
        let clean = if self.was_clean { STATE_CLEAN } else { 0 };
        let bytes = self.store.superblock_mut()?;
        let state = le16(bytes, sb::STATE);
        let features = le32(bytes, sb::INCOMPAT);
        put16(bytes, sb::STATE, state | clean);
        put32(bytes, sb::INCOMPAT, features & !incompat::RECOVER);
        // No slot of the file of orphans is in use by now.
        let filed = le32(bytes, sb::RO_COMPAT) & ro_compat::ORPHAN_PRESENT;
        if filed != 0 && clean != 0 {
            put32(bytes, sb::RO_COMPAT, le32(bytes, sb::RO_COMPAT) & !filed);
        }
        put32(bytes, sb::WRITE_TIME, now.secs as u32);
        self.write_super()
    }
}

impl<D: BlockDevice> Gated for Ext<D> {
    type Error = ExtError;

    fn gate(&mut self) -> &mut Gate<ExtError> {
        &mut self.gate
    }

    fn place(&mut self, error: &ExtError) -> Option<u64> {
        self.place_of_error(error)
    }

    fn before_write(&mut self) -> Result<(), ExtError> {
        self.mark_in_use()
    }
}
