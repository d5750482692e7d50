//! Those who work beside the program: pdflush, kupdate, a journal's commit timer.
//!
//! There is one processor and one disk: what an actor does when its moment has come takes virtual
//! time from the program, which goes on afterwards.

use super::{moment, nanos};
use nandlab_pagecache::flusher::{Flushed, Flusher};
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::MemoryDescription;
use nandlab_vfs::{Errno, FileSystem, Time};

/// The actors of a run.
pub struct Actors {
    clock: Clock,
    /// None without a memory: the file system writes when it must.
    flusher: Option<Flusher>,
    /// Times that work of the file system's own was due without a flusher.
    works: u64,
}

impl Actors {
    /// Those that a memory needs, and the file system's own.
    pub fn new(memory: Option<&MemoryDescription>, clock: &Clock) -> Self {
        let flusher = memory.map(|memory| Flusher::new(memory.limits, moment(clock.now())));
        Self {
            clock: clock.clone(),
            flusher,
            works: 0,
        }
    }

    /// What they have written.
    pub fn flushed(&self) -> Flushed {
        let works = self.works;
        self.flusher.as_ref().map_or(
            Flushed {
                works,
                ..Flushed::default()
            },
            Flusher::flushed,
        )
    }

    /// A program has written: above the limit it writes back itself.
    pub fn wrote(
        &mut self,
        fs: &mut dyn FileSystem,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        self.flusher
            .as_mut()
            .map_or(Ok(()), |flusher| flusher.wrote(fs, offset, length))
    }

    fn next(&self, fs: &dyn FileSystem) -> Option<Time> {
        self.flusher
            .as_ref()
            .map_or_else(|| fs.due(), |flusher| flusher.next(fs))
    }

    /// Lets everyone work whose moment has come.
    pub fn wake(&mut self, fs: &mut dyn FileSystem) -> Result<(), Errno> {
        let clock = &self.clock;
        let now = moment(clock.now());
        if self.next(fs).is_none_or(|next| next > now) {
            return Ok(());
        }
        match &mut self.flusher {
            Some(flusher) => flusher.wake(fs, &mut || moment(clock.now())),
            None => {
                self.works += 1;
                fs.work(now)
            }
        }
    }

    /// The program computes for so long, in ns, and is interrupted whenever someone else's moment
    /// has come.
    pub fn compute(&mut self, fs: &mut dyn FileSystem, mut left: Nanos) -> Result<(), Errno> {
        while left > 0 {
            self.wake(fs)?;
            let now = self.clock.now();
            let until_next = self
                .next(fs)
                .map_or(left, |next| nanos(next).saturating_sub(now));
            // What is due and not done by then waits until the program has ended.
            let part = if until_next == 0 {
                left
            } else {
                left.min(until_next)
            };
            self.clock.spend(part);
            left -= part;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_pagecache::flusher::Limits;
    use nandlab_vfs::{Caller, Ino, MemFs, NewNode};

    #[test]
    fn a_program_that_computes_is_interrupted_at_each_period_and_computes_as_long() {
        let clock = Clock::new();
        let memory = MemoryDescription {
            limits: Limits::new(1 << 30),
        };
        let mut fs = MemFs::new(1 << 20, Time::new(0));
        fs.create(
            Ino::ROOT,
            b"a",
            NewNode::File,
            0o644,
            Caller::root(Time::new(0)),
        )
        .unwrap();
        let mut actors = Actors::new(Some(&memory), &clock);
        actors.compute(&mut fs, 12_000_000_000).unwrap();
        assert_eq!(clock.now(), 12_000_000_000);
        // The periods of 5 and 10 s are over.
        assert_eq!(nanos(actors.next(&fs).unwrap()), 15_000_000_000);
        assert_eq!(actors.flushed(), Flushed::default());
    }
}
