//! What each file system says of each fault below it: the call, and the page that is to blame.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Ram};
use nandlab_ext::Ext;
use nandlab_f2fs::F2fs;
use nandlab_fat::Fat;
use nandlab_jffs2::Jffs2;
use nandlab_mtd::{Hook, Hooked, MtdError, Outcome, Page, Request};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Chain, MediumFault, Place};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Sync, Time};
use std::cell::Cell;
use std::rc::Rc;

const SECTOR: usize = 512;
/// What each byte of the file holds.
const CONTENTS: u8 = 0xA7;
const FILE: &[u8] = b"file";
const FILE_BYTES: usize = 256 * 1024;

/// What fails from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Nothing,
    /// Reads of what the file holds.
    Data,
    /// Reads of anything else.
    Metadata,
    /// Writes: no good block is left.
    Writes,
    /// Everything: the power is off.
    Power,
}

/// A disk of a page-mapped layer, as far as its errors go.
struct Disk {
    ram: Ram,
    fails: Rc<Cell<Fails>>,
}

impl Disk {
    fn change(&self) -> Result<(), BlockError> {
        let place = Place::Page { page: 67, block: 1 };
        let fault = MediumFault::new(place, "program failed").in_layer("page mapping");
        match self.fails.get() {
            Fails::Writes => Err(BlockError::WornOut(Some(fault))),
            Fails::Power => Err(BlockError::PowerCut),
            _ => Ok(()),
        }
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> &BlockGeometry {
        self.ram.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.ram.read(lba, buf)?;
        let place = Place::Page { page: 66, block: 1 };
        let fault = MediumFault::new(place, "uncorrectable").in_layer("page mapping");
        let holds_data = |sector: &[u8]| sector.iter().all(|&byte| byte == CONTENTS);
        let is_lost = |sector: &[u8]| match self.fails.get() {
            Fails::Data => holds_data(sector),
            Fails::Metadata => !holds_data(sector),
            _ => false,
        };
        match buf.chunks(SECTOR).position(is_lost) {
            _ if self.fails.get() == Fails::Power => Err(BlockError::PowerCut),
            Some(n) => Err(BlockError::lost_to(Lba(lba.0 + n as u64), fault)),
            None => Ok(()),
        }
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.change()?;
        self.ram.write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.change()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.change()?;
        self.ram.discard(lba, sectors)
    }
}

/// The same for a file system on bare flash. Which pages hold metadata it does not know.
struct Switch {
    fails: Rc<Cell<Fails>>,
}

impl Hook for Switch {
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        match (self.fails.get(), *request) {
            (Fails::Writes, Request::Program { page, .. }) => Err(MtdError::ProgramFailed(page)),
            (Fails::Power, _) => Err(MtdError::PowerCut),
            _ => Ok(()),
        }
    }

    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        match (self.fails.get(), *request) {
            (Fails::Data, Request::Read { page, data: true }) => Err(MtdError::Uncorrectable(page)),
            _ => outcome,
        }
    }

    fn damage(&mut self, _: Page, data: &mut [u8], _: &mut [u8]) {
        data.fill(0);
    }
}

/// A file system on a medium on which something fails.
struct Bench {
    fs: Box<dyn FileSystem>,
    fails: Rc<Cell<Fails>>,
}

/// Fills a medium with a file, and mounts it again so that nothing of it is in memory.
macro_rules! remounted {
    ($mount:expr, $device:expr, $back:expr) => {{
        let mut fs = $mount($device);
        let by = Caller::root(Time::default());
        let file = fs
            .create(Ino::ROOT, FILE, NewNode::File, 0o644, by)
            .unwrap();
        let written = fs.write(file.ino, 0, &[CONTENTS; FILE_BYTES], Time::default());
        assert_eq!(written, Ok(FILE_BYTES));
        fs.unmount().unwrap();
        Box::new($mount($back(fs)))
    }};
}

impl Bench {
    fn new(kind: &str) -> Self {
        let fails = Rc::new(Cell::new(Fails::Nothing));
        let fs = Self::mounted(kind, &fails);
        Self { fs, fails }
    }

