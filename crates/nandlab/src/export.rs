//! `nandlab export`: a stack as a disk for real programs and kernels, until it is interrupted.
//!
//! The device's own time is virtual and is not waited for: the disk answers as fast as this machine
//! simulates it.

pub mod error;
mod served;

use crate::failure::{Failure, Status};
use crate::output::{Target, note, print, print_table, writable};
use nandlab_image::lock::Lock;

pub use error::ExportError;
use nandlab_host::disk::{self, DiskFile};
use nandlab_host::nbd::{self, Address, Server};
use nandlab_host::record::{self, Recording};
use nandlab_host::{SharedDisk, release};
use nandlab_lab::Experiment;
use nandlab_nand::Contents;
use nandlab_stack::{Description, DescriptionError, Document, Stack};
use served::Served;
pub use served::{by_cause, causes};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Between two lines of `--stats`.
const STATS_INTERVAL: Duration = Duration::from_secs(1);

/// Serve a stack as a block device until Ctrl-C, then tell what the flash did
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A description that says chip.save keeps what was written; chip.load brings it back."
)]
pub struct Args {
    /// A description of a stack, in TOML; what it says of a workload is left aside
    #[arg(value_name = "STACK.toml")]
    stack: PathBuf,
    #[command(flatten)]
    place: Place,
    /// End when the last client has left
    #[arg(long, requires = "nbd")]
    once: bool,
    /// Write every request down as an fio iolog, at the wall time of its arrival
    #[arg(long, value_name = "TRACE.iolog")]
    record: Option<PathBuf>,
    /// Tell on standard error, once a second, what has been served
    #[arg(long)]
    stats: bool,
    /// Override a setting of the description, e.g. chip.size="256 MiB"
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

/// Where clients find the disk.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// Speak NBD on unix:/PATH or HOST:PORT; there is no authentication, so let HOST be the
    /// loopback's
    #[arg(long, value_name = "ADDRESS")]
    nbd: Option<String>,
    /// Mount a directory with the disk as the file disk.img, for losetup
    #[arg(long, value_name = "DIR")]
    file: Option<PathBuf>,
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let document = Document::read(&self.stack, &self.set)?;
        let trace = match &self.record {
            Some(path) => Some(Target::file(path, &document.files())?),
            None => None,
        };
        let description = describe(document)?;
        if description.chip.spec.contents == Contents::Dropped {
            return Err(ExportError::NoContents {
                file: self.stack.display().to_string(),
            }
            .into());
        }
        let _lock = lock_saved(&description)?;
        let stack = Stack::build(&description).map_err(ExportError::from)?;
        let served = Served::new(stack).map_err(ExportError::from)?;
        let recording = self.serve(&served, trace.as_ref())?;
        print_table(&served.summary())?;
        if let (Some(path), Some(trace), Some(recording)) = (&self.record, trace, recording) {
            let lines = recording.finish().map_err(|error| ExportError::Record {
                path: path.clone(),
                error,
            })?;
            trace.keep()?;
            print(&format!("{lines} lines in {}\n", path.display()))?;
        }
        served.into_stack()?.close().map_err(ExportError::from)?;
        Ok(Status::Done)
    }

    /// Serves the disk to its end; it is flushed on return.
    fn serve(&self, served: &Served, trace: Option<&Target>) -> Result<Option<Recording>, Failure> {
        let (shared, recording) = self.share(served, trace)?;
        let _stats = self.stats.then(|| StatsLine::start(served.clone()));
        match &self.place {
            Place {
                nbd: Some(address), ..
            } => self.serve_nbd(shared, address)?,
            Place {
                file: Some(dir), ..
            } => serve_file(shared, dir, served.clone())?,
            Place {
                nbd: None,
                file: None,
            } => {}
        }
        Ok(recording)
    }

    /// The disk as servers take it, recorded if asked for.
    fn share(
        &self,
        served: &Served,
        trace: Option<&Target>,
    ) -> Result<(SharedDisk, Option<Recording>), Failure> {
        let (Some(path), Some(trace)) = (&self.record, trace) else {
            return Ok((SharedDisk::new(Box::new(served.clone())), None));
        };
        let failed = |error| ExportError::Record {
            path: path.clone(),
            error,
        };
        let file = trace.file_to_fill()?;
        let start = Instant::now();
        let clock = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (recorder, recording) =
            record::record(served.clone(), file, record::FILE, clock).map_err(failed)?;
        Ok((SharedDisk::new(Box::new(recorder)), Some(recording)))
    }

    fn serve_nbd(&self, shared: SharedDisk, address: &str) -> Result<(), Failure> {
        let dropped: nbd::Dropped = Arc::new(|why| note(format_args!("dropped a client: {why}")));
        let options = nbd::Options {
            stop_after_last: self.once,
            dropped: Some(dropped),
            ..nbd::Options::default()
        };
        let name = options.name.clone();
        let size = size(&shared);
        let server = Server::start(
            shared,
            &address.parse::<Address>().map_err(ExportError::from)?,
            options,
        )
        .map_err(ExportError::from)?;
        let stopper = server.stopper();
        ctrlc::set_handler(move || stopper.stop()).map_err(ExportError::from)?;
        let uri = uri(server.address(), &name);
        let end = self.end();
        print(&format!("{uri}\n{size}, until {end}\n"))?;
        Ok(server.wait().map_err(ExportError::from)?)
    }

    fn end(&self) -> &'static str {
        match self.once {
            true => "the last client leaves, or Ctrl-C",
            false => "Ctrl-C",
        }
    }
}

