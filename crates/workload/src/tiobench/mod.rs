//! tiobench: threads that write and read files of their own, in order and at random.
//!
//! After `tiotest` of tiobench 0.3 (J. Manning, M. Kuoppala): each thread makes a file, gives it
//! its full length at once, and writes it block by block; then writes blocks at random, reads all
//! in order, reads blocks at random. An fsync ends each thread's part of a phase that writes,
//! within the phase. The caller measures the time of each call.
//!
//! *Differs* from the program where that has threads: they are one stream here, a block of each in
//! turn. Places are drawn per thread by a seeded generator.
//!
//! *Promises.* The stream is a pure function of [`TiobenchSpec`].

use crate::{
    files::{
        Benchmark, Calls, Contents, FileCall, FileId, Look, SET_UP, Script, Scripted, scripted,
    },
    pattern::{SpecError, require, within},
};
use alloc::{collections::BTreeSet, format, string::String};
use nandlab_sim::{mix, with_defaults};

/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// The longest block in bytes.
const BLOCK_MAX: u64 = 1 << 30;
const THREADS_MAX: u64 = 1 << 10;

/// A part of a run, in the program's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TiobenchPhase {
    /// Blocks in order into a new file.
    Write,
    /// Writes blocks at random places.
    RandomWrite,
    /// Reads blocks in ascending order.
    Read,
    /// Reads blocks at random places.
    RandomRead,
}

impl TiobenchPhase {
    /// All phases in the order of a run.
    pub const ALL: [Self; 4] = [Self::Write, Self::RandomWrite, Self::Read, Self::RandomRead];

    /// Its name, also in [`FileCalls::phase`](crate::files::FileCalls::phase).
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::RandomWrite => "random-write",
            Self::Read => "read",
            Self::RandomRead => "random-read",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandomWrite)
    }

    fn in_order(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }
}

with_defaults! {
    /// A run of tiobench.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TiobenchSpec {
        /// Draws contents and places.
        pub seed: u64 = 1,
        /// Bytes of each thread's file (`-f`, there in MiB), rounded down to whole blocks: 10 MiB.
        pub bytes: u64 = 10 << 20,
        /// Bytes of a block (`-b`): 4096.
        pub block: u64 = 4096,
        /// Threads (`-t`): 1. The program's default is 4.
        pub threads: u64 = 1,
        /// Blocks that each thread writes or reads at random (`-r`): 1000.
        pub random: u64 = 1000,
        /// An fsync ends what a thread writes in a phase.
        pub fsync: bool = true,
        /// A new file has its full length before its first block is written, as the program does
        /// it.
        pub truncate_first: bool = true,
        /// What is written: zeros. The program writes what an anonymous mapping holds, unless it is
        /// to check (`-c`).
        pub contents: Look = Look::Zero,
        /// The phases to run.
        pub phases: BTreeSet<TiobenchPhase> = TiobenchPhase::ALL.into(),
    }
}

impl TiobenchSpec {
    /// Refuses what is no run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("block", self.block, 1..=BLOCK_MAX, "1 to 1073741824 bytes")?;
        within(
            "bytes",
            self.bytes,
            self.block..=BYTES_MAX,
            "at least a block, at most 1099511627776 bytes",
        )?;
        within("threads", self.threads, 1..=THREADS_MAX, "1 to 1024")?;
        within(
            "random",
            self.random,
            0..=u64::from(u32::MAX / 2),
            "at most 2147483647",
        )?;
        let first = self.phases.first().map_or("none", |phase| phase.name());
        require(
            self.phases.contains(&TiobenchPhase::Write),
            "phases",
            format_args!("{first}"),
            "write among them, which makes the files",
        )
    }

    fn blocks(&self) -> u64 {
        self.bytes / self.block
    }
}

/// The stream of a [`TiobenchSpec`].
#[derive(Clone, Debug)]
pub struct Tiobench(Scripted<TiobenchSpec>);

scripted!(Tiobench);

impl Tiobench {
    /// The run that `spec` describes, if that passes its [`check`](TiobenchSpec::check).
    pub fn new(spec: TiobenchSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        for phase in spec.phases.iter().copied() {
            spec.plan(phase, &mut script);
        }
        let contents = Contents::looking(spec.contents, spec.seed);
        Ok(Self(Scripted::new(script, contents, spec)))
    }
}

impl TiobenchSpec {
    fn plan(&self, phase: TiobenchPhase, script: &mut Script<TiobenchPhase>) {
        let files = || (0..self.threads as u32).map(FileId);
        let length = self.blocks() * self.block;
        if phase == TiobenchPhase::Write {
            script.calls(SET_UP, files().map(|file| FileCall::Create { file }));
            let truncated = files().filter(|_| self.truncate_first);
            let calls = truncated.map(|file| FileCall::Truncate { file, length });
            script.calls(phase.name(), calls);
        } else {
            script.calls(SET_UP, files().map(|file| FileCall::Open { file }));
        }
        let each = match phase.in_order() {
            true => self.blocks(),
            false => self.random,
        };
        script.pass(phase.name(), phase, each * self.threads);
        let fsynced = files().filter(|_| phase.writes() && self.fsync);
        script.calls(phase.name(), fsynced.map(|file| FileCall::Fsync { file }));
        script.calls(SET_UP, files().map(|file| FileCall::Close { file }));
    }
}

impl Benchmark for TiobenchSpec {
    type Pass = TiobenchPhase;

    /// The call of one block.
    fn item(&mut self, phase: TiobenchPhase, n: u64, calls: &mut Calls) {
        let thread = n % self.threads;
        let n = n / self.threads;
        let place = match phase.in_order() {
            true => n,
            false => mix(mix(mix(self.seed, thread), phase as u64), n) % self.blocks(),
        };
        let file = FileId(thread as u32);
        let offset = place * self.block;
        calls.push_back(match phase {
            // Each rewriting of a block has a version of its own.
            TiobenchPhase::Write => file.write(offset, self.block, 1),
            TiobenchPhase::RandomWrite => file.write(offset, self.block, 2 + n as u32),
            TiobenchPhase::Read | TiobenchPhase::RandomRead => file.read(offset, self.block),
        });
    }

    fn name(&self, file: FileId) -> String {
        format!("_tiotest.{}", file.0)
    }
}

#[cfg(test)]
mod tests;
