//! A database of pages on a bare disk, which changes several pages at once: with a rollback
//! journal, by one remap, or, as a warning, with neither. As a subject of the crash explorer, with
//! an oracle that wants every transaction whole or not at all.

use nandlab_block::{BlockDevice, BlockError, Lba, Remap};
use nandlab_crash::{Failure, GoOn, Kind, Oracle, Subject};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::LayerError;
use nandlab_nand::{Chip, ChipSpec};
use nandlab_sim::mix;
use nandlab_workload::files::{Contents, FileId};
use std::collections::BTreeMap;
use std::fmt;

/// The first bytes of a journal that is to be rolled back.
const MAGIC: u64 = 0x7265_746e_6972_7021;
/// Bytes of the journal's header: a sector, which a cut cannot tear.
const HEADER: usize = 512;

/// How a transaction becomes all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Old pages into a journal, flush, header, flush, new pages in place, flush, header away,
    /// flush.
    Rollback,
    /// New pages into a spare place, and one remap.
    Remap,
    /// It does not: new pages in place, flush.
    InPlace,
}

/// How large things are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page: usize,
    /// Pages of the database, from the disk's first sector on.
    pub pages: u64,
}

/// Pages that change together, and what they then hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its own in a whole exploration.
    pub version: u32,
    /// The pages of the transaction, each once.
    pub pages: Vec<u64>,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {} of pages {:?}", self.version, self.pages)
    }
}

/// What a page holds in a version.
fn contents(shape: &Shape, page: u64, version: u32) -> Vec<u8> {
    let mut data = vec![0; shape.page];
    Contents::new(1).fill(FileId(page as u32), version, 0, &mut data);
    data
}

/// The database on a disk.
pub struct Ledger<D> {
    pub disk: D,
    shape: Shape,
    protocol: Protocol,
    /// Pages that it has read or written: its memory holds all.
    memory: BTreeMap<u64, Vec<u8>>,
}

impl<D: BlockDevice> Ledger<D> {
    /// Writes every page in version 0.
    pub fn create(disk: D, shape: Shape, protocol: Protocol) -> Result<Self, BlockError> {
        let mut ledger = Self {
            disk,
            shape,
            protocol,
            memory: BTreeMap::new(),
        };
        ledger.write_new(&Transaction {
            version: 0,
            pages: (0..shape.pages).collect(),
        })?;
        Ok(ledger)
    }

    /// Takes a database up again: rolls back what its journal says.
    pub fn open(disk: D, shape: Shape, protocol: Protocol) -> Result<Self, BlockError> {
        let mut ledger = Self {
            disk,
            shape,
            protocol,
            memory: BTreeMap::new(),
        };
        if protocol == Protocol::Rollback {
            ledger.roll_back()?;
        }
        Ok(ledger)
    }

    fn lba(&self, place: u64) -> Lba {
        Lba(place * self.sectors())
    }

    fn sectors(&self) -> u64 {
        self.shape.page as u64 / u64::from(self.disk.geometry().sector)
    }

    fn read(&mut self, place: u64) -> Result<Vec<u8>, BlockError> {
        let mut data = vec![0; self.shape.page];
        self.disk.read(self.lba(place), &mut data)?;
        Ok(data)
    }

    fn write(&mut self, place: u64, data: &[u8]) -> Result<(), BlockError> {
        self.disk.write(self.lba(place), data)
    }

    /// Where the header is; pages behind it are the journal's, or the spare place.
    fn header(&self) -> u64 {
        self.shape.pages
    }

