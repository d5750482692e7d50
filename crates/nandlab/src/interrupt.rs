//! Signals that end a command: its scratch files go first.

use nix::sys::signal::{SigSet, Signal, raise};
use std::thread;

/// Signals that end a command.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Removes the scratch files when a signal ends the command, which then ends by that signal. To be
/// called before there are other threads: these inherit that the signals are blocked.
pub fn remove_scratch_files() {
    let ignored = ignored();
    let mut signals = SigSet::empty();
    let heard = ENDING
        .into_iter()
        .filter(|signal| ignored & (1 << (*signal as i32 - 1)) == 0);
    signals.extend(heard);
    if signals.thread_block().is_err() {
        return;
    }
    thread::spawn(move || {
        let Ok(signal) = signals.wait() else {
            return;
        };
        nandlab_scratch::remove_all();
        // Of this thread only; the signal's own action ends the whole process.
        _ = signals.thread_unblock();
        _ = raise(signal);
        std::process::exit(128 + signal as i32)
    });
}

/// Signals that the parent wants ignored, as nohup does, a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}
