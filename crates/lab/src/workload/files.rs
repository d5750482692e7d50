//! Workloads that are calls on files rather than requests to a disk.

use super::{
    ageing, bonnie, bonnie_files, camera, fsmark, install, iozone, rewrites, rollback, tiobench,
    wal,
};
use nandlab_stack::value::Size;
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::SpecError;
use nandlab_workload::ageing::{Ageing, AgeingSpec};
use nandlab_workload::bonnie::{Bonnie, BonnieSpec};
use nandlab_workload::bonnie_files::{BonnieFiles, BonnieFilesSpec};
use nandlab_workload::camera::{CameraMs500, CameraSpec};
use nandlab_workload::files::FileCalls;
use nandlab_workload::fsmark::{FsMark, FsMarkSpec};
use nandlab_workload::install::{Install, InstallSpec};
use nandlab_workload::iozone::{Iozone, IozoneSpec};
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use nandlab_workload::rollback::{Rollback, RollbackSpec};
use nandlab_workload::tiobench::{Tiobench, TiobenchSpec};
use nandlab_workload::wal::{Wal, WalSpec};
use std::collections::BTreeSet;

/// The names of these workloads, with their keys.
pub(super) const TYPES: [(&str, &[&str]); 11] = [
    ("camera-ms500", &camera::KEYS),
    ("bonnie", &bonnie::KEYS),
    ("iozone", &iozone::KEYS),
    ("rollback-journal", &rollback::KEYS),
    ("tiobench", &tiobench::KEYS),
    ("fs-mark", &fsmark::KEYS),
    ("bonnie++-files", &bonnie_files::KEYS),
    ("random-rewrites", &rewrites::KEYS),
    ("write-ahead-log", &wal::KEYS),
    ("app-install", &install::KEYS),
    ("ageing", &ageing::KEYS),
];

/// A workload on files as described, of any seed.
#[derive(Clone, Debug)]
pub enum FilesDescription {
    /// Photos and their index.
    Camera(CameraSpec),
    /// One file, by characters, by blocks and at random.
    Bonnie(BonnieSpec),
    /// One file, in records of one size.
    Iozone(IozoneSpec),
    /// A database and its rollback journal.
    Rollback(RollbackSpec),
    /// Threads with a file each, by blocks.
    Tiobench(TiobenchSpec),
    /// Many small files, made durable one way or another.
    FsMark(FsMarkSpec),
    /// Names, in order and at random.
    BonnieFiles(BonnieFilesSpec),
    /// Large files, overwritten at random.
    Rewrites(RewritesSpec),
    /// A database and its write-ahead log.
    Wal(WalSpec),
    /// Packages, their code and their data.
    Install(InstallSpec),
    /// Files that go and come, round after round.
    Ageing(AgeingSpec),
}

impl FilesDescription {
    /// Takes the keys of the type `name`, one of [`TYPES`].
    pub(super) fn take(name: &str, section: &mut Section) -> Result<Self, DescriptionError> {
        Ok(match name {
            "bonnie" => Self::Bonnie(bonnie::take(section)?),
            "iozone" => Self::Iozone(iozone::take(section)?),
            "tiobench" => Self::Tiobench(tiobench::take(section)?),
            "rollback-journal" => Self::Rollback(rollback::take(section)?),
            "fs-mark" => Self::FsMark(fsmark::take(section)?),
            "bonnie++-files" => Self::BonnieFiles(bonnie_files::take(section)?),
            "random-rewrites" => Self::Rewrites(rewrites::take(section)?),
            "write-ahead-log" => Self::Wal(wal::take(section)?),
            "app-install" => Self::Install(install::take(section)?),
            "ageing" => Self::Ageing(ageing::take(section)?),
            _ => Self::Camera(camera::take(section)?),
        })
    }

