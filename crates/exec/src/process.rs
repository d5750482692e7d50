//! The program: started once, and asked for a new layer by a message that carries a socket.

use crate::wire::{HEAD, HELLO, Head, VERSION, name};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, send, sendmsg, socketpair, sockopt,
};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A program that sends nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// The name of the exchange with which an instance begins.
const GREETING: &str = "hello";

/// Why a program does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program did not start.
    #[error("{program}: not started")]
    Start {
        /// Its path.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program ended before it was ready.
    #[error(
        "{program}: ended before it was ready; it must take sockets from its standard input, as \
         the clients do"
    )]
    NotReady {
        /// Its path.
        program: PathBuf,
    },
    /// The program ended within a call.
    #[error("the program ended within `{call}`")]
    Ended {
        /// The call of nandlab that was open.
        call: &'static str,
    },
    /// The program hangs.
    #[error("the program sent nothing for {PATIENCE:?} within `{call}`, and was killed")]
    Hangs {
        /// The call of nandlab that was open.
        call: &'static str,
    },
    /// The program works without end.
    #[error("the program made {calls} calls of the chip within `{call}`, and was killed")]
    Endless {
        /// The open call of nandlab.
        call: &'static str,
        /// Its calls so far.
        calls: u64,
    },
    /// The socket failed.
    #[error("socket to the program")]
    Socket(#[from] io::Error),
    /// The program sent what the protocol does not have.
    #[error("found {found} from the program within `{call}`, expected {expected}")]
    Protocol {
        /// The call of nandlab that was open.
        call: &'static str,
        /// The message of the program.
        found: String,
        /// The messages that fit here.
        expected: &'static str,
    },
    /// The program answered with a failure.
    #[error("the program failed to {call}: {text}")]
    Failed {
        /// The call of nandlab.
        call: &'static str,
        /// Its own words.
        text: String,
    },
    /// The power went within the call.
    #[error("power cut")]
    PowerCut,
    /// The program says that a page lost its data.
    #[error("data lost")]
    Lost,
}

impl From<Errno> for ProgramError {
    fn from(error: Errno) -> Self {
        Self::Socket(error.into())
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), ProgramError> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// A program that starts with its first layer.
#[derive(Debug)]
pub struct Process {
    path: PathBuf,
    running: Mutex<Option<Arc<Server>>>,
}

/// The program at work. Dropping it kills the program and all that it forked.
#[derive(Debug)]
struct Server {
    child: Child,
    group: Pid,
    control: OwnedFd,
}

impl Process {
    /// The program in this file.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            running: Mutex::new(None),
        }
    }

    /// The file of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A socket to memory of its own. It starts a program again that serves one layer and exits.
    pub fn instance(&self) -> Result<Instance, ProgramError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(instance)) = running.as_ref().map(Server::instance) {
            return Ok(instance);
        }
        let server = running.insert(Arc::new(Server::start(&self.path)?));
        server.instance().map_err(|error| match error {
            ProgramError::Ended { .. } => ProgramError::NotReady {
                program: self.path.clone(),
            },
            other => other,
        })
    }
}

impl Server {
    fn start(path: &Path) -> Result<Self, ProgramError> {
        let (control, theirs) = pair()?;
        let child = Command::new(path)
            .stdin(theirs)
            // Our own output must stay free of lines that the program prints.
            .stdout(io::stderr())
            .process_group(0)
            .spawn()
            .map_err(|source| ProgramError::Start {
                program: path.into(),
                source,
            })?;
        let group = Pid::from_child(&child);
        Ok(Self {
            child,
            group,
            control,
        })
    }

