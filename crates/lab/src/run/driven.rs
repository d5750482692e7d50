//! The disk as a file system on a real processor sees it: each request costs instructions, and the
//! driver waits for the chip before it returns.
//!
//! The handle can be cloned: one goes into the file system, the other watches.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_mtd::Mtd as _;
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::{Description, Device};
use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// A request that was served, with the bytes that it read or wrote.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'d> {
    /// Read from there on.
    Read(Lba, &'d [u8]),
    /// Written from there on.
    Write(Lba, &'d [u8]),
    /// So many sectors from there on need not be kept.
    Discard(Lba, u64),
    /// A flush: all earlier writes are durable.
    Flush,
    /// Sectors have changed places.
    Remap(&'d [Remap]),
}

/// Called for every request that was served.
pub type Watcher<'a> = dyn FnMut(&Seen<'_>) + 'a;

/// A disk with the costs of its processor.
#[derive(Clone)]
pub struct Driven<'a> {
    shared: Rc<RefCell<Shared<'a>>>,
    geometry: BlockGeometry,
}

struct Shared<'a> {
    device: &'a mut dyn Device,
    clock: Clock,
    costs: Option<Costs>,
    watcher: Box<Watcher<'a>>,
}

/// What requests cost, ns.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    request: Nanos,
    sector: Nanos,
    sector_written: Nanos,
    /// Of each erase that the layer makes.
    erase: Nanos,
    flush: Nanos,
}

impl Costs {
    /// Those of a stack; none if its processor costs nothing.
    pub fn of(stack: &Description) -> Option<Self> {
        let host = stack.host.as_ref()?;
        Some(Self {
            request: host.time(host.costs.request),
            sector: host.time(host.costs.layer),
            sector_written: host.layer_ns,
            flush: match stack.ftl.layer.queues_flushes {
                true => host.time(host.costs.request),
                false => 0,
            },
            erase: if stack.ftl.layer.checks_erases {
                host.time(host.costs.erase_check)
            } else {
                0
            },
        })
    }
}

impl<'a> Driven<'a> {
    /// The disk `device` on `clock`; without costs, requests cost nothing and programs are posted.
    pub fn new(
        device: &'a mut dyn Device,
        clock: &Clock,
        costs: Option<Costs>,
        watcher: Box<Watcher<'a>>,
    ) -> Self {
        let geometry = *device.geometry();
        Self {
            shared: Rc::new(RefCell::new(Shared {
                device,
                clock: clock.clone(),
                costs,
                watcher,
            })),
            geometry,
        }
    }

    pub fn device(&self) -> Ref<'_, dyn Device> {
        Ref::map(self.shared.borrow(), |shared| &*shared.device)
    }

    /// Serves a request for so many sectors, of which so many are written.
    fn serve(
        &mut self,
        (sectors, written): (u64, u64),
        serve: impl FnOnce(&mut dyn Device) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let shared = &mut *self.shared.borrow_mut();
        match shared.costs {
            None => serve(shared.device),
            Some(costs) => shared.at_a_price(costs, written, sectors, serve),
        }
    }

    fn tell(&self, seen: &Seen<'_>) {
        (self.shared.borrow_mut().watcher)(seen);
    }

    fn sectors(&self, bytes: usize) -> u64 {
        bytes as u64 / u64::from(self.geometry.sector)
    }
}

impl Shared<'_> {
    /// The driver returns when the chip is ready.
    fn wait(&self) {
        self.clock.wait_until(self.device.medium().issued().0);
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.device.flush()?;
        if let Some(costs) = self.costs {
            self.clock.spend(costs.flush);
            self.wait();
        }
        Ok(())
    }

    fn at_a_price(
        &mut self,
        costs: Costs,
        written: u64,
        sectors: u64,
        serve: impl FnOnce(&mut dyn Device) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let erases = |device: &dyn Device| {
            device
                .tally()
                .rows()
                .map(|(_, counts)| counts.erases)
                .sum::<u64>()
        };
        let before = erases(self.device);
        self.clock
            .spend(costs.request + sectors * costs.sector + written * costs.sector_written);
        serve(self.device)?;
        self.wait();
        self.clock
            .spend((erases(self.device) - before) * costs.erase);
        Ok(())
    }
}

impl BlockDevice for Driven<'_> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn stream(&mut self, stream: u8) {
        self.shared.borrow_mut().device.stream(stream);
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.shared.borrow_mut().device.idle()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.serve((self.sectors(buf.len()), 0), |device| device.read(lba, buf))?;
        self.tell(&Seen::Read(lba, buf));
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        let sectors = self.sectors(data.len());
        self.serve((sectors, sectors), |device| device.write(lba, data))?;
        self.tell(&Seen::Write(lba, data));
        Ok(())
    }

    /// Costs a request where the driver queues flushes, nothing elsewhere. What a layer writes at a
    /// flush, and what its thread does then, is waited for as ever.
    fn flush(&mut self) -> Result<(), BlockError> {
        self.shared.borrow_mut().flush()?;
        self.tell(&Seen::Flush);
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.serve((sectors, 0), |device| device.discard(lba, sectors))?;
        self.tell(&Seen::Discard(lba, sectors));
        Ok(())
    }

    /// A request; for the layer each pair is a sector.
    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.serve((pairs.len() as u64, 0), |device| device.remap(pairs))?;
        self.tell(&Seen::Remap(pairs));
        Ok(())
    }
}