    /// The stream of this seed, from its beginning.
    pub fn open(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError> {
        Ok(match self {
            Self::Camera(spec) => Box::new(CameraMs500::new(CameraSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Bonnie(spec) => Box::new(Bonnie::new(BonnieSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Iozone(spec) => Box::new(Iozone::new(IozoneSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Tiobench(spec) => Box::new(Tiobench::new(TiobenchSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Rollback(spec) => Box::new(Rollback::new(RollbackSpec {
                seed,
                ..spec.clone()
            })?),
            Self::FsMark(spec) => Box::new(FsMark::new(FsMarkSpec {
                seed,
                ..spec.clone()
            })?),
            Self::BonnieFiles(spec) => Box::new(BonnieFiles::new(BonnieFilesSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Rewrites(spec) => Box::new(Rewrites::new(RewritesSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Wal(spec) => Box::new(Wal::new(WalSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Install(spec) => Box::new(Install::new(InstallSpec {
                seed,
                ..spec.clone()
            })?),
            Self::Ageing(spec) => Box::new(Ageing::new(AgeingSpec {
                seed,
                ..spec.clone()
            })?),
        })
    }

    /// The value of `workload.type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Camera(_) => "camera-ms500",
            Self::Bonnie(_) => "bonnie",
            Self::Iozone(_) => "iozone",
            Self::Tiobench(_) => "tiobench",
            Self::Rollback(_) => "rollback-journal",
            Self::FsMark(_) => "fs-mark",
            Self::BonnieFiles(_) => "bonnie++-files",
            Self::Rewrites(_) => "random-rewrites",
            Self::Wal(_) => "write-ahead-log",
            Self::Install(_) => "app-install",
            Self::Ageing(_) => "ageing",
        }
    }
}

/// Bytes.
pub(super) fn size(
    section: &mut Section,
    key: &'static str,
    fallback: u64,
) -> Result<u64, DescriptionError> {
    section.or(key, Size(fallback)).map(|size| size.0)
}

/// Some of several named values, in whatever order they are given.
pub(super) fn subset<T: Copy + Ord>(
    section: &mut Section,
    key: &'static str,
    all: &[(&'static str, T)],
    fallback: BTreeSet<T>,
) -> Result<BTreeSet<T>, DescriptionError> {
    let named = |value: &T| {
        all.iter()
            .find(|(_, one)| one == value)
            .map_or(String::new(), |(name, _)| (*name).into())
    };
    let chosen: Vec<String> = section.or(key, fallback.iter().map(named).collect())?;
    let value = |name: &String| {
        let known = all
            .iter()
            .find(|(one, _)| one == name)
            .map(|(_, value)| *value);
        let names = || {
            all.iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        known.ok_or_else(|| {
            section.refuse(key, &format!("\"{name}\""), &format!("some of {}", names()))
        })
    };
    chosen.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::TYPES;
    use crate::workload::{FilesDescription, WorkloadDescription};
    use nandlab_stack::Document;
    use nandlab_workload::ageing::AgeingSpec;
    use nandlab_workload::bonnie::{BonniePhase, BonnieSpec};
    use nandlab_workload::bonnie_files::BonnieFilesSpec;
    use nandlab_workload::files::Look;
    use nandlab_workload::fsmark::{FsMarkSpec, FsMarkSync};
    use nandlab_workload::install::InstallSpec;
    use nandlab_workload::iozone::{IozoneSpec, IozoneTest};
    use nandlab_workload::rewrites::RewritesSpec;
    use nandlab_workload::rollback::{JournalMode, RollbackSpec};
    use nandlab_workload::tiobench::{TiobenchPhase, TiobenchSpec};
    use nandlab_workload::wal::WalSpec;
    use std::path::Path;

    fn take(text: &str) -> Result<FilesDescription, String> {
        let mut document =
            Document::parse("e.toml", Path::new(""), &format!("[workload]\n{text}"), &[])
                .map_err(|e| e.to_string())?;
        let (workload, _) = WorkloadDescription::take(&mut document).map_err(|e| e.to_string())?;
        Ok(workload.files().expect("a workload on files").clone())
    }

    #[test]
    fn without_keys_they_are_as_published() {
        let Ok(FilesDescription::Bonnie(spec)) = take("type = \"bonnie\"") else {
            panic!("not Bonnie")
        };
        assert_eq!(BonnieSpec { seed: 1, ..spec }, BonnieSpec::default());
        let Ok(FilesDescription::Iozone(spec)) = take("type = \"iozone\"") else {
            panic!("not IOzone")
        };
        assert_eq!(IozoneSpec { seed: 1, ..spec }, IozoneSpec::default());
        let Ok(FilesDescription::Rollback(spec)) = take("type = \"rollback-journal\"") else {
            panic!("no database")
        };
        assert_eq!(RollbackSpec { seed: 1, ..spec }, RollbackSpec::default());
    }

    #[test]
    fn every_key_arrives() {
        let text = "type = \"bonnie\"
            size = \"8 MiB\"\nchunk = 8192\nstdio-buffer = 1024\nseeks = 50\nseekers = 2\nupdate-every = 3\nputc-instructions = 7
            getc-instructions = 9\nfsync = false\nsync-all = true\nkeep = false\nphases = [\"seeks\", \"write\"]";
        let Ok(FilesDescription::Bonnie(spec)) = take(text) else {
            panic!("not Bonnie")
        };
        let expected = BonnieSpec {
            seed: 0,
            bytes: 8 << 20,
            chunk: 8192,
            stdio_buffer: 1024,
            seeks: 50,
            seekers: 2,
            update_every: 3,
            putc_instructions: 7,
            getc_instructions: 9,
            fsync: false,
            sync_all: true,
            keep: false,
            phases: [BonniePhase::Write, BonniePhase::Seeks].into(),
        };
        assert_eq!(spec, expected);
        let text =
            "type = \"tiobench\"\nsize = \"1 MiB\"\nblock = \"64 KiB\"\nthreads = 2\nrandom = 7\nfsync = false\ntruncate-first = false
            contents = \"text\"\nphases = [\"write\", \"read\"]";
        let Ok(FilesDescription::Tiobench(spec)) = take(text) else {
            panic!("not tiobench")
        };
        let expected = TiobenchSpec {
            seed: 0,
            bytes: 1 << 20,
            block: 64 << 10,
            threads: 2,
            random: 7,
            fsync: false,
            truncate_first: false,
            contents: Look::Text,
            phases: [TiobenchPhase::Write, TiobenchPhase::Read].into(),
        };
        assert_eq!(spec, expected);
        let text = "type = \"iozone\"\nsize = \"2 MiB\"\nrecord = \"64 KiB\"\ntests = [\"write\", \"record-rewrite\"]
            include-fsync = false\ninclude-close = true\nsync = true\nsync-all = true";
        let Ok(FilesDescription::Iozone(spec)) = take(text) else {
            panic!("not IOzone")
        };
        let tests = [IozoneTest::Write, IozoneTest::RecordRewrite].into();
        assert_eq!(
            spec,
            IozoneSpec {
                seed: 0,
                bytes: 2 << 20,
                record: 64 << 10,
                tests,
                flush: false,
                close: true,
                sync: true,
                sync_all: true
            }
        );
        let text = "type = \"rollback-journal\"\npages = 10\npage = \"1 KiB\"\ntransactions = 5\nchanged = 3\njournal-mode = \"persist\"\nfull = false";
        let Ok(FilesDescription::Rollback(spec)) = take(text) else {
            panic!("no database")
        };
        let mode = JournalMode::Persist;
        assert_eq!(
            spec,
            RollbackSpec {
                seed: 0,
                pages: 10,
                page: 1024,
                transactions: 5,
                changed: 3,
                mode,
                full: false
            }
        );
    }

    #[test]
    fn every_key_of_small_files_and_of_logs_arrives() {
        let text = "type = \"fs-mark\"\nfiles = 5\nsize = \"8 KiB\"\nwrite-size = 512\nthreads = 2\nsync-method = \"reverse\"\nloops = 3\nkeep = true";
        let Ok(FilesDescription::FsMark(spec)) = take(text) else {
            panic!("not fs_mark")
        };
        let sync = FsMarkSync::Reverse;
        assert_eq!(
            spec,
            FsMarkSpec {
                seed: 0,
                files: 5,
                bytes: 8192,
                piece: 512,
                threads: 2,
                sync,
                loops: 3,
                keep: true
            }
        );
        let text = "type = \"bonnie++-files\"\nfiles = 5\nsize-min = 7\nsize-max = \"1 KiB\"\nsync-all = true";
        let Ok(FilesDescription::BonnieFiles(spec)) = take(text) else {
            panic!("not bonnie++")
        };
        assert_eq!(
            spec,
            BonnieFilesSpec {
                seed: 0,
                files: 5,
                bytes: (7, 1024),
                sync_all: true
            }
        );
        let text = "type = \"write-ahead-log\"\npages = 10\npage = \"1 KiB\"\ntransactions = 5\nchanged = 3\ncheckpoint = 7\nfull = false";
        let Ok(FilesDescription::Wal(spec)) = take(text) else {
            panic!("no database")
        };
        assert_eq!(
            spec,
            WalSpec {
                seed: 0,
                pages: 10,
                page: 1024,
                transactions: 5,
                changed: 3,
                checkpoint: 7,
                full: false
            }
        );
    }

    #[test]
    fn every_key_of_what_ages_a_volume_arrives() {
        let text = "type = \"random-rewrites\"\nfiles = 2\nsize = \"1 MiB\"\nrecord = 512\nspread = 1024\nrounds = 3\nround = 2048
            everywhere = true\nfsync = false";
        let Ok(FilesDescription::Rewrites(spec)) = take(text) else {
            panic!("no rewrites")
        };
        let expected = RewritesSpec {
            seed: 0,
            files: 2,
            bytes: 1 << 20,
            record: 512,
            spread: 1024,
            rounds: 3,
            round: 2048,
            everywhere: true,
            fsync: false,
        };
        assert_eq!(spec, expected);
        let text = "type = \"app-install\"\napps = 2\npackage-min = 10\npackage-max = 20\nwrite-size = 30\ncode-percent = 40\nfiles = 5
            file-min = 60\nfile-max = 70\nfsync-every = 8";
        let Ok(FilesDescription::Install(spec)) = take(text) else {
            panic!("no applications")
        };
        let expected = InstallSpec {
            seed: 0,
            apps: 2,
            package: (10, 20),
            piece: 30,
            code_percent: 40,
            files: 5,
            file: (60, 70),
            fsync_every: 8,
        };
        assert_eq!(spec, expected);
        let text = "type = \"ageing\"\nsize = \"1 MiB\"\nfile-min = 10\nfile-max = 20\nwrite-size = 30\ngrowing = 4\nrounds = 5
            turnover = 60\noverwritten = 70\nsync-all = false";
        let Ok(FilesDescription::Ageing(spec)) = take(text) else {
            panic!("no ageing")
        };
        let expected = AgeingSpec {
            seed: 0,
            bytes: 1 << 20,
            file: (10, 20),
            piece: 30,
            growing: 4,
            rounds: 5,
            turnover: 60,
            overwritten: 70,
            sync: false,
        };
        assert_eq!(spec, expected);
    }

    #[test]
    fn each_bad_value_is_refused_at_its_key() {
        let cases = [
            (
                "type = \"fs-mark\"\nwrite-size = 0",
                "workload.write-size: found 0, expected 1 to 1048576 bytes",
            ),
            (
                "type = \"fs-mark\"\nsync-method = \"always\"",
                "workload.sync-method: found \"always\", expected one of \"none\", \"per-file\"",
            ),
            (
                "type = \"bonnie++-files\"\nsize-min = 9\nsize-max = 8",
                "workload.size-min: found 9, expected at most the most",
            ),
            (
                "type = \"random-rewrites\"\nsize = 5",
                "workload.size: found 5, expected at least a record",
            ),
            (
                "type = \"write-ahead-log\"\ncheckpoint = 0",
                "workload.checkpoint: found 0, expected 1 to 1048576 pages",
            ),
            (
                "type = \"app-install\"\npackage-max = 5",
                "workload.package-max: found 5, expected at least the least",
            ),
            (
                "type = \"ageing\"\nfile-max = 5",
                "workload.file-max: found 5, expected at least the least",
            ),
            (
                "type = \"bonnie\"\nsize = 4095",
                "workload.size: found 4095, expected at least a chunk",
            ),
            (
                "type = \"bonnie\"\nchunk = 0",
                "workload.chunk: found 0, expected 1 to 1073741824 bytes",
            ),
            (
                "type = \"bonnie\"\nstdio-buffer = 0",
                "workload.stdio-buffer: found 0, expected 1 to",
            ),
            (
                "type = \"bonnie\"\nseekers = 0",
                "workload.seekers: found 0, expected at least 1",
            ),
            (
                "type = \"bonnie\"\nupdate-every = 0",
                "workload.update-every: found 0, expected at least 1",
            ),
            (
                "type = \"bonnie\"\nputc-instructions = 99999999999",
                "workload.putc-instructions: found 99999999999, expected at most",
            ),
            (
                "type = \"bonnie\"\ngetc-instructions = 99999999999",
                "workload.getc-instructions: found 99999999999, expected at most",
            ),
            (
                "type = \"bonnie\"\nphases = [\"puts\"]",
                "workload.phases: found \"puts\", expected some of \"putc\", \"rewrite\", \"write\",",
            ),
            (
                "type = \"bonnie\"\nphases = [\"read\"]",
                "workload.phases: found read, expected putc or write before it",
            ),
            (
                "type = \"bonnie\"\nrecord = 1",
                "workload.record: has no effect, it needs type = \"iozone\"",
            ),
            (
                "type = \"iozone\"\nsize = 1",
                "workload.size: found 1, expected at least a record",
            ),
            (
                "type = \"iozone\"\nrecord = \"32 MiB\"",
                "workload.record: found 33554432, expected 1 to 16777216 bytes",
            ),
            (
                "type = \"iozone\"\ntests = []",
                "workload.tests: found none, expected write among them",
            ),
            (
                "type = \"iozone\"\nphases = []",
                "workload.phases: has no effect, it needs type = \"bonnie\"",
            ),
            (
                "type = \"tiobench\"\nblock = 0",
                "workload.block: found 0, expected 1 to 1073741824 bytes",
            ),
            (
                "type = \"tiobench\"\nsize = 5",
                "workload.size: found 5, expected at least a block",
            ),
            (
                "type = \"tiobench\"\ncontents = \"ones\"",
                "workload.contents: found \"ones\", expected one of \"zero\", \"text\", \"random\"",
            ),
            (
                "type = \"iozone\"\nphoto-min = 1",
                "workload.photo-min: has no effect, it needs type = \"camera-ms500\"",
            ),
            (
                "type = \"rollback-journal\"\nchanged = 256",
                "workload.changed: found 256, expected at most",
            ),
            (
                "type = \"rollback-journal\"\njournal-mode = \"wal\"",
                "workload.journal-mode: found \"wal\", expected one of \"delete\",",
            ),
            (
                "size = 512\nrecord = 1",
                "workload.record: has no effect, it needs type = \"iozone\"",
            ),
        ];
        for (text, expected) in cases {
            let error = take(text)
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_seed_draws_other_contents() {
        for (name, _) in TYPES {
            let text = format!("type = \"{name}\"");
            let files = take(&text).unwrap();
            assert_ne!(
                files.open(1).unwrap().contents(),
                files.open(2).unwrap().contents()
            );
            assert_eq!(text, format!("type = \"{}\"", files.name()));
        }
    }
}
