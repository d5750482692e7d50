//! A mounted file system, driven call by call.
//!
//! A file system borrows the stack below it, and some share parts of it within a thread. So each
//! has a thread of its own, which carries out calls and ends with the object.

use crate::chip::Chip;
use crate::failure::{InternalError, RunError, caught, guarded, raised};
use crate::ftl::off;
use crate::plugin::Description;
use crate::stack::Held;
use nandlab_sim::{Chain, Clock};
use nandlab_stack::build::Direct;
use nandlab_stack::{MountedStack, Stack};
use nandlab_vfs::{
    Attr, Caller, Errno, FileSystem as Calls, FileType, Ino, NewNode, Rename, SetAttr, Sync, Time,
    path,
};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// When a mount begins, in seconds since 1970. FAT knows no time before 1980.
const EPOCH_SECS: i64 = 1_000_000_000;
/// How long data stays dirty before Linux writes it back.
const EXPIRED_SECS: i64 = 30;
const SECOND: u64 = 1_000_000_000;
/// Bytes of a file that are read at once.
const PART: u64 = 1 << 20;

type Job = Box<dyn FnOnce(&mut MountedStack<'_>) + Send>;
type Answer<T> = Result<T, Errno>;

/// A file system on its stack, while the power is on.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct FileSystem {
    worker: Mutex<Option<Worker>>,
    clock: Clock,
}

struct Worker {
    jobs: Sender<Job>,
    thread: JoinHandle<Held>,
}

/// Mounts the file system, and carries out calls until there are no more senders.
fn serve(
    stack: &mut Stack,
    seed: u64,
    ready: &Sender<PyResult<()>>,
    jobs: Receiver<Job>,
) -> PyResult<()> {
    let mut mounted = caught(|| {
        let mounted = stack.mount(seed, &mut Direct);
        mounted.map_err(|error| raised(RunError::new_err, &error))
    })?;
    // The send fails if the caller has gone: there is no one to tell.
    _ = ready.send(Ok(()));
    jobs.into_iter().for_each(|job| job(&mut mounted));
    Ok(())
}

impl FileSystem {
    fn worker(&self) -> MutexGuard<'_, Option<Worker>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out `work` on the thread of the file system, and waits for its end.
    fn on_thread<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut MountedStack<'_>) -> PyResult<T> + Send + 'static,
    ) -> PyResult<T> {
        guarded(py, || {
            let (answer, answered) = channel();
            let job: Job = Box::new(move |mounted| {
                // The send fails if the caller has gone: there is no one to tell.
                _ = answer.send(caught(|| work(mounted)));
            });
            let jobs = self.worker().as_ref().map(|worker| worker.jobs.clone());
            let lost = || InternalError::new_err("the thread of the file system has ended");
            jobs.ok_or_else(off)?.send(job).map_err(|_| lost())?;
            answered.recv().map_err(|_| lost())?
        })
    }

    /// Makes a call on the file system. What is due happens first.
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        path: &[u8],
        work: impl FnOnce(&mut dyn Calls, Time) -> Answer<T> + Send + 'static,
    ) -> PyResult<T> {
        let now = self.now();
        let path = path.to_vec();
        self.on_thread(py, move |mounted| {
            let fs = &mut *mounted.mounted.fs;
            let done = fs.work(now).and_then(|()| work(fs, now));
            done.map_err(|error| refused(fs, error, &path))
        })
    }

    fn now(&self) -> Time {
        let now = self.clock.now();
        Time {
            secs: EPOCH_SECS + (now / SECOND) as i64,
            nanos: (now % SECOND) as u32,
        }
    }
}

/// The exception that Python's own files would raise, with the causes.
fn refused(fs: &mut dyn Calls, error: Errno, path: &[u8]) -> PyErr {
    let cause = fs.cause().map(|cause| Chain(&cause).to_string());
    let text = cause.unwrap_or_else(|| error.to_string());
    let path = String::from_utf8_lossy(path).into_owned();
    PyOSError::new_err((error.code(), text, path))
}

