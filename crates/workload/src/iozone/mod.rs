//! IOzone: one file, written and read in records of one size, in several orders.
//!
//! After W. D. Norcott's IOzone 3 (`iozone.c`), a run with one file length and one record length:
//! its tests 0 to 5, in its order, each twice where it does that. A phase holds what the program's
//! stopwatch does: the records; the fsync that ends them only with `-e`, the close only with `-c`.
//! All else lies between the phases, as `set-up`: opening, the fsync that the program always makes
//! before it starts the watch, the record that it reads in advance, and without `-c` fsync and
//! close.
//!
//! *Differs* from the program where that draws record numbers: it shuffles a list with `lrand48`,
//! here is a seeded permutation, for both random phases the same, as there.
//!
//! *Promises.* The stream is a pure function of [`IozoneSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{Scatter, SpecError, require, within},
};
use alloc::{collections::BTreeSet, string::String};
use nandlab_sim::with_defaults;

const FILE: FileId = FileId(0);
/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// The longest record in bytes: the program's largest.
const RECORD_MAX: u64 = 16 << 20;
/// The most records: each rewriting of one has a version of its own.
const RECORDS_MAX: u64 = 1 << 30;
/// Records from one read of the stride test to the next.
const STRIDE: u64 = 17;

/// A test, in the order and with the number that `-i` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IozoneTest {
    /// 0: writes a new file, then writes it again.
    Write,
    /// 1: reads it, then reads it again.
    Read,
    /// 2: reads every record in random order, then writes every record in that order.
    Random,
    /// 3: reads the records from the last to the first, then does so again, of which the program
    /// reports the first.
    Backward,
    /// 4: writes the first record as often as there are records.
    RecordRewrite,
    /// 5: reads every 17th record, until as many were read as there are.
    Stride,
}

impl IozoneTest {
    /// All phases in the order of a run.
    pub const ALL: [Self; 6] = [
        Self::Write,
        Self::Read,
        Self::Random,
        Self::Backward,
        Self::RecordRewrite,
        Self::Stride,
    ];

    /// A name for descriptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Random => "random",
            Self::Backward => "backward",
            Self::RecordRewrite => "record-rewrite",
            Self::Stride => "stride",
        }
    }
}

with_defaults! {
    /// A run of IOzone. The default is that of S.-H. Lim, H. J. Choi, K. H. Park, "Journal
    /// Remap-Based FTL for Journaling File System with Flash Memory", HPCC 2007, "the paper", at
    /// its smallest record.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IozoneSpec {
        /// Draws contents and the random order. The program's is always the same.
        pub seed: u64 = 1,
        /// Length of the file in bytes (`-s`), rounded down to whole records: 4096 KB (the paper).
        /// The program's default is 512 KB.
        pub bytes: u64 = 4 << 20,
        /// Bytes of a record (`-r`): 4 KB to 4096 KB (the paper). The program's default is 1 KB; by
        /// itself (`-a`) it goes from 4 KB to 16 MB.
        pub record: u64 = 4096,
        /// Tests (`-i`): write and rewrite (the paper). The program's default is all.
        pub tests: BTreeSet<IozoneTest> = [IozoneTest::Write].into(),
        /// The stopwatch includes an fsync (`-e`): "verifying that data is actually written to
        /// flash memory" (the paper; by which option is open).
        pub flush: bool = true,
        /// The stopwatch includes the close (`-c`).
        pub close: bool = false,
        /// Each write is durable before the next (`-o`, `O_SYNC`): an fdatasync follows it, which
        /// is what that meant before Linux 2.6.33.
        pub sync: bool = false,
        /// A sync of everything ends each phase that writes, within its time, as `sync(2)` does:
        /// what a journal holds back is brought home too. The program has none.
        pub sync_all: bool = false,
    }
}

impl IozoneSpec {
    /// Refuses what is no run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("record", self.record, 1..=RECORD_MAX, "1 to 16777216 bytes")?;
        within(
            "bytes",
            self.bytes,
            self.record..=BYTES_MAX,
            "at least a record, at most 1099511627776 bytes",
        )?;
        require(
            self.records() <= RECORDS_MAX,
            "bytes",
            self.bytes,
            "at most 1073741824 records",
        )?;
        let first = self.tests.first().map_or("none", |test| test.name());
        require(
            self.tests.contains(&IozoneTest::Write),
            "tests",
            format_args!("{first}"),
            "write among them, which makes the file",
        )
    }

    fn records(&self) -> u64 {
        self.bytes / self.record
    }
}

/// In which order records come, and whether they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// As they lie, in this version.
    Write(u32),
    Read,
    RandomRead,
    RandomWrite,
    BackwardRead,
    /// Rewrites the first record again and again.
    RecordRewrite,
    StrideRead,
}

/// Versions of what is written, one after another; those of rewriting one record count on.
const WRITTEN: u32 = 1;
const REWRITTEN: u32 = 2;
const AT_RANDOM: u32 = 3;
const RECORD: u32 = 4;

/// The stream of an [`IozoneSpec`].
#[derive(Clone, Debug)]
pub struct Iozone(Scripted<Run>);

scripted!(Iozone);

#[derive(Clone, Debug)]
struct Run {
    spec: IozoneSpec,
    order: Scatter,
    stride: Stride,
}

