//! A disk of simulated flash that a test looks into while a kernel writes on it.
//!
//! [`Flash`] is a page-mapped layer on a chip, shared: one clone goes into an export, the others
//! count, read the virtual clock, take the chip's operations, or come back from the chip as it is.

pub mod promises;
pub use nandlab_testkit::tools;

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Counter, Counts, Lba};
use nandlab_ftl::{
    Ftl, Tally,
    page::{PageFtl, PageOptions},
};
use nandlab_host::{
    SharedDisk,
    nbd::{Address, Options, Server},
};
use nandlab_mtd::{Block, Geometry};
use nandlab_nand::{Chip, ChipSpec, LoggedOp, preset};
use nandlab_sim::Nanos;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

/// A chip of so many blocks of 256 KiB: four dies on two channels, 4 KiB pages, times and rules of
/// large-block SLC.
pub fn chip_spec(blocks: u32) -> ChipSpec {
    let geometry = Geometry {
        dies: 4,
        channels: 2,
        write_unit: 512,
        ..Geometry::single_die(4096, 63, 64, blocks)
    };
    ChipSpec {
        geometry,
        ..preset::find("slc-2k")
            .expect("a preset of the chip model")
            .spec()
    }
}

type Layer = PageFtl<Chip>;

/// A page-mapped layer on a chip, shared by cloning.
#[derive(Clone)]
pub struct Flash {
    geometry: BlockGeometry,
    layer: Arc<Mutex<Counter<Layer>>>,
}

impl Flash {
    /// On a chip of so many blocks, freshly formatted.
    pub fn format(blocks: u32) -> Self {
        Self::of(
            Layer::format(
                Chip::new(chip_spec(blocks)).unwrap(),
                PageOptions::default(),
            )
            .unwrap(),
        )
    }

    /// The same, every operation of the chip logged from now on; and the chip as it was before.
    pub fn format_logged(blocks: u32, options: PageOptions) -> (Self, Chip) {
        let mut chip = Layer::format(Chip::new(chip_spec(blocks)).unwrap(), options.clone())
            .unwrap()
            .into_medium();
        let before = chip.fork().unwrap();
        chip.start_log();
        (Self::of(Layer::attach(chip, options).unwrap()), before)
    }

    /// What comes back from a chip.
    pub fn attach(chip: Chip) -> Self {
        Self::of(
            Layer::attach(chip, PageOptions::default())
                .unwrap_or_else(|error| panic!("the layer does not attach: {error}")),
        )
    }

    /// What would come back if the power went now, nothing being under way.
    pub fn power_cycled(&self) -> Self {
        Self::attach(self.layer().inner_mut().medium().fork().unwrap())
    }

    fn of(layer: Layer) -> Self {
        Self {
            geometry: *layer.geometry(),
            layer: Arc::new(Mutex::new(Counter::new(layer))),
        }
    }

    fn layer(&self) -> MutexGuard<'_, Counter<Layer>> {
        self.layer.lock().expect("no request has panicked")
    }

    /// Requests that the layer has served.
    pub fn counts(&self) -> Counts {
        self.layer().counts()
    }

    /// Flash operations by cause.
    pub fn tally(&self) -> Tally {
        *self.layer().inner_mut().tally()
    }

    /// Erase blocks of the chip.
    pub fn blocks(&self) -> u32 {
        self.layer().inner_mut().medium().spec().geometry.blocks
    }

    /// Operations that the chip has done.
    pub fn chip_counts(&self) -> nandlab_nand::Counts {
        self.layer().inner_mut().medium().counts()
    }

    /// Bytes of the pages that hold the newest version of something.
    pub fn held_bytes(&self) -> u64 {
        let mut layer = self.layer();
        let g = layer.inner_mut().medium().spec().geometry.clone();
        let pages: u64 = (0..g.blocks)
            .map(|block| u64::from(layer.inner_mut().valid_pages(Block(block))))
            .sum();
        pages * u64::from(g.page)
    }

    /// The chip's virtual time.
    pub fn now(&self) -> Nanos {
        self.layer().inner_mut().medium().clock().now()
    }

    /// What the chip has done since [`format_logged`](Self::format_logged), in the order of time.
    pub fn log(&self) -> Vec<LoggedOp> {
        let mut ops = self.layer().inner_mut().medium().logged().to_vec();
        ops.sort_by_key(|op| (op.start, op.end));
        ops
    }

    /// Everything on the disk.
    pub fn read_out(&self) -> Vec<u8> {
        let mut image = vec![0; self.geometry.bytes() as usize];
        self.layer().read(Lba(0), &mut image).unwrap();
        image
    }

    /// Serves the disk on the socket `path`.
    pub fn export(&self, path: &Path) -> Server {
        let options = Options {
            dropped: Some(Arc::new(|why| panic!("a client was dropped: {why}"))),
            ..Options::default()
        };
        Server::start(
            SharedDisk::new(Box::new(self.clone())),
            &Address::Unix(path.into()),
            options,
        )
        .unwrap()
    }
}

impl BlockDevice for Flash {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.layer().read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.layer().write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.layer().flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.layer().discard(lba, sectors)
    }
}

/// Bytes without a pattern, the same each time: what the files of the tests are cut from.
pub fn noise(bytes: usize) -> Vec<u8> {
    nandlab_testkit::files::bytes(0x6e6f_6973, bytes)
}
