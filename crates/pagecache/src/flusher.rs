//! When dirty data in memory is written: the policy of Linux 2.6 (`mm/page-writeback.c` of 2.6.18).
//!
//! *Promises.* A writer that leaves more than the dirty limit behind writes back itself before its
//! call ends ([`wrote`](Flusher::wrote)); above the background limit pdflush writes until it is
//! below; once a period, kupdate writes what has waited for too long; what a file system has of its
//! own, such as a journal's commit timer, is done when it is due ([`wake`](Flusher::wake)). *Knows
//! nothing of* the dirty data itself: the file system owns it and reports its amount.
//!
//! # Whose time it takes
//!
//! Linux has threads for this. Here they are actors on the one processor and the one disk: what
//! they do takes virtual time from the program that is running, from the moment on at which the
//! caller lets them, and they do all of it at once. That is so in Linux, too, where the disk's
//! driver works with the processor, as with raw flash; over a disk with its own processor, a
//! program would go on meanwhile. Two more differences: an age is a block's here and a file's in
//! Linux; and Linux waits up to 100 ms for others where nothing can be written, which here never
//! helps.

use nandlab_vfs::{Errno, FileSystem, Time};

/// The most pages that are asked for at a time (`MAX_WRITEBACK_PAGES`).
pub const ROUND_PAGES: u64 = 1024;
/// Bytes of a page of memory.
pub const PAGE: u64 = 4096;
/// Pages that a writer may make dirty between two looks at the limits while they are exceeded.
const EXCEEDED_PAGES: u64 = 8;
/// The longest time between two looks, in bytes.
const LOOK_BYTES_MAX: u64 = 4 << 20;
/// The dirty limit is never less, in percent of the memory.
const DIRTY_PERCENT_MIN: u64 = 5;
/// What kupdate rests at least, in nanoseconds.
const REST: u64 = SECOND;
const SECOND: u64 = 1_000_000_000;

/// The limits; their defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory for programs and the page cache.
    pub memory: u64,
    /// Percent of it that programs leave to the page cache; half of that may be dirty.
    pub page_cache_percent: u8,
    /// Percent of it from which on pdflush writes: `vm.dirty_background_ratio`.
    pub background_percent: u8,
    /// Percent of it from which on writers write themselves: `vm.dirty_ratio`.
    pub dirty_percent: u8,
    /// Age in nanoseconds at which kupdate writes dirty data: `vm.dirty_expire_centisecs`.
    pub expire: u64,
    /// Its period in nanoseconds: `vm.dirty_writeback_centisecs`. 0: it never runs.
    pub period: u64,
}

impl Limits {
    /// Those of a machine with so many bytes of memory.
    pub fn new(memory: u64) -> Self {
        Self {
            memory,
            page_cache_percent: 80,
            background_percent: 10,
            dirty_percent: 40,
            expire: 30 * SECOND,
            period: 5 * SECOND,
        }
    }

    fn share(&self, percent: u64) -> u64 {
        (u128::from(self.memory) * u128::from(percent) / 100) as u64
    }

    fn effective_dirty_percent(&self) -> u64 {
        u64::from(self.dirty_percent.min(self.page_cache_percent / 2)).max(DIRTY_PERCENT_MIN)
    }

    /// Bytes above which a writer writes itself.
    pub fn dirty(&self) -> u64 {
        self.share(self.effective_dirty_percent())
    }

    /// Bytes above which pdflush writes.
    pub fn background(&self) -> u64 {
        let asked = u64::from(self.background_percent);
        let dirty = self.effective_dirty_percent();
        self.share(if asked >= dirty { dirty / 2 } else { asked })
    }

    /// Pages that a writer may make dirty between two looks at the limits (`ratelimit_pages` of one
    /// processor).
    fn look_pages(&self) -> u64 {
        (self.memory / PAGE / 32).clamp(16, LOOK_BYTES_MAX / PAGE)
    }

    /// Bytes that a writer above the limit writes at a look (`sync_writeback_pages`).
    fn chunk(&self) -> u64 {
        self.look_pages() * 3 / 2 * PAGE
    }
}

/// Who has written how much, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Writers above the dirty limit.
    pub writers: u64,
    /// pdflush, above the background limit.
    pub background: u64,
    /// Pages that kupdate wrote, since they were too old.
    pub expired: u64,
    /// Times that work of the file system's own was due.
    pub works: u64,
}

