//! A program at work on one chip: calls of nandlab, and the chip's calls that they lead to.

use crate::chip::{self, ProgramChip};
use crate::process::{Instance, Process, ProgramError, out_of_place};
use crate::wire::{self, HEAD, Head};

/// Chip calls that one call of nandlab may take, in passes over the whole chip. A layer that looks
/// its map up on the chip reads a page many times.
const PASSES: u64 = 256;

/// One process of the program, and what it has to do.
#[derive(Debug)]
pub struct Session {
    instance: Instance,
    message: Vec<u8>,
    /// The longest message.
    most: usize,
    /// The most chip calls within one call.
    calls: u64,
}

/// The answer to a call: its status, and two numbers.
pub type Answer = [u32; 3];

impl Session {
    /// A process for this chip. It formats the chip or attaches what lies on it, as `call` asks. Its
    /// messages have at most `most` bytes, or a page with its spare bytes.
    pub fn begin(
        process: &Process,
        flash: &mut impl ProgramChip,
        call: u32,
        most: usize,
    ) -> Result<(Self, Answer), ProgramError> {
        let g = flash.geometry();
        let page = g.page as usize + g.oob as usize;
        let mut session = Self {
            instance: process.instance()?,
            message: Vec::new(),
            most: HEAD + page.max(most),
            calls: u64::from(g.pages()) * PASSES,
        };
        let shape = [g.page, g.oob, g.pages_per_block, g.blocks, g.dies];
        let shape = shape.map(u32::to_le_bytes).concat();
        let answer = session.call(flash, Head::new(call, [0; 3]), &[&shape])?;
        Ok((session, answer))
    }

    /// Makes a call, and serves the chip until the answer. A failure after the power went is the
    /// power cut's. Reads take no step of the rail, so that it cannot end a program that only
    /// reads.
    pub fn call(
        &mut self,
        flash: &mut impl ProgramChip,
        head: Head,
        parts: &[&[u8]],
    ) -> Result<Answer, ProgramError> {
        let call = wire::name(head.kind);
        let mut is_cut = false;
        self.send(head, parts, call)?;
        for _ in 0..self.calls {
            let found = self.instance.receive(call, self.most)?;
            match found.kind {
                wire::ANSWER if is_cut && found.arguments[0] != wire::OK => {
                    return Err(ProgramError::PowerCut);
                }
                wire::ANSWER => return Ok(found.arguments),
                wire::CHIP_READ..=wire::CHIP_ADVANCE => {
                    let status =
                        chip::serve(flash, found, self.instance.payload(), &mut self.message);
                    is_cut |= status == wire::POWER_CUT;
                    self.instance.send(&self.message, call)?;
                }
                _ => return Err(out_of_place(found, head.kind)),
            }
        }
        self.instance.kill();
        let calls = self.calls;
        Err(ProgramError::Endless { call, calls })
    }

    /// The bytes of the last answer.
    pub fn payload(&self) -> &[u8] {
        self.instance.payload()
    }

    /// The failure of a call, with the text that the program gave for it.
    pub fn failure(&self, kind: u32, status: u32) -> ProgramError {
        let text = String::from_utf8_lossy(self.payload());
        let text = match &*text {
            "" => format!("status {status}"),
            text => text.into(),
        };
        let call = wire::name(kind);
        ProgramError::Failed { call, text }
    }

    fn send(
        &mut self,
        head: Head,
        parts: &[&[u8]],
        call: &'static str,
    ) -> Result<(), ProgramError> {
        self.message.clear();
        self.message.resize(HEAD, 0);
        head.put(&mut self.message);
        parts.iter().for_each(|part| self.message.extend(*part));
        self.instance.send(&self.message, call)
    }
}
