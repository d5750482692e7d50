//! What the publication ran, as streams of calls that file systems here and in a guest are given
//! alike.
//!
//! Sizes are ours wherever the publication has none; its devices are larger by [`SCALE`].

use super::streams::{Blank, Both, How};
use nandlab_workload::SpecError;
use nandlab_workload::ageing::{Ageing, AgeingSpec};
use nandlab_workload::bonnie_files::{BonnieFiles, BonnieFilesSpec};
use nandlab_workload::files::FileCalls;
use nandlab_workload::fsmark::{FsMark, FsMarkSpec};
use nandlab_workload::install::{Install, InstallSpec};
use nandlab_workload::iozone::{Iozone, IozoneSpec, IozoneTest};
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use nandlab_workload::rollback::{Rollback, RollbackSpec};

/// How much smaller devices and what fills them are.
pub const SCALE: u64 = 4;
/// Bytes of the partition: 12 GB, scaled.
pub const PARTITION: u64 = (12 << 30) / SCALE;
/// Bytes of IOzone's file.
pub const IOZONE_BYTES: u64 = 64 << 20;
/// Of its file with a record made durable at a time.
pub const SYNC_BYTES: u64 = 8 << 20;
/// Files of fs_mark, and of each half of bonnie++.
pub const FILES: u64 = 1000;
/// Transactions of the contacts, and of RLBench.
pub const CONTACTS: u64 = 400;
/// The first of RLBench's thirteen steps: 1000 INSERTs that commit one by one.
pub const INSERTS: u64 = 1000;
/// The phase that makes a volume old.
pub const AGEING: &str = "ageing";

/// What programs do before and between what they measure.
pub const SET_UP: &str = "set-up";

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its name, in ids and of its recorded requests.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// After the volume has grown old.
    pub aged: bool,
    make: Make,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Make {
    FsMark,
    Iozone,
    IozoneSync,
    Bonnie,
    Contacts,
    Install,
    RlBench,
    IozoneInstall,
    Sustained,
    Steady,
    Mixed,
}

const fn work(key: &'static str, name: &'static str, make: Make, aged: bool) -> Work {
    Work {
        key,
        name,
        aged,
        make,
    }
}

/// The benchmarks on the Panda board.
pub const BENCHMARKS: [Work; 4] = [
    work("fs-mark", "fs_mark", Make::FsMark, false),
    work("iozone", "IOzone, an fsync at the end", Make::Iozone, false),
    work(
        "iozone-sync",
        "IOzone, each record durable",
        Make::IozoneSync,
        false,
    ),
    work("bonnie", "bonnie++, names", Make::Bonnie, false),
];
/// Rows of the Galaxy Nexus tables, clean and aged.
pub const PHONE: [[Work; 2]; 4] = [
    [
        work("contacts", "Contact sync", Make::Contacts, false),
        work("contacts-aged", "Contact sync", Make::Contacts, true),
    ],
    [
        work("install", "App install", Make::Install, false),
        work("install-aged", "App install", Make::Install, true),
    ],
    [
        work("rlbench", "RLBench", Make::RlBench, false),
        work("rlbench-aged", "RLBench", Make::RlBench, true),
    ],
    [
        work(
            "iozone-install",
            "IOzone with app install",
            Make::IozoneInstall,
            false,
        ),
        work(
            "iozone-install-aged",
            "IOzone with app install",
            Make::IozoneInstall,
            true,
        ),
    ],
];
/// Random writes to files that fill three quarters of the partition: as far as ext4's were
/// recorded.
pub const SUSTAINED: Work = work(
    "sustained",
    "sustained random write",
    Make::Sustained,
    false,
);

/// A device and a partition that are smaller by four again, for what has to be written until
/// nothing changes any more: see [`STEADY`], [`MIXED`].
pub const SMALL: [&str; 2] = ["chip.size=1280 MiB", "fs.size=768 MiB"];
/// The same on the small device, whose files fill nine tenths of what F2FS leaves to files, and
/// much longer.
pub const STEADY: Work = work("steady", "sustained random write", Make::Steady, false);
/// Files of many sizes that come, go and are overwritten.
pub const MIXED: Work = work("mixed", "files that come and go", Make::Mixed, false);

