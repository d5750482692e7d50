//! The promise: wherever the power goes off, recovery finds the state behind some committed
//! transaction, no older than the last one that was synced; ordered data is there with its
//! transaction. Random handles against plain arrays, in every mode, home by copying and by
//! remapping. A failure names the story and the cut that replay it.

use crate::common::{BLOCK, HOMES, Limited, contents, disk, load, read};
use nandlab_block::{BlockDevice, CutId, Lba, Ram, WriteLog};
use nandlab_jbd::{Checkpoint, Handle, Journal, JournalError, Tid};
use nandlab_sim::mix;
use nandlab_testkit::share::whole_or;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One bit for each home block that is in use.
const BITMAP: u64 = 0;
/// Says how many operations there were.
const COUNT: u64 = 1;
/// Blocks that are given out.
const POOL: std::ops::Range<u64> = 2..HOMES;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Journal,
    Ordered,
    Writeback,
}

/// What a block is to the file system.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Free,
    /// It goes through the journal and holds this.
    Journaled(Arc<[u8]>),
    /// It is written in place; since which write.
    Plain(usize),
}

#[derive(Clone, Debug)]
struct Snapshot {
    tid: Tid,
    bitmap: Vec<u8>,
    count: Vec<u8>,
    cells: Vec<Cell>,
}

/// Data written in place.
struct InPlace {
    block: u64,
    /// The transaction it must come before, if any.
    before: Option<Tid>,
    data: Vec<u8>,
}

type Device = Limited<WriteLog<Ram>>;

struct Story {
    journal: Journal<Device>,
    mode: Mode,
    seed: u64,
    operations: u64,
    now: Snapshot,
    /// The state behind each transaction, oldest first.
    history: Vec<Snapshot>,
    in_place: Vec<InPlace>,
    /// How many changes the device had seen when these transactions were known to be durable.
    synced: Vec<(usize, Tid)>,
    open: Vec<Handle>,
}

impl Story {
    fn new(seed: u64, mode: Mode, checkpoint: Checkpoint, base: &Ram, limit: usize) -> Self {
        let mut journal = load(Limited(WriteLog::new(base.clone()), limit), checkpoint);
        let bitmap = journal.get(BITMAP).unwrap().to_vec();
        let count = journal.get(COUNT).unwrap().to_vec();
        let now = Snapshot {
            tid: Tid(0),
            bitmap,
            count,
            cells: vec![Cell::Free; HOMES as usize],
        };
        let mut story = Self {
            journal,
            mode,
            seed,
            operations: 0,
            now,
            history: vec![],
            in_place: vec![],
            synced: vec![],
            open: vec![],
        };
        // The pool begins empty, durably, so that all later states are compared in full.
        let mut handle = story.journal.start(3, 0).unwrap();
        story
            .journal
            .replace(&mut handle, BITMAP, &[0; BLOCK as usize])
            .unwrap();
        story.now.bitmap.fill(0);
        story.stamp(&mut handle);
        let tid = story.journal.stop(handle).unwrap();
        story.journal.sync(tid).unwrap();
        story.promise(tid);
        story
    }

    fn changes(&mut self) -> usize {
        self.journal.device_mut().0.records().len()
    }

    fn promise(&mut self, tid: Tid) {
        let changes = self.changes();
        self.synced.push((changes, tid));
    }

    /// A number that nobody else draws.
    fn draw(&mut self) -> u64 {
        self.operations += 1;
        mix(self.seed, self.operations)
    }

    /// Marks the transaction as the one that holds all changes so far.
    fn stamp(&mut self, handle: &mut Handle) {
        let count = self.journal.change(handle, COUNT).unwrap();
        count[16..24].copy_from_slice(&self.operations.to_be_bytes());
        self.now.count = count.to_vec();
        self.now.tid = handle.tid();
        match self.history.last_mut() {
            Some(last) if last.tid == self.now.tid => *last = self.now.clone(),
            _ => self.history.push(self.now.clone()),
        }
    }

