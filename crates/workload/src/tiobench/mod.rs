//! tiobench: threads that write and read files of their own, in order and at random.
//!
//! After `tiotest` of tiobench 0.3 (J. Manning, M. Kuoppala): each thread makes a file, gives it
//! its full length at once, and writes it block by block; then writes blocks at random, reads all
//! in order, reads blocks at random. An fsync ends each thread's part of a phase that writes,
//! within the phase. The time of each call is for whoever has a clock.
//!
//! *Differs* from the program where that has threads: they are one stream here, a block of each in
//! turn. Places are drawn per thread by a seeded generator.
//!
//! *Promises.* The stream is a pure function of [`TiobenchSpec`].

use crate::{
    files::{Contents, FileCall, FileCalls, FileId, Look, SET_UP, Script},
    pattern::{SpecError, require, within},
};
use alloc::{
    collections::{BTreeSet, VecDeque},
    format,
    string::String,
};
use nandlab_sim::mix;

/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// The longest block in bytes.
const BLOCK_MAX: u64 = 1 << 30;
/// The most threads.
const THREADS_MAX: u64 = 1 << 10;

/// A part of a run, in the program's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TiobenchPhase {
    /// Blocks in order into a new file.
    Write,
    /// Blocks at random.
    RandomWrite,
    /// Blocks in order.
    Read,
    /// Blocks at random.
    RandomRead,
}

impl TiobenchPhase {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Write, Self::RandomWrite, Self::Read, Self::RandomRead];

    /// Its name, also in [`FileCalls::phase`].
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
}

/// A run of tiobench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiobenchSpec {
    /// Draws contents and places.
    pub seed: u64,
    /// Bytes of each thread's file (`-f`, there in MiB), rounded down to whole blocks: 10 MiB.
    pub bytes: u64,
    /// Bytes of a block (`-b`): 4096.
    pub block: u64,
    /// Threads (`-t`): 1. The program's default is 4.
    pub threads: u64,
    /// Blocks that each thread writes or reads at random (`-r`): 1000.
    pub random: u64,
    /// An fsync ends what a thread writes in a phase.
    pub fsync: bool,
    /// A new file has its full length before its first block is written, as the program does it.
    pub truncate_first: bool,
    /// What is written: zeros. The program writes what an anonymous mapping holds, unless it is to
    /// check (`-c`).
    pub contents: Look,
    /// The phases to run.
    pub phases: BTreeSet<TiobenchPhase>,
}

impl Default for TiobenchSpec {
    fn default() -> Self {
        Self {
            seed: 1,
            bytes: 10 << 20,
            block: 4096,
            threads: 1,
            random: 1000,
            fsync: true,
            truncate_first: true,
            contents: Look::Zero,
            phases: TiobenchPhase::ALL.into(),
        }
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
pub struct Tiobench {
    spec: TiobenchSpec,
    script: Script<TiobenchPhase>,
}

impl Tiobench {
    /// The run that `spec` describes, if that passes its [`check`](TiobenchSpec::check).
    pub fn new(spec: TiobenchSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        for phase in spec.phases.iter().copied() {
            Self::plan(&spec, phase, &mut script);
        }
        Ok(Self { spec, script })
    }

    fn plan(spec: &TiobenchSpec, phase: TiobenchPhase, script: &mut Script<TiobenchPhase>) {
        let files = || (0..spec.threads as u32).map(FileId);
        let makes = phase == TiobenchPhase::Write;
        for file in files() {
            script.call(
                SET_UP,
                if makes {
                    FileCall::Create { file }
                } else {
                    FileCall::Open { file }
                },
            );
        }
        if makes && spec.truncate_first {
            files().for_each(|file| {
                script.call(
                    phase.name(),
                    FileCall::Truncate {
                        file,
                        length: spec.blocks() * spec.block,
                    },
                )
            });
        }
        let each = if matches!(phase, TiobenchPhase::Write | TiobenchPhase::Read) {
            spec.blocks()
        } else {
            spec.random
        };
        script.pass(phase.name(), phase, each * spec.threads);
        if phase.writes() && spec.fsync {
            files().for_each(|file| script.call(phase.name(), FileCall::Fsync { file }));
        }
        files().for_each(|file| script.call(SET_UP, FileCall::Close { file }));
    }

    /// The call of one block.
    fn block(
        spec: &TiobenchSpec,
        (phase, n): (TiobenchPhase, u64),
        calls: &mut VecDeque<FileCall>,
    ) {
        let (thread, n) = (n % spec.threads, n / spec.threads);
        let at_random = || mix(mix(mix(spec.seed, thread), phase as u64), n) % spec.blocks();
        let place = if matches!(phase, TiobenchPhase::Write | TiobenchPhase::Read) {
            n
        } else {
            at_random()
        };
        let (file, offset, length) = (FileId(thread as u32), place * spec.block, spec.block);
        // Each rewriting of a block has a version of its own.
        let version = if phase == TiobenchPhase::Write {
            1
        } else {
            2 + n as u32
        };
        calls.push_back(match phase.writes() {
            true => FileCall::Write {
                file,
                offset,
                length,
                version,
            },
            false => FileCall::Read {
                file,
                offset,
                length,
            },
        });
    }
}

impl Iterator for Tiobench {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        let Self { spec, script } = self;
        script.next(|phase, n, calls| Self::block(spec, (phase, n), calls))
    }
}

impl FileCalls for Tiobench {
    fn name(&self, file: FileId) -> String {
        format!("_tiotest.{}", file.0)
    }

    fn contents(&self) -> Contents {
        Contents::looking(self.spec.contents, self.spec.seed)
    }

    fn share_done(&self) -> f64 {
        self.script.share_done()
    }

    fn phase(&self) -> &'static str {
        self.script.phase()
    }
}

#[cfg(test)]
mod tests;