/// What `stat` tells: kind, mode, owner, group, bytes, and when the contents changed in ns.
type Stat = (&'static str, u16, u32, u32, u64, i128);

fn told(attr: &Attr) -> Stat {
    let kind = match attr.kind {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::Character => "character",
        FileType::Block => "block",
    };
    let changed = i128::from(attr.mtime.secs) * 1_000_000_000 + i128::from(attr.mtime.nanos);
    (kind, attr.mode, attr.uid, attr.gid, attr.size, changed)
}

/// Calls on the inode that a path leads to.
fn on<T>(
    fs: &mut dyn Calls,
    path: &[u8],
    work: impl FnOnce(&mut dyn Calls, Attr) -> Answer<T>,
) -> Answer<T> {
    let attr = path::resolve(fs, path)?;
    let done = work(fs, attr);
    fs.forget(attr.ino, 1);
    done
}

/// Calls on the directory of a path, with the last name.
fn within<T>(
    fs: &mut dyn Calls,
    path: &[u8],
    work: impl FnOnce(&mut dyn Calls, Ino, &[u8]) -> Answer<T>,
) -> Answer<T> {
    let (dir, name) = path::parent(fs, path)?;
    let done = work(fs, dir, name);
    fs.forget(dir, 1);
    done
}

fn make(fs: &mut dyn Calls, path: &[u8], node: NewNode<'_>, mode: u16, now: Time) -> Answer<()> {
    within(fs, path, |fs, dir, name| {
        let made = fs.create(dir, name, node, mode, Caller::root(now))?;
        fs.forget(made.ino, 1);
        Ok(())
    })
}

fn written(fs: &mut dyn Calls, path: &[u8], offset: u64, data: &[u8], now: Time) -> Answer<()> {
    match make(fs, path, NewNode::File, 0o644, now) {
        Ok(()) | Err(Errno::Exists) => {}
        Err(error) => return Err(error),
    }
    on(fs, path, |fs, file| {
        let count = fs.write(file.ino, offset, data, now)?;
        if count < data.len() {
            return Err(Errno::NoSpace);
        }
        Ok(())
    })
}

fn contents(fs: &mut dyn Calls, path: &[u8], offset: u64, most: Option<u64>) -> Answer<Vec<u8>> {
    on(fs, path, |fs, file| {
        match file.kind {
            FileType::File => {}
            FileType::Directory => return Err(Errno::IsDirectory),
            _ => return Err(Errno::Invalid),
        }
        let end = file
            .size
            .min(offset.saturating_add(most.unwrap_or(u64::MAX)));
        let mut data = Vec::new();
        let mut at = offset;
        while at < end {
            let wanted = (end - at).min(PART) as usize;
            let mut part = vec![0; wanted];
            let count = fs.read(file.ino, at, &mut part)?;
            if count == 0 {
                break;
            }
            data.extend_from_slice(&part[..count]);
            at += count as u64;
        }
        Ok(data)
    })
}

#[pymethods]
impl FileSystem {
    #[new]
    fn new(
        py: Python<'_>,
        description: Description,
        chip: Option<&Chip>,
        log: bool,
    ) -> PyResult<Self> {
        let chip = chip.map(Chip::copied).transpose()?;
        guarded(py, || {
            let mut held = Held::new(description, chip, log, Stack::make_fs)?;
            let clock = held.stack.clock.clone();
            let (ready, is_ready) = channel();
            let (jobs, queue) = channel();
            let thread = thread::spawn(move || {
                if let Err(error) = serve(&mut held.stack, held.seed, &ready, queue) {
                    // The send fails if the caller has gone: there is no one to tell.
                    _ = ready.send(Err(error));
                }
                held
            });
            let lost = |_| InternalError::new_err("the mount has ended without an answer");
            is_ready.recv().map_err(lost)??;
            Ok(Self {
                worker: Mutex::new(Some(Worker { jobs, thread })),
                clock,
            })
        })
    }

    fn write(&self, py: Python<'_>, path: Vec<u8>, data: Vec<u8>, offset: u64) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            written(fs, &path, offset, &data, now)
        })
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        path: Vec<u8>,
        offset: u64,
        size: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.call(py, &path.clone(), move |fs, _| {
            contents(fs, &path, offset, size)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    fn truncate(&self, py: Python<'_>, path: Vec<u8>, size: u64) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            let change = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            on(fs, &path, |fs, file| {
                fs.setattr(file.ino, &change, now).map(drop)
            })
        })
    }

    fn mkdir(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            make(fs, &path, NewNode::Directory, 0o755, now)
        })
    }

    fn symlink(&self, py: Python<'_>, target: Vec<u8>, path: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            make(fs, &path, NewNode::Symlink { target: &target }, 0o777, now)
        })
    }

    fn readlink<'py>(&self, py: Python<'py>, path: Vec<u8>) -> PyResult<Bound<'py, PyBytes>> {
        let target = self.call(py, &path.clone(), move |fs, _| {
            on(fs, &path, |fs, link| fs.readlink(link.ino))
        })?;
        Ok(PyBytes::new(py, &target))
    }

    fn link(&self, py: Python<'_>, path: Vec<u8>, to: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            on(fs, &path, |fs, file| {
                within(fs, &to, |fs, dir, name| {
                    fs.link(file.ino, dir, name, now)?;
                    fs.forget(file.ino, 1);
                    Ok(())
                })
            })
        })
    }

    fn rename(&self, py: Python<'_>, path: Vec<u8>, to: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            within(fs, &path, |fs, old, old_name| {
                within(fs, &to, |fs, new, name| {
                    fs.rename((old, old_name), (new, name), Rename::Replace, now)
                })
            })
        })
    }

    fn unlink(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            within(fs, &path, |fs, dir, name| fs.unlink(dir, name, now))
        })
    }

    fn rmdir(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, now| {
            within(fs, &path, |fs, dir, name| fs.rmdir(dir, name, now))
        })
    }

    fn list<'py>(&self, py: Python<'py>, path: Vec<u8>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names = self.call(py, &path.clone(), move |fs, _| {
            let mut names = Vec::new();
            on(fs, &path, |fs, dir| {
                fs.readdir(dir.ino, 0, &mut |entry| {
                    names.push(entry.name.to_vec());
                    true
                })
            })?;
            names.sort_unstable();
            Ok(names)
        })?;
        Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
    }

    fn stat(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<Stat> {
        self.call(py, &path.clone(), move |fs, _| {
            on(fs, &path, |_, attr| Ok(told(&attr)))
        })
    }

    fn fsync(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.call(py, &path.clone(), move |fs, _| {
            on(fs, &path, |fs, file| fs.fsync(file.ino, Sync::All))
        })
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, b"/", |fs, _| fs.sync())
    }

    /// Bytes in all, and free bytes.
    fn space(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        self.call(py, b"/", |fs, _| {
            let sizes = fs.statfs()?;
            let block = u64::from(sizes.block_bytes);
            let all = sizes.blocks * block;
            let free = sizes.free * block;
            Ok(BTreeMap::from([("bytes", all), ("free", free)]))
        })
    }

    /// Lets time pass, with the work that falls due.
    fn wait(&self, py: Python<'_>, ns: u64) -> PyResult<()> {
        let at = self.clock.now().saturating_add(ns);
        self.clock.wait_until(at);
        self.call(py, b"/", |fs, now| {
            let expired = Time {
                secs: now.secs - EXPIRED_SECS,
                ..now
            };
            fs.write_back(0, expired).map(drop)
        })
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.clock.now()
    }

    /// Unmounts, and completes the work of the layer below. Calls fail from here on.
    fn unmount(&self, py: Python<'_>) -> PyResult<()> {
        self.on_thread(py, |mounted| {
            let fs = &mut *mounted.mounted.fs;
            fs.unmount().map_err(|error| refused(fs, error, b"/"))?;
            (mounted.finish)().map_err(|error| raised(RunError::new_err, &error))
        })
    }

    /// Ends the file system without another operation, and gives the chip with its log.
    fn power_off(&self, py: Python<'_>) -> PyResult<Chip> {
        guarded(py, || {
            let Worker { jobs, thread } = self.worker().take().ok_or_else(off)?;
            // The thread ends with the last sender.
            drop(jobs);
            let lost = |_| InternalError::new_err("the thread of the file system has panicked");
            thread.join().map(Held::into_chip).map_err(lost)
        })
    }
}
