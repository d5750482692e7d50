//! The limits, ages and periods of Linux on a file system that only counts.

use super::*;
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::cell::Cell;
use nandlab_vfs::{Dirty, MemFs};

const MIB: u64 = 1 << 20;

/// Dirty data, the oldest first; writing takes a millisecond a page.
struct Counting<'a> {
    rest: MemFs,
    waiting: VecDeque<(Time, u64)>,
    clock: &'a Cell<Time>,
    due: Option<Time>,
    /// Each write-back: bytes asked for, and until when.
    asked: Vec<(u64, Time)>,
    /// The file system never writes a page.
    stuck: bool,
}

impl<'a> Counting<'a> {
    fn new(clock: &'a Cell<Time>) -> Self {
        let rest = MemFs::new(0, Time::new(0));
        let waiting = VecDeque::new();
        Self {
            rest,
            waiting,
            clock,
            due: None,
            asked: Vec::new(),
            stuck: false,
        }
    }

    /// A program dirties so many bytes, 1 MiB at a time.
    fn fill(&mut self, flusher: &mut Flusher, bytes: u64) {
        for at in (0..bytes).step_by(MIB as usize) {
            self.waiting.push_back((self.clock.get(), MIB));
            flusher.wrote(self, at, MIB).unwrap();
        }
    }

    fn wake(&mut self, flusher: &mut Flusher) {
        let clock = self.clock;
        flusher.wake(self, &mut || clock.get()).unwrap();
    }
}

impl FileSystem for Counting<'_> {
    nandlab_vfs::delegate! { [self.rest]
        lookup forget getattr setattr create link unlink rmdir rename readlink read write readdir
        fsync sync unmount statfs
    }

    fn dirty(&self) -> Dirty {
        Dirty {
            bytes: self.waiting.iter().map(|(_, bytes)| bytes).sum(),
            since: self.waiting.front().map(|(since, _)| *since),
        }
    }

    fn write_back(&mut self, bytes: u64, until: Time) -> Result<u64, Errno> {
        self.asked.push((bytes, until));
        let mut done = 0;
        while let Some((since, piece)) = self.waiting.front_mut().filter(|_| !self.stuck) {
            let part = if *since <= until {
                *piece
            } else {
                (bytes - done.min(bytes)).min(*piece)
            };
            if part == 0 {
                break;
            }
            (*piece, done) = (*piece - part, done + part);
            if *piece == 0 {
                self.waiting.pop_front();
            }
        }
        self.clock
            .set(later(self.clock.get(), done / PAGE * 1_000_000));
        Ok(done)
    }

    fn due(&self) -> Option<Time> {
        self.due
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        assert!(self.due.is_some_and(|due| due <= now));
        self.due = None;
        Ok(())
    }
}

fn at(secs: i64) -> Time {
    Time::new(1_000_000 + secs)
}

fn flusher(memory: u64) -> Flusher {
    Flusher::new(Limits::new(memory), at(0))
}

#[test]
fn the_limits_are_linuxs() {
    let limits = Limits::new(1000 * MIB);
    assert_eq!(
        (
            limits.dirty() / MIB,
            limits.background() / MIB,
            limits.chunk() / MIB
        ),
        (400, 100, 6)
    );
    assert_eq!(
        (
            limits.look_pages(),
            Limits::new(32 * MIB).look_pages(),
            Limits::new(MIB).look_pages()
        ),
        (1024, 256, 16)
    );
    // Programs that leave little to the page cache lower both limits.
    let mapped = Limits {
        page_cache_percent: 16,
        ..limits
    };
    assert_eq!((mapped.dirty() / MIB, mapped.background() / MIB), (80, 40));
    let full = Limits {
        page_cache_percent: 0,
        ..limits
    };
    assert_eq!((full.dirty() / MIB, full.background() / MIB), (50, 20));
}

#[test]
fn below_the_background_limit_nothing_is_written_before_it_is_old() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(1000 * MIB);
    fs.fill(&mut flusher, 100 * MIB);
    assert_eq!(flusher.next(&fs), Some(at(5)));
    for secs in (5..30).step_by(5) {
        clock.set(at(secs));
        fs.wake(&mut flusher);
        assert_eq!((fs.asked.len(), flusher.next(&fs)), (0, Some(at(secs + 5))));
    }
    clock.set(at(30));
    fs.wake(&mut flusher);
    assert_eq!(
        (fs.dirty().bytes, flusher.flushed().expired, &fs.asked[..]),
        (0, 100 * MIB, &[(0, at(0))][..])
    );
}

