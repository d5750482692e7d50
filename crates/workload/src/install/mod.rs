//! Applications are installed: for each a package, the code that is made of it, data of its own,
//! and the list of all packages.
//!
//! After what Android's package manager leaves behind: the package is written in pieces and made
//! durable; its code is optimised into a file of its own, made durable too; libraries and data
//! follow as small files, some made durable; then the list of packages is written beside the old
//! one, made durable, and takes its place. Numbers and sizes are assumed: the F2FS paper (ELC
//! Europe 2012) reports the seconds that "app install" took and not what it consisted of.
//!
//! *Differs* from the real one: the list is written anew under a name of its own and the old one
//! removed, as streams of file calls do not rename; all files lie in one directory.
//!
//! *Promises.* The stream is a pure function of [`InstallSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{SpecError, below, within},
};
use alloc::{format, string::String};
use nandlab_sim::{Rng, rng, with_defaults};

const INSTALL: &str = "install";
/// The longest file in bytes.
const BYTES_MAX: u64 = 1 << 32;
/// The most applications, and files of each.
const APPS_MAX: u64 = 1 << 16;
const FILES_MAX: u64 = 1 << 14;
/// Bytes of the list for each package (assumed).
const LISTED: u64 = 900;
/// Files of an application that come before the small ones: package, code, list.
const FIRST: u64 = 3;

with_defaults! {
    /// Applications and their files.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct InstallSpec {
        /// Draws sizes and contents.
        pub seed: u64 = 1,
        /// The number of applications: 30 by default, assumed.
        pub apps: u64 = 30,
        /// Least and most bytes of a package: 1 MiB to 10 MiB (assumed).
        pub package: (u64, u64) = (1 << 20, 10 << 20),
        /// Bytes of a package that are written at once: 64 KiB (assumed).
        pub piece: u64 = 64 << 10,
        /// Code made of a package, in percent of it: 40 (assumed).
        pub code_percent: u64 = 40,
        /// Small files: 20 (assumed).
        pub files: u64 = 20,
        /// Least and most bytes of one: 512 to 64 KiB, small ones more often (assumed).
        pub file: (u64, u64) = (512, 64 << 10),
        /// Every so many small files one is made durable, 0 for none: 2 (assumed).
        pub fsync_every: u64 = 2,
    }
}

impl InstallSpec {
    /// Refuses what is no installation, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        within("apps", self.apps, 1..=APPS_MAX, "1 to 65536")?;
        let range = "at least 1 byte, and at most 4294967296";
        for ((least, most), [first, last]) in [
            (self.package, ["package min", "package max"]),
            (self.file, ["file min", "file max"]),
        ] {
            within(first, least, 1..=BYTES_MAX, range)?;
            within(
                last,
                most,
                least..=BYTES_MAX,
                "at least the least, and at most 4294967296",
            )?;
        }
        within("piece", self.piece, 1..=1 << 30, "1 to 1073741824 bytes")?;
        within("code percent", self.code_percent, 0..=1000, "at most 1000")?;
        within("files", self.files, 0..=FILES_MAX, "at most 16384")
    }
}

/// The stream of an [`InstallSpec`].
#[derive(Clone, Debug)]
pub struct Install(Scripted<Run>);

scripted!(Install);

#[derive(Clone, Debug)]
struct Run {
    spec: InstallSpec,
    sizes: Rng,
}

impl Install {
    /// The installations that `spec` describes, if that passes its [`check`](InstallSpec::check).
    pub fn new(spec: InstallSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        script.pass(INSTALL, (), spec.apps);
        script.calls(SET_UP, [FileCall::Sync]);
        let contents = Contents::new(spec.seed);
        let sizes = rng(spec.seed, "installed sizes");
        let run = Run { spec, sizes };
        Ok(Self(Scripted::new(script, contents, run)))
    }
}

impl InstallSpec {
    /// The file of an application with this number.
    fn file(&self, app: u64, number: u64) -> FileId {
        FileId((app * (FIRST + self.files) + number) as u32)
    }

    /// The application of a file, and its number there.
    fn place(&self, file: FileId) -> (u64, u64) {
        let file = u64::from(file.0);
        let each = FIRST + self.files;
        (file / each, file % each)
    }
}

/// A size between two, each doubling equally likely.
pub(crate) fn skewed(sizes: &mut Rng, (least, most): (u64, u64)) -> u64 {
    let doublings = most.div_ceil(least).next_power_of_two().ilog2().max(1);
    let low = least << below(sizes, doublings.into());
    low + below(sizes, low.min(most - low) + 1)
}

impl Benchmark for Run {
    type Pass = ();