    fn mounted(kind: &str, fails: &Rc<Cell<Fails>>) -> Box<dyn FileSystem> {
        let mut disk = Disk {
            ram: Ram::new(SECTOR as u32, 64 << 11),
            fails: fails.clone(),
        };
        match kind {
            "ext2" | "ext3" => {
                let format = nandlab_ext::Format {
                    journal: kind == "ext3",
                    ..Default::default()
                };
                nandlab_ext::format(&mut disk, &format).unwrap();
                let mount = |disk| Ext::mount(disk, Default::default()).unwrap();
                remounted!(mount, disk, Ext::into_device)
            }
            "fat16" => {
                nandlab_fat::format(&mut disk, &Default::default()).unwrap();
                let mount = |disk| Fat::mount(disk, Default::default()).unwrap();
                remounted!(mount, disk, |fs: Fat<Disk>| fs.into_parts().0)
            }
            "f2fs" => {
                nandlab_f2fs::format(&mut disk, &Default::default()).unwrap();
                let mount = |disk| F2fs::mount(disk, Default::default()).unwrap();
                remounted!(mount, disk, F2fs::into_device)
            }
            _ => {
                let mut spec = preset::find("slc-2k").unwrap().spec();
                spec.geometry.blocks = 32;
                let switch = Switch {
                    fails: fails.clone(),
                };
                let flash = Hooked::with(Chip::new(spec).unwrap(), switch);
                let mount = |flash| Jffs2::mount(flash, Default::default()).unwrap();
                remounted!(mount, flash, Jffs2::into_mtd)
            }
        }
    }

    fn file(&mut self) -> Result<Ino, Errno> {
        Ok(self.fs.lookup(Ino::ROOT, FILE)?.ino)
    }

    /// A call that meets the fault.
    fn call(&mut self, fails: Fails) -> Result<(), Errno> {
        if fails == Fails::Metadata {
            self.fails.set(fails);
            let file = self.file()?;
            return self.fs.read(file, 0, &mut [0; 4096]).map(|_| ());
        }
        let file = self.file()?;
        // JFFS2 gives up nodes that it cannot read when it first looks at a file.
        let end = FILE_BYTES as u64 - 4096;
        self.fs.read(file, end, &mut [0; 4096])?;
        self.fails.set(fails);
        if fails == Fails::Data {
            return self.fs.read(file, 0, &mut [0; 4096]).map(|_| ());
        }
        self.fs.write(file, 0, &[1; 4096], Time::default())?;
        self.fs.fsync(file, Sync::All)
    }
}

/// The parts of the cause, in this order: the call, and what lies below.
fn check(kind: &str, fails: Fails, calls: &[&str], medium: &str) {
    let mut bench = Bench::new(kind);
    assert_eq!(bench.call(fails), Err(Errno::Io), "{kind}, {fails:?}");
    let cause = bench.fs.cause().unwrap();
    let text = Chain(&cause).to_string();
    let names_call = calls.iter().any(|call| text.starts_with(call));
    assert!(names_call, "{kind}, {fails:?}: {text}");
    assert!(text.ends_with(medium), "{kind}, {fails:?}: {text}");
}

const ON_DISKS: [&str; 4] = ["ext2", "ext3", "fat16", "f2fs"];
const UNCORRECTABLE: &str = ": page mapping: page 66 in block 1: uncorrectable";
const WORN_OUT: &str =
    ": worn out: no erase block left to write to: page mapping: page 67 in block 1: program failed";

#[test]
fn file_systems_on_disks_name_the_page() {
    for kind in ON_DISKS {
        check(kind, Fails::Data, &["read of inode "], UNCORRECTABLE);
        let calls = [
            "look up \"file\" in inode 1",
            "lookup \"file\" in inode 1",
            "read of inode ",
        ];
        check(kind, Fails::Metadata, &calls, UNCORRECTABLE);
        let calls = ["write of inode ", "fsync of inode "];
        check(kind, Fails::Writes, &calls, WORN_OUT);
        check(kind, Fails::Power, &calls, ": power cut");
    }
}

/// Metadata are in memory since the mount.
#[test]
fn jffs2_names_the_call() {
    let write = ["write of inode ", "fsync of inode "];
    check("jffs2", Fails::Power, &write, "power cut");
    check("jffs2", Fails::Writes, &write, ": program failed");
    check("jffs2", Fails::Data, &["read of inode "], ": uncorrectable");
}