impl Iozone {
    /// The run that `spec` describes, if that passes its [`check`](IozoneSpec::check).
    pub fn new(spec: IozoneSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        for test in spec.tests.iter().copied() {
            spec.plan(test, &mut script);
        }
        let contents = Contents::new(spec.seed);
        let run = Run {
            order: Scatter::new(spec.records(), spec.seed),
            stride: Stride::new(spec.records()),
            spec,
        };
        Ok(Self(Scripted::new(script, contents, run)))
    }
}

impl IozoneSpec {
    fn plan(&self, test: IozoneTest, script: &mut Script<Pass>) {
        let fsync = FileCall::Fsync { file: FILE };
        // It reads a record before it starts its watch.
        let primed = [fsync, FILE.read(0, self.record)];
        let mut timed = |phase, pass, before: &[_]| self.timed(phase, pass, before, script);
        match test {
            IozoneTest::Write => {
                timed("write", Pass::Write(WRITTEN), &[fsync]);
                timed("rewrite", Pass::Write(REWRITTEN), &[fsync]);
            }
            IozoneTest::Read => {
                timed("read", Pass::Read, &primed);
                timed("reread", Pass::Read, &primed);
            }
            IozoneTest::Random => {
                timed("random-read", Pass::RandomRead, &[]);
                timed("random-write", Pass::RandomWrite, &[]);
            }
            IozoneTest::Backward => {
                timed("backward-read", Pass::BackwardRead, &[fsync]);
                timed("backward-reread", Pass::BackwardRead, &[fsync]);
            }
            IozoneTest::RecordRewrite => timed("record-rewrite", Pass::RecordRewrite, &[fsync]),
            IozoneTest::Stride => timed("stride-read", Pass::StrideRead, &[fsync]),
        }
    }

    /// A phase, with what comes before it once the file is open, and after it.
    fn timed(
        &self,
        phase: &'static str,
        pass: Pass,
        before: &[FileCall],
        script: &mut Script<Pass>,
    ) {
        let fsync = FileCall::Fsync { file: FILE };
        let close = FileCall::Close { file: FILE };
        if pass == Pass::Write(WRITTEN) {
            script.calls(SET_UP, trial());
        }
        script.calls(SET_UP, [FileCall::Open { file: FILE }]);
        script.calls(SET_UP, before.iter().copied());
        script.pass(phase, pass, self.records());
        script.calls(phase, self.flush.then_some(fsync));
        let writes = matches!(
            pass,
            Pass::Write(_) | Pass::RandomWrite | Pass::RecordRewrite
        );
        let sync_all = self.sync_all && writes;
        script.calls(phase, sync_all.then_some(FileCall::Sync));
        match self.close {
            true => script.calls(phase, [close]),
            false => script.calls(SET_UP, [fsync, close]),
        }
    }
}

/// Tries whether a file can be made, cut and removed; then makes it.
fn trial() -> [FileCall; 6] {
    let file = FILE;
    let create = FileCall::Create { file };
    let close = FileCall::Close { file };
    let cut = FileCall::Truncate { file, length: 0 };
    let remove = FileCall::Remove { file };
    [create, cut, close, remove, create, close]
}

/// The places of the stride test: a record in [`STRIDE`], until the last but one is passed; then
/// again from one record further on.
#[derive(Clone, Debug)]
struct Stride {
    records: u64,
    next: u64,
    rounds: u64,
}

impl Stride {
    fn new(records: u64) -> Self {
        Self {
            records,
            next: 0,
            rounds: 0,
        }
    }

    fn draw(&mut self) -> u64 {
        let number = self.next;
        self.next = if number + 1 + STRIDE >= self.records.saturating_sub(1) {
            self.rounds += 1;
            if self.records <= STRIDE {
                0
            } else {
                self.rounds % self.records
            }
        } else {
            number + STRIDE
        };
        number
    }
}

impl Benchmark for Run {
    type Pass = Pass;

    /// The calls of one record.
    fn item(&mut self, pass: Pass, n: u64, calls: &mut Calls) {
        let (number, version) = self.place(pass, n);
        let offset = number * self.spec.record;
        let length = self.spec.record;
        let Some(version) = version else {
            calls.push_back(FILE.read(offset, length));
            return;
        };
        calls.push_back(FILE.write(offset, length, version));
        let sync = FileCall::Fdatasync { file: FILE };
        calls.extend(self.spec.sync.then_some(sync));
    }

    /// The name that the program gives it.
    fn name(&self, _: FileId) -> String {
        "iozone.tmp".into()
    }
}

impl Run {
    /// The record of a call, and the version that it writes.
    fn place(&mut self, pass: Pass, n: u64) -> (u64, Option<u32>) {
        match pass {
            Pass::Write(version) => (n, Some(version)),
            Pass::Read => (n, None),
            Pass::RandomRead => (self.order.place(n), None),
            Pass::RandomWrite => (self.order.place(n), Some(AT_RANDOM)),
            Pass::BackwardRead => (self.spec.records() - 1 - n, None),
            Pass::RecordRewrite => (0, Some(RECORD + n as u32)),
            Pass::StrideRead => (self.stride.draw(), None),
        }
    }
}

#[cfg(test)]
mod tests;
