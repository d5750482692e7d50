//! A mounted medium: its parts, its options, and what every call has in common.

use crate::{
    Compression, Endian, Jffs2Error, Medium, PAGE, Report, SeededBug, Work,
    compress::Packer,
    flash::Flash,
    inode::{Inode, Known},
    lost::Lost,
    scan::{self, Found},
    space::{List, Space},
    summary::Collected,
    unreached::Apart,
    xattr::Xattrs,
};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Call, Errno, Gate, Gated, Time, with_defaults};

/// The largest medium, in bytes: places are 32 bits.
const BYTES_MAX: u64 = 1 << 32;
/// The smallest block: two data nodes and a list must go into it.
const BLOCK_BYTES_MIN: u32 = 8192;

with_defaults! {
    /// How a medium is mounted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// How bytes get onto the medium; by default as NAND where there is a spare area for the
        /// clean marker, otherwise as NOR.
        pub medium: Option<Medium> = None,
        /// The byte order; by default that of the first node found, little-endian where there is
        /// none.
        pub endian: Option<Endian> = None,
        /// What is done to data that are written.
        pub compression: Compression = Compression::default(),
        /// A list of its nodes is written at the end of each block, and read by a mount
        /// (`CONFIG_JFFS2_SUMMARY`). Then nothing is marked in place, as in Linux.
        pub summary: bool = true,
        /// Every change is durable when the call returns.
        pub sync: bool = false,
        /// Nothing is ever written.
        pub read_only: bool = false,
        /// An fsync fills the buffered page by collecting garbage, as Linux does; otherwise the
        /// page is padded.
        pub sync_collects: bool = true,
        /// The block that was being filled is filled on after a mount, as in Linux. Where pages are
        /// programmed whole that is not safe: an interrupted erase may leave a block that looks
        /// half filled, and whose rest only looks erased.
        pub resume: bool = false,
        /// Bytes that the medium has, where it is an image that was cut off. A node that goes on
        /// behind them is damaged: no interrupted write left it so.
        pub end: Option<u32> = None,
        /// Bytes of a file that a node holds at most, and from a multiple of which on. With more
        /// than [`PAGE`] a write is all or nothing, as [`write_pages`](Jffs2::write_pages) has it.
        pub node_bytes: u32 = PAGE,
        /// Inodes kept ready that nobody refers to.
        pub inodes_kept: usize = 1024,
        /// Decides which block is collected next, and which erased block rests: Linux takes its
        /// clock.
        pub seed: u64 = 0,
        /// A rule left out on purpose.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// How many blocks are kept free for what (`jffs2_calc_trigger_levels`, fs/jffs2/build.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub write: u32,
    pub deletion: u32,
    pub gc_trigger: u32,
    pub gc_merge: u32,
    pub gc_bad: u32,
    /// Less dirt than this is not worth collecting.
    pub dirt_min: u32,
}

impl Limits {
    fn of(blocks: u32, block_bytes: u32) -> Self {
        let bytes = u64::from(blocks) * u64::from(block_bytes);
        let extra = (bytes / 50 + u64::from(blocks) * 100).div_ceil(block_bytes.into()) as u32;
        let deletion = 2;
        let write = 2 + extra;
        let dirt_min = (u64::from(block_bytes) + bytes / 100).min(u32::MAX.into()) as u32;
        Self {
            write,
            deletion,
            gc_trigger: write + 1,
            gc_merge: deletion + 1,
            gc_bad: 0,
            dirt_min,
        }
    }
}