#[test]
fn kupdate_writes_the_old_alone_and_rests_a_second_if_it_took_its_whole_period() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(1000 * MIB);
    fs.fill(&mut flusher, 40 * MIB);
    clock.set(at(20));
    fs.fill(&mut flusher, 30 * MIB);
    clock.set(at(35));
    fs.wake(&mut flusher);
    // 40 MiB at a millisecond a page: more than 10 s.
    assert_eq!(
        (fs.dirty().bytes, flusher.next(&fs)),
        (30 * MIB, Some(later(at(35), 10_240_000_000 + REST)))
    );
}

#[test]
fn above_the_background_limit_pdflush_writes_in_rounds_until_it_is_below() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(1000 * MIB);
    // A look every 4 MiB: the one at 104 sees that the limit of 100 is passed.
    fs.fill(&mut flusher, 103 * MIB);
    assert_eq!(flusher.next(&fs), Some(at(5)));
    fs.fill(&mut flusher, 4 * MIB);
    assert_eq!((flusher.next(&fs), fs.asked.len()), (Some(Time::MIN), 0));
    fs.wake(&mut flusher);
    assert_eq!(
        (fs.dirty().bytes, flusher.flushed().background),
        (99 * MIB, 8 * MIB)
    );
    assert_eq!(fs.asked, vec![(4 * MIB, Time::MIN); 2]);
    assert_eq!(flusher.next(&fs), Some(at(5)));
}

#[test]
fn a_writer_above_the_dirty_limit_writes_itself_and_is_looked_at_more_often() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(1000 * MIB);
    fs.fill(&mut flusher, 403 * MIB);
    assert_eq!(fs.asked, []);
    fs.fill(&mut flusher, 5 * MIB);
    assert_eq!(
        (fs.asked[0], fs.dirty().bytes <= 405 * MIB),
        ((6 * MIB, Time::MIN), true)
    );
    // While it stays exceeded, every eighth page is one look: what cannot be written must not hang.
    fs.stuck = true;
    fs.fill(&mut flusher, 8 * MIB);
    let before = fs.asked.len();
    fs.fill(&mut flusher, MIB);
    assert_eq!(fs.asked.len() - before, 256 / 8);
    fs.stuck = false;
    fs.fill(&mut flusher, MIB);
    assert!(fs.dirty().bytes <= 400 * MIB, "{}", fs.dirty().bytes);
}

#[test]
fn small_writes_count_by_the_pages_that_they_touch() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(MIB);
    fs.waiting.push_back((at(0), MIB));
    (0..15).for_each(|n| flusher.wrote(&mut fs, n * 512, 512).unwrap());
    assert_eq!(fs.asked.len(), 0);
    flusher.wrote(&mut fs, 4095, 2).unwrap();
    assert!(!fs.asked.is_empty());
}

#[test]
fn work_of_the_file_systems_own_is_done_when_it_is_due_and_once() {
    let clock = Cell::new(at(0));
    let mut fs = Counting::new(&clock);
    let mut flusher = flusher(MIB);
    fs.due = Some(at(3));
    assert_eq!(flusher.next(&fs), Some(at(3)));
    fs.wake(&mut flusher);
    assert_eq!(fs.due, Some(at(3)));
    clock.set(at(4));
    fs.wake(&mut flusher);
    assert_eq!(
        (fs.due, flusher.flushed().works, flusher.next(&fs)),
        (None, 1, Some(at(5)))
    );
}

#[test]
fn without_a_period_kupdate_never_runs() {
    let mut flusher = Flusher::new(
        Limits {
            period: 0,
            ..Limits::new(MIB)
        },
        at(0),
    );
    let clock = Cell::new(at(1000));
    let mut fs = Counting::new(&clock);
    fs.waiting.push_back((at(0), 1));
    assert_eq!(flusher.next(&fs), None);
    fs.wake(&mut flusher);
    assert_eq!(fs.asked, []);
}

#[test]
fn moments_are_added_and_subtracted_across_seconds() {
    let time = |secs, nanos| Time { secs, nanos };
    assert_eq!(
        later(time(1, 900_000_000), 1_200_000_000),
        time(3, 100_000_000)
    );
    assert_eq!(
        earlier(time(3, 100_000_000), 1_200_000_000),
        time(1, 900_000_000)
    );
    assert_eq!(earlier(time(3, 100_000_000), 100_000_000), time(3, 0));
    assert_eq!(earlier(time(3, 5), 3 * SECOND), time(0, 5));
}
