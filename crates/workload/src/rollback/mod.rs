//! A database that commits with a rollback journal: what SQLite asks of its files for one small
//! transaction after another.
//!
//! After SQLite's pager (`pager.c`, `os_unix.c`), synchronous, its cache empty: a transaction reads
//! the pages that it changes, among them the first, which counts changes. Their old contents go to
//! the journal, behind a header of one sector, each between its number and a checksum; the journal
//! is made durable, gets its page count, and is made durable again. Then the pages are written to
//! the database, that is made durable, and the journal ends as the mode has it: that is the commit.
//! Durable means fdatasync.
//!
//! *Differs* from SQLite: the journal holds noise instead of old pages, as nobody rolls back here;
//! locks, and the fsync of the directory that follows the first sync of a new journal, are left
//! out.
//!
//! *Promises.* The stream is a pure function of [`RollbackSpec`].

use crate::{
    files::{Benchmark, Calls, Contents, FileCall, FileId, SET_UP, Script, Scripted, scripted},
    pattern::{SpecError, below, require, within},
};
use alloc::{string::String, vec::Vec};
use nandlab_sim::{Rng, rng, with_defaults};

/// The file that holds the database.
pub const DATABASE: FileId = FileId(0);
/// The file that holds the rollback journal.
pub const JOURNAL: FileId = FileId(1);
/// The phase that is measured.
const TRANSACTIONS: &str = "transactions";
/// Bytes of the journal's header: a sector.
const HEADER: u64 = 512;
/// Bytes of its magic and of the number of pages, written once the pages are durable.
const COUNT: u64 = 12;
/// Bytes that are overwritten to end a journal that persists.
const ENDED: u64 = 28;
/// Bytes of a page's number, and of its checksum.
const WORD: u64 = 4;
/// The most pages of a transaction: they are kept in memory.
const CHANGED_MAX: u64 = 4096;

/// How a transaction ends (`PRAGMA journal_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// The journal is removed.
    Delete,
    /// It is cut to nothing.
    Truncate,
    /// Its header is overwritten.
    Persist,
}

with_defaults! {
    /// A database and its transactions.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RollbackSpec {
        /// Draws pages and contents.
        pub seed: u64 = 1,
        /// Pages of the database: 256, that is 1 MiB.
        pub pages: u64 = 256,
        /// Bytes of a page: 4096, SQLite's default.
        pub page: u64 = 4096,
        /// The number of transactions: 100 by default.
        pub transactions: u64 = 100,
        /// Pages that each changes beside the first: 1, an update of one row that changes no index.
        pub changed: u64 = 1,
        /// How it ends: the journal is removed, SQLite's default.
        pub mode: JournalMode = JournalMode::Delete,
        /// The journal is made durable twice, and when it is cut (`PRAGMA synchronous = FULL`,
        /// SQLite's default). Otherwise its page count is written before it is made durable once.
        pub full: bool = true,
    }
}

impl RollbackSpec {
    /// Refuses what is no such database, naming the first such key.
    pub fn check(&self) -> Result<(), SpecError> {
        let sizes = 512..=65_536;
        require(
            self.page.is_power_of_two() && sizes.contains(&self.page),
            "page",
            self.page,
            "a power of two from 512 to 65536 bytes",
        )?;
        within("pages", self.pages, 2..=1 << 32, "2 to 4294967296")?;
        within(
            "transactions",
            self.transactions,
            1..=1 << 30,
            "1 to 1073741824",
        )?;
        let most = CHANGED_MAX.min(self.pages - 1);
        within(
            "changed",
            self.changed,
            0..=most,
            "at most 4096 and fewer than the database has",
        )
    }
}

/// The stream of a [`RollbackSpec`].
#[derive(Clone, Debug)]
pub struct Rollback(Scripted<Transactions>);

scripted!(Rollback);

/// The transactions one after another.
#[derive(Clone, Debug)]
struct Transactions {
    spec: RollbackSpec,
    places: Rng,
    /// Pages of the one under way, upwards.
    pages: Vec<u64>,
}

