//! A mounted volume: its parts, its options, and what every call has in common.

use crate::{
    FatError, Layout, SeededBug,
    format::{Info, UNKNOWN},
    node::{Node, Nodes},
    removed::Names,
    store::Store,
    table::Table,
};
use nandlab_block::{BlockDevice, Ram};
use nandlab_vfs::{Call, Errno, Gate, Gated, Time, with_defaults};

with_defaults! {
    /// How a volume is mounted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// The user id of every file.
        pub uid: u32 = 0,
        /// The group id of every file.
        pub gid: u32 = 0,
        /// Permission bits that files do not have.
        pub fmask: u16 = 0o022,
        /// Permission bits that directories do not have.
        pub dmask: u16 = 0o022,
        /// Every change is durable when the call returns.
        pub sync: bool = false,
        /// Freed clusters are discarded on the device.
        pub discard: bool = false,
        /// Nothing is ever written.
        pub read_only: bool = false,
        /// The steps of a commit wait for each other; otherwise only its end waits for the device.
        pub barriers: bool = true,
        /// Bytes of the cache for clean data.
        pub cache_bytes: u64 = 4 << 20,
        /// The most bytes of dirty contents; a call that makes it more writes the oldest half.
        pub dirty_bytes_max: u64 = 8 << 20,
        /// Contents are written once or read once, and so not kept: what is read comes from the
        /// device, and what lies behind the end goes there in the call that writes it.
        pub once: bool = false,
        /// Local time, which the medium has, minus UTC, in minutes.
        pub utc_offset_minutes: i16 = 0,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// A mounted volume on the device `D`, its metadata perhaps in the memory `N`.
#[derive(Debug)]
pub struct Fat<D, N = Ram> {
    pub(crate) store: Store<D, N>,
    pub(crate) table: Table,
    pub(crate) nodes: Nodes,
    pub(crate) removed: Names,
    pub(crate) options: Options,
    gate: Gate<FatError>,
}

impl<D: BlockDevice> Fat<D> {
    /// Mounts the volume on a device.
    pub fn mount(device: D, options: Options) -> Result<Self, FatError> {
        Self::open(device, None, options)
    }
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// Mounts a volume whose table and directories are held in `nvram` until they are evicted or
    /// the volume is unmounted. What the memory holds of this volume counts, not what is on the
    /// device: a volume that was not unmounted must be mounted with its memory.
    pub fn mount_with_nvram(device: D, nvram: N, options: Options) -> Result<Self, FatError> {
        Self::open(device, Some(nvram), options)
    }

    fn open(device: D, nvram: Option<N>, options: Options) -> Result<Self, FatError> {
        let mut store = Store::open(device, nvram, options.cache_bytes)?;
        let mut table = Self::table(&mut store)?;
        table.reuses_early = options.seeded_bug == Some(SeededBug::ReuseEarly);
        let nodes = Nodes::new(Node::root(store.layout.root_cluster));
        let mut fat = Self {
            store,
            table,
            nodes,
            removed: Names::default(),
            options,
            gate: Gate::new(options.read_only),
        };
        fat.count_subdirs(nandlab_vfs::Ino::ROOT)?;
        Ok(fat)
    }

    /// The table, with the last mount's hints if they hold.
    fn table(store: &mut Store<D, N>) -> Result<Table, FatError> {
        let info = match store.layout.info {
            Some(sector) => Info::parse(store.metadata(sector)?),
            None => None,
        };
        // Hints of a mount that ended in a power cut are stale.
        let info = info.filter(|_| !store.is_marked());
        let known = |value: u32| Some(value).filter(|value| *value != UNKNOWN);
        Ok(Table::new(
            &store.layout,
            info.and_then(|info| known(info.free)),
            info.and_then(|info| known(info.last)),
        ))
    }

    pub(crate) fn has_bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    /// Returns where the parts of the volume lie.
    pub fn layout(&self) -> &Layout {
        &self.store.layout
    }

    /// Whether the medium says that the volume is in use: by this mount, or by one that ended in a
    /// power cut.
    pub fn is_marked_in_use(&self) -> bool {
        self.store.is_marked()
    }

    /// What lay behind the last [`Errno::Io`] or [`Errno::ReadOnly`].
    pub fn fault(&self) -> Option<&FatError> {
        self.gate.fault()
    }

    /// The device below; what is written there passes this mount by.
    pub fn device_mut(&mut self) -> &mut D {
        self.store.device_mut()
    }

    /// Ends the mount without writing anything: after
    /// [`unmount`](nandlab_vfs::FileSystem::unmount), or as a power cut would.
    pub fn into_parts(self) -> (D, Option<N>) {
        self.store.into_parts()
    }

    /// A call that may change something, now.
    pub(crate) fn change<T>(
        &mut self,
        called: Call<'_>,
        now: Time,
        call: impl FnOnce(&mut Self) -> Result<T, FatError>,
    ) -> Result<T, Errno> {
        self.store.now = now;
        self.write_call(called, |fat| {
            let value = call(fat)?;
            if fat.options.sync {
                fat.sync_all()?;
            }
            Ok(value)
        })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.gate.is_writable()
    }

    pub(crate) fn close(&mut self) -> Result<(), FatError> {
        if self.gate.close()? {
            self.drop_nameless()?;
            self.sync_all()?;
            self.store.close()?;
        }
        Ok(())
    }
}

impl<D: BlockDevice, N: BlockDevice> Gated for Fat<D, N> {
    type Error = FatError;

    fn gate(&mut self) -> &mut Gate<FatError> {
        &mut self.gate
    }

    fn place(&mut self, error: &FatError) -> Option<u64> {
        self.place_of_error(error)
    }
}
