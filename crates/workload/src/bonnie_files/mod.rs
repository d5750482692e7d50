//! bonnie++'s tests of names: files are made, looked up and removed, in order and then at random.
//!
//! After R. Coker's bonnie++ 1.03 (`bonnie++.cpp`, `bon_file.cpp`), its `-n`: 16 times 1024 files,
//! empty unless set otherwise. In order means names that begin with their number, in that order; at
//! random means names that begin with letters, in an order that is drawn for looking up and for
//! removing. Its tests of one large file are those of [`bonnie`](crate::bonnie) with a chunk of 8
//! KiB, whose order differs.
//!
//! *Differs* from the program where that calls `stat`: a file is opened and closed, which finds its
//! name and its inode as well; if it is not empty it is read, as there. In order, the program takes
//! names as the directory gives them. All files lie in one directory.
//!
//! *Promises.* The stream is a pure function of [`BonnieFilesSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, Script, Scripted, pieces, scripted},
    pattern::{Scatter, SpecError, within},
};
use alloc::{format, string::String};
use nandlab_sim::{mix, with_defaults};

const FILES_MAX: u64 = 1 << 24;
/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// What is written and read at once: the program's chunk.
const CHUNK: u64 = 8192;
/// The most letters of a name beside its number.
const LETTERS_MAX: u64 = 12;

with_defaults! {
    /// A run. The default is the program's.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BonnieFilesSpec {
        /// Draws names, orders, sizes and contents.
        pub seed: u64 = 1,
        /// Files of each half: 16384.
        pub files: u64 = 16_384,
        /// Least and most bytes of a file: 0.
        pub bytes: (u64, u64) = (0, 0),
        /// A sync of everything ends each phase that changes something, within its time. The
        /// program has none unless set (`-b` for each call).
        pub sync_all: bool = false,
    }
}