/// The policy at work on one file system.
#[derive(Clone, Debug)]
pub struct Flusher {
    limits: Limits,
    /// When kupdate runs next.
    kupdate: Option<Time>,
    /// Pages made dirty since the last look.
    pages: u64,
    /// The dirty limit was exceeded at the last look.
    exceeded: bool,
    /// pdflush has been asked to write.
    background: bool,
    flushed: Flushed,
}

impl Flusher {
    /// Starts with no dirty pages at this time.
    pub fn new(limits: Limits, now: Time) -> Self {
        let kupdate = (limits.period > 0).then(|| later(now, limits.period));
        Self {
            limits,
            kupdate,
            pages: 0,
            exceeded: false,
            background: false,
            flushed: Flushed::default(),
        }
    }

    /// Returns the limits that it obeys.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What was written so far.
    pub fn flushed(&self) -> Flushed {
        self.flushed
    }

    /// A program has written so many bytes: looks at the limits once for every so many pages, and
    /// writes back for the program if it must. Its call ends when this returns. A look comes after
    /// the call, so that one long write exceeds the limit by as much.
    pub fn wrote<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        self.pages += offset.saturating_add(bytes - 1) / PAGE - offset / PAGE + 1;
        loop {
            let enough = if self.exceeded {
                EXCEEDED_PAGES
            } else {
                self.limits.look_pages()
            };
            if self.pages < enough {
                return Ok(());
            }
            self.pages -= enough;
            self.look(fs)?;
        }
    }

    /// As Linux's `balance_dirty_pages` does.
    fn look<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Result<(), Errno> {
        let limit = self.limits.dirty();
        let chunk = self.limits.chunk();
        let mut written = 0;
        self.exceeded = fs.dirty().bytes > limit;
        while self.exceeded && written < chunk {
            let done = fs.write_back(chunk, Time::MIN)?;
            self.exceeded = fs.dirty().bytes > limit;
            written += done;
            if done == 0 {
                break;
            }
        }
        self.flushed.writers += written;
        self.background |= fs.dirty().bytes > self.limits.background();
        Ok(())
    }

    /// When [`wake`](Self::wake) has something to do; none: not by itself.
    pub fn next<F: FileSystem + ?Sized>(&self, fs: &F) -> Option<Time> {
        let at_once = self.background.then_some(Time::MIN);
        [at_once, self.kupdate, fs.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does everything that is due; `now` tells the time, which goes on meanwhile.
    pub fn wake<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        now: &mut dyn FnMut() -> Time,
    ) -> Result<(), Errno> {
        if core::mem::take(&mut self.background) {
            self.write_background(fs)?;
        }
        let began = now();
        if fs.due().is_some_and(|due| due <= began) {
            fs.work(began)?;
            self.flushed.works += 1;
        }
        let began = now();
        if self.kupdate.is_some_and(|at| at <= began) {
            self.write_expired(fs, began)?;
            self.kupdate = Some(later(began, self.limits.period).max(later(now(), REST)));
        }
        Ok(())
    }

    /// As Linux's `background_writeout` does.
    fn write_background<F: FileSystem + ?Sized>(&mut self, fs: &mut F) -> Result<(), Errno> {
        while fs.dirty().bytes >= self.limits.background() {
            let done = fs.write_back(ROUND_PAGES * PAGE, Time::MIN)?;
            self.flushed.background += done;
            if done < ROUND_PAGES * PAGE {
                break;
            }
        }
        Ok(())
    }

    /// `wb_kupdate`. Its rounds would make no difference: all that is old enough goes at once.
    fn write_expired<F: FileSystem + ?Sized>(
        &mut self,
        fs: &mut F,
        now: Time,
    ) -> Result<(), Errno> {
        let until = earlier(now, self.limits.expire);
        if fs.dirty().since.is_some_and(|since| since <= until) {
            self.flushed.expired += fs.write_back(0, until)?;
        }
        Ok(())
    }
}

fn later(time: Time, nanos: u64) -> Time {
    let sum = u64::from(time.nanos) + nanos % SECOND;
    let secs = time
        .secs
        .saturating_add((nanos / SECOND + sum / SECOND) as i64);
    Time {
        secs,
        nanos: (sum % SECOND) as u32,
    }
}

fn earlier(time: Time, nanos: u64) -> Time {
    let sum = SECOND + u64::from(time.nanos) - nanos % SECOND;
    let secs = time
        .secs
        .saturating_sub((nanos / SECOND + 1 - sum / SECOND) as i64);
    Time {
        secs,
        nanos: (sum % SECOND) as u32,
    }
}

#[cfg(test)]
mod tests;
