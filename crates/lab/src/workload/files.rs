//! Workloads that are calls on files, and how one takes its keys out of `[workload]`.

use nandlab_stack::value::{Size, Take};
use nandlab_stack::{DescriptionError, Section};
use nandlab_workload::SpecError;
use nandlab_workload::files::FileCalls;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// A workload on files as described, of any seed.
pub trait FileWorkload: Debug + Send + Sync {
    /// The value of `workload.type`.
    fn name(&self) -> &'static str;

    /// The stream of this seed, from its beginning.
    fn open(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError>;
}

/// The options of a workload on files that `[workload]` can describe.
pub trait DescribedFiles: Debug + Send + Sync + Sized + 'static {
    /// The value of `workload.type`.
    const NAME: &'static str;
    /// The keys that this workload reads from its section.
    const KEYS: &'static [&'static str];

    /// Takes the keys without judging them together.
    fn take(section: &mut Section) -> Result<Self, DescriptionError>;

    /// Refuses options that do not fit each other, naming the field.
    fn check(&self) -> Result<(), SpecError>;

    /// The key of a field that [`check`](Self::check) names.
    fn key_of(field: &'static str) -> String {
        field.replace(' ', "-")
    }

    /// The stream of this seed, from its beginning.
    fn start(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError>;

    /// Takes the keys and checks them; an error names the key.
    fn take_checked(section: &mut Section) -> Result<Self, DescriptionError> {
        let options = Self::take(section)?;
        match DescribedFiles::check(&options) {
            Ok(()) => Ok(options),
            Err(error) => {
                Err(section.refuse(&Self::key_of(error.key), &error.found, &error.expected))
            }
        }
    }
}

impl<T: DescribedFiles> FileWorkload for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn open(&self, seed: u64) -> Result<Box<dyn FileCalls>, SpecError> {
        self.start(seed)
    }
}

/// A number, a flag or a text.
pub(super) fn plain<T: Take>(
    section: &mut Section,
    [key]: [&'static str; 1],
    fallback: T,
) -> Result<T, DescriptionError> {
    section.or(key, fallback)
}

/// Reads a setting that counts bytes.
pub(super) fn size(
    section: &mut Section,
    [key]: [&'static str; 1],
    fallback: u64,
) -> Result<u64, DescriptionError> {
    section.or(key, Size(fallback)).map(|size| size.0)
}

/// The least and the most bytes.
pub(super) fn range(
    section: &mut Section,
    [least, most]: [&'static str; 2],
    fallback: (u64, u64),
) -> Result<(u64, u64), DescriptionError> {
    let least = size(section, [least], fallback.0)?;
    Ok((least, size(section, [most], fallback.1)?))
}

/// The least and the most bytes; without the most, at least the least.
pub(super) fn range_from(
    section: &mut Section,
    [least, most]: [&'static str; 2],
    fallback: (u64, u64),
) -> Result<(u64, u64), DescriptionError> {
    let least = size(section, [least], fallback.0)?;
    Ok((least, size(section, [most], fallback.1.max(least))?))
}

/// One of several named values.
pub(super) fn choice<T: Copy + PartialEq>(
    section: &mut Section,
    [key]: [&'static str; 1],
    fallback: T,
    all: &[(&str, T)],
) -> Result<T, DescriptionError> {
    section.choice(key, all, fallback)
}

/// Some of several named values, in whatever order they are given.
pub(super) fn subset<T: Copy + Ord>(
    section: &mut Section,
    [key]: [&'static str; 1],
    fallback: BTreeSet<T>,
    all: &[(&'static str, T)],
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
    use super::*;
    use crate::workload::WorkloadDescription;
    use crate::workload::standard::KINDS;
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

    fn take(text: &str) -> Result<WorkloadDescription, String> {
        let mut document =
            Document::parse("e.toml", Path::new(""), &format!("[workload]\n{text}"), &[])
                .map_err(|e| e.to_string())?;
        WorkloadDescription::take(&mut document)
            .map(|(workload, _)| workload)
            .map_err(|e| e.to_string())
    }

    /// The options of a description whose type is theirs.
    fn options<T: DescribedFiles>(text: &str) -> T {
        assert_eq!(take(text).unwrap().on_files(), Some(T::NAME));
        let text = format!("[workload]\n{text}");
        let mut document = Document::parse("e.toml", Path::new(""), &text, &[]).unwrap();
        T::take_checked(&mut document.section("workload")).unwrap()
    }

    #[test]
    fn without_keys_they_are_as_published() {
        let spec: BonnieSpec = options("type = \"bonnie\"");
        assert_eq!(BonnieSpec { seed: 1, ..spec }, BonnieSpec::default());
        let spec: IozoneSpec = options("type = \"iozone\"");
        assert_eq!(IozoneSpec { seed: 1, ..spec }, IozoneSpec::default());
        let spec: RollbackSpec = options("type = \"rollback-journal\"");
        assert_eq!(RollbackSpec { seed: 1, ..spec }, RollbackSpec::default());
    }

    #[test]
    fn every_key_arrives() {
        let text = "type = \"bonnie\"
            size = \"8 MiB\"\nchunk = 8192\nstdio-buffer = 1024\nseeks = 50\nseekers = 2\nupdate-every = 3\nputc-instructions = 7
            getc-instructions = 9\nfsync = false\nsync-all = true\nkeep = false\nphases = [\"seeks\", \"write\"]";
        let spec: BonnieSpec = options(text);
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
        let spec: TiobenchSpec = options(text);
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
        let spec: IozoneSpec = options(text);
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
        let spec: RollbackSpec = options(text);
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
        let spec: FsMarkSpec = options(text);
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
        let spec: BonnieFilesSpec = options(text);
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
        let spec: WalSpec = options(text);
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
        let spec: RewritesSpec = options(text);
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
        let spec: InstallSpec = options(text);
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
        let spec: AgeingSpec = options(text);
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
        for kind in KINDS {
            let text = format!("type = \"{}\"", kind.name);
            let workload = take(&text).unwrap();
            let files = workload.files().unwrap();
            assert_ne!(
                files.open(1).unwrap().contents(),
                files.open(2).unwrap().contents()
            );
            assert_eq!(text, format!("type = \"{}\"", files.name()));
        }
    }
}
