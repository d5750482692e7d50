//! Work on several threads whose results come in the order of the jobs.
//!
//! *Promises.* At most `window` jobs are under way or done and not taken: memory is theirs alone.
//! The number of threads changes nothing but the time. When a result is refused, no more jobs
//! begin. A panic on any thread ends the work; nobody waits for it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

struct State<I, R> {
    jobs: I,
    /// Jobs given out, and results taken.
    begun: usize,
    taken: usize,
    done: BTreeMap<usize, R>,
    /// No more jobs, or nobody wants any.
    ended: bool,
    /// A worker panicked: its result never comes.
    panicked: bool,
}

/// Ends the work when a thread leaves it, by a panic too.
struct Leave<'a, I, R> {
    state: &'a Mutex<State<I, R>>,
    wake: [&'a Condvar; 2],
}

impl<I, R> Drop for Leave<'_, I, R> {
    fn drop(&mut self) {
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        held.ended = true;
        held.panicked |= thread::panicking();
        self.wake.iter().for_each(|waiting| waiting.notify_all());
    }
}

/// Gives each result of `work` to `take`, in the order of `jobs`, until that fails.
pub fn in_order<I, S, R, E>(
    threads: usize,
    window: usize,
    jobs: I,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I::Item) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    I: Iterator + Send,
    R: Send,
{
    let state = Mutex::new(State {
        jobs,
        begun: 0,
        taken: 0,
        done: BTreeMap::new(),
        ended: false,
        panicked: false,
    });
    let may_begin = Condvar::new();
    let ready = Condvar::new();
    let leave = || Leave {
        state: &state,
        wake: [&may_begin, &ready],
    };
    let run = || {
        let _leave = leave();
        let mut own = start();
        loop {
            let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
            while !held.ended && held.begun >= held.taken + window {
                held = may_begin.wait(held).unwrap_or_else(PoisonError::into_inner);
            }
            let job = if held.ended { None } else { held.jobs.next() };
            let Some(job) = job else {
                return;
            };
            let number = held.begun;
            held.begun += 1;
            drop(held);
            let result = work(&mut own, job);
            state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .done
                .insert(number, result);
            ready.notify_all();
        }
    };
    thread::scope(|scope| {
        let _leave = leave();
        (0..threads.max(1)).for_each(|_| _ = scope.spawn(run));
        loop {
            let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
            let next = held.taken;
            let result = loop {
                match held.done.remove(&next) {
                    Some(result) => break result,
                    None if held.panicked => {
                        drop(held);
                        panic!("a worker panicked")
                    }
                    None if held.ended && held.begun == next => return Ok(()),
                    None => held = ready.wait(held).unwrap_or_else(PoisonError::into_inner),
                }
            };
            held.taken += 1;
            let is_half = held.begun - held.taken == window / 2;
            drop(held);
            // Waking a thread for each job costs more than letting it wait for many.
            if is_half {
                may_begin.notify_all();
            }
            take(result)?;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_no_more_than_the_window_wait() {
        let begun = AtomicUsize::new(0);
        let taken = AtomicUsize::new(0);
        let mut results = Vec::new();
        let work = |(): &mut (), job: u64| {
            let ahead = begun.fetch_add(1, Ordering::SeqCst) + 1
                - taken
                    .load(Ordering::SeqCst)
                    .min(begun.load(Ordering::SeqCst));
            assert!(ahead <= 8 + 4, "{ahead}");
            std::thread::sleep(std::time::Duration::from_micros(job % 7 * 50));
            job
        };
        let outcome: Result<(), ()> = in_order(
            4,
            8,
            0..500,
            || (),
            work,
            |result| {
                taken.fetch_add(1, Ordering::SeqCst);
                results.push(result);
                Ok(())
            },
        );
        assert_eq!((outcome, results), (Ok(()), (0..500).collect::<Vec<_>>()));
    }

    #[test]
    fn a_refused_result_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let work = |(): &mut (), job: usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            job
        };
        let outcome = in_order(
            3,
            5,
            0..,
            || (),
            work,
            |result| if result == 20 { Err(result) } else { Ok(()) },
        );
        assert_eq!(outcome, Err(20));
        assert!(begun.load(Ordering::SeqCst) <= 21 + 5 + 3);
    }

    #[test]
    fn a_panic_of_a_worker_or_of_the_taker_ends_the_work() {
        for worker in [true, false] {
            let (sender, outcome) = std::sync::mpsc::channel();
            thread::spawn(move || {
                let work = |(): &mut (), job: usize| {
                    assert!(!worker || job != 20, "seeded");
                    job
                };
                let take = |result| {
                    assert!(worker || result != 20, "seeded");
                    Ok::<(), ()>(())
                };
                let run = || in_order(3, 5, 0.., || (), work, take);
                sender.send(std::panic::catch_unwind(run).is_err())
            });
            let outcome = outcome.recv_timeout(std::time::Duration::from_secs(60));
            assert_eq!(outcome, Ok(true));
        }
    }
}