/// A mounted medium on the array `M`.
#[derive(Debug)]
pub struct Jffs2<M> {
    pub(crate) flash: Flash<M>,
    pub(crate) space: Space,
    pub(crate) known: BTreeMap<u32, Known>,
    /// Inodes in use, or used lately.
    pub(crate) core: BTreeMap<u32, Box<Inode>>,
    /// How often callers refer to inodes.
    pub(crate) references: BTreeMap<u32, u64>,
    pub(crate) xattrs: Xattrs,
    pub(crate) collected: Collected,
    pub(crate) packer: Packer,
    pub(crate) limits: Limits,
    pub(crate) options: Options,
    pub(crate) highest_ino: u32,
    /// Inodes up to this have been checked.
    pub(crate) checked_ino: u32,
    pub(crate) now: Time,
    pub(crate) stamp: u64,
    /// Places are known and nodes may be marked on the medium.
    pub(crate) built: bool,
    /// Blocks one after the other in which a write failed.
    pub(crate) failing: u32,
    /// The page of the last of them.
    pub(crate) failed_at: Option<u32>,
    /// Failed pages whose nodes are being put elsewhere: until then they are in memory only.
    pub(crate) recovering: u32,
    /// Reused: a node as it goes to the medium, one as it comes from there, a page of a file.
    pub(crate) node: Vec<u8>,
    pub(crate) raw: Vec<u8>,
    pub(crate) page: Vec<u8>,
    /// The node whose data were decompressed last, with them.
    pub(crate) open: Option<u32>,
    pub(crate) data: Vec<u8>,
    /// What the build found wrong.
    pub(crate) noted: Report,
    /// Nodes that cannot be read.
    pub(crate) lost: Lost,
    /// What no path leads to.
    pub(crate) apart: Apart,
    pub(crate) work: Work,
    dice: u64,
    gate: Gate<Jffs2Error>,
}

impl<M: Mtd> Jffs2<M> {
    /// Mounts a medium. An erased one is an empty file system.
    pub fn mount(mtd: M, options: Options) -> Result<Self, Jffs2Error> {
        let mut flash = open(mtd, &options)?;
        flash.endian = match options.endian {
            Some(endian) => endian,
            None => scan::detect(&mut flash)?,
        };
        let mut space = Space::new(flash.blocks(), flash.block_bytes());
        let found = scan::scan(&mut flash, &mut space, &options)?;
        Self::over(flash, space, found, options)
    }

    /// An empty file system on a medium on which nothing counts, whatever it holds: blocks are
    /// erased when their turn comes, from the first one on, and the rest by
    /// [`erase_rest`](Self::erase_rest).
    pub(crate) fn anew(mtd: M, endian: Endian, options: Options) -> Result<Self, Jffs2Error> {
        let mut flash = open(mtd, &options)?;
        (flash.endian, flash.making) = (endian, true);
        let mut space = Space::new(flash.blocks(), flash.block_bytes());
        for block in 0..flash.blocks() {
            match flash.is_bad(block)? {
                true => space.retire(block),
                false => space.file(block, List::ErasePending),
            }
        }
        Self::over(flash, space, Found::nothing(), options)
    }

    pub(crate) fn has_bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    /// Erases what was not needed.
    pub(crate) fn erase_rest(&mut self) -> Result<(), Jffs2Error> {
        while self.erase_pending()? {}
        Ok(())
    }

    fn over(
        flash: Flash<M>,
        space: Space,
        found: Found,
        options: Options,
    ) -> Result<Self, Jffs2Error> {
        let mut jffs2 = Self {
            limits: Limits::of(flash.blocks(), flash.block_bytes()),
            options: Options {
                read_only: options.read_only || found.read_only,
                ..options
            },
            flash,
            space,
            known: BTreeMap::new(),
            core: BTreeMap::new(),
            references: BTreeMap::new(),
            xattrs: Xattrs::default(),
            collected: Collected::default(),
            packer: Packer::default(),
            highest_ino: found.highest_ino,
            checked_ino: 0,
            now: Time::default(),
            stamp: 0,
            built: false,
            failing: 0,
            failed_at: None,
            recovering: 0,
            node: Vec::new(),
            raw: Vec::new(),
            page: Vec::new(),
            open: None,
            data: Vec::new(),
            noted: Report::default(),
            lost: Lost::default(),
            apart: Apart::default(),
            work: Work::default(),
            dice: options.seed,
            gate: Gate::new(options.read_only || found.read_only),
        };
        jffs2.build(found)?;
        Ok(jffs2)
    }

