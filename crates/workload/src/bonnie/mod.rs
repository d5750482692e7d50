//! Bonnie: one file, written and read by characters, by blocks, and at random places.
//!
//! After T. Bray's Bonnie 1.x (`Bonnie.c`), in its order: putc, rewrite, write, getc, read, seeks.
//! Each phase holds what the program's stopwatch does: the calls from the first byte to fsync and
//! close. Opening, and removing the old file, lies between the phases, as `set-up`. What the
//! program does to single characters is a [`FileCall::Compute`] for each of its buffers.
//!
//! *Differs* from the program in three ways. It changes one word of each block that it rewrites,
//! the stream gives the block other contents altogether. It notices the end of the file by a read
//! of nothing, of which the stream has none. It seeks from three processes at once: here they take
//! turns in one stream, so that no two requests are under way together.
//!
//! *Promises.* The stream is a pure function of [`BonnieSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{SpecError, below, within},
};
use alloc::{collections::BTreeSet, string::String};
use nandlab_sim::{Rng, rng, with_defaults};

const FILE: FileId = FileId(0);
/// The version of a file's contents after the phase that wrote it; seeks count on from their own.
const PUTC: u32 = 1;
const REWRITTEN: u32 = 2;
const WRITTEN: u32 = 3;
const SOUGHT: u32 = 4;
/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// The longest buffer, of whichever kind, in bytes.
const BUFFER_MAX: u64 = 1 << 30;
/// The most instructions that a character may take.
const INSTRUCTIONS_MAX: u64 = 1 << 30;

/// A part of the benchmark, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BonniePhase {
    /// Writes a new file with `putc`.
    Putc,
    /// Reads and rewrites it, block by block.
    Rewrite,
    /// Removes it, and writes a new one block by block.
    Write,
    /// Reads it with `getc`.
    Getc,
    /// Reads it block by block.
    Read,
    /// Reads blocks at random places, and rewrites some.
    Seeks,
}

impl BonniePhase {
    /// All phases in the order of a run.
    pub const ALL: [Self; 6] = [
        Self::Putc,
        Self::Rewrite,
        Self::Write,
        Self::Getc,
        Self::Read,
        Self::Seeks,
    ];

    /// What [`FileCalls::phase`](crate::files::FileCalls::phase) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Putc => "putc",
            Self::Rewrite => "rewrite",
            Self::Write => "write",
            Self::Getc => "getc",
            Self::Read => "read",
            Self::Seeks => "seeks",
        }
    }
}

with_defaults! {
    /// A run of Bonnie. Defaults are the program's where nothing else is said.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BonnieSpec {
        /// Draws contents and places. The program seeds each of its seekers with its process
        /// number.
        pub seed: u64 = 1,
        /// Length of the file in bytes, rounded down to whole blocks: 100 MB, of 2^20.
        pub bytes: u64 = 100 << 20,
        /// Bytes of a block. 4096, as S.-H. Lim, H. J. Choi, K. H. Park had it ("Journal
        /// Remap-Based FTL for Journaling File System with Flash Memory", HPCC 2007); the program's
        /// `Chunk` is 16384 (in older releases 8192).
        pub chunk: u64 = 4096,
        /// Bytes of the buffer between `putc` or `getc` and the file: 4096, a block of the file
        /// system, as glibc has it.
        pub stdio_buffer: u64 = 4096,
        /// Seeks of all processes together: 4000.
        pub seeks: u64 = 4000,
        /// Processes that seek: 3.
        pub seekers: u64 = 3,
        /// Of so many seeks of a process, the first updates what it has read: 10.
        pub update_every: u64 = 10,
        /// Instructions of the program for a character written: 30 (`putc` and its loop; glibc
        /// 2.36, x86-64, gcc -O2, counted with callgrind).
        pub putc_instructions: u64 = 30,
        /// The same for a character read: 26 (`getc`).
        pub getc_instructions: u64 = 26,
        /// An fsync ends each phase that writes in sequence. (Seeks have none.)
        pub fsync: bool = true,
        /// A sync of everything ends such a phase, as `sync(2)` does: what a journal holds back is
        /// brought home too. The program has none.
        pub sync_all: bool = false,
        /// The file stays, so that what it holds can be compared. The program removes it.
        pub keep: bool = true,
        /// The phases to run.
        pub phases: BTreeSet<BonniePhase> = BonniePhase::ALL.into(),
    }
}

