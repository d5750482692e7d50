//! The transmission phase: one request after the other, each answered before the next is read.
//!
//! A bad request gets an error number; only a client whose next request cannot be found any more
//! (wrong magic, oversize payload) is dropped. Buffers are reused, grow with the bytes that really
//! arrive or are really read, and are given back after a rare huge request.

use super::{ClientError, Export, wire};
use crate::{Bytes, Hole, SharedDisk};
use nandlab_block::{BlockDevice, BlockError};
use std::io::{Read, Write};
use wire::{Request, command, command_flags, errno};

const HEADER: usize = 16;

/// Buffers beyond this are given back after use, in bytes.
const KEPT: usize = 4 << 20;

/// Serves requests until the client leaves.
pub fn serve(
    input: &mut impl Read,
    output: &mut impl Write,
    disk: &SharedDisk,
    export: &Export,
) -> Result<(), ClientError> {
    let mut session = Session {
        disk,
        export,
        payload: Vec::new(),
        reply: vec![0; HEADER],
    };
    while let Some(request) = Request::read(input)? {
        if request.command == command::DISCONNECT {
            break;
        }
        if request.command == command::WRITE {
            session.receive(input, request.length)?;
        }
        output.write_all(session.answer(&request))?;
        session.give_back();
    }
    Ok(())
}

struct Session<'a> {
    disk: &'a SharedDisk,
    export: &'a Export,
    /// What the current write brought.
    payload: Vec<u8>,
    /// A header and the buffer for a read.
    reply: Vec<u8>,
}

impl Session<'_> {
    /// Takes a write's payload, even if the write will be refused: the next request stands behind
    /// it.
    fn receive(&mut self, input: &mut impl Read, length: u32) -> Result<(), ClientError> {
        if length > wire::PAYLOAD_MAX {
            return Err(ClientError::TooLong {
                what: "write",
                found: length,
                limit: wire::PAYLOAD_MAX,
            });
        }
        self.payload.clear();
        let arrived = input.take(length.into()).read_to_end(&mut self.payload)?;
        wire::expect("bytes of a write", arrived as u64, length.into())
    }

    fn answer(&mut self, request: &Request) -> &[u8] {
        let (error, data) = match self.check(request).and_then(|()| self.execute(request)) {
            Ok(data) => (0, data),
            Err(error) => (error, 0),
        };
        let (header, _) = self
            .reply
            .split_first_chunk_mut()
            .expect("the buffer is never shorter than a header");
        wire::put_simple_reply(header, error, request.cookie);
        &self.reply[..HEADER + data]
    }

    /// Refuses what can be refused without the device, with its error number.
    fn check(&self, request: &Request) -> Result<(), u32> {
        let Request {
            command,
            flags,
            offset,
            length,
            ..
        } = *request;
        let (allowed, beyond) = match command {
            command::READ => (0, errno::INVALID),
            command::FLUSH if flags & !command_flags::FUA == 0 => return Ok(()),
            command::WRITE => (0, errno::NO_SPACE),
            command::TRIM => (0, errno::INVALID),
            command::WRITE_ZEROES => (command_flags::NO_HOLE, errno::NO_SPACE),
            _ => return Err(errno::INVALID),
        };
        if self.export.read_only && command != command::READ {
            return Err(errno::PERMISSION);
        }
        if flags & !(allowed | command_flags::FUA) != 0
            || (command == command::READ && length > wire::PAYLOAD_MAX)
        {
            return Err(errno::INVALID);
        }
        let inside = offset
            .checked_add(length.into())
            .is_some_and(|end| end <= self.export.bytes);
        if inside { Ok(()) } else { Err(beyond) }
    }

    /// Gives the number of bytes read, or an error number.
    fn execute(&mut self, request: &Request) -> Result<usize, u32> {
        let offset = request.offset;
        let length = u64::from(request.length);
        if request.command == command::READ {
            let end = HEADER + request.length as usize;
            if self.reply.len() < end {
                self.reply.resize(end, 0);
            }
            let data = &mut self.reply[HEADER..end];
            self.disk
                .with(|disk| disk.read(offset, data))
                .map_err(number)?;
            return Ok(request.length as usize);
        }
        let durable = request.flags & command_flags::FUA != 0;
        self.disk
            .with(|disk| change(disk, request, (offset, length), &self.payload, durable))
            .map_err(number)?;
        Ok(0)
    }

    fn give_back(&mut self) {
        for buffer in [&mut self.payload, &mut self.reply] {
            if buffer.len() > KEPT {
                buffer.truncate(HEADER);
                buffer.shrink_to(HEADER);
            }
        }
    }
}

/// Everything that a request may do to the device but reading. `check` has let through no other
/// command.
fn change<D: BlockDevice>(
    disk: &mut Bytes<D>,
    request: &Request,
    (offset, length): (u64, u64),
    payload: &[u8],
    durable: bool,
) -> Result<(), BlockError> {
    let hole = if request.flags & command_flags::NO_HOLE == 0 {
        Hole::Allowed
    } else {
        Hole::Forbidden
    };
    match request.command {
        command::WRITE => disk.write(offset, payload)?,
        command::TRIM => disk.trim(offset, length)?,
        command::WRITE_ZEROES => disk.zero(offset, length, hole)?,
        _ => return disk.flush(),
    }
    if durable { disk.flush() } else { Ok(()) }
}

/// The error number on the wire. The protocol has none for a read-only device but "not permitted".
fn number(error: BlockError) -> u32 {
    match error {
        BlockError::BadLength { .. } | BlockError::OutOfRange { .. } => errno::INVALID,
        BlockError::WornOut(_) => errno::NO_SPACE,
        BlockError::PowerCut => errno::SHUTDOWN,
        BlockError::Unsupported => errno::UNSUPPORTED,
        BlockError::ReadOnly(_) => errno::PERMISSION,
        BlockError::Lost { .. }
        | BlockError::Missing { .. }
        | BlockError::Internal(_)
        | BlockError::Backing(_) => errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::watched_ram;

    fn session(test: impl FnOnce(&mut Session<'_>)) {
        let disk = SharedDisk::new(Box::new(watched_ram(512, 1 << 14).0));
        let export = Export {
            name: String::new(),
            bytes: disk.bytes(),
            preferred_block: 4096,
            read_only: false,
        };
        test(&mut Session {
            disk: &disk,
            export: &export,
            payload: Vec::new(),
            reply: vec![0; HEADER],
        });
    }

    #[test]
    fn a_claimed_length_takes_no_memory_until_the_bytes_arrive() {
        session(|session| {
            let error = session
                .receive(&mut &[1; 4096][..], wire::PAYLOAD_MAX)
                .unwrap_err();
            assert_eq!(
                error.to_string(),
                "bytes of a write: found 0x1000, expected 0x2000000"
            );
            assert!(
                session.payload.capacity() <= 64 << 10,
                "{} bytes",
                session.payload.capacity()
            );
        });
    }

    #[test]
    fn a_refused_read_takes_no_memory_and_a_huge_one_gives_it_back() {
        session(|session| {
            let mut read = Request {
                flags: 0,
                command: command::READ,
                cookie: [7; 8],
                offset: 0,
                length: wire::PAYLOAD_MAX,
            };
            assert_eq!(session.answer(&read).len(), HEADER);
            assert_eq!(session.reply.len(), HEADER);
            read.length = 8 << 20;
            assert_eq!(session.answer(&read).len(), HEADER + (8 << 20));
            session.give_back();
            assert!(session.reply.capacity() <= KEPT);
            read.length = 512;
            assert_eq!(session.answer(&read)[8..16], [7; 8]);
        });
    }
}
