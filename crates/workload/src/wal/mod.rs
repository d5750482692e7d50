//! A database that commits to a write-ahead log: what SQLite asks of its files with `PRAGMA
//! journal_mode = WAL`.
//!
//! After SQLite's `wal.c` and its documentation, its cache empty: a transaction reads the pages
//! that it changes, from the log where that has them; each changed page goes to the end of the log,
//! a header of 24 bytes before it; with `synchronous = FULL` the log is then made durable, and that
//! is the commit. Once the log holds 1000 pages it is made durable. The newest version of each page
//! goes to the database in order of pages, and that is made durable. The next transaction begins
//! the log anew: its header is written and made durable. The last to leave does the same and
//! removes the log. Durable means fdatasync.
//!
//! *Differs* from SQLite: the index of the log (`-shm`) is left out, which is memory that is shared
//! and never made durable; so are locks, and the fsync of the directory. The bytes of the log are
//! noise, as nobody recovers here.
//!
//! *Promises.* The stream is a pure function of [`WalSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{SpecError, below, require, within},
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use nandlab_sim::{Rng, rng, with_defaults};

/// The file that holds the database.
pub const DATABASE: FileId = FileId(0);
/// The file that holds the write-ahead log.
pub const LOG: FileId = FileId(1);
/// The phase of transactions, with the checkpoints that they run into.
const TRANSACTIONS: &str = "transactions";
/// The phase in which the database is closed.
const CLOSE: &str = "close";
/// Bytes of the log's header, and of that before each page.
const HEADER: u64 = 32;
const FRAME: u64 = 24;
/// The most pages of a transaction and of the log: they are kept in memory.
const PAGES_MAX: u64 = 1 << 20;

with_defaults! {
    /// A database and its transactions.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WalSpec {
        /// Draws pages and contents.
        pub seed: u64 = 1,
        /// Pages of the database: 256, that is 1 MiB.
        pub pages: u64 = 256,
        /// Bytes of a page: 4096, SQLite's default.
        pub page: u64 = 4096,
        /// The number of transactions: 1000 by default.
        pub transactions: u64 = 1000,
        /// Pages that each changes: 1, an update of one row that changes no index. A log needs no
        /// counter of changes in the first page.
        pub changed: u64 = 1,
        /// Pages in the log at which it is brought home (`PRAGMA wal_autocheckpoint`): 1000,
        /// SQLite's default.
        pub checkpoint: u64 = 1000,
        /// Each commit is durable (`PRAGMA synchronous = FULL`, SQLite's default). With `NORMAL`
        /// only what is brought home is.
        pub full: bool = true,
    }
}

impl WalSpec {
    /// Refuses what is no such database, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        let sizes = 512..=65_536;
        require(
            self.page.is_power_of_two() && sizes.contains(&self.page),
            "page",
            self.page,
            "a power of two from 512 to 65536 bytes",
        )?;
        within("pages", self.pages, 1..=1 << 32, "1 to 4294967296")?;
        within(
            "transactions",
            self.transactions,
            1..=1 << 30,
            "1 to 1073741824",
        )?;
        let most = self.pages.min(4096);
        within(
            "changed",
            self.changed,
            1..=most,
            "1 to 4096, and at most what the database has",
        )?;
        within(
            "checkpoint",
            self.checkpoint,
            1..=PAGES_MAX,
            "1 to 1048576 pages",
        )
    }
}

/// The next part of the plan.
#[derive(Clone, Copy, Debug)]
enum Pass {
    Transaction,
    Close,
}

/// The stream of a [`WalSpec`].
#[derive(Clone, Debug)]
pub struct Wal(Scripted<Database>);

scripted!(Wal);

/// The database at work.
#[derive(Clone, Debug)]
struct Database {
    spec: WalSpec,
    places: Rng,
    /// Pages of the transaction under way, upwards.
    pages: Vec<u64>,
    /// Where the log has the newest version of each page, by number in it.
    logged: BTreeMap<u64, u64>,
    /// Pages in the log.
    frames: u64,
}

