//! A guest at work: what it has said so far, and its end.

use crate::error::At;
use crate::machine::Files;
use crate::manifest;
use crate::report::tail;
use crate::wire::{Blob, Frame, Frames, WireError};
use crate::{OracleError, Report};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The most that the data channel carries in one boot.
const DATA_BYTES_MAX: u64 = 1 << 30;
/// The most that is kept of a console.
const CONSOLE_BYTES_MAX: u64 = 16 << 20;
/// How often the end of a QEMU that has closed its channel is looked for.
const POLL: Duration = Duration::from_millis(2);
/// The exit status of a script that was killed, as a shell has it.
const KILLED: i32 = 137;

/// A guest at work. Dropping it kills the guest.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
    heard: BTreeMap<String, usize>,
    started: Instant,
    timeout: Duration,
    files: Files,
    // Last, so that the files live as long as QEMU.
    _scratch: TempDir,
}

/// What the worker thread and the test share.
#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

/// What has come from the guest.
#[derive(Debug, Default)]
struct Inbox {
    child: Option<Child>,
    values: BTreeMap<String, Vec<String>>,
    files: BTreeMap<String, Vec<u8>>,
    trees: BTreeMap<String, Vec<u8>>,
    exit: Option<i32>,
    broken: Option<WireError>,
    ended: Option<ExitStatus>,
    killed: bool,
}

