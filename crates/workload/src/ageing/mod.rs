//! A workload that ages a file system. It fills it with files of many sizes. Then it removes and
//! creates files, and overwrites parts of others, round after round.
//!
//! What is left has files in many pieces and free space in many holes. Several files grow at once,
//! a piece of each in turn, so that their pieces mix.
//!
//! *Promises.* The stream is a pure function of [`AgeingSpec`]; bytes that are live never exceed
//! those asked for. Memory grows with the number of live files.

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    install::skewed,
    pattern::{SpecError, below, within},
};
use alloc::{format, string::String, vec::Vec};
use nandlab_sim::{Rng, rng, with_defaults};

/// The most live bytes, and the most files of all times.
const BYTES_MAX: u64 = 1 << 40;
const FILES_MAX: u64 = 1 << 24;
/// The most files that grow at once.
const GROWING_MAX: u64 = 1 << 10;

const FILL: &str = "fill";
const ROUNDS: &str = "rounds";

with_defaults! {
    /// How a file system grows old. No paper has such numbers for ours; all are assumed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AgeingSpec {
        /// Draws sizes, victims and contents.
        pub seed: u64 = 1,
        /// Live bytes after each round, at most: 64 MiB. Utilisation is this over what the file
        /// system holds.
        pub bytes: u64 = 64 << 20,
        /// Least and most bytes of a file: 4 KiB to 4 MiB, small ones more often.
        pub file: (u64, u64) = (4 << 10, 4 << 20),
        /// Bytes that are written at once: 16 KiB.
        pub piece: u64 = 16 << 10,
        /// Files that grow at once: 4.
        pub growing: u64 = 4,
        /// Rounds after the first filling: 10.
        pub rounds: u64 = 10,
        /// Live bytes that go in each round, in percent: 20.
        pub turnover: u64 = 20,
        /// Pieces that are overwritten in each round, for every 100 live files: 50.
        pub overwritten: u64 = 50,
        /// A sync of everything ends each round.
        pub sync: bool = true,
    }
}

impl AgeingSpec {
    /// Refuses what cannot be, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        let (least, most) = self.file;
        within("bytes", self.bytes, 1..=BYTES_MAX, "1 to 1099511627776")?;
        within(
            "file min",
            least,
            8..=self.bytes,
            "at least 8 bytes, and at most all",
        )?;
        within(
            "file max",
            most,
            least..=self.bytes,
            "at least the least, and at most all bytes",
        )?;
        within("piece", self.piece, 8..=1 << 30, "8 to 1073741824 bytes")?;
        within("growing", self.growing, 1..=GROWING_MAX, "1 to 1024")?;
        within("turnover", self.turnover, 0..=100, "at most 100 percent")?;
        within(
            "overwritten",
            self.overwritten,
            0..=1_000_000,
            "at most 1000000",
        )?;
        let most = (FILES_MAX / (self.bytes / least)).saturating_sub(1);
        within(
            "rounds",
            self.rounds,
            0..=most,
            "at most 16777216 files of the least size altogether",
        )
    }
}

/// What an item of a pass is: the first filling, or what a round begins with.
#[derive(Clone, Copy, Debug)]
enum Pass {
    Fill,
    Lose,
    Overwrite,
}

/// The stream of an [`AgeingSpec`].
#[derive(Clone, Debug)]
pub struct Ageing(Scripted<Volume>);

scripted!(Ageing);

#[derive(Clone, Debug)]
struct Volume {
    spec: AgeingSpec,
    dice: Rng,
    /// Files and their lengths.
    live: Vec<(FileId, u64)>,
    bytes: u64,
    /// Files made so far, and pieces overwritten.
    made: u32,
    overwritten: u32,
}

impl Ageing {
    /// The stream that `spec` describes, if that passes its [`check`](AgeingSpec::check).
    pub fn new(spec: AgeingSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        script.pass(FILL, Pass::Fill, 1);
        script.calls(SET_UP, [FileCall::Sync]);
        for _ in 0..spec.rounds {
            for pass in [Pass::Lose, Pass::Overwrite, Pass::Fill] {
                script.pass(ROUNDS, pass, 1);
            }
            script.calls(ROUNDS, spec.sync.then_some(FileCall::Sync));
        }
        let contents = Contents::new(spec.seed);
        let volume = Volume {
            dice: rng(spec.seed, "ageing"),
            spec,
            live: Vec::new(),
            bytes: 0,
            made: 0,
            overwritten: 0,
        };
        Ok(Self(Scripted::new(script, contents, volume)))
    }
}

impl Volume {
    /// New files until no more of any size fits, several at a time.
    fn fill(&mut self, calls: &mut Calls) {
        let mut growing = Vec::with_capacity(self.spec.growing as usize);
        while let Some(file) = self.new_file() {
            growing.push(file);
            if growing.len() as u64 == self.spec.growing {
                self.grow(&mut growing, calls);
            }
        }
        self.grow(&mut growing, calls);
    }

    fn new_file(&mut self) -> Option<(FileId, u64)> {
        let space = self.spec.bytes - self.bytes;
        if space < self.spec.file.0 {
            return None;
        }
        let file = (
            FileId(self.made),
            skewed(&mut self.dice, self.spec.file).min(space),
        );
        self.made += 1;
        self.bytes += file.1;
        self.live.push(file);
        Some(file)
    }

