//! A volume as flash, for a file system that wants flash: shared, so that the owner of the stack
//! can put the device away when the file system is done.

use super::UbiDescription;
use crate::BuildError;
use crate::layer::{ChipFlash, Processor};
use nandlab_mtd::{Block, Corrected, Geometry, Issued, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_sim::{Clock, Nanos};
use nandlab_ubi::{Ubi, UbiError, VolumeMtd};
use nandlab_ubifs::{LebError, LebShape, Lebs};
use std::cell::RefCell;
use std::rc::Rc;

/// A volume whose device works between the calls; a clone is the same volume.
#[derive(Debug)]
pub struct UbiFlash<M> {
    shared: Rc<RefCell<VolumeMtd<M>>>,
    geometry: Geometry,
    background: bool,
    /// What a call costs the processor.
    driven: Option<(Nanos, Clock)>,
}

impl<M> Clone for UbiFlash<M> {
    fn clone(&self) -> Self {
        let Self {
            shared,
            geometry,
            background,
            driven,
        } = self;
        Self {
            shared: shared.clone(),
            geometry: geometry.clone(),
            background: *background,
            driven: driven.clone(),
        }
    }
}

impl<M: Mtd> UbiFlash<M> {
    /// The described volume of a device, whose calls take a processor's time if there is one.
    pub fn new(
        described: &UbiDescription,
        ubi: Ubi<M>,
        processor: Option<&Processor>,
    ) -> Result<Self, BuildError> {
        let volume = described.volume_of(&ubi)?;
        let volume = VolumeMtd::new(ubi, volume)?;
        let geometry = volume.geometry().clone();
        let driven = processor.map(|Processor { host, clock }| {
            let call = host.time(host.costs.ubi_call);
            (call, clock.clone())
        });
        Ok(Self {
            shared: Rc::new(RefCell::new(volume)),
            geometry,
            background: described.background,
            driven,
        })
    }

    /// Finishes the device's work, so that the next attach is quick.
    pub fn finish_work(&self) -> Result<(), UbiError> {
        self.shared.borrow_mut().ubi_mut().finish_work()
    }

    /// Looks at the device.
    pub fn look<T>(&self, look: impl FnOnce(&Ubi<M>) -> T) -> T {
        look(self.shared.borrow().ubi())
    }

    fn spend(&self) {
        if let Some((call, clock)) = &self.driven {
            clock.spend(*call);
        }
    }

    /// Makes a call that writes, then lets the device work. Its failure is not the call's: it shows
    /// in the next one.
    fn write<T>(
        &mut self,
        call: impl FnOnce(&mut VolumeMtd<M>) -> Result<T, MtdError>,
    ) -> Result<T, MtdError> {
        self.spend();
        let volume = &mut *self.shared.borrow_mut();
        let outcome = call(volume)?;
        if self.background {
            let _ = volume.ubi_mut().work();
        }
        Ok(outcome)
    }
}

impl ChipFlash for UbiFlash<Box<dyn ChipFlash + '_>> {
    /// # Panics
    /// If there is another clone: a bug of the caller.
    fn into_chip(self: Box<Self>) -> Option<Chip> {
        Rc::into_inner(self.shared)
            .expect("the last clone")
            .into_inner()
            .into_ubi()
            .into_medium()
            .into_chip()
    }

    fn lebs(&mut self) -> Option<&mut dyn Lebs> {
        Some(self)
    }

    fn clock(&self) -> Clock {
        self.look(|ubi| ubi.medium().clock())
    }
}

impl<M: Mtd> UbiFlash<M> {
    /// Makes a call on the volume with this id.
    fn on_volume<T>(
        &mut self,
        call: impl FnOnce(&mut Ubi<M>, u32) -> Result<T, UbiError>,
    ) -> Result<T, LebError> {
        self.spend();
        let volume = &mut *self.shared.borrow_mut();
        let id = volume.volume();
        Ok(call(volume.ubi_mut(), id)?)
    }

    /// Makes a call that writes, then lets the device work, as [`UbiFlash::write`] does.
    fn change_volume(
        &mut self,
        call: impl FnOnce(&mut Ubi<M>, u32) -> Result<(), UbiError>,
    ) -> Result<(), LebError> {
        self.on_volume(call)?;
        if self.background {
            let _ = self.shared.borrow_mut().ubi_mut().work();
        }
        Ok(())
    }
}

impl<M: Mtd> Lebs for UbiFlash<M> {
    fn shape(&self) -> LebShape {
        LebShape {
            leb_bytes: self.geometry.page * self.geometry.pages_per_block,
            lebs: self.geometry.blocks,
            page: Some(self.geometry.page),
        }
    }

    fn read(&mut self, lnum: u32, offs: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.on_volume(|ubi, id| ubi.read(id, lnum, offs, buf))
    }

    fn write(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.change_volume(|ubi, id| ubi.write(id, lnum, offs, bytes))
    }

    fn change(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), LebError> {
        self.change_volume(|ubi, id| ubi.change(id, lnum, bytes))
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), LebError> {
        self.change_volume(|ubi, id| ubi.unmap(id, lnum))
    }

    fn renew(&mut self, lnum: u32) -> Result<(), LebError> {
        self.change_volume(|ubi, id| ubi.renew(id, lnum))
    }

    fn sync(&mut self) -> Result<(), LebError> {
        Ok(self.shared.borrow_mut().ubi_mut().sync()?)
    }
}

impl<M: Mtd> Mtd for UbiFlash<M> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        self.spend();
        self.shared.borrow_mut().read(page, data, oob)
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.write(|volume| volume.program(page, data, oob))
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        self.write(|volume| volume.copy(from, to, head, tail))
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.write(|volume| volume.erase(block))
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.shared.borrow_mut().is_bad(block)
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.shared.borrow_mut().mark_bad(block)
    }

    fn issued(&self) -> Issued {
        self.shared.borrow().ubi().medium().issued()
    }

    fn fence(&mut self, mark: Issued) {
        self.shared.borrow_mut().ubi_mut().medium_mut().fence(mark);
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.shared.borrow_mut().sync()
    }
}