    fn set_bit(&mut self, handle: &mut Handle, block: u64, bit: bool) {
        let bitmap = self.journal.change(handle, BITMAP).unwrap();
        let byte = block as usize / 8;
        let mask = 1 << (block % 8);
        bitmap[byte] = bitmap[byte] & !mask | if bit { mask } else { 0 };
        self.now.bitmap = bitmap.to_vec();
    }

    /// A block that is free now and was when the last transaction committed, as ext3 asks.
    fn find_free(&mut self, word: u64) -> Option<u64> {
        let committed = self.journal.committed(BITMAP).unwrap().to_vec();
        let taken = |bitmap: &[u8], block: u64| bitmap[block as usize / 8] >> (block % 8) & 1 == 1;
        let from = word % (POOL.end - POOL.start);
        let mut order = (POOL.start + from..POOL.end).chain(POOL.start..POOL.start + from);
        order.find(|block| !taken(&committed, *block) && !taken(&self.now.bitmap, *block))
    }

    fn find(&self, word: u64, wanted: impl Fn(&Cell) -> bool) -> Option<u64> {
        let from = word % (POOL.end - POOL.start);
        let mut order = (POOL.start + from..POOL.end).chain(POOL.start..POOL.start + from);
        order.find(|block| wanted(&self.now.cells[*block as usize]))
    }

    /// One change under a handle.
    fn edit(&mut self, handle: &mut Handle) {
        let word = self.draw();
        match word % 10 {
            0..=2 => self.allocate(handle, word >> 8),
            3 | 4 => self.free(handle, word >> 8),
            5 if self.mode != Mode::Journal => self.overwrite_in_place(handle, word >> 8),
            _ => self.overwrite_journaled(handle, word >> 8),
        }
        self.stamp(handle);
    }

    fn allocate(&mut self, handle: &mut Handle, word: u64) {
        let Some(block) = self.find_free(word) else {
            return;
        };
        self.set_bit(handle, block, true);
        let data = contents(word);
        if self.mode == Mode::Journal || word & 1 << 40 == 0 {
            self.journal.replace(handle, block, &data).unwrap();
            self.now.cells[block as usize] = Cell::Journaled(data.into());
        } else {
            self.now.cells[block as usize] = Cell::Plain(self.in_place.len());
            self.write_in_place(handle, block, data);
        }
    }

    fn write_in_place(&mut self, handle: &mut Handle, block: u64, data: Vec<u8>) {
        let ordered = self.mode == Mode::Ordered;
        if ordered {
            self.journal.ordered(handle, block, &data).unwrap();
        } else {
            self.journal
                .device_mut()
                .write(Lba(block * 2), &data)
                .unwrap();
        }
        self.in_place.push(InPlace {
            block,
            before: ordered.then(|| handle.tid()),
            data,
        });
    }

    fn overwrite_in_place(&mut self, handle: &mut Handle, word: u64) {
        if let Some(block) = self.find(word, |cell| matches!(cell, Cell::Plain(_))) {
            self.write_in_place(handle, block, contents(word));
        }
    }

    fn overwrite_journaled(&mut self, handle: &mut Handle, word: u64) {
        let Some(block) = self.find(word, |cell| matches!(cell, Cell::Journaled(_))) else {
            return;
        };
        let data = if word & 3 << 40 == 0 {
            self.journal
                .replace(handle, block, &contents(word))
                .unwrap();
            contents(word)
        } else {
            let data = self.journal.change(handle, block).unwrap();
            data[(word >> 20) as usize % 1000..][..8].copy_from_slice(&word.to_be_bytes());
            data.to_vec()
        };
        self.now.cells[block as usize] = Cell::Journaled(data.into());
    }

