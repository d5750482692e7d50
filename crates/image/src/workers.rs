//! Contents of files taken out on several threads, each of which has the image open for itself, or
//! gets the contents of short files read.
//!
//! *Promises.* What comes of it does not depend on the number of threads: losses are put in the
//! order of the paths by the merging thread, and of several failures the one of the earliest file
//! counts. So many files at most are open, or wait in as many directories. *Knows nothing of* where
//! contents go.

use crate::error::{ImageError, Result, Shown};
use crate::sink::{Fill, Held};
use crate::tree::Entry;
use crate::volume::Volume;
use crate::walk::{How, Losses, read_into};
use nandlab_vfs::{Errno, FileSystem, Ino, path};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Files and bytes that go to a thread at once, unless one file has more.
const BATCH: (usize, u64) = (32, 1024 * 1024);
/// The most batches in the queue.
const WAITING: usize = 2;
/// The most buffers that wait for another file: as many as files in the queue and beside it.
const KEPT: usize = (WAITING + 2) * BATCH.0;

/// Buffers of files that are done.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// Threads that help a walk.
#[derive(Clone, Copy)]
pub struct Helpers<'a> {
    /// The number of worker threads.
    pub threads: usize,
    /// Opens the image once more, for reading.
    pub open: &'a (dyn Fn() -> Result<Volume> + Sync),
    /// Contents take work before they can be written, which is theirs too; otherwise only long
    /// files are read by them.
    pub unpack: bool,
}

struct Job {
    number: usize,
    entry: Entry,
    fill: Box<dyn Fill>,
    held: Option<Held>,
}

/// Where a walk gives its files.
pub(crate) struct Queue {
    jobs: SyncSender<Vec<Job>>,
    batch: Vec<Job>,
    bytes: u64,
    given: usize,
    failed: Arc<AtomicBool>,
    spare: Spare,
}

impl Queue {
    /// Returns a buffer for the contents of a file of so many bytes, with whatever is in it: the
    /// shortest that holds them, or an empty one.
    pub fn buffer(&self, size: u64) -> Vec<u8> {
        let mut spare = locked(&self.spare);
        let fitting = spare
            .iter()
            .enumerate()
            .filter(|(_, buffer)| buffer.len() as u64 >= size)
            .min_by_key(|(_, buffer)| buffer.len())
            .map(|(place, _)| place);
        fitting.map_or_else(Vec::new, |place| spare.swap_remove(place))
    }

    pub fn give(&mut self, entry: Entry, fill: Box<dyn Fill>, held: Option<Held>) -> Result<()> {
        self.bytes = self.bytes.saturating_add(entry.size());
        self.batch.push(Job {
            number: self.given,
            entry,
            fill,
            held,
        });
        self.given += 1;
        if self.batch.len() >= BATCH.0 || self.bytes >= BATCH.1 {
            self.send()
        } else {
            Ok(())
        }
    }

