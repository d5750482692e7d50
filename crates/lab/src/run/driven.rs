//! The disk as a file system on a real processor sees it: each request costs instructions, and the driver waits for the chip before it returns.
//!
//! The handle can be cloned: one goes into the file system, the other watches.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_mtd::Mtd as _;
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::{Device, HostDescription};
use nandlab_workload::Op;
use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// Told about every request that was served.
pub type Watcher<'a> = dyn FnMut(Op, Lba, u64) + 'a;

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
#[derive(Clone, Copy)]
struct Costs {
    request: Nanos,
    sector: Nanos,
    sector_written: Nanos,
}

impl<'a> Driven<'a> {
    /// The disk `device` on `clock`, as the processor `host` drives it; with none, requests cost nothing and programs are posted.
    pub fn new(device: &'a mut dyn Device, clock: &Clock, host: Option<&HostDescription>, watcher: Box<Watcher<'a>>) -> Self {
        let geometry = *device.geometry();
        let costs = host.map(|host| Costs {
            request: host.instructions("request"),
            sector: host.instructions("layer"),
            sector_written: host.layer_ns,
        });
        Self { shared: Rc::new(RefCell::new(Shared { device, clock: clock.clone(), costs, watcher })), geometry }
    }

    /// The device below.
    pub fn device(&self) -> Ref<'_, dyn Device> {
        Ref::map(self.shared.borrow(), |shared| &*shared.device)
    }

    fn serve(
        &mut self,
        (op, lba, sectors): (Op, Lba, u64),
        serve: impl FnOnce(&mut dyn Device) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let shared = &mut *self.shared.borrow_mut();
        if let Some(costs) = shared.costs {
            let written = if op == Op::Write { sectors * costs.sector_written } else { 0 };
            shared.clock.spend(costs.request + sectors * costs.sector + written);
        }
        serve(shared.device)?;
        if shared.costs.is_some() {
            shared.clock.wait_until(shared.device.medium().issued().0);
        }
        (shared.watcher)(op, lba, sectors);
        Ok(())
    }

    fn sectors(&self, bytes: usize) -> u64 {
        bytes as u64 / u64::from(self.geometry.sector)
    }
}

impl BlockDevice for Driven<'_> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        let sectors = self.sectors(buf.len());
        self.serve((Op::Read, lba, sectors), |device| device.read(lba, buf))
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        let sectors = self.sectors(data.len());
        self.serve((Op::Write, lba, sectors), |device| device.write(lba, data))
    }

    /// A driver that has waited has nothing left to flush: it costs no instructions.
    fn flush(&mut self) -> Result<(), BlockError> {
        let shared = &mut *self.shared.borrow_mut();
        shared.device.flush()?;
        (shared.watcher)(Op::Flush, Lba(0), 0);
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.serve((Op::Discard, lba, sectors), |device| device.discard(lba, sectors))
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.shared.borrow_mut().device.remap(pairs)
    }
}
