//! The bytes of the NBD protocol: constants, requests, replies. All integers are big-endian.
//!
//! Facts from the protocol's specification (`doc/proto.md` of the NBD project).

use super::ClientError;
use std::io::Read;

/// `NBDMAGIC`, opens the server's greeting.
pub const GREETING: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, opens every option.
pub const OPTION: u64 = 0x4948_4156_454f_5054;
/// Opens every answer to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// The magic number of every request.
pub const REQUEST: u32 = 0x2560_9513;
/// Opens every simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;

/// The longest payload of a read or a write, in bytes.
pub const PAYLOAD_MAX: u32 = 32 << 20;
/// The longest data of an option, in bytes; a name has at most 4096.
pub const OPTION_DATA_MAX: u32 = 64 << 10;

/// What both sides say of themselves first.
pub mod handshake_flags {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Option codes, the `NBD_OPT_*` of the protocol.
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
}

/// Answers to options, `NBD_REP_*`.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const ERR_UNSUPPORTED: u32 = 1 << 31 | 1;
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
}

/// Parts of an answer to `INFO` and `GO`, `NBD_INFO_*`.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do, `NBD_FLAG_*`.
pub mod export_flags {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Command codes, the `NBD_CMD_*` of the protocol.
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

/// Flags of a command, `NBD_CMD_FLAG_*`.
pub mod command_flags {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
}

/// Error numbers on the wire, whatever the host's are.
pub mod errno {
    pub const PERMISSION: u32 = 1;
    pub const IO: u32 = 5;
    pub const INVALID: u32 = 22;
    pub const NO_SPACE: u32 = 28;
    pub const UNSUPPORTED: u32 = 95;
    pub const SHUTDOWN: u32 = 108;
}

/// One request of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: u16,
    /// Comes back in the reply.
    pub cookie: [u8; 8],
    /// The offset in the export, in bytes.
    pub offset: u64,
    /// The number of bytes.
    pub length: u32,
}

impl Request {
    /// Reads one; `None` if the client left between two requests.
    pub fn read(input: &mut impl Read) -> Result<Option<Self>, ClientError> {
        let magic = match array(input).map(u32::from_be_bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        };
        expect("request magic", magic.into(), REQUEST.into())?;
        Ok(Some(Self {
            flags: u16(input)?,
            command: u16(input)?,
            cookie: array(input)?,
            offset: u64(input)?,
            length: u32(input)?,
        }))
    }
}

/// Fills in the header of a simple reply.
pub fn put_simple_reply(header: &mut [u8; 16], error: u32, cookie: [u8; 8]) {
    header[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
    header[4..8].copy_from_slice(&error.to_be_bytes());
    header[8..].copy_from_slice(&cookie);
}

/// Refuses anything but what the protocol has here.
pub fn expect(what: &'static str, found: u64, expected: u64) -> Result<(), ClientError> {
    if found == expected {
        Ok(())
    } else {
        Err(ClientError::Unexpected {
            what,
            found,
            expected,
        })
    }
}

/// Reads a big-endian `u16`.
pub fn u16(input: &mut impl Read) -> Result<u16, ClientError> {
    Ok(u16::from_be_bytes(array(input)?))
}

/// Reads a big-endian `u32`.
pub fn u32(input: &mut impl Read) -> Result<u32, ClientError> {
    Ok(u32::from_be_bytes(array(input)?))
}

/// Reads a big-endian `u64`.
pub fn u64(input: &mut impl Read) -> Result<u64, ClientError> {
    Ok(u64::from_be_bytes(array(input)?))
}

fn array<const N: usize>(input: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_28_bytes_and_a_client_may_leave_only_between_two() {
        let mut raw = REQUEST.to_be_bytes().to_vec();
        raw.extend([0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8]);
        raw.extend(0x1_0000_0000u64.to_be_bytes());
        raw.extend(4096u32.to_be_bytes());
        assert_eq!(raw.len(), 28);
        let mut input = raw.as_slice();
        let expected = Request {
            flags: 1,
            command: 6,
            cookie: [1, 2, 3, 4, 5, 6, 7, 8],
            offset: 1 << 32,
            length: 4096,
        };
        assert_eq!(Request::read(&mut input).unwrap(), Some(expected));
        assert_eq!(Request::read(&mut input).unwrap(), None);
        assert!(matches!(
            Request::read(&mut &raw[..27]),
            Err(ClientError::Io(_))
        ));
        raw[0] ^= 1;
        let error = Request::read(&mut raw.as_slice()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "request magic: found 0x24609513, expected 0x25609513"
        );
    }
}
