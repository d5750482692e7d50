//! Listening, one thread a client, stopping.
//!
//! The accepting thread owns the socket file and the connections: when it ends, by [`Server::stop`]
//! or with the last client, every client has been closed, every thread has ended, the file is gone
//! and the device is flushed.

use super::{
    Address, ClientError, Export, handshake,
    socket::{Listener, Stream},
    transmission, wire,
};
use crate::{HostError, SharedDisk};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How long a client may be silent during the handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after the host refused a connection for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a connection's read buffer: a few small writes.
const READ_BUFFER: usize = 32 << 10;

/// Hears why a client was dropped.
pub type Dropped = Arc<dyn Fn(&ClientError) + Send + Sync>;

/// How a disk is exported.
#[derive(Clone)]
pub struct Options {
    /// The export's name; a client that names none gets it too.
    pub name: String,
    /// Refuses every write of a client.
    pub read_only: bool,
    /// Clients served at once; more are turned away.
    pub clients_max: usize,
    /// Ends the server when the last client that came to send requests has left.
    pub stop_after_last: bool,
    /// Called on the client's thread with the reason why a client was dropped.
    pub dropped: Option<Dropped>,
}

impl Default for Options {
    /// Named "nandlab", writable, 64 clients, until stopped, silent.
    fn default() -> Self {
        Self {
            name: "nandlab".into(),
            read_only: false,
            clients_max: 64,
            stop_after_last: false,
            dropped: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: Address,
    stopper: Stopper,
    acceptor: Option<JoinHandle<Result<(), HostError>>>,
}

/// Stops a server from any thread, a signal's included. Shared by cloning.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Signal>);

#[derive(Debug)]
struct Signal {
    stopped: AtomicBool,
    wake: UnixStream,
}

impl Stopper {
    /// Asks the server to end; returns at once.
    pub fn stop(&self) {
        self.0.stopped.store(true, SeqCst);
        // Can fail only if the server has ended, or has been woken so often that the socket is
        // full.
        let _ = (&self.0.wake).write(&[1]);
    }

    fn is_stopped(&self) -> bool {
        self.0.stopped.load(SeqCst)
    }
}

impl Server {
    /// Listens on `address` and serves `disk` from threads of its own. The socket file of a server
    /// that died is replaced.
    pub fn start(disk: SharedDisk, address: &Address, options: Options) -> Result<Self, HostError> {
        let failed = |source| HostError::Listen {
            address: address.to_string(),
            source,
        };
        let (woken, wake) = UnixStream::pair().map_err(failed)?;
        wake.set_nonblocking(true).map_err(failed)?;
        let (listener, address) = Listener::bind(address).map_err(failed)?;
        let stopper = Stopper(Arc::new(Signal {
            stopped: AtomicBool::new(false),
            wake,
        }));
        let house = House {
            export: Export {
                name: options.name.clone(),
                bytes: disk.bytes(),
                preferred_block: disk
                    .geometry()
                    .page
                    .clamp(4096, wire::PAYLOAD_MAX)
                    .next_power_of_two(),
                read_only: options.read_only,
            },
            disk,
            options,
            stopper: stopper.clone(),
            clients: Mutex::default(),
            served: AtomicBool::new(false),
        };
        let file = SocketFile(address.clone());
        let acceptor = thread::spawn(move || {
            house.serve(&listener, &woken);
            drop(file);
            if house.options.read_only {
                Ok(())
            } else {
                house
                    .disk
                    .with(|disk| disk.flush())
                    .map_err(HostError::Flush)
            }
        });
        Ok(Self {
            address,
            stopper,
            acceptor: Some(acceptor),
        })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A handle that stops it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until it is stopped, or until the last client has left if [`Options::stop_after_last`]
    /// says so.
    pub fn wait(mut self) -> Result<(), HostError> {
        self.join()
    }

    /// Drops every client, ends every thread, flushes the device. A request in progress is
    /// completed, its reply may be lost.
    pub fn stop(mut self) -> Result<(), HostError> {
        self.stopper.stop();
        self.join()
    }

    fn join(&mut self) -> Result<(), HostError> {
        match self.acceptor.take() {
            Some(acceptor) => acceptor.join().unwrap_or(Err(HostError::Panicked)),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        // `stop` reports a failed flush.
        let _ = self.join();
    }
}

/// The socket file, if there is one; goes even if the server panics.
struct SocketFile(Address);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.0 {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What all threads of a server share.
struct House {
    disk: SharedDisk,
    export: Export,
    options: Options,
    stopper: Stopper,
    clients: Mutex<BTreeMap<u64, Arc<Stream>>>,
    /// A client has come as far as transmission.
    served: AtomicBool,
}

/// A client's place; left even if serving it panics, so that it is not kept waiting.
struct Seat<'a> {
    house: &'a House,
    id: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut clients = self.house.clients();
        if let Some(stream) = clients.remove(&self.id) {
            stream.close();
        }
        // A client still in its handshake counts as present: it may have been promised
        // transmission.
        let last = clients.is_empty() && self.house.served.load(SeqCst);
        if last && self.house.options.stop_after_last {
            self.house.stopper.stop();
        }
    }
}

impl House {
    fn serve(&self, listener: &Listener, woken: &UnixStream) {
        thread::scope(|threads| {
            for id in 0.. {
                let Some(stream) = self.next_client(listener, woken) else {
                    break;
                };
                let stream = Arc::new(stream);
                let seated = self.seat(id, &stream).and_then(|seat| {
                    // Where no thread is to be had, the closure is dropped, and the seat with it.
                    let attend = move || self.attend(&seat, &stream);
                    Ok(thread::Builder::new()
                        .name(format!("nbd client {id}"))
                        .spawn_scoped(threads, attend)?)
                });
                if let Err(refusal) = seated {
                    self.report(&refusal);
                }
            }
            self.clients().values().for_each(|stream| stream.close());
        });
    }

    /// Waits for a client; `None` when stopped.
    fn next_client(&self, listener: &Listener, woken: &UnixStream) -> Option<Stream> {
        loop {
            // Whatever poll says, the flag and `accept` know better.
            let _ = listener.wait(woken);
            if self.stopper.is_stopped() {
                return None;
            }
            match listener.accept() {
                Ok(stream) => return Some(stream),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.report(&error.into());
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    fn seat(&self, id: u64, stream: &Arc<Stream>) -> Result<Seat<'_>, ClientError> {
        let mut clients = self.clients();
        if clients.len() >= self.options.clients_max {
            return Err(ClientError::TooMany(clients.len()));
        }
        clients.insert(id, stream.clone());
        Ok(Seat { house: self, id })
    }

    /// Serves a client, which leaves its seat when the thread ends.
    fn attend(&self, _: &Seat<'_>, stream: &Stream) {
        if let Err(error) = self.converse(stream)
            && !self.stopper.is_stopped()
        {
            self.report(&error);
        }
    }

    fn converse(&self, stream: &Stream) -> Result<(), ClientError> {
        let mut input = BufReader::with_capacity(READ_BUFFER, stream);
        let mut output = stream;
        stream.set_patience(Some(HANDSHAKE_PATIENCE))?;
        if handshake::negotiate(&mut input, &mut output, &self.export)? == handshake::Outcome::Left
        {
            return Ok(());
        }
        stream.set_patience(None)?;
        self.served.store(true, SeqCst);
        match transmission::serve(&mut input, &mut output, &self.disk, &self.export) {
            // Leaving without a word, replies unread, is a client's good right.
            Err(ClientError::Io(error)) if is_departure(&error) => Ok(()),
            other => other,
        }
    }

    fn report(&self, error: &ClientError) {
        if let Some(dropped) = &self.options.dropped {
            dropped(error);
        }
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Stream>>> {
        // Insertions and removals only: a panic elsewhere leaves the map whole.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_departure(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
