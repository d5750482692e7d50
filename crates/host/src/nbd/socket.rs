//! Unix and TCP sockets under one name.

use crate::HostError;
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// Where a server listens. Parsed from `unix:/PATH`, `/PATH`, `HOST:PORT` or `[IPV6]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file, removed when the server ends.
    Unix(PathBuf),
    /// An interface and port; port 0 takes a free one.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let bad = |found: String| HostError::BadAddress {
            text: text.into(),
            found,
        };
        if let Some(path) = text
            .strip_prefix("unix:")
            .or(text.starts_with('/').then_some(text))
        {
            return if path.is_empty() {
                Err(bad("an empty path".into()))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let mut found = text
            .to_socket_addrs()
            .map_err(|error| bad(error.to_string()))?;
        found
            .next()
            .map(Self::Tcp)
            .ok_or_else(|| bad("a host without an address".into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A socket that clients connect to; never blocks in `accept`.
pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens, and gives the address with the port that was taken.
    pub fn bind(address: &Address) -> io::Result<(Self, Address)> {
        let (listener, bound) = match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                (Self::Unix(UnixListener::bind(path)?), address.clone())
            }
            Address::Tcp(socket) => {
                let listener = TcpListener::bind(socket)?;
                let bound = listener.local_addr()?;
                (Self::Tcp(listener), Address::Tcp(bound))
            }
        };
        match &listener {
            Self::Unix(inner) => inner.set_nonblocking(true)?,
            Self::Tcp(inner) => inner.set_nonblocking(true)?,
        }
        Ok((listener, bound))
    }

    /// Waits until a client is there or `wake` is written to.
    pub fn wait(&self, wake: &UnixStream) -> io::Result<()> {
        let listener: BorrowedFd<'_> = match self {
            Self::Unix(inner) => inner.as_fd(),
            Self::Tcp(inner) => inner.as_fd(),
        };
        let mut events = [
            PollFd::from_borrowed_fd(listener, PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
        ];
        poll(&mut events, None)?;
        Ok(())
    }

    /// The next client, if one is there. Small replies go out at once.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(inner) => {
                let (stream, _) = inner.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(inner) => {
                let (stream, _) = inner.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// Removes the socket file of a server that died; one that is alive, or any other file, stays and
/// `bind` complains.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = path
        .symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// A connection. Reads and writes go through a shared reference, as with the sockets themselves.
#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// How long a read may wait; `None` for ever.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(inner) => inner.set_read_timeout(patience),
            Self::Tcp(inner) => inner.set_read_timeout(patience),
        }
    }

    /// Ends the connection; a thread that waits on it returns. A connection that ended already is
    /// no error.
    pub fn close(&self) {
        let _ = match self {
            Self::Unix(inner) => inner.shutdown(Shutdown::Both),
            Self::Tcp(inner) => inner.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(inner) => (&*inner).read(buf),
            Stream::Tcp(inner) => (&*inner).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(inner) => (&*inner).write(data),
            Stream::Tcp(inner) => (&*inner).write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_host_with_a_port() {
        let parse = |text: &str| text.parse::<Address>();
        assert_eq!(
            parse("/run/x.sock").unwrap(),
            Address::Unix("/run/x.sock".into())
        );
        assert_eq!(
            parse("unix:x.sock").unwrap(),
            Address::Unix("x.sock".into())
        );
        assert_eq!(
            parse("127.0.0.1:10809").unwrap().to_string(),
            "127.0.0.1:10809"
        );
        for bad in ["", "unix:", "x.sock", "127.0.0.1", "127.0.0.1:70000"] {
            let error = parse(bad).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("address {bad:?}: found ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_dead_servers_socket_is_replaced_but_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("socket"));
        drop(Listener::bind(&address).unwrap());
        let _alive = Listener::bind(&address).unwrap();
        assert!(Listener::bind(&address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse));

        let file = dir.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(Listener::bind(&Address::Unix(file.clone())).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }
}
