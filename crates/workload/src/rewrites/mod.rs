//! Several large files that are overwritten at random: what brings a log-structured file system to
//! cleaning.
//!
//! After the evaluation of cleaning in J.-Y. Hwang, "F2FS: A New File System Designed for Flash
//! Storage in Mobile", ELC Europe 2012, "the paper": three files of 1 GB are written; 256 MB go at
//! random to the three; 256 MB go at random to one of them, thirty times. Its other evaluation,
//! IOzone's random writes to several files, is this with rounds that go to all of them.
//!
//! *Promises.* The stream is a pure function of [`RewritesSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{SpecError, below, require, within},
};
use alloc::{format, string::String};
use nandlab_sim::{Rng, rng, with_defaults};

/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// The longest record in bytes.
const RECORD_MAX: u64 = 16 << 20;
const FILES_MAX: u64 = 1 << 10;
/// The most records of a phase, and of all rounds together: each has a version of its own.
const RECORDS_MAX: u64 = 1 << 30;

const FILL: &str = "fill";
const ALL: &str = "all-files";
const ROUNDS: &str = "rounds";

with_defaults! {
    /// Files and what is overwritten. The defaults are the paper's, in units of 2^20 and 2^30
    /// bytes; it does not say how much is written at once.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RewritesSpec {
        /// Draws places and contents.
        pub seed: u64 = 1,
        /// The number of files: 3 by default.
        pub files: u64 = 3,
        /// Length of each in bytes, rounded down to whole records: 1 GiB.
        pub bytes: u64 = 1 << 30,
        /// Bytes that are written at once: 4096 (assumed).
        pub record: u64 = 4096,
        /// Bytes that are first overwritten in all files: 256 MiB.
        pub spread: u64 = 256 << 20,
        /// The number of rounds: 30 by default.
        pub rounds: u64 = 30,
        /// Bytes that each overwrites: 256 MiB.
        pub round: u64 = 256 << 20,
        /// Rounds go to all files rather than to the first.
        pub everywhere: bool = false,
        /// An fsync of each file ends what is written to it in a phase and in a round (assumed).
        pub fsync: bool = true,
    }
}

impl RewritesSpec {
    /// Refuses what is no such run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("files", self.files, 1..=FILES_MAX, "1 to 1024")?;
        within("record", self.record, 1..=RECORD_MAX, "1 to 16777216 bytes")?;
        within(
            "bytes",
            self.bytes,
            self.record..=BYTES_MAX,
            "at least a record, at most 1099511627776 bytes",
        )?;
        require(
            self.bytes / self.record <= RECORDS_MAX,
            "bytes",
            self.bytes,
            "at most 1073741824 records",
        )?;
        require(
            self.spread / self.record <= RECORDS_MAX,
            "spread",
            self.spread,
            "at most 1073741824 records",
        )?;
        let most = RECORDS_MAX / (self.round / self.record).max(1);
        within(
            "rounds",
            self.rounds,
            0..=most,
            "at most 1073741824 records altogether",
        )
    }
}

/// What an item of a pass is.
#[derive(Clone, Copy, Debug)]
enum Pass {
    /// The next record of a file.
    Fill(FileId),
    /// A record somewhere in the first so many files, the versions counted from a number.
    Rewrite { files: u64, version: u32 },
}

/// The stream of a [`RewritesSpec`].
#[derive(Clone, Debug)]
pub struct Rewrites(Scripted<Run>);

scripted!(Rewrites);

#[derive(Clone, Debug)]
struct Run {
    spec: RewritesSpec,
    places: Rng,
}

impl Rewrites {
    /// The run that `spec` describes, if that passes its [`check`](RewritesSpec::check).
    pub fn new(spec: RewritesSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let script = spec.plan();
        let contents = Contents::new(spec.seed);
        let places = rng(spec.seed, "rewritten places");
        let run = Run { spec, places };
        Ok(Self(Scripted::new(script, contents, run)))
    }
}