impl Work {
    /// All that are compared with ext4.
    pub fn all() -> impl Iterator<Item = Self> {
        BENCHMARKS
            .into_iter()
            .chain(PHONE.into_iter().flatten())
            .chain([SUSTAINED])
    }

    /// The one of this name.
    pub fn find(key: &str) -> Option<Self> {
        Self::all().find(|work| work.key == key)
    }

    /// What F2FS needs for as much in memory as ext4 had: names and inodes stay there where nothing
    /// empties the caches.
    pub fn memory(&self) -> &'static [&'static str] {
        if self.make == Make::Bonnie {
            &["memory.size=64 MiB"]
        } else {
            &[]
        }
    }

    /// Its stream.
    pub fn open(&self) -> Result<Box<dyn FileCalls>, SpecError> {
        let calls: Box<dyn FileCalls> = match self.make {
            Make::FsMark => Box::new(FsMark::new(FsMarkSpec {
                files: FILES,
                ..FsMarkSpec::default()
            })?),
            Make::Iozone => Box::new(iozone(IOZONE_BYTES, 64 << 10, false)?),
            Make::IozoneSync => Box::new(iozone(SYNC_BYTES, 4 << 10, true)?),
            Make::Bonnie => Box::new(BonnieFiles::new(BonnieFilesSpec {
                files: FILES,
                sync_all: true,
                ..BonnieFilesSpec::default()
            })?),
            Make::Contacts => Box::new(database(CONTACTS, 4)?),
            Make::Install => Box::new(Install::new(InstallSpec::default())?),
            Make::RlBench => Box::new(database(INSERTS, 1)?),
            Make::IozoneInstall => {
                let installed = Install::new(InstallSpec::default())?;
                Box::new(Both::new(
                    Box::new(iozone(IOZONE_BYTES, 64 << 10, false)?),
                    Box::new(installed),
                    How::Beside(2),
                ))
            }
            Make::Sustained => Box::new(Rewrites::new(sustained((1 << 30) / SCALE, 8 << 20, 4))?),
            Make::Steady => Box::new(Rewrites::new(sustained(44 << 20, 16 << 20, 16))?),
            Make::Mixed => Box::new(Ageing::new(AgeingSpec {
                overwritten: 400,
                rounds: 4,
                ..ageing(288 << 20)
            })?),
        };
        if self.aged {
            return Ok(Box::new(Both::new(
                Box::new(Ageing::new(ageing(PARTITION / 3))?),
                calls,
                How::After(AGEING),
            )));
        }
        Ok(Box::new(Blank(calls)))
    }
}

fn iozone(bytes: u64, record: u64, sync: bool) -> Result<Iozone, SpecError> {
    let tests = [IozoneTest::Write, IozoneTest::Read, IozoneTest::Random].into();
    Iozone::new(IozoneSpec {
        bytes,
        record,
        tests,
        sync,
        ..IozoneSpec::default()
    })
}

fn database(transactions: u64, changed: u64) -> Result<Rollback, SpecError> {
    Rollback::new(RollbackSpec {
        pages: 1024,
        transactions,
        changed,
        ..RollbackSpec::default()
    })
}

/// So much of the partition in use, a fifth of that replaced five times.
fn ageing(bytes: u64) -> AgeingSpec {
    AgeingSpec {
        bytes,
        file: (64 << 10, 32 << 20),
        piece: 64 << 10,
        rounds: 5,
        ..AgeingSpec::default()
    }
}

/// Nine files of so many bytes, then rounds that overwrite so much of them at random.
fn sustained(bytes: u64, round: u64, rounds: u64) -> RewritesSpec {
    RewritesSpec {
        files: 9,
        bytes,
        spread: 0,
        rounds,
        round,
        everywhere: true,
        ..RewritesSpec::default()
    }
}
