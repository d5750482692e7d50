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
    files::{Contents, FileCall, FileCalls, FileId, SET_UP, Script},
    pattern::{Scatter, SpecError, require, within},
};
use alloc::{
    collections::{BTreeSet, VecDeque},
    string::String,
};

/// The only file.
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
    /// All of them.
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

/// A run of IOzone. The default is that of S.-H. Lim, H. J. Choi, K. H. Park, "Journal Remap-Based
/// FTL for Journaling File System with Flash Memory", HPCC 2007, "the paper", at its smallest
/// record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IozoneSpec {
    /// Draws contents and the random order. The program's is always the same.
    pub seed: u64,
    /// Length of the file in bytes (`-s`), rounded down to whole records: 4096 KB (the paper). The
    /// program's default is 512 KB.
    pub bytes: u64,
    /// Bytes of a record (`-r`): 4 KB to 4096 KB (the paper). The program's default is 1 KB; by
    /// itself (`-a`) it goes from 4 KB to 16 MB.
    pub record: u64,
    /// Tests (`-i`): write and rewrite (the paper). The program's default is all.
    pub tests: BTreeSet<IozoneTest>,
    /// The stopwatch includes an fsync (`-e`): "verifying that data is actually written to flash
    /// memory" (the paper; by which option is open).
    pub flush: bool,
    /// The stopwatch includes the close (`-c`).
    pub close: bool,
    /// Each write is durable before the next (`-o`, `O_SYNC`): an fdatasync follows it, which is
    /// what that meant before Linux 2.6.33.
    pub sync: bool,
    /// A sync of everything ends each phase that writes, within its time, as `sync(2)` does: what a
    /// journal holds back is brought home too. The program has none.
    pub sync_all: bool,
}

impl Default for IozoneSpec {
    fn default() -> Self {
        let tests = [IozoneTest::Write].into();
        Self {
            seed: 1,
            bytes: 4 << 20,
            record: 4096,
            tests,
            flush: true,
            close: false,
            sync: false,
            sync_all: false,
        }
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
    /// The first one.
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
pub struct Iozone {
    spec: IozoneSpec,
    script: Script<Pass>,
    order: Scatter,
    stride: Stride,
}

impl Iozone {
    /// The run that `spec` describes, if that passes its [`check`](IozoneSpec::check).
    pub fn new(spec: IozoneSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let (order, stride) = (
            Scatter::new(spec.records(), spec.seed),
            Stride::new(spec.records()),
        );
        let mut iozone = Self {
            script: Script::new(),
            order,
            stride,
            spec,
        };
        for test in iozone.spec.tests.clone() {
            iozone.plan(test);
        }
        Ok(iozone)
    }

    fn plan(&mut self, test: IozoneTest) {
        use FileCall::{Fsync, Read};
        let fsync = Fsync { file: FILE };
        // It reads a record before it starts its watch.
        let primed = [
            fsync,
            Read {
                file: FILE,
                offset: 0,
                length: self.spec.record,
            },
        ];
        match test {
            IozoneTest::Write => {
                self.make();
                self.timed("write", Pass::Write(WRITTEN), &[fsync]);
                self.timed("rewrite", Pass::Write(REWRITTEN), &[fsync]);
            }
            IozoneTest::Read => ["read", "reread"]
                .iter()
                .for_each(|phase| self.timed(phase, Pass::Read, &primed)),
            IozoneTest::Random => {
                self.timed("random-read", Pass::RandomRead, &[]);
                self.timed("random-write", Pass::RandomWrite, &[]);
            }
            IozoneTest::Backward => {
                ["backward-read", "backward-reread"]
                    .iter()
                    .for_each(|phase| self.timed(phase, Pass::BackwardRead, &[fsync]));
            }
            IozoneTest::RecordRewrite => {
                self.timed("record-rewrite", Pass::RecordRewrite, &[fsync])
            }
            IozoneTest::Stride => self.timed("stride-read", Pass::StrideRead, &[fsync]),
        }
    }

    /// Tries whether a file can be made, cut and removed; then makes it.
    fn make(&mut self) {
        let (create, close) = (
            FileCall::Create { file: FILE },
            FileCall::Close { file: FILE },
        );
        let trial = [
            create,
            FileCall::Truncate {
                file: FILE,
                length: 0,
            },
            close,
            FileCall::Remove { file: FILE },
        ];
        trial
            .into_iter()
            .chain([create, close])
            .for_each(|call| self.script.call(SET_UP, call));
    }

    /// A phase, with what comes before it once the file is open, and after it.
    fn timed(&mut self, phase: &'static str, pass: Pass, before: &[FileCall]) {
        let (fsync, close) = (
            FileCall::Fsync { file: FILE },
            FileCall::Close { file: FILE },
        );
        self.script.call(SET_UP, FileCall::Open { file: FILE });
        before
            .iter()
            .for_each(|call| self.script.call(SET_UP, *call));
        self.script.pass(phase, pass, self.spec.records());
        if self.spec.flush {
            self.script.call(phase, fsync);
        }
        if self.spec.sync_all
            && matches!(
                pass,
                Pass::Write(_) | Pass::RandomWrite | Pass::RecordRewrite
            )
        {
            self.script.call(phase, FileCall::Sync);
        }
        match self.spec.close {
            true => self.script.call(phase, close),
            false => [fsync, close]
                .into_iter()
                .for_each(|call| self.script.call(SET_UP, call)),
        }
    }
}

/// The calls of one record.
fn record(
    spec: &IozoneSpec,
    order: &Scatter,
    stride: &mut Stride,
    (pass, n): (Pass, u64),
    calls: &mut VecDeque<FileCall>,
) {
    let (number, version) = match pass {
        Pass::Write(version) => (n, Some(version)),
        Pass::Read => (n, None),
        Pass::RandomRead => (order.place(n), None),
        Pass::RandomWrite => (order.place(n), Some(AT_RANDOM)),
        Pass::BackwardRead => (spec.records() - 1 - n, None),
        Pass::RecordRewrite => (0, Some(RECORD + n as u32)),
        Pass::StrideRead => (stride.draw(), None),
    };
    let (file, offset, length) = (FILE, number * spec.record, spec.record);
    match version {
        None => calls.push_back(FileCall::Read {
            file,
            offset,
            length,
        }),
        Some(version) => {
            calls.push_back(FileCall::Write {
                file,
                offset,
                length,
                version,
            });
            if spec.sync {
                calls.push_back(FileCall::Fdatasync { file });
            }
        }
    }
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

impl Iterator for Iozone {
    type Item = FileCall;

    fn next(&mut self) -> Option<FileCall> {
        let Self {
            spec,
            script,
            order,
            stride,
        } = self;
        script.next(|pass, n, calls| record(spec, order, stride, (pass, n), calls))
    }
}

impl FileCalls for Iozone {
    /// The name that the program gives it.
    fn name(&self, _: FileId) -> String {
        "iozone.tmp".into()
    }

    fn contents(&self) -> Contents {
        Contents::new(self.spec.seed)
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