    fn free(&mut self, handle: &mut Handle, word: u64) {
        let Some(block) = self.find(word, |cell| *cell != Cell::Free) else {
            return;
        };
        match self.now.cells[block as usize] {
            Cell::Journaled(_) => self.journal.revoke(handle, block).unwrap(),
            _ => self.journal.forget(handle, block).unwrap(),
        }
        self.set_bit(handle, block, false);
        self.now.cells[block as usize] = Cell::Free;
    }

    fn stop_all(&mut self) -> Option<Tid> {
        std::mem::take(&mut self.open)
            .into_iter()
            .map(|handle| self.journal.stop(handle).unwrap())
            .last()
    }

    fn step(&mut self) {
        let word = self.draw();
        match word % 16 {
            0..=7 => {
                let mut handle = match self.journal.start(6, 0) {
                    Ok(handle) => handle,
                    Err(JournalError::Busy { handles }) => {
                        assert_eq!(handles as usize, self.open.len());
                        self.stop_all();
                        self.journal.start(6, 0).unwrap()
                    }
                    Err(other) => panic!("{other}"),
                };
                // Bitmap, count, and at most two blocks.
                (0..1 + (word >> 8) % 2).for_each(|_| self.edit(&mut handle));
                match word >> 16 & 3 {
                    0 => self.open.push(handle),
                    _ => drop(self.journal.stop(handle).unwrap()),
                }
            }
            8 | 9 => {
                if let Some(tid) = self.stop_all() {
                    self.journal.sync(tid).unwrap();
                    self.promise(tid);
                }
            }
            10 => drop(self.journal.start_commit().unwrap()),
            11 | 12 => drop(self.journal.step().unwrap()),
            13 => drop(self.journal.write_back((word >> 8) as usize % 4).unwrap()),
            14 if word >> 8 & 3 == 0 => {
                self.stop_all();
                self.journal.flush().unwrap();
                let tid = self.now.tid;
                self.promise(tid);
            }
            14 => self.journal.checkpoint().unwrap(),
            _ => self.compare(word >> 8),
        }
    }

    fn live(&mut self, operations: u64) {
        while self.operations < operations {
            self.step();
        }
    }

    /// What is read is what was written last.
    fn compare(&mut self, word: u64) {
        let block = POOL.start + word % (POOL.end - POOL.start);
        if let Cell::Journaled(data) = &self.now.cells[block as usize] {
            assert_eq!(self.journal.get(block).unwrap(), &data[..], "block {block}");
        }
        if self.mode == Mode::Ordered
            && let Cell::Plain(_) = self.now.cells[block as usize]
        {
            let last = self
                .in_place
                .iter()
                .rfind(|write| write.block == block)
                .unwrap();
            assert_eq!(self.journal.get(block).unwrap(), last.data, "block {block}");
        }
        assert_eq!(self.journal.get(BITMAP).unwrap(), self.now.bitmap);
    }
}

/// Which state a recovered disk holds; panics if it is none, or one that is too old.
fn judge(story: &Story, disk: &mut Ram, synced: Tid, id: &str) -> Tid {
    let count = read(disk, COUNT);
    let found = story
        .history
        .iter()
        .find(|snapshot| snapshot.count == count);
    let Some(found) = found else {
        panic!("{id}: not the state behind any transaction")
    };
    assert!(
        !found.tid.is_before(synced),
        "{id}: recovered up to {}, but {synced} was synced",
        found.tid
    );
    assert_eq!(
        read(disk, BITMAP),
        found.bitmap,
        "{id}: bitmap of {}",
        found.tid
    );
    for (block, cell) in (0..).zip(&found.cells) {
        match cell {
            Cell::Free => {}
            Cell::Journaled(data) => assert!(
                read(disk, block) == data[..],
                "{id}: block {block} of {}",
                found.tid
            ),
            Cell::Plain(since) => judge_in_place(story, disk, block, *since, found.tid, id),
        }
    }
    found.tid
}