impl Running {
    /// Starts QEMU on a thread of its own, which lives as long as QEMU: its death is QEMU's.
    pub(crate) fn start(
        mut command: Command,
        scratch: TempDir,
        files: Files,
        timeout: Duration,
    ) -> Result<Self, OracleError> {
        let complaints = File::create(&files.complaints).at(&files.complaints)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(complaints);
        let program = command.get_program().to_os_string();
        let shared = Arc::new(Shared::default());
        let (tell, reported) = mpsc::channel();
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let outcome = command.spawn().map(|mut child| {
                    let output = child.stdout.take();
                    shared.lock().child = Some(child);
                    output
                });
                let failed = outcome
                    .as_ref()
                    .err()
                    .map(|e| std::io::Error::new(e.kind(), e.to_string()));
                // The receiver is there until it has heard this.
                _ = tell.send(failed);
                if let Ok(Some(output)) = outcome {
                    shared.listen(output);
                    shared.await_end();
                }
            })
        };
        let started = Instant::now();
        match reported.recv() {
            Ok(None) => {}
            Ok(Some(source)) => {
                return Err(OracleError::Io {
                    path: program.into(),
                    source,
                });
            }
            Err(_) => {
                return Err(OracleError::Io {
                    path: program.into(),
                    source: std::io::Error::other("starting thread died"),
                });
            }
        }
        Ok(Self {
            shared,
            worker: Some(worker),
            heard: BTreeMap::new(),
            started,
            timeout,
            files,
            _scratch: scratch,
        })
    }

    /// The next value said under `key` that no earlier call has returned; waits for it at most
    /// `timeout`.
    ///
    /// Fails, with the guest still running, when none comes in time; when the guest ends first; and
    /// when its own time is over, which ends it.
    pub fn wait_for(&mut self, key: &str, timeout: Duration) -> Result<String, OracleError> {
        let heard = self.heard.entry(key.into()).or_default();
        let next = |inbox: &Inbox| {
            inbox
                .values
                .get(key)
                .and_then(|values| values.get(*heard))
                .cloned()
        };
        let patience = Instant::now() + timeout;
        let end = self.started + self.timeout;
        let inbox = self.shared.wait_until(patience.min(end), |inbox| {
            next(inbox).is_some() || inbox.ended.is_some()
        });
        let value = next(&inbox);
        let ended = inbox.ended;
        drop(inbox);
        match (value, ended) {
            (Some(value), _) => {
                *heard += 1;
                Ok(value)
            }
            (None, Some(status)) => Err(self.ended(status)?),
            (None, None) if end <= patience => {
                self.shared.kill();
                Err(self.overdue()?)
            }
            (None, None) => Err(OracleError::Silent {
                key: key.into(),
                after: timeout,
                console: tail(&self.console()?),
            }),
        }
    }

    /// Kills QEMU: to the guest, the end of the world between two instructions.
    /// [`wait`](Self::wait) then reports what was said until now.
    pub fn kill(&mut self) {
        self.shared.kill();
    }

    /// Waits for the guest's end and reports.
    ///
    /// Fails when the guest takes longer than its timeout (then it is killed), ends without its
    /// script having ended, or sends nonsense.
    pub fn wait(mut self) -> Result<Report, OracleError> {
        let deadline = self.started + self.timeout;
        let ended = self
            .shared
            .wait_until(deadline, |inbox| inbox.ended.is_some())
            .ended;
        if ended.is_none() {
            self.shared.kill();
        }
        self.join();
        let wall = self.started.elapsed();
        let console = self.console()?;
        let inbox = std::mem::take(&mut *self.shared.lock());
        let Some(status) = ended else {
            return Err(self.overdue()?);
        };
        let qemu_killed = inbox.killed && status.signal().is_some();
        if let Some(broken) = inbox.broken {
            return Err(broken.into());
        }
        if inbox.exit.is_none() && !qemu_killed {
            return Err(self.ended(status)?);
        }
        let manifests = manifests(inbox.trees)?;
        let exit = inbox.exit.unwrap_or(KILLED);
        Ok(Report {
            console,
            values: inbox.values,
            files: inbox.files,
            manifests,
            exit,
            wall,
            qemu_killed,
        })
    }

    fn join(&mut self) {
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has left its inbox as it was.
            _ = worker.join();
        }
    }

    fn console(&self) -> Result<String, OracleError> {
        read(&self.files.console)
    }

    fn overdue(&self) -> Result<OracleError, OracleError> {
        Ok(OracleError::Timeout {
            after: self.timeout,
            console: tail(&self.console()?),
        })
    }

    fn ended(&self, status: ExitStatus) -> Result<OracleError, OracleError> {
        let stderr = read(&self.files.complaints)?;
        let console = tail(&self.console()?);
        Ok(OracleError::Ended {
            status: status.to_string(),
            stderr,
            console,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.kill();
        self.join();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(
        &self,
        deadline: Instant,
        done: impl Fn(&Inbox) -> bool,
    ) -> MutexGuard<'_, Inbox> {
        let mut inbox = self.lock();
        while !done(&inbox) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inbox = self
                .news
                .wait_timeout(inbox, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        inbox
    }

    fn kill(&self) {
        let mut inbox = self.lock();
        inbox.killed = true;
        if let Some(child) = &mut inbox.child {
            // Fails only when it has ended already, which is as good.
            _ = child.kill();
        }
    }

    /// Takes frames in until the channel closes. A guest that sends nonsense is killed: nothing it
    /// says afterwards would count.
    fn listen(&self, output: ChildStdout) {
        let mut frames = Frames::new(BufReader::with_capacity(64 << 10, output), DATA_BYTES_MAX);
        loop {
            match frames.read() {
                Ok(Some(frame)) => self.lock().take_in(frame),
                Ok(None) => return,
                // A guest that is gone may have gone in the middle of a frame.
                Err(WireError::Truncated { .. }) => return,
                Err(broken) => {
                    self.lock().broken = Some(broken);
                    return self.kill();
                }
            }
            self.news.notify_all();
        }
    }

    /// Sees QEMU's end, without holding the lock while waiting, so that it can be killed meanwhile.
    fn await_end(&self) {
        loop {
            let mut inbox = self.lock();
            let Some(child) = &mut inbox.child else {
                return;
            };
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    inbox.ended = Some(status);
                    return self.news.notify_all();
                }
                // The status is lost: somebody else has waited for our child. It has ended all the
                // same.
                Err(_) => {
                    inbox.ended = Some(ExitStatus::default());
                    return self.news.notify_all();
                }
            }
            drop(inbox);
            thread::sleep(POLL);
        }
    }
}

impl Inbox {
    fn take_in(&mut self, frame: Frame) {
        match frame {
            Frame::Say { key, value } => self.values.entry(key).or_default().push(value),
            Frame::Exit(status) => self.exit = Some(status),
            Frame::Blob {
                kind: Blob::File,
                key,
                bytes,
            } => _ = self.files.insert(key, bytes),
            Frame::Blob {
                kind: Blob::Tree,
                key,
                bytes,
            } => _ = self.trees.insert(key, bytes),
        }
    }
}

/// The trees that the guest listed.
fn manifests(
    trees: BTreeMap<String, Vec<u8>>,
) -> Result<BTreeMap<String, crate::Manifest>, OracleError> {
    trees
        .into_iter()
        .map(|(key, tree)| match manifest::parse(&tree) {
            Ok(manifest) => Ok((key, manifest)),
            Err(source) => Err(OracleError::Manifest { key, source }),
        })
        .collect()
}

/// A text file that QEMU wrote; empty if QEMU did not get so far.
fn read(path: &Path) -> Result<String, OracleError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.at(path)?,
    };
    let mut bytes = Vec::new();
    file.take(CONSOLE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .at(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
