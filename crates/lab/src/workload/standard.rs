//! The workloads on files: a table of the keys of each. The camera's keys depend on each other, so
//! that it has a module of its own.

mod camera;

use super::Kind;
use super::files::{DescribedFiles, choice, plain, range, range_from, size, subset};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::SpecError;
use nandlab_workload::ageing::{Ageing, AgeingSpec};
use nandlab_workload::bonnie::{Bonnie, BonniePhase, BonnieSpec};
use nandlab_workload::bonnie_files::{BonnieFiles, BonnieFilesSpec};
use nandlab_workload::camera::CameraSpec;
use nandlab_workload::files::{FileCalls, Look};
use nandlab_workload::fsmark::{FsMark, FsMarkSpec, FsMarkSync};
use nandlab_workload::install::{Install, InstallSpec};
use nandlab_workload::iozone::{Iozone, IozoneSpec, IozoneTest};
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use nandlab_workload::rollback::{JournalMode, Rollback, RollbackSpec};
use nandlab_workload::tiobench::{Tiobench, TiobenchPhase, TiobenchSpec};
use nandlab_workload::wal::{Wal, WalSpec};

const MODES: [(&str, JournalMode); 3] = [
    ("delete", JournalMode::Delete),
    ("truncate", JournalMode::Truncate),
    ("persist", JournalMode::Persist),
];
const LOOKS: [(&str, Look); 3] = [
    ("zero", Look::Zero),
    ("text", Look::Text),
    ("random", Look::Random),
];

/// Describes workloads by their fields: how each is taken, and from which keys. The seed is the
/// run's.
macro_rules! workloads {
    ($($spec:ident as $name:literal runs $calls:ident {
        $($field:ident: $how:ident $($key:literal)+ $(of $values:expr)?;)*
    })*) => {
        $(impl DescribedFiles for $spec {
            const NAME: &'static str = $name;
            const KEYS: &'static [&'static str] = &[$($($key),+),*];

            fn take(section: &mut Section) -> Result<Self, DescriptionError> {
                let default = Self::default();
                Ok(Self {
                    $($field: $how(section, [$($key),+], default.$field $(, &$values)?)?,)*
                    seed: 0,
                })
            }

            fn check(&self) -> Result<(), SpecError> {
                Self::check(self)
            }

            fn key_of(field: &'static str) -> String {
                let keys = [$((stringify!($field), &[$($key),+][..])),*];
                match keys.iter().find(|(known, keys)| *known == field && keys.len() == 1) {
                    Some((_, keys)) => keys[0].into(),
                    None => field.replace(' ', "-"),
                }
            }

            fn start(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError> {
                let spec = Self { seed, ..self.clone() };
                Ok(Box::new($calls::new(spec)?))
            }
        })*

        /// Every workload on files.
        pub(super) const KINDS: &[Kind] =
            &[Kind::files::<CameraSpec>(), $(Kind::files::<$spec>()),*];
    };
}

workloads! {
    BonnieSpec as "bonnie" runs Bonnie {
        bytes: size "size";
        chunk: size "chunk";
        stdio_buffer: size "stdio-buffer";
        seeks: plain "seeks";
        seekers: plain "seekers";
        update_every: plain "update-every";
        putc_instructions: plain "putc-instructions";
        getc_instructions: plain "getc-instructions";
        fsync: plain "fsync";
        sync_all: plain "sync-all";
        keep: plain "keep";
        phases: subset "phases" of BonniePhase::ALL.map(|phase| (phase.name(), phase));
    }
    IozoneSpec as "iozone" runs Iozone {
        bytes: size "size";
        record: size "record";
        tests: subset "tests" of IozoneTest::ALL.map(|test| (test.name(), test));
        flush: plain "include-fsync";
        close: plain "include-close";
        sync: plain "sync";
        sync_all: plain "sync-all";
    }
    RollbackSpec as "rollback-journal" runs Rollback {
        pages: plain "pages";
        page: size "page";
        transactions: plain "transactions";
        changed: plain "changed";
        mode: choice "journal-mode" of MODES;
        full: plain "full";
    }
    TiobenchSpec as "tiobench" runs Tiobench {
        bytes: size "size";
        block: size "block";
        threads: plain "threads";
        random: plain "random";
        fsync: plain "fsync";
        truncate_first: plain "truncate-first";
        contents: choice "contents" of LOOKS;
        phases: subset "phases" of TiobenchPhase::ALL.map(|phase| (phase.name(), phase));
    }
    FsMarkSpec as "fs-mark" runs FsMark {
        files: plain "files";
        bytes: size "size";
        piece: size "write-size";
        threads: plain "threads";
        sync: choice "sync-method" of FsMarkSync::ALL.map(|sync| (sync.name(), sync));
        loops: plain "loops";
        keep: plain "keep";
    }
    BonnieFilesSpec as "bonnie++-files" runs BonnieFiles {
        files: plain "files";
        bytes: range_from "size-min" "size-max";
        sync_all: plain "sync-all";
    }
    RewritesSpec as "random-rewrites" runs Rewrites {
        files: plain "files";
        bytes: size "size";
        record: size "record";
        spread: size "spread";
        rounds: plain "rounds";
        round: size "round";
        everywhere: plain "everywhere";
        fsync: plain "fsync";
    }
    WalSpec as "write-ahead-log" runs Wal {
        pages: plain "pages";
        page: size "page";
        transactions: plain "transactions";
        changed: plain "changed";
        checkpoint: plain "checkpoint";
        full: plain "full";
    }
    InstallSpec as "app-install" runs Install {
        apps: plain "apps";
        package: range "package-min" "package-max";
        piece: size "write-size";
        code_percent: plain "code-percent";
        files: plain "files";
        file: range "file-min" "file-max";
        fsync_every: plain "fsync-every";
    }
    AgeingSpec as "ageing" runs Ageing {
        bytes: size "size";
        file: range "file-min" "file-max";
        piece: size "write-size";
        growing: plain "growing";
        rounds: plain "rounds";
        turnover: plain "turnover";
        overwritten: plain "overwritten";
        sync: plain "sync-all";
    }
}