/// Each sector holds the last write that its transaction had to wait for, or a later one.
fn judge_in_place(story: &Story, disk: &mut Ram, block: u64, since: usize, tid: Tid, id: &str) {
    let writes: Vec<&InPlace> = story.in_place[since..]
        .iter()
        .filter(|write| write.block == block)
        .collect();
    let durable = writes
        .iter()
        .rposition(|write| write.before.is_some_and(|before| !tid.is_before(before)));
    let Some(durable) = durable else {
        assert!(
            story.mode == Mode::Writeback,
            "{id}: block {block} was given out by {tid}, its data not"
        );
        return;
    };
    for (sector, found) in read(disk, block).chunks(512).enumerate() {
        let mut allowed = writes[durable..]
            .iter()
            .map(|write| &write.data[sector * 512..][..512]);
        assert!(
            allowed.any(|data| data == found),
            "{id}: sector {sector} of block {block}, ordered before {tid}"
        );
    }
}

/// Recovers and judges a third of all cuts; gives how many. Some of the recovered disks go on, and
/// `again` says for how many lives they are cut themselves.
fn cut_everywhere(story: &mut Story, base: &Ram, again: u32) -> u64 {
    story.stop_all();
    let mut states = 0;
    let seed = story.seed;
    let log = story.journal.device_mut().0.clone();
    for state in log.cuts(base.clone(), seed, 3) {
        let (CutId { cut, variant }, mut disk) = state.unwrap();
        let word = mix(mix(seed, cut as u64), u64::from(variant));
        let at = story.synced.partition_point(|(changes, _)| *changes <= cut);
        if at == 0 || !word.is_multiple_of(3) {
            continue;
        }
        states += 1;
        let id = format!(
            "{:?}, seed {seed}, cut {cut}, variant {variant}",
            story.mode
        );
        let synced = story.synced[at - 1].1;
        let recoverer = if word >> 8 & 1 == 0 {
            Checkpoint::Copy
        } else {
            Checkpoint::Remap
        };
        let crashed = disk.clone();
        disk = load(disk, recoverer).into_device();
        let tid = judge(story, &mut disk, synced, &id);
        match (word >> 16) % 8 {
            0 | 1 => cut_the_recovery(story, &crashed, recoverer, tid, word >> 24, &id),
            2 => go_on(disk, recoverer, word >> 24, &id),
            3 if again > 0 && (word >> 32).is_multiple_of(8) => {
                let mut next = Story::new(word, story.mode, recoverer, &disk, usize::MAX);
                next.live(60);
                states += cut_everywhere(&mut next, &disk, again - 1);
            }
            _ => {}
        }
    }
    states
}

/// The power goes off while the journal is recovered: the next recovery finds the same.
fn cut_the_recovery(
    story: &Story,
    crashed: &Ram,
    recoverer: Checkpoint,
    tid: Tid,
    word: u64,
    id: &str,
) {
    let log = load(WriteLog::new(crashed.clone()), recoverer).into_device();
    let id_at = CutId {
        cut: word as usize % (log.records().len() + 1),
        variant: (word >> 16) as u32 % 4,
    };
    let mut disk = crashed.clone();
    log.state(&mut disk, word, id_at).unwrap();
    let other = if word >> 20 & 1 == 0 {
        Checkpoint::Copy
    } else {
        Checkpoint::Remap
    };
    let mut disk = load(disk, other).into_device();
    assert_eq!(
        judge(story, &mut disk, tid, &format!("{id}, again at {id_at:?}")),
        tid
    );
}