    /// A new instance. It fails if the program has ended.
    fn instance(self: &Arc<Self>) -> Result<Instance, ProgramError> {
        let (ours, theirs) = pair()?;
        sockopt::set_socket_timeout(&ours, sockopt::Timeout::Recv, Some(PATIENCE))?;
        self.hand_over(theirs)?;
        let mut instance = Instance {
            socket: ours,
            process: self.group,
            server: self.clone(),
            message: Vec::new(),
            length: 0,
        };
        let head = instance.receive(GREETING, HEAD)?;
        let process = Pid::from_raw(head.arguments[0] as i32).filter(|_| head.kind == HELLO);
        instance.process = process.ok_or_else(|| ProgramError::Protocol {
            call: GREETING,
            found: format!("a message of kind {}", head.kind),
            expected: "a hello with the number of a process",
        })?;
        beside_caller(instance.process);
        Ok(instance)
    }

    /// Sends a socket to the program.
    fn hand_over(&self, socket: OwnedFd) -> Result<(), ProgramError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [socket.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let version = [IoSlice::new(&[VERSION])];
        let sent = || sendmsg(&self.control, &version, &mut ancillary, SendFlags::NOSIGNAL);
        retry_on_intr(sent)
            .map(drop)
            .map_err(|error| sending_failed(error, GREETING))
    }
}

/// A socket without a reader belongs to a program that has ended.
fn sending_failed(error: Errno, call: &'static str) -> ProgramError {
    match error {
        Errno::PIPE | Errno::CONNRESET => ProgramError::Ended { call },
        other => other.into(),
    }
}

/// Keeps a process on the processor of its caller. The two take turns, so that nothing runs at the
/// same time, and to wake a process on another processor costs several times as much.
fn beside_caller(process: Pid) {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    // A failure costs time, and nothing else.
    _ = sched_setaffinity(Some(process), &here);
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a program that has ended, which is as good.
        _ = kill_process_group(self.group, Signal::KILL);
        _ = self.child.wait();
    }
}

/// One layer in the program. Dropping it ends its process, if the program forked.
#[derive(Debug)]
pub struct Instance {
    socket: OwnedFd,
    process: Pid,
    server: Arc<Server>,
    /// Space for messages; `length` bytes of it are the last one.
    message: Vec<u8>,
    length: usize,
}

impl Instance {
    /// Sends a message.
    pub fn send(&self, message: &[u8], call: &'static str) -> Result<(), ProgramError> {
        let sent = || send(&self.socket, message, SendFlags::NOSIGNAL);
        retry_on_intr(sent)
            .map(drop)
            .map_err(|error| sending_failed(error, call))
    }

    /// The next message, of at most so many bytes; [`payload`](Self::payload) has its bytes.
    pub fn receive(&mut self, call: &'static str, most: usize) -> Result<Head, ProgramError> {
        let room = most.max(HEAD) + 1;
        if self.message.len() < room {
            self.message.resize(room, 0);
        }
        let received =
            retry_on_intr(|| recv(&self.socket, &mut self.message[..room], RecvFlags::empty()));
        let length = match received {
            Ok((_, 0)) | Err(Errno::CONNRESET) => return Err(ProgramError::Ended { call }),
            Ok((_, length)) => length,
            Err(Errno::AGAIN) => {
                self.kill();
                return Err(ProgramError::Hangs { call });
            }
            Err(error) => return Err(error.into()),
        };
        self.length = length;
        let head = Head::of(&self.message[..length]);
        head.filter(|_| length < room)
            .ok_or_else(|| ProgramError::Protocol {
                call,
                found: format!("a message of {length} bytes"),
                expected: "16 bytes and what the call has",
            })
    }

    /// The bytes behind the head of the last message.
    pub fn payload(&self) -> &[u8] {
        self.message.get(HEAD..self.length).unwrap_or_default()
    }

    /// Ends a process that gets nowhere, if it is one of the program's own.
    pub fn kill(&self) {
        if getpgid(Some(self.process)) == Ok(self.server.group) {
            _ = kill_process(self.process, Signal::KILL);
        }
    }
}

/// The words for a message out of place.
pub fn out_of_place(head: Head, call: u32) -> ProgramError {
    ProgramError::Protocol {
        call: name(call),
        found: format!("a message of kind {}", head.kind),
        expected: "an answer or a call of the chip",
    }
}
