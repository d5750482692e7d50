//! The program as a translation layer.

use crate::process::{Process, ProgramError};
use crate::session::{Answer, Session};
use crate::text::kept;
use crate::wire::{self, Head};
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
        let (session, answer) = Session::begin(&self.0, &mut flash, call, TEXT_MAX)?;
        let mut served = Served { session, pages: 0 };
        served.judge(answer, call)?;
        served.pages = sensible(answer[1], flash.geometry(), call)?;
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
    session: Session,
    pages: u32,
}

impl Served {
    fn call(
        &mut self,
        flash: &mut Tallied<Chip>,
        head: Head,
        bytes: &[u8],
    ) -> Result<(), ProgramError> {
        let answer = self.session.call(flash, head, &[bytes])?;
        self.judge(answer, head.kind)
    }

    /// Judges the answer to a call of this kind.
    fn judge(&self, answer: Answer, kind: u32) -> Result<(), ProgramError> {
        match answer[0] {
            wire::OK => Ok(()),
            wire::LOST if kind == wire::READ => Err(ProgramError::Lost),
            status => Err(self.session.failure(kind, status)),
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
        let data = self.session.payload();
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
        written.map_err(|error| self.error(error, n, place(flash, n)))
    }

    fn flush(&mut self, flash: &mut Tallied<Chip>) -> Result<(), MtdError> {
        let flushed = self.call(flash, Head::new(wire::FLUSH, [0; 3]), &[]);
        flushed.map_err(|error| self.error(error, 0, Place::Whole))
    }
}