/// The journal works after recovery as after any load.
fn go_on(disk: Ram, checkpoint: Checkpoint, seed: u64, id: &str) {
    let mut journal = load(disk, checkpoint);
    let mut model = BTreeMap::new();
    for round in 0..30 {
        let mut handle = journal.start(3, 0).unwrap();
        for index in 0..3 {
            let word = mix(seed, round * 3 + index);
            journal
                .replace(&mut handle, word % HOMES, &contents(word))
                .unwrap();
            model.insert(word % HOMES, contents(word));
        }
        let tid = journal.stop(handle).unwrap();
        if mix(seed, round).is_multiple_of(2) {
            journal.sync(tid).unwrap();
        }
    }
    let mut disk = journal.close().unwrap();
    let again = load(disk.clone(), Checkpoint::Copy);
    assert_eq!(
        again.recovery().transactions,
        0,
        "{id}: nothing to recover after close"
    );
    for (block, data) in model {
        assert!(
            read(&mut disk, block) == data,
            "{id}, going on: block {block}"
        );
    }
}

/// Operations, states that were recovered, and what was written.
fn run(mode: Mode, checkpoint: Checkpoint, stories: u64, limit: usize) {
    let mut operations = 0;
    let mut states = 0;
    let mut remapped = 0;
    let mut checkpointed = 0;
    for number in 0..stories {
        // Some journals cross the end of the numbers.
        let base = disk(if number % 4 == 0 { u32::MAX - 20 } else { 1 });
        let mut story = Story::new(
            mix(number, mode as u64 * 2 + checkpoint as u64),
            mode,
            checkpoint,
            &base,
            limit,
        );
        story.live(420);
        states += cut_everywhere(&mut story, &base, 1);
        operations += story.operations;
        remapped += story.journal.tally().remapped;
        checkpointed += story.journal.tally().checkpointed;
    }
    println!(
        "{mode:?} {checkpoint:?}: {operations} operations, {states} states, {remapped} remapped, {checkpointed} checkpointed"
    );
    assert!(states > 100 * stories, "{states} states");
    assert_eq!(checkpoint != Checkpoint::Copy && limit > 1, remapped > 0);
    assert!(checkpointed > 0, "nothing was written home");
}

fn stories() -> u64 {
    whole_or(45, 10)
}

#[test]
fn journaled_data_comes_home_by_copying() {
    run(Mode::Journal, Checkpoint::Copy, stories(), usize::MAX);
}

#[test]
fn journaled_data_comes_home_by_remapping() {
    run(Mode::Journal, Checkpoint::Remap, stories(), usize::MAX);
}

#[test]
fn ordered_data_goes_before_its_transaction_that_is_copied() {
    run(Mode::Ordered, Checkpoint::Copy, stories(), usize::MAX);
}

#[test]
fn ordered_data_goes_before_its_transaction_that_is_remapped() {
    run(Mode::Ordered, Checkpoint::Remap, stories(), usize::MAX);
}

#[test]
fn metadata_is_whole_with_data_written_back_when_it_is_copied() {
    run(Mode::Writeback, Checkpoint::Copy, stories(), usize::MAX);
}

#[test]
fn metadata_is_whole_with_data_written_back_when_it_is_remapped() {
    run(Mode::Writeback, Checkpoint::Remap, stories(), usize::MAX);
}

#[test]
fn a_device_that_cannot_remap_is_written_to() {
    run(Mode::Ordered, Checkpoint::Remap, 10, 0);
}

#[test]
fn transactions_too_large_for_one_remap_are_written_and_the_others_remapped() {
    // Three blocks and the commit block, in sectors.
    run(Mode::Journal, Checkpoint::Remap, 20, 8);
}

#[test]
fn journaled_data_comes_home_by_late_remaps() {
    run(Mode::Journal, Checkpoint::RemapLate, stories(), usize::MAX);
}

#[test]
fn ordered_data_goes_before_its_transaction_that_is_remapped_late() {
    run(Mode::Ordered, Checkpoint::RemapLate, stories(), usize::MAX);
}

#[test]
fn late_remaps_of_a_device_that_takes_few_pairs_are_of_fewer_transactions() {
    run(Mode::Writeback, Checkpoint::RemapLate, stories(), 24);
}
