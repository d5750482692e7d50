//! fs_mark: many small files, made durable in one of several ways.
//!
//! After R. Wheeler's fs_mark 3.3 (`fs_mark.c`, `fs_mark.h`): in each loop every thread makes its
//! files one after the other: create, write in pieces, make durable, close. It makes them durable
//! afterwards where the method says so, and removes them unless asked to keep them. Files per
//! second are those of the phases `files` and `sync` together; the program counts the removal, too.
//!
//! *Differs* from the program where that has threads, which are one stream here, a file of each in
//! turn; and all files lie in one directory, as without its `-D`.
//!
//! *Promises.* The stream is a pure function of [`FsMarkSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, Script, Scripted, scripted},
    pattern::{SpecError, within},
};
use alloc::{format, string::String};
use nandlab_sim::{mix, with_defaults};

/// The most files of a thread in a loop: the program's.
const FILES_MAX: u64 = 1_000_000;
/// The most threads: the program's.
const THREADS_MAX: u64 = 64;
/// The longest piece that is written at once: the program's buffer.
const PIECE_MAX: u64 = 1 << 20;
/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 40;
/// Letters of a name that are drawn, and those that count.
const DRAWN: usize = 24;
const LETTERS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

const FILES: &str = "files";
const SYNC: &str = "sync";
const REMOVE: &str = "remove";

/// How files are made durable, by the number that `-S` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsMarkSync {
    /// 0: not at all.
    None,
    /// 1: each by fsync before it is closed.
    PerFile,
    /// 2: by one sync of everything, and an fsync of the first file.
    Everything,
    /// 3: all are opened again and fsynced, from the last to the first.
    Reverse,
    /// 4: a sync of everything, then as 3.
    EverythingReverse,
    /// 5: all are opened again and fsynced, in order.
    InOrder,
    /// 6: a sync of everything, then as 5.
    EverythingInOrder,
}

impl FsMarkSync {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::PerFile,
        Self::Everything,
        Self::Reverse,
        Self::EverythingReverse,
        Self::InOrder,
        Self::EverythingInOrder,
    ];

    /// A name for descriptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PerFile => "per-file",
            Self::Everything => "everything",
            Self::Reverse => "reverse",
            Self::EverythingReverse => "everything-reverse",
            Self::InOrder => "in-order",
            Self::EverythingInOrder => "everything-in-order",
        }
    }

    fn has_sync(self) -> bool {
        matches!(
            self,
            Self::Everything | Self::EverythingReverse | Self::EverythingInOrder
        )
    }
}

with_defaults! {
    /// A run of fs_mark. The defaults are the program's.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FsMarkSpec {
        /// Draws names and contents.
        pub seed: u64 = 1,
        /// Files of a thread in a loop (`-n`): 1000.
        pub files: u64 = 1000,
        /// Bytes of a file (`-s`): 51200.
        pub bytes: u64 = 51_200,
        /// Bytes that are written at once (`-w`): 16384.
        pub piece: u64 = 16_384,
        /// The number of threads (`-t`): 1 by default.
        pub threads: u64 = 1,
        /// How files are made durable (`-S`): each before it is closed.
        pub sync: FsMarkSync = FsMarkSync::PerFile,
        /// The number of loops (`-L`): 1 by default.
        pub loops: u64 = 1,
        /// Whether files stay after the run (`-k`).
        pub keep: bool = false,
    }
}

impl FsMarkSpec {
    /// Refuses what is no run, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("files", self.files, 1..=FILES_MAX, "1 to 1000000")?;
        within(
            "bytes",
            self.bytes,
            0..=BYTES_MAX,
            "at most 1099511627776 bytes",
        )?;
        within("piece", self.piece, 1..=PIECE_MAX, "1 to 1048576 bytes")?;
        within("threads", self.threads, 1..=THREADS_MAX, "1 to 64")?;
        let most = u64::from(u32::MAX) / (self.files * self.threads);
        within(
            "loops",
            self.loops,
            1..=most,
            "at least 1, and at most 4294967295 files altogether",
        )
    }

    fn files_of_loop(&self) -> u64 {
        self.files * self.threads
    }
}

/// What happens to each file of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pass {
    Make,
    /// From the last to the first if `backwards`.
    Fsync {
        backwards: bool,
    },
    Remove,
}

/// The stream of an [`FsMarkSpec`].
#[derive(Clone, Debug)]
pub struct FsMark(Scripted<FsMarkSpec>);

scripted!(FsMark);

impl FsMark {
    /// The run that `spec` describes, if that passes its [`check`](FsMarkSpec::check).
    pub fn new(spec: FsMarkSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        let count = spec.files_of_loop();
        for first in (0..spec.loops).map(|number| number * count) {
            script.pass(FILES, (Pass::Make, first), count);
            script.calls(SYNC, spec.sync.has_sync().then_some(FileCall::Sync));
            plan_sync(&mut script, spec.sync, first, count);
            if !spec.keep {
                script.pass(REMOVE, (Pass::Remove, first), count);
            }
        }
        let contents = Contents::new(spec.seed);
        Ok(Self(Scripted::new(script, contents, spec)))
    }
}

fn plan_sync(script: &mut Script<(Pass, u64)>, sync: FsMarkSync, first: u64, count: u64) {
    let fsync = |backwards| (Pass::Fsync { backwards }, first);
    match sync {
        FsMarkSync::None | FsMarkSync::PerFile => {}
        FsMarkSync::Everything => script.pass(SYNC, fsync(false), 1),
        FsMarkSync::Reverse | FsMarkSync::EverythingReverse => {
            script.pass(SYNC, fsync(true), count)
        }
        FsMarkSync::InOrder | FsMarkSync::EverythingInOrder => {
            script.pass(SYNC, fsync(false), count)
        }
    }
}

impl Benchmark for FsMarkSpec {
    /// Each with the first file of its loop.
    type Pass = (Pass, u64);

    fn item(&mut self, (pass, first): (Pass, u64), number: u64, calls: &mut Calls) {
        let number = match pass {
            Pass::Fsync { backwards: true } => self.files_of_loop() - 1 - number,
            _ => number,
        };
        let file = FileId((first + number) as u32);
        match pass {
            Pass::Make => {
                let fsync = self.sync == FsMarkSync::PerFile;
                file.make(self.bytes, self.piece, fsync, calls);
            }
            Pass::Fsync { .. } => calls.extend([
                FileCall::Open { file },
                FileCall::Fsync { file },
                FileCall::Close { file },
            ]),
            Pass::Remove => calls.push_back(FileCall::Remove { file }),
        }
    }

    /// 24 letters that are drawn and 16 that count, as the program's 40.
    fn name(&self, file: FileId) -> String {
        let key = mix(self.seed, u64::from(file.0));
        let letter = |at: usize| LETTERS[(mix(key, at as u64) % 32) as usize] as char;
        let drawn: String = (0..DRAWN).map(letter).collect();
        format!("{drawn}{:016}", file.0)
    }
}

#[cfg(test)]
mod tests;