    /// The byte order of the medium.
    pub fn endian(&self) -> Endian {
        self.flash.endian
    }

    /// How bytes get onto the medium.
    pub fn medium(&self) -> Medium {
        self.flash.medium
    }

    /// Whether nothing is ever written: asked for, or because of a kind of node that is not known.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// What lay behind the last [`Errno::Io`], [`Errno::NoSpace`] or [`Errno::ReadOnly`].
    pub fn fault(&self) -> Option<&Jffs2Error> {
        self.gate.fault()
    }

    /// The array below; what is done there passes this mount by.
    pub fn mtd_mut(&mut self) -> &mut M {
        self.flash.mtd_mut()
    }

    /// Ends the mount without writing anything: after
    /// [`unmount`](nandlab_vfs::FileSystem::unmount), or as a power cut would.
    pub fn into_mtd(self) -> M {
        self.flash.into_mtd()
    }

    /// Nodes that do not count any more are marked so where they lie.
    pub(crate) fn marks_in_place(&self) -> bool {
        self.flash.medium == Medium::Nor && !self.options.summary
    }

    /// A number of 0 to 127, in the place of Linux's clock.
    pub(crate) fn throw(&mut self) -> u32 {
        self.dice = self
            .dice
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        (self.dice >> 57) as u32
    }

    /// A call that may change something, now.
    pub(crate) fn change<T>(
        &mut self,
        called: Call<'_>,
        now: Time,
        call: impl FnOnce(&mut Self) -> Result<T, Jffs2Error>,
    ) -> Result<T, Errno> {
        self.now = now;
        self.write_call(called, |jffs2| {
            let value = call(jffs2)?;
            if jffs2.options.sync {
                jffs2.flush()?;
                jffs2.flash.sync()?;
            }
            Ok(value)
        })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.gate.is_writable()
    }

    pub(crate) fn close(&mut self) -> Result<(), Jffs2Error> {
        if !self.gate.close()? {
            return Ok(());
        }
        let nameless: Vec<u32> = self
            .references
            .keys()
            .copied()
            .filter(|ino| self.links(*ino) == 0)
            .collect();
        for ino in nameless {
            self.destroy(ino)?;
        }
        self.flush()?;
        Ok(self.flash.sync()?)
    }
}

impl<M: Mtd> Gated for Jffs2<M> {
    type Error = Jffs2Error;

    fn gate(&mut self) -> &mut Gate<Jffs2Error> {
        &mut self.gate
    }

    fn place(&mut self, error: &Jffs2Error) -> Option<u64> {
        error.place()
    }

    fn before_write(&mut self) -> Result<(), Jffs2Error> {
        self.failing = 0;
        Ok(())
    }

    fn after_call(&mut self) {
        self.let_go();
    }
}

/// Refuses shapes on which the format cannot lie.
pub(crate) fn open<M: Mtd>(mtd: M, options: &Options) -> Result<Flash<M>, Jffs2Error> {
    let geometry = mtd.geometry();
    let medium = options.medium.unwrap_or(if geometry.oob >= 8 {
        Medium::Nand
    } else {
        Medium::Nor
    });
    let fits = |field, found: u64, fine, expected| {
        if fine {
            Ok(())
        } else {
            Err(Jffs2Error::Shape {
                field,
                found,
                expected,
            })
        }
    };
    let block = geometry.block_bytes();
    fits(
        "bytes of the medium",
        geometry.bytes(),
        geometry.bytes() < BYTES_MAX,
        "less than 4 GiB",
    )?;
    fits(
        "erase block",
        block.into(),
        block >= BLOCK_BYTES_MIN,
        "at least 8192 bytes",
    )?;
    fits(
        "blocks",
        geometry.blocks.into(),
        geometry.blocks >= 5,
        "at least 5",
    )?;
    fits(
        "bytes of a spare area",
        geometry.oob.into(),
        medium != Medium::Nand || geometry.oob >= 8,
        "at least 8, for the clean marker",
    )?;
    Ok(Flash::new(mtd, medium))
}
