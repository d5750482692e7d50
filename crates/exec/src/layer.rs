//! The program as a translation layer, and its calls of the chip.

use crate::process::{Instance, Process, ProgramError, out_of_place};
use crate::text::kept;
use crate::wire::{self, HEAD, Head};
use nandlab_ftl::{Cause, Mapped, PageMap, Tallied};
use nandlab_mtd::{Block, Layer, LayerError, Mtd, MtdError, Page};
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
        let g = flash.geometry().clone();
        let shape = [g.page, g.oob, g.pages_per_block, g.blocks, g.dies];
        let shape = shape.map(u32::to_le_bytes).concat();
        let answer = served.call(&mut flash, Head::new(call, [0; 3]), &shape)?;
        served.pages = answer.arguments[1];
        // The most that a chip of this size could hold, so that a number of nonsense stays one.
        let most = u64::from(g.blocks) * u64::from(g.pages_per_block);
        if served.pages == 0 || u64::from(served.pages) > most {
            return Err(Box::new(ProgramError::Protocol {
                call: wire::name(call),
                found: format!("a layer of {} pages", served.pages),
                expected: "at least one page, and no more than the chip has",
            }));
        }
        flash.cause = Cause::Host;
        Ok(Mapped::new(NAME, served, flash))
    }
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
                wire::ANSWER => return self.judged(found, call, cut),
                wire::CHIP_READ..=wire::CHIP_ADVANCE => {
                    let answer = self.chip(flash, found);
                    cut |= answer == Err(MtdError::PowerCut);
                    let head = answer.unwrap_or_else(|error| status(wire::status(&error)));
                    head.put(&mut self.message[..HEAD]);
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

    fn judged(&self, head: Head, call: &'static str, cut: bool) -> Result<Head, ProgramError> {
        match head.arguments[0] {
            wire::OK => Ok(head),
            _ if cut => Err(ProgramError::PowerCut),
            wire::LOST if call == wire::name(wire::READ) => Err(ProgramError::Lost),
            status => {
                let text = String::from_utf8_lossy(self.instance.payload());
                let text = match &*text {
                    "" => format!("status {status}"),
                    text => text.into(),
                };
                Err(ProgramError::Failed { call, text })
            }
        }
    }

    /// Serves one call of the chip; `message` has the answer's bytes behind its head.
    fn chip(&mut self, flash: &mut Tallied<Chip>, call: Head) -> Result<Head, MtdError> {
        self.message.clear();
        self.message.resize(HEAD, 0);
        let [first, second, third] = call.arguments;
        let payload = self.instance.payload();
        match call.kind {
            wire::CHIP_READ => {
                let (data, oob) = sides(flash, second, third)?;
                self.message.resize(HEAD + data + oob, 0);
                let (data, oob) = self.message[HEAD..].split_at_mut(data);
                let corrected = match flash.read(Page(first), data, oob) {
                    Ok(corrected) => corrected.bits,
                    // The program gets the bytes as read.
                    Err(error @ MtdError::Uncorrectable(_)) => {
                        return Ok(status(wire::status(&error)));
                    }
                    Err(error) => {
                        self.message.truncate(HEAD);
                        return Err(error);
                    }
                };
                return Ok(Head::new(wire::ANSWER, [wire::OK, corrected.into(), 0]));
            }
            wire::CHIP_PROGRAM => {
                let (data, oob) = sides(flash, second, third)?;
                if payload.len() != data + oob {
                    return Ok(status(wire::ARGUMENT));
                }
                let (data, oob) = payload.split_at(data);
                flash.program(Page(first), data, oob)?;
            }
            wire::CHIP_COPY => {
                let (_, head) = sides(flash, 0, third)?;
                self.message.resize(HEAD + head, 0);
                let copied = flash.copy(
                    Page(first),
                    Page(second),
                    &mut self.message[HEAD..],
                    payload,
                );
                if let Err(error) = copied {
                    self.message.truncate(HEAD);
                    return Err(error);
                }
            }
            wire::CHIP_ERASE => flash.erase(Block(first))?,
            wire::CHIP_IS_BAD => {
                let is_bad = flash.is_bad(Block(first))?;
                return Ok(Head::new(wire::ANSWER, [wire::OK, is_bad.into(), 0]));
            }
            wire::CHIP_MARK_BAD => flash.mark_bad(Block(first))?,
            wire::CHIP_SYNC => flash.sync()?,
            wire::CHIP_FENCE => flash.fence(flash.issued()),
            wire::CHIP_TIME => {
                let now = flash.inner().clock().now();
                return Ok(Head::new(
                    wire::ANSWER,
                    [wire::OK, now as u32, (now >> 32) as u32],
                ));
            }
            _ => {
                let clock = flash.inner().clock();
                let duration = u64::from(second) << 32 | u64::from(first);
                let Some(then) = clock.now().checked_add(duration) else {
                    return Ok(status(wire::ARGUMENT));
                };
                clock.set(then);
            }
        }
        Ok(status(wire::OK))
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

/// An answer without bytes of its own.
fn status(status: u32) -> Head {
    Head::new(wire::ANSWER, [status, 0, 0])
}

/// The lengths of data and spare bytes that a program asks for, if the chip has so many.
fn sides(flash: &Tallied<Chip>, data: u32, oob: u32) -> Result<(usize, usize), MtdError> {
    let geometry = flash.geometry();
    let fits = |found: u32, expected: u32| match found <= expected {
        true => Ok(found as usize),
        false => Err(MtdError::BadLength {
            found: found as usize,
            expected: expected as usize,
        }),
    };
    Ok((fits(data, geometry.page)?, fits(oob, geometry.oob)?))
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