impl Rollback {
    /// The stream that `spec` describes, if that passes its [`check`](RollbackSpec::check).
    pub fn new(spec: RollbackSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let mut script = Script::new();
        plan(&mut script, &spec);
        let contents = Contents::new(spec.seed);
        let transactions = Transactions {
            places: rng(spec.seed, "rollback pages"),
            pages: Vec::with_capacity(spec.changed as usize + 1),
            spec,
        };
        Ok(Self(Scripted::new(script, contents, transactions)))
    }
}

fn plan(script: &mut Script<()>, spec: &RollbackSpec) {
    let kept = spec.mode != JournalMode::Delete;
    let create = |file| FileCall::Create { file };
    let close = |file| FileCall::Close { file };
    let fill = DATABASE.write(0, spec.pages * spec.page, 0);
    script.calls(SET_UP, [create(DATABASE), fill]);
    script.calls(SET_UP, kept.then_some(create(JOURNAL)));
    script.calls(SET_UP, [FileCall::Sync]);
    script.pass(TRANSACTIONS, (), spec.transactions);
    script.calls(SET_UP, kept.then_some(close(JOURNAL)));
    script.calls(SET_UP, [close(DATABASE)]);
}

impl Transactions {
    /// The first page and others, each once, upwards.
    fn draw(&mut self) {
        self.pages.clear();
        self.pages.push(0);
        while self.pages.len() as u64 <= self.spec.changed {
            let page = 1 + below(&mut self.places, self.spec.pages - 1);
            if let Err(at) = self.pages.binary_search(&page) {
                self.pages.insert(at, page);
            }
        }
    }

    fn fill_journal(&self, version: u32, calls: &mut Calls) {
        let file = JOURNAL;
        let page = self.spec.page;
        if self.spec.mode == JournalMode::Delete {
            calls.push_back(FileCall::Create { file });
        }
        calls.push_back(file.write(0, HEADER, version));
        for number in 0..self.pages.len() as u64 {
            let at = HEADER + number * (page + 2 * WORD);
            for (offset, length) in [(at, WORD), (at + WORD, page), (at + WORD + page, WORD)] {
                calls.push_back(file.write(offset, length, version));
            }
        }
        if self.spec.full {
            calls.push_back(FileCall::Fdatasync { file });
        }
        let count = file.write(0, COUNT, version + 1);
        calls.extend([count, FileCall::Fdatasync { file }]);
    }

    fn end(&self, version: u32, calls: &mut Calls) {
        let file = JOURNAL;
        let sync = FileCall::Fdatasync { file: JOURNAL };
        match self.spec.mode {
            JournalMode::Delete => {
                calls.extend([FileCall::Close { file }, FileCall::Remove { file }])
            }
            JournalMode::Truncate if self.spec.full => {
                calls.extend([FileCall::Truncate { file, length: 0 }, sync])
            }
            JournalMode::Truncate => calls.push_back(FileCall::Truncate { file, length: 0 }),
            JournalMode::Persist => calls.extend([file.write(0, ENDED, version), sync]),
        }
    }
}

impl Benchmark for Transactions {
    type Pass = ();

    /// The calls of one transaction.
    fn item(&mut self, (): (), number: u64, calls: &mut Calls) {
        self.draw();
        // What is written twice in one transaction differs, too.
        let version = 1 + 2 * number as u32;
        let page = self.spec.page;
        let reads = self.pages.iter().map(|at| DATABASE.read(at * page, page));
        calls.extend(reads);
        self.fill_journal(version, calls);
        let write = |at: &u64| DATABASE.write(at * page, page, version);
        calls.extend(self.pages.iter().map(write));
        calls.push_back(FileCall::Fdatasync { file: DATABASE });
        self.end(version, calls);
    }

    /// `test.db`, and `test.db-journal` as SQLite has it.
    fn name(&self, file: FileId) -> String {
        if file == DATABASE {
            "test.db".into()
        } else {
            "test.db-journal".into()
        }
    }

    fn group(&self, file: FileId) -> &'static str {
        if file == DATABASE {
            "database"
        } else {
            "rollback journal"
        }
    }
}

#[cfg(test)]
mod tests;