fn uri(address: &Address, name: &str) -> String {
    match address {
        Address::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
        Address::Tcp(socket) => format!("nbd://{socket}/{name}"),
    }
}

/// The stack that a document describes, without a file system: the user of the disk makes one.
fn describe(document: Document) -> Result<Description, DescriptionError> {
    let fs = document.refuse(
        "fs.type",
        "a file system",
        "none, since the user of the exported disk makes one",
    );
    let (description, _) = Experiment::take_stack(document)?;
    if description.fs.is_some() {
        Err(fs)
    } else {
        Ok(description)
    }
}

fn serve_file(shared: SharedDisk, dir: &Path, served: Served) -> Result<(), Failure> {
    let options = disk::Options {
        stats: Some(Box::new(move || served.json())),
        ..disk::Options::default()
    };
    let mut mounted = DiskFile::mount(shared.clone(), dir, options).map_err(ExportError::from)?;
    let at = dir.to_path_buf();
    ctrlc::set_handler(move || let_go(&at)).map_err(ExportError::from)?;
    let image = mounted.path();
    print(&format!(
        "{0}\n{1}, until Ctrl-C; losetup --find --show --direct-io=on {0}\n",
        image.display(),
        size(&shared)
    ))?;
    mounted.wait().map_err(ExportError::from)?;
    Ok(shared
        .with(|disk| disk.flush())
        .map_err(ExportError::from)?)
}

/// Unmounts, which ends the serving; says so where the mount is in use, and the serving goes on.
pub fn let_go(dir: &Path) {
    if let Err(error) = release(dir) {
        note(format_args!(
            "{error}; detach what uses it, then interrupt again"
        ));
    }
}

fn size(disk: &SharedDisk) -> String {
    format!(
        "{} bytes in sectors of {}",
        disk.bytes(),
        disk.geometry().sector
    )
}

/// Tells how it goes, until dropped.
struct StatsLine {
    /// Closing it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl StatsLine {
    fn start(served: Served) -> Self {
        let (stop, stopped) = mpsc::channel();
        let tell = move || {
            while stopped.recv_timeout(STATS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{}", served.line());
            }
        };
        Self {
            stop: Some(stop),
            thread: Some(thread::spawn(tell)),
        }
    }
}

impl Drop for StatsLine {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to tell.
            _ = thread.join();
        }
    }
}

/// Locks the dump that a stack will replace when it ends, if there is one already. A dump that
/// could not be written is refused.
pub fn lock_saved(description: &Description) -> Result<Option<Lock>, Failure> {
    let Some(path) = &description.chip.save else {
        return Ok(None);
    };
    writable(path)?;
    let lock = path
        .is_file()
        .then(|| Lock::exclusive(path, Duration::ZERO));
    Ok(lock.transpose()?)
}
