//! The program as a translation layer.

use crate::chip;
use crate::process::{Instance, Process, ProgramError, out_of_place};
use crate::text::kept;
use crate::wire::{self, HEAD, Head};
use nandlab_ftl::{Cause, Mapped, PageMap, Tallied};
use nandlab_mtd::{Geometry, Layer, LayerError, Mtd, MtdError, Page};
use nandlab_nand::Chip;
use nandlab_sim::{Chain, MediumFault, Place};
use nandlab_stack::{DescriptionError, Origin, Scheme, SchemeInput, Setting, Translation};
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the layer in errors, and as `ftl.scheme`.
const NAME: &str = "program";
/// The longest text of a failure, in bytes.
const TEXT_MAX: usize = 4096;

/// A program that is a translation layer: `[ftl]` with `scheme = "program"`.
#[derive(Clone, Debug)]
pub struct Program(Arc<Process>);

impl Program {
    /// The program in this file. It starts with the first layer.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Process::new(path.into())))
    }

    fn begin(&self, chip: Chip, call: u32) -> Result<Mapped<Served, Chip>, LayerError> {
        let mut flash = Tallied::new(chip);
        let mut served = Served {
            instance: self.0.instance()?,
            pages: 0,
            message: Vec::new(),
        };
        let g = flash.geometry();
        let shape = [g.page, g.oob, g.pages_per_block, g.blocks, g.dies];
        let shape = shape.map(u32::to_le_bytes).concat();
        let answer = served.call(&mut flash, Head::new(call, [0; 3]), &shape)?;
        served.pages = sensible(answer.arguments[1], flash.geometry(), call)?;
        flash.cause = Cause::Host;
        Ok(Mapped::new(NAME, served, flash))
    }
}

/// The pages of a layer, if a chip of this shape could hold them.
fn sensible(pages: u32, geometry: &Geometry, call: u32) -> Result<u32, ProgramError> {
    let most = u64::from(geometry.blocks) * u64::from(geometry.pages_per_block);
    if (1..=most).contains(&u64::from(pages)) {
        return Ok(pages);
    }
    Err(ProgramError::Protocol {
        call: wire::name(call),
        found: format!("a layer of {pages} pages"),
        expected: "at least one page, and no more than the chip has",
    })
}

impl Layer<Chip> for Program {
    type Device = Mapped<Served, Chip>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.begin(chip, wire::FORMAT)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.begin(chip, wire::ATTACH)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_flash()
    }
}

impl Scheme for Program {
    fn name(&self) -> &'static str {
        NAME
    }

    fn take(&self, input: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        input.settings.push(Setting {
            key: "ftl.program".into(),
            value: format!("{:?}", self.0.path()),
            origin: Origin::Given,
        });
        Ok(Translation {
            needs_contents: true,
            ..Translation::disk(NAME, self.clone())
        })
    }
}

/// A layer in the program.
#[derive(Debug)]
pub struct Served {
    instance: Instance,
    pages: u32,
    message: Vec<u8>,
}

impl Served {
    /// Makes a call, and serves the chip until the answer.
    fn call(
        &mut self,
        flash: &mut Tallied<Chip>,
        head: Head,
        bytes: &[u8],
    ) -> Result<Head, ProgramError> {
        let call = wire::name(head.kind);
        let geometry = flash.geometry();
        let most = HEAD + (geometry.page as usize + geometry.oob as usize).max(TEXT_MAX);
        let mut cut = false;
        self.send(head, bytes, call)?;
        loop {
            let found = self.instance.receive(call, most)?;
            match found.kind {
                wire::ANSWER => return self.judged(found, head.kind, cut),
                wire::CHIP_READ..=wire::CHIP_ADVANCE => {
                    let status =
                        chip::serve(flash, found, self.instance.payload(), &mut self.message);
                    cut |= status == wire::POWER_CUT;
                    self.instance.send(&self.message, call)?;
                }
                _ => return Err(out_of_place(found, head.kind)),
            }
        }
    }

    fn send(&mut self, head: Head, bytes: &[u8], call: &'static str) -> Result<(), ProgramError> {
        self.message.clear();
        self.message.resize(HEAD, 0);
        head.put(&mut self.message);
        self.message.extend(bytes);
        self.instance.send(&self.message, call)
    }

    /// The answer to a call of this kind; `cut` says that the power went within the call.
    fn judged(&self, head: Head, kind: u32, cut: bool) -> Result<Head, ProgramError> {
        match head.arguments[0] {
            wire::OK => Ok(head),
            _ if cut => Err(ProgramError::PowerCut),
            wire::LOST if kind == wire::READ => Err(ProgramError::Lost),
            status => {
                let text = String::from_utf8_lossy(self.instance.payload());
                let text = match &*text {
                    "" => format!("status {status}"),
                    text => text.into(),
                };
                let call = wire::name(kind);
                Err(ProgramError::Failed { call, text })
            }
        }
    }

    /// The error of a call for the layer's page `page`, which lies at `at`.
    fn error(&self, error: ProgramError, page: u32, at: Place) -> MtdError {
        match error {
            ProgramError::Lost => MtdError::Uncorrectable(Page(page)),
            ProgramError::PowerCut => MtdError::PowerCut,
            other => {
                let text = kept(&Chain(&other).to_string());
                let fault = MediumFault::new(at, text);
                MtdError::Below(Page(page), fault.in_layer(NAME))
            }
        }
    }
}

/// Where the layer's page `n` begins.
fn place(flash: &Tallied<Chip>, n: u32) -> Place {
    let per_page = u64::from(flash.geometry().page / 512);
    Place::Sector(u64::from(n) * per_page)
}

impl PageMap<Chip> for Served {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn read(&mut self, flash: &mut Tallied<Chip>, n: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        let head = Head::new(wire::READ, [n, 0, 0]);
        let read = self.call(flash, head, &[]);
        let at = place(flash, n);
        read.map_err(|error| self.error(error, n, at))?;
        let data = self.instance.payload();
        if data.len() != buf.len() {
            let error = ProgramError::Protocol {
                call: wire::name(wire::READ),
                found: format!("{} bytes", data.len()),
                expected: "a page of the chip",
            };
            return Err(self.error(error, n, at));
        }
        buf.copy_from_slice(data);
        Ok(())
    }

    fn write(&mut self, flash: &mut Tallied<Chip>, n: u32, data: &[u8]) -> Result<(), MtdError> {
        let written = self.call(flash, Head::new(wire::WRITE, [n, 0, 0]), data);
        written
            .map(drop)
            .map_err(|error| self.error(error, n, place(flash, n)))
    }

    fn flush(&mut self, flash: &mut Tallied<Chip>) -> Result<(), MtdError> {
        let flushed = self.call(flash, Head::new(wire::FLUSH, [0; 3]), &[]);
        flushed
            .map(drop)
            .map_err(|error| self.error(error, 0, Place::Whole))
    }
}