impl BonnieSpec {
    /// Refuses what is no run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("chunk", self.chunk, 1..=BUFFER_MAX, "1 to 1073741824 bytes")?;
        within(
            "bytes",
            self.bytes,
            self.chunk..=BYTES_MAX,
            "at least a chunk, at most 1099511627776 bytes",
        )?;
        within(
            "stdio buffer",
            self.stdio_buffer,
            1..=BUFFER_MAX,
            "1 to 1073741824 bytes",
        )?;
        within(
            "seeks",
            self.seeks,
            1..=u64::from(u32::MAX / 2),
            "1 to 2147483647",
        )?;
        within("seekers", self.seekers, 1.., "at least 1")?;
        within("update every", self.update_every, 1.., "at least 1")?;
        within(
            "putc instructions",
            self.putc_instructions,
            0..=INSTRUCTIONS_MAX,
            "at most 1073741824",
        )?;
        within(
            "getc instructions",
            self.getc_instructions,
            0..=INSTRUCTIONS_MAX,
            "at most 1073741824",
        )?;
        self.check_phases()
    }

    /// A phase needs the file that one before it has made.
    fn check_phases(&self) -> Result<(), SpecError> {
        use BonniePhase::{Putc, Rewrite, Write};
        let refuse = |found: &str, expected: &str| {
            Err(SpecError {
                key: "phases",
                found: found.into(),
                expected: expected.into(),
            })
        };
        match self.phases.first() {
            None => refuse("none", "at least one"),
            Some(Putc | Write) => Ok(()),
            Some(Rewrite) => refuse("rewrite", "putc before it, which makes the file"),
            Some(other) => refuse(other.name(), "putc or write before it, which make the file"),
        }
    }
}

/// The stream of a [`BonnieSpec`].
#[derive(Clone, Debug)]
pub struct Bonnie(Scripted<Run>);

scripted!(Bonnie);

#[derive(Clone, Debug)]
struct Run {
    spec: BonnieSpec,
    /// Bytes of the file, whole blocks.
    bytes: u64,
    places: Rng,
}

impl Bonnie {
    /// The run that `spec` describes, if that passes its [`check`](BonnieSpec::check).
    pub fn new(spec: BonnieSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let run = Run {
            bytes: spec.bytes - spec.bytes % spec.chunk,
            places: rng(spec.seed, "bonnie places"),
            spec,
        };
        let mut script = Script::new();
        let mut exists = false;
        for phase in run.spec.phases.iter().copied() {
            run.plan(phase, &mut exists, &mut script);
        }
        let remove = FileCall::Remove { file: FILE };
        script.calls(SET_UP, (!run.spec.keep).then_some(remove));
        let contents = Contents::new(run.spec.seed);
        Ok(Self(Scripted::new(script, contents, run)))
    }
}

impl Run {
    /// A phase, and what comes before it.
    fn plan(&self, phase: BonniePhase, exists: &mut bool, script: &mut Script<BonniePhase>) {
        let file = FILE;
        let creates = matches!(phase, BonniePhase::Putc | BonniePhase::Write);
        if creates {
            script.calls(SET_UP, exists.then_some(FileCall::Remove { file }));
            script.calls(SET_UP, [FileCall::Create { file }]);
        } else {
            script.calls(SET_UP, [FileCall::Open { file }]);
        }
        *exists = true;
        let items = match phase {
            BonniePhase::Putc | BonniePhase::Getc => self.bytes.div_ceil(self.spec.stdio_buffer),
            BonniePhase::Rewrite | BonniePhase::Write | BonniePhase::Read => {
                self.bytes / self.spec.chunk
            }
            BonniePhase::Seeks => self.spec.seeks,
        };
        script.pass(phase.name(), phase, items);
        let written = creates || phase == BonniePhase::Rewrite;
        let fsync = (written && self.spec.fsync).then_some(FileCall::Fsync { file });
        let sync_all = (written && self.spec.sync_all).then_some(FileCall::Sync);
        script.calls(phase.name(), fsync.into_iter().chain(sync_all));
        script.calls(phase.name(), [FileCall::Close { file }]);
    }
}

impl Benchmark for Run {
    type Pass = BonniePhase;

    /// The calls of one buffer, block or seek.
    fn item(&mut self, phase: BonniePhase, n: u64, calls: &mut Calls) {
        let Self {
            spec,
            bytes,
            places,
        } = self;
        let start = n * spec.stdio_buffer;
        let buffer = spec.stdio_buffer.min(bytes.saturating_sub(start));
        let compute = |each: u64| FileCall::Compute {
            instructions: each * buffer,
        };
        let at = n * spec.chunk;
        let chunk = spec.chunk;
        match phase {
            BonniePhase::Putc => {
                let write = FILE.write(start, buffer, PUTC);
                calls.extend([compute(spec.putc_instructions), write]);
            }
            BonniePhase::Rewrite => {
                calls.extend([FILE.read(at, chunk), FILE.write(at, chunk, REWRITTEN)])
            }
            BonniePhase::Write => calls.push_back(FILE.write(at, chunk, WRITTEN)),
            BonniePhase::Getc => {
                let read = FILE.read(start, buffer);
                calls.extend([read, compute(spec.getc_instructions)]);
            }
            BonniePhase::Read => calls.push_back(FILE.read(at, chunk)),
            BonniePhase::Seeks => {
                let at = below(places, *bytes / chunk) * chunk;
                calls.push_back(FILE.read(at, chunk));
                // Each process counts its own seeks.
                if (n / spec.seekers).is_multiple_of(spec.update_every) {
                    calls.push_back(FILE.write(at, chunk, SOUGHT + n as u32));
                }
            }
        }
    }

    /// `Bonnie.1`: the number is the program's process.
    fn name(&self, _: FileId) -> String {
        "Bonnie.1".into()
    }
}

#[cfg(test)]
mod tests;