    /// The calls of one application.
    fn item(&mut self, (): (), app: u64, calls: &mut Calls) {
        let Self { spec, sizes } = self;
        let mut make = |number, bytes, durable| {
            let file = spec.file(app, number);
            file.make(bytes, spec.piece, durable, calls);
        };
        let package = spec.package.0 + below(sizes, spec.package.1 - spec.package.0 + 1);
        make(0, package, true);
        make(1, package * spec.code_percent / 100, true);
        for number in 0..spec.files {
            let durable = spec.fsync_every > 0 && number % spec.fsync_every == 0;
            make(FIRST + number, skewed(sizes, spec.file), durable);
        }
        make(2, (app + 1) * LISTED, true);
        if app > 0 {
            let file = spec.file(app - 1, 2);
            calls.push_back(FileCall::Remove { file });
        }
    }

    /// `app-3.apk`, `app-3.odex`, `app-3.17` and `packages-3.xml`.
    fn name(&self, file: FileId) -> String {
        match self.spec.place(file) {
            (app, 0) => format!("app-{app}.apk"),
            (app, 1) => format!("app-{app}.odex"),
            (app, 2) => format!("packages-{app}.xml"),
            (app, number) => format!("app-{app}.{number}"),
        }
    }

    fn group(&self, file: FileId) -> &'static str {
        match self.spec.place(file).1 {
            0 => "packages",
            1 => "code",
            2 => "list",
            _ => "small files",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::sound;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn an_application_is_a_package_code_small_files_and_a_new_list() {
        let spec = InstallSpec {
            apps: 2,
            package: (100, 100),
            piece: 60,
            files: 3,
            file: (10, 10),
            ..InstallSpec::default()
        };
        let found = sound::run(Install::new(spec).unwrap());
        let left: Vec<(u32, u64)> = found
            .expected
            .files()
            .map(|(file, bytes)| (file.0, bytes))
            .filter(|(file, _)| *file >= 6)
            .collect();
        let small = left[3..]
            .iter()
            .map(|(_, bytes)| *bytes)
            .collect::<Vec<_>>();
        assert_eq!(left[..3], [(6, 100), (7, 40), (8, 1800)]);
        assert!(
            small.len() == 3 && small.iter().all(|bytes| *bytes == 10),
            "{small:?}"
        );
        // The older list is gone.
        assert!(found.expected.files().all(|(file, _)| file != FileId(2)));
        let synced: Vec<u32> = found
            .of(INSTALL)
            .iter()
            .filter(|call| matches!(call, FileCall::Fsync { .. }))
            .map(|call| call.file().unwrap().0)
            .collect();
        assert_eq!(synced, [0, 1, 3, 5, 2, 6, 7, 9, 11, 8]);
    }

    #[test]
    fn sizes_are_in_their_range_and_small_ones_more_often() {
        let mut sizes = rng(1, "test");
        let drawn: Vec<u64> = (0..4000)
            .map(|_| skewed(&mut sizes, (512, 64 << 10)))
            .collect();
        assert!(drawn.iter().all(|size| (512..=64 << 10).contains(size)));
        let small = drawn.iter().filter(|size| **size < 8192).count();
        assert!((1800..2600).contains(&small), "{small} of 4000 below 8 KiB");
        assert!((0..50).all(|_| (7..=9).contains(&skewed(&mut sizes, (7, 9)))));
    }

    #[test]
    fn what_is_no_installation_is_refused_by_name() {
        let key = |change: &dyn Fn(&mut InstallSpec)| sound::refused(InstallSpec::check, change).0;
        assert_eq!(key(&|_| ()), "accepted");
        assert_eq!(key(&|s| s.apps = 0), "apps");
        assert_eq!(key(&|s| s.package = (0, 5)), "package min");
        assert_eq!(key(&|s| s.package = (6, 5)), "package max");
        assert_eq!(key(&|s| s.file = (6, u64::MAX)), "file max");
        assert_eq!(key(&|s| s.piece = 0), "piece");
        assert_eq!(key(&|s| s.code_percent = 1001), "code percent");
        assert_eq!(key(&|s| s.files = 1 << 20), "files");
    }

    proptest! {
        #[test]
        fn every_stream_is_sound(seed: u64, apps in 1u64..8, package in 1u64..5000, piece in 1u64..900, code in 0u64..200, files in 0u64..9, fsync_every in 0u64..4) {
            let spec = InstallSpec { seed, apps, package: (package, package * 2), piece, code_percent: code, files, file: (8, 300), fsync_every };
            let found = sound::run(Install::new(spec).unwrap());
            prop_assert_eq!(found.expected.files().count() as u64, apps * (2 + files) + 1);
        }
    }
}