impl RewritesSpec {
    fn plan(&self) -> Script<Pass> {
        let mut script = Script::new();
        let files = || (0..self.files as u32).map(FileId);
        let fsyncs = |count: u64| {
            let synced = files().take(if self.fsync { count as usize } else { 0 });
            synced.map(|file| FileCall::Fsync { file })
        };
        for file in files() {
            script.calls(SET_UP, [FileCall::Create { file }]);
            script.pass(FILL, Pass::Fill(file), self.bytes / self.record);
        }
        script.calls(FILL, fsyncs(self.files));
        script.calls(SET_UP, [FileCall::Sync]);
        let rewrite = |files, version| Pass::Rewrite { files, version };
        let spread = self.spread / self.record;
        script.pass(ALL, rewrite(self.files, 1), spread);
        script.calls(ALL, fsyncs(self.files));
        let count = if self.everywhere { self.files } else { 1 };
        let records = self.round / self.record;
        for round in 0..self.rounds {
            let version = (1 + spread + round * records) as u32;
            script.pass(ROUNDS, rewrite(count, version), records);
            script.calls(ROUNDS, fsyncs(count));
        }
        script.calls(SET_UP, files().map(|file| FileCall::Close { file }));
        script
    }
}

impl Benchmark for Run {
    type Pass = Pass;

    fn item(&mut self, pass: Pass, number: u64, calls: &mut Calls) {
        let length = self.spec.record;
        let (file, record, version) = match pass {
            Pass::Fill(file) => (file, number, 0),
            Pass::Rewrite { files, version } => {
                let file = FileId(below(&mut self.places, files) as u32);
                let record = below(&mut self.places, self.spec.bytes / length);
                (file, record, version + number as u32)
            }
        };
        calls.push_back(file.write(record * length, length, version));
    }

    /// `large.1` and so on.
    fn name(&self, file: FileId) -> String {
        format!("large.{}", file.0 + 1)
    }

    /// The first file, to which rounds go unless they go everywhere, and the others.
    fn group(&self, file: FileId) -> &'static str {
        if file.0 == 0 {
            "first file"
        } else {
            "other files"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileCalls, sound};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_default_writes_what_the_paper_did() {
        let mut bytes = [0u64; 3];
        let mut to_first = 0u64;
        let mut places = Vec::new();
        let mut rewrites = Rewrites::new(RewritesSpec {
            record: 65_536,
            ..RewritesSpec::default()
        })
        .unwrap();
        while let Some(call) = rewrites.next() {
            if let FileCall::Write {
                file,
                offset,
                length,
                ..
            } = call
            {
                let phase = [FILL, ALL, ROUNDS]
                    .iter()
                    .position(|name| *name == rewrites.phase())
                    .unwrap();
                bytes[phase] += length;
                if phase == 2 {
                    to_first += u64::from(file.0 == 0);
                    places.push(offset);
                }
            }
        }
        assert_eq!(bytes, [3 << 30, 256 << 20, 30 * (256 << 20)]);
        assert_eq!(to_first, 30 * 4096);
        places.sort_unstable();
        places.dedup();
        assert!(
            places.len() > 16_300,
            "{} of 16384 records were hit",
            places.len()
        );
    }

    #[test]
    fn what_is_no_run_is_refused_by_name() {
        let key =
            |change: &dyn Fn(&mut RewritesSpec)| sound::refused(RewritesSpec::check, change).0;
        assert_eq!(key(&|_| ()), "accepted");
        assert_eq!(key(&|s| s.files = 0), "files");
        assert_eq!(key(&|s| s.record = 0), "record");
        assert_eq!(key(&|s| s.bytes = 100), "bytes");
        assert_eq!(key(&|s| (s.bytes, s.record) = (1 << 40, 1)), "bytes");
        assert_eq!(key(&|s| s.spread = u64::MAX), "spread");
        assert_eq!(key(&|s| s.rounds = u64::MAX), "rounds");
    }

    proptest! {
        #[test]
        fn every_stream_is_sound(
            seed: u64, files in 1u64..4, records in 1u64..20, record in 8u64..100, spread in 0u64..3000, rounds in 0u64..4, round in 0u64..2000, everywhere: bool, fsync: bool,
        ) {
            let spec = RewritesSpec { seed, files, bytes: records * record, record, spread, rounds, round, everywhere, fsync };
            let found = sound::run(Rewrites::new(spec).unwrap());
            prop_assert!(found.expected.files().all(|(_, bytes)| bytes == records * record));
            let targets = if everywhere { files } else { 1 };
            let syncs = if fsync { 2 * files + rounds * targets } else { 0 };
            prop_assert_eq!(found.count(|call| matches!(call, FileCall::Fsync { .. })) as u64, syncs);
        }
    }
}