    fn grow(&self, growing: &mut Vec<(FileId, u64)>, calls: &mut Calls) {
        calls.extend(
            growing
                .iter()
                .map(|(file, _)| FileCall::Create { file: *file }),
        );
        let piece = self.spec.piece;
        let longest = growing.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        for offset in (0..longest).step_by(piece as usize) {
            for (file, bytes) in growing.iter().filter(|(_, bytes)| *bytes > offset) {
                calls.push_back(file.write(offset, piece.min(bytes - offset), 0));
            }
        }
        calls.extend(growing.drain(..).map(|(file, _)| FileCall::Close { file }));
    }

    fn lose(&mut self, calls: &mut Calls) {
        let kept = self.bytes - self.bytes * self.spec.turnover / 100;
        while self.bytes > kept {
            let victim = below(&mut self.dice, self.live.len() as u64) as usize;
            let (file, bytes) = self.live.swap_remove(victim);
            self.bytes -= bytes;
            calls.push_back(FileCall::Remove { file });
        }
    }

    fn overwrite(&mut self, calls: &mut Calls) {
        for _ in 0..self.live.len() as u64 * self.spec.overwritten / 100 {
            let (file, bytes) = self.live[below(&mut self.dice, self.live.len() as u64) as usize];
            let offset = below(&mut self.dice, bytes.div_ceil(self.spec.piece)) * self.spec.piece;
            self.overwritten += 1;
            let write = file.write(
                offset,
                self.spec.piece.min(bytes - offset),
                self.overwritten,
            );
            calls.extend([FileCall::Open { file }, write, FileCall::Close { file }]);
        }
    }
}

impl Benchmark for Volume {
    type Pass = Pass;

    fn item(&mut self, pass: Pass, _: u64, calls: &mut Calls) {
        match pass {
            Pass::Fill => self.fill(calls),
            Pass::Lose => self.lose(calls),
            Pass::Overwrite => self.overwrite(calls),
        }
    }

    fn name(&self, file: FileId) -> String {
        format!("aged-{}", file.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::sound;
    use proptest::prelude::*;

    #[test]
    fn each_round_loses_and_replaces_what_was_asked_for() {
        let spec = AgeingSpec {
            rounds: 3,
            bytes: 8 << 20,
            file: (4096, 65_536),
            ..AgeingSpec::default()
        };
        let ageing = Ageing::new(spec).unwrap();
        let mut live = 0u64;
        let mut lengths = alloc::collections::BTreeMap::new();
        let mut removed = 0u64;
        let mut after = Vec::new();
        for call in ageing {
            match call {
                FileCall::Write {
                    file,
                    offset,
                    length,
                    version: 0,
                } => {
                    lengths.insert(file, offset + length);
                    live += length;
                }
                FileCall::Remove { file } => {
                    live -= lengths[&file];
                    removed += lengths[&file];
                }
                FileCall::Sync => after.push(live),
                _ => {}
            }
            assert!(live <= 8 << 20);
        }
        assert_eq!(after.len(), 4);
        assert!(
            after.iter().all(|live| *live > (8 << 20) - 4096),
            "{after:?}"
        );
        let share = removed * 100 / (3 * (8 << 20));
        assert!((20..22).contains(&share), "{share} % a round");
    }

    #[test]
    fn files_that_grow_at_once_mix_their_pieces() {
        let spec = AgeingSpec {
            rounds: 0,
            bytes: 80,
            file: (40, 40),
            piece: 20,
            growing: 2,
            ..AgeingSpec::default()
        };
        let found = sound::run(Ageing::new(spec).unwrap());
        let files: Vec<u32> = found
            .of(FILL)
            .iter()
            .filter(|call| matches!(call, FileCall::Write { .. }))
            .map(|call| call.file().unwrap().0)
            .collect();
        assert_eq!(files, [0, 1, 0, 1]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let key = |change: &dyn Fn(&mut AgeingSpec)| sound::refused(AgeingSpec::check, change).0;
        assert_eq!(key(&|_| ()), "accepted");
        assert_eq!(key(&|s| s.bytes = 0), "bytes");
        assert_eq!(key(&|s| s.file = (0, 10)), "file min");
        assert_eq!(key(&|s| s.file = (10, 9)), "file max");
        assert_eq!(key(&|s| s.piece = 0), "piece");
        assert_eq!(key(&|s| s.growing = 0), "growing");
        assert_eq!(key(&|s| s.turnover = 101), "turnover");
        assert_eq!(key(&|s| s.overwritten = u64::MAX), "overwritten");
        assert_eq!(key(&|s| s.rounds = u64::MAX), "rounds");
    }

    proptest! {
        #[test]
        fn every_stream_is_sound(
            seed: u64, bytes in 100u64..5000, least in 8u64..50, more in 0u64..50, piece in 8u64..60, growing in 1u64..5, rounds in 0u64..5, turnover in 0u64..101, overwritten in 0u64..200, sync: bool,
        ) {
            let spec = AgeingSpec { seed, bytes, file: (least, least + more), piece, growing, rounds, turnover, overwritten, sync };
            let found = sound::run(Ageing::new(spec).unwrap());
            prop_assert!(found.expected.files().map(|(_, bytes)| bytes).sum::<u64>() <= bytes);
        }
    }
}
