//! What the paper ran, as streams of calls that file systems here and in a guest are given alike.
//!
//! Sizes are ours wherever the paper has none; its devices are larger by [`SCALE`].

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
const PARTITION: u64 = PUBLISHED_PARTITION / SCALE;
/// Bytes of the paper's partition.
const PUBLISHED_PARTITION: u64 = 12 << 30;
/// Bytes of the longest request that F2FS sends to the device.
pub const REQUEST: u64 = 512 << 10;
/// Files that are rewritten at random.
pub const FILES_REWRITTEN: u64 = 9;
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

/// A workload of the paper with its size.
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
    Published,
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
/// Random writes to files that fill three quarters of the partition.
pub const SUSTAINED: Work = work(
    "sustained",
    "sustained random write",
    Make::Sustained,
    false,
);
/// The same at the published size.
pub const SUSTAINED_PUBLISHED: Work = work(
    "sustained-published",
    "sustained random write, 12 GiB",
    Make::Published,
    false,
);
impl Work {
    /// All that are compared with ext4.
    pub fn all() -> impl Iterator<Item = Self> {
        BENCHMARKS
            .into_iter()
            .chain(PHONE.into_iter().flatten())
            .chain([SUSTAINED, SUSTAINED_PUBLISHED])
    }

    /// Those that run to their end on both, once.
    pub fn compared() -> impl Iterator<Item = Self> {
        Self::all().filter(|work| !matches!(work.make, Make::Sustained | Make::Published))
    }

    /// Bytes of the partition.
    pub fn partition(&self) -> u64 {
        match self.make {
            Make::Published => PUBLISHED_PARTITION,
            _ => PARTITION,
        }
    }

    /// The rewritten files, and the rounds that were recorded. All lengths are those of the
    /// partition's scale, so that what a round leaves in each part of a file is the same.
    pub fn rewrites(&self) -> RewritesSpec {
        let scale = PUBLISHED_PARTITION / self.partition();
        RewritesSpec {
            files: FILES_REWRITTEN,
            bytes: (1 << 30) / scale,
            spread: 0,
            rounds: 4,
            round: (32 << 20) / scale,
            everywhere: true,
            ..RewritesSpec::default()
        }
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

    /// Opens the stream of file calls.
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
            Make::Sustained | Make::Published => Box::new(Rewrites::new(self.rewrites())?),
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