impl BonnieFilesSpec {
    /// Refuses what is no run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("files", self.files, 1..=FILES_MAX, "1 to 16777216")?;
        within(
            "size max",
            self.bytes.1,
            0..=BYTES_MAX,
            "at most 1073741824 bytes",
        )?;
        within(
            "size min",
            self.bytes.0,
            0..=self.bytes.1,
            "at most the most",
        )
    }

    fn length(&self, file: FileId) -> u64 {
        let (least, most) = self.bytes;
        least + mix(mix(self.seed, 1), file.0.into()) % (most - least + 1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Create,
    Find,
    Remove,
}

/// The stream of a [`BonnieFilesSpec`].
#[derive(Clone, Debug)]
pub struct BonnieFiles(Scripted<Run>);

scripted!(BonnieFiles);

#[derive(Clone, Debug)]
struct Run {
    spec: BonnieFilesSpec,
    /// Orders of looking up and of removing.
    orders: [Scatter; 2],
}

impl BonnieFiles {
    /// The run that `spec` describes, if that passes its [`check`](BonnieFilesSpec::check).
    pub fn new(spec: BonnieFilesSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        plan(&mut script, &spec);
        let contents = Contents::new(spec.seed);
        let orders = [2, 3].map(|part| Scatter::new(spec.files, mix(spec.seed, part)));
        let run = Run { spec, orders };
        Ok(Self(Scripted::new(script, contents, run)))
    }
}

fn plan(script: &mut Script<(Pass, bool)>, spec: &BonnieFilesSpec) {
    for (phase, pass, random) in [
        ("create-in-order", Pass::Create, false),
        ("stat-in-order", Pass::Find, false),
        ("remove-in-order", Pass::Remove, false),
        ("create-at-random", Pass::Create, true),
        ("stat-at-random", Pass::Find, true),
        ("remove-at-random", Pass::Remove, true),
    ] {
        script.pass(phase, (pass, random), spec.files);
        let sync = spec.sync_all && pass != Pass::Find;
        script.calls(phase, sync.then_some(FileCall::Sync));
    }
}

impl Benchmark for Run {
    /// Each at random or not.
    type Pass = (Pass, bool);

    fn item(&mut self, (pass, random): (Pass, bool), number: u64, calls: &mut Calls) {
        let number = match pass {
            Pass::Find if random => self.orders[0].place(number),
            Pass::Remove if random => self.orders[1].place(number),
            _ => number,
        };
        let file = FileId((number + if random { self.spec.files } else { 0 }) as u32);
        let length = self.spec.length(file);
        match pass {
            Pass::Create => file.make(length, CHUNK, false, calls),
            Pass::Find => {
                calls.push_back(FileCall::Open { file });
                let pieces = pieces(length, CHUNK);
                calls.extend(pieces.map(|(offset, length)| file.read(offset, length)));
                calls.push_back(FileCall::Close { file });
            }
            Pass::Remove => calls.push_back(FileCall::Remove { file }),
        }
    }

    /// Number and letters, or letters and number.
    fn name(&self, file: FileId) -> String {
        let key = mix(self.spec.seed, u64::from(file.0));
        let letter = |at: u64| (b'a' + (mix(key, at) % 26) as u8) as char;
        let letters: String = (0..key % (LETTERS_MAX + 1)).map(letter).collect();
        match u64::from(file.0).checked_sub(self.spec.files) {
            None => format!("{:05}{letters}", file.0),
            Some(number) => format!("{letters}{number:05}"),
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
    fn files_are_made_found_and_removed_in_order_and_then_at_random() {
        let found = sound::run(
            BonnieFiles::new(BonnieFilesSpec {
                files: 100,
                ..BonnieFilesSpec::default()
            })
            .unwrap(),
        );
        let numbers = |phase: &str| {
            let calls = found
                .of(phase)
                .into_iter()
                .filter(|call| !matches!(call, FileCall::Close { .. }));
            calls
                .map(|call| call.file().unwrap().0)
                .collect::<Vec<u32>>()
        };
        let ordered: Vec<u32> = (0..100).collect();
        for phase in ["create-in-order", "stat-in-order", "remove-in-order"] {
            assert_eq!(numbers(phase), ordered, "{phase}");
        }
        let found = numbers("stat-at-random");
        let removed = numbers("remove-at-random");
        assert!(found != removed && !found.is_sorted() && !removed.is_sorted());
        let sorted = |mut numbers: Vec<u32>| {
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(
            (sorted(found), sorted(removed)),
            ((100..200).collect(), (100..200).collect())
        );
    }

    #[test]
    fn names_in_order_begin_with_their_number_and_others_end_with_it() {
        let files = BonnieFiles::new(BonnieFilesSpec::default()).unwrap();
        assert!(
            files.name(FileId(7)).starts_with("00007")
                && files.name(FileId(16_384 + 7)).ends_with("00007")
        );
        assert!((0..40_000).all(|file| (5..=5 + 12).contains(&files.name(FileId(file)).len())));
    }

    #[test]
    fn what_is_no_run_is_refused_by_name() {
        let key = |change: &dyn Fn(&mut BonnieFilesSpec)| {
            sound::refused(BonnieFilesSpec::check, change).0
        };
        assert_eq!(key(&|_| ()), "accepted");
        assert_eq!(key(&|s| s.files = 0), "files");
        assert_eq!(key(&|s| s.bytes = (0, u64::MAX)), "size max");
        assert_eq!(key(&|s| s.bytes = (6, 5)), "size min");
    }

    proptest! {
        #[test]
        fn every_stream_is_sound(seed: u64, files in 1u64..60, least in 0u64..20_000, more in 0u64..9000, sync_all: bool) {
            let found = sound::run(BonnieFiles::new(BonnieFilesSpec { seed, files, bytes: (least, least + more), sync_all }).unwrap());
            prop_assert_eq!(found.expected.files().count(), 0);
            prop_assert_eq!(found.count(|call| *call == FileCall::Sync), if sync_all { 4 } else { 0 });
        }
    }
}
