//! A network block device server: one disk, any number of clients, over a Unix socket or TCP.
//!
//! Speaks the fixed newstyle handshake and simple replies, with flush, FUA, trim, write-zeroes and
//! several connections, as qemu, libnbd, fio and the kernel's client do. Extents need not be whole
//! sectors.
//!
//! | module | idea |
//! |---|---|
//! | `wire` | the protocol's bytes |
//! | `handshake` | agreeing on an export |
//! | `transmission` | requests and replies |
//! | `socket` | Unix and TCP alike |
//! | `server` | listening, one thread a client, stopping |
//!
//! There is no encryption and no authentication: a TCP address should be the loopback's.

mod handshake;
mod server;
mod socket;
mod transmission;
mod wire;

pub use server::{Dropped, Options, Server, Stopper};
pub use socket::Address;

/// The disk as a client sees it.
#[derive(Clone, Debug)]
struct Export {
    name: String,
    bytes: u64,
    /// Bytes that the device takes at once; a power of two.
    preferred_block: u32,
    read_only: bool,
}

/// Why a client was dropped.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client sent what the protocol does not have there.
    #[error("{what}: found {found:#x}, expected {expected:#x}")]
    Unexpected {
        /// The name of the protocol field.
        what: &'static str,
        /// The value that the server sent.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// The client announced more than the server takes.
    #[error("{what} of {found} bytes, at most {limit} are taken")]
    TooLong {
        /// The part that the server announced.
        what: &'static str,
        /// The length that it announced, in bytes.
        found: u32,
        /// The greatest length that is accepted.
        limit: u32,
    },
    /// The client insists on an export that is not there.
    #[error("no export is named {0:?}")]
    UnknownExport(String),
    /// More clients than [`Options::clients_max`].
    #[error("{0} clients are connected already")]
    TooMany(usize),
    /// The connection failed, or the client was silent for too long during the handshake.
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
}
