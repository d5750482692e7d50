//! Middleware that writes down every request a disk serves, as a trace that fio and nandlab replay.
//!
//! The format is fio's iolog version 3, text: a line `fio version 3 iolog`, then one line a
//! request,
//!
//! ```text
//! MICROSECONDS FILE add|open|close
//! MICROSECONDS FILE read|write|trim|sync OFFSET LENGTH
//! ```
//!
//! with times since the recording began and offsets and lengths in bytes. fio's manual leaves the
//! unit of time open; fio 3.33 writes and replays microseconds. A flush is a `sync` of offset and
//! length 0.
//!
//! Recorded are requests the device served, at the time they were issued. A trace that failed to be
//! written ends there; the requests go on, and [`Recording::finish`] tells.

use nandlab_block::{BlockDevice, BlockError, Hook, Hooked, Op, Request};
use nandlab_sim::Nanos;
use std::{
    fmt,
    io::{self, BufWriter, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A name that the format can carry, used where the trace needs none in particular.
pub const FILE: &str = "/dev/nandlab";

/// A recording that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The name would not be one word of a line.
    #[error("trace file name {0:?}: found white space or nothing, expected one word")]
    BadName(String),
    /// The trace could not be written; `lines` of it were.
    #[error("trace ends after {lines} lines: {source}")]
    Write {
        /// Lines handed to the writer, of which the last few may be missing.
        lines: u64,
        /// The first write that failed.
        source: io::Error,
    },
    /// [`Recording::finish`] had been called before.
    #[error("the recording is finished already")]
    Finished,
}

/// A disk whose requests are recorded. It offers no `remap`, because the format has no word for it
/// and a trace with a silent gap would lie.
pub type Recorder<D> = Hooked<D, Recording>;

/// The trace being written; outlives the device, which may vanish into an export. Shared by
/// cloning.
#[derive(Clone, Debug)]
pub struct Recording(Arc<Mutex<Option<Iolog>>>);

/// Records `device` to `writer` under the name `file`. `clock` gives the time of each request in
/// nanoseconds and decides what time means: the simulation's `Clock`, or the host's.
pub fn record<D: BlockDevice>(
    device: D,
    writer: impl Write + Send + 'static,
    file: &str,
    clock: impl FnMut() -> Nanos + Send + 'static,
) -> Result<(Recorder<D>, Recording), RecordError> {
    if file.is_empty() || file.contains(char::is_whitespace) {
        return Err(RecordError::BadName(file.into()));
    }
    let log = Iolog::begin(
        Box::new(writer),
        file,
        Box::new(clock),
        device.geometry().sector,
    );
    let recording = Recording(Arc::new(Mutex::new(Some(log))));
    Ok((Hooked::with(device, recording.clone()), recording))
}

impl Recording {
    /// Ends the trace and gives the number of its lines. Later requests are served but not
    /// recorded.
    pub fn finish(&self) -> Result<u64, RecordError> {
        self.log().take().ok_or(RecordError::Finished)?.end()
    }

    /// Returns the log; `None` once it is finished.
    fn log(&self) -> MutexGuard<'_, Option<Iolog>> {
        // A log that panicked half way holds a torn line at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Recording {
    fn before(&mut self, request: &Request) -> Result<(), BlockError> {
        if request.op == Op::Remap {
            return Err(BlockError::Unsupported);
        }
        if let Some(log) = self.log().as_mut() {
            log.issue();
        }
        Ok(())
    }

    fn after(
        &mut self,
        request: &Request,
        outcome: Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        if let (Ok(()), Some(log)) = (outcome, self.log().as_mut()) {
            log.request(request);
        }
        outcome
    }
}

/// The lines of a fio iolog.
struct Iolog {
    out: BufWriter<Box<dyn Write + Send>>,
    file: String,
    clock: Box<dyn FnMut() -> Nanos + Send>,
    started: Nanos,
    /// When the request in progress was issued.
    issued: Nanos,
    /// Bytes of a disk sector.
    sector: u64,
    lines: u64,
    failure: Option<io::Error>,
}

impl fmt::Debug for Iolog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iolog")
            .field("file", &self.file)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

impl Iolog {
    fn begin(
        writer: Box<dyn Write + Send>,
        file: &str,
        mut clock: Box<dyn FnMut() -> Nanos + Send>,
        sector: u32,
    ) -> Self {
        let out = BufWriter::with_capacity(64 << 10, writer);
        let started = clock();
        let mut log = Self {
            out,
            file: file.into(),
            clock,
            started,
            issued: 0,
            sector: sector.into(),
            lines: 0,
            failure: None,
        };
        log.line(format_args!("fio version 3 iolog"));
        for action in ["add", "open"] {
            log.line(format_args!("0 {file} {action}"));
        }
        log
    }

    fn issue(&mut self) {
        self.issued = (self.clock)().saturating_sub(self.started);
    }

    /// A request that was served, so it lies on the disk and its length in bytes is a number.
    fn request(&mut self, request: &Request) {
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
            Op::Remap => return,
        };
        let offset = request.lba.0 * self.sector;
        let bytes = request.sectors * self.sector;
        let at = self.issued / 1000;
        let file = std::mem::take(&mut self.file);
        self.line(format_args!("{at} {file} {action} {offset} {bytes}"));
        self.file = file;
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        if self.failure.is_some() {
            return;
        }
        match writeln!(self.out, "{line}") {
            Ok(()) => self.lines += 1,
            Err(error) => self.failure = Some(error),
        }
    }

    fn end(mut self) -> Result<u64, RecordError> {
        self.issue();
        let at = self.issued / 1000;
        let file = std::mem::take(&mut self.file);
        self.line(format_args!("{at} {file} close"));
        let flushed = self.out.flush();
        match self.failure.map_or(flushed, Err) {
            Ok(()) => Ok(self.lines),
            Err(source) => Err(RecordError::Write {
                lines: self.lines,
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::watched_ram;
    use nandlab_block::Lba;
    use nandlab_sim::Clock;

    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Vec<u8>>>);

    impl Write for Shelf {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(data)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_the_device_served_is_reported_in_bytes_and_microseconds() {
        let clock = Clock::new();
        let shelf = Shelf::default();
        clock.set(5_000_000);
        let (ram, probe) = watched_ram(512, 64);
        let time = clock.clone();
        let (mut disk, recording) = record(ram, shelf.clone(), FILE, move || time.now()).unwrap();
        disk.write(Lba(3), &[1; 1024]).unwrap();
        clock.spend(1_234_567);
        disk.read(Lba(4), &mut [0; 512]).unwrap();
        disk.flush().unwrap();
        disk.write(Lba(64), &[0; 512]).unwrap_err();
        disk.discard(Lba(8), 2).unwrap();
        assert_eq!(disk.remap(&[]), Err(BlockError::Unsupported));
        clock.spend(1_000);
        assert_eq!(recording.finish().unwrap(), 8);
        disk.flush().unwrap();
        assert!(matches!(recording.finish(), Err(RecordError::Finished)));
        assert_eq!(probe.flushes(), 2);
        let expected = "fio version 3 iolog\n0 /dev/nandlab add\n0 /dev/nandlab open\n0 /dev/nandlab write 1536 1024\n\
                        1234 /dev/nandlab read 2048 512\n1234 /dev/nandlab sync 0 0\n1234 /dev/nandlab trim 4096 1024\n\
                        1235 /dev/nandlab close\n";
        assert_eq!(
            String::from_utf8(shelf.0.lock().unwrap().clone()).unwrap(),
            expected
        );
    }

    #[test]
    fn a_full_disk_under_the_trace_is_reported_at_the_end_and_hurts_no_request() {
        let (mut disk, recording) = record(watched_ram(512, 64).0, Full, FILE, || 0).unwrap();
        for _ in 0..10_000 {
            disk.write(Lba(1), &[9; 512]).unwrap();
        }
        let error = recording.finish().unwrap_err();
        assert!(matches!(error, RecordError::Write { .. }), "{error}");
    }

    #[test]
    fn a_name_that_would_break_its_line_is_refused() {
        for name in ["", "two words", "two\nlines"] {
            let error = record(watched_ram(512, 1).0, Full, name, || 0).unwrap_err();
            assert!(matches!(error, RecordError::BadName(_)), "{error}");
        }
    }
}