impl Wal {
    /// The stream that `spec` describes, if that passes its [`check`](WalSpec::check).
    pub fn new(spec: WalSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        let create = |file| FileCall::Create { file };
        let fill = DATABASE.write(0, spec.pages * spec.page, 0);
        script.calls(
            SET_UP,
            [create(DATABASE), fill, create(LOG), FileCall::Sync],
        );
        script.pass(TRANSACTIONS, Pass::Transaction, spec.transactions);
        script.pass(CLOSE, Pass::Close, 1);
        let contents = Contents::new(spec.seed);
        let database = Database {
            places: rng(spec.seed, "wal pages"),
            pages: Vec::with_capacity(spec.changed as usize),
            spec,
            logged: BTreeMap::new(),
            frames: 0,
        };
        Ok(Self(Scripted::new(script, contents, database)))
    }
}

impl Database {
    /// Where a page of the log begins, its header included.
    fn frame(&self, number: u64) -> u64 {
        HEADER + number * (FRAME + self.spec.page)
    }

    fn transaction(&mut self, number: u64, calls: &mut Calls) {
        self.draw();
        let version = 1 + number as u32;
        let page = self.spec.page;
        for at in &self.pages {
            calls.push_back(match self.logged.get(at) {
                Some(frame) => LOG.read(self.frame(*frame) + FRAME, page),
                None => DATABASE.read(at * page, page),
            });
        }
        let write = |offset, length| LOG.write(offset, length, version);
        let sync = FileCall::Fdatasync { file: LOG };
        if self.frames == 0 {
            calls.extend([write(0, HEADER), sync]);
        }
        for at in core::mem::take(&mut self.pages) {
            let offset = self.frame(self.frames);
            calls.extend([write(offset, FRAME), write(offset + FRAME, page)]);
            self.logged.insert(at, self.frames);
            self.frames += 1;
        }
        calls.extend(self.spec.full.then_some(sync));
        if self.frames >= self.spec.checkpoint {
            self.bring_home(version, calls);
        }
    }

    /// Pages of one transaction, each once, upwards.
    fn draw(&mut self) {
        while (self.pages.len() as u64) < self.spec.changed {
            let page = below(&mut self.places, self.spec.pages);
            if let Err(at) = self.pages.binary_search(&page) {
                self.pages.insert(at, page);
            }
        }
    }

    fn bring_home(&mut self, version: u32, calls: &mut Calls) {
        let page = self.spec.page;
        calls.push_back(FileCall::Fdatasync { file: LOG });
        for (at, frame) in core::mem::take(&mut self.logged) {
            let read = LOG.read(self.frame(frame) + FRAME, page);
            calls.extend([read, DATABASE.write(at * page, page, version)]);
        }
        calls.push_back(FileCall::Fdatasync { file: DATABASE });
        self.frames = 0;
    }

    fn close(&mut self, calls: &mut Calls) {
        if self.frames > 0 {
            self.bring_home(1 + self.spec.transactions as u32, calls);
        }
        calls.extend([
            FileCall::Close { file: LOG },
            FileCall::Remove { file: LOG },
            FileCall::Close { file: DATABASE },
        ]);
    }
}

impl Benchmark for Database {
    type Pass = Pass;

    fn item(&mut self, pass: Pass, number: u64, calls: &mut Calls) {
        match pass {
            Pass::Transaction => self.transaction(number, calls),
            Pass::Close => self.close(calls),
        }
    }

    /// `test.db`, and `test.db-wal` as SQLite has it.
    fn name(&self, file: FileId) -> String {
        if file == DATABASE {
            "test.db".into()
        } else {
            "test.db-wal".into()
        }
    }

    fn group(&self, file: FileId) -> &'static str {
        if file == DATABASE {
            "database"
        } else {
            "write-ahead log"
        }
    }
}

#[cfg(test)]
mod tests;
