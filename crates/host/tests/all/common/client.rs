//! An NBD client that sends any request, sound or not.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
};

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ENOTSUP: u32 = 95;
pub const ESHUTDOWN: u32 = 108;

pub struct Client {
    pub stream: UnixStream,
    cookie: u64,
}

/// The export that `GO` described.
pub struct Export {
    pub bytes: u64,
    pub flags: u16,
    pub block_sizes: [u32; 3],
}

impl Client {
    /// Connects and hears the greeting.
    pub fn greet(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        Ok(Self { stream, cookie: 0 })
    }

    /// Connects and goes on to transmission.
    pub fn connect(path: &Path) -> io::Result<(Self, Export)> {
        let mut client = Self::greet(path)?;
        let go = [
            &3u32.to_be_bytes()[..],
            b"IHAVEOPT",
            &[0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 3],
        ]
        .concat();
        client.stream.write_all(&go)?;
        let mut export = Export {
            bytes: 0,
            flags: 0,
            block_sizes: [0; 3],
        };
        loop {
            let head: [u8; 20] = client.take()?;
            let mut data = vec![0; u32::from_be_bytes(head[16..].try_into().unwrap()) as usize];
            client.stream.read_exact(&mut data)?;
            match (head[15], &data[..]) {
                (1, []) => return Ok((client, export)),
                (3, [0, 0, bytes @ .., a, b]) => {
                    export.bytes = u64::from_be_bytes(bytes.try_into().unwrap());
                    export.flags = u16::from_be_bytes([*a, *b]);
                }
                (3, [0, 3, sizes @ ..]) => {
                    export.block_sizes = [0, 4, 8]
                        .map(|at| u32::from_be_bytes(sizes[at..at + 4].try_into().unwrap()));
                }
                other => panic!("unexpected answer {other:?}"),
            }
        }
    }

    /// Sends a request's header only.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> io::Result<()> {
        self.cookie += 1;
        let mut raw = 0x2560_9513u32.to_be_bytes().to_vec();
        raw.extend(flags.to_be_bytes());
        raw.extend(command.to_be_bytes());
        raw.extend(self.cookie.to_be_bytes());
        raw.extend(offset.to_be_bytes());
        raw.extend(length.to_be_bytes());
        self.stream.write_all(&raw)
    }

    /// The reply's error number to the last request.
    pub fn reply(&mut self) -> io::Result<u32> {
        let head: [u8; 16] = self.take()?;
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        assert_eq!(head[8..], self.cookie.to_be_bytes());
        Ok(u32::from_be_bytes(head[4..8].try_into().unwrap()))
    }

    /// A request without payload and its error number.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        self.send(command, flags, offset, length).unwrap();
        self.reply().unwrap()
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        self.send(WRITE, flags, offset, data.len() as u32).unwrap();
        self.stream.write_all(data).unwrap();
        self.reply().unwrap()
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        match self.ask(READ, 0, offset, length) {
            0 => {
                let mut data = vec![0; length as usize];
                self.stream.read_exact(&mut data).unwrap();
                Ok(data)
            }
            error => Err(error),
        }
    }

    /// Whether the server has hung up.
    pub fn is_dropped(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 64]), Ok(0) | Err(_))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