    /// Changes its pages, all or none, and durably.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<(), BlockError> {
        match self.protocol {
            Protocol::Rollback => {
                self.keep_old(&transaction.pages)?;
                self.write_new(transaction)?;
                self.disk.write(self.lba(self.header()), &[0; HEADER])?;
                self.disk.flush()
            }
            Protocol::Remap => self.remap_new(transaction),
            Protocol::InPlace => self.write_new(transaction),
        }
    }

    fn write_new(&mut self, transaction: &Transaction) -> Result<(), BlockError> {
        for page in &transaction.pages {
            let new = contents(&self.shape, *page, transaction.version);
            self.write(*page, &new)?;
            self.memory.insert(*page, new);
        }
        self.disk.flush()
    }

    fn keep_old(&mut self, pages: &[u64]) -> Result<(), BlockError> {
        let mut header = vec![0; HEADER];
        let words = [MAGIC, pages.len() as u64]
            .into_iter()
            .chain(pages.iter().copied());
        header
            .chunks_mut(8)
            .zip(words)
            .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        for (place, page) in (self.header() + 1..).zip(pages) {
            let old = match self.memory.remove(page) {
                Some(old) => old,
                None => self.read(*page)?,
            };
            self.write(place, &old)?;
        }
        self.disk.flush()?;
        self.disk.write(self.lba(self.header()), &header)?;
        self.disk.flush()
    }

    fn roll_back(&mut self) -> Result<(), BlockError> {
        let mut header = vec![0; HEADER];
        self.disk.read(self.lba(self.header()), &mut header)?;
        let words: Vec<u64> = header
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        if words[0] != MAGIC {
            return Ok(());
        }
        for (place, page) in (self.header() + 1..).zip(&words[2..2 + words[1] as usize]) {
            let old = self.read(place)?;
            self.write(*page, &old)?;
        }
        self.disk.flush()?;
        self.disk.write(self.lba(self.header()), &[0; HEADER])?;
        self.disk.flush()
    }

    fn remap_new(&mut self, transaction: &Transaction) -> Result<(), BlockError> {
        let mut pairs = Vec::new();
        for (place, page) in (self.header() + 1..).zip(&transaction.pages) {
            self.write(place, &contents(&self.shape, *page, transaction.version))?;
            let from = self.lba(place).0;
            let to = self.lba(*page).0;
            pairs.extend((0..self.sectors()).map(|sector| Remap {
                from: Lba(from + sector),
                to: Lba(to + sector),
            }));
        }
        self.disk.remap(&pairs)
    }

    /// The first page that does not hold its version.
    pub fn wrong(&mut self, versions: &[u32]) -> Result<Option<u64>, BlockError> {
        for (page, version) in (0..).zip(versions) {
            if self.read(page)? != contents(&self.shape, page, *version) {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }
}

/// The database on the page-mapped layer, as a subject.
pub struct Ledgers {
    pub chip: ChipSpec,
    pub options: PageOptions,
    pub shape: Shape,
    pub protocol: Protocol,
}

/// All transactions up to one, or up to the one before.
#[derive(Clone)]
pub struct WholeOrNot {
    /// Of each page, after what has returned.
    versions: Vec<u32>,
    under_way: Option<Transaction>,
    cut: bool,
}

impl WholeOrNot {
    fn after(&self, transaction: &Transaction) -> Vec<u32> {
        let mut versions = self.versions.clone();
        transaction
            .pages
            .iter()
            .for_each(|page| versions[*page as usize] = transaction.version);
        versions
    }
}

impl<D: BlockDevice> Oracle<Ledger<D>, Transaction> for WholeOrNot {
    fn began(&mut self, transaction: &Transaction) {
        self.under_way = Some(transaction.clone());
    }

    fn returned(&mut self, transaction: &Transaction) {
        self.versions = self.after(transaction);
        self.under_way = None;
    }

    fn cut(&mut self) {
        self.cut = true;
    }

    fn check(&mut self, ledger: &mut Ledger<D>) -> Result<(), Failure> {
        let refused = |error: BlockError| {
            Failure::new(Kind::Contents, format_args!("{error}; allowed: success"))
        };
        let Some(page) = ledger.wrong(&self.versions).map_err(refused)? else {
            (self.under_way, self.cut) = (None, false);
            return Ok(());
        };
        let Some(transaction) = self.under_way.take().filter(|_| self.cut) else {
            let version = self.versions[page as usize];
            return Err(Failure::new(
                Kind::Contents,
                format_args!("page {page} does not hold version {version}, committed"),
            ));
        };
        let versions = self.after(&transaction);
        if let Some(other) = ledger.wrong(&versions).map_err(refused)? {
            let what = format_args!(
                "page {page} is not as before {transaction}, page {other} not as after it"
            );
            return Err(Failure::new(Kind::Contents, what));
        }
        (self.versions, self.cut) = (versions, false);
        Ok(())
    }
}

impl Subject for Ledgers {
    type Device = Ledger<PageFtl<Chip>>;
    type Op = Transaction;
    type Oracle = WholeOrNot;

    fn formatted(&self) -> Result<(Chip, WholeOrNot), LayerError> {
        let chip = Chip::new(self.chip.clone())?;
        let disk = PageFtl::format(chip, self.options.clone())?;
        let ledger = Ledger::create(disk, self.shape, self.protocol)?;
        let oracle = WholeOrNot {
            versions: vec![0; self.shape.pages as usize],
            under_way: None,
            cut: false,
        };
        Ok((ledger.disk.into_medium(), oracle))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let disk = PageFtl::attach(chip, self.options.clone())?;
        Ok(Ledger::open(disk, self.shape, self.protocol)?)
    }

    fn power_off(&self, ledger: Self::Device) -> Option<Chip> {
        Some(ledger.disk.into_medium())
    }

    fn apply(
        &self,
        ledger: &mut Self::Device,
        transaction: &Transaction,
        _: &WholeOrNot,
    ) -> Result<(), Failure> {
        ledger.commit(transaction).map_err(|e| {
            Failure::new(
                Kind::Refused,
                format_args!("{transaction}: {e}; allowed: success"),
            )
        })
    }

    fn go_on(&self, _: &Self::Device, going_on: GoOn) -> Vec<Transaction> {
        let transaction = |n: u32| {
            let first = mix(going_on.word, n.into()) % (self.shape.pages - 1);
            Transaction {
                version: going_on.life * 1_000_000 + n,
                pages: vec![first, first + 1],
            }
        };
        (0..going_on.changes).map(transaction).collect()
    }
}