    /// Gives what is left; no more come.
    pub fn end(mut self) -> Result<()> {
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let sent = self.jobs.send(std::mem::take(&mut self.batch));
        // The thread that failed reports the cause in place of this.
        let error = ImageError::Call {
            path: Shown::path(b""),
            error: Errno::Io,
            why: "a thread failed".into(),
        };
        if sent.is_err() || self.failed.load(Ordering::Relaxed) {
            Err(error)
        } else {
            Ok(())
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A failure, and whether a thread met it and has reported its cause.
pub(crate) struct Failed {
    pub error: ImageError,
    pub explained: bool,
}

/// Lets `lead` give files below `root`, and ends when all are done: what was lost of them.
pub(crate) fn run(
    helpers: Helpers<'_>,
    root: &[u8],
    how: How,
    lead: impl FnOnce(Queue) -> Result<()>,
) -> std::result::Result<Losses, Failed> {
    let failed = Arc::new(AtomicBool::new(false));
    let (jobs, waiting) = sync_channel(WAITING);
    // Only the workers own it: when the last one is gone, a send fails instead of waiting.
    let waiting = Arc::new(Mutex::new(waiting));
    let spare = Spare::default();
    let worker = || Worker {
        open: helpers.open,
        root,
        how,
        volume: None,
        dir: None,
        losses: Losses::default(),
        buffer: Vec::new(),
        spare: spare.clone(),
    };
    thread::scope(|scope| {
        let start = || {
            let waiting = waiting.clone();
            let failed = failed.clone();
            scope.spawn(move || worker().run(&waiting, &failed))
        };
        let threads: Vec<_> = (0..helpers.threads.max(1)).map(|_| start()).collect();
        drop(waiting);
        let outcome = lead(Queue {
            jobs,
            batch: Vec::new(),
            bytes: 0,
            given: 0,
            failed: failed.clone(),
            spare: spare.clone(),
        });
        let mut losses = Losses::default();
        let mut first = None;
        for thread in threads {
            match thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            {
                Ok(more) => losses.merge(more),
                Err((number, error)) if first.as_ref().is_none_or(|(other, _)| number < *other) => {
                    first = Some((number, error))
                }
                Err(_) => {}
            }
        }
        match first {
            Some((_, error)) => Err(Failed {
                error,
                explained: true,
            }),
            None => outcome.map(|()| losses).map_err(|error| Failed {
                error,
                explained: false,
            }),
        }
    })
}

struct Worker<'a> {
    open: &'a (dyn Fn() -> Result<Volume> + Sync),
    root: &'a [u8],
    how: How,
    volume: Option<Volume>,
    /// The directory of the last file: most have it in common with the one before.
    dir: Option<(Vec<u8>, Ino)>,
    losses: Losses,
    buffer: Vec<u8>,
    spare: Spare,
}

impl Worker<'_> {
    /// Jobs come in their order, so that all before one that fails are done or under way.
    fn run(
        mut self,
        waiting: &Mutex<Receiver<Vec<Job>>>,
        failed: &AtomicBool,
    ) -> std::result::Result<Losses, (usize, ImageError)> {
        let next = || locked(waiting).recv();
        while let Ok(batch) = next() {
            for job in batch {
                let number = job.number;
                if let Err(error) = self.one(job) {
                    failed.store(true, Ordering::Relaxed);
                    return Err((number, error));
                }
            }
            if failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(self.losses)
    }

    fn one(&mut self, job: Job) -> Result<()> {
        if let Some(mut held) = job.held {
            self.losses.merge(job.fill.fill(&job.entry, &mut held)?);
            let buffer = held.into_buffer();
            let mut spare = locked(&self.spare);
            if spare.len() < KEPT && !buffer.is_empty() {
                spare.push(buffer);
            }
            return Ok(());
        }
        let volume = match &mut self.volume {
            Some(volume) => volume,
            none => {
                let mut volume = (self.open)()?;
                if self.how.salvage {
                    volume.reconnect();
                }
                none.insert(volume)
            }
        };
        let path = [self.root, b"/", &job.entry.path].concat();
        let outcome = volume.fs().and_then(|fs| {
            let place = find(fs, &mut self.dir, &path).map_err(|error| ImageError::Call {
                path: Shown::path(&job.entry.path),
                error,
                why: String::new(),
            })?;
            read_into(
                fs,
                place,
                &job.entry,
                self.how,
                (&mut self.losses, &mut self.buffer),
                job.fill,
            )
        });
        outcome.map_err(|error| volume.explain(error))
    }
}

/// Directory and name of a path; of the directory before, a reference is kept until another one is
/// asked for.
fn find<'a>(
    fs: &mut dyn FileSystem,
    kept: &mut Option<(Vec<u8>, Ino)>,
    path: &'a [u8],
) -> std::result::Result<(Ino, &'a [u8]), Errno> {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let (above, name) = path[..end].split_at(
        path[..end]
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1),
    );
    if let Some((_, dir)) = kept.take_if(|(kept, _)| kept != above) {
        fs.forget(dir, 1);
    }
    let dir = match kept {
        Some((_, dir)) => *dir,
        None => {
            kept.insert((above.to_vec(), path::resolve(fs, above)?.ino))
                .1
        }
    };
    Ok((dir, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Bytes;
    use crate::tree::Node;

    struct Nothing;

    impl Fill for Nothing {
        fn fill(self: Box<Self>, _: &Entry, _: &mut dyn Bytes) -> Result<Losses> {
            Ok(Losses::default())
        }
    }

    #[test]
    fn files_that_claim_more_than_64_bits_together_are_given_in_order() {
        // All three batches wait: nobody takes one before the end.
        let (jobs, waiting) = sync_channel(3);
        let mut queue = Queue {
            jobs,
            batch: Vec::new(),
            bytes: 0,
            given: 0,
            failed: Arc::default(),
            spare: Spare::default(),
        };
        for size in [1, u64::MAX, u64::MAX, 1] {
            let entry = Entry {
                node: Node::File { size },
                ..Entry::directory(b"file")
            };
            queue.give(entry, Box::new(Nothing), None).unwrap();
        }
        queue.end().unwrap();
        let numbers = |batch: Vec<Job>| batch.iter().map(|job| job.number).collect();
        let batches: Vec<Vec<usize>> = waiting.iter().map(numbers).collect();
        assert_eq!(batches, [vec![0, 1], vec![2], vec![3]]);
    }
}
