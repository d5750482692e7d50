//! The states of a run, each with what was promised by then.

use super::expected::{Expectations, assert_kept, assert_kept_repaired, held};
use super::story::Story;
use crate::files::{NOW, bytes, put};
use nandlab_block::{CutId, Cuts, Ram, Record, WriteLog};
use nandlab_sim::mix;
use nandlab_vfs::{FileSystem, Ino, Mounted, Sync};

/// Chooses the sectors that arrive.
const SEED: u64 = 7;

/// A run that was made, with what it promises after each number of changes.
pub struct Run {
    records: Vec<Record>,
    base: Ram,
    promised: Vec<(usize, Expectations)>,
}

/// A disk as a cut of a run may leave it.
pub struct State<'a> {
    /// The id that replays the state.
    pub id: CutId,
    /// The same in words, for messages.
    pub name: String,
    /// The disk as the cut leaves it.
    pub disk: Ram,
    /// What must be there.
    pub expected: &'a Expectations,
    /// Chooses which states to look at more closely.
    pub word: u64,
}

impl Run {
    /// Tells a story that began on a disk like `base`, and unmounts.
    pub fn record<F: Mounted<WriteLog<Ram>>>(
        base: Ram,
        mut story: Story<F>,
        tell: impl FnOnce(&mut Story<F>),
    ) -> Self {
        tell(&mut story);
        let (log, promised) = story.end();
        Self {
            records: log.into_parts().1,
            base,
            promised,
        }
    }

    /// How many changes the run made on its disk.
    pub fn changes(&self) -> usize {
        self.records.len()
    }

    /// The states after each change, in up to so many variants each.
    pub fn states(&self, name: &str, variants: u32) -> impl Iterator<Item = State<'_>> {
        let cuts = Cuts::new(&self.records, self.base.clone(), SEED, variants);
        cuts.map(move |state| {
            let (id, disk) = state.expect("memory takes every write");
            let CutId { cut, variant } = id;
            // The last promise before the cut counts: later ones were made after it.
            let at = self
                .promised
                .partition_point(|(changes, _)| *changes <= cut);
            State {
                id,
                name: format!("{name} cut {cut} variant {variant}"),
                disk,
                expected: &self.promised[at - 1].1,
                word: mix(cut as u64, u64::from(variant)),
            }
        })
    }
}

/// Goes on after a recovery: makes, fills and removes files.
///
/// # Panics
/// If the file system refuses.
pub fn go_on(fs: &mut impl FileSystem, id: &str) {
    for number in 0..6 {
        let name = format!("afterwards {number}");
        let file = put(fs, Ino::ROOT, &name, &bytes(number, 1200));
        let synced = fs.fsync(file, Sync::All);
        synced.unwrap_or_else(|error| panic!("{id}: {error} {:?}", fs.cause()));
        fs.forget(file, 1);
    }
    fs.unlink(Ino::ROOT, b"afterwards 3", NOW).unwrap();
}

/// Panics unless another mount finds everything expected, and what [`go_on`] left. After a repair
/// (`repaired`) files may be longer, as [`assert_kept_repaired`] has it.
///
/// # Panics
/// If anything is missing.
pub fn assert_went_on(fs: &mut impl FileSystem, expected: &Expectations, id: &str, repaired: bool) {
    if repaired {
        assert_kept_repaired(fs, expected, id);
    } else {
        assert_kept(fs, expected, id);
    }
    let last = held(fs, "/afterwards 5");
    assert_eq!(last, Some(bytes(5, 1200)), "{id}");
}
